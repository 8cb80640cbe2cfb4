#include "matcher/lang/rule_compiler.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/base/suggest.h"
#include "core/ir/normal_form.h"
#include "matcher/passes/passes.h"

namespace graft::lang {
namespace {

using ParameterKind = PatternParameter::Kind;

std::string unqualified(std::string_view dotted) { return std::string(dotted.substr(dotted.rfind('.') + 1)); }

std::string suggestion(std::string_view word, std::initializer_list<const char*> candidates) {
  std::vector<std::string> list(candidates.begin(), candidates.end());
  const auto near = nearestName(word, list);
  return near ? fmt::format("; did you mean `{}`?", *near) : "";
}

/// What a parameter's annotation says.
struct Annotation {
  ParameterKind kind = ParameterKind::Value;
  bool orNone = false;
  bool orNumber = false;  ///< a tensor or a number
};

/// "f32[2, 3]", which torch.compile prints behind names.
bool isPrintedType(std::string_view text) {
  const size_t bracket = text.find('[');
  return bracket != std::string_view::npos && bracket > 1 && std::isdigit(static_cast<unsigned char>(text[1])) != 0 &&
         std::string_view("fiucb").find(text[0]) != std::string_view::npos;
}

ParameterKind plainKind(const SourceText& text, const Syntax& type, std::string_view name) {
  if (name == "Tensor" || name == "FloatTensor" || name == "LongTensor" || name == "Parameter" || isPrintedType(name))
    return ParameterKind::Tensor;
  if (name == "Weight") return ParameterKind::Weight;
  if (name == "float") return ParameterKind::Float;
  if (name == "int" || name == "Sym") return ParameterKind::Int;
  if (name == "bool") return ParameterKind::Bool;
  if (name == "str") return ParameterKind::String;
  if (name == "Constant" || name == "Number" || name == "Scalar") return ParameterKind::Constant;
  if (name == "Any" || name == "object") return ParameterKind::Value;
  text.fail(
      type.span.begin,
      fmt::format(
          "`{}` is not a type that a parameter can have (Tensor, Weight, float, int, bool, str, list[int], Constant){}",
          name, suggestion(name, {"Tensor", "Weight", "float", "int", "bool", "str", "Constant"})));
}

/// The alternatives of `A | B`, Optional[A], Union[A, B].
void alternativesOf(const Syntax& type, std::vector<const Syntax*>& out, bool& orNone) {
  const std::string generic = type.kind == Syntax::Kind::Subscript ? unqualified(dottedName(type.items[0])) : "";
  if ((type.kind == Syntax::Kind::Binary && type.name == "|") || generic == "Optional" || generic == "Union") {
    orNone = orNone || generic == "Optional";
    for (size_t i = generic.empty() ? 0 : 1; i < type.items.size(); ++i) {
      const Syntax& part = type.items[i];
      if (generic == "Union" && part.kind == Syntax::Kind::Tuple)
        for (const Syntax& item : part.items) alternativesOf(item, out, orNone);
      else
        alternativesOf(part, out, orNone);
    }
  } else if (type.kind == Syntax::Kind::Constant && type.literal.isNone()) {
    orNone = true;
  } else {
    out.push_back(&type);
  }
}

ParameterKind kindOf(const SourceText& text, const Syntax& type) {
  if (type.kind == Syntax::Kind::Constant && type.literal.as<std::string>()) {
    const std::string& name = *type.literal.as<std::string>();
    return plainKind(text, type, isPrintedType(name) ? name : unqualified(name));
  }
  if (type.kind == Syntax::Kind::Subscript) {
    const std::string name = unqualified(dottedName(type.items[0]));
    const std::string inner = type.items.size() > 1 ? unqualified(dottedName(type.items[1])) : "";
    if ((name == "list" || name == "List" || name == "tuple" || name == "Tuple") && inner == "int")
      return ParameterKind::IntList;
    text.fail(type.span.begin, "a list parameter is written `list[int]`");
  }
  return plainKind(text, type, unqualified(dottedName(type)));
}

Annotation annotationOf(const SourceText& text, const ParameterSyntax& p) {
  Annotation out;
  if (!p.type) {
    out.orNumber = true;
    return out;
  }
  std::vector<const Syntax*> types;
  alternativesOf(*p.type, types, out.orNone);
  if (types.empty()) text.fail(p.type->span.begin, "a parameter that is None alone is no parameter: write None");
  std::vector<ParameterKind> kinds;
  for (const Syntax* t : types) kinds.push_back(kindOf(text, *t));
  const auto has = [&](ParameterKind k) { return std::find(kinds.begin(), kinds.end(), k) != kinds.end(); };
  const auto isNumber = [](ParameterKind k) {
    return k == ParameterKind::Float || k == ParameterKind::Int || k == ParameterKind::Bool ||
           k == ParameterKind::Constant;
  };
  out.kind = kinds.front();
  out.orNumber = out.kind == ParameterKind::Value;
  if (kinds.size() == 1) return out;
  const bool graphValues = has(ParameterKind::Tensor) || has(ParameterKind::Value) || has(ParameterKind::Weight);
  const bool numbers = std::any_of(kinds.begin(), kinds.end(), isNumber);
  if (graphValues && numbers && !has(ParameterKind::String) && !has(ParameterKind::IntList)) {  // Tensor | float
    out.kind = ParameterKind::Value;
    out.orNumber = true;
  } else if (!graphValues && std::all_of(kinds.begin(), kinds.end(), [](ParameterKind k) {
               return k == ParameterKind::Float || k == ParameterKind::Int;
             })) {
    out.kind = ParameterKind::Float;  // an int will do as one
  } else if (!graphValues && kinds.size() == 2 && has(ParameterKind::Int) && has(ParameterKind::IntList)) {
    out.kind = ParameterKind::IntList;
  } else if (!graphValues) {
    out.kind = ParameterKind::Constant;
  } else if (std::all_of(kinds.begin(), kinds.end(),
                         [](ParameterKind k) { return k == ParameterKind::Tensor || k == ParameterKind::Weight; })) {
    out.kind = ParameterKind::Tensor;
  } else {
    text.fail(p.type->span.begin, "a parameter is a tensor, a tensor or a number, or a constant");
  }
  return out;
}

/// `Tensor | float`: the author says that numbers will do, whatever the replacement makes of them.
bool saysOrNumber(const ParameterSyntax& p) {
  return p.type && (p.type->kind == Syntax::Kind::Binary || p.type->kind == Syntax::Kind::Subscript);
}

/// Whether the replacement uses the value only where a number would do as well: x + 1 is written as x + y.
bool takesNumbers(const Graph& g, const std::vector<Expression>& expressions, ValueId v) {
  if (std::any_of(expressions.begin(), expressions.end(),
                  [&](const Expression& e) { return reads(e, g.value(v).name); }))
    return false;
  for (NodeId user : g.value(v).users) {
    const Node& n = g.node(user);
    for (size_t i = 0; i < n.args.size(); ++i) {
      bool uses = false;
      n.args[i].forEachValue([&](ValueId a) { uses = uses || a == v; });
      if (!uses) continue;
      if (!n.op->hasSchema || i >= n.op->parameters.size()) return false;
      const Type& type = n.op->parameters[i].type;
      const Type& plain = type.kind == Type::Kind::Optional ? type.element() : type;
      if (plain.kind != Type::Kind::Tensor) continue;
      // 1 - x and 2 ** x begin with a number; where others have one first, their normal form has it second.
      const std::string_view op = canonicalOperator(n.op->name);
      const bool mayBeFirst = op == "aten.sub.Tensor" || op == "aten.pow.Tensor_Tensor";
      if (!n.op->is(OperatorFact::NumberOperand) || (i == 0 && !mayBeFirst)) return false;
    }
  }
  return true;
}

/// A side's function with what is to be defined before it runs.
const FunctionSyntax& bodyOf(const FileContext& file, const SideSyntax& side) {
  if (side.function) return *side.function;
  const FunctionSyntax* forward = side.module->findFunction("forward");
  if (!forward) file.text.fail(side.module->span.begin, fmt::format("`{}` has no forward", side.module->name));
  return *forward;
}

std::vector<const ParameterSyntax*> parametersOf(const FunctionSyntax& f) {
  std::vector<const ParameterSyntax*> out;
  for (const ParameterSyntax& p : f.parameters) {
    if (&p == &f.parameters.front() && p.name == "self") continue;
    out.push_back(&p);
  }
  return out;
}

Argument literalDefault(const FileContext& file, const ParameterSyntax& p) {
  if (p.defaultValue->kind == Syntax::Kind::Constant) return p.defaultValue->literal;
  file.text.fail(p.defaultValue->span.begin,
                 fmt::format("the value of `{}` must be a plain number, string, True, False or None", p.name));
}

SideSyntax sideOf(const FileContext& file, const ClassSyntax& type, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const FunctionSyntax* f = type.findFunction(name)) return {f, nullptr, &file};
    if (const ClassSyntax* c = type.findClass(name)) return {nullptr, c, &file};
    const Syntax* value = type.findAssignment(name);
    if (!value) continue;
    if (value->kind != Syntax::Kind::Name)
      file.text.fail(value->span.begin, fmt::format("`{}` is a function or a class of this file", name));
    if (const Definition d = file.find(value->name); d.function || d.type) return {d.function, d.type, d.file};
    std::vector<std::string> known;
    for (const FunctionSyntax& f : file.syntax.functions) known.push_back(f.name);
    for (const ClassSyntax& c : file.syntax.classes) known.push_back(c.name);
    for (const auto& [imported, d] : file.imported) known.push_back(imported);
    const auto near = nearestName(value->name, known);
    file.text.fail(value->span.begin, fmt::format("`{}` is not a function or class of this file{}", value->name,
                                                  near ? fmt::format("; did you mean `{}`?", *near) : ""));
  }
  return {};
}

