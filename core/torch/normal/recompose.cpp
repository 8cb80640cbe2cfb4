// What torch.export's second dialect (ExportedProgram.run_decompositions) has taken apart is put together again: a
// linear layer is a view, a transposed weight, addmm and a view back there; a product of batches is two views, bmm and
// a view. Such programs mostly write nothing in place, so copies are their originals; in one that writes (the
// statistics of a batch norm in training) operators get their plain names back, and nothing else is touched.
//
// These are not rules: importing stands below the matcher, which core may not include; each step here is one pass over
// the nodes, where a rule would index the graph anew; and two conditions cannot be said in a rule (which views a matmul
// made itself, and one linear for each view of a product that has the sizes from before it was flattened).
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "core/torch/normal/normal_steps.h"

namespace graft {
namespace {

using Shape = std::vector<Dim>;

class Recomposer {
 public:
  Recomposer(Graph& g, const OperatorSet& operators) : g_(g), operators_(operators) {
    for (NodeId n : g.order()) writes_ = writes_ || g.node(n).op->writes();
  }

  void run() {
    if (writes_) return each([&](NodeId n) { renamed(n); });
    // Each step brings the next one's pattern about.
    each([&](NodeId n) { notePart(n); });
    each([&](NodeId n) { removeCopy(n); });
    each([&](NodeId n) { renamed(n); });
    each([&](NodeId n) { undoPermutation(n); });
    each([&](NodeId n) { swapOfTwo(n); });
    each([&](NodeId n) { linear(n); });
    each([&](NodeId n) { batchedLinear(n); });
    each([&](NodeId n) { bias(n); });
    each([&](NodeId n) { product(n); });
    each([&](NodeId n) { silu(n); });
    each([&](NodeId n) { hardswish(n); });
    each([&](NodeId n) { attention(n); });
    each([&](NodeId n) { maskedFill(n); });
    each([&](NodeId n) { viewOfView(n); });
  }

 private:
  template <class F>
  void each(F&& step) {
    for (NodeId n : g_.order())
      if (g_.isAlive(n) && g_.node(n).op->hasSchema && !g_.node(n).outputs.empty()) step(n);
  }

  // Reading
  // -------------------------------------------------------------------------------------------------------------------
  const Node* maker(const Argument& a) const {
    if (!a.isValue()) return nullptr;
    const Value& v = g_.value(a.valueId());
    if (!v.producer) return nullptr;
    const Node& n = g_.node(v.producer);
    return n.op->hasSchema && n.outputs[0] == v.id ? &n : nullptr;
  }
  const Node* maker(const Argument& a, std::string_view op) const {
    const Node* n = maker(a);
    return n && n->op->name == op ? n : nullptr;
  }
  /// The shape where every size of it is known.
  const Shape* shape(const Argument& a) const {
    if (!a.isValue()) return nullptr;
    const auto& s = g_.value(a.valueId()).type.tensorInfo.shape;
    return s && std::all_of(s->begin(), s->end(), [](const Dim& d) { return d.isKnown(); }) ? &*s : nullptr;
  }
  bool sameShape(const Argument& a, const Argument& b) const {
    const Shape *x = shape(a), *y = shape(b);
    return x && y && *x == *y;
  }
  static bool isInt(const Argument& a, int64_t n) {
    const auto* i = a.as<int64_t>();
    return i && *i == n;
  }
  static bool isOne(const Argument& a) { return a.number() == 1.0; }
  /// [0, 2, 1, 3] as what each dimension comes from; empty where it is no such list.
  static std::vector<int64_t> permutation(const Node& n) {
    std::vector<int64_t> out;
    const auto* items = n.args.size() > 1 ? n.args[1].items() : nullptr;
    for (size_t i = 0; items && i < items->size(); ++i) {
      const auto* d = (*items)[i].as<int64_t>();
      const auto rank = static_cast<int64_t>(items->size());
      if (!d || *d < -rank || *d >= rank) return {};
      out.push_back(*d < 0 ? *d + rank : *d);
    }
    return out;
  }
  bool onlyFirstUsed(const Node& n) const {
    return std::all_of(n.outputs.begin() + 1, n.outputs.end(), [&](ValueId v) { return g_.isUnused(v); });
  }

