// simplify_masks: attention with a mask that hides nothing has none, and one whose mask hides what comes later says so
// by its flag: kernels skip what is hidden, and nobody makes the mask. Such masks are made of positions
// (matcher/facts/known_masks.h). Sums with masks of zeros, fills where nothing is to be filled, and conditions that
// always hold go, too.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "matcher/facts/known_masks.h"
#include "matcher/passes/pass.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

/// What is added to a score that softmax shall not see.
constexpr double hiding = -1e4;

/// Where PyTorch's attention and Graft's have the mask and the flag.
constexpr size_t maskOperand = 3, causalOperand = 5;

bool readsMask(const Node& n) {
  const bool isNamed =
      n.op->name == "aten.scaled_dot_product_attention.default" || n.op->name == "graft.attention.default";
  return isNamed && n.args.size() > causalOperand && n.args[maskOperand].isValue();
}

/// Whether the dimension, counted from the last, has one place whatever the inputs' sizes: some view added it.
bool isAlwaysOne(const Graph& g, ValueId v, size_t dim, int depth = 0) {
  constexpr int mostDepth = 32;
  const std::vector<Dim>* shape = shapeOf(g, v);
  if (!shape || depth > mostDepth) return false;
  if (dim >= shape->size()) return true;
  if ((*shape)[shape->size() - 1 - dim].size != 1) return false;
  const Value& value = g.value(v);
  if (!value.producer) return g.isWeight(v);
  const Node& n = g.node(value.producer);
  if (n.op->name == "aten.unsqueeze.default") {
    const int64_t* at = n.args[1].as<int64_t>();
    if (!at) return false;
    const auto rank = static_cast<int64_t>(shape->size());
    const auto made = static_cast<size_t>(rank - 1 - (*at < 0 ? *at + rank : *at));
    return made == dim ||
           (n.args[0].isValue() && isAlwaysOne(g, n.args[0].valueId(), dim - (dim > made ? 1 : 0), depth + 1));
  }
  const std::string_view op = n.op->baseName();
  const bool isFactory = op == "zeros" || op == "ones" || op == "full";
  const bool isOfSizes =
      op == "new_zeros" || op == "new_ones" || op == "new_full" || op == "expand" || op == "view" || op == "reshape";
  const std::vector<Argument>* sizes = isFactory ? n.args[0].items() : isOfSizes ? n.args[1].items() : nullptr;
  if (sizes && sizes->size() == shape->size()) {
    const Argument& size = (*sizes)[shape->size() - 1 - dim];
    if (size == Argument(int64_t{1})) return true;
    return op == "expand" && size == Argument(int64_t{-1}) && isAlwaysOne(g, n.args[0].valueId(), dim, depth + 1);
  }
  if (!n.op->is(OperatorFact::Pointwise)) return false;
  return std::ranges::all_of(n.args, [&](const Argument& a) {
    return !a.isValue() || !g.value(a.valueId()).type.isTensor() || isAlwaysOne(g, a.valueId(), dim, depth + 1);
  });
}

/// Whether `m` has no dimension that x is broadcast along, whatever the inputs' sizes.
bool isNoLarger(const Graph& g, ValueId m, ValueId x) {
  const std::vector<Dim>*small = shapeOf(g, m), *large = shapeOf(g, x);
  if (!small || !large || small->size() > large->size()) return false;
  for (size_t d = 0; d < small->size(); ++d) {
    const Dim &a = (*small)[small->size() - 1 - d], &b = (*large)[large->size() - 1 - d];
    const bool isSame = a.isKnown() && a == b && a.size != 1;
    if (!isSame && !isAlwaysOne(g, m, d)) return false;
  }
  return true;
}

/// The mask has a place for each query and each key: a dimension of one place would be broadcast.
bool hasAllPlaces(const Graph& g, ValueId mask, ValueId query, ValueId key) {
  const std::vector<Dim>*m = shapeOf(g, mask), *q = shapeOf(g, query), *k = shapeOf(g, key);
  if (!m || !q || !k || m->size() < 2 || q->size() < 2 || k->size() < 2) return false;
  const auto beforeLast = [](const std::vector<Dim>& shape) { return shape[shape.size() - 2]; };
  const auto isSame = [](const Dim& a, const Dim& b) { return a.isKnown() && a.size != 1 && a == b; };
  return isSame(m->back(), beforeLast(*k)) && isSame(beforeLast(*m), beforeLast(*q));
}