void compilePattern(const FileContext& file, const RuleSyntax& syntax, Body& body, Rule& rule) {
  const FunctionSyntax& f = bodyOf(file, syntax.pattern);
  if (syntax.pattern.module) body.construct(*syntax.pattern.module);
  for (const ParameterSyntax* p : parametersOf(f)) {
    if (p->defaultValue) {  // a value given here is that value, not something to find
      body.define(p->name, Term{literalDefault(file, *p), p->span});
      continue;
    }
    for (const PatternParameter& other : rule.parameters)
      if (other.name == p->name) file.text.fail(p->span.begin, fmt::format("two parameters are called `{}`", p->name));
    const Annotation type = annotationOf(file.text, *p);
    rule.parameters.push_back({p->name, type.kind, type.orNone, type.orNumber});
    body.addParameter(p->name, type.kind);
  }
  body.returns(body.run(f), f.span);
  if (body.graph.nodeCount() == 0)
    file.text.fail(f.span.begin, "the pattern holds no operation: it would match every value");
}

void compileReplacement(const FileContext& file, const RuleSyntax& syntax, const Body& pattern, Body& body,
                        const Rule& rule, const FunctionSyntax* backward = nullptr) {
  const FunctionSyntax& f = bodyOf(file, syntax.replacement);
  body.takeModulesOf(pattern);
  if (syntax.replacement.module) body.construct(*syntax.replacement.module);
  std::vector<const ParameterSyntax*> given;
  for (const ParameterSyntax* p : parametersOf(f)) {
    const bool known =
        std::any_of(rule.parameters.begin(), rule.parameters.end(), [&](const auto& q) { return q.name == p->name; });
    if (p->defaultValue && !known) {
      body.define(p->name, Term{literalDefault(file, *p), p->span});
    } else {
      given.push_back(p);
    }
  }
  size_t known = 0;
  for (const ParameterSyntax* p : given)
    for (const PatternParameter& q : rule.parameters) known += q.name == p->name;
  const bool byPosition = known == 0 && given.size() == rule.parameters.size();  // as torch.fx pairs them
  for (size_t i = 0; i < given.size(); ++i) {
    const ParameterSyntax& p = *given[i];
    const PatternParameter* match = nullptr;
    for (size_t j = 0; j < rule.parameters.size(); ++j)
      if (byPosition ? i == j : rule.parameters[j].name == p.name) match = &rule.parameters[j];
    if (!match) {
      std::vector<std::string> names;
      for (const PatternParameter& q : rule.parameters) names.push_back(q.name);
      const auto near = nearestName(p.name, names);
      file.text.fail(p.span.begin, fmt::format("the pattern has no parameter `{}`{}", p.name,
                                               near ? fmt::format("; did you mean `{}`?", *near) : ""));
    }
    const ValueId id = body.addParameter(match->name, match->kind);
    if (p.name != match->name) body.define(p.name, Term{GraphValue{id, match->kind, false}, p.span});
  }
  const Body::Names parameters = body.names();
  Term result = body.run(f);
  if (backward) result = body.withGradients(result, parameters, rule.name, *backward, *syntax.backward.file);
  body.returns(result, f.span);
  const size_t want = pattern.graph.returns().size(), have = body.graph.returns().size();
  if (want != have) {
    const bool list = have == 1 && body.graph.returns()[0].isValue() &&
                      body.graph.value(body.graph.returns()[0].valueId()).type.kind == Type::Kind::List;
    file.text.fail(f.span.begin,
                   fmt::format("the pattern returns {} value{} and the replacement {}{}", want, want == 1 ? "" : "s",
                               have, list ? ", a list: give its items names (`a, b = ...`) and return these" : ""));
  }
  for (const ValueId v : body.graph.inputs()) {
    if (body.graph.isUnused(v)) {
      bool inExpression = !body.expressions.empty();
      if (!inExpression) continue;
    }
    const ValueId p = pattern.graph.findValue(body.graph.value(v).name);
    if (p && pattern.graph.isUnused(p) && !body.graph.isUnused(v))
      file.text.fail(f.span.begin,
                     fmt::format("`{}` is used here, but the pattern does not use it, so nothing is bound to it",
                                 body.graph.value(v).name));
  }
}

