#include <fmt/format.h>

#include "core/ir/calls/default_values.h"
#include "core/ir/used_symbols.h"
#include "core/text/literals.h"
#include "core/text/text.h"

namespace graft {
namespace {

// Names that are no plain word are quoted, so that module types with brackets and paths with spaces survive.
bool isPlainWord(std::string_view s) {
  if (s.empty()) return false;
  for (char c : s)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.')) return false;
  return true;
}

std::string word(std::string_view s) { return isPlainWord(s) ? std::string(s) : quoted(s); }

class Printer {
 public:
  Printer(const Graph& g, const TextOptions& options) : g_(g), options_(options) {}

  std::string graph() {
    out_ = "graph " + word(g_.name.empty() ? "_" : g_.name) + " {\n";
    for (const Symbol& s : usedSymbols(g_)) out_ += fmt::format("  symbol {} {}\n", s.name, rangeText(s));
    if (options_.modules)
      for (const ModuleCall& m : g_.moduleCalls()) module(m);
    for (ValueId w : g_.weights()) {
      const Value& v = g_.value(w);
      out_ += fmt::format("  {} %{} {} : {}{}\n",
                          v.isConstant ? "constant"
                          : v.isBuffer ? "buffer"
                                       : "weight",
                          v.name, quoted(v.path), toString(v.type), v.isFrozen ? " frozen" : "");
    }
    for (ValueId i : g_.inputs())
      out_ += fmt::format("  input %{} : {}\n", g_.value(i).name, toString(g_.value(i).type));
    out_ += callingText(g_);
    body(g_.root(), 1);
    out_ += "}\n";
    return std::move(out_);
  }

  std::string line(NodeId id) {
    head(g_.node(id));
    return std::move(out_);
  }

 private:
  void module(const ModuleCall& m) {
    out_ += fmt::format("  module m{} {} {}", m.id.index, quoted(m.path), m.type.empty() ? "_" : word(m.type));
    if (!m.constructor.empty()) {
      out_ += "(";
      for (size_t i = 0; i < m.constructor.size(); ++i)
        out_ += fmt::format("{}{}={}", i ? ", " : "", m.constructor[i].first, toText(m.constructor[i].second, g_));
      out_ += ")";
    }
    if (m.parent) out_ += fmt::format(" in m{}", m.parent.index);
    out_ += "\n";
  }

  void body(BlockId id, int depth) {
    const std::string indent(2 * depth, ' ');
    for (NodeId n = g_.block(id).first; n; n = g_.node(n).next) {
      out_ += indent;
      head(g_.node(n));
      for (BlockId b : g_.node(n).blocks) {
        out_ += " {";
        for (ValueId p : g_.block(b).parameters)
          out_ += fmt::format(" %{} : {};", g_.value(p).name, toString(g_.value(p).type));
        out_ += "\n";
        body(b, depth + 1);
        out_ += indent + "}";
      }
      out_ += "\n";
    }
    out_ += indent + "return";
    const auto& returns = g_.block(id).returns;
    for (size_t i = 0; i < returns.size(); ++i) out_ += (i ? ", " : " ") + toText(returns[i], g_);
    out_ += "\n";
  }

  void head(const Node& n) {
    if (n.outputs.empty()) {
      out_ += "!" + n.name;
    } else {
      for (size_t i = 0; i < n.outputs.size(); ++i) out_ += (i ? ", %" : "%") + g_.value(n.outputs[i]).name;
    }
    out_ += " = " + n.op->name + "(";
    bool first = true;
    const auto put = [&](std::string_view key, const Argument& a) {
      if (!first) out_ += ", ";
      first = false;
      if (!key.empty()) out_ += std::string(key) + "=";
      out_ += toText(a, g_);
    };
    for (size_t i = 0; i < n.args.size(); ++i) {
      // What comes first needs no name; the rest is read by its name.
      const bool named = i > 0 && i < n.op->parameters.size() && !n.args[i].isValue();
      put(named || (i < n.op->parameters.size() && n.op->parameters[i].keywordOnly) ? n.op->parameters[i].name : "",
          n.args[i]);
    }
    for (const auto& [key, a] : n.kwargs) put(key, a);
    out_ += ")";
    for (size_t i = 0; i < n.outputs.size(); ++i) out_ += (i ? ", " : " : ") + toString(g_.value(n.outputs[i]).type);
    if (options_.modules && n.module) out_ += fmt::format(" @m{}", n.module.index);
    if (!options_.sources) return;
    if (const SourceLocation* s = g_.sourceOf(n)) {
      out_ += fmt::format(" {}:{}", quoted(s->file), s->line);
      if (s->column > 0) out_ += fmt::format(":{}:{}", s->column, s->endColumn);
    }
  }

