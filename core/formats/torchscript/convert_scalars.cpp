// Numbers that the walk computes itself: sizes that traced code keeps in 0-dim tensors, and arithmetic on literals.
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <cmath>

#include "core/formats/torchscript/convert.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

namespace jit = torch::jit;

Bound scalarTensor(Argument a) {
  Bound b = Bound::of(std::move(a));
  b.scalarTensor = true;
  return b;
}

}  // namespace

// Members of enumerations exist only during the walk: `if self.mode == Mode.FAST` is decided.
bool TorchScriptConverter::enumerations(const jit::Node* n, Env& env) {
  if (n->inputs().empty() || n->outputs().size() != 1) return false;
  const auto it = env.find(n->input(0));
  if (it == env.end() || it->second.kind != Bound::Kind::Enum) return false;
  const Bound first = it->second, second = n->inputs().size() == 2 ? bound(n->input(1), env) : Bound();
  if (n->kind() == jit::prim::EnumName) {
    env[n->output()] = Bound::of(Argument(first.member->name()));
    return true;
  }
  if (n->kind() == jit::prim::EnumValue) {
    env[n->output()] = fromIValue(first.member->value(), first.path + ".value", true, true);
    return true;
  }
  if (second.kind != Bound::Kind::Enum) return false;
  if (n->kind() == jit::aten::__is__ || n->kind() == jit::aten::__isnot__)
    throw Refusal{
        fmt::format("it asks whether a member of an enumeration `is` {}. TorchScript says no where the file holds two "
                    "copies of one member, and Python says yes: compare them with ==",
                    nameOfMember(second))};
  if (n->kind() != jit::aten::eq && n->kind() != jit::aten::ne) return false;
  const bool same = first.member->name() == second.member->name() &&
                    first.member->qualifiedClassName() == second.member->qualifiedClassName();
  env[n->output()] = Bound::of(Argument(same == (n->kind() == jit::aten::eq)));
  return true;
}

std::optional<int64_t> TorchScriptConverter::scalarConstant(const Bound& b) const {
  if (b.kind != Bound::Kind::Argument) return std::nullopt;
  if (const auto* i = b.argument.as<int64_t>()) return *i;
  if (!b.argument.isValue()) return std::nullopt;
  const Value& v = g_.value(b.argument.valueId());
  if (!v.isConstant || v.type.tensorInfo.rank() != 0) return std::nullopt;
  const at::Tensor t = weightTensor(v);
  if (!t.defined() || t.scalar_type() != c10::ScalarType::Long) return std::nullopt;
  return *t.const_data_ptr<int64_t>();
}

// The side of a square grid, int(positions ** 0.5), as traced vision models compute it from a number that tracing wrote
// down. They resize tensors of positions to it; as a node it would leave all later sizes unknown.
std::optional<int64_t> TorchScriptConverter::rootOfLiteral(const jit::Value* v, Env& env) {
  const jit::Node* n = v->node();
  const bool power = n->kind() == jit::aten::pow && n->inputs().size() == 2;
  if (!power && n->kind() != jit::aten::sqrt) return std::nullopt;
  const Bound x = bound(n->input(0), env);
  const auto* squared = x.scalarTensor ? x.argument.as<int64_t>() : nullptr;
  if (!squared || *squared < 0 || (power && !(bound(n->input(1), env).argument == Argument(0.5)))) return std::nullopt;
  return static_cast<int64_t>(std::sqrt(static_cast<float>(*squared)));
}