const Syntax& listOf(const FileContext& file, const Syntax& value, const char* what) {
  if (value.kind != Syntax::Kind::List && value.kind != Syntax::Kind::Tuple)
    file.text.fail(value.span.begin, fmt::format("`{}` is a list", what));
  return value;
}

Argument stepArgument(const FileContext& file, const Syntax& s) {
  if (s.kind == Syntax::Kind::Constant) return s.literal;
  const std::string dotted = dottedName(s);
  if (!dotted.empty()) {
    const size_t dot = dotted.find('.');
    const std::string root = dotted.substr(0, dot);
    auto it = file.text.imports().find(root);
    const std::string base = it != file.text.imports().end() ? it->second
                             : root == "nn"                  ? "torch.nn"
                             : root == "F"                   ? "torch.nn.functional"
                                                             : root;
    const std::string full = dot == std::string::npos ? base : base + dotted.substr(dot);
    if (full.starts_with("torch."))
      if (auto dtype = parseDType(full.substr(6))) return Argument(*dtype);
    return Argument(Named{full});
  }
  if (s.kind == Syntax::Kind::List || s.kind == Syntax::Kind::Tuple) {
    std::vector<Argument> items;
    for (const Syntax& i : s.items) items.push_back(stepArgument(file, i));
    return Argument::list(std::move(items));
  }
  file.text.fail(s.span.begin, "an argument of a step is a number, a string, a name or a list of these");
}

