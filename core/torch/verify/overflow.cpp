// findOverflow: where the values of a model leave the range of their dtype.
#include "core/torch/verify/overflow.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/torch/values/values.h"

namespace graft {
namespace {

/// How many elements of each value are NaN or infinite, and the values in the order in which they are computed. Of a
/// value in a loop all rounds together.
struct NonFinite {
  std::unordered_map<ValueId, size_t> elements;
  std::vector<ValueId> order;

  size_t of(ValueId v) const {
    const auto at = elements.find(v);
    return at == elements.end() ? 0 : at->second;
  }
};

Result<NonFinite> countNonFinite(const Program& program, const TensorSet& inputs) {
  NonFinite out;
  at::manual_seed(verificationSeed);
  auto run = program.observe(copyOf(inputs), [&](ValueId id, const TensorSet& value) {
    size_t n = 0;
    for (const c10::IValue& v : valuesOf(value)) {
      if (!v.isTensor() || !v.toTensor().defined()) continue;
      const at::Tensor& t = v.toTensor();
      if (t.is_meta() || t.layout() != at::kStrided || !(t.is_floating_point() || t.is_complex())) continue;
      n += static_cast<size_t>(t.numel() - at::isfinite(t).sum().item<int64_t>());
    }
    const auto [at, isNew] = out.elements.try_emplace(id, 0);
    at->second += n;
    if (isNew) out.order.push_back(id);
  });
  if (!run) return run.error();
  return out;
}

}  // namespace

std::optional<Overflow> findOverflow(const Graph& original, VerificationPrograms& programs, const TensorSet& inputs) {
  try {
    const auto narrow = countNonFinite(programs.original, inputs);
    if (!narrow) return std::nullopt;
    const auto wide = programs.reference.run(inputs, countNonFinite);
    if (!wide) return std::nullopt;
    const auto overflows = [&](ValueId v) { return narrow->of(v) > wide->of(v); };
    // What the outputs follow from, backwards along values that overflow: a mask that does so on the way to a softmax
    // harms nothing.
    std::vector<ValueId> open;
    for (const Argument& a : original.returns())
      a.forEachValue([&](ValueId v) {
        if (overflows(v)) open.push_back(v);
      });
    std::unordered_set<ValueId> begins, seen(open.begin(), open.end());
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      const NodeId producer = original.value(v).producer;
      if (!producer) continue;
      bool isFirst = true;
      const auto visit = [&](ValueId from) {
        if (!overflows(from)) return;
        isFirst = false;
        if (seen.insert(from).second) open.push_back(from);
      };
      const Node& n = original.node(producer);
      for (const Argument& a : n.args) a.forEachValue(visit);
      for (const auto& [name, a] : n.kwargs) a.forEachValue(visit);
      if (isFirst) begins.insert(v);
    }
    for (const ValueId v : narrow->order) {
      if (!begins.contains(v)) continue;
      const Node& n = original.node(original.value(v).producer);
      return Overflow{n.name, n.op->name, std::string(original.scopeOf(n.id)), narrow->of(v) - wide->of(v)};
    }
  } catch (const std::exception&) {  // nobody asked for this run
  }
  return std::nullopt;
}

std::optional<Overflow> findOverflow(const Graph& original, const TensorSet& inputs) {
  auto programs = buildVerificationPrograms(original, original, inputs, Missing::MadeUp);
  return programs ? findOverflow(original, *programs, inputs) : std::nullopt;
}

std::string overflowText(const Overflow& o) {
  return fmt::format("the first that overflows is `{}` ({}){}", o.node, o.op, o.scope.empty() ? "" : " in " + o.scope);
}

}  // namespace graft