// Traced code passes sizes through 0-dim tensors: size -> NumToTensor -> add -> Int. The graph keeps them numbers.
bool TorchScriptConverter::scalarArithmetic(const jit::Node* n, Env& env) {
  if (n->kind() == jit::prim::NumToTensor) {
    const Bound& x = bound(n->input(), env);
    if (x.kind != Bound::Kind::Argument) return false;
    Bound made = scalarTensor(x.argument);
    if (metadata_ && n->output()->hasDebugName()) made.path = nameInFile(n->output());
    env[n->output()] = std::move(made);
    return true;
  }
  if (n->inputs().empty() || n->outputs().size() != 1) return false;
  Bound first = bound(n->input(0), env);
  const auto isInt = [&](const Argument& a) {
    return a.as<int64_t>() || (a.isValue() && g_.value(a.valueId()).type.kind == Type::Kind::Int);
  };
  switch (n->kind()) {
    case jit::aten::Int:
    case jit::aten::ScalarImplicit:
    case jit::aten::IntImplicit:
      if (first.scalarTensor && isInt(first.argument)) {
        env[n->output()] = Bound::of(first.argument);
        return true;
      }
      if (first.kind == Bound::Kind::Argument && first.argument.isValue())
        if (const auto known = scalarConstant(first)) {
          env[n->output()] = Bound::of(Argument(*known));
          return true;
        }
      return false;
    case jit::aten::to: {
      const auto* dtype = n->inputs().size() == 5 ? bound(n->input(1), env).argument.as<int64_t>() : nullptr;
      if (!dtype || *dtype != static_cast<int64_t>(at::kLong)) return false;
      if (first.scalarTensor && isInt(first.argument)) {
        env[n->output()] = first;
        return true;
      }
      if (const auto root = rootOfLiteral(n->input(0), env)) {
        env[n->output()] = scalarTensor(Argument(*root));
        return true;
      }
      return false;
    }
    default:
      break;
  }
  const std::string_view op = n->kind().toUnqualString();
  const bool reversed = op == "rsub";  // rsub(a, b) is b - a
  const bool arithmetic =
      op == "add" || op == "sub" || op == "mul" || op == "floor_divide" || op == "remainder" || reversed;
  const bool floorDivision =
      op == "div" && n->inputs().size() == 3 && bound(n->input(2), env).argument == Argument("floor");
  if (!arithmetic && !floorDivision) return false;
  if (n->inputs().size() < 2) return false;
  Bound second = bound(n->input(1), env);
  if (!first.scalarTensor && !second.scalarTensor) return false;
  if (reversed) std::swap(first, second);
  Argument sides[2];
  for (int i = 0; i < 2; ++i) {
    const Bound& b = i == 0 ? first : second;
    if (b.kind != Bound::Kind::Argument) return false;
    if (b.scalarTensor || b.argument.as<int64_t>()) {
      sides[i] = b.argument;
    } else if (const auto known = scalarConstant(b)) {
      sides[i] = Argument(*known);
    } else {
      return false;
    }
    if (!isInt(sides[i])) return false;
  }
  const bool subtracts = op == "sub" || reversed;
  if ((op == "add" || subtracts) && n->inputs().size() == 3 &&
      !(bound(n->input(2), env).argument == Argument(int64_t{1})))
    return false;
  const int64_t* a = sides[0].as<int64_t>();
  const int64_t* b = sides[1].as<int64_t>();
  const bool divides = floorDivision || op == "floor_divide";
  if (((op == "add" || subtracts) && b && *b == 0) || ((op == "mul" || divides) && b && *b == 1)) {
    env[n->output()] = scalarTensor(sides[0]);
    return true;
  }
  if ((op == "add" && a && *a == 0) || (op == "mul" && a && *a == 1)) {
    env[n->output()] = scalarTensor(sides[1]);
    return true;
  }
  const std::string name = divides ? "aten.floordiv.int" : fmt::format("aten.{}.int", reversed ? "sub" : op);
  env[n->output()] = scalarTensor(Argument(g_.output(append(name, {sides[0], sides[1]}, n))));
  return true;
}

// Numbers computed only from literals (scripted code asks such questions of its own constants) need no node.
bool TorchScriptConverter::foldScalars(const jit::Node* n, Env& env) {
  if (n->outputs().size() != 1 || !n->blocks().empty() || n->inputs().empty()) return false;
  const c10::TypeKind made = n->output()->type()->kind();
  if (made != c10::TypeKind::IntType && made != c10::TypeKind::BoolType && made != c10::TypeKind::FloatType)
    return false;
  jit::Stack stack;
  for (const jit::Value* v : n->inputs()) {
    const Bound& b = bound(v, env);
    if (b.kind != Bound::Kind::Argument || b.scalarTensor) return false;
    const Argument& a = b.argument;
    if (a.isNone())
      stack.emplace_back();
    else if (const auto* i = a.as<int64_t>())
      stack.emplace_back(*i);
    else if (const auto* f = a.as<double>())
      stack.emplace_back(*f);
    else if (const auto* t = a.as<bool>())
      stack.emplace_back(*t);
    else if (const auto* s = a.as<std::string>())
      stack.emplace_back(*s);
    else
      return false;
  }
  const jit::Operator* op = n->maybeOperator();
  if (!op || n->hasSideEffects() || n->isNondeterministic() || file_.isUnknown(n->kind())) return false;
  try {
    op->getOperation(n)(stack);
  } catch (const std::exception&) {
    return false;  // 1 / 0 stays in the graph and raises there
  }
  const auto literal = stack.size() == 1 ? toArgument(stack[0]) : std::nullopt;
  if (!literal) return false;
  env[n->output()] = Bound::of(*literal);
  return true;
}

}  // namespace graft
