#include "kernels/capture/capture_error.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace graft {

bool isOutOfMemory(const std::exception& e) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&e)) return true;
  const std::string_view what = e.what();
  return what.find("out of memory") != what.npos || what.find("_STATUS_ALLOC_FAILED") != what.npos;
}

std::string briefMessage(const std::exception& e) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  const std::string text = torch ? torch->what_without_backtrace() : e.what();
  constexpr std::string_view kCause = "RuntimeError: ";  // after the interpreter's lines of code
  const size_t at = text.rfind(kCause);
  const size_t begin = at == text.npos ? 0 : at + kCause.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace graft
