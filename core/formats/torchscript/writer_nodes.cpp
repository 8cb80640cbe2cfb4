#include "core/formats/torchscript/writer.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>
#include <unordered_set>

#include "core/torch/operator_library.h"
#include "core/torch/run/plan.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

namespace jit = torch::jit;

using Refusal = WriterRefusal;

bool isNumber(const Argument& a) {
  return a.as<int64_t>() || a.as<double>() || a.as<bool>() || a.as<std::complex<double>>();
}

bool wantsTensor(const c10::Type& t) {
  return t.kind() == c10::TypeKind::TensorType ||
         (t.kind() == c10::TypeKind::OptionalType &&
          static_cast<const c10::OptionalType&>(t).getElementType()->kind() == c10::TypeKind::TensorType);
}

bool wantsNumber(const c10::Type& t) {
  return t.kind() == c10::TypeKind::NumberType ||
         (t.kind() == c10::TypeKind::OptionalType &&
          static_cast<const c10::OptionalType&>(t).getElementType()->kind() == c10::TypeKind::NumberType);
}

/// The overload that takes at `places` what `takes` accepts and is otherwise like `schema`: mul.Scalar for mul.Tensor.
std::shared_ptr<jit::Operator> overloadThat(const c10::FunctionSchema& schema, const std::vector<size_t>& places,
                                            bool (*takes)(const c10::Type&)) {
  for (const auto& op : jit::getAllOperatorsFor(c10::Symbol::fromQualString(schema.name()))) {
    const auto& other = op->schema().arguments();
    if (other.size() != schema.arguments().size()) continue;
    bool fits = true;
    for (size_t i = 0; i < other.size() && fits; ++i) {
      const bool isPlace = std::find(places.begin(), places.end(), i) != places.end();
      fits = other[i].name() == schema.arguments()[i].name() &&
             (isPlace ? takes(*other[i].type()) : *other[i].type() == *schema.arguments()[i].type());
    }
    if (fits) return op;
  }
  return nullptr;
}

/// The operator of two numbers that computes the same with the operands exchanged, as TorchScript names it.
std::string_view turned(std::string_view packet) {
  static constexpr std::pair<std::string_view, std::string_view> pairs[] = {
      {"aten.add", "aten::add"}, {"aten.mul", "aten::mul"}, {"aten.sub", "aten::rsub"},
      {"aten.eq", "aten::eq"},   {"aten.ne", "aten::ne"},   {"aten.lt", "aten::gt"},
      {"aten.gt", "aten::lt"},   {"aten.le", "aten::ge"},   {"aten.ge", "aten::le"}};
  const auto* found =
      std::find_if(std::begin(pairs), std::end(pairs), [&](const auto& p) { return p.first == packet; });
  return found == std::end(pairs) ? std::string_view() : found->second;
}

}  // namespace

jit::Node* TorchScriptWriter::append(jit::Node* n) {
  if (range_) n->setSourceRange(*range_);
  return at_.block->appendNode(n);
}

jit::Node* TorchScriptWriter::appendOutside(jit::Node* n) {
  return at_.control ? n->insertBefore(at_.control) : at_.block->appendNode(n);
}

void TorchScriptWriter::bind(ValueId id, JitValue* v, bool keepType) {
  const Value& value = g_.value(id);
  if (!keepType) v->setType(torchType(value.type));
  v->setDebugName(identifierOf(value.name));
  at_.values[id.index] = v;
}

TorchScriptWriter::JitValue* TorchScriptWriter::call(const char* op, std::vector<JitValue*> inputs,
                                                     const c10::TypePtr& type) {
  jit::Node* n = append(at_.graph->create(c10::Symbol::fromQualString(op), inputs, 1));
  n->output()->setType(type);
  return n->output();
}

