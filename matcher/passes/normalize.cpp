// normalize: one canonical form. Operators get their one name; identities go, and then what no output depends on.
// Running it again changes nothing.
#include <algorithm>
#include <limits>
#include <optional>

#include "core/ir/normal_form.h"
#include "matcher/passes/pass.h"
#include "matcher/rule/symbolic.h"
#include "matcher/search/graph_index.h"

namespace graft {
namespace {

bool isOne(const Argument& a) { return a.number() == 1.0 && !a.as<bool>(); }

bool isFloating(const Graph& g, ValueId v) {
  const auto dtype = g.value(v).type.tensorInfo.dtype;
  return dtype && isFloatingPoint(*dtype);
}

// Whether two dimensions of inputs have this size, the first of one and the second of the same or of another: the
// example may have alike what other inputs have not.
bool standsForSeveral(const Graph& g, int64_t size) {
  std::optional<size_t> place;
  for (const ValueId input : g.inputs()) {
    const auto& shape = g.value(input).type.tensorInfo.shape;
    for (size_t d = 0; shape && d < shape->size(); ++d) {
      if ((*shape)[d].size != size) continue;
      if (place.value_or(d) != d) return true;
      place = d;
    }
  }
  return false;
}

// Whether `size` is calculated, and the size of that dimension of x whatever the inputs' sizes.
bool isSizeOf(const Graph& g, const Argument& size, ValueId x, size_t dim) {
  if (!size.isValue()) return false;
  const auto wanted = integerMeaning(g, size), has = sizeMeaning(g, x, static_cast<int64_t>(dim));
  if (!wanted || !has || *wanted != *has) return false;
  const auto number = has->number();
  if (!number || !standsForSeveral(g, *number)) return true;
  const NodeId asked = g.value(size.valueId()).producer;
  const std::vector<Argument> direct{Argument(x), Argument(static_cast<int64_t>(dim))};
  return asked && g.node(asked).op->name == "aten.size.int" && g.node(asked).args == direct;
}

// The value that the node hands on unchanged, where it does.
ValueId handsOn(const Graph& g, const Node& n) {
  if (n.outputs.size() != 1 || n.args.empty() || !n.args[0].isValue()) return {};
  const ValueId x = n.args[0].valueId();
  const auto rank = g.value(x).type.tensorInfo.rank();
  const std::string_view name = n.op->name, packet = n.op->packetName();
  if (n.op->is(OperatorFact::Identity)) return x;
  if ((name == "aten.mul.Tensor" || name == "aten.div.Tensor") && n.args.size() == 2 && isFloating(g, x)) {
    if (isOne(n.args[1])) return x;
  }
  // Some models begin a sum with 0.
  if ((name == "aten.add.Tensor" || name == "aten.sub.Tensor") && n.args.size() >= 2 && isFloating(g, x) &&
      isComputed(g, x)) {
    if (n.args[1].number() == 0.0 && !n.args[1].as<bool>()) return x;
  }
  if (name == "aten.to.dtype" && n.args.size() == 5) {
    // To the dtype it has, as neither a copy nor another memory format.
    const auto dtype = g.value(x).type.tensorInfo.dtype;
    const auto* wanted = n.args[1].as<DType>();
    if (dtype && wanted && *dtype == *wanted && n.args[3] == Argument(false) && n.args[4].isNone()) return x;
  }
  if (name == "aten.slice.Tensor" && n.args.size() == 5) {
    const bool fromStart = n.args[2].isNone() || n.args[2] == Argument(int64_t{0});
    const bool toEnd = n.args[3].isNone() || n.args[3] == Argument(std::numeric_limits<int64_t>::max());
    if (fromStart && toEnd && n.args[4] == Argument(int64_t{1})) return x;
  }
  if (packet == "aten.permute" && rank && n.args.size() == 2 && n.args[1].items()) {
    const auto& dims = *n.args[1].items();
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto* d = dims[i].as<int64_t>();
      if (!d || (*d < 0 ? *d + *rank : *d) != static_cast<int64_t>(i)) return {};
    }
    return x;
  }
  if (name == "aten.transpose.int" && n.args.size() == 3) {
    const auto *a = n.args[1].as<int64_t>(), *b = n.args[2].as<int64_t>();
    if (!a || !b) return {};
    if (*a == *b || (rank && (*a < 0 ? *a + *rank : *a) == (*b < 0 ? *b + *rank : *b))) return x;
  }
  if (n.op->is(OperatorFact::Reshape) && n.op->facts->shape == ShapeRule::Listed && rank && n.args.size() == 2 &&
      n.args[1].items()) {
    // Only sizes that the graph calculates are safe: a literal may be that of the example inputs.
    const auto& sizes = *n.args[1].items();
    if (static_cast<int64_t>(sizes.size()) != *rank) return {};
    int open = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].as<int64_t>() && *sizes[i].as<int64_t>() == -1)
        ++open;
      else if (!isSizeOf(g, sizes[i], x, i))
        return {};
    }
    if (open <= 1) return x;
  }
  return {};
}

