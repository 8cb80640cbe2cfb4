#include "core/ir/operator.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace graft {
namespace {

struct SchemaType {
  std::string_view text;
  Type::Kind kind;
};
constexpr std::array<SchemaType, 18> schemaTypes{{
    {"Tensor", Type::Kind::Tensor},
    {"int", Type::Kind::Int},
    {"SymInt", Type::Kind::Int},
    {"float", Type::Kind::Float},
    {"bool", Type::Kind::Bool},
    {"SymBool", Type::Kind::Bool},
    {"complex", Type::Kind::Complex},
    {"Scalar", Type::Kind::Number},
    {"str", Type::Kind::String},
    {"ScalarType", Type::Kind::DType},
    {"Layout", Type::Kind::Layout},
    {"MemoryFormat", Type::Kind::MemoryFormat},
    {"Device", Type::Kind::Device},
    {"Generator", Type::Kind::Generator},
    {"NoneType", Type::Kind::None},
    {"Any", Type::Kind::Any},
    {"t", Type::Kind::Any},
    {"number", Type::Kind::Number},
}};

// A cursor over the schema's text; every method skips leading space.
class SchemaParser {
 public:
  explicit SchemaParser(std::string_view text) : text_(text) {}

  Result<OperatorRef> parse() {
    auto op = std::make_shared<Operator>();
    const size_t open = text_.find('(');
    if (open == std::string_view::npos) return fail("'(' after the operator's name");
    if (!readName(text_.substr(0, open), op->name)) return fail("a name like aten::relu");
    at_ = open + 1;
    bool keywordOnly = false;
    while (!eat(")")) {
      if (eat("*")) {
        keywordOnly = true;
      } else if (eat("...")) {
        op->variadic = true;
      } else {
        Parameter p;
        p.keywordOnly = keywordOnly;
        if (!type(p.type, p.aliasSet, p.written)) return fail("a parameter's type");
        p.name = word();
        if (p.name.empty()) return fail("a parameter's name");
        if (eat("=")) {
          Argument value;
          if (!literal(value, p.type)) return fail("a default value");
          p.defaultValue = std::move(value);
        }
        op->parameters.push_back(std::move(p));
      }
      if (!eat(",") && peek() != ')') return fail("',' or ')'");
    }
    if (!eat("->")) return fail("'->'");
    if (eat("(")) {
      while (!eat(")")) {
        if (!result(*op)) return fail("a return type");
        if (!eat(",") && peek() != ')') return fail("',' or ')'");
      }
    } else if (!result(*op)) {
      return fail("a return type");
    }
    skip();
    if (at_ != text_.size()) return fail("the end");
    addFacts(*op);
    return OperatorRef(op);
  }

 private:
  static bool readName(std::string_view text, std::string& out) {
    const size_t colons = text.find("::");
    if (colons == std::string_view::npos || colons == 0) return false;
    std::string_view rest = text.substr(colons + 2);
    if (rest.empty()) return false;
    const size_t dot = rest.find('.');
    out = std::string(text.substr(0, colons)) + "." + std::string(rest);
    if (dot == std::string_view::npos) out += ".default";
    return true;
  }

