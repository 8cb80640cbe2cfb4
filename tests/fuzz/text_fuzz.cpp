// The canonical text: whatever parses must print, parse again and print the same.
#include <cstdint>
#include <cstdlib>

#include "core/text/text.h"
#include "tests/support/operators.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto g = graft::parseText({reinterpret_cast<const char*>(data), size}, graft::testOperators());
  if (!g) return 0;
  const std::string once = graft::toText(*g);
  const auto again = graft::parseText(once, graft::testOperators());
  if (!again || graft::toText(*again) != once) std::abort();
  return 0;
}
