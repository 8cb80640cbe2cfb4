// What a body leaves in its graph: parameters, nodes, calculations that wait for the match, and results.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/suggest.h"
#include "core/base/words.h"
#include "matcher/lang/body.h"
#include "matcher/lang/normal_call.h"

namespace graft::lang {
namespace {

constexpr size_t maxNodes = 5000;  // helper functions are pasted in: two that call each other twice grow fast

using ParameterKind = PatternParameter::Kind;

Type typeOf(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::Tensor:
    case ParameterKind::Weight:
      return Type::tensor();
    case ParameterKind::Float:
      return Type(Type::Kind::Float);
    case ParameterKind::Int:
      return Type(Type::Kind::Int);
    case ParameterKind::Bool:
      return Type(Type::Kind::Bool);
    case ParameterKind::String:
      return Type(Type::Kind::String);
    case ParameterKind::IntList:
      return Type::list(Type(Type::Kind::Int));
    default:
      return Type::any();
  }
}

const OperatorRef& patternOperator(const char* kind) {
  static const std::map<std::string_view, OperatorRef> table = [] {
    std::map<std::string_view, OperatorRef> t;
    for (const char* k : {"pattern.any_of", "pattern.call_module", "pattern.call_function", "pattern.expr",
                          "pattern.parameter", "pattern.runtime", "pattern.by_rank", "prim.getitem"})
      t.emplace(k, unknownOperator(k));
    return t;
  }();
  return table.at(kind);
}

}  // namespace

ValueId Body::addParameter(const std::string& name, ParameterKind kind) {
  const ValueId id = graph.addInput(name, typeOf(kind));
  named_.insert(id);
  names_[name] = Term{GraphValue{id, kind, false}, {}};
  return id;
}

void Body::guardSize(Span span) {
  if (graph.nodeCount() > maxNodes || ++calls_ > 4 * maxNodes)
    fail(span,
         fmt::format("the rule has more than {} operations here; each call of a function adds all of its operations",
                     maxNodes));
}

Expression Body::host(const Term& term) {
  if (auto e = tryHost(term, true)) return *e;
  fail(term.span,
       "this cannot be calculated at a match: only shapes, dtypes, devices, constants and numbers of users can");
}

std::optional<Expression> Body::tryHost(const Term& t, bool tensors) {
  if (const auto* e = t.as<Expression>()) return *e;
  Expression e;
  if (t.span.end > 0) e.source = text_->location(t.span);
  if (const Argument* a = t.literal()) {
    e.literal = *a;
    return e;
  }
  if (const auto* v = t.as<GraphValue>()) {
    if (!v->isConstant() && !tensors) return std::nullopt;
    e.kind = Expression::Kind::Name;
    e.name = graph.value(v->id).name;
    return e;
  }
  if (const auto* s = t.as<Sequence>()) {
    e.kind = s->isTuple ? Expression::Kind::Tuple : Expression::Kind::List;
    for (const Term& i : s->items) {
      auto item = tryHost(i, tensors);
      if (!item) return std::nullopt;
      e.operands.push_back(std::move(*item));
    }
    return e;
  }
  if (const auto* p = t.as<Path>(); p && side_ == Side::Where) {
    e.literal = Argument(Named{p->name});
    return e;
  }
  return std::nullopt;
}

Argument Body::expressionNode(const Expression& e, Span span) {
  guardSize(span);
  const Argument index(static_cast<int64_t>(expressions.size()));
  expressions.push_back(e);
  return Argument(patternNode("pattern.expr", {}, {{"index", index}}, span).as<GraphValue>()->id);
}

Term Body::patternNode(const char* kind, std::vector<Argument> args,
                       std::vector<std::pair<std::string, Argument>> kwargs, Span span, std::string_view name) {
  const std::string wish(name.empty() ? std::string_view(kind).substr(std::string_view(kind).find('.') + 1) : name);
  const NodeId n = graph.append(graph.root(), patternOperator(kind), std::move(args), wish);
  graph.setKeywordArguments(n, std::move(kwargs));
  if (graph.node(n).outputs.empty()) graph.addOutput(n, wish, Type::any());
  graph.setSource(n, graph.addSource(text_->location(span)));
  return Term{GraphValue{graph.output(n), std::nullopt, false}, span};
}

