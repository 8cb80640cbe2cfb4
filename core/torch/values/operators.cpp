#include "core/torch/values/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

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
  if (!to.aliasSet.empty()) return;
  for (const c10::AliasInfo& element : alias->containedTypes())  // a list of views, as chunk makes it
    for (const c10::Symbol& set : element.beforeSets()) to.aliasSet += set.toUnqualString();
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
  addFacts(*op);
  return op;
}

bool isRandom(const c10::OperatorName& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  return handle && handle->hasTag(at::Tag::nondeterministic_seeded);
}

// Operators that are assumed to do anything, whatever their schema says: warnings, seeds, distributed calls.
bool assumesAnything(const c10::FunctionSchema& schema, c10::AliasAnalysisKind kind) {
  return kind == c10::AliasAnalysisKind::CONSERVATIVE ||
         (kind != c10::AliasAnalysisKind::FROM_SCHEMA && schema.hasAnyAliasInfo());
}

bool assumesAnything(const torch::jit::Operator& op) {
  try {
    return assumesAnything(op.schema(), op.aliasAnalysisKind());
  } catch (const std::exception&) {
    return true;
  }
}

// The dispatcher's operators by name, in the order they were declared. TorchScript's registry has these and its own
// (arithmetic of Python's numbers, lists), but whoever asks it first waits until it has written down the schemas of
// all 4,000, and most programs and rules name dispatched operators alone.
class Dispatched : public c10::OpRegistrationListener {
 public:
  static const Dispatched& all() {
    static const Dispatched* const listener = [] {
      auto made = std::make_unique<Dispatched>();
      const Dispatched* kept = made.get();
      // Never given back: libraries are loaded later too, and the dispatcher may end before this program's statics.
      new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().addRegistrationListener(std::move(made)));
      return kept;
    }();
    return *listener;
  }

  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    const std::lock_guard lock(mutex_);
    operators_.emplace_back(hash(op.operator_name().name), op);
  }
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    const std::lock_guard lock(mutex_);
    std::erase_if(operators_, [&](const auto& o) { return o.second == op; });
  }

  // All overloads of "aten::softmax".
  std::vector<c10::OperatorHandle> overloads(const std::string& name) const {
    std::vector<c10::OperatorHandle> out;
    const size_t wanted = hash(name);
    const std::lock_guard lock(mutex_);
    for (const auto& [key, op] : operators_)
      if (key == wanted && op.operator_name().name == name) out.push_back(op);
    return out;
  }

 private:
  static size_t hash(const std::string& name) { return std::hash<std::string>()(name); }

  mutable std::mutex mutex_;
  std::vector<std::pair<size_t, c10::OperatorHandle>> operators_;
};

OperatorRef carefully(OperatorRef op, bool assumesAnything) {
  if (!assumesAnything || op->sideEffects) return op;
  auto careful = std::make_shared<Operator>(*op);
  careful->sideEffects = true;
  return careful;
}

}  // namespace

bool isForeign(const Operator& op) {
  const std::string& name = op.name;
  if (op.hasSchema || std::count(name.begin(), name.end(), '.') != 2 || name.find("..") != name.npos) return false;
  const std::string_view space = std::string_view(name).substr(0, name.find('.'));
  for (std::string_view own : {"", "aten", "prim", "unfit", "torch", "operator", "builtins", "math", "graft"})
    if (space == own) return false;
  return !name.ends_with('.') &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

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
  addFacts(*op);
  return op;
}

std::vector<OperatorRef> TorchOperators::load(std::string_view packet) const {
  if (OperatorRef op = structural(packet)) return {op};
  const size_t dot = packet.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == packet.size()) return {};
  const size_t overload = packet.find('.', dot + 1);
  const bool one = overload != std::string_view::npos;  // "aten.add.int": the dispatcher has other overloads
  const std::string name(packet.substr(dot + 1, one ? overload - dot - 1 : overload));
  const std::string qualified = std::string(packet.substr(0, dot)) + "::" + name;
  std::vector<OperatorRef> out;
  if (!one) {
    for (const c10::OperatorHandle& found : Dispatched::all().overloads(qualified))
      out.push_back(
          carefully(operatorOf(found.schema()), assumesAnything(found.schema(), found.schema().aliasAnalysis())));
    if (!out.empty()) return out;
  }
  for (const auto& found : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(qualified))) {
    if (one && graftName(found->schema().operator_name()) != packet) continue;
    OperatorRef op = carefully(operatorOf(found->schema()), assumesAnything(*found));
    const bool known = std::any_of(out.begin(), out.end(), [&](const OperatorRef& o) { return o->name == op->name; });
    if (!known) out.push_back(std::move(op));
  }
  return out;
}

std::shared_ptr<torch::jit::Operator> findScriptOperator(const c10::OperatorName& name) {
  for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name.name)))
    if (op->schema().overload_name() == name.overload_name) return op;
  return nullptr;
}

/// PyTorch's LSTM on a CPU reads and writes past states of other sizes than its input and weights have.
static void checkStates(const std::vector<c10::IValue>& arguments) {
  std::vector<c10::List<at::Tensor>> lists;  // states, then weights
  for (const c10::IValue& argument : arguments)
    if (argument.isTensorList()) lists.push_back(argument.toTensorList());
  if (lists.size() != 2 || lists[0].size() != 2 || lists[1].size() < 2 || !arguments[0].isTensor()) return;
  const at::Tensor input = arguments[0].toTensor(), h = lists[0].get(0), c = lists[0].get(1);
  const at::Tensor ofInput = lists[1].get(0), ofHidden = lists[1].get(1);
  for (const at::Tensor& t : {input, h, c, ofInput, ofHidden})
    if (!t.defined() || t.dim() < 2)
      throw std::runtime_error("lstm: a state, a weight or the input has too few dimensions");
  if (h.dim() != c.dim()) throw std::runtime_error("lstm: the two states have different numbers of dimensions");
  for (int64_t d = 0; d + 1 < h.dim(); ++d)
    if (h.sym_size(d) != c.sym_size(d))
      throw std::runtime_error("lstm: the two states have different numbers of layers or samples");
  if (h.sym_size(-1) != ofHidden.sym_size(1) || c.sym_size(-1) * 4 != ofInput.sym_size(0))
    throw std::runtime_error("lstm: a state has not as many features as the weights");
  const bool isPacked = !arguments[1].isTensorList();  // the input is [elements, features]: batch_sizes says the rest
  if (isPacked || input.dim() != 3 || h.dim() != 3 || !arguments.back().isBool()) return;
  if (h.sym_size(1) != input.sym_size(arguments.back().toBool() ? 0 : 1))
    throw std::runtime_error("lstm: the states have another number of samples than the input");
}

void checkCall(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments) {
  if (schema.overload_name() == "int" && schema.name() == "aten::remainder" && !arguments.empty() &&
      arguments.back().isInt() && arguments.back().toInt() == 0)
    throw std::runtime_error("integer modulo by zero");
  if (schema.name() == "aten::lstm") checkStates(arguments);
}

}  // namespace graft
