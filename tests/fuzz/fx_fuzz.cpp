// The JSON that resources/python/graft_fx writes, beside the first weights that it may name.
#include <cstdint>

#include "core/formats/fx/format.h"
#include "tests/fuzz/import_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string bytes(1024, '\0');
  std::vector<std::pair<std::string, std::string_view>> files{
      {"graft_fx.json", {reinterpret_cast<const char*>(data), size}}};
  for (int i = 0; i < 12; ++i) files.emplace_back("weights/" + std::to_string(i), bytes);
  graft::fuzz::importRecords(files,
                             [](const auto& source, const auto& s) { return graft::FxFormat::read(source, s, {}); });
  return 0;
}