/// The value as it is read, where an operator with it gives its other operand.
std::optional<ValueId> unchanged(const Graph& g, const Node& n, const KnownMasks& masks) {
  const auto everywhere = [&](const Argument& a, double number) {
    const KnownMask* m = a.isValue() ? masks.find(a.valueId()) : nullptr;
    return m && m->isEverywhere() && m->yes == number;
  };
  const auto sameType = [&](const Argument& a) {
    if (!a.isValue() || n.outputs.size() != 1 || !isComputed(g, a.valueId())) return false;
    const TensorInfo &x = g.value(a.valueId()).type.tensorInfo, &y = g.value(n.outputs[0]).type.tensorInfo;
    return x.dtype && x.dtype == y.dtype && x.shape && x.shape == y.shape &&
           std::ranges::all_of(*x.shape, [](const Dim& d) { return d.isKnown(); });
  };
  const auto leaves = [&](const Argument& m, const Argument& x) {
    return everywhere(m, 0) && sameType(x) && isNoLarger(g, m.valueId(), x.valueId());
  };
  if (n.op->name == "aten.add.Tensor" && n.args.size() > 2) {
    if (leaves(n.args[1], n.args[0])) return n.args[0].valueId();
    if (leaves(n.args[0], n.args[1]) && n.args[2].number() == 1.0) return n.args[1].valueId();
  }
  if (n.op->name.starts_with("aten.masked_fill.") && leaves(n.args[1], n.args[0])) return n.args[0].valueId();
  return std::nullopt;
}

/// The numbers in weights of one element, by value. Nodes are inserted to read them, so nobody may hold any meanwhile.
std::unordered_map<uint32_t, double> weightsOfOneElement(GraphEditor& editor) {
  const Graph& g = editor.graph();
  std::unordered_map<uint32_t, double> numbers;
  const OperatorRef item = editor.semantics().operators().find("aten.item.default");
  if (!item) return numbers;
  for (const ValueId weight : g.weights()) {
    const TensorInfo& t = g.value(weight).type.tensorInfo;
    if (!t.shape || !std::ranges::all_of(*t.shape, [](const Dim& d) { return d.size == 1; })) continue;
    editor.begin();
    const NodeId read = editor.prepend(g.root(), item, {Argument(weight)});
    editor.addOutput(read, {}, Type(Type::Kind::Number));
    if (const auto values = editor.semantics().evaluate(g, read); values && values->size() == 1)
      if (const auto number = (*values)[0].literal.number()) numbers[weight.index] = *number;
    editor.cancel();
  }
  return numbers;
}

/// Of a conjunction, the operand that decides, and the one that holds everywhere.
std::optional<std::pair<ValueId, ValueId>> deciding(const Graph& g, const Node& n, const KnownMasks& masks) {
  if (n.op->name != "aten.bitwise_and.Tensor" && n.op->name != "aten.logical_and.default") return std::nullopt;
  if (!n.args[0].isValue() || !n.args[1].isValue()) return std::nullopt;
  const auto isTruth = [&](const Argument& a) { return g.value(a.valueId()).type.tensorInfo.dtype == DType::Bool; };
  const auto holds = [&](const Argument& a) {
    const KnownMask* m = masks.find(a.valueId());
    return m && m->isEverywhere() && m->yes != 0;
  };
  if (!isTruth(n.args[0]) || !isTruth(n.args[1]) || holds(n.args[0]) == holds(n.args[1])) return std::nullopt;
  const ValueId a = n.args[0].valueId(), b = n.args[1].valueId();
  return holds(n.args[0]) ? std::pair(b, a) : std::pair(a, b);
}

/// `x` with the shape of its conjunction with `all`; nothing where that is not known.
std::optional<Argument> expandedLike(const Graph& g, NodeBuilder& b, ValueId x, ValueId all) {
  const std::vector<Dim>*from = shapeOf(g, x), *to = shapeOf(g, all);
  if (!from || !to) return std::nullopt;
  const std::vector<Dim> has = *from, other = *to;
  std::vector<Argument> sizes;
  for (size_t d = std::max(has.size(), other.size()); d-- > 0;) {
    const Dim mine = d < has.size() ? has[has.size() - 1 - d] : Dim(1);
    const Dim theirs = d < other.size() ? other[other.size() - 1 - d] : Dim(1);
    const bool isKept = isAlwaysOne(g, all, d) || (theirs.isKnown() && theirs.size != 1 && theirs == mine);
    if (isKept)
      sizes.push_back(d < has.size() ? Argument(int64_t{-1}) : Argument(int64_t{1}));
    else if (mine.size == 1 && theirs.size != 1)
      sizes.push_back(b.call("aten.size.int", {Argument(all), Argument(static_cast<int64_t>(other.size() - 1 - d))}));
    else
      return std::nullopt;
  }
  return b.call("aten.expand.default", {Argument(x), Argument::list(std::move(sizes)), Argument(false)});
}