Argument Body::argument(const Term& t, const Type& type, const Operator* op) {
  if (t.as<Wildcard>()) {
    if (side_ == Side::Replacement)
      fail(t.span, "`_` says that anything matches: a replacement needs the value itself");
    return Argument(Named{"_"});
  }
  const Type& base = type.kind == Type::Kind::Optional ? type.element() : type;
  if (const Argument* a = t.literal()) {
    Argument out = literalAs(*a, type);
    if (base.kind == Type::Kind::List && !a->items() && op) {
      // conv2d(stride=2) means [2, 2]
      const std::string_view name = op->baseName();
      const bool two =
          name.ends_with("2d") || name.ends_with("2d_with_indices") || name == "im2col" || name == "col2im";
      const int copies = two ? 2 : name.ends_with("3d") ? 3 : 1;
      std::vector<Argument> items(static_cast<size_t>(copies),
                                  out.items() && !out.items()->empty() ? out.items()->front() : *a);
      if (out.items() && out.items()->size() == 1) return Argument::list(std::move(items));
    }
    return out;
  }
  if (const auto* v = t.as<GraphValue>()) {
    if (base.kind == Type::Kind::List && v->parameter == ParameterKind::Int) return Argument::list({Argument(v->id)});
    return Argument(v->id);
  }
  if (const auto* e = t.as<Expression>()) return expressionNode(*e, t.span);
  if (const auto* s = t.as<Sequence>()) {
    std::vector<Argument> items;
    const Type element = base.kind == Type::Kind::List ? base.element() : Type::any();
    for (const Term& i : s->items) items.push_back(argument(i, element, op));
    return Argument::list(std::move(items));
  }
  fail(t.span, "an operator cannot take this as an argument");
}

Term Body::operation(const std::string& packet, const std::string& spelled, std::vector<Term> terms, Span span) {
  return emit(bindCall(Call{packet, spelled, std::move(terms), {}, span}, file_->operators, *text_), span);
}

Term Body::emit(BoundCall bound, Span span) {
  guardSize(span);
  if (side_ == Side::Where) fail(span, "`where` looks at shapes, dtypes and constants; it cannot compute with tensors");
  if (side_ == Side::Pattern && bound.op->is(OperatorFact::Identity) && bound.arguments[0]) return *bound.arguments[0];
  spellNormally(bound);
  std::vector<Argument> args;
  for (size_t i = 0; i < bound.arguments.size(); ++i) {
    const Parameter& p = bound.op->parameters[i];
    args.push_back(bound.arguments[i] ? argument(*bound.arguments[i], p.type, bound.op.get()) : *p.defaultValue);
  }
  const NodeId n = graph.append(graph.root(), bound.op, std::move(args));
  graph.setSource(n, graph.addSource(text_->location(span)));
  if (call_) graph.setModule(n, call_);
  const Node& node = graph.node(n);
  if (side_ == Side::Pattern) {
    readWritten(node);
    if (isCast(*node.op) && node.args[0].isValue()) return unlessRedundant(node, span);
  }
  if (node.outputs.size() == 1) {
    const bool list = bound.op->returns[0].type.kind == Type::Kind::List;
    return Term{GraphValue{node.outputs[0], std::nullopt, list}, span};
  }
  Sequence s;
  s.isTuple = true;
  s.items.resize(node.outputs.size());
  for (size_t i = 0; i < s.items.size(); ++i) {
    s.items[i].data = GraphValue{node.outputs[i], std::nullopt, false};
    s.items[i].span = span;
    s.names.push_back(i < bound.op->returns.size() ? bound.op->returns[i].name : "");
  }
  return Term{std::move(s), span};
}