TorchScriptWriter::JitValue* TorchScriptWriter::constant(const c10::IValue& v) {
  jit::WithInsertPoint here(at_.block);
  if (auto made = jit::tryInsertConstant(*at_.graph, v)) return *made;
  if (v.isList()) {
    const auto list = v.toList();
    std::vector<JitValue*> items;
    for (size_t i = 0; i < list.size(); ++i) items.push_back(constant(list.get(i)));
    return append(at_.graph->createList(list.elementType(), items))->output();
  }
  throw Refusal(fmt::format("TorchScript has no constant {}", describe(v)));
}

/// The content of an optional, where the graph knows that it has one; any other value as it is.
TorchScriptWriter::JitValue* TorchScriptWriter::unwrapped(JitValue* v) {
  if (v->type()->kind() != c10::TypeKind::OptionalType) return v;
  return call("aten::_unwrap_optional", {v}, v->type()->expectRef<c10::OptionalType>().getElementType());
}

/// Inserts the conversions between tensors and numbers that TorchScript's compiler would insert.
TorchScriptWriter::JitValue* TorchScriptWriter::converted(JitValue* v, const Type& have, const c10::TypePtr& wanted) {
  if (!wanted) return v;
  if (wanted->hasFreeVariables())  // `t[]` takes a list, and no list that may be None
    return wanted->kind() == c10::TypeKind::ListType || wanted->kind() == c10::TypeKind::DictType ? unwrapped(v) : v;
  if (v->type()->kind() == c10::TypeKind::OptionalType && wanted->kind() != c10::TypeKind::OptionalType &&
      wanted->kind() != c10::TypeKind::AnyType) {
    JitValue* inner = unwrapped(v);
    return converted(inner, graftType(*inner->type()), wanted);
  }
  // A type of its own for numbers of any kind: what a tensor's ScalarImplicit gives.
  const bool isAnyNumber = v->type()->kind() == c10::TypeKind::NumberType;
  if (!isAnyNumber && fitsAlready(have, *wanted)) return v;
  c10::TypePtr to = wanted;
  while (to->kind() == c10::TypeKind::OptionalType) to = to->expectRef<c10::OptionalType>().getElementType();
  const bool number = have.kind == Type::Kind::Int || have.kind == Type::Kind::Float || have.kind == Type::Kind::Bool ||
                      have.kind == Type::Kind::Number;
  switch (to->kind()) {
    case c10::TypeKind::TensorType:
      return number ? call("prim::NumToTensor", {v}, c10::TensorType::get()) : v;
    case c10::TypeKind::IntType:
      if (have.isTensor() || number) return call("aten::Int", {v}, c10::IntType::get());
      return v;
    case c10::TypeKind::FloatType:
      if (have.isTensor() || number) return call("aten::Float", {v}, c10::FloatType::get());
      return v;
    case c10::TypeKind::BoolType:
      if (have.isTensor() || number) return call("aten::Bool", {v}, c10::BoolType::get());
      return v;
    case c10::TypeKind::NumberType:
      if (have.isTensor()) return call("aten::ScalarImplicit", {v}, c10::NumberType::get());
      return v;
    default:
      return v;
  }
}

TorchScriptWriter::JitValue* TorchScriptWriter::nested(const Argument& a, c10::TypePtr wanted) {
  while (wanted && wanted->kind() == c10::TypeKind::OptionalType)
    wanted = wanted->expectRef<c10::OptionalType>().getElementType();
  if (wanted && wanted->hasFreeVariables()) wanted = nullptr;
  if (const auto* dict = a.as<Argument::Dict>()) {
    const auto declared = wanted ? wanted->cast<c10::DictType>() : nullptr;
    c10::TypePtr key = declared ? declared->getKeyType() : nullptr,
                 value = declared ? declared->getValueType() : nullptr;
    std::vector<JitValue*> keys, values;
    for (const auto& [k, v] : dict->items) {
      keys.push_back(argument(k, key));
      values.push_back(argument(v, value));
    }
    if (!declared) {
      key = keys.empty() ? c10::TypePtr(c10::StringType::get()) : keys[0]->type();
      value = values.empty() ? c10::TypePtr(c10::TensorType::get()) : values[0]->type();
      for (JitValue* v : values)
        if (!(*v->type() == *value)) value = c10::AnyType::get();
    }
    return append(at_.graph->createDict(key, value, keys, values))->output();
  }
  const std::vector<Argument>* items = a.items();
  if (!items) throw Refusal("a slice is no argument of an operator");
  const bool asTuple = wanted && wanted->kind() != c10::TypeKind::ListType
                           ? wanted->kind() == c10::TypeKind::TupleType || !a.isList()
                           : !a.isList() && !wanted;
  c10::TypePtr element;
  if (!asTuple && wanted && wanted->kind() == c10::TypeKind::ListType)
    element = wanted->expectRef<c10::ListType>().getElementType();
  std::vector<JitValue*> values;
  for (const Argument& i : *items) values.push_back(argument(i, element));
  if (asTuple) return append(at_.graph->createTuple(values))->output();
  if (!element) {
    element = values.empty() ? c10::TypePtr(c10::TensorType::get()) : values[0]->type();
    for (JitValue* v : values)
      if (!(*v->type() == *element))
        throw Refusal("a list of values of different types cannot be written as TorchScript");
  }
  return append(at_.graph->createList(element, values))->output();
}

