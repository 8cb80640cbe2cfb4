#include "core/text/python_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <complex>
#include <unordered_map>
#include <unordered_set>

#include "core/text/text.h"

namespace graft {
namespace {

struct Infix {
  std::string_view name, text;  // {} are the operands
};
// torch.fx writes these functions of Python's operator module as operators.
constexpr std::array<Infix, 23> infixes{{
    {"add", "{} + {}"}, {"sub", "{} - {}"},  {"mul", "{} * {}"},     {"truediv", "{} / {}"}, {"floordiv", "{} // {}"},
    {"mod", "{} % {}"}, {"pow", "{} ** {}"}, {"lshift", "{} << {}"}, {"rshift", "{} >> {}"}, {"and_", "{} & {}"},
    {"or_", "{} | {}"}, {"xor", "{} ^ {}"},  {"matmul", "{} @ {}"},  {"getitem", "{}[{}]"},  {"eq", "{} == {}"},
    {"ne", "{} != {}"}, {"lt", "{} < {}"},   {"gt", "{} > {}"},      {"le", "{} <= {}"},     {"ge", "{} >= {}"},
    {"pos", "+{}"},     {"neg", "-{}"},      {"invert", "~{}"},
}};
// And these as statements, whose result has the name of what they change.
constexpr std::array<Infix, 13> augmented{{
    {"iadd", "{} += {}"},
    {"isub", "{} -= {}"},
    {"imul", "{} *= {}"},
    {"itruediv", "{} /= {}"},
    {"ifloordiv", "{} //= {}"},
    {"imod", "{} %= {}"},
    {"ipow", "{} **= {}"},
    {"imatmul", "{} @= {}"},
    {"ilshift", "{} <<= {}"},
    {"irshift", "{} >>= {}"},
    {"iand", "{} &= {}"},
    {"ior", "{} |= {}"},
    {"ixor", "{} ^= {}"},
}};

bool isIdentifier(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  return std::all_of(s.begin(), s.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

/// self.layers with a number as name has to be fetched by getattr.
std::string attributePath(std::string_view path) {
  std::string out = "self";
  while (!path.empty()) {
    const size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    out = isIdentifier(part) ? fmt::format("{}.{}", out, part) : fmt::format("getattr({}, \"{}\")", out, part);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return out;
}

/// As Python's repr writes it.
std::string pythonString(std::string_view s) {
  const char quote = s.find('\'') != std::string_view::npos && s.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (char c : s) {
    if (c == quote || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + quote;
}

/// Python's keywords, and the names that every line of code may use for something else than a value.
const std::unordered_set<std::string_view>& reservedWords() {
  static const std::unordered_set<std::string_view> words{
      "False",    "None",   "True",  "and",  "as",     "assert", "async", "await",    "break",   "class",
      "continue", "def",    "del",   "elif", "else",   "except", "for",   "from",     "finally", "global",
      "if",       "import", "in",    "is",   "lambda", "not",    "or",    "nonlocal", "pass",    "raise",
      "return",   "try",    "while", "with", "yield",  "self",   "torch"};
  return words;
}

// One statement: what it assigns, the expression, the values it reads, what stands before it on its line.
struct Statement {
  std::string target, expression;
  std::vector<std::string> reads;
  std::string before = {};
};

class Writer {
 public:
  Writer(const Graph& g, const LiteralOf& literal) : g_(g), literal_(literal) {}

  Result<std::string> run() {
    nameValues();
    for (ValueId v : g_.inputs()) defined_.insert(v.index);
    for (NodeId id : g_.order(g_.root())) {
      if (!g_.node(id).blocks.empty())
        return badInput(
            fmt::format("{} is control flow, which this view cannot show as straight Python; see the canonical text",
                        g_.node(id).name));
      node(id);
    }
    std::vector<Argument> returns(g_.returns().begin(), g_.returns().end());
    for (const Argument& a : returns) fetch(a);
    Statement last{"", "return " + (returns.size() == 1 ? text(returns[0]) : "(" + join(returns) + ")"), {}};
    for (const Argument& a : returns) read(a, last);
    statements_.push_back(std::move(last));
    return render();
  }

 private:
  /// Every value and its name in the code: an identifier that no other value has and that the code uses for nothing
  /// else.
  void nameValues() {
    std::unordered_set<std::string> taken;
    const auto reserve = [&](const Argument& a) { reserveUsed(a, taken); };
    for (NodeId id : g_.order(g_.root())) {
      const Node& n = g_.node(id);
      for (const Argument& a : n.args) reserve(a);
      for (const auto& [k, a] : n.kwargs) reserve(a);
      if (!n.origin) continue;
      for (const Argument& a : n.origin->args) reserve(a);
      for (const auto& [k, a] : n.origin->kwargs) reserve(a);
      if (n.origin->opcode == "call_function") taken.insert(n.origin->callee.substr(0, n.origin->callee.find('.')));
    }
    const auto name = [&](ValueId v) {
      std::string wish = g_.value(v).name;
      std::replace(wish.begin(), wish.end(), '.', '_');
      while (reservedWords().contains(wish) || !taken.insert(wish).second) wish += '_';
      names_.emplace(v.index, std::move(wish));
    };
    for (ValueId v : g_.inputs()) name(v);
    for (ValueId w : g_.weights()) name(w);
    for (NodeId id : g_.order(g_.root()))
      for (ValueId v : g_.node(id).outputs) name(v);
  }

  /// Names of Python's that the argument's text uses.
  static void reserveUsed(const Argument& a, std::unordered_set<std::string>& out) {
    if (const auto* d = a.as<double>(); d && (*d - *d) != 0) out.insert("float");
    if (a.as<std::complex<double>>()) out.insert("complex");
    if (const auto* s = a.as<Argument::Slice>()) {
      out.insert("slice");
      for (const Argument& i : s->bounds) reserveUsed(i, out);
    }
    if (const auto* items = a.items())
      for (const Argument& i : *items) reserveUsed(i, out);
    if (const auto* d = a.as<Argument::Dict>())
      for (const auto& [k, v] : d->items) {
        reserveUsed(k, out);
        reserveUsed(v, out);
      }
  }

  /// Whether the code so far makes all values that the spelling names: what an edit left behind does not count.
  bool isSpelled(const Node& n) const {
    if (!n.origin) return false;
    bool all = true;
    const auto see = [&](ValueId v) {
      all = all && g_.value(v).alive && (g_.isWeight(v) || defined_.contains(v.index));
    };
    for (const Argument& a : n.origin->args) a.forEachValue(see);
    for (const auto& [k, a] : n.origin->kwargs) a.forEachValue(see);
    return all;
  }

  void node(NodeId id) {
    const Node& n = g_.node(id);
    Statement s{n.outputs.empty() ? identifier(n.name) : identifier(n.outputs[0]), "", {}};
    if (isSpelled(n)) {
      for (const Argument& a : n.origin->args) fetch(a);
      for (const auto& [k, a] : n.origin->kwargs) fetch(a);
      s.before = change(*n.origin);
      s.expression = s.before.empty() ? spelled(*n.origin) : text(n.origin->args[0]);
      for (const Argument& a : n.origin->args) read(a, s);
      for (const auto& [k, a] : n.origin->kwargs) read(a, s);
    } else {
      std::string args;
      size_t given = 0;
      for (size_t i = 0; i < n.args.size(); ++i) {
        fetch(n.args[i]);
        const Parameter* p = i < n.op->parameters.size() ? &n.op->parameters[i] : nullptr;
        if (p && p->defaultValue && *p->defaultValue == n.args[i]) continue;
        const bool keyword = p && (p->keywordOnly || given < i);
        args += (args.empty() ? "" : ", ") + (keyword ? p->name + " = " : "") + text(n.args[i]);
        given += !keyword;
        read(n.args[i], s);
      }
      for (const auto& [k, a] : n.kwargs) {
        fetch(a);
        args += (args.empty() ? "" : ", ") + k + " = " + text(a);
        read(a, s);
      }
      s.expression = n.op->name == "prim.getitem" && n.args.size() == 2
                         ? fmt::format("{}[{}]", text(n.args[0]), text(n.args[1]))
                         : fmt::format("torch.ops.{}({})", callee(n), args);
    }
    for (size_t i = 1; i < n.outputs.size(); ++i) s.target += ", " + identifier(n.outputs[i]);
    for (ValueId v : n.outputs) defined_.insert(v.index);
    statements_.push_back(std::move(s));
  }

  /// With the overload, but where a number stands for a tensor: PyTorch finds the one that takes it.
  std::string_view callee(const Node& n) const {
    const auto isNumber = [&](const Argument& a) {
      if (!a.isValue()) return a.number().has_value();
      const Type::Kind kind = g_.value(a.valueId()).type.kind;
      return kind == Type::Kind::Int || kind == Type::Kind::Float;
    };
    for (size_t i = 0; i < n.args.size() && i < n.op->parameters.size(); ++i)
      if (n.op->parameters[i].type.isTensor() && isNumber(n.args[i])) return n.op->packetName();
    return n.op->name;
  }

  /// "a += b" where the node is that; else empty.
  std::string change(const Origin& o) const {
    const size_t dot = o.callee.find('.');
    if (dot == std::string::npos || o.args.size() != 2 || !o.args[0].isValue()) return {};
    if (!o.callee.starts_with("operator.") && !o.callee.starts_with("_operator.")) return {};
    const auto* found = std::find_if(augmented.begin(), augmented.end(), [&](const Infix& i) {
      return i.name == std::string_view(o.callee).substr(dot + 1);
    });
    return found == augmented.end() ? std::string()
                                    : fmt::format(fmt::runtime(found->text), text(o.args[0]), text(o.args[1]));
  }

  std::string spelled(const Origin& o) const {
    std::string kwargs;
    for (const auto& [k, a] : o.kwargs) kwargs += fmt::format("{}{} = {}", kwargs.empty() ? "" : ", ", k, text(a));
    const auto call = [&](const std::string& callee, const std::vector<Argument>& args) {
      const std::string positional = join(args);
      return fmt::format("{}({}{}{})", callee, positional, positional.empty() || kwargs.empty() ? "" : ", ", kwargs);
    };
    if (o.opcode == "call_module") return call(attributePath(o.target), o.args);
    if (o.opcode == "call_method" && !o.args.empty())
      return call(text(o.args[0]) + "." + o.target, {o.args.begin() + 1, o.args.end()});
    if (o.callee.starts_with("operator.") || o.callee.starts_with("_operator.")) {
      const std::string_view name = std::string_view(o.callee).substr(o.callee.find('.') + 1);
      for (const Infix& i : infixes) {
        if (i.name != name) continue;
        return o.args.size() == 1 ? fmt::format(fmt::runtime(i.text), text(o.args[0]))
                                  : fmt::format(fmt::runtime(i.text), text(o.args[0]), text(o.args[1]));
      }
    }
    return call(o.callee, o.args);
  }

  const std::string& identifier(ValueId v) const { return names_.at(v.index); }
  /// Of a node without results.
  static std::string identifier(std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return reservedWords().contains(name) ? name + "_" : name;
  }

  void fetch(const Argument& a) {
    a.forEachValue([&](ValueId v) {
      if (!g_.isWeight(v) || !fetched_.insert(v.index).second) return;
      const Value& w = g_.value(v);
      const auto literal = w.isConstant && literal_ ? literal_(w) : std::nullopt;
      statements_.push_back({identifier(v), literal ? *literal : attributePath(w.path), {}});
    });
  }
  void read(const Argument& a, Statement& s) const {
    a.forEachValue([&](ValueId v) {
      const std::string& name = identifier(v);
      if (std::find(s.reads.begin(), s.reads.end(), name) == s.reads.end()) s.reads.push_back(name);
    });
  }

  std::string join(const std::vector<Argument>& items) const {
    std::string out;
    for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + text(items[i]);
    return out;
  }
  std::string text(const Argument& a) const {
    if (a.isValue()) return identifier(a.valueId());
    if (const auto* s = a.as<std::string>()) return pythonString(*s);
    if (const auto* l = a.as<Argument::List>()) return "[" + join(l->items) + "]";
    if (const auto* t = a.as<Argument::Tuple>()) return "(" + join(t->items) + (t->items.size() == 1 ? ",)" : ")");
    if (const auto* n = a.as<Named>()) return n->name.starts_with("torch.") ? n->name : "torch." + n->name;
    if (const auto* d = a.as<DeviceName>()) return fmt::format("torch.device('{}')", d->name);
    if (const auto* d = a.as<Argument::Dict>()) {
      std::string out = "{";
      for (size_t i = 0; i < d->items.size(); ++i)
        out += (i ? ", " : "") + text(d->items[i].first) + ": " + text(d->items[i].second);
      return out + "}";
    }
    if (const auto* s = a.as<Argument::Slice>()) return "slice(" + join(s->bounds) + ")";
    if (const auto* d = a.as<double>(); d && *d != *d) return "float('nan')";
    if (const auto* d = a.as<double>(); d && (*d - *d) != 0) return *d > 0 ? "float('inf')" : "float('-inf')";
    return toText(a, g_);
  }

  std::string render() const {
    // As torch.fx does: walking back, the first read met is the last one, in the order of the arguments.
    std::unordered_map<std::string, size_t> lastRead;
    for (size_t i = statements_.size(); i-- > 0;)
      for (const std::string& r : statements_[i].reads) lastRead.emplace(r, i);
    std::string out = "def forward(self";
    for (ValueId v : g_.inputs()) out += ", " + identifier(v);
    out += "):\n";
    for (size_t i = 0; i < statements_.size(); ++i) {
      const Statement& s = statements_[i];
      out += "    " + s.before + (s.before.empty() ? "" : ";  ") +
             (s.target.empty() ? s.expression : s.target + " = " + s.expression);
      std::string drop;
      if (i + 1 < statements_.size()) {
        for (const std::string& r : s.reads)
          if (lastRead.at(r) == i) drop += r + " = ";
        if (!s.target.empty() && s.target.find(',') == std::string::npos && !lastRead.contains(s.target))
          drop += s.target + " = ";
      }
      out += drop.empty() ? "\n" : ";  " + drop + "None\n";
    }
    return out;
  }

  const Graph& g_;
  const LiteralOf& literal_;
  std::vector<Statement> statements_;
  std::unordered_set<uint32_t> fetched_, defined_;
  std::unordered_map<uint32_t, std::string> names_;  // of values
};

}  // namespace

Result<std::string> pythonCode(const Graph& g, const LiteralOf& literal) { return Writer(g, literal).run(); }

}  // namespace graft
