// Rule files: any text gives rules or an error with a place in the file.
#include <cstdint>
#include <cstdlib>

#include "matcher/lang/rule_file.h"
#include "tests/matcher/lang/operators.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = graft::parseRuleText({reinterpret_cast<const char*>(data), size}, "f.py", graft::test::operators());
  if (!file && file.error().message.empty()) std::abort();
  return 0;
}