/// The file that an argument names is looked for from the rule file's folder. A plan may stand in the text itself, too.
Argument pathFromFile(const FileContext& file, Argument argument) {
  const auto* path = argument.as<std::string>();
  if (!path || path->starts_with('{')) return argument;
  return Argument((std::filesystem::path(file.text.file()).parent_path() / *path).lexically_normal().string());
}

}  // namespace

RuleSyntax ruleSyntax(const FileContext& file, const ClassSyntax& type) {
  const SourceText& text = file.text;
  for (const FunctionSyntax& f : type.functions)
    if (f.name != "pattern" && f.name != "replacement" && f.name != "replace" && f.name != "where" &&
        f.name != "backward")
      text.fail(f.span.begin, fmt::format("a rule has no `{}`{}", f.name,
                                          suggestion(f.name, {"pattern", "replacement", "where", "backward"})));
  for (const ClassSyntax& c : type.classes)
    if (c.name != "pattern" && c.name != "replacement" && c.name != "replace")
      text.fail(c.span.begin,
                fmt::format("a rule has no `{}`{}", c.name, suggestion(c.name, {"pattern", "replacement"})));
  RuleSyntax rule{type.name,
                  type.doc,
                  type.docSpan,
                  type.span,
                  sideOf(file, type, {"pattern"}),
                  sideOf(file, type, {"replacement", "replace"}),
                  sideOf(file, type, {"where"}),
                  sideOf(file, type, {"backward"})};
  for (const auto& [name, side] : {std::pair("where", rule.where), std::pair("backward", rule.backward)})
    if (side.module)
      text.fail(type.span.begin, fmt::format("`{}` of the rule `{}` is a function, not a module", name, type.name));
  if (!rule.pattern)
    text.fail(type.span.begin, fmt::format("the rule `{}` has no pattern: write `def pattern(...)`", type.name));
  return rule;
}

