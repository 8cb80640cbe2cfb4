// Operators whose normal form has its arguments in another order or another overload, or is another operator.
#include <limits>
#include <string>

#include "core/ir/operators/dtype_facts.h"
#include "core/torch/normal/normal_steps.h"

namespace graft {
namespace {

class Speller {
 public:
  Speller(Graph& g, const OperatorSet& operators) : g_(g), operators_(operators), facts_(g) {}

  void run() {
    for (NodeId id : g_.order())
      if (g_.node(id).op->hasSchema) spell(id);  // of others nothing is known of their arguments
  }

 private:
  void spell(NodeId id) {
    const std::string& op = g_.node(id).op->name;
    if (op == "aten.rsub.Tensor" || op == "aten.rsub.Scalar") {
      // rsub(x, y, alpha) = y - alpha * x
      const std::vector<Argument>& a = g_.node(id).args;
      become(id, "aten.sub.Tensor", {a[1], a[0], a[2]});
    } else if (op == "aten.add.Tensor") {
      subtraction(id);
    } else if (op == "prim.abs.default") {  // Python's own, scripted
      const Argument x = g_.node(id).args[0];
      if (x.isValue() && g_.value(x.valueId()).type.isTensor()) become(id, "aten.abs.default", {x});
    } else if (op == "aten.full.default" || op == "aten.full_like.default" || op == "aten.new_full.default") {
      filling(id);
    } else if (op == "aten.masked_fill.Tensor" && g_.node(id).args[2].number()) {
      if (const OperatorRef fill = operators_.find("aten.masked_fill.Scalar")) g_.setOperator(id, fill);
    } else if (op.find("upsample_") != op.npos && op.ends_with(".vec")) {
      upsampling(id);
    } else if (op == "aten.slice.Tensor") {
      // x[:3] begins at 0, and x[1:] ends where every tensor has ended.
      if (g_.node(id).args[2].isNone()) g_.setArgument(id, 2, Argument(int64_t{0}));
      if (g_.node(id).args[3].isNone()) g_.setArgument(id, 3, Argument(std::numeric_limits<int64_t>::max()));
    } else if (op == "aten.t.default" || op == "aten.numpy_T.default" || op == "aten.mT.default") {
      transposition(id);
    } else if (op == "aten._convolution.default" || op == "aten._convolution.deprecated" ||
               op == "aten.convolution.default" || op == "aten._convolution_mode.default") {
      convolution(id);
    } else if (op == "aten.norm.Scalar" || op == "aten.norm.ScalarOpt_dim") {
      norm(id);
    } else if (op == "aten.count_nonzero.dim_IntList") {
      const std::vector<Argument>& a = g_.node(id).args;
      if (a[1].items() && a[1].items()->size() == 1)
        become(id, "aten.count_nonzero.default", {a[0], (*a[1].items())[0]});
    }
  }

  void become(NodeId id, std::string_view name, std::vector<Argument> args) {
    const OperatorRef op = operators_.find(name);
    if (!op || op->parameters.size() != args.size()) return;
    g_.setOperator(id, op);
    g_.setArguments(id, std::move(args));
  }

  // neg(x) + 1 is what scripting makes of 1 - x. Both round once, to the same number; but the negative of an unsigned
  // integer wraps around before it is added to a fraction.
  void subtraction(NodeId id) {
    const Node& n = g_.node(id);
    if (!n.args[0].isValue() || !n.args[1].number() || n.args[1].as<bool>() || n.args[2].number() != 1.0) return;
    const Value& negative = g_.value(n.args[0].valueId());
    if (!negative.producer || negative.users.size() != 1 || negative.returnUses > 0) return;
    const Node& neg = g_.node(negative.producer);
    if (neg.op->name != "aten.neg.default" || neg.parent != n.parent || neg.module != n.module) return;
    const ValueId x = neg.args[0].isValue() ? neg.args[0].valueId() : ValueId();
    // A write to x between the two would be seen.
    if (!x || anyWrites()) return;
    if (const auto dtype = facts_.of(x); !n.args[1].as<int64_t>() && !(dtype && isFloatingPoint(*dtype))) return;
    become(id, "aten.sub.Tensor", {n.args[1], Argument(x), Argument(int64_t{1})});
  }

  bool anyWrites() {
    if (!writes_) {
      writes_ = false;
      for (NodeId id : g_.order()) *writes_ |= g_.node(id).op->writes();
    }
    return *writes_;
  }

