#include "matcher/lang/normal_call.h"

#include <algorithm>

#include "core/ir/calls/written_arguments.h"
#include "core/ir/normal_form.h"
#include "matcher/lang/body.h"

namespace graft::lang {
namespace {

Term number(int64_t n, Span at) { return Term{Argument(n), at}; }

bool isVectorNorm(const Operator& op) { return op.name == "aten.norm.Scalar" || op.name == "aten.norm.ScalarOpt_dim"; }

/// Whether nothing else than this result looks at the memory: the value is an operator's, and new.
bool isFresh(const Graph& g, ValueId v) {
  const NodeId by = g.value(v).producer;
  if (!by) return false;
  const Operator& op = *g.node(by).op;
  if (op.packetName() == "prim.getitem" || op.packetName().starts_with("pattern.")) return false;
  return op.hasSchema && !op.aliases() && !mayReturnArgument(g.node(by));
}

bool replaceValue(Term& t, ValueId from, ValueId to) {
  if (auto* v = std::get_if<GraphValue>(&t.data); v && v->id == from) {
    v->id = to;
    return true;
  }
  bool any = false;
  if (auto* s = std::get_if<Sequence>(&t.data))
    for (Term& i : s->items) any |= replaceValue(i, from, to);
  return any;
}

}  // namespace

bool isCast(const Operator& op) {
  return op.packetName() == "aten.to" || op.name == "aten.contiguous.default" || op.name == "aten.cpu.default" ||
         op.name == "aten.type_as.default";
}

void Body::spellNormally(BoundCall& bound) const {
  const std::string& name = bound.op->name;
  const auto become = [&](std::string_view other, std::vector<std::optional<Term>> arguments) {
    const OperatorRef op = file_->operators.find(other);
    if (!op || op->parameters.size() != arguments.size()) return;
    bound = {op, std::move(arguments)};
  };
  const std::vector<std::optional<Term>> a = bound.arguments;
  const Span at = a.empty() || !a[0] ? Span{} : a[0]->span;
  if (name == "aten.rsub.Tensor" || name == "aten.rsub.Scalar") {
    become("aten.sub.Tensor", {a[1], a[0], a[2]});
  } else if (name == "aten.t.default" || name == "aten.numpy_T.default") {
    become("aten.transpose.int", {a[0], number(0, at), number(1, at)});
  } else if (name == "aten.mT.default") {
    become("aten.transpose.int", {a[0], number(-2, at), number(-1, at)});
  } else if (isVectorNorm(*bound.op)) {
    const bool over = a.size() == 4;
    const bool two = !a[1] || (a[1]->literal() && a[1]->literal()->isNone());
    become("aten.linalg_vector_norm.default",
           {a[0], two ? number(2, at) : *a[1], over ? a[2] : std::nullopt, over ? a[3] : std::nullopt, std::nullopt});
  } else if (name == "aten.count_nonzero.dim_IntList") {
    const auto* list = a[1]->as<Sequence>();
    if (!list)
      become("aten.count_nonzero.default", a);
    else if (list->items.size() == 1)
      become("aten.count_nonzero.default", {a[0], list->items[0]});
  }
}

/// What a line writes to is read with the new elements by the lines below it. In the model nobody can tell the two
/// apart any more where the import made the write a function: then the lines below read that function's result.
void Body::readWritten(const Node& write) {
  if (!write.op->writes() || write.outputs.size() != 1 || !functionalForm(write.op->name)) return;
  if (write.args.empty() || !write.args[0].isValue()) return;
  const ValueId target = write.args[0].valueId();
  if (!isFresh(graph, target)) return;
  for (auto& [name, term] : names_) replaceValue(term, target, write.outputs[0]);
  if (!self_) return;
  for (auto& [name, term] : self_->members) replaceValue(term, target, write.outputs[0]);
}

/// x.to(torch.float32) is x where x is of that dtype, and an import leaves it out there.
Term Body::unlessRedundant(const Node& cast, Span span) {
  const ValueId result = cast.outputs[0];
  std::vector<std::pair<std::string, Argument>> wanted;
  const auto ask = [&](const char* what, ValueId of) {
    Expression name, e;
    name.kind = Expression::Kind::Name;
    name.name = graph.value(of).name;
    e.kind = Expression::Kind::Attribute;
    e.name = what;
    e.operands = {std::move(name)};
    e.source = text_->location(span);
    wanted.emplace_back(what, expressionNode(e, span));
  };
  const Term made{GraphValue{result, std::nullopt, false}, span};
  const Argument x = cast.args[0];
  const Operator& op = *cast.op;
  const auto given = [&](std::string_view parameter) -> const Argument* {
    const auto at = op.findParameter(parameter);
    const Argument* a = at ? &cast.args[*at] : nullptr;
    return a && !a->isNone() ? a : nullptr;
  };
  if (const Argument* copy = given("copy"); copy && !(*copy == Argument(false))) return made;
  if (op.name != "aten.contiguous.default")
    if (const Argument* format = given("memory_format");
        format && !(*format == Argument(Named{"torch.preserve_format"})))
      return made;
  if (const Argument* format = given("memory_format"); format &&
                                                       !(*format == Argument(Named{"torch.contiguous_format"})) &&
                                                       !(*format == Argument(Named{"torch.preserve_format"})))
    return made;
  for (const char* what : {"dtype", "device"})
    if (const Argument* a = given(what)) wanted.emplace_back(what, *a);
  if (op.name == "aten.cpu.default") wanted.emplace_back("device", Argument(DeviceName{"cpu"}));
  const size_t other = op.name == "aten.type_as.default" || op.name == "aten.to.other" ? 1 : 0;
  if (other && cast.args[other].isValue()) {
    const ValueId of = cast.args[other].valueId();
    ask("dtype", of);
    if (op.name == "aten.to.other") ask("device", of);
  }
  return patternNode("pattern.any_of", {Argument(result), x}, std::move(wanted), span);
}

}  // namespace graft::lang
