#include "core/torch/values/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <array>

#include "core/torch/values/values.h"

namespace graft {
namespace {

template <class Out>
void copyAlias(const c10::Argument& from, Out& to) {
  const c10::AliasInfo* alias = from.alias_info();
  if (!alias) return;
  to.written = alias->isWrite();
  // "alias::a" is how LibTorch interns the set "a"; several sets in one mark are joined.
  for (const c10::Symbol& set : alias->beforeSets()) to.aliasSet += set.toUnqualString();
}

Parameter parameterOf(const c10::Argument& a) {
  Parameter p;
  p.name = a.name();
  // real_type() says ScalarType where type() says int.
  p.type = graftType(*a.real_type());
  p.keywordOnly = a.kwarg_only();
  if (a.default_value()) p.defaultValue = toArgument(*a.default_value(), a.real_type().get());
  copyAlias(a, p);
  return p;
}

// Operators that are part of the language, not of a library: nobody registers a schema for them.
OperatorRef structural(std::string_view name) {
  auto op = std::make_shared<Operator>();
  op->name = std::string(name);
  const auto parameter = [&](const char* what, Type type) {
    op->parameters.push_back({what, std::move(type), {}, false, {}, false});
  };
  if (name == "prim.If") {
    parameter("condition", Type(Type::Kind::Bool));
  } else if (name == "prim.Loop") {
    parameter("trips", Type(Type::Kind::Int));
    parameter("condition", Type(Type::Kind::Bool));
    op->variadic = true;  // then the carried values
  } else if (name == "prim.getitem") {
    parameter("container", Type::any());
    parameter("index", Type::any());
    op->returns.push_back({"", Type::any(), {}, false});
  } else if (name == "prim.ListConstruct" || name == "prim.DictConstruct" || name == "prim.Uninitialized") {
    op->variadic = true;
    op->returns.push_back({"", Type::any(), {}, false});
  } else if (name == "prim.Print") {
    op->variadic = true;
    op->sideEffects = true;
  } else {
    return nullptr;
  }
  return op;
}

bool isRandom(const c10::OperatorName& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  return handle && handle->hasTag(at::Tag::nondeterministic_seeded);
}

// TorchScript registers operators that it assumes anything of: warnings, seeds, distributed calls.
bool assumesAnything(const torch::jit::Operator& op) {
  try {
    return op.aliasAnalysisKind() == c10::AliasAnalysisKind::CONSERVATIVE;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

OperatorRef operatorOf(const c10::FunctionSchema& schema) {
  auto op = std::make_shared<Operator>();
  op->name = graftName(schema.operator_name());
  op->variadic = schema.is_vararg();
  for (const c10::Argument& a : schema.arguments()) op->parameters.push_back(parameterOf(a));
  for (const c10::Argument& r : schema.returns()) {
    Return out;
    out.name = r.name();
    out.type = graftType(*r.real_type());
    copyAlias(r, out);
    if (out.type.kind != Type::Kind::None) op->returns.push_back(std::move(out));
  }
  op->random = isRandom(schema.operator_name());
  addKnownEffects(*op);
  return op;
}

std::vector<OperatorRef> TorchOperators::load(std::string_view packet) const {
  if (OperatorRef op = structural(packet)) return {op};
  const size_t dot = packet.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == packet.size()) return {};
  const std::string qualified = std::string(packet.substr(0, dot)) + "::" + std::string(packet.substr(dot + 1));
  std::vector<OperatorRef> out;
  for (const auto& found : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(qualified))) {
    OperatorRef op = operatorOf(found->schema());
    if (assumesAnything(*found) && !op->sideEffects) {
      auto careful = std::make_shared<Operator>(*op);
      careful->sideEffects = true;
      op = std::move(careful);
    }
    const bool known = std::any_of(out.begin(), out.end(), [&](const OperatorRef& o) { return o->name == op->name; });
    if (!known) out.push_back(std::move(op));
  }
  return out;
}

}  // namespace graft
