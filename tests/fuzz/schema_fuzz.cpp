// Operator schemas and types: whatever parses must print and parse to the same print.
#include <cstdint>
#include <cstdlib>

#include "core/ir/operator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto t = graft::parseType(text)) {
    const auto again = graft::parseType(graft::toString(*t));
    if (!again || graft::toString(*again) != graft::toString(*t)) std::abort();
  }
  if (const auto op = graft::parseSchema(text)) (void)graft::schemaString(**op);
  return 0;
}