Term Body::withGradients(const Term& result, const Names& parameters, const std::string& rule,
                         const FunctionSyntax& backward, const FileContext& file) {
  const Span at = backward.span;
  const auto refuse = [&](Span where, const std::string& why) { file.text.fail(where.begin, why); };
  std::vector<Term> results{result};
  if (const auto* s = result.as<Sequence>()) results = s->items;
  for (const Term& r : results)
    if (const auto* v = r.as<GraphValue>(); !v || v->isConstant() || v->isList)
      refuse(at, fmt::format("the replacement of `{}` returns something else than tensors: only these have gradients",
                             rule));
  std::vector<std::string> known, names;
  for (const auto& [name, term] : parameters)
    if (term.as<GraphValue>()) known.push_back(name);
  std::vector<Term> given;
  for (const ParameterSyntax& p : backward.parameters) {
    if (given.size() >= results.size()) {
      if (p.defaultValue) break;
      const auto it = parameters.find(p.name);
      if (it == parameters.end() || !it->second.as<GraphValue>()) {
        const auto near = nearestName(p.name, known);
        refuse(p.span,
               fmt::format("the replacement has no parameter `{}`{}; `backward` takes the gradients of its {}, "
                           "then parameters of the replacement",
                           p.name, near ? fmt::format(", but `{}`", *near) : "", counted(results.size(), "result")));
      }
      names.push_back(p.name);
      given.push_back(it->second);
    } else {
      if (parameters.contains(p.name))
        refuse(p.span, fmt::format("`{}` is a parameter of the replacement: the gradients of its {} come first, under "
                                   "names of their own",
                                   p.name, counted(results.size(), "result")));
      given.push_back(
          inFile(file, at, [&] { return operation("graft.tangent", p.name, {results[given.size()]}, at); }));
    }
  }
  if (given.size() < results.size())
    refuse(at, fmt::format("`backward` takes the gradients of the {} first", counted(results.size(), "result")));
  const Term returned = callFunction(Local{&backward, &file}, given, {}, at);
  std::vector<Term> made{returned};
  if (const auto* s = returned.as<Sequence>()) made = s->items;
  if (made.size() != names.size())
    refuse(at, fmt::format("`backward` takes {} behind the gradients and returns {}: it returns a gradient for each, "
                           "None where there is none",
                           counted(names.size(), "parameter"), counted(made.size(), "value")));
  Sequence inputs, gradients;
  std::vector<Argument> of;
  for (size_t i = 0; i < made.size(); ++i) {
    if (const Argument* a = made[i].literal(); a && a->isNone()) continue;
    const auto* input = given[results.size() + i].as<GraphValue>();
    if (const auto* g = made[i].as<GraphValue>(); !g || g->isConstant() || input->isConstant())
      refuse(at, fmt::format("`backward` returns no tensor as the gradient of `{}`{}", names[i],
                             input->isConstant() ? ", which is a number: return None" : ""));
    inputs.items.push_back(given[results.size() + i]);
    gradients.items.push_back(made[i]);
    of.emplace_back(names[i]);
  }
  return inFile(file, at, [&] {
    const Term tied =
        operation("graft.own_gradient", backward.name,
                  {Term{Sequence{results}, at}, Term{std::move(inputs), at}, Term{std::move(gradients), at},
                   Term{Argument(rule), at}, Term{Argument::list(std::move(of)), at}},
                  at);
    Sequence out;
    for (size_t i = 0; i < results.size(); ++i) out.items.push_back(element(tied, static_cast<int64_t>(i), at));
    return Term{std::move(out), at};
  });
}

void Body::returns(const Term& result, Span at) {
  std::vector<Argument> out;
  const auto add = [&](const Term& t) {
    if (const auto* v = t.as<GraphValue>(); v && !v->isConstant()) {
      out.emplace_back(v->id);
    } else if (side_ == Side::Replacement && (t.literal() || t.as<Expression>())) {
      out.push_back(argument(t, Type::any(), nullptr));
    } else {
      fail(t.span.end ? t.span : at,
           side_ == Side::Pattern ? "a pattern returns values of the graph" : "a replacement returns values");
    }
  };
  if (const auto* s = result.as<Sequence>()) {
    for (const Term& t : s->items) add(t);
  } else {
    add(result);
  }
  if (out.empty()) fail(at, "nothing is returned");
  graph.setReturns(graph.root(), std::move(out));
  // What is computed and never used is no part of a replacement, which may be somebody's code as it was. In a pattern,
  // it would look as if it had to be there.
  const std::vector<NodeId> order = graph.order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& n = graph.node(*it);
    bool used = n.op->writes() || n.op->sideEffects;
    for (ValueId v : n.outputs) used |= !graph.isUnused(v);
    if (used) continue;
    const bool mayGo = n.op->name == "prim.getitem" || n.op->name == "pattern.expr" ||
                       std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return mayGo_.contains(v); });
    if (const SourceLocation* at = graph.sourceOf(n); side_ == Side::Pattern && !mayGo && at)
      throw Failure{badInputAt({at->file, at->line, at->column, at->code},
                               "what this line computes is not part of what the pattern returns, so it would match "
                               "without it: return it too, or leave the line out")};
    graph.erase(*it);
  }
}

}  // namespace graft::lang
