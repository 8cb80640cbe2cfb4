// Where the values of a model leave the range of their dtype.
#include "core/torch/verify/overflow.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/torch/values/values.h"

namespace graft {

Ranges::Range Ranges::of(ValueId v) const {
  const auto at = ranges_.find(v);
  return at == ranges_.end() ? Range() : at->second;
}

Result<Ranges> Ranges::observe(const Program& program, const TensorSet& inputs) {
  Ranges out;
  at::manual_seed(verificationSeed);
  auto run = program.observe(copyOf(inputs), [&](ValueId id, const TensorSet& value) {
    const auto [at, isNew] = out.ranges_.try_emplace(id);
    if (isNew) out.order_.push_back(id);
    for (const c10::IValue& v : valuesOf(value)) {
      if (!v.isTensor() || !v.toTensor().defined()) continue;
      const at::Tensor& t = v.toTensor();
      if (t.is_meta() || t.layout() != at::kStrided || !t.is_floating_point() || t.numel() == 0) continue;
      const at::Tensor finite = at::isfinite(t);
      at->second.nonFinite += static_cast<size_t>(t.numel() - finite.sum().item<int64_t>());
      const double largest = at::where(finite, t.abs(), at::zeros({}, t.options())).max().item<double>();
      at->second.largest = std::max(at->second.largest, largest);
    }
  });
  if (!run) return run.error();
  return out;
}

OverflowedValues overflowedValues(const Graph& g, const Ranges& narrow, const Ranges& wide) {
  const auto overflows = [&](ValueId v) { return narrow.nonFinite(v) > wide.nonFinite(v); };
  OverflowedValues out;
  std::vector<ValueId> open;
  const auto visit = [&](ValueId v) {
    if (!overflows(v)) return false;
    if (out.all.insert(v).second) open.push_back(v);
    return true;
  };
  for (const Argument& a : g.returns()) a.forEachValue(visit);
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    const NodeId producer = g.value(v).producer;
    if (!producer) continue;
    bool isFirst = true;
    const auto look = [&](ValueId from) { isFirst &= !visit(from); };
    const Node& n = g.node(producer);
    for (const Argument& a : n.args) a.forEachValue(look);
    for (const auto& [name, a] : n.kwargs) a.forEachValue(look);
    if (isFirst) out.begins.insert(v);
  }
  return out;
}

std::optional<Overflow> findOverflow(const Graph& original, VerificationPrograms& programs, const TensorSet& inputs) {
  try {
    const auto narrow = Ranges::observe(programs.original, inputs);
    if (!narrow) return std::nullopt;
    const auto wide = programs.reference.run(inputs, Ranges::observe);
    if (!wide) return std::nullopt;
    const OverflowedValues overflowed = overflowedValues(original, *narrow, *wide);
    for (const ValueId v : narrow->order()) {
      if (!overflowed.begins.contains(v)) continue;
      const Node& n = original.node(original.value(v).producer);
      return Overflow{n.name, n.op->name, std::string(original.scopeOf(n.id)),
                      narrow->nonFinite(v) - wide->nonFinite(v)};
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
