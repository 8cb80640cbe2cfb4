// Sizes of traced models, once types are known: torch.export asks its inputs for sizes and writes numbers where they
// are numbers; tracing asks whatever value stood in the code.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/torch/normal/normal_steps.h"

namespace graft {
namespace {

bool isArithmetic(const Node& n) { return n.op->is(OperatorFact::IntegerArithmetic); }

class SizeSettler {
 public:
  SizeSettler(Graph& g, bool numbersHold) : g_(g), numbersHold_(numbersHold) {}

  void run() {
    for (ValueId v : g_.inputs())
      if (const auto& shape = g_.value(v).type.tensorInfo.shape)
        for (size_t i = 0; i < shape->size(); ++i)
          if (!(*shape)[i].symbol.empty()) asked_.try_emplace((*shape)[i].symbol, v, static_cast<int64_t>(i));
    const std::vector<NodeId> order = g_.order();
    for (NodeId id : order) {
      if (g_.node(id).op->name == "aten.size.int")
        size(id);
      else if (isArithmetic(g_.node(id)))
        compute(id);
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Node& n = g_.node(*it);
      if ((n.op->name == "aten.size.int" || isArithmetic(n)) && g_.isUnused(n.outputs[0])) g_.erase(*it);
    }
  }

 private:
  void size(NodeId id) {
    const Node& n = g_.node(id);
    const auto* dim = n.args[1].as<int64_t>();
    if (!dim || !n.args[0].isValue() || g_.isInput(n.args[0].valueId())) return;
    const auto& shape = g_.value(n.args[0].valueId()).type.tensorInfo.shape;
    const int64_t at = shape && *dim < 0 ? *dim + static_cast<int64_t>(shape->size()) : *dim;
    if (!shape || at < 0 || at >= static_cast<int64_t>(shape->size())) return;
    const Dim& d = (*shape)[static_cast<size_t>(at)];
    if (d.isStatic()) {
      if (numbersHold_) becomes(n.outputs[0], d.size);
    } else if (const auto it = asked_.find(d.symbol); it != asked_.end()) {
      g_.setArguments(id, {Argument(it->second.first), Argument(it->second.second)});
    }
  }

  void compute(NodeId id) {
    const Node& n = g_.node(id);
    const auto* a = n.args[0].as<int64_t>();
    const auto* b = n.args.size() > 1 ? n.args[1].as<int64_t>() : a;
    if (!a || !b) return;
    int64_t out = 0;
    const std::string_view op = n.op->name;
    const bool overflow = op == "aten.add.int"   ? __builtin_add_overflow(*a, *b, &out)
                          : op == "aten.sub.int" ? __builtin_sub_overflow(*a, *b, &out)
                          : op == "aten.mul.int" ? __builtin_mul_overflow(*a, *b, &out)
                          : op == "aten.neg.int" ? __builtin_sub_overflow(int64_t{0}, *a, &out)
                                                 : *a < 0 || *b <= 0;
    if (overflow) return;
    if (op == "aten.floordiv.int") out = *a / *b;
    becomes(n.outputs[0], out);
  }

  /// The number in place of the value, wherever it is an argument; a result stays a value.
  void becomes(ValueId v, int64_t number) {
    const auto change = [&](const auto& self, const Argument& a) -> Argument {
      if (a.isValue()) return a.valueId() == v ? Argument(number) : a;
      const auto* items = a.items();
      if (!items) return a;
      std::vector<Argument> out;
      for (const Argument& i : *items) out.push_back(self(self, i));
      return a.isList() ? Argument::list(std::move(out)) : Argument::tuple(std::move(out));
    };
    const std::vector<NodeId> users = g_.value(v).users;
    for (NodeId user : users) {
      std::vector<Argument> args = g_.node(user).args;
      for (size_t i = 0; i < args.size(); ++i) {
        // A number that becomes a tensor, or a container's element of unknown use, keeps its node.
        const auto& op = *g_.node(user).op;
        if (!op.hasSchema || op.variadic || i >= op.parameters.size()) continue;
        args[i] = change(change, args[i]);
      }
      g_.setArguments(user, std::move(args));
    }
  }

  Graph& g_;
  bool numbersHold_;
  std::unordered_map<std::string, std::pair<ValueId, int64_t>> asked_;  // symbol -> input and dimension
};

}  // namespace

void settleSizes(Graph& g, bool numbersHold) { SizeSettler(g, numbersHold).run(); }

}  // namespace graft