namespace {

/// The docstring, which begins at that line, as description and cases: these are what stands deeper than a line
/// `cases:`.
void describe(Rule& rule, const std::string& doc, int line) {
  std::optional<size_t> margin;  // of `cases:`, while its lines go on
  std::istringstream lines(doc);
  for (std::string text; std::getline(lines, text); ++line) {
    const size_t begin = text.find_first_not_of(" \t");
    const bool isBlank = begin == std::string::npos;
    if (margin && !isBlank && begin <= *margin) margin.reset();
    if (margin) {
      if (rule.cases.empty()) rule.casesLine = line;
      rule.cases += text + "\n";
    } else if (!isBlank && rule.cases.empty() &&
               text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin) == "cases:") {
      margin = begin;
    } else {
      rule.description += (rule.description.empty() ? "" : "\n") + text;
    }
  }
  if (rule.cases.empty())
    rule.description = doc;
  else
    rule.description.erase(rule.description.find_last_not_of(" \t\n") + 1);
}

}  // namespace

Rule compileRule(const FileContext& file, const RuleSyntax& syntax) {
  Rule rule;
  rule.name = syntax.name;
  describe(rule, syntax.doc, file.text.lineOf(syntax.docSpan.begin));
  rule.file = file.text.file();
  rule.line = file.text.lineOf(syntax.span.begin);
  Body pattern(*syntax.pattern.file, Side::Pattern);
  compilePattern(*syntax.pattern.file, syntax, pattern, rule);
  if (syntax.replacement) {
    Body replacement(*syntax.replacement.file, Side::Replacement);
    compileReplacement(*syntax.replacement.file, syntax, pattern, replacement, rule);
    replacement.graph.name = rule.name;
    rule.replacement = std::move(replacement.graph);
    rule.replacementExpressions = std::move(replacement.expressions);
    const auto declared = parametersOf(bodyOf(*syntax.pattern.file, syntax.pattern));
    for (PatternParameter& p : rule.parameters) {
      const bool isSaid = std::any_of(declared.begin(), declared.end(),
                                      [&](const ParameterSyntax* d) { return d->name == p.name && saysOrNumber(*d); });
      const ValueId v = rule.replacement->findValue(p.name);
      if (p.kind == ParameterKind::Value && p.orNumber && !isSaid && v)
        p.orNumber = takesNumbers(*rule.replacement, rule.replacementExpressions, v);
    }
  }
  if (syntax.backward) {
    if (!syntax.replacement)
      syntax.backward.file->text.fail(
          syntax.backward.span().begin,
          fmt::format("the rule `{}` has no replacement, whose gradients `backward` could compute", syntax.name));
    Body body(*syntax.replacement.file, Side::Replacement);
    compileReplacement(*syntax.replacement.file, syntax, pattern, body, rule, syntax.backward.function);
    body.graph.name = rule.name;
    rule.differentiable = std::move(body.graph);
    rule.differentiableExpressions = std::move(body.expressions);
  }
  if (syntax.where) {
    const FunctionSyntax& condition = *syntax.where.function;
    Body where(*syntax.where.file, Side::Where);
    where.graph = pattern.graph;
    for (const ParameterSyntax* p : parametersOf(condition)) {
      auto it = pattern.names().find(p->name);
      if (it == pattern.names().end()) {
        std::vector<std::string> names;
        for (const auto& [name, term] : pattern.names()) names.push_back(name);
        const auto near = nearestName(p->name, names);
        syntax.where.file->text.fail(p->span.begin,
                                     fmt::format("the pattern of `{}` has no name `{}`{}", syntax.name, p->name,
                                                 near ? fmt::format("; did you mean `{}`?", *near) : ""));
      }
      where.define(p->name, it->second);
    }
    rule.where = where.host(where.run(condition));
  }
  for (const auto& [name, p] : pattern.weights) rule.parameters.push_back(p);
  pattern.graph.name = rule.name;
  rule.pattern = std::move(pattern.graph);
  rule.patternExpressions = std::move(pattern.expressions);
  rule.unpacked = std::move(pattern.unpacked);
  return rule;
}

