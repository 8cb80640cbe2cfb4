// normalize: one canonical form. Operators under their one name, identities gone, and whatever then matters to nobody.
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
      const auto wanted = integerMeaning(g, sizes[i]), has = sizeMeaning(g, x, static_cast<int64_t>(i));
      if (sizes[i].as<int64_t>() && *sizes[i].as<int64_t>() == -1)
        ++open;
      else if (!sizes[i].isValue() || !wanted || !has || *wanted != *has)
        return {};
    }
    if (open <= 1) return x;
  }
  return {};
}

// The size of what was looked up is the size of the indices: asked there, the lookup has one user less, and a rule may
// take it. The tensor to ask, where there is one.
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

// The size that a view was asked for is the size that it has: the argument, where it is no "-1".
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

// full([], c) is the number c, where an operator takes a number: where(mask, x, full([], -inf)), masked_fill. Its
// arguments with the numbers, where there are any.
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

Record changedInPlace(const Graph& g, NodeId id) {
  Record r;
  r.rule = "normalize";
  r.scope = g.scopeOf(id);
  r.removed = r.added = {id};
  r.removedNames = r.addedNames = {g.node(id).name};
  return r;
}

}  // namespace

Records normalize(Graph& g, const Semantics& semantics, const Step& step) {
  std::vector<Record> out;
  for (bool changed = true; changed;) {
    changed = false;
    const auto note = [&](Record r) {
      out.push_back(std::move(r));
      changed = true;
    };
    const GraphIndex index(g);
    for (NodeId id : index.order) {
      const Node& n = g.node(id);
      if (const std::string_view canonical = canonicalOperator(n.op->name); canonical != n.op->name) {
        const OperatorRef op = semantics.operators().find(canonical);
        if (op && op->parameters.size() == n.args.size()) {
          g.setOperator(id, op);
          note(changedInPlace(g, id));
        }
      }
      if (const ValueId indices = askedOf(g, n); indices && !index.isWritten(index.memoryOf(indices))) {
        std::vector<Argument> args = n.args;
        args[0] = Argument(indices);
        g.setArguments(id, std::move(args));
        note(changedInPlace(g, id));
      } else if (auto numbers = withNumbers(g, index, n)) {
        const bool fill = n.op->name != "aten.where.self";
        if (fill) g.setOperator(id, semantics.operators().find("aten.masked_fill.Scalar"));
        g.setArguments(id, std::move(*numbers));
        note(changedInPlace(g, id));
      } else if (const auto size = sizeWritten(g, n)) {
        if (size->isValue()) {
          note(replaceNode(g, id, size->valueId(), "normalize"));
        } else {
          Record r = changedInPlace(g, id);
          r.added.clear();
          r.addedNames.clear();
          replaceByLiteral(g, n.outputs.front(), *size);
          g.erase(id);
          note(std::move(r));
        }
      } else if (const ValueId x = handsOn(g, n)) {
        if (index.isWritten(index.memoryOf(x)) || index.isWritten(index.memoryOf(n.outputs[0]))) continue;
        note(replaceNode(g, id, x, "normalize"));
      }
    }
  }
  auto dead = eliminateDead(g, semantics, step);
  if (!dead) return dead;
  for (Record& r : *dead) {
    r.rule = "normalize";
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace graft
