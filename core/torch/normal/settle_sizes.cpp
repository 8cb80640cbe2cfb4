// Sizes of traced models, once types are known: torch.export asks its inputs for sizes and writes numbers where they
// are numbers; tracing asks whatever value stood in the code.
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
      if (numbersHold_) becomeNumber(g_, n.outputs[0], Argument(d.size));
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
    becomeNumber(g_, n.outputs[0], Argument(out));
  }

  Graph& g_;
  bool numbersHold_;
  std::unordered_map<std::string, std::pair<ValueId, int64_t>> asked_;  // symbol -> input and dimension
};

}  // namespace

void settleSizes(Graph& g, bool numbersHold) { SizeSettler(g, numbersHold).run(); }

}  // namespace graft