  // Writing
  // -------------------------------------------------------------------------------------------------------------------
  /// `op` with these arguments in place of the node's first output; its other outputs are used by nobody.
  bool replace(NodeId id, std::string_view op, std::vector<Argument> args) {
    const OperatorRef found = operators_.find(op);
    if (!found || found->parameters.size() != args.size() || found->returns.size() != 1) return false;
    const ValueId old = g_.node(id).outputs[0];
    const NodeId made = g_.insertAfter(id, found, std::move(args), found->baseName());
    g_.setType(g_.output(made), g_.value(old).type);
    g_.setModule(made, g_.node(id).module);
    g_.setSource(made, g_.node(id).source);
    g_.replaceAllUses(old, g_.output(made));
    g_.erase(id);
    return true;
  }
  /// The node's only output is `to`. What is dead would count among the users of `to`.
  void forward(NodeId id, const Argument& to) {
    g_.replaceAllUses(g_.node(id).outputs[0], to.valueId());
    g_.erase(id);
  }

  // Steps
  // -------------------------------------------------------------------------------------------------------------------
  // matmul makes views of what it has expanded; bmm in the model's own code has views alone, or none.
  void notePart(NodeId id) {
    if (!isView(g_.node(id))) return;
    const Node* from = maker(g_.node(id).args[0], "aten.clone.default");
    if (maker(from ? from->args[0] : g_.node(id).args[0], "aten.expand.default")) partsOfMatmul_.insert(id.index);
  }

  void removeCopy(NodeId id) {
    const Node& n = g_.node(id);
    const std::string_view op = n.op->name;
    const bool copies = op == "aten.clone.default" || op == "aten.alias.default";
    const bool reshapes = op == "aten.expand.default" || op == "aten.view.default" || op == "aten.permute.default";
    if (!copies && !reshapes) return;
    if (!n.args[0].isValue() || n.outputs.size() != 1) return;
    if (op == "aten.permute.default") {
      const auto from = permutation(n);
      for (size_t i = 0; i < from.size(); ++i)
        if (from[i] != static_cast<int64_t>(i)) return;
      if (from.empty()) return;
    } else if (reshapes && !sameShape(n.args[0], Argument(n.outputs[0]))) {
      return;
    }
    // What is returned must not be the input itself.
    if (g_.value(n.outputs[0]).returnUses > 0 && copies) return;
    // A copy that keeps the strides of fresh memory is as good to view as the original.
    const Node* made = maker(n.args[0]);
    const bool keepsStrides =
        n.args.size() > 1 && (n.args[1].isNone() || n.args[1] == Argument(Named{"torch.preserve_format"}));
    const bool packed =
        op == "aten.clone.default" && !(keepsStrides && made && !made->op->aliases() && !made->op->writes());
    const ValueId out = n.outputs[0];
    const Argument in = n.args[0];
    if (packed) {
      // A view of a copy need not be a view of the original.
      const std::vector<NodeId> users = g_.value(out).users;
      for (NodeId user : users)
        if (g_.node(user).op->name == "aten.view.default") asReshape(user);
    }
    forward(id, in);
  }

  void asReshape(NodeId view) {
    if (const OperatorRef reshape = operators_.find("aten.reshape.default")) g_.setOperator(view, reshape);
  }