  // full([], 1, dtype=bool) is full([], True, dtype=bool): TorchScript's numbers are no truth values.
  void filling(NodeId id) {
    const Node& n = g_.node(id);
    const auto at = n.op->findParameter("fill_value");
    const Argument* dtype = n.findArgument("dtype");
    if (!at || *at >= n.args.size() || !dtype || !dtype->as<DType>()) return;
    const auto* number = n.args[*at].as<int64_t>();
    const bool* truth = n.args[*at].as<bool>();
    const bool wanted = *dtype == Argument(DType::Bool);
    if (wanted && number && (*number == 0 || *number == 1))
      g_.setArgument(id, *at, Argument(*number == 1));
    else if (!wanted && truth)
      g_.setArgument(id, *at, Argument(int64_t{*truth}));
  }

  // To a size, with no factors: TorchScript's text does not tell the two overloads apart.
  void upsampling(NodeId id) {
    const Node& n = g_.node(id);
    if (!n.args.back().isNone() || n.args[1].isNone()) return;
    const std::string& op = n.op->name;
    const OperatorRef plain = operators_.find(op.substr(0, op.size() - 3) + "default");
    if (!plain) return;
    std::vector<Argument> args = n.args;
    args.pop_back();
    args.resize(plain->parameters.size(), Argument::none());
    g_.setOperator(id, plain);
    g_.setArguments(id, std::move(args));
  }

  // Of a matrix, x.T and x.t() are x.transpose(0, 1); x.mT is x.transpose(-2, -1) of anything.
  void transposition(NodeId id) {
    const Node& n = g_.node(id);
    if (!n.args[0].isValue()) return;
    const Argument x = n.args[0];
    const auto rank = g_.value(x.valueId()).type.tensorInfo.rank();
    if (n.op->name == "aten.mT.default" && (!rank || *rank >= 2))
      become(id, "aten.transpose.int", {x, Argument(int64_t{-2}), Argument(int64_t{-1})});
    else if (n.op->name != "aten.mT.default" && rank == 2)
      become(id, "aten.transpose.int", {x, Argument(int64_t{0}), Argument(int64_t{1})});
  }

  // Tracing writes every convolution as the general one, and run_decompositions does. The strides tell how many
  // dimensions it has: a single one may stand for all, so then the weight has to say it.
  void convolution(NodeId id) {
    const Node& n = g_.node(id);
    const std::vector<Argument> a = n.args;
    const auto* strides = a[3].items();
    if (!strides) return;
    size_t dimensions = strides->size();
    const auto rank = a[1].isValue() ? g_.value(a[1].valueId()).type.tensorInfo.rank() : std::nullopt;
    if ((rank && static_cast<size_t>(*rank) != dimensions + 2) || (!rank && dimensions < 2) || dimensions > 3) return;
    const std::string name = std::to_string(dimensions) + "d";
    if (n.op->baseName() == "_convolution_mode") {
      become(id, "aten.conv" + name + ".padding", {a[0], a[1], a[2], a[3], a[4], a[5], a[6]});
      return;
    }
    const auto complete = [&](const Argument& list) { return list.items() && list.items()->size() == dimensions; };
    if (!complete(a[4]) || !complete(a[5])) return;
    if (a[6] == Argument(false))
      become(id, "aten.conv" + name + ".default", {a[0], a[1], a[2], a[3], a[4], a[5], a[8]});
    else if (a[6] == Argument(true) && complete(a[7]))
      become(id, "aten.conv_transpose" + name + (dimensions == 1 ? ".default" : ".input"),
             {a[0], a[1], a[2], a[3], a[4], a[7], a[8], a[5]});
  }

  // PyTorch computes norm by linalg_vector_norm.
  void norm(NodeId id) {
    const std::vector<Argument> a = g_.node(id).args;
    const bool over = a.size() == 4 && a[2].items() && !a[2].items()->empty();
    const Argument order = a[1].isNone() ? Argument(int64_t{2}) : a[1];
    become(id, "aten.linalg_vector_norm.default",
           {a[0], order, over ? a[2] : Argument::none(), a.size() == 4 ? a[3] : Argument(false), Argument::none()});
  }

  Graph& g_;
  const OperatorSet& operators_;
  DTypeFacts facts_;
  std::optional<bool> writes_;  // whether anything writes; filled when asked
};

}  // namespace

void rewriteSpellings(Graph& g, const OperatorSet& operators) { Speller(g, operators).run(); }

}  // namespace graft
