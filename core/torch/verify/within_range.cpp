// inDTypeWithinRange: what of a model stays in float32 because half precision cannot hold its values.
#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <set>

#include "core/torch/executor.h"
#include "core/torch/graph_in_dtype.h"
#include "core/torch/run/dtype_change.h"
#include "core/torch/values/tensor_sets.h"
#include "core/torch/verify/overflow.h"

namespace graft {
namespace {

constexpr int mostRounds = 8;

class Search {
 public:
  Search(const Graph& g, DType to, const TensorSet& inputs, const Job& job)
      : g_(g), to_(to), inputs_(inputs), job_(job), device_(deviceOf(inputs)) {}

  /// Nothing where no choice of nodes helps, or none is needed.
  std::optional<GraphWithinRange> run() {
    const auto narrowInputs = convert(inputs_, device_, to_);
    if (!narrowInputs) return std::nullopt;
    for (int round = 0; round < mostRounds && !job_.cancelled(); ++round) {
      auto cast = inDType(g_, to_, {kept_.begin(), kept_.end()});
      if (!cast) return std::nullopt;
      const auto program = Program::build(cast->graph, {device_});
      if (!program) return std::nullopt;
      const auto narrow = Ranges::observe(*program, *narrowInputs);
      if (!narrow || !runWide()) return std::nullopt;
      // Outputs are casts of what stays in float32.
      bool suffers = false;
      for (size_t i = 0; i < g_.returns().size(); ++i) {
        size_t before = 0, after = 0;
        g_.returns()[i].forEachValue([&](ValueId v) { before += wide_->nonFinite(v); });
        cast->graph.returns()[i].forEachValue([&](ValueId v) { after += narrow->nonFinite(v); });
        suffers |= after > before;
      }
      if (!suffers && kept_.empty()) return std::nullopt;  // infinite in float32, too
      if (!suffers) return GraphWithinRange{std::move(cast->graph), names()};
      if (!keepMore(overflowedValues(g_, *narrow, *wide_))) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool runWide() {
    if (wide_) return true;
    const auto program = Program::build(g_, {device_});
    if (!program) return false;
    const auto inputs = convert(inputs_, device_, DType::Float32);
    if (!inputs) return false;
    auto ran = Ranges::observe(*program, *inputs);
    if (ran) wide_ = std::move(*ran);
    return wide_.has_value();
  }

  bool keep(NodeId id) {
    const Node& n = g_.node(id);
    return !n.op->writes() && n.blocks.empty() && kept_.insert(id).second;
  }

  /// Where overflow begins, and what holds or reads values that the dtype cannot hold. Where it still begins at a node
  /// that stays in float32, an operand came rounded: what computes the operands stays, too.
  bool keepMore(const OverflowedValues& overflowed) {
    bool isMore = false;
    const double most = largest(to_);
    const auto isLarge = [&](ValueId v) { return wide_->largest(v) > most; };
    for (const ValueId v : overflowed.all) {
      const NodeId producer = g_.value(v).producer;
      if (!producer) continue;
      const Node& n = g_.node(producer);
      const bool begins = overflowed.begins.contains(v);
      bool keeps = begins || isLarge(v);
      for (const Argument& a : n.args)
        a.forEachValue([&](ValueId from) { keeps |= overflowed.all.contains(from) && isLarge(from); });
      if (!keeps) continue;
      if (keep(producer)) {
        isMore = true;
      } else if (begins) {
        for (const Argument& a : n.args)
          a.forEachValue([&](ValueId from) {
            if (const NodeId p = g_.value(from).producer) isMore |= keep(p);
          });
      }
    }
    return isMore;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (NodeId id : g_.order())
      if (kept_.contains(id)) out.push_back(g_.node(id).name);
    return out;
  }

  const Graph& g_;
  const DType to_;
  const TensorSet& inputs_;
  const Job& job_;
  const std::string device_;
  std::set<NodeId> kept_;
  std::optional<Ranges> wide_;
};

}  // namespace

bool givesFiniteOutputs(const Graph& g, const TensorSet& inputs, const Job& job) {
  try {
    const auto program = Program::build(g, {deviceOf(inputs)});
    if (!program) return true;
    const auto out = program->run(copyOf(inputs), job);
    bool areFinite = true;
    if (out)
      mapTensors(*out, [&](const at::Tensor& t) {
        if (t.is_floating_point()) areFinite = areFinite && at::isfinite(t).all().item<bool>();
        return t;
      });
    return areFinite;
  } catch (const std::exception&) {  // whoever needs the run's numbers says what is wrong
    return true;
  }
}

std::optional<GraphWithinRange> inDTypeWithinRange(const Graph& g, DType to, const TensorSet& inputs, const Job& job) {
  if (dtypeSize(to) != 2 || modelDType(g) != DType::Float32) return std::nullopt;
  try {
    return Search(g, to, inputs, job).run();
  } catch (const std::exception&) {  // nobody asked for these runs
    return std::nullopt;
  }
}

}  // namespace graft