  void renamed(NodeId id) {
    const Node& n = g_.node(id);
    const std::string_view op = n.op->name;
    const std::vector<Argument> a = n.args;
    const Argument none;
    if (op == "aten.native_layer_norm.default" && onlyFirstUsed(n)) {
      replace(id, "aten.layer_norm.default", {a[0], a[1], a[2], a[3], a[4], Argument(true)});
    } else if (op == "aten._softmax.default" && a[2] == Argument(false)) {
      replace(id, "aten.softmax.int", {a[0], a[1], none});
    } else if (op == "aten._log_softmax.default" && a[2] == Argument(false)) {
      replace(id, "aten.log_softmax.int", {a[0], a[1], none});
    } else if (op == "aten._native_batch_norm_legit_no_training.default" && onlyFirstUsed(n)) {
      replace(id, "aten.batch_norm.default",
              {a[0], a[1], a[2], a[3], a[4], Argument(false), a[5], a[6], Argument(true)});
    } else if (op == "aten.max_pool2d_with_indices.default" && onlyFirstUsed(n)) {
      replace(id, "aten.max_pool2d.default", a);
    } else if (op == "aten._to_copy.default" && !writes_ && !a[1].isNone() && a[2].isNone() && a[3].isNone() &&
               a[6].isNone()) {
      replace(id, "aten.to.dtype", {a[0], a[1], Argument(false), Argument(false), none});
    } else if (op == "aten.arange.start_step" && isInt(a[0], 0) && isInt(a[2], 1)) {
      replace(id, "aten.arange.default", {a[1], a[3], a[4], a[5], a[6]});
    } else if (op == "aten.squeeze.dims" && a[1].items() && a[1].items()->size() == 1) {
      replace(id, "aten.squeeze.dim", {a[0], a[1].items()->front()});
    } else if (op == "aten.mul.Scalar") {
      replace(id, "aten.mul.Tensor", a);
    } else if (op == "aten.full.default" && a[1].number() && shape(Argument(n.outputs[0])) &&
               shape(Argument(n.outputs[0]))->empty()) {
      // The number that it holds; its dtype is a matter of the tensor beside it, as for any number.
      const auto dtype = g_.value(n.outputs[0]).type.tensorInfo.dtype;
      if (dtype && isFloatingPoint(*dtype)) numberInWhere(n.outputs[0], a[1]);
    } else if (op == "aten.scalar_tensor.default") {
      const auto dtype = g_.value(n.outputs[0]).type.tensorInfo.dtype;
      if (dtype && isFloatingPoint(*dtype) && a[0].number()) numberInWhere(n.outputs[0], a[0]);
    }
  }

  // where(mask, x, scalar_tensor(-inf)) is where(mask, x, -inf), beside a tensor of that dtype.
  void numberInWhere(ValueId scalar, const Argument& number) {
    const std::vector<NodeId> users = g_.value(scalar).users;
    for (NodeId user : users) {
      const Node& u = g_.node(user);
      if (u.op->name != "aten.where.self" || !(u.args[2] == Argument(scalar)) || !u.args[1].isValue() ||
          u.args[1] == u.args[2])
        continue;
      if (g_.value(u.args[1].valueId()).type.tensorInfo.dtype != g_.value(scalar).type.tensorInfo.dtype) continue;
      g_.setArgument(user, 2, Argument(*number.number()));
    }
  }

  // There and back again.
  void undoPermutation(NodeId id) {
    const Node& n = g_.node(id);
    const Node* inner = n.op->name == "aten.permute.default" ? maker(n.args[0], n.op->name) : nullptr;
    if (!inner) return;
    const std::vector<int64_t> outer = permutation(n), from = permutation(*inner);
    bool undone = !outer.empty() && outer.size() == from.size();
    for (size_t i = 0; undone && i < outer.size(); ++i)
      undone = from[static_cast<size_t>(outer[i])] == static_cast<int64_t>(i);
    if (undone) forward(id, inner->args[0]);
  }