TorchScriptWriter::JitValue* TorchScriptWriter::argument(const Argument& a, const c10::TypePtr& wanted) {
  if (a.isValue()) {
    const Value& v = g_.value(a.valueId());
    if (g_.isWeight(v.id))
      return converted(wantsOnDevice(v, wanted) ? movingNumber(v) : weight(v.id), Type::tensor(), wanted);
    return converted(at_.values.at(v.id.index), v.type, wanted);
  }
  if (a.holdsValue()) return nested(a, wanted);
  if (const auto* d = a.as<DeviceName>(); d && node_ && place_.follows(*node_, *d)) return moduleDevice();
  auto literal = toIValue(a, wanted.get());
  if (!literal) throw Refusal(literal.error().message);
  return constant(*literal);
}

TorchScriptWriter::JitValue* TorchScriptWriter::numberAsTensor(const Argument& number, const Node& user) {
  // A 0-dim tensor takes part in type promotion beside integers, where a Python float has the default dtype, and beside
  // tensors that have no dimensions either.
  bool integers = false;
  std::optional<DType> alike;
  for (const Argument& a : user.args) {
    if (!a.isValue()) continue;
    const TensorInfo& info = g_.value(a.valueId()).type.tensorInfo;
    if (!info.dtype) continue;
    integers = integers || !isFloatingPoint(*info.dtype);
    if (isFloatingPoint(*info.dtype) && (!info.shape || info.shape->empty())) alike = info.dtype;
  }
  if (number.isValue()) {
    JitValue* v = argument(number, c10::TensorType::get());
    if (g_.value(number.valueId()).type.kind != Type::Kind::Float || (!integers && !alike)) return v;
    const DType dtype = alike.value_or(DType::Float32);
    return call(
        "aten::to",
        {v, argument(Argument(dtype), c10::IntType::get()), constant(false), constant(false), constant(c10::IValue())},
        c10::TensorType::get());
  }
  // LibTorch's optimiser takes a constant tensor of a truth value for a Scalar: this one is made beside its operand.
  if (const auto* truth = number.as<bool>())
    for (const Argument& a : user.args)
      if (a.isValue() && g_.value(a.valueId()).type.isTensor())
        return call("aten::new_full",
                    {argument(a, c10::TensorType::get()), constant(c10::List<int64_t>()), constant(int64_t{*truth}),
                     constant(static_cast<int64_t>(c10::ScalarType::Bool)), constant(c10::IValue()),
                     constant(c10::IValue()), constant(c10::IValue())},
                    c10::TensorType::get());
  auto v = toIValue(number, c10::TensorType::get().get());
  if (!v) throw Refusal(v.error().message);
  at::Tensor t = v->toTensor().clone();
  if (t.scalar_type() == at::kDouble && (alike || integers)) t = t.to(alike ? torchDType(*alike) : at::kFloat);
  return tensorConstant(t, "", "");
}

