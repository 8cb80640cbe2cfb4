#include "matcher/lang/fix_it_candidates.h"

#include <algorithm>
#include <map>
#include <set>

#include "matcher/lang/names.h"
#include "matcher/rule/expression_calls.h"

namespace graft::lang {
namespace {

using Kind = Syntax::Kind;

bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// The sign between two operands that calls that operator; empty where there is none.
std::string signOf(std::string_view packet) {
  static const std::map<std::string_view, std::string> signs{{"aten.add", "+"},    {"aten.sub", "-"},
                                                             {"aten.mul", "*"},    {"aten.div", "/"},
                                                             {"aten.matmul", "@"}, {"aten.pow", "**"}};
  const auto it = signs.find(packet);
  return it == signs.end() ? "" : it->second;
}

/// Whether describe() gave something that can be written in a rule.
bool isLiteral(const std::string& described) {
  return !described.starts_with("the ") && !described.starts_with("a ") && !described.starts_with("an ") &&
         !described.starts_with("`");
}

/// The number itself of "8.0 (it multiplies by the inverse)".
std::string plain(const std::string& described) { return described.substr(0, described.find(" (it multiplies")); }

/// What stands between the first two backticks.
std::string quoted(const std::string& text) {
  const size_t from = text.find('`'), to = from == std::string::npos ? from : text.find('`', from + 1);
  return to == std::string::npos ? "" : text.substr(from + 1, to - from - 1);
}

std::optional<Argument> constantOf(const Syntax& s) {
  if (s.kind == Kind::Constant) return s.literal;
  if (s.kind != Kind::List && s.kind != Kind::Tuple) return std::nullopt;
  std::vector<Argument> items;
  for (const Syntax& i : s.items) {
    auto item = constantOf(i);
    if (!item) return std::nullopt;
    items.push_back(std::move(*item));
  }
  return Argument::list(std::move(items));
}

/// The type of a parameter that takes such a constant.
std::string typeFor(const std::string& literal) {
  if (literal == "True" || literal == "False") return "bool";
  if (literal.starts_with("[")) return "list[int]";
  if (literal.starts_with("'") || literal.starts_with("\"")) return "str";
  if (literal.empty() || literal.find_first_not_of("-+.0123456789einfa") != std::string::npos) return "";
  return literal.find_first_of(".eni") == std::string::npos ? "int" : "float";
}

/// Whether torch.nn.functional has a function of that name.
bool isFunctional(const std::string& name) {
  static const std::set<std::string> known = [] {
    std::set<std::string> names;
    for (const std::string& n : callableNames())
      if (n.starts_with("F.")) names.insert(n.substr(2, n.find('(') - 2));
    return names;
  }();
  return known.contains(name);
}

template <class F>
void visit(const Syntax& s, F&& f) {
  f(s);
  for (const Syntax& i : s.items) visit(i, f);
  for (const KeywordSyntax& k : s.keywords) visit(k.value, f);
}

template <class F>
void visit(const ClassSyntax& c, F&& f) {
  for (const FunctionSyntax& function : c.functions)
    for (const StatementSyntax& s : function.body)
      if (s.value) visit(*s.value, f);
  for (const ClassSyntax& inner : c.classes) visit(inner, f);
}

}  // namespace

std::vector<FixItCandidates::Edits> FixItCandidates::all() {
  switch (miss_.reason) {
    case Reason::Literal:
      literal();
      break;
    case Reason::Operator:
      if (miss_.tooMany)
        operatorTooMany();
      else
        otherOperator();
      break;
    case Reason::Missing:
      missingOperator();
      break;
    case Reason::ConstantKind:
    case Reason::Weight:
    case Reason::DType:
      parameterKind();
      break;
    case Reason::Scope:
      scope();
      break;
    case Reason::ModuleName:
      moduleName();
      break;
    default:
      break;
  }
  return std::move(out_);
}

void FixItCandidates::literal() {
  const Syntax* e = expression();
  if (!e || miss_.parameter.empty()) return;
  const std::string actual = plain(miss_.actual);
  const auto put = [&](Span at) {
    if (isLiteral(actual)) offer({{at, actual}});
    offer({{at, "_"}});
  };
  bool isGiven = false;
  for (const KeywordSyntax& k : e->keywords) {
    if (k.name != miss_.parameter) continue;
    isGiven = true;
    if (const auto at = whole(k.value)) put(*at);
  }
  if (isGiven) return;
  const size_t first = e->kind == Kind::Call ? 1 : 0;
  for (size_t i = first; i < e->items.size(); ++i) {
    const auto at = whole(e->items[i]);
    const auto constant = constantOf(e->items[i]);
    if (at && ((constant && argumentText(*constant) == miss_.expected) || textOf(*at) == miss_.expected)) put(*at);
  }
  // Not given: the rule means what is left out.
  if (e->kind != Kind::Call || !isLiteral(actual)) return;
  if (const auto call = whole(*e)) {
    size_t last = call->end - 2;
    while (last > call->begin && isSpace(text_.masked()[last])) --last;
    const char before = text_.masked()[last];
    const Span at{call->end - 1, call->end - 1};
    offer({{at, (before == '(' || before == ',' ? "" : ", ") + miss_.parameter + "=" + actual}});
  }
}

void FixItCandidates::otherOperator() {
  const Syntax* e = expression();
  if (!e || !miss_.at) return;
  const Operator& there = *graph_.node(miss_.at).op;
  if (e->kind == Kind::Binary) {
    if (const std::string sign = signOf(there.packetName()); !sign.empty()) offer({{e->focus, sign}});
    const auto a = whole(e->items[0]), b = whole(e->items[1]), all = whole(*e);
    if (!a || !b || !all) return;
    for (const std::string& name : namesOf(there)) offer({{*all, name + "(" + textOf(*a) + ", " + textOf(*b) + ")"}});
    return;
  }
  if (e->kind != Kind::Call) return;
  const Syntax& callee = e->items[0];
  const std::string dotted = dottedName(callee);
  if (callee.kind == Kind::Attribute) offer({{callee.focus, std::string(there.baseName())}});
  if (!dotted.empty())
    for (const std::string& name : namesOf(there)) offer({{callee.span, name}});
}

void FixItCandidates::operatorTooMany() {
  const Syntax* e = expression();
  if (!e || !miss_.at) return;
  const Node& more = graph_.node(miss_.at);
  // What else it reads would be lost without a word.
  for (size_t k = 1; k < more.args.size(); ++k)
    if (more.args[k].isValue() && !graph_.isWeight(more.args[k].valueId())) return;
  const auto all = whole(*e);
  if (!all) return;
  for (const std::string& name : namesOf(*more.op))
    offer({{*all, "optional(" + name + ", " + textOf(*all) + anyArguments(more) + ")"}});
}

void FixItCandidates::missingOperator() {
  const Syntax* e = expression();
  if (!e || !miss_.patternNode) return;
  const auto all = whole(*e);
  if (!all) return;
  if (e->kind == Kind::Binary) {
    const auto a = whole(e->items[0]), b = whole(e->items[1]);
    if (!a || !b) return;
    for (const std::string& name : namesOf(*rule_.pattern.node(miss_.patternNode).op))
      for (const auto& [x, y] : {std::pair(*a, *b), std::pair(*b, *a)})
        offer({{*all, "optional(" + name + ", " + textOf(x) + ", " + textOf(y) + ")"}});
    return;
  }
  if (e->kind != Kind::Call) return;
  const Syntax& callee = e->items[0];
  const auto calleeSpan = whole(callee);
  if (!calleeSpan) return;
  size_t open = calleeSpan->end;
  while (open < all->end && text_.masked()[open] != '(') ++open;
  if (open + 1 >= all->end) return;
  std::string arguments = textOf({static_cast<uint32_t>(open + 1), all->end - 1});
  while (!arguments.empty() && isSpace(arguments.back())) arguments.pop_back();
  if (!arguments.empty()) arguments = ", " + arguments;
  offer({{*all, "optional(" + textOf(*calleeSpan) + arguments + ")"}});  // of a function
  if (callee.kind != Kind::Attribute) return;
  const auto object = whole(callee.items[0]);
  if (!object) return;
  for (const std::string& name : {"torch.Tensor." + callee.name, "torch." + callee.name})
    offer({{*all, "optional(" + name + ", " + textOf(*object) + arguments + ")"}});
}

void FixItCandidates::parameterKind() {
  const std::string name = miss_.reason == Reason::DType ? miss_.parameter : quoted(miss_.expected);
  if (name.empty()) return;
  const std::string actual = plain(miss_.actual);
  std::string declared;
  if (const ClassSyntax* c = ownClass())
    if (const FunctionSyntax* pattern = c->findFunction("pattern"))
      for (const ParameterSyntax& p : pattern->parameters)
        if (p.name == name && p.type)
          if (const auto at = whole(*p.type)) declared = textOf(*at);
  if (actual == "None") return declare(name, (declared.empty() ? "Tensor" : declared) + " | None");
  if (miss_.reason == Reason::DType) return declare(name, "Tensor");
  if (miss_.reason == Reason::Weight) return declare(name, "");
  if (isLiteral(actual)) {
    const std::string type = typeFor(actual);
    if (!type.empty()) declare(name, type);
    if (type == "int") declare(name, "float");
    return;
  }
  declare(name, "");  // a value of the graph, where the rule has a constant
}

/// Gives the parameter another type, wherever the rule declares it; none with an empty one.
void FixItCandidates::declare(const std::string& parameter, const std::string& type) {
  const ClassSyntax* c = ownClass();
  if (!c) return;
  std::vector<std::pair<Span, std::string>> everywhere, pattern;
  for (const FunctionSyntax& f : c->functions) {
    if (f.name != "pattern" && f.name != "replacement") continue;
    for (const ParameterSyntax& p : f.parameters) {
      if (p.name != parameter) continue;
      Span at{p.span.end, p.span.end};
      if (p.type) {
        const auto old = whole(*p.type);
        if (!old) return;
        at.end = old->end;
      } else if (type.empty()) {
        continue;
      }
      everywhere.emplace_back(at, type.empty() ? "" : ": " + type);
      if (f.name == "pattern") pattern.push_back(everywhere.back());
    }
  }
  if (pattern.empty()) return;
  offer(everywhere);
  if (everywhere.size() > 1) offer(pattern);
}

void FixItCandidates::scope() {
  const ClassSyntax* c = ownClass();
  const Syntax* value = c ? c->findAssignment("scope") : nullptr;
  if (value && value->kind == Kind::Constant) offer({{value->span, "\".*\""}});
}

void FixItCandidates::moduleName() {
  const Syntax* e = expression();
  const std::string name = quoted(miss_.actual);
  if (!e || e->kind != Kind::Call || e->items.size() < 2 || e->items[1].kind != Kind::Constant || name.empty()) return;
  std::string expression;
  for (const char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') expression += '\\';
    expression += c;
  }
  const uint32_t quote = e->items[1].span.end - 1;
  if (text_.masked()[quote] == '"' || text_.masked()[quote] == '\'') offer({{{quote, quote}, "|" + expression}});
}

// The file's text
// --------------------------------------------------------------------------------------------------------------------

const Syntax* FixItCandidates::expression() const {
  const SourceLocation* at =
      miss_.patternNode ? rule_.pattern.sourceOf(rule_.pattern.node(miss_.patternNode)) : nullptr;
  if (!at || at->file != text_.file() || at->line < 1 || at->column < 1) return nullptr;
  const Syntax* found = nullptr;
  const auto isHere = [&](Span s) {
    const SourceLocation l = text_.location(s);
    return l.line == at->line && l.column == at->column && l.endColumn == at->endColumn;
  };
  visit(file_, [&](const Syntax& s) {
    const bool isOperation = s.kind == Kind::Call || s.kind == Kind::Binary || s.kind == Kind::Unary;
    if (isOperation && (isHere(s.focus) || (s.kind == Kind::Call && isHere(s.items[0].focus)))) found = &s;
  });
  return found;
}

std::optional<Span> FixItCandidates::whole(const Syntax& s) const {
  Span out = s.span;
  const auto take = [&](const Syntax& part) {
    const auto inner = whole(part);
    if (!inner) return false;
    out.begin = std::min(out.begin, inner->begin);
    out.end = std::max(out.end, inner->end);
    return true;
  };
  if (s.kind != Kind::Constant && s.kind != Kind::Name)
    for (const Syntax& i : s.items)
      if (i.span.end > 0 && !take(i)) return std::nullopt;
  for (const KeywordSyntax& k : s.keywords)
    if (!take(k.value)) return std::nullopt;
  const std::string& text = text_.masked();
  if (s.kind == Kind::Constant && argumentText(s.literal).starts_with("-") && text[out.begin] != '-') {
    while (out.begin > 0 && isSpace(text[out.begin - 1])) --out.begin;
    if (out.begin == 0 || text[out.begin - 1] != '-') return std::nullopt;
    --out.begin;  // the parser's place is that of the digits
  }
  if (s.kind == Kind::Call || s.kind == Kind::Subscript) {
    const auto object = whole(s.items[0]);
    if (!object) return std::nullopt;
    size_t open = object->end;
    while (open < text.size() && isSpace(text[open])) ++open;
    if (open >= text.size() || text[open] != (s.kind == Kind::Call ? '(' : '[')) return std::nullopt;
    out.end = std::max(out.end, static_cast<uint32_t>(open + 1));
  }
  return balanced(out);
}

/// With the brackets that it opens, or closes, beyond its ends.
std::optional<Span> FixItCandidates::balanced(Span span) const {
  const std::string& text = text_.masked();
  std::vector<char> open;
  std::vector<char> before;  // brackets that are closed inside, opened before
  for (size_t i = span.begin; i < span.end; ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c != ')' && c != ']' && c != '}') continue;
    if (open.empty())
      before.push_back(c == ')' ? '(' : c == ']' ? '[' : '{');
    else
      open.pop_back();
  }
  for (const char wanted : before) {
    size_t i = span.begin;
    while (i > 0 && isSpace(text[i - 1])) --i;
    if (i == 0 || text[i - 1] != wanted) return std::nullopt;
    span.begin = static_cast<uint32_t>(i - 1);
  }
  for (; !open.empty(); open.pop_back()) {
    size_t i = span.end;
    while (i < text.size() && (isSpace(text[i]) || text[i] == ',')) ++i;
    if (i >= text.size() || text[i] != open.back()) return std::nullopt;
    span.end = static_cast<uint32_t>(i + 1);
  }
  return span;
}