  void swapOfTwo(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op->name != "aten.permute.default") return;
    const std::vector<int64_t> from = permutation(n);
    std::vector<int64_t> moved;
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i] != static_cast<int64_t>(i)) moved.push_back(static_cast<int64_t>(i));
    if (moved.size() == 2) replace(id, "aten.transpose.int", {n.args[0], Argument(moved[0]), Argument(moved[1])});
  }

  // view, reshape or _unsafe_view
  bool isView(const Node& n) const {
    return n.op->is(OperatorFact::Reshape) && n.op->facts->shape == ShapeRule::Listed;
  }

  // addmm(b, x, transpose(w)) is linear(x, w, b), on what x was before it was made flat.
  void linear(NodeId id) {
    const Node& n = g_.node(id);
    const bool biased = n.op->name == "aten.addmm.default";
    if (!biased && n.op->name != "aten.mm.default") return;
    if (biased && (!isOne(n.args[3]) || !isOne(n.args[4]))) return;
    const Argument x = n.args[biased ? 1 : 0], second = n.args[biased ? 2 : 1], bias = biased ? n.args[0] : Argument();
    const Node* turned = maker(second, "aten.transpose.int");
    if (!turned || !shape(second) || shape(second)->size() != 2) return;
    const Argument weight = turned->args[0];
    const Shape *b = shape(bias), *w = shape(weight);
    if (!w || w->size() != 2 || (biased && (!b || b->size() != 1 || !((*b)[0] == (*w)[0])))) return;
    // Back from flat: views of the result that have the sizes that x had before.
    const Node* flat = maker(x);
    const ValueId result = n.outputs[0];
    if (flat && isView(*flat) && shape(flat->args[0]) && !shape(flat->args[0])->empty() &&
        shape(flat->args[0])->back() == w->back()) {
      const Argument whole = flat->args[0];
      const std::vector<NodeId> users = g_.value(result).users;
      for (NodeId user : users) {
        const Node& u = g_.node(user);
        if (!isView(u) || !(u.args[0] == Argument(result))) continue;
        const Shape *out = shape(Argument(u.outputs[0])), *in = shape(whole);
        if (!out || out->size() != in->size() || !(out->back() == w->front()) ||
            !std::equal(out->begin(), out->end() - 1, in->begin()))
          continue;
        replace(user, "aten.linear.default", {whole, weight, bias});
      }
    }
    if (!g_.isUnused(result)) replace(id, "aten.linear.default", {x, weight, bias});
  }

  // bmm(x, expand(transpose(w))) is linear(x, w): what PyTorch makes of a weight beside a batch that is no view.
  void batchedLinear(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op->name != "aten.bmm.default") return;
    const Node* repeated = maker(n.args[1], "aten.expand.default");
    const Node* turned = repeated ? maker(repeated->args[0], "aten.transpose.int") : nullptr;
    const Shape* w = turned ? shape(turned->args[0]) : nullptr;
    if (w && w->size() == 2) replace(id, "aten.linear.default", {n.args[0], turned->args[0], Argument()});
  }

  // linear(x, w) + b with one b for each feature is linear(x, w, b).
  void bias(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op->name != "aten.add.Tensor" || !isOne(n.args[2]) || !n.args[1].isValue() ||
        !g_.isWeight(n.args[1].valueId()))
      return;
    const Node* product = maker(n.args[0], "aten.linear.default");
    const Shape *b = shape(n.args[1]), *w = product ? shape(product->args[1]) : nullptr;
    if (!b || !w || w->size() != 2 || !product->args[2].isNone() || b->size() != 1 || !((*b)[0] == w->front())) return;
    const Value& alone = g_.value(product->outputs[0]);
    if (alone.users.size() != 1 || alone.returnUses > 0) return;
    replace(id, "aten.linear.default", {product->args[0], product->args[1], n.args[1]});
  }

  // view(bmm(view(a), view(b))) is matmul(a, b).
  void product(NodeId id) {
    const Node& n = g_.node(id);
    if (!isView(n)) return;
    const Node* bmm = maker(n.args[0], "aten.bmm.default");
    const Node* a = bmm ? maker(bmm->args[0]) : nullptr;
    const Node* b = bmm ? maker(bmm->args[1]) : nullptr;
    if (!a || !b || !partsOfMatmul_.contains(a->id.index) || !partsOfMatmul_.contains(b->id.index)) return;
    const Shape *x = shape(a->args[0]), *y = shape(b->args[0]), *out = shape(Argument(n.outputs[0]));
    const Shape *flatX = shape(bmm->args[0]), *flatY = shape(bmm->args[1]);
    if (!x || !y || !out || !flatX || !flatY || x->size() != out->size() || y->size() != out->size() ||
        out->size() < 3 || flatX->size() != 3 || flatY->size() != 3)
      return;
    const size_t batch = out->size() - 2;
    const auto ends = [](const Shape& whole, const Shape& flat) {
      return std::equal(whole.end() - 2, whole.end(), flat.end() - 2);
    };
    if (!std::equal(out->begin(), out->begin() + static_cast<std::ptrdiff_t>(batch), x->begin()) ||
        !std::equal(out->begin(), out->begin() + static_cast<std::ptrdiff_t>(batch), y->begin()) || !ends(*x, *flatX) ||
        !ends(*y, *flatY) || !((*out)[batch] == (*x)[batch]) || !(out->back() == y->back()))
      return;
    replace(id, "aten.matmul.default", {a->args[0], b->args[0]});
  }

  // where(mask, scalar_tensor(number), x) is masked_fill(x, mask, number), where x has the result's shape.
  void maskedFill(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op->name != "aten.where.self") return;
    const Node* scalar = maker(n.args[1], "aten.scalar_tensor.default");
    if (!scalar || !scalar->args[0].number() || !sameShape(n.args[2], Argument(n.outputs[0]))) return;
    const auto dtypeOf = [&](const Argument& a) {
      return a.isValue() ? g_.value(a.valueId()).type.tensorInfo.dtype : std::nullopt;
    };
    if (dtypeOf(n.args[0]) != DType::Bool || !dtypeOf(n.args[1]) || dtypeOf(n.args[1]) != dtypeOf(n.args[2])) return;
    replace(id, "aten.masked_fill.Scalar", {n.args[2], n.args[0], scalar->args[0]});
  }

  void silu(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op->name != "aten.mul.Tensor") return;
    for (size_t i : {0, 1})
      if (const Node* s = maker(n.args[i], "aten.sigmoid.default");
          s && s->args[0].isValue() && s->args[0] == n.args[1 - i]) {
        replace(id, "aten.silu.default", {s->args[0]});
        return;
      }
  }

  // x * clamp(x + 3, 0, 6) / 6
  void hardswish(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op->name != "aten.div.Tensor" || n.args[1].number() != 6.0) return;
    if (const Node* three = clampedToSix(n.args[0])) {
      replace(id, "aten.hardsigmoid.default", {three->args[0]});
      return;
    }
    const Node* product = maker(n.args[0], "aten.mul.Tensor");
    if (!product) return;
    for (size_t i : {0, 1}) {
      const Node* three = clampedToSix(product->args[i]);
      if (!three || !(three->args[0] == product->args[1 - i])) continue;
      replace(id, "aten.hardswish.default", {three->args[0]});
      return;
    }
  }

  // x + 3 of clamp(x + 3, 0, 6), in one step or two.
  const Node* clampedToSix(const Argument& a) const {
    const Node* upper = maker(a, "aten.clamp.default");
    if (!upper || upper->args[2].number() != 6.0) return nullptr;
    const Node* lower = upper->args[1].isNone() ? maker(upper->args[0], "aten.clamp.default") : upper;
    if (!lower || lower->args[1].number() != 0.0 || (lower != upper && !lower->args[2].isNone())) return nullptr;
    const Node* three = maker(lower->args[0], "aten.add.Tensor");
    return three && three->args[1].number() == 3.0 && isOne(three->args[2]) && three->args[0].isValue() ? three
                                                                                                        : nullptr;
  }

  // Attention whose rows may be hidden altogether: such a row's probabilities are zero instead of NaN.
  void attention(NodeId id) {
    const Node& n = g_.node(id);
    if (n.op->name != "aten.matmul.default") return;
    const Node* safe = maker(n.args[0], "aten.where.self");
    const Node* softmax = safe ? maker(safe->args[2], "aten.softmax.int") : nullptr;
    const Node* zeros = safe ? maker(safe->args[1]) : nullptr;
    const bool zero = (zeros && zeros->op->baseName() == "full_like" && zeros->args[1].number() == 0.0) ||
                      (safe && safe->args[1].number() == 0.0);
    if (!softmax || !zero || !hidesWholeRows(safe->args[0], softmax->args[0])) return;
    Argument scores = softmax->args[0], mask;
    if (const Node* sum = maker(scores, "aten.add.Tensor"); sum && isOne(sum->args[2])) {
      if (maker(sum->args[0], "aten.matmul.default")) {
        scores = sum->args[0];
        mask = sum->args[1];
      }
    }
    const Node* product = maker(scores, "aten.matmul.default");
    const auto q = product ? scaled(product->args[0]) : std::nullopt;
    const auto turned = product ? scaled(product->args[1]) : std::nullopt;
    if (!q || !turned || q->second != turned->second) return;
    const Node* k = maker(turned->first, "aten.transpose.int");
    const Shape* shapeOfQ = shape(q->first);
    if (!k || !shapeOfQ || shapeOfQ->size() != 4 || !isInt(k->args[1], 2) || !isInt(k->args[2], 3)) return;
    const double scale = q->second * q->second;
    const Dim& head = shapeOfQ->back();
    const bool usual = head.isStatic() && std::abs(scale * std::sqrt(static_cast<double>(head.size)) - 1) < 1e-6;
    replace(id, "aten.scaled_dot_product_attention.default",
            {q->first, k->args[0], n.args[1], shown(mask), Argument(0.0), Argument(false),
             usual ? Argument() : Argument(scale), Argument(false)});
  }

  // logical_not(any(logical_not(scores == -inf), -1, True))
  bool hidesWholeRows(const Argument& condition, const Argument& scores) const {
    const Node* none = maker(condition, "aten.logical_not.default");
    const Node* any = none ? maker(none->args[0], "aten.any.dim") : nullptr;
    const Node* seen = any ? maker(any->args[0], "aten.logical_not.default") : nullptr;
    const Node* hidden = seen ? maker(seen->args[0]) : nullptr;
    return hidden && hidden->op->baseName() == "eq" && hidden->args[0] == scores &&
           hidden->args[1].number() == -std::numeric_limits<double>::infinity() && any->args[2] == Argument(true) &&
           isInt(any->args[1], -1);
  }

  /// x and c of x * c.
  std::optional<std::pair<Argument, double>> scaled(const Argument& a) const {
    const Node* n = maker(a, "aten.mul.Tensor");
    if (!n || !n->args[0].isValue() || !n->args[1].number()) return std::nullopt;
    return std::pair(n->args[0], *n->args[1].number());
  }

  /// where(shown, 0, -inf) says which scores are shown: PyTorch's attention takes that itself.
  Argument shown(const Argument& mask) const {
    const Node* n = maker(mask, "aten.where.self");
    if (!n || n->args[2].number() != -std::numeric_limits<double>::infinity()) return mask;
    const Node* zero = maker(n->args[1]);
    const bool isZero = n->args[1].number() == 0.0 ||
                        (zero && ((zero->op->baseName() == "scalar_tensor" && zero->args[0].number() == 0.0) ||
                                  (zero->op->baseName() == "full" && zero->args[1].number() == 0.0)));
    const bool flags = n->args[0].isValue() && g_.value(n->args[0].valueId()).type.tensorInfo.dtype == DType::Bool;
    return isZero && flags && sameShape(n->args[0], mask) ? n->args[0] : mask;
  }

  // view(view(x)) is one view, where the first has no other use and belongs to the same call of a module: views that
  // two modules make are the model's own.
  void viewOfView(NodeId id) {
    const Node& n = g_.node(id);
    if (!isView(n)) return;
    if (sameShape(n.args[0], Argument(n.outputs[0])) && g_.value(n.outputs[0]).returnUses == 0)
      return forward(id, n.args[0]);
    const Node* first = maker(n.args[0]);
    if (!first || !isView(*first) || first->module != n.module || g_.value(first->outputs[0]).users.size() != 1 ||
        g_.value(first->outputs[0]).returnUses > 0)
      return;
    const bool reshapes = first->op->name != "aten.view.default";
    g_.setArgument(id, 0, Argument(first->args[0]));
    if (reshapes) asReshape(id);
  }

  Graph& g_;
  const OperatorSet& operators_;
  bool writes_ = false;
  std::unordered_set<uint32_t> partsOfMatmul_;  // views, by node
};

}  // namespace

void recompose(Graph& g, const OperatorSet& operators) { Recomposer(g, operators).run(); }

}  // namespace graft
