// A torch.export program's JSON, beside a weight for each name that it asks for: what has "weight" in its name is
// 4 x 4, everything else has four elements.
#include <algorithm>
#include <cstdint>
#include <set>

#include "core/formats/pt2/format.h"
#include "tests/fuzz/import_file.h"

namespace {

constexpr size_t records = 16;

/// The names after `key`, as they stand in the JSON; those that need an escape are left out.
void collect(std::string_view json, std::string_view key, std::set<std::string_view>& names) {
  for (size_t at = json.find(key); at != json.npos && names.size() < 64; at = json.find(key, at)) {
    at += key.size();
    const std::string_view name = json.substr(at, json.substr(at).find('"'));
    const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '\\'; };
    if (std::all_of(name.begin(), name.end(), plain)) names.insert(name);
  }
}

std::string weightsConfig(std::string_view json) {
  std::set<std::string_view> names;
  for (const char* key : {R"("parameter_name": ")", R"("buffer_name": ")", R"("tensor_constant_name": ")"})
    collect(json, key, names);
  std::string config = R"({"config":{)";
  size_t at = 0;
  for (std::string_view name : names) {
    const bool square = name.find("weight") != name.npos;
    config += std::string(at ? "," : "") + '"' + std::string(name) + R"(":{"path_name":"weight_)" +
              std::to_string(at % records) +
              R"(","is_param":true,"use_pickle":false,"tensor_meta":{"dtype":7,"sizes":[)" +
              (square ? R"({"as_int":4},{"as_int":4})" : R"({"as_int":4})") +
              R"(],"requires_grad":true,"device":{"type":"cpu","index":null},"strides":[)" +
              (square ? R"({"as_int":4},{"as_int":1})" : R"({"as_int":1})") +
              R"(],"storage_offset":{"as_int":0},"layout":7}})";
    ++at;
  }
  return config + "}}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string bytes(64, '\0');
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const std::string config = weightsConfig(json);
  std::vector<std::pair<std::string, std::string_view>> files{{"models/model.json", json},
                                                              {"data/weights/model_weights_config.json", config}};
  for (size_t i = 0; i < records; ++i) files.emplace_back("data/weights/weight_" + std::to_string(i), bytes);
  graft::fuzz::importRecords(
      files, [](const auto& source, const auto& s) { return graft::TorchExportFormat::read(source, s, {}); });
  return 0;
}