namespace {

/// `0.02`, or {"rmse": 0.02, "rtol": 0.01, "atol": 0.001}.
RewriteTolerance toleranceOf(const FileContext& file, const Syntax& value) {
  RewriteTolerance out;
  const auto number = [&](const Syntax& s) {
    const auto n = s.kind == Syntax::Kind::Constant ? s.literal.number() : std::nullopt;
    if (!n || *n < 0 || s.literal.as<bool>()) file.text.fail(s.span.begin, "a tolerance is a number from 0 up");
    return *n;
  };
  if (value.kind != Syntax::Kind::Dict) {
    out.rmse = number(value);
    return out;
  }
  for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const std::string* key = value.items[i].literal.as<std::string>();
    std::optional<double>* limit = !key             ? nullptr
                                   : *key == "rmse" ? &out.rmse
                                   : *key == "rtol" ? &out.rtol
                                   : *key == "atol" ? &out.atol
                                                    : nullptr;
    if (!limit) file.text.fail(value.items[i].span.begin, "a tolerance is given as \"rmse\", \"rtol\" and \"atol\"");
    *limit = number(value.items[i + 1]);
  }
  if (!out.isGiven()) file.text.fail(value.span.begin, "a tolerance is a number, or {\"rtol\": 0.01, \"atol\": 0.001}");
  return out;
}

}  // namespace

void applySettings(const FileContext& file, const ClassSyntax& type, Rule& rule) {
  for (const auto& [name, value] : type.assignments) {
    const bool flag = name == "exact" || name == "changes_numbers";
    if (name == "pattern" || name == "replacement" || name == "replace" || name == "where" || name == "backward")
      continue;
    if (name == "tolerance") {
      rule.tolerance = toleranceOf(file, value);
      rule.changesNumbers = true;
      continue;
    }
    if (!flag && name != "scope")
      file.text.fail(value.focus.begin, fmt::format("a rule has no setting `{}`{}", name,
                                                    suggestion(name, {"scope", "exact", "changes_numbers", "tolerance",
                                                                      "pattern", "replacement", "where", "backward"})));
    if (flag) {
      const bool* b = value.literal.as<bool>();
      if (!b) file.text.fail(value.span.begin, fmt::format("`{}` is True or False", name));
      (name == "exact" ? rule.exact : rule.changesNumbers) = *b;
    } else {
      const std::string* s = value.literal.as<std::string>();
      if (!s) file.text.fail(value.span.begin, "`scope` is a string: a regular expression over module paths");
      const RE2 re(*s, RE2::Quiet);
      if (!re.ok()) file.text.fail(value.span.begin, fmt::format("this is not a regular expression: {}", re.error()));
      rule.scope = *s;
    }
  }
}