  const Graph& g_;
  const TextOptions& options_;
  std::string out_;
};

std::string names(const std::vector<std::string>& all) {
  std::string out = "[";
  for (const std::string& n : all) out += (out.size() > 1 ? ", " : "") + quoted(n);
  return out + "]";
}

std::string treeText(const TreeSpec& t, const Graph& g, bool isResult) {
  if (t.isLeaf() && isResult) return "*";
  if (const Argument* value = findDefault(t)) return toText(t.leaf, g) + "=" + toText(*value, g);
  if (t.isLeaf()) return toText(t.leaf, g);
  std::string out = fmt::format("tree({}, {}", quoted(t.type), quoted(t.context));
  for (const TreeSpec& c : t.children) out += ", " + treeText(c, g, isResult);
  return out + ")";
}

}  // namespace

std::string callingText(const Graph& g) {
  if (!g.calling) return {};
  const CallingConvention& c = *g.calling;
  std::string out = fmt::format("  arguments {} {}\n", names(c.names), treeText(c.arguments, g, false));
  if (!c.result.isLeaf()) out += fmt::format("  result {}\n", treeText(c.result, g, true));
  for (const auto& [type, fields] : c.namedTuples)
    out += fmt::format("  namedtuple {} {}\n", quoted(type), names(fields));
  return out;
}

std::string toText(const Argument& a, const Graph& g) {
  struct Visitor {
    const Graph& g;
    std::string join(const std::vector<Argument>& items) const {
      std::string out;
      for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + toText(items[i], g);
      return out;
    }
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(ValueId v) const { return "%" + g.value(v).name; }
    std::string operator()(bool b) const { return b ? "True" : "False"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return floatText(d); }
    std::string operator()(std::complex<double> c) const {
      return fmt::format("complex({}, {})", floatText(c.real()), floatText(c.imag()));
    }
    std::string operator()(const std::string& s) const { return quoted(s); }
    std::string operator()(DType d) const { return fmt::format("torch.{}", dtypeName(d)); }
    std::string operator()(const DeviceName& d) const { return fmt::format("device({})", quoted(d.name)); }
    std::string operator()(const Named& n) const { return "<" + n.name + ">"; }
    std::string operator()(const SymbolicInt& s) const { return "sym(" + quoted(s.expression) + ")"; }
    std::string operator()(const Ellipsis&) const { return "..."; }
    std::string operator()(const Argument::List& l) const { return "[" + join(l.items) + "]"; }
    std::string operator()(const Argument::Tuple& t) const {
      return "(" + join(t.items) + (t.items.size() == 1 ? ",)" : ")");
    }
    std::string operator()(const Argument::Dict& d) const {
      std::string out = "{";
      for (size_t i = 0; i < d.items.size(); ++i)
        out += (i ? ", " : "") + toText(d.items[i].first, g) + ": " + toText(d.items[i].second, g);
      return out + "}";
    }
    std::string operator()(const Argument::Slice& s) const { return "slice(" + join(s.bounds) + ")"; }
  };
  return std::visit(Visitor{g}, a.data);
}

std::string rangeText(const Symbol& s) {
  return fmt::format("[{}, {}]", s.min ? std::to_string(*s.min) : "-inf", s.max ? std::to_string(*s.max) : "inf");
}

std::string nodeText(const Graph& g, NodeId id, const TextOptions& options) { return Printer(g, options).line(id); }

std::string toText(const Graph& g, const TextOptions& options) { return Printer(g, options).graph(); }

}  // namespace graft
