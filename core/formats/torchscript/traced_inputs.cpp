#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <cstring>

#include "core/archive/archive_check.h"
#include "core/formats/torchscript/file.h"
#include "core/torch/values/values.h"

namespace graft {

// Tracing keeps its example inputs as a dictionary from methods to lists of tensors, without the tensors' elements.
// This reads them as tensors without memory: only their dtypes and sizes may be used.
std::vector<Type> tracedInputs(const ZipDirectory& zip, const std::string& method) {
  constexpr size_t largest = 1'000'000;
  const ZipRecord* record = zip.find("traced_inputs.pkl");
  if (!record || record->size > largest) return {};
  const std::string_view bytes = zip.bytes(*record);
  if (!checkPickle(bytes, record->name, [](std::string_view) { return std::optional<size_t>(SIZE_MAX); })) return {};
  std::vector<Type> out;
  try {
    size_t at = 0;
    const auto read = [&](char* to, size_t n) {
      n = std::min(n, bytes.size() - at);
      std::memcpy(to, bytes.data() + at, n);
      at += n;
      return n;
    };
    torch::jit::Unpickler unpickler(
        read, nullptr, nullptr, [](const std::string&) { return at::DataPtr(); }, c10::Device(c10::kCPU));
    const c10::IValue methods = unpickler.parse_ivalue();
    for (const auto& entry : methods.toGenericDict()) {
      if (!entry.key().isString() || entry.key().toStringRef() != method) continue;
      for (const c10::IValue& v : entry.value().toListRef()) {
        out.push_back(typeOfValue(v));
        out.back().tensorInfo.device.clear();  // it need not run where it was traced
      }
    }
  } catch (const std::exception&) {
    out.clear();  // the model is complete without it
  }
  return out;
}

}  // namespace graft
