// Programs of graft::generated, as files hold them: whatever is read as a group prints, and is read again as it was.
// Its loops, made for the types that the text claims, are refused or pass the verifier: code is made of no others.
#include <cstdint>
#include <cstdlib>

#include "core/compile/fusion/group_text.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "tests/support/operators.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto group = graft::parseGroup(text, graft::testOperators());
  if (!group) return 0;
  const std::string once = graft::groupText(*group);
  const auto again = graft::parseGroup(once, graft::testOperators());
  if (!again || graft::groupText(*again) != once) std::abort();
  if (const auto loops = graft::lower::lower(*group)) (void)graft::loops::verify(*loops);
  return 0;
}
