// Case files of the matcher: what parses must print, and parse again.
#include <cstdint>
#include <cstdlib>

#include "tests/matcher/rewrite/case_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = graft::test::parseCaseFile({reinterpret_cast<const char*>(data), size}, "f.case");
  if (!file) return 0;
  if (!graft::test::parseCaseFile(toText(*file), "f.case")) std::abort();
  return 0;
}