// The leading sizes of an embedding's result are those of its indices. Asked there, the lookup has one user less, and a
// rule may match it. The tensor to ask, where there is one.
ValueId askedOf(const Graph& g, const Node& n) {
  if (n.op->name != "aten.size.int" || n.args.size() != 2 || !n.args[0].isValue()) return {};
  const auto* dim = n.args[1].as<int64_t>();
  const NodeId producer = g.value(n.args[0].valueId()).producer;
  if (!dim || *dim < 0 || !producer) return {};
  const Node& lookup = g.node(producer);
  if (lookup.op->name != "aten.embedding.default" || !lookup.args[1].isValue()) return {};
  const auto rank = g.value(lookup.args[1].valueId()).type.tensorInfo.rank();
  return rank && *dim < *rank ? lookup.args[1].valueId() : ValueId();
}

// The size of a view is the size that its argument says, unless that is -1.
std::optional<Argument> sizeWritten(const Graph& g, const Node& n) {
  if (n.op->name != "aten.size.int" || n.args.size() != 2 || !n.args[0].isValue()) return std::nullopt;
  const auto* dim = n.args[1].as<int64_t>();
  const NodeId producer = g.value(n.args[0].valueId()).producer;
  if (!dim || !producer) return std::nullopt;
  const Node& view = g.node(producer);
  if (view.op->facts->shape != ShapeRule::Listed || view.args.size() < 2) return std::nullopt;
  const auto* sizes = view.args[1].items();
  const int64_t rank = sizes ? static_cast<int64_t>(sizes->size()) : 0;
  if (*dim < -rank || *dim >= rank) return std::nullopt;
  const Argument& size = (*sizes)[static_cast<size_t>(*dim < 0 ? *dim + rank : *dim)];
  if (size.isValue()) return integerMeaning(g, size) && !g.isInput(size.valueId()) ? std::optional(size) : std::nullopt;
  if (const auto* number = size.as<int64_t>(); number && *number >= 0) return size;
  return std::nullopt;
}

// where(mask, x, full([], -inf)) and masked_fill take the number itself. The node's arguments with full([], c) as c,
// where there are any.
std::optional<std::vector<Argument>> withNumbers(const Graph& g, const GraphIndex& index, const Node& n) {
  const bool where = n.op->name == "aten.where.self";
  if (!where && n.op->name != "aten.masked_fill.Tensor") return std::nullopt;
  std::vector<Argument> args = n.args;
  bool changed = false;
  for (size_t i = where ? 1 : 2; i < args.size(); ++i) {
    const NodeId producer = args[i].isValue() ? g.value(args[i].valueId()).producer : NodeId();
    if (!producer || index.isWritten(index.memoryOf(args[i].valueId()))) continue;
    const Node& full = g.node(producer);
    if (full.op->name != "aten.full.default" || full.args.size() < 3 || !full.args[0].items() ||
        !full.args[0].items()->empty() || !full.args[1].as<double>() || !full.args[2].isNone())
      continue;
    args[i] = full.args[1];
    changed = true;
  }
  if (!changed || (where && !args[1].isValue() && !args[2].isValue())) return std::nullopt;
  return args;
}

// One form of one node, where it has another one. True: the graph was changed.
bool normalizeNode(GraphEditor& editor, const GraphIndex& index, NodeId id) {
  const Graph& g = editor.graph();
  const OperatorSet& operators = editor.semantics().operators();
  const Node& n = g.node(id);
  bool changed = false;
  const auto changeInPlace = [&](OperatorRef op, std::optional<std::vector<Argument>> args) {
    editor.begin(id);
    if (op) editor.setOperator(id, std::move(op));
    if (args) editor.setArguments(id, std::move(*args));
    editor.noteChanged(id);
    editor.commit();
    changed = true;
  };
  if (const std::string_view canonical = canonicalOperator(n.op->name); canonical != n.op->name) {
    const OperatorRef op = operators.find(canonical);
    if (op && op->parameters.size() == n.args.size()) changeInPlace(op, std::nullopt);
  }
  if (const ValueId indices = askedOf(g, n); indices && !index.isWritten(index.memoryOf(indices))) {
    std::vector<Argument> args = n.args;
    args[0] = Argument(indices);
    changeInPlace(nullptr, std::move(args));
  } else if (auto numbers = withNumbers(g, index, n)) {
    const bool fill = n.op->name != "aten.where.self";
    changeInPlace(fill ? operators.find("aten.masked_fill.Scalar") : nullptr, std::move(*numbers));
  } else if (const auto size = sizeWritten(g, n)) {
    if (size->isValue()) {
      editor.replaceNode(id, size->valueId());
    } else {
      editor.begin(id);
      editor.replaceByLiteral(n.outputs.front(), *size);
      editor.erase(id);
      editor.commit();
    }
    changed = true;
  } else if (const ValueId x = handsOn(g, n)) {
    if (index.isWritten(index.memoryOf(x)) || index.isWritten(index.memoryOf(n.outputs[0]))) return changed;
    editor.replaceNode(id, x);
    changed = true;
  }
  return changed;
}

Status normalize(GraphEditor& editor, const Step&) {
  for (bool changed = true; changed;) {
    changed = false;
    const GraphIndex index(editor.graph());
    for (NodeId id : index.order) changed = normalizeNode(editor, index, id) || changed;
  }
  eliminateDeadNodes(editor);
  return done();
}

}  // namespace

GRAFT_PASS(normalize, "", "one canonical form: operators by their one name, identities and dead nodes gone", normalize)

}  // namespace graft