bool TorchScriptWriter::writeStructural(const Node& n, const CallSegments& cut) {
  const std::string_view name = n.op->packetName().empty() ? std::string_view(n.op->name) : n.op->packetName();
  auto is = [&](std::string_view what) { return n.op->name == what || name == what; };
  if (is("prim.If") || is("prim.Loop")) {
    writeControlFlow(n, cut);
    return true;
  }
  if (is("prim.SetAttr")) {
    writeAttribute(n);
    return true;
  }
  if (is("prim.getitem") || is("prim.TupleIndex")) {
    JitValue* from = unwrapped(argument(n.args[0], nullptr));
    JitValue* index = argument(n.args[1], nullptr);
    jit::Node* made;
    if (from->type()->kind() == c10::TypeKind::TupleType) {
      made = append(at_.graph->createTupleIndex(from, index, torchType(g_.value(n.outputs[0]).type)));
    } else {
      c10::TypePtr type = torchType(g_.value(n.outputs[0]).type);
      if (auto list = from->type()->cast<c10::ListType>()) type = list->getElementType();
      if (auto dict = from->type()->cast<c10::DictType>()) type = dict->getValueType();
      made = append(at_.graph->create(c10::aten::__getitem__, {from, index}, 1));
      made->output()->setType(type);
    }
    bind(n.outputs[0], made->output(), true);
    return true;
  }
  if (is("prim.ListUnpack") || is("prim.TupleUnpack")) {
    JitValue* from = unwrapped(argument(n.args[0], nullptr));
    jit::Node* made =
        append(from->type()->kind() == c10::TypeKind::TupleType ? at_.graph->createTupleUnpack(from)
                                                                : at_.graph->createListUnpack(from, n.outputs.size()));
    for (size_t i = 0; i < n.outputs.size(); ++i) bind(n.outputs[i], made->output(i), true);
    return true;
  }
  JitValue* made = nullptr;
  if (is("prim.ListConstruct"))
    made = nested(Argument::list(n.args), torchType(g_.value(n.outputs[0]).type));
  else if (is("prim.TupleConstruct"))
    made = nested(Argument::tuple(n.args), nullptr);
  else if (is("prim.Uninitialized"))
    made = append(at_.graph->createUninitialized(torchType(g_.value(n.outputs[0]).type)))->output();
  else if (is("prim.DictConstruct")) {
    std::vector<std::pair<Argument, Argument>> entries;
    for (size_t i = 0; i + 1 < n.args.size(); i += 2) entries.emplace_back(n.args[i], n.args[i + 1]);
    // One that begins empty does not tell what it will hold.
    const c10::TypePtr declared = entries.empty() ? torchType(g_.value(n.outputs[0]).type) : nullptr;
    made = nested(Argument::dict(std::move(entries)), declared);
  }
  if (!made) return false;
  bind(n.outputs[0], made, true);
  return true;
}

// prim.SetAttr("path.of.the.attribute", value)
void TorchScriptWriter::writeAttribute(const Node& n) {
  const auto* path = n.args.size() == 2 ? n.args[0].as<std::string>() : nullptr;
  if (!path) throw Refusal("it does not name the attribute that it writes");
  const Place& place = written_.at(*path);
  JitValue* module = modulePointer(place.module);
  const c10::TypePtr type = modules_.at(place.module).type()->getAttribute(place.attribute);
  append(at_.graph->createSetAttr(module, place.attribute, argument(n.args[1], type)));
}

/// None as a value that branches or a loop give, with the type that it has for the nodes that follow: where that is an
/// optional, one of them may unwrap it, so a cast says its type. Where None is no value of the type, it stands for what
/// TorchScript left uninitialized (the result of a `return` or `break` that was not reached).
TorchScriptWriter::JitValue* TorchScriptWriter::typedNone(JitValue* v, const Type& wanted) {
  if (v->type()->kind() != c10::TypeKind::NoneType) return v;
  const c10::TypePtr type = torchType(wanted);
  if (type->kind() == c10::TypeKind::OptionalType) return call("prim::unchecked_cast", {v}, type);
  if (type->kind() == c10::TypeKind::NoneType || type->kind() == c10::TypeKind::AnyType) return v;
  return append(at_.graph->createUninitialized(type))->output();
}