namespace {

/// swap_module(A, B) where A or B is no activation of torch.nn: a rule, whose pattern is a call of A.
std::shared_ptr<const Rule> swapRule(const FileContext& file, const Syntax& step) {
  if (step.items.size() != 3 || !step.keywords.empty()) return nullptr;  // the pass says what is wrong
  const auto isKnown = [](const Syntax& s) { return isActivationModule(unqualified(dottedName(s))); };
  if (isKnown(step.items[1]) && isKnown(step.items[2])) return nullptr;
  Rule rule;
  rule.name = "swap_module";
  rule.file = file.text.file();
  rule.line = file.text.lineOf(step.span.begin);
  rule.changesNumbers = true;
  rule.parameters.push_back({"x", ParameterKind::Value});
  Body pattern(file, Side::Pattern), replacement(file, Side::Replacement);
  pattern.callAlone(step.items[1]);
  replacement.takeModulesOf(pattern);
  replacement.callAlone(step.items[2]);
  rule.pattern = std::move(pattern.graph);
  rule.replacement = std::move(replacement.graph);
  rule.replacementExpressions = std::move(replacement.expressions);
  return std::make_shared<const Rule>(std::move(rule));
}

}  // namespace

Recipe compileRecipe(const FileContext& file, const ClassSyntax& type, const RuleFile& known) {
  const SourceText& text = file.text;
  Recipe recipe;
  recipe.name = type.name;
  recipe.description = type.doc;
  std::vector<std::string> names;
  for (const Rule& r : known.rules) names.push_back(r.name);
  for (const Pass& p : passes()) names.emplace_back(p.name);
  const auto check = [&](const std::string& name, Span at) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    const Definition d = file.find(name);
    if (d)
      text.fail(at.begin, fmt::format("`{}` is a {}, not a rule or a pass", name,
                                      d.function ? "function"
                                      : d.type   ? "module"
                                                 : "constant"));
    for (const ImportedName& i : text.importedNames())
      if (i.local == name && i.module.find('.') == std::string::npos && i.module != "graft")
        text.fail(i.offset,
                  fmt::format("`{0}` is imported from `{1}`, and there is no {1}.py beside this file or among "
                              "the shipped rules",
                              i.name, i.module));
    const auto near = nearestName(name, names);
    text.fail(at.begin, fmt::format("`{}` is neither a rule of this file nor a known pass{}", name,
                                    near ? fmt::format("; did you mean `{}`?", *near) : ""));
  };
  for (const auto& [name, value] : type.assignments) {
    if (name == "steps") {
      for (const Syntax& s : listOf(file, value, "steps").items) {
        Step step;
        const Syntax& callee = s.kind == Syntax::Kind::Call ? s.items[0] : s;
        step.name = unqualified(dottedName(callee));
        step.line = text.lineOf(s.span.begin);
        check(step.name, callee.span);
        if (step.name == "swap_module") step.rule = swapRule(file, s);
        for (size_t i = 1; s.kind == Syntax::Kind::Call && i < s.items.size() && !step.rule; ++i)
          step.args.push_back(stepArgument(file, s.items[i]));
        for (const auto& [key, syntax] : s.keywords) {
          Argument argument = stepArgument(file, syntax);
          step.kwargs.emplace_back(key, key == "plan" ? pathFromFile(file, std::move(argument)) : std::move(argument));
        }
        recipe.steps.push_back(std::move(step));
      }
    } else if (name == "expect") {
      if (value.kind != Syntax::Kind::Dict) text.fail(value.span.begin, "`expect` is a dictionary: {Attention: 12}");
      for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
        const Syntax& key = value.items[i];
        std::string rule = dottedName(key);
        if (const auto* s = key.literal.as<std::string>()) rule = *s;
        check(rule, key.span);
        const auto* n = value.items[i + 1].literal.as<int64_t>();
        if (!n || *n < 0) text.fail(value.items[i + 1].span.begin, "the expected number of rewrites is a whole number");
        recipe.expect.emplace_back(rule, static_cast<size_t>(*n));
      }
    } else {
      text.fail(value.focus.begin, fmt::format("a recipe has no `{}`{}", name, suggestion(name, {"steps", "expect"})));
    }
  }
  if (recipe.steps.empty()) text.fail(type.span.begin, fmt::format("the recipe `{}` has no steps", type.name));
  return recipe;
}

}  // namespace graft::lang
