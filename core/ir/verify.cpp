#include "core/ir/verify.h"

#include <fmt/format.h>
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "core/ir/calls/default_values.h"
#include "core/ir/size_expression.h"

namespace graft {
namespace {

Error broken(const std::string& what) { return internalError("the graph is not valid: " + what); }

// Whether a literal or value can stand at a parameter of that type. Numbers may stand for tensors: normal form keeps x
// / 8.0.
bool fits(const Graph& g, const Argument& a, const Type& type) {
  if (a.isValue() || a.as<SymbolicInt>() || a.as<Named>()) return true;
  switch (type.kind) {
    case Type::Kind::Any:
    case Type::Kind::Object:
    case Type::Kind::Generator:
      return true;
    case Type::Kind::Optional:
      return a.isNone() || fits(g, a, type.element());
    case Type::Kind::Tensor:
    case Type::Kind::Number:
      return a.number().has_value() || a.as<std::complex<double>>();
    case Type::Kind::Int:
      return a.as<int64_t>() || a.as<bool>() || a.as<DType>();
    case Type::Kind::Float:
      return a.number().has_value();
    case Type::Kind::Complex:
      return a.number().has_value() || a.as<std::complex<double>>();
    case Type::Kind::Bool:
      return a.as<bool>() || a.as<int64_t>();
    case Type::Kind::String:
      return a.as<std::string>();
    case Type::Kind::DType:
      return a.as<DType>();
    case Type::Kind::Layout:
    case Type::Kind::MemoryFormat:
      return false;
    case Type::Kind::Device:
      return a.as<DeviceName>() || a.as<std::string>();
    case Type::Kind::None:
      return a.isNone();
    case Type::Kind::List: {
      if (const auto* items = a.items())
        return std::all_of(items->begin(), items->end(), [&](const Argument& i) { return fits(g, i, type.element()); });
      return fits(g, a, type.element());  // int[2] takes a single int
    }
    case Type::Kind::Tuple:
      return a.isTuple() || a.isList();
    case Type::Kind::Dict:
      return a.as<Argument::Dict>() != nullptr;
  }
  return false;
}

class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g), visible_(g.valueBound(), false) { names_.reserve(g.valueBound()); }

  Status run() {
    if (Status s = symbols(); !s) return s;
    for (ValueId w : g_.weights()) {
      visible_[w.index] = true;
      if (Status s = name(g_.value(w).name); !s) return s;
    }
    if (Status s = calling(); !s) return s;
    if (Status s = block(g_.root(), 0); !s) return s;
    if (seen_ != g_.nodeCount())
      return broken(fmt::format("{} nodes are linked, {} are counted", seen_, g_.nodeCount()));
    return users();
  }

  // Callers give each input once, and get as many results as the graph returns.
  Status calling() const {
    if (!g_.calling) return done();
    const TreeSpec& arguments = g_.calling->arguments;
    if (arguments.children.size() != 2 ||
        arguments.children[0].children.size() + arguments.children[1].children.size() != g_.calling->names.size())
      return broken("its arguments are no tuple and no dict of the names that it gives them");
    std::vector<ValueId> given;
    bool areLiterals = true;
    arguments.forEachLeaf([&](const TreeSpec& leaf) {
      if (leaf.leaf.isValue()) given.push_back(leaf.leaf.valueId());
      if (const Argument* value = findDefault(leaf)) areLiterals = areLiterals && !value->holdsValue();
    });
    if (!areLiterals) return broken("the default of an argument is no literal");
    for (ValueId v : g_.inputs())
      if (std::count(given.begin(), given.end(), v) != 1)
        return broken(fmt::format("its arguments do not name the input {} once", g_.value(v).name));
    if (given.size() != g_.inputs().size()) return broken("its arguments name a value that is no input");
    size_t results = 0;
    for (const Argument& a : g_.returns()) results += leaves(a);
    if (!g_.calling->result.isLeaf() && !g_.returns().empty() && g_.calling->result.leafCount() != results)
      return broken(fmt::format("its result has {} parts, and it returns {}", g_.calling->result.leafCount(), results));
    return done();
  }

 private:
  Status symbols() const {
    std::unordered_set<std::string> seen;
    for (const Symbol& s : g_.symbols()) {
      if (!isSymbolName(s.name)) return broken(fmt::format("'{}' is no name of a symbol", s.name));
      if (!seen.insert(s.name).second) return broken(fmt::format("the symbol {} has two ranges", s.name));
      if (s.min && s.max && *s.min > *s.max)
        return broken(fmt::format("the symbol {} is at least {} and at most {}", s.name, *s.min, *s.max));
    }
    return done();
  }

  static size_t leaves(const Argument& a) {
    size_t n = 0;
    if (const auto* dict = a.as<Argument::Dict>()) {
      for (const auto& [key, value] : dict->items) n += leaves(value);
    } else if (const auto* items = a.items()) {
      for (const Argument& i : *items) n += leaves(i);
    } else {
      n = 1;
    }
    return n;
  }

  Status name(std::string_view n) {
    if (n.empty()) return broken("a value has no name");
    if (!names_.insert(n).second) return broken(fmt::format("two values are named {}", n));
    return done();
  }