/// PyTorch 2.11's interpreter may emit a loop of one result behind the other operands of what reads it. It then takes
/// values that those and the body share for used up, and the second turn finds them gone. Such a loop over a number of
/// turns is written as one that counts, which has two results.
bool TorchScriptWriter::countsForItself(const Node& n) const {
  const auto isTrue = [](const Argument& a) { return a == Argument(true); };
  return n.blocks.size() == 1 && n.outputs.size() == 1 && n.args.size() == 3 && isTrue(n.args[1]) &&
         isTrue(g_.block(n.blocks[0]).returns.front());
}

void TorchScriptWriter::writeControlFlow(const Node& n, const CallSegments& cut) {
  const bool loop = n.blocks.size() == 1, counts = countsForItself(n);
  // What a loop carries may begin as None, or end as it, though its result is none in the runs that were seen.
  const auto typeOfResult = [&](size_t i) -> const Type& {
    const Type& result = g_.value(n.outputs[i]).type;
    if (!loop) return result;
    const Type& carried = g_.value(g_.block(n.blocks[0]).parameters[i + 1]).type;
    return carried.kind == Type::Kind::Optional ? carried : result;
  };
  std::vector<JitValue*> inputs;
  for (size_t i = 0; i < n.args.size(); ++i) {
    c10::TypePtr wanted;
    if (!loop)
      wanted = c10::BoolType::get();
    else if (i < 2)
      wanted = i == 0 ? c10::TypePtr(c10::IntType::get()) : c10::TypePtr(c10::BoolType::get());
    inputs.push_back(argument(n.args[i], wanted));
    if (loop && i >= 2) inputs[i] = typedNone(inputs[i], typeOfResult(i - 2));
  }
  JitValue* const turns = inputs.front();
  if (counts) {
    JitValue* const zero = constant(int64_t{0});
    inputs[0] = constant(std::numeric_limits<int64_t>::max());
    inputs[1] = call("aten::lt", {zero, turns}, c10::BoolType::get());
    inputs.push_back(zero);
  }
  jit::Node* made =
      append(at_.graph->create(loop ? c10::prim::Loop : c10::prim::If, inputs, n.outputs.size() + (counts ? 1 : 0)));
  jit::Block* outer = at_.block;
  const bool outermost = !at_.control;
  if (outermost) at_.control = made;
  for (BlockId b : n.blocks) {
    at_.block = made->addBlock();
    if (counts) at_.block->addInput();
    for (ValueId p : g_.block(b).parameters)
      if (!counts || p != g_.block(b).parameters.front()) bind(p, at_.block->addInput());
    JitValue* const turn = counts ? at_.block->addInput() : nullptr;
    if (counts) bind(g_.block(b).parameters.front(), turn);
    // The parameters of a loop's block have the types of the carried values.
    for (size_t i = 2; loop && i < inputs.size(); ++i) at_.block->inputs()[i - 1]->setType(inputs[i]->type());
    writeItems(cut.items(b), cut);
    for (size_t i = 0; i < g_.block(b).returns.size(); ++i) {
      c10::TypePtr wanted = loop && i == 0 ? c10::TypePtr(c10::BoolType::get()) : nullptr;
      JitValue* result = argument(g_.block(b).returns[i], wanted);
      const size_t output = loop ? i - 1 : i;  // a loop's first return says whether it goes on
      if (!loop || i > 0) result = typedNone(result, typeOfResult(output));
      at_.block->registerOutput(result);
    }
    if (counts) {
      JitValue* const next = call("aten::add", {turn, constant(int64_t{1})}, c10::IntType::get());
      at_.block->registerOutput(next);
      at_.block->replaceOutput(0, call("aten::lt", {next, turns}, c10::BoolType::get()));
    }
    at_.block = outer;
  }
  if (outermost) at_.control = nullptr;
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    c10::TypePtr type = loop ? inputs[i + 2]->type() : made->blocks()[0]->outputs()[i]->type();
    if (!loop)
      if (auto both = c10::unifyTypes(type, made->blocks()[1]->outputs()[i]->type())) type = *both;
    // None on both sides is still an optional for the nodes that follow: one of them may unwrap it.
    if (type->kind() == c10::TypeKind::NoneType) type = torchType(g_.value(n.outputs[i]).type);
    made->output(i)->setType(type);
    bind(n.outputs[i], made->output(i), true);
  }
  if (counts) made->output(1)->setType(c10::IntType::get());
}

