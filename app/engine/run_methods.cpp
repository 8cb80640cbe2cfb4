// The engine's method that runs models: timings, numerical differences outside and inside, memory.
#include "app/engine/methods.h"
#include "app/json/list_json.h"
#include "app/json/numbers_json.h"
#include "app/workbench/compare.h"

namespace graft {

using nlohmann::json;

namespace {

/// Enough to draw a distribution.
constexpr size_t samplesSent = 400;

json memoryJson(const MemoryUse& m) { return {{"weights", m.weights}, {"intermediates", m.intermediates}}; }

}  // namespace

json Session::Methods::run() const {
  const Document& d = s.document(params);
  const bool isOther = params.contains("other");
  const Document& from = isOther ? s.documentOf(params, "other") : d;
  workbench::InputRequest wanted = inputRequest();
  wanted.device = params.value("device", std::string("cpu"));
  const std::string dtype = has("dtype") ? text("dtype") : "";
  if (!dtype.empty()) {
    wanted.dtype = parseDType(dtype);
    if (!wanted.dtype) throw RpcError{1, fmt::format("{} is no dtype", dtype)};
  }
  const std::string baseline = has("baseline") ? text("baseline") : "graft";
  if (baseline != "graft" && baseline != "torchscript")
    throw RpcError{1, fmt::format("{} is no baseline; there are graft and torchscript", baseline)};
  workbench::MeasureRequest request;
  if (baseline == "torchscript") {
    if (!from.format->torchJitLoads)
      throw RpcError{1, fmt::format("{} is {}, not TorchScript: PyTorch cannot freeze it. Take Graft's executor as the "
                                    "baseline",
                                    from.path, from.format->name)};
    request.frozen = from.path;
  }
  const TensorSet inputs = take(workbench::inputsFor(d.history.original(), wanted)).tensors;
  request.options = {wanted.device, wanted.dtype, 0, !d.inputs.has_value()};
  request.seconds = params.value("seconds", 2.0);
  request.layers = params.value("layers", true);
  std::optional<workbench::Correspondence> known;
  if (!isOther) known = workbench::correspondenceOf(d.history);
  const workbench::Measurement m =
      take(workbench::measure(reference(d), d.graph(), known ? &*known : nullptr, inputs, request, job));
  json out = {{"baseline", baseline},
              {"layers", listJson(m.layers)},
              {"nodeTimes", {{"original", m.original.nodeMicroseconds}, {"rewritten", m.rewritten.nodeMicroseconds}}},
              {"calls", {{"original", m.original.calls}, {"rewritten", m.rewritten.calls}}},
              {"memory", {{"original", memoryJson(m.original.memory)}, {"rewritten", memoryJson(m.rewritten.memory)}}},
              {"device", wanted.device},
              {"dtype", dtype},
              {"inputs", inputs.describe()},
              {"revision", d.history.revision()}};
  out.update(toJson(m.verification));
  out.update(toJson(m.timing, samplesSent));
  return out;
}

}  // namespace graft
