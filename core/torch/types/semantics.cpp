#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/ir/calls/memory_format.h"
#include "core/torch/semantics.h"
#include "core/torch/types/meta_inference.h"
#include "core/torch/types/type_cache.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

// Runs a node on the values that `lookup` knows.
Result<torch::jit::Stack> runNode(const Graph& g, const Node& n, const ValueLookup& lookup) {
  const auto op = torch::jit::findOperatorFor(torchName(n.op->name));
  if (!op) return badInput(fmt::format("{} is not an operator that this machine has", n.op->name));
  const auto& schema = op->schema();
  torch::jit::Stack stack;
  for (size_t i = 0; i < n.args.size(); ++i) {
    auto v = argumentValue(n, i, schema, lookup);
    if (!v) return badInput(fmt::format("{}: {}", n.name, v.error().message));
    stack.push_back(std::move(*v));
  }
  try {
    const c10::NoGradGuard noGrad;
    checkCall(schema, stack);
    if (schema.is_vararg()) stack.emplace_back(static_cast<int64_t>(n.args.size()));
    op->getOperation()(stack);
  } catch (const std::exception& e) {
    return badInput(fmt::format("{}: {}", n.name, shortMessage(e)));
  }
  return stack;
}

// The memory format that a node asks for: `weight.contiguous(memory_format=torch.channels_last)`.
std::optional<at::MemoryFormat> askedFormat(const Node& n) {
  const std::string_view asked = askedChannelsLast(n);
  if (asked.empty()) return std::nullopt;
  return asked.ends_with("3d") ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

// First values of new parameters are random, but the same in every run. Others' random numbers go on as they were.
class SeededGenerator {
 public:
  explicit SeededGenerator(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~SeededGenerator() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(before_);
  }
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor before_;
};

using Weights = std::unordered_map<ValueId, c10::IValue>;

Result<torch::jit::Stack> runWith(const Graph& g, const Node& n, const Weights& weights) {
  return runNode(g, n, [&](ValueId v) -> const c10::IValue* {
    const auto it = weights.find(v);
    return it == weights.end() ? nullptr : &it->second;
  });
}

const at::Tensor* findUnrounded(const Graph& g, ValueId v) {
  const auto* weight = dynamic_cast<const TensorWeight*>(g.value(v).data.get());
  return weight && weight->unrounded.defined() ? &weight->unrounded : nullptr;
}

/// Larger results are seldom calculated with again, and would take three times their memory.
constexpr int64_t mostUnrounded = int64_t{1} << 18;  // elements

/// The half that the node computes in, where it may as well compute in float32: arithmetic of such halves alone, and
/// moves of what such arithmetic has made.
std::optional<at::ScalarType> halfOf(const Graph& g, const Node& n, const Weights& weights) {
  const bool moves = n.op->is(OperatorFact::MovesOnly);
  switch (n.op->facts->family) {
    case OperatorFamily::Arithmetic:
    case OperatorFamily::Activation:
    case OperatorFamily::Reduction:
    case OperatorFamily::Product:
      break;
    default:
      if (!moves) return std::nullopt;
  }
  if (!n.op->pure() || !n.op->name.starts_with("aten.") || n.outputs.size() != 1) return std::nullopt;
  if (n.op->is(OperatorFact::Jumps)) return std::nullopt;
  if (std::ranges::any_of(n.args, [](const Argument& a) { return a.as<DType>() != nullptr; })) return std::nullopt;
  std::optional<at::ScalarType> half;
  bool isCalculated = false;
  for (const auto& [id, value] : weights) {
    const at::ScalarType type = value.toTensor().scalar_type();
    if (!at::isFloatingType(type) && !at::isComplexType(type)) continue;
    if ((type != at::kHalf && type != at::kBFloat16) || (half && *half != type)) return std::nullopt;
    half = type;
    isCalculated = isCalculated || findUnrounded(g, id);
  }
  return moves && !isCalculated ? std::nullopt : half;
}

Weights unrounded(const Graph& g, Weights weights) {
  for (auto& [id, value] : weights)
    if (const at::Tensor* t = findUnrounded(g, id))
      value = *t;
    else if (at::isFloatingType(value.toTensor().scalar_type()))
      value = value.toTensor().to(at::kFloat);
  return weights;
}

/// What the node gives in float32; undefined where it gives something else, or memory is short.
at::Tensor unroundedResult(const Graph& g, const Node& n, const Weights& weights) {
  try {
    const auto run = runWith(g, n, unrounded(g, weights));
    if (run && run->size() == 1 && run->at(0).isTensor() && run->at(0).toTensor().scalar_type() == at::kFloat)
      return run->at(0).toTensor();
  } catch (const std::exception&) {
  }
  return {};
}

/// Channels-last is a layout that somebody asked for; other strides are accidents of the operators.
at::Tensor laidOut(at::Tensor t, std::optional<at::MemoryFormat> asked) {
  // The weights of depthwise and of 1x1 convolutions lie alike in both layouts, so PyTorch returns them as they are,
  // with the strides of a contiguous tensor. Operators read the layout from the strides.
  if (asked && t.suggest_memory_format() != *asked && t.is_contiguous(*asked))
    t = at::empty(t.sizes(), t.options().memory_format(*asked)).copy_(t);
  return t.contiguous(t.suggest_memory_format());
}

class TorchSemantics : public Semantics {
 public:
  const OperatorSet& operators() const override { return operators_; }

  Result<std::vector<Type>> inferTypes(const Graph& g, NodeId id) const override {
    if (auto types = cache_.find(g, g.node(id))) return std::move(*types);
    MetaInference meta(g);
    auto types = meta.run(id);
    if (types && meta.known()) cache_.remember(g, g.node(id), *types);
    return types;
  }

  Result<std::vector<Constant>> evaluate(const Graph& g, NodeId id) const override {
    const Node& n = g.node(id);
    const bool isRandom = n.op->random && !n.op->writes() && !n.op->sideEffects;
    if (!n.op->pure() && !isRandom)
      return badInput(fmt::format("{} ({}) cannot be computed beforehand", n.name, n.op->name));
    Weights values;
    std::string missing;
    const auto load = [&](ValueId v) {
      const at::Tensor t = weightTensor(g.value(v));
      if (t.defined())
        values.emplace(v, t);
      else
        missing = g.value(v).name;
    };
    for (const Argument& a : n.args) a.forEachValue(load);
    if (!missing.empty())
      return badInput(fmt::format("{} depends on {}, which is known only when the model runs", n.name, missing));
    std::optional<SeededGenerator> seeded;
    if (isRandom) seeded.emplace(std::hash<std::string>()(n.name));
    // A result of float32 is the half before it is rounded: the constant that many operators make is rounded once.
    const std::optional<at::ScalarType> half = halfOf(g, n, values);
    const at::Tensor wide = half ? unroundedResult(g, n, values) : at::Tensor();
    const bool isRoundedHere = wide.defined() && !n.op->is(OperatorFact::MovesOnly);
    auto stack = isRoundedHere ? torch::jit::Stack{wide.to(*half)} : runWith(g, n, values);
    if (!stack) return stack.error();
    const std::optional<at::MemoryFormat> asked = askedFormat(n);
    std::vector<Constant> out;
    for (const c10::IValue& v : *stack) {
      Constant c;
      c.type = typeOfValue(v);
      if (v.isTensor() && v.toTensor().layout() != at::kStrided) {
        return badInput(fmt::format("{} computes a sparse tensor, which is not kept as a constant", n.name));
      } else if (v.isTensor()) {
        const auto weight = std::make_shared<TensorWeight>(laidOut(v.toTensor(), asked));
        if (wide.defined() && wide.numel() <= mostUnrounded) weight->unrounded = laidOut(wide, asked);
        c.data = weight;
      } else if (auto literal = toArgument(v)) {
        c.literal = std::move(*literal);
      } else {
        return badInput(fmt::format("{} computes a {}, which cannot be kept as a constant", n.name, toString(c.type)));
      }
      out.push_back(std::move(c));
    }
    return out;
  }

 private:
  TorchOperators operators_;
  mutable TypeCache cache_;
};

}  // namespace

std::unique_ptr<Semantics> makeTorchSemantics() { return std::make_unique<TorchSemantics>(); }

}  // namespace graft