// For an operator that this machine does not have. Printed code holds no schemas, so the call is printed as it stands;
// the machine that loads it must have the operator. LibTorch's printer wants a schema, so this declares one that takes
// these arguments and gives these results.
void TorchScriptWriter::writeUnknown(const Node& n) {
  const c10::OperatorName name = torchName(n.op->name);
  std::vector<c10::Argument> parameters, returns;
  std::vector<JitValue*> inputs;
  const auto add = [&](std::string parameter, const Argument& value, bool keyword) {
    inputs.push_back(argument(value, nullptr));
    parameters.emplace_back(std::move(parameter), c10::AnyType::get(), std::nullopt, std::nullopt, keyword);
  };
  for (const Argument& a : n.args) add(fmt::format("a{}", parameters.size()), a, false);
  for (const auto& [key, a] : n.kwargs) add(key, a, true);
  for (ValueId v : n.outputs) returns.emplace_back("", torchType(g_.value(v).type));
  jit::Operator stand(
      name.name, fmt::format("graft{}", declared_.size()), std::move(parameters), std::move(returns),
      [](jit::Stack&) { throw std::runtime_error("it is not there"); }, c10::AliasAnalysisKind::CONSERVATIVE);
  declared_.push_back(stand.schema());
  jit::registerOperator(std::move(stand));
  jit::Node* made = append(at_.graph->create(c10::Symbol::fromQualString(name.name), inputs, n.outputs.size()));
  for (size_t i = 0; i < n.outputs.size(); ++i) bind(n.outputs[i], made->output(i));
}

