// A torch.export program's JSON, beside the weights that the corpus' programs name.
#include <cstdint>

#include "tests/fuzz/import_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string weights = [] {
    std::string config = R"({"config":{)";
    const auto add = [&](const char* name, const char* sizes, const char* strides) {
      config += std::string(config.ends_with('{') ? "" : ",") + '"' + name +
                R"(":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":{"dtype":7,"sizes":[)" +
                sizes + R"(],"requires_grad":true,"device":{"type":"cpu","index":null},"strides":[)" + strides +
                R"(],"storage_offset":{"as_int":0},"layout":7}})";
    };
    add("fc.weight", R"({"as_int":4},{"as_int":4})", R"({"as_int":4},{"as_int":1})");
    add("fc.bias", R"({"as_int":4})", R"({"as_int":1})");
    return config + "}}";
  }();
  static const std::string bytes(64, '\0');
  graft::fuzz::importRecords({{"models/model.json", {reinterpret_cast<const char*>(data), size}},
                              {"data/weights/model_weights_config.json", weights},
                              {"data/weights/weight_0", bytes}},
                             [](const auto& source, const auto& s) { return graft::importTorchExport(source, s); });
  return 0;
}