  Error fail(std::string_view wanted) const {
    return badInputAt({"schema", 1, static_cast<int>(at_) + 1, std::string(text_)}, fmt::format("expected {}", wanted));
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool eat(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  std::string word() {
    skip();
    const size_t from = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }

  bool aliasMark(std::string& set, bool& written) {
    // "(a!)", "(a)", "(a -> *)", "(a|b)": the set before is what matters.
    const size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) return false;
    const std::string_view inner = text_.substr(at_, end - at_);
    at_ = end + 1;
    for (char c : inner) {
      if (c == '!') written = true;
      if (c == ' ' || c == '-') break;
      if (c != '!') set += c;
    }
    return true;
  }

  bool type(Type& out, std::string& set, bool& written) {
    if (depth_ > 32) return false;  // deeper is no type but an attack on the stack
    ++depth_;
    const bool sound = nestedType(out, set, written);
    --depth_;
    return sound;
  }
  bool nestedType(Type& out, std::string& set, bool& written) {
    if (eat("Dict(")) {
      Type k, v;
      if (!type(k, set, written) || !eat(",") || !type(v, set, written) || !eat(")")) return false;
      out = Type::dict(std::move(k), std::move(v));
    } else if (peek() == '(') {
      ++at_;
      std::vector<Type> members;
      while (!eat(")")) {
        Type m;
        if (!type(m, set, written)) return false;
        members.push_back(std::move(m));
        if (!eat(",") && peek() != ')') return false;
      }
      out = Type::tuple(std::move(members));
    } else {
      std::string name = word();
      if (name.empty()) return false;
      while (at_ < text_.size() && text_[at_] == '.') {  // __torch__.torch.classes.x.Y
        ++at_;
        name += "." + word();
      }
      out = Type::object(name);
      for (const SchemaType& s : schemaTypes)
        if (s.text == name) out = Type(s.kind);
    }
    for (int around = 0; around < 32; ++around) {
      if (at_ < text_.size() && text_[at_] == '(') {
        ++at_;
        if (!aliasMark(set, written)) return false;
      } else if (at_ < text_.size() && text_[at_] == '[') {
        while (at_ < text_.size() && text_[at_] != ']') ++at_;  // [2]: a length that a single int may stand for
        if (at_ == text_.size()) return false;
        ++at_;
        out = Type::list(std::move(out));
      } else if (at_ < text_.size() && text_[at_] == '?') {
        ++at_;
        out = Type::optional(std::move(out));
      } else {
        return true;
      }
    }
    return false;
  }

  bool result(Operator& op) {
    Return r;
    if (!type(r.type, r.aliasSet, r.written)) return false;
    skip();
    if (at_ < text_.size() && (std::isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      r.name = word();
    if (r.type.kind == Type::Kind::None) return true;
    op.returns.push_back(std::move(r));
    return true;
  }

  bool literal(Argument& out, const Type& type) {
    const char c = peek();
    if (c == '[') {
      ++at_;
      std::vector<Argument> items;
      while (!eat("]")) {
        Argument a;
        if (!literal(a, type)) return false;
        items.push_back(std::move(a));
        if (!eat(",") && peek() != ']') return false;
      }
      out = Argument::list(std::move(items));
      return true;
    }
    if (c == '"' || c == '\'') {
      const size_t end = text_.find(c, at_ + 1);
      if (end == std::string_view::npos) return false;
      out = Argument(std::string(text_.substr(at_ + 1, end - at_ - 1)));
      at_ = end + 1;
      return true;
    }
    if (eat("True")) return out = Argument(true), true;
    if (eat("False")) return out = Argument(false), true;
    if (eat("None")) return out = Argument(), true;
    skip();
    const size_t from = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' && text_[at_] != ']') ++at_;
    const std::string token(text_.substr(from, at_ - from));
    if (token.empty()) return false;
    int64_t i = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), i);
    const bool whole = error == std::errc() && end == token.data() + token.size();
    const Type& base = type.kind == Type::Kind::Optional ? type.element() : type;
    if (whole) {
      out = base.kind == Type::Kind::Float ? Argument(static_cast<double>(i)) : Argument(i);
      return true;
    }
    char* stop = nullptr;
    const double d = std::strtod(token.c_str(), &stop);
    out = *stop == '\0' ? Argument(d) : Argument(Named{token});  // contiguous_format, Mean, long
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

std::string schemaType(const Type& t, const std::string& set, bool written) {
  const std::string mark = set.empty() ? "" : "(" + set + (written ? "!" : "") + ")";
  switch (t.kind) {
    case Type::Kind::List:
      return schemaType(t.element(), "", false) + mark + "[]";
    case Type::Kind::Optional:
      return schemaType(t.element(), set, written) + "?";
    case Type::Kind::Dict:
      return "Dict(" + schemaType(t.elements[0], "", false) + ", " + schemaType(t.elements[1], "", false) + ")";
    case Type::Kind::Object:
      return t.name;
    case Type::Kind::Tuple: {
      std::string out = "(";
      for (size_t i = 0; i < t.elements.size(); ++i) out += (i ? ", " : "") + schemaType(t.elements[i], "", false);
      return out + ")";
    }
    default:
      break;
  }
  for (const SchemaType& s : schemaTypes)
    if (s.kind == t.kind) return std::string(s.text) + mark;
  return "Any" + mark;
}

bool holdsTensors(const Type& t) {
  return t.isTensor() || ((t.kind == Type::Kind::List || t.kind == Type::Kind::Optional) && holdsTensors(t.element()));
}

bool holdsTensors(const Operator& op) {
  return std::any_of(op.parameters.begin(), op.parameters.end(),
                     [](const Parameter& p) { return holdsTensors(p.type); }) ||
         std::any_of(op.returns.begin(), op.returns.end(), [](const Return& r) { return holdsTensors(r.type); });
}

std::string schemaLiteral(const Argument& a) {
  if (a.isNone()) return "None";
  if (const auto* b = a.as<bool>()) return *b ? "True" : "False";
  if (const auto* i = a.as<int64_t>()) return std::to_string(*i);
  if (const auto* d = a.as<double>()) return fmt::format("{}", *d);
  if (const auto* s = a.as<std::string>()) return "\"" + *s + "\"";
  if (const auto* n = a.as<Named>()) return n->name;
  if (const auto* t = a.as<DType>()) return std::string(dtypeName(*t));
  if (const auto* items = a.items()) {
    std::string out = "[";
    for (size_t i = 0; i < items->size(); ++i) out += (i ? ", " : "") + schemaLiteral((*items)[i]);
    return out + "]";
  }
  return "?";
}

}  // namespace

bool Operator::writes() const {
  for (const Parameter& p : parameters)
    if (p.written) return true;
  return false;
}

bool Operator::aliases() const {
  for (const Return& r : returns)
    if (!r.aliasSet.empty()) return true;
  return false;
}

std::string_view Operator::packetName() const {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || name.find('.') == dot ? std::string_view(name)
                                                           : std::string_view(name).substr(0, dot);
}

std::string_view Operator::baseName() const {
  const std::string_view packet = packetName();
  const size_t dot = packet.find('.');
  return dot == std::string_view::npos ? packet : packet.substr(dot + 1);
}

std::optional<size_t> Operator::findParameter(std::string_view parameter) const {
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == parameter) return i;
  return std::nullopt;
}

Result<OperatorRef> parseSchema(std::string_view schema) { return SchemaParser(schema).parse(); }

std::string schemaString(const Operator& op) {
  std::string name(op.packetName());
  if (const size_t dot = name.find('.'); dot != std::string::npos) name.replace(dot, 1, "::");
  const std::string overload = op.name.substr(op.packetName().size());
  std::string out = name + (overload == ".default" ? "" : overload) + "(";
  bool star = false;
  for (size_t i = 0; i < op.parameters.size(); ++i) {
    const Parameter& p = op.parameters[i];
    if (i) out += ", ";
    if (p.keywordOnly && !star) {
      out += "*, ";
      star = true;
    }
    out += schemaType(p.type, p.aliasSet, p.written) + " " + p.name;
    if (p.defaultValue) out += "=" + schemaLiteral(*p.defaultValue);
  }
  if (op.variadic) out += op.parameters.empty() ? "..." : ", ...";
  out += ") -> ";
  const auto one = [](const Return& r) {
    return schemaType(r.type, r.aliasSet, r.written) + (r.name.empty() ? "" : " " + r.name);
  };
  if (op.returns.size() == 1) return out + one(op.returns[0]);
  out += "(";
  for (size_t i = 0; i < op.returns.size(); ++i) out += (i ? ", " : "") + one(op.returns[i]);
  return out + ")";
}

void addFacts(Operator& op) {
  op.facts = &factsOf(op.name);
  // A line without an overload speaks of tensors: "aten.add" is not about aten.add.str.
  constexpr OperatorFact others =
      OperatorFact::SideEffects | OperatorFact::Guard | OperatorFact::Structural | OperatorFact::Identity;
  if (!op.parameters.empty() && !op.facts->isOverload() && !op.is(others) && !holdsTensors(op))
    op.facts = &noOperatorFacts;
  op.random = op.random || op.is(OperatorFact::Random);
  op.sideEffects = op.sideEffects || op.is(OperatorFact::SideEffects);
  if (op.is(OperatorFact::AbsentTensors))
    for (size_t i = 1; i < op.parameters.size(); ++i)
      if (Type& type = op.parameters[i].type; type.isTensor()) type = Type::optional(type);
}

OperatorRef unknownOperator(std::string name) {
  auto op = std::make_shared<Operator>();
  op->name = std::move(name);
  op->hasSchema = false;
  op->sideEffects = true;
  op->facts = &factsOf(op->name);
  return op;
}

const std::vector<OperatorRef>& OperatorSet::packet(std::string_view name) const {
  const std::string key(name);
  const auto it = packets_.find(key);
  if (it != packets_.end()) return it->second;
  std::vector<OperatorRef> found = load(name);
  // What is missing is asked for again: a library that is loaded later may bring it.
  static const std::vector<OperatorRef> none;
  return found.empty() ? none : packets_.emplace(key, std::move(found)).first->second;
}

OperatorRef OperatorSet::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  // "prim.If" has no overloads: it is its own packet.
  const bool isPacket = name.find('.') == dot;
  for (const OperatorRef& op : packet(isPacket ? name : name.substr(0, dot)))
    if (op->name == name) return op;
  if (isPacket) return nullptr;
  for (const OperatorRef& op : packet(name))  // one that is not among what its packet was loaded with
    if (op->name == name) return op;
  return nullptr;
}

std::vector<OperatorRef> OperatorSet::overloads(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return packet(name);
}

void OperatorSet::add(OperatorRef op) {
  const std::lock_guard lock(mutex_);
  packets_[std::string(op->packetName())].push_back(std::move(op));
}

}  // namespace graft