void TorchScriptWriter::writeNode(const Node& n, const CallSegments& cut) {
  node_ = &n;
  if (writeStructural(n, cut)) return;
  // Printed code names no overloads.
  if (isForeign(*n.op) && n.op->name.ends_with(".default")) return writeUnknown(n);
  const c10::OperatorName name = torchName(n.op->name);
  auto op = findScriptOperator(name);
  if (!op && isOfNoLibrary(*n.op)) throw Refusal(missingOperatorsText({n.op->name}));
  if (!op)
    throw Refusal(fmt::format("TorchScript has no operator {}{}", n.op->name,
                              name.name.starts_with("aten::") ? "" : "; load the library that defines it"));
  if (!n.kwargs.empty()) throw Refusal("its keyword arguments belong to no schema");
  std::vector<Argument> args = n.args;
  // Or one that only a run knows. As a tensor it would take part in type promotion: a float is a float64 then.
  const auto isAnyNumber = [&](const Argument& a) {
    const Type::Kind kind = a.isValue() ? g_.value(a.valueId()).type.kind : Type::Kind::Any;
    return isNumber(a) || kind == Type::Kind::Int || kind == Type::Kind::Float || kind == Type::Kind::Number;
  };
  // TorchScript takes a number as the second operand only: 1 - x is rsub(x, 1).
  if (args.size() >= 2 && isAnyNumber(args[0]) && !args[0].as<bool>() && args[1].isValue() &&
      g_.value(args[1].valueId()).type.isTensor() && n.op->name.ends_with(".Tensor") &&
      (args.size() == 2 || args[2] == Argument(int64_t{1})))
    if (const std::string_view other = turned(n.op->packetName()); !other.empty())
      if (const auto scalar = findScriptOperator({std::string(other), "Scalar"})) {
        op = scalar;
        std::swap(args[0], args[1]);
      }
  std::vector<size_t> numbers, truths;
  const auto parameters = op->schema().arguments();
  for (size_t i = 0; i < args.size() && i < parameters.size(); ++i) {
    if (isAnyNumber(args[i]) && wantsTensor(*parameters[i].type())) numbers.push_back(i);
    if (args[i].as<bool>() && wantsNumber(*parameters[i].type())) truths.push_back(i);
  }
  // TorchScript's Scalars are no truth values. Beside tensors of another dtype 1 stands for true; beside truth values a
  // tensor of one, which takes part in no type promotion either.
  const bool besideNumbers = std::any_of(args.begin(), args.end(), [&](const Argument& a) {
    const auto dtype = a.isValue() ? g_.value(a.valueId()).type.tensorInfo.dtype : std::nullopt;
    return dtype && *dtype != DType::Bool;
  });
  bool asTensors =
      !besideNumbers && std::any_of(numbers.begin(), numbers.end(), [&](size_t i) { return args[i].as<bool>(); });
  if (auto tensors = truths.empty() || besideNumbers ? nullptr : overloadThat(op->schema(), truths, wantsTensor)) {
    op = tensors;
    numbers.insert(numbers.end(), truths.begin(), truths.end());
    asTensors = true;
  } else if (!numbers.empty() && !asTensors) {
    if (auto scalar = overloadThat(op->schema(), numbers, wantsNumber))
      op = scalar;
    else
      asTensors = true;
  }
  const c10::FunctionSchema& schema = op->schema();
  std::vector<JitValue*> inputs;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string parameter = i < schema.arguments().size() ? schema.arguments()[i].name() : "";
    // The dtype that follows from a truth value is said.
    if (const bool* truth = args[i].as<bool>();
        truth && i < schema.arguments().size() && wantsNumber(*schema.arguments()[i].type())) {
      inputs.push_back(constant(int64_t{*truth}));
      continue;
    }
    if (parameter == "dtype" && args[i].isNone() && !truths.empty() && n.outputs.size() == 1)
      if (const auto dtype = g_.value(n.outputs[0]).type.tensorInfo.dtype) {
        inputs.push_back(argument(Argument(*dtype), schema.arguments()[i].type()));
        continue;
      }
    const bool number = asTensors && std::find(numbers.begin(), numbers.end(), i) != numbers.end();
    const c10::TypePtr wanted = i < schema.arguments().size() ? schema.arguments()[i].type() : nullptr;
    inputs.push_back(number ? numberAsTensor(args[i], n) : argument(args[i], wanted));
  }
  // A value that joins a container has the type of its elements.
  const c10::TypePtr container = inputs.empty() ? nullptr : inputs[0]->type();
  const c10::TypePtr element = !container                                     ? nullptr
                               : container->kind() == c10::TypeKind::ListType ? container->containedType(0)
                               : container->kind() == c10::TypeKind::DictType ? container->containedType(1)
                                                                              : nullptr;
  for (size_t i = 1; element && element->kind() != c10::TypeKind::OptionalType && i < inputs.size(); ++i)
    if (i < schema.arguments().size() && schema.arguments()[i].type()->kind() == c10::TypeKind::VarType)
      inputs[i] = unwrapped(inputs[i]);
  for (size_t i = args.size(); i < schema.arguments().size(); ++i) {
    const auto& d = schema.arguments()[i].default_value();
    if (!d) throw Refusal(fmt::format("no value for the parameter '{}'", schema.arguments()[i].name()));
    inputs.push_back(constant(*d));
  }
  jit::Node* made = append(at_.graph->create(c10::Symbol::fromQualString(schema.name()), inputs, n.outputs.size()));
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const bool known = i < schema.returns().size() && !schema.returns()[i].type()->hasFreeVariables();
    if (known) made->output(i)->setType(schema.returns()[i].type());
    bind(n.outputs[i], made->output(i), known);
  }
  if (!made->maybeSchema()) {
    std::string got;
    for (JitValue* v : inputs) got += (got.empty() ? "" : ", ") + v->type()->str();
    throw Refusal(fmt::format("TorchScript's {} does not take ({})", schema.name(), got));
  }
}

}  // namespace graft
