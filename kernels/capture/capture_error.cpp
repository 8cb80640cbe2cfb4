#include "kernels/capture/capture_error.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace graft {

bool isOutOfMemory(const std::exception& e) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&e)) return true;
  const std::string_view what = e.what();
  return what.find("out of memory") != what.npos || what.find("_STATUS_ALLOC_FAILED") != what.npos;
}

}  // namespace graft
