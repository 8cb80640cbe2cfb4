// Reading a function: its statements in order, what names mean, and what each kind of expression but calls and
// subscripts stands for.
#include "matcher/lang/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/suggest.h"
#include "matcher/lang/names.h"
#include "matcher/rule/expression_calls.h"

namespace graft::lang {
namespace {

constexpr int maxCallDepth = 20;
constexpr size_t maxParts = 500;  // of one tuple or calculation

/// Counts up to `limit` parts: tuples of tuples and sums of sums double with every line.
size_t countParts(const Expression& e, size_t limit) {
  size_t n = 1;
  for (const Expression& o : e.operands)
    if (n < limit) n += countParts(o, limit - n);
  return n;
}
size_t countParts(const Term& t, size_t limit) {
  size_t n = 1;
  if (const auto* e = t.as<Expression>()) n += countParts(*e, limit);
  if (const auto* s = t.as<Sequence>())
    for (const Term& i : s->items)
      if (n < limit) n += countParts(i, limit - n);
  return n;
}

/// Names that mean something without an import: rule files are often snippets.
std::string defaultImport(std::string_view root) {
  if (root == "torch" || root == "math" || root == "operator" || root == "graft") return std::string(root);
  if (root == "F") return "torch.nn.functional";
  if (root == "nn") return "torch.nn";
  if (root == "kernels") return "graft.kernels";
  for (std::string_view n : {"call_module", "call_function", "any_of", "optional", "users", "slice", "runtime"})
    if (root == n) return std::string(n);
  if (root == "inf" || root == "nan") return "math." + std::string(root);  // as torch.fx prints them
  if (root == "device") return "torch.device";
  if (isHostFunction(root)) return std::string(root);
  return {};
}

}  // namespace

Definition FileContext::find(std::string_view name) const {
  if (const FunctionSyntax* f = syntax.findFunction(name)) return {this, f, nullptr, nullptr};
  if (const Syntax* value = syntax.findAssignment(name)) return {this, nullptr, nullptr, value};
  const ClassSyntax* c = syntax.findClass(name);
  if (c && !derivesFrom(*c, "Rule") && !derivesFrom(*c, "Recipe")) return {this, nullptr, c, nullptr};
  const auto it = imported.find(name);
  return it == imported.end() ? Definition{} : it->second;
}

Term Body::run(const FunctionSyntax& function) {
  if (++depth_ > maxCallDepth)
    fail(function.span, fmt::format("`{}` calls itself, or functions call each other too deeply", function.name));
  if (!function.functions.empty())
    fail(function.functions[0].span,
         "a function cannot stand inside a function: put it beside the rule, where the pattern can call it");
  std::optional<Term> result;
  for (const StatementSyntax& s : function.body) {
    if (result) fail(s.span, "nothing may follow the return");
    statement(s, result);
  }
  --depth_;
  if (!result) fail(function.span, fmt::format("`{}` returns nothing: end it with `return ...`", function.name));
  return *result;
}

void Body::statement(const StatementSyntax& s, std::optional<Term>& result) {
  switch (s.kind) {
    case StatementSyntax::Kind::Return:
      result = evaluate(*s.value);
      return;
    case StatementSyntax::Kind::Expression:
      if (s.value->kind != Syntax::Kind::Constant) evaluate(*s.value);
      return;
    case StatementSyntax::Kind::Assign: {
      const Term value = evaluate(*s.value);
      for (const Syntax& target : s.targets) assign(target, value);
      return;
    }
    case StatementSyntax::Kind::AugmentedAssign: {
      Syntax binary;
      binary.kind = Syntax::Kind::Binary;
      binary.name = s.op;
      binary.span = binary.focus = s.span;
      binary.items = {s.targets[0], *s.value};
      // On tensors, `x += y` writes into x; a rule that means that writes x.add_(y).
      assign(s.targets[0], evaluate(binary));
      return;
    }
  }
}

void Body::assign(const Syntax& target, Term value) {
  if (target.kind == Syntax::Kind::Name) {
    const auto* v = value.as<GraphValue>();
    if (v && target.name.starts_with("_")) mayGo_.insert(v->id);
    if (target.name == "_") return;
    if (v && side_ != Side::Where && named_.insert(v->id).second) graph.rename(v->id, target.name);
    names_[target.name] = std::move(value);
    return;
  }
  if (target.kind == Syntax::Kind::Attribute && dottedName(target.items[0]) == "self" && self_) {
    const std::string name = self_->name.empty() ? target.name : self_->name + "." + target.name;
    if (const auto* m = value.as<ModuleRef>()) nameModule(**m, name);
    if (const auto* p = value.as<std::shared_ptr<ParameterInstance>>(); p && (*p)->name.empty()) {
      (*p)->name = name;
      (*p)->takesOver = self_->takesOver;
    }
    self_->members.insert_or_assign(target.name, std::move(value));
    return;
  }
  if (target.kind != Syntax::Kind::Tuple && target.kind != Syntax::Kind::List)
    fail(target.span, "only names can be given values: a pattern has no element to write to");
  if (const auto* s = value.as<Sequence>()) {
    if (s->items.size() != target.items.size())
      fail(target.span, fmt::format("there are {} names for {} values", target.items.size(), s->items.size()));
  }
  if (isModuleCall(value)) {
    size_t next = 0;
    return assignOutputs(target, *value.as<GraphValue>(), next);
  }
  if (const auto* v = value.as<GraphValue>(); v && v->isList) unpacked.emplace_back(v->id, target.items.size());
  for (size_t i = 0; i < target.items.size(); ++i)
    assign(target.items[i], element(value, static_cast<int64_t>(i), target.items[i].span));
}

Term Body::element(const Term& list, int64_t index, Span span) {
  if (list.as<Wildcard>()) return list;
  if (isModuleCall(list) && index >= 0) return moduleOutput(*list.as<GraphValue>(), static_cast<size_t>(index), span);
  if (const auto* s = list.as<Sequence>()) {
    const int64_t size = static_cast<int64_t>(s->items.size());
    if (index < -size || index >= size)
      fail(span, fmt::format("there is no element {}: these are {} values", index, size));
    return s->items[static_cast<size_t>(index < 0 ? index + size : index)];
  }
  if (const auto* v = list.as<GraphValue>(); v && v->isList) {
    guardSize(span);
    const OperatorRef getitem = file_->operators.find("prim.getitem");
    if (!getitem) return patternNode("prim.getitem", {Argument(v->id), Argument(index)}, {}, span);
    const NodeId n = graph.append(graph.root(), getitem, {Argument(v->id), Argument(index)}, "getitem");
    if (graph.node(n).outputs.empty()) graph.addOutput(n, "getitem", Type::tensor());
    graph.setSource(n, graph.addSource(text_->location(span)));
    return Term{GraphValue{graph.output(n), std::nullopt, false}, span};
  }
  if (const auto host = tryHost(list)) {
    Expression e;
    e.kind = Expression::Kind::Subscript;
    e.operands = {*host, Expression{}};
    e.operands[1].literal = Argument(index);
    e.source = text_->location(span);
    return Term{std::move(e), span};
  }
  fail(span, "this is one value and cannot be unpacked");
}

Term Body::evaluate(const Syntax& s) {
  using Kind = Syntax::Kind;
  Term out;
  switch (s.kind) {
    case Kind::Constant:
      out = Term{s.literal, s.span};
      break;
    case Kind::Name:
      out = evaluateName(s);
      break;
    case Kind::Attribute:
      out = evaluateAttribute(s);
      break;
    case Kind::Call:
      out = evaluateCall(s);
      break;
    case Kind::Subscript:
      out = evaluateSubscript(s);
      break;
    case Kind::Unary:
      out = evaluateUnary(s);
      break;
    case Kind::Binary:
      out = evaluateBinary(s);
      break;
    case Kind::List:
    case Kind::Tuple:
      out = evaluateSequence(s);
      break;
    case Kind::IfElse:
      out = evaluateIfElse(s);
      break;
    case Kind::Slice:
      fail(s.span, "a slice belongs inside brackets");
    case Kind::Dict:
      fail(s.span, "a dictionary has no meaning here");
    case Kind::Starred:
      fail(s.span, "`*` can stand only in lists and arguments");
  }
  out.span = s.span;
  if (countParts(out, maxParts) >= maxParts) fail(s.span, fmt::format("this value has more than {} parts", maxParts));
  return out;
}

Term Body::evaluateName(const Syntax& s) {
  if (auto it = names_.find(s.name); it != names_.end()) return it->second;
  if (s.name == "_") return Term{Wildcard{}, s.span};
  const Definition found = file_->find(s.name);
  if (found.function) return Term{Local{found.function, found.file}, s.span};
  if (found.value) {
    if (++depth_ > maxCallDepth) fail(s.span, fmt::format("`{}` is defined by itself", s.name));
    Term t = inFile(*found.file, s.span, [&] { return evaluate(*found.value); });
    --depth_;
    return t;
  }
  if (found.type) return Term{Path{found.type->name, found.type, found.file}, s.span};
  if (file_->importedRules.contains(s.name))
    fail(s.span,
         fmt::format("`{}` is a rule: a pattern can use functions, modules and constants of other files", s.name));
  return evaluatePath(s.name, s.span);
}

Term Body::evaluatePath(const std::string& path, Span span) {
  const size_t dot = path.find('.');
  const std::string root = path.substr(0, dot);
  std::string base;
  if (auto it = text_->imports().find(root); it != text_->imports().end()) {
    base = it->second;
  } else {
    base = defaultImport(root);
  }
  if (base.empty()) {
    if (side_ == Side::Pattern && std::isupper(static_cast<unsigned char>(root[0])))
      return Term{Path{path}, span};  // a module's class
    std::vector<std::string> known;
    for (const auto& [name, term] : names_) known.push_back(name);
    for (const FunctionSyntax& f : file_->syntax.functions) known.push_back(f.name);
    for (const auto& [name, value] : file_->syntax.assignments) known.push_back(name);
    for (const auto& [name, definition] : file_->imported) known.push_back(name);
    for (const auto& [name, full] : text_->imports()) known.push_back(name);
    for (const char* n : {"call_module", "call_function", "any_of", "optional", "torch", "kernels"}) known.push_back(n);
    const auto near = nearestName(root, known);
    fail(span, fmt::format("`{}` is not defined{}", root, near ? fmt::format("; did you mean `{}`?", *near) : ""));
  }
  const std::string full = dot == std::string::npos ? base : base + path.substr(dot);
  if (full.starts_with("torch.")) {
    const std::string_view name = std::string_view(full).substr(6);
    if (const auto dtype = parseDType(name);
        dtype && name.find('.') == std::string_view::npos && dtypeShort(*dtype) != name)
      return Term{Argument(*dtype), span};
    for (std::string_view n : {"strided", "contiguous_format", "channels_last", "preserve_format", "channels_last_3d"})
      if (name == n) return Term{Argument(Named{full}), span};
  }
  if (full == "math.inf" || full == "torch.inf") return Term{Argument(std::numeric_limits<double>::infinity()), span};
  if (full == "math.nan" || full == "torch.nan") return Term{Argument(std::numeric_limits<double>::quiet_NaN()), span};
  if (full == "math.pi" || full == "torch.pi") return Term{Argument(3.141592653589793), span};
  if (full == "math.e") return Term{Argument(2.718281828459045), span};
  return Term{Path{full}, span};
}

// What a parameter of the pattern has is known before any match; what a module has is not.
void Body::checkMember(const Term& object, const Syntax& s) {
  const auto* v = object.as<GraphValue>();
  if (!v || !v->id || v->isConstant() || !graph.isInput(v->id)) return;
  const std::vector<std::string> known = hostMembers();
  if (std::find(known.begin(), known.end(), s.name) != known.end()) return;
  if (const auto near = nearestName(s.name, known))
    fail(s.focus, fmt::format("values have no `{}`; did you mean `{}`?", s.name, *near));
}

Term Body::evaluateAttribute(const Syntax& s) {
  const std::string dotted = dottedName(s);
  if (!dotted.empty()) {
    const std::string root = dotted.substr(0, dotted.find('.'));
    if (root == "self" && self_ && s.items[0].kind == Syntax::Kind::Name) return member(self_, s.name, s.focus);
    // What torch.fx prints of a module's forward: `param = self.layer.param`. Its calls of modules are callAttribute's.
    if (root == "self" && !self_ && !names_.contains(root) && !isHostAttribute(s.name) && !isHostMethod(s.name))
      return patternWeight(dotted.substr(5), false, s.span);
    const Definition found = file_->find(root);
    if (root != "self" && !names_.contains(root) && !found.function && !found.value)
      return evaluatePath(dotted, s.span);
  }
  const Term object = evaluate(s.items[0]);
  if (object.as<Wildcard>() && building_) return object;  // config.hidden_size
  if (object.as<Wildcard>()) fail(s.focus, "`_` has no attributes: give it a name");
  if (const auto* module = object.as<ModuleRef>()) return memberOf(*module, s.name, s.focus);
  if (const auto* several = object.as<Sequence>())  // torch.max(x, dim=1).values
    for (size_t i = 0; i < several->names.size(); ++i)
      if (several->names[i] == s.name) return several->items[i];
  if (side_ == Side::Where) checkMember(object, s);
  if (const auto host = tryHost(object, isHostAttribute(s.name) || side_ == Side::Where)) {
    if (!object.isTensorLike() || isHostAttribute(s.name) || side_ == Side::Where) {
      if (isHostMethod(s.name) && !isHostAttribute(s.name))
        return Term{Method{std::make_shared<Term>(object), s.name}, s.span};
      Expression e;
      e.kind = Expression::Kind::Attribute;
      e.name = s.name;
      e.operands = {*host};
      e.source = text_->location(s.focus);
      return Term{std::move(e), s.span};
    }
  }
  if (s.name == "data") return object;
  if (object.isTensorLike() && side_ != Side::Where) {
    constexpr std::pair<std::string_view, const char*> attributes[] = {{"T", "aten.numpy_T"}, {"mT", "aten.mT"},
                                                                       {"mH", "aten.mH"},     {"H", "aten.matrix_H"},
                                                                       {"real", "aten.real"}, {"imag", "aten.imag"}};
    for (const auto& [attribute, packet] : attributes)
      if (attribute == s.name) return operation(packet, "." + s.name, {object}, s.focus);
  }
  if (object.as<Path>()) return Term{Path{object.as<Path>()->name + "." + s.name}, s.span};
  return Term{Method{std::make_shared<Term>(object), s.name}, s.span};
}

Term Body::evaluateSequence(const Syntax& s) {
  // With a starred part the length is known only at the match: a concatenation of what is known.
  bool starred = false;
  for (const Syntax& i : s.items) starred |= i.kind == Syntax::Kind::Starred;
  Sequence out;
  out.isTuple = s.kind == Syntax::Kind::Tuple;
  if (!starred) {
    for (const Syntax& i : s.items) out.items.push_back(evaluate(i));
    return Term{std::move(out), s.span};
  }
  std::optional<Expression> sum;
  const auto append = [&](Expression part) {
    if (!sum) {
      sum = std::move(part);
      return;
    }
    Expression e;
    e.kind = Expression::Kind::Binary;
    e.name = "+";
    e.operands = {std::move(*sum), std::move(part)};
    e.source = text_->location(s.span);
    sum = std::move(e);
  };
  for (const Syntax& i : s.items) {
    const bool star = i.kind == Syntax::Kind::Starred;
    const Term t = evaluate(star ? i.items[0] : i);
    const auto host = tryHost(t);
    if (!host) fail(i.span, "beside a `*` item, every other item must be a number that is known at the match");
    Expression part;
    part.kind = star ? Expression::Kind::Call : Expression::Kind::Tuple;
    if (star) part.name = "tuple";
    part.operands = {*host};
    part.source = text_->location(i.span);
    append(std::move(part));
  }
  return Term{std::move(*sum), s.span};
}

Term Body::evaluateIfElse(const Syntax& s) {
  if (side_ != Side::Where) {  // a condition that is known now chooses between anything
    const Term condition = evaluate(s.items[0]);
    if (condition.as<Wildcard>() && building_) return condition;
    if (const auto host = tryHost(condition))
      if (const auto value = graft::evaluate(*host, {}))
        if (const auto holds = truth(*host, *value)) return evaluate(s.items[*holds ? 1 : 2]);
  }
  Expression e;
  e.kind = Expression::Kind::IfElse;
  e.source = text_->location(s.span);
  for (const Syntax& i : s.items) {
    const auto host = tryHost(evaluate(i), side_ == Side::Where);
    if (!host)
      fail(i.span, "`if ... else` can choose between numbers only; alternatives of operations are any_of(...)");
    e.operands.push_back(*host);
  }
  return Term{std::move(e), s.span};
}

Term Body::evaluateUnary(const Syntax& s) {
  const Term t = evaluate(s.items[0]);
  if (const Argument* a = t.literal(); a && s.name == "-") {  // -inf, -SCALE
    if (const auto* d = a->as<double>()) return Term{Argument(-*d), s.span};
    if (const auto* i = a->as<int64_t>(); i && *i != std::numeric_limits<int64_t>::min())
      return Term{Argument(-*i), s.span};
  }
  if (t.as<Wildcard>() && building_) return t;
  if (const auto host = tryHost(t, side_ == Side::Where); host && (!t.isTensorLike() || side_ == Side::Where)) {
    Expression e;
    if (s.name == "not" && host->kind == Expression::Kind::Binary && host->name == "in") {
      e = *host;  // the parser knows `a not in b` as `not a in b`
      e.name = "not in";
      return Term{std::move(e), s.span};
    }
    e.kind = Expression::Kind::Unary;
    e.name = s.name;
    e.operands = {*host};
    e.source = text_->location(s.focus);
    return Term{std::move(e), s.span};
  }
  if (s.name == "not") fail(s.focus, "`not` asks for a truth value, and this is a tensor");
  return operation(s.name == "-" ? "aten.neg" : "aten.bitwise_not", s.name, {t}, s.focus);
}

Term Body::evaluateBinary(const Syntax& s) {
  const Term a = evaluate(s.items[0]), b = evaluate(s.items[1]);
  if (building_ && (a.as<Wildcard>() || b.as<Wildcard>())) return Term{Wildcard{}, s.span};
  const bool tensors = side_ == Side::Where;
  const auto left = tryHost(a, tensors), right = tryHost(b, tensors);
  // A tensor is not None, nor is what is calculated from sizes. A parameter may be: that is known at the match.
  if ((s.name == "is" || s.name == "is not") && (a.isTensorLike() || a.as<Expression>() || a.as<Sequence>()) &&
      b.literal() && b.literal()->isNone() && side_ != Side::Where)
    return Term{Argument(s.name == "is not"), s.span};
  if (const auto* front = a.as<Sequence>(), *back = b.as<Sequence>();
      s.name == "+" && front && back && front->isTuple == back->isTuple && side_ != Side::Where) {
    Sequence joined{*front};
    joined.names.clear();
    joined.items.insert(joined.items.end(), back->items.begin(), back->items.end());
    return Term{std::move(joined), s.span};
  }
  if (left && right) {
    Expression e;
    e.kind = Expression::Kind::Binary;
    e.name = s.name;
    e.operands = {*left, *right};
    e.source = text_->location(s.focus);
    return Term{std::move(e), s.span};
  }
  struct Entry {
    std::string_view sign;
    const char* packet;
  };
  static constexpr Entry table[] = {
      {"+", "aten.add"},
      {"-", "aten.sub"},
      {"*", "aten.mul"},
      {"/", "aten.div"},
      {"//", "aten.floor_divide"},
      {"%", "aten.remainder"},
      {"**", "aten.pow"},
      {"@", "aten.matmul"},
      {"==", "aten.eq"},
      {"!=", "aten.ne"},
      {"<", "aten.lt"},
      {"<=", "aten.le"},
      {">", "aten.gt"},
      {">=", "aten.ge"},
      {"&", "aten.bitwise_and"},
      {"|", "aten.bitwise_or"},
      {"^", "aten.bitwise_xor"},
      {"<<", "aten.__lshift__"},
      {">>", "aten.__rshift__"},
  };
  for (const Term* t : {&a, &b})
    if (!t->as<GraphValue>() && !t->as<Wildcard>() && !t->as<Expression>() && !t->literal())
      fail(t->span, fmt::format("`{}` cannot be applied to this", s.name));
  for (const Entry& e : table) {
    if (e.sign != s.name) continue;
    const bool mirrored = left && !right;  // 1 / x, 0 < x: as PyTorch computes them
    if (mirrored && s.name == "/")
      return operation("aten.mul", s.name, {operation("aten.reciprocal", s.name, {b}, s.focus), a}, s.focus);
    if (mirrored && (s.name == "+" || s.name == "*" || s.name == "==" || s.name == "!="))
      return operation(e.packet, s.name, {b, a}, s.focus);
    if (mirrored && (s.name[0] == '<' || s.name[0] == '>') && s.name.substr(1, 1) != s.name.substr(0, 1))
      return operation(std::string("aten.") + (s.name[0] == '<' ? 'g' : 'l') + (s.name.size() == 2 ? 'e' : 't'), s.name,
                       {b, a}, s.focus);
    return operation(e.packet, s.name, {a, b}, s.focus);
  }
  fail(s.focus, fmt::format("`{}` asks for a truth value, and this is a tensor", s.name));
}

}  // namespace graft::lang