  Status block(BlockId id, int depth) {
    if (depth > 1000) return broken("control flow is nested more than 1000 deep");
    const Block& b = g_.block(id);
    std::vector<ValueId> opened;
    for (ValueId p : b.parameters) {
      if (g_.value(p).block != id)
        return broken(fmt::format("parameter {} belongs to another block", g_.value(p).name));
      if (Status s = name(g_.value(p).name); !s) return s;
      visible_[p.index] = true;
      opened.push_back(p);
    }
    NodeId last;
    size_t count = 0;
    for (NodeId n = b.first; n; n = g_.node(n).next) {
      if (Status s = node(n, id, last, depth); !s) return s;
      for (ValueId v : g_.node(n).outputs) opened.push_back(v);
      last = n;
      ++count;
    }
    if (b.last != last || b.size != count) return broken("a block's list of nodes is torn");
    std::string missing;
    for (const Argument& a : b.returns)
      a.forEachValue([&](ValueId v) {
        if (!visible_[v.index]) missing = g_.value(v).name;
      });
    if (!missing.empty()) return broken(fmt::format("{} is returned where it is not defined", missing));
    for (ValueId v : opened) visible_[v.index] = false;
    return done();
  }

  Status node(NodeId id, BlockId parent, NodeId last, int depth) {
    const Node& n = g_.node(id);
    ++seen_;
    if (!n.alive || n.id != id || n.parent != parent || n.previous != last)
      return broken(fmt::format("{} is linked wrongly", n.name));
    if (last && g_.node(last).orderKey >= n.orderKey)
      return broken(fmt::format("{} has an order key out of order", n.name));
    if (n.module && n.module.index >= g_.moduleCalls().size())
      return broken(fmt::format("{} belongs to no module", n.name));
    std::string missing;
    const auto see = [&](ValueId v) {
      if (v.index >= g_.valueBound() || !visible_[v.index])
        missing = v.index < g_.valueBound() ? g_.value(v).name : "a value";
    };
    for (const Argument& a : n.args) a.forEachValue(see);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(see);
    if (!missing.empty())
      return broken(fmt::format("{} uses {} before it is defined or out of its scope", n.name, missing));
    if (Status s = schema(n); !s) return s;
    for (BlockId b : n.blocks) {
      if (g_.block(b).owner != id) return broken(fmt::format("{} does not own its block", n.name));
      if (Status s = block(b, depth + 1); !s) return s;
    }
    if (n.outputs.empty()) {
      if (Status s = name(n.name); !s) return s;
    } else if (g_.value(n.outputs[0]).name != n.name) {
      return broken(fmt::format("{} is not named after its first output", n.name));
    }
    for (ValueId v : n.outputs) {
      if (g_.value(v).producer != id) return broken(fmt::format("{} is not made by {}", g_.value(v).name, n.name));
      if (Status s = name(g_.value(v).name); !s) return s;
      visible_[v.index] = true;
    }
    return done();
  }

  Status schema(const Node& n) {
    const Operator& op = *n.op;
    if (!op.hasSchema || op.variadic) return done();
    if (n.args.size() != op.parameters.size())
      return broken(fmt::format("{} gives {} arguments to {}, which takes {}", n.name, n.args.size(), op.name,
                                op.parameters.size()));
    if (!n.kwargs.empty()) return broken(fmt::format("{} has keyword arguments beside its schema's", n.name));
    for (size_t i = 0; i < n.args.size(); ++i)
      if (!fits(g_, n.args[i], op.parameters[i].type))
        return broken(fmt::format("{}: argument {} of {} is no {}", n.name, op.parameters[i].name, op.name,
                                  toString(op.parameters[i].type)));
    if (n.blocks.empty() && n.outputs.size() != op.returns.size())
      return broken(
          fmt::format("{} has {} outputs, {} returns {}", n.name, n.outputs.size(), op.name, op.returns.size()));
    return done();
  }

  // The users that values list are exactly those that arguments name.
  Status users() {
    std::vector<uint32_t> listed(g_.valueBound(), 0);
    std::vector<ValueId> used;
    for (NodeId id : g_.order()) {
      const Node& n = g_.node(id);
      used.clear();
      const auto note = [&](ValueId v) {
        if (std::find(used.begin(), used.end(), v) == used.end()) used.push_back(v);
      };
      for (const Argument& a : n.args) a.forEachValue(note);
      for (const auto& [key, a] : n.kwargs) a.forEachValue(note);
      for (ValueId v : used) ++listed[v.index];
    }
    for (size_t i = 0; i < listed.size(); ++i) {
      const Value& v = g_.value(ValueId(static_cast<uint32_t>(i)));
      if (v.alive && v.users.size() != listed[i])
        return broken(fmt::format("{} lists {} users, {} nodes use it", v.name, v.users.size(), listed[i]));
    }
    return done();
  }

  const Graph& g_;
  std::vector<bool> visible_;
  std::unordered_set<std::string_view> names_;  ///< the graph's own strings
  size_t seen_ = 0;
};

}  // namespace

Status verify(const Graph& g) { return Verifier(g).run(); }

Status verifyCalling(const Graph& g) { return Verifier(g).calling(); }

}  // namespace graft
