// normalize: one canonical form. Operators under their one name, identities gone, and whatever then matters to nobody.
// Running it again changes nothing.
#include <algorithm>
#include <limits>

#include "core/ir/normal_form.h"
#include "matcher/internal/graph_index.h"
#include "matcher/internal/symbolic.h"
#include "matcher/passes/pass.h"

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
  if (isIdentity(name)) return x;
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
  if ((packet == "aten.view" || packet == "aten.reshape") && rank && n.args.size() == 2 && n.args[1].items()) {
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

}  // namespace

Records normalize(Graph& g, const Semantics& semantics, const Step& step) {
  std::vector<Record> out;
  for (bool changed = true; changed;) {
    changed = false;
    const GraphIndex index(g);
    for (NodeId id : index.order) {
      const Node& n = g.node(id);
      if (const std::string_view canonical = canonicalOperator(n.op->name); canonical != n.op->name) {
        const OperatorRef op = semantics.operators().find(canonical);
        if (op && op->parameters.size() == n.args.size()) {
          Record r;
          r.rule = "normalize";
          r.scope = g.scopeOf(id);
          r.removed = r.added = {id};
          r.removedNames = r.addedNames = {n.name};
          g.setOperator(id, op);
          out.push_back(std::move(r));
          changed = true;
        }
      }
      const ValueId x = handsOn(g, n);
      if (!x) continue;
      if (index.isWritten(index.memoryOf(x)) || index.isWritten(index.memoryOf(n.outputs[0]))) continue;
      out.push_back(replaceNode(g, id, x, "normalize"));
      changed = true;
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