std::string FixItCandidates::textOf(Span span) const {
  return std::string(text_.original().substr(span.begin, span.end - span.begin));
}

std::vector<std::string> FixItCandidates::namesOf(const Operator& op) const {
  const std::string base(op.baseName());
  std::vector<std::string> out;
  if (op.packetName().starts_with("graft.")) return {"kernels." + base};
  for (const auto& [local, module] : text_.imports())
    if (module == "torch.nn.functional" && isFunctional(base)) out.push_back(local + "." + base);
  for (const char* place : {"torch.", "torch.Tensor.", "torch.ops.aten."}) out.push_back(place + base);
  return out;
}

std::string FixItCandidates::anyArguments(const Node& node) const {
  const auto& parameters = node.op->parameters;
  const auto isLeftOut = [&](size_t k) {
    return k >= node.args.size() || (parameters[k].defaultValue && node.args[k] == *parameters[k].defaultValue);
  };
  size_t last = 0;
  for (size_t k = 1; k < parameters.size(); ++k)
    if (!parameters[k].keywordOnly && !isLeftOut(k)) last = k;
  std::string out;
  for (size_t k = 1; k < parameters.size(); ++k) {
    if (!parameters[k].keywordOnly && k <= last) out += ", _";
    if (parameters[k].keywordOnly && !isLeftOut(k)) out += ", " + parameters[k].name + "=_";
  }
  return out;
}

const ClassSyntax* FixItCandidates::ownClass() const {
  if (const ClassSyntax* c = file_.findClass(rule_.name)) return c;
  return file_.findFunction("pattern") ? &file_ : nullptr;
}

void FixItCandidates::offer(std::vector<std::pair<Span, std::string>> edits) {
  Edits out;
  for (auto& [span, after] : edits)
    out.push_back({span.begin, span.end, text_.lineOf(span.begin), textOf(span), std::move(after)});
  std::sort(out.begin(), out.end(), [](const TextEdit& a, const TextEdit& b) { return a.begin < b.begin; });
  out_.push_back(std::move(out));
}

}  // namespace graft::lang
