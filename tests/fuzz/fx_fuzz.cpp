// The JSON that resources/python/graft_fx writes, beside one record of weights.
#include <cstdint>

#include "tests/fuzz/import_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string bytes(64, '\0');
  graft::fuzz::importRecords(
      {{"graft_fx.json", {reinterpret_cast<const char*>(data), size}}, {"weights/0", bytes}, {"weights/1", bytes}},
      [](const auto& source, const auto& s) { return graft::importFx(source, s, {}); });
  return 0;
}