/// Values that depend on what the model is given.
std::unordered_set<ValueId> dependentValues(const Graph& g, const GraphIndex& index) {
  std::unordered_set<ValueId> found(g.inputs().begin(), g.inputs().end());
  for (const NodeId id : index.order) {
    const Node& n = g.node(id);
    bool reads = !n.blocks.empty() || n.parent != g.root();
    for (const Argument& a : n.args) a.forEachValue([&](ValueId v) { reads = reads || found.contains(v); });
    if (reads) found.insert(n.outputs.begin(), n.outputs.end());
  }
  return found;
}

Status simplifyMasks(GraphEditor& editor, const Step&) {
  const Graph& g = editor.graph();
  const std::unordered_map<uint32_t, double> numbers = weightsOfOneElement(editor);
  const GraphIndex index(g);
  const auto isWritten = [&](ValueId v) { return index.isWritten(index.memoryOf(v)); };
  const KnownMasks masks(index, [&](ValueId v) -> std::optional<double> {
    const auto it = numbers.find(v.index);
    return it != numbers.end() && index.isWeightLike(v) && !isWritten(v) ? std::optional(it->second) : std::nullopt;
  });
  const std::unordered_set<ValueId> fromInputs = dependentValues(g, index);
  for (const NodeId id : index.order) {
    const Node& n = g.node(id);
    if (!n.alive) continue;
    if (n.outputs.size() == 1 && !isWritten(n.outputs[0]))
      if (const auto same = unchanged(g, n, masks); same && !isWritten(*same)) {
        editor.replaceNode(id, *same);
        continue;
      }
    if (!readsMask(n)) continue;
    const ValueId mask = n.args[maskOperand].valueId(), query = n.args[0].valueId(), key = n.args[1].valueId();
    const KnownMask* known = masks.find(mask);
    if (!known) continue;
    const bool isTruth = g.value(mask).type.tensorInfo.dtype == DType::Bool;
    const auto shows = [&](double value) { return isTruth ? value != 0 : value == 0; };
    const auto hides = [&](double value) { return isTruth ? value == 0 : value <= hiding; };
    const bool hidesNothing = known->isEverywhere() && shows(known->yes);
    KnownMask shown = *known;
    if (!known->isEverywhere() && hides(known->yes) && shows(known->no)) shown = known->inverted().value_or(*known);
    const bool hidesFuture =
        shown.isUpToDiagonal() && shows(shown.yes) && hides(shown.no) && hasAllPlaces(g, mask, query, key);
    if (!hidesNothing && !hidesFuture) continue;
    // The result has the samples of the mask, too, where queries and keys have one for all.
    if (!fromInputs.contains(query) && !fromInputs.contains(key)) continue;
    std::vector<Argument> args = n.args;
    args[maskOperand] = Argument::none();
    if (hidesFuture) args[causalOperand] = Argument(true);
    editor.begin(id);
    editor.setArguments(id, std::move(args));
    editor.noteChanged(id);
    editor.commit();
  }
  if (!editor.records().empty()) eliminateDeadNodes(editor);  // what made the masks
  // Of the masks that are left.
  for (const NodeId id : index.order) {
    if (!g.isAlive(id)) continue;
    const auto operands = deciding(g, g.node(id), masks);
    if (!operands || isWritten(g.node(id).outputs[0]) || isWritten(operands->first)) continue;
    const ValueId result = g.node(id).outputs[0];
    const Type type = g.value(result).type;
    editor.begin(id);
    NodeBuilder b(editor, id);
    const std::optional<Argument> by = expandedLike(g, b, operands->first, operands->second);
    if (!by || b.error()) {
      editor.cancel();
      continue;
    }
    editor.setType(by->valueId(), type);
    editor.replaceValue(result, by->valueId());
    editor.erase(id);
    editor.commit();
  }
  return done();
}

}  // namespace

GRAFT_PASS(simplify_masks, "", "attention without its mask where that hides nothing, or only what comes later",
           simplifyMasks, /*checksEdits=*/false, /*rewrites=*/true)

}  // namespace graft
