// Numbers that a traced model computes by tensors without dimensions, from numbers and constants alone:
// int(torch.tensor(256) ** 0.5). Left in the graph, such a tensor may come to lie on a GPU, and each call then waits
// for it.
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/ir/calls/written_sources.h"
#include "core/torch/normal/normal_steps.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

class NumberSettler {
 public:
  explicit NumberSettler(Graph& g) : g_(g), written_(writtenSources(g)) {}

  void run() {
    for (const NodeId id : g_.order()) {
      const Node& n = g_.node(id);
      if (!givesNumber(n)) continue;
      const std::optional<c10::IValue> value = valueOf(n.outputs[0], mostSteps);
      if (!value) continue;
      std::optional<Argument> number;
      if (value->isInt()) number = Argument(value->toInt());
      if (value->isDouble()) number = Argument(value->toDouble());
      if (value->isBool()) number = Argument(value->toBool());
      if (number) becomeNumber(g_, n.outputs[0], *number);
    }
  }

 private:
  static constexpr int mostSteps = 12;

  /// Of a tensor.
  static bool givesNumber(const Node& n) {
    static constexpr std::array names{
        "aten.Int.Tensor",          "aten.Float.Tensor",          "aten.Bool.Tensor",           "aten.item.default",
        "aten.IntImplicit.default", "aten.FloatImplicit.default", "aten.ScalarImplicit.default"};
    return n.outputs.size() == 1 && n.args.size() == 1 && n.args[0].isValue() &&
           std::find(names.begin(), names.end(), n.op->name) != names.end();
  }

  /// Numbers, and operators of them that have no effect and always give the same.
  bool isPlain(const Node& n) const {
    if (!n.blocks.empty() || n.outputs.size() != 1 || !n.op->hasSchema || n.op->writes() || n.op->sideEffects)
      return false;
    if (n.op->random || n.op->is(OperatorFact::Random)) return false;
    return n.kwargs.empty() && std::all_of(n.args.begin(), n.args.end(), [](const Argument& a) {
             const auto* device = a.as<DeviceName>();
             return !a.items() && (!device || device->name == "cpu");
           });
  }

  std::optional<c10::IValue> valueOf(ValueId v, int steps) {
    if (const auto it = known_.find(v); it != known_.end()) return it->second;
    if (written_.contains(v)) return std::nullopt;
    if (numberOfConstant(g_, Argument(v))) return c10::IValue(weightTensor(g_.value(v)));
    const NodeId producer = g_.value(v).producer;
    if (!producer || steps == 0 || !isPlain(g_.node(producer))) return std::nullopt;
    std::optional<c10::IValue> out = computed(g_.node(producer), steps - 1);
    if (out && out->isTensor() && (!out->toTensor().defined() || out->toTensor().dim() != 0)) out.reset();
    return known_.emplace(v, std::move(out)).first->second;
  }

  std::optional<c10::IValue> computed(const Node& n, int steps) {
    std::unordered_map<ValueId, c10::IValue> operands;
    for (const Argument& a : n.args) {
      if (!a.isValue()) continue;
      std::optional<c10::IValue> value = valueOf(a.valueId(), steps);
      if (!value) return std::nullopt;
      operands.emplace(a.valueId(), std::move(*value));
    }
    const auto op = findScriptOperator(torchName(n.op->name));
    if (!op || op->schema().arguments().size() != n.args.size()) return std::nullopt;
    torch::jit::Stack stack;
    for (size_t i = 0; i < n.args.size(); ++i) {
      Result<c10::IValue> value = argumentValue(n, i, op->schema(), [&](ValueId v) { return &operands.at(v); });
      if (!value) return std::nullopt;
      stack.push_back(std::move(*value));
    }
    try {
      op->getOperation()(stack);
    } catch (const std::exception&) {
      return std::nullopt;  // what it says belongs to the call
    }
    return stack.size() == 1 ? std::optional(std::move(stack[0])) : std::nullopt;
  }

  Graph& g_;
  const std::unordered_set<ValueId> written_;
  std::unordered_map<ValueId, std::optional<c10::IValue>> known_;
};

}  // namespace

void becomeNumber(Graph& g, ValueId v, const Argument& number) {
  const auto change = [&](const auto& self, const Argument& a) -> Argument {
    if (a.isValue()) return a.valueId() == v ? number : a;
    const auto* items = a.items();
    if (!items) return a;
    std::vector<Argument> out;
    for (const Argument& i : *items) out.push_back(self(self, i));
    return a.isList() ? Argument::list(std::move(out)) : Argument::tuple(std::move(out));
  };
  const std::vector<NodeId> users = g.value(v).users;
  for (const NodeId user : users) {
    std::vector<Argument> args = g.node(user).args;
    const auto& op = *g.node(user).op;
    // A number that becomes a tensor, or a container's element of unknown use, keeps its node.
    if (!op.hasSchema || op.variadic) continue;
    for (size_t i = 0; i < std::min(args.size(), op.parameters.size()); ++i) args[i] = change(change, args[i]);
    g.setArguments(user, std::move(args));
  }
}

void settleNumbers(Graph& g) { NumberSettler(g).run(); }

}  // namespace graft
