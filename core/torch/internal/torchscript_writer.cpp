#include "core/torch/internal/torchscript_writer.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_set>

#include "core/torch/internal/plan.h"
#include "core/torch/internal/values.h"
#include "core/torch/internal/weight.h"

namespace graft {
namespace {

namespace jit = torch::jit;

/// Ends the writing from any depth; module() makes an Error of it.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A Python identifier that resembles `name`.
std::string identifier(std::string_view name, std::string_view empty) {
  static const std::unordered_set<std::string_view> taken{
      "False", "None",     "True",     "and",           "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",      "del",           "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",       "import",        "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise",    "return",        "try",  "while",  "with",   "yield",    "self",
      "torch", "ops",      "annotate", "uninitialized", "fork", "inf",    "nan",    "print"};
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (out.empty()) out = empty;
  if (std::isdigit(static_cast<unsigned char>(out[0]))) out = std::string(empty) + out;
  if (taken.contains(out)) out += '_';
  return out;
}

std::pair<std::string, std::string> splitPath(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == path.npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

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

std::shared_ptr<jit::Operator> findOperator(const c10::OperatorName& name) {
  for (const auto& op : jit::getAllOperatorsFor(c10::Symbol::fromQualString(name.name)))
    if (op->schema().overload_name() == name.overload_name) return op;
  return nullptr;
}

/// The overload that takes plain numbers at `numbers` and is otherwise like `schema`: mul.Scalar for mul.Tensor.
std::shared_ptr<jit::Operator> scalarOverload(const c10::FunctionSchema& schema, const std::vector<size_t>& numbers) {
  for (const auto& op : jit::getAllOperatorsFor(c10::Symbol::fromQualString(schema.name()))) {
    const auto& other = op->schema().arguments();
    if (other.size() != schema.arguments().size()) continue;
    bool fits = true;
    for (size_t i = 0; i < other.size() && fits; ++i) {
      const bool number = std::find(numbers.begin(), numbers.end(), i) != numbers.end();
      fits = other[i].name() == schema.arguments()[i].name() &&
             other[i].kwarg_only() == schema.arguments()[i].kwarg_only() &&
             (number ? wantsNumber(*other[i].type()) : *other[i].type() == *schema.arguments()[i].type());
    }
    if (fits) return op;
  }
  return nullptr;
}

}  // namespace

// The tree
// ---------------------------------------------------------------------------------------------------------------------

void TorchScriptWriter::placeWeights() {
  std::set<std::string> modules{""};
  auto addModule = [&](std::string path) {
    while (modules.insert(path).second) {
      auto [parent, name] = splitPath(path);
      children_[parent].push_back(name);
      path = parent;
    }
  };
  for (const ModuleCall& call : g_.moduleCalls())
    if (!call.path.empty()) addModule(call.path);
  for (ValueId id : g_.weights()) {
    const Value& v = g_.value(id);
    if (g_.isUnused(id) || v.isConstant) continue;
    auto [module, name] = splitPath(v.path.empty() ? v.name : v.path);
    addModule(module);
    places_[id.index] = {module, name};
  }
  for (auto& [id, place] : places_) {
    // An attribute and a module of the same name, or "training", which every module has.
    auto isTaken = [&](const std::string& name) {
      const auto& c = children_[place.module];
      if (name == "training" || std::find(c.begin(), c.end(), name) != c.end()) return true;
      const auto& a = attributes_[place.module];
      return std::any_of(a.begin(), a.end(), [&](const auto& entry) { return entry.first == name; });
    };
    while (place.attribute.empty() || isTaken(place.attribute)) place.attribute += '_';
    attributes_[place.module].emplace_back(place.attribute, ValueId(id));
  }
  for (auto& [module, list] : attributes_)
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
}

std::string TorchScriptWriter::className(const std::string& path) const {
  std::string type = path.empty() ? g_.name : "";
  for (const ModuleCall& call : g_.moduleCalls())
    if (!path.empty() && call.path == path) type = call.type;
  if (type.empty()) type = path.empty() ? "Model" : "torch.nn.modules.module.Module";
  std::string out = "__torch__";
  for (size_t from = 0; from <= type.size();) {
    const size_t dot = std::min(type.find('.', from), type.size());
    if (const std::string atom = type.substr(from, dot - from); !atom.empty() && atom != "__torch__")
      out += '.' + identifier(atom, "module");
    from = dot + 1;
  }
  return out;
}

jit::Module TorchScriptWriter::buildModule(const std::string& path) {
  jit::Module module(c10::QualifiedName(className(path)), unit_, /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& [name, id] : attributes_[path]) {
    const Value& v = g_.value(id);
    at::Tensor t = weightTensor(v);
    if (!t.defined()) throw Refusal(fmt::format("the weight '{}' has no data", v.path));
    t = t.detach();
    // A slice of a larger tensor would take all of it into the file.
    if (t.has_storage() && t.storage().nbytes() > t.nbytes() + 64) t = t.clone();
    if (v.isBuffer || !c10::isFloatingType(t.scalar_type()))
      module.register_buffer(name, t);
    else
      module.register_parameter(name, t, false);
  }
  for (const std::string& child : children_[path])
    module.register_module(child, buildModule(path.empty() ? child : path + '.' + child));
  return module;
}

// The method
// -------------------------------------------------------------------------------------------------------------------

jit::Node* TorchScriptWriter::append(jit::Node* n) { return block_->appendNode(n); }

void TorchScriptWriter::bind(ValueId id, JitValue* v, bool keepType) {
  const Value& value = g_.value(id);
  if (!keepType) v->setType(torchType(value.type));
  v->setDebugName(identifier(value.name, "v"));
  values_[id.index] = v;
}

TorchScriptWriter::JitValue* TorchScriptWriter::call(const char* op, std::vector<JitValue*> inputs,
                                                     const c10::TypePtr& type) {
  jit::Node* n = append(graph_->create(c10::Symbol::fromQualString(op), inputs, 1));
  n->output()->setType(type);
  return n->output();
}

TorchScriptWriter::JitValue* TorchScriptWriter::constant(const c10::IValue& v) {
  jit::WithInsertPoint here(block_);
  if (auto made = jit::tryInsertConstant(*graph_, v)) return *made;
  if (v.isList()) {
    const auto list = v.toList();
    std::vector<JitValue*> items;
    for (size_t i = 0; i < list.size(); ++i) items.push_back(constant(list.get(i)));
    return append(graph_->createList(list.elementType(), items))->output();
  }
  throw Refusal(fmt::format("TorchScript has no constant {}", describe(v)));
}

TorchScriptWriter::JitValue* TorchScriptWriter::modulePointer(const std::string& path) {
  if (auto it = modulePointers_.find(path); it != modulePointers_.end()) return it->second;
  auto [parent, name] = splitPath(path);
  JitValue* from = modulePointer(parent);
  jit::Node* n = graph_->createGetAttr(from, name)->insertBefore(prologueEnd_);
  return modulePointers_[path] = n->output();
}

TorchScriptWriter::JitValue* TorchScriptWriter::weight(ValueId id) {
  if (auto it = values_.find(id.index); it != values_.end()) return it->second;
  const Value& v = g_.value(id);
  if (v.isConstant) {
    const at::Tensor t = weightTensor(v);
    if (!t.defined()) throw Refusal(fmt::format("the constant '{}' has no data", v.name));
    jit::WithInsertPoint here(prologueEnd_);
    JitValue* made = graph_->insertConstant(t.detach());
    return values_[id.index] = made;
  }
  const Place& place = places_.at(id.index);
  jit::Node* n = graph_->createGetAttr(modulePointer(place.module), place.attribute)->insertBefore(prologueEnd_);
  return values_[id.index] = n->output();
}

/// What TorchScript's own compiler inserts where a tensor meets a number.
TorchScriptWriter::JitValue* TorchScriptWriter::converted(JitValue* v, const Type& have, const c10::TypePtr& wanted) {
  if (!wanted || wanted->hasFreeVariables()) return v;
  if (v->type()->kind() == c10::TypeKind::OptionalType && wanted->kind() != c10::TypeKind::OptionalType &&
      wanted->kind() != c10::TypeKind::AnyType) {
    const c10::TypePtr inner = v->type()->expectRef<c10::OptionalType>().getElementType();
    return converted(call("aten::_unwrap_optional", {v}, inner), graftType(*inner), wanted);
  }
  if (fitsAlready(have, *wanted)) return v;
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
    std::vector<JitValue*> keys, values;
    for (const auto& [k, v] : dict->items) {
      keys.push_back(argument(k, nullptr));
      values.push_back(argument(v, nullptr));
    }
    c10::TypePtr key = keys.empty() ? c10::TypePtr(c10::StringType::get()) : keys[0]->type();
    c10::TypePtr value = values.empty() ? c10::TypePtr(c10::TensorType::get()) : values[0]->type();
    for (JitValue* v : values)
      if (!(*v->type() == *value)) value = c10::AnyType::get();
    return append(graph_->createDict(key, value, keys, values))->output();
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
  if (asTuple) return append(graph_->createTuple(values))->output();
  if (!element) {
    element = values.empty() ? c10::TypePtr(c10::TensorType::get()) : values[0]->type();
    for (JitValue* v : values)
      if (!(*v->type() == *element))
        throw Refusal("a list of values of different types cannot be written as TorchScript");
  }
  return append(graph_->createList(element, values))->output();
}

TorchScriptWriter::JitValue* TorchScriptWriter::argument(const Argument& a, const c10::TypePtr& wanted) {
  if (a.isValue()) {
    const Value& v = g_.value(a.valueId());
    if (g_.isWeight(v.id)) return converted(weight(v.id), Type::tensor(), wanted);
    return converted(values_.at(v.id.index), v.type, wanted);
  }
  bool hasValues = false;
  a.forEachValue([&](ValueId) { hasValues = true; });
  if (hasValues) return nested(a, wanted);
  auto literal = toIValue(a, wanted.get());
  if (!literal) throw Refusal(literal.error().message);
  return constant(*literal);
}

TorchScriptWriter::JitValue* TorchScriptWriter::numberAsTensor(const Argument& number, const Node& user) {
  // A 0-dim tensor takes part in type promotion only against integers: there a Python float counts as the default
  // dtype.
  bool integers = false;
  for (const Argument& a : user.args)
    if (a.isValue())
      if (const auto d = g_.value(a.valueId()).type.tensorInfo.dtype) integers = integers || !isFloatingPoint(*d);
  auto v = toIValue(number, c10::TensorType::get().get());
  if (!v) throw Refusal(v.error().message);
  at::Tensor t = v->toTensor().clone();
  if (integers && t.scalar_type() == at::kDouble) t = t.to(at::kFloat);
  return constant(t);
}

bool TorchScriptWriter::writeStructural(const Node& n) {
  const std::string_view name = n.op->packetName().empty() ? std::string_view(n.op->name) : n.op->packetName();
  auto is = [&](std::string_view what) { return n.op->name == what || name == what; };
  if (is("prim.If") || is("prim.Loop")) {
    writeControlFlow(n);
    return true;
  }
  if (is("prim.getitem") || is("prim.TupleIndex")) {
    JitValue* from = argument(n.args[0], nullptr);
    JitValue* index = argument(n.args[1], nullptr);
    jit::Node* made;
    if (from->type()->kind() == c10::TypeKind::TupleType) {
      made = append(graph_->createTupleIndex(from, index, torchType(g_.value(n.outputs[0]).type)));
    } else {
      c10::TypePtr type = torchType(g_.value(n.outputs[0]).type);
      if (auto list = from->type()->cast<c10::ListType>()) type = list->getElementType();
      if (auto dict = from->type()->cast<c10::DictType>()) type = dict->getValueType();
      made = append(graph_->create(c10::aten::__getitem__, {from, index}, 1));
      made->output()->setType(type);
    }
    bind(n.outputs[0], made->output(), true);
    return true;
  }
  if (is("prim.ListUnpack") || is("prim.TupleUnpack")) {
    JitValue* from = argument(n.args[0], nullptr);
    jit::Node* made =
        append(from->type()->kind() == c10::TypeKind::TupleType ? graph_->createTupleUnpack(from)
                                                                : graph_->createListUnpack(from, n.outputs.size()));
    for (size_t i = 0; i < n.outputs.size(); ++i) bind(n.outputs[i], made->output(i), true);
    return true;
  }
  JitValue* made = nullptr;
  if (is("prim.ListConstruct"))
    made = nested(Argument::list(n.args), torchType(g_.value(n.outputs[0]).type));
  else if (is("prim.TupleConstruct"))
    made = nested(Argument::tuple(n.args), nullptr);
  else if (is("prim.Uninitialized"))
    made = append(graph_->createUninitialized(torchType(g_.value(n.outputs[0]).type)))->output();
  else if (is("prim.DictConstruct")) {
    std::vector<std::pair<Argument, Argument>> entries;
    for (size_t i = 0; i + 1 < n.args.size(); i += 2) entries.emplace_back(n.args[i], n.args[i + 1]);
    made = nested(Argument::dict(std::move(entries)), nullptr);
  }
  if (!made) return false;
  bind(n.outputs[0], made, true);
  return true;
}

void TorchScriptWriter::writeControlFlow(const Node& n) {
  const bool loop = n.blocks.size() == 1;
  std::vector<JitValue*> inputs;
  for (size_t i = 0; i < n.args.size(); ++i) {
    c10::TypePtr wanted;
    if (!loop)
      wanted = c10::BoolType::get();
    else if (i < 2)
      wanted = i == 0 ? c10::TypePtr(c10::IntType::get()) : c10::TypePtr(c10::BoolType::get());
    inputs.push_back(argument(n.args[i], wanted));
  }
  jit::Node* made = append(graph_->create(loop ? c10::prim::Loop : c10::prim::If, inputs, n.outputs.size()));
  jit::Block* outer = block_;
  for (BlockId b : n.blocks) {
    block_ = made->addBlock();
    for (ValueId p : g_.block(b).parameters) bind(p, block_->addInput());
    // A loop's block and what it carries have the types of the carried values.
    for (size_t i = 2; loop && i < inputs.size(); ++i) block_->inputs()[i - 1]->setType(inputs[i]->type());
    writeBlock(b);
    for (size_t i = 0; i < g_.block(b).returns.size(); ++i) {
      c10::TypePtr wanted = loop && i == 0 ? c10::TypePtr(c10::BoolType::get()) : nullptr;
      block_->registerOutput(argument(g_.block(b).returns[i], wanted));
    }
    block_ = outer;
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    c10::TypePtr type = loop ? inputs[i + 2]->type() : made->blocks()[0]->outputs()[i]->type();
    if (!loop)
      if (auto both = c10::unifyTypes(type, made->blocks()[1]->outputs()[i]->type())) type = *both;
    made->output(i)->setType(type);
    bind(n.outputs[i], made->output(i), true);
  }
}

void TorchScriptWriter::writeNode(const Node& n) {
  if (writeStructural(n)) return;
  const c10::OperatorName name = torchName(n.op->name);
  auto op = findOperator(name);
  if (!op)
    throw Refusal(fmt::format("TorchScript has no operator {}{}", n.op->name,
                              name.name.starts_with("aten::") ? "" : "; load the library that defines it"));
  if (!n.kwargs.empty()) throw Refusal("its keyword arguments belong to no schema");
  std::vector<size_t> numbers;
  const auto parameters = op->schema().arguments();
  for (size_t i = 0; i < n.args.size() && i < parameters.size(); ++i)
    if (isNumber(n.args[i]) && wantsTensor(*parameters[i].type())) numbers.push_back(i);
  bool asTensors = false;
  if (!numbers.empty()) {
    if (auto scalar = scalarOverload(op->schema(), numbers))
      op = scalar;
    else
      asTensors = true;
  }
  const c10::FunctionSchema& schema = op->schema();
  std::vector<JitValue*> inputs;
  for (size_t i = 0; i < n.args.size(); ++i) {
    const bool number = asTensors && std::find(numbers.begin(), numbers.end(), i) != numbers.end();
    const c10::TypePtr wanted = i < schema.arguments().size() ? schema.arguments()[i].type() : nullptr;
    inputs.push_back(number ? numberAsTensor(n.args[i], n) : argument(n.args[i], wanted));
  }
  for (size_t i = n.args.size(); i < schema.arguments().size(); ++i) {
    const auto& d = schema.arguments()[i].default_value();
    if (!d) throw Refusal(fmt::format("no value for the parameter '{}'", schema.arguments()[i].name()));
    inputs.push_back(constant(*d));
  }
  jit::Node* made = append(graph_->create(c10::Symbol::fromQualString(schema.name()), inputs, n.outputs.size()));
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

void TorchScriptWriter::writeBlock(BlockId b) {
  for (NodeId id : g_.order(b)) {
    const Node& n = g_.node(id);
    try {
      writeNode(n);
    } catch (const Refusal& r) {
      // The innermost node has named itself already.
      if (std::string_view(r.what()).starts_with("node ")) throw;
      throw Refusal(fmt::format("node {} ({}): {}", n.name, n.op->name, r.what()));
    }
  }
}

Result<jit::Module> TorchScriptWriter::module() {
  try {
    unit_ = std::make_shared<jit::CompilationUnit>();
    placeWeights();
    jit::Module root = buildModule("");
    graph_ = std::make_shared<jit::Graph>();
    block_ = graph_->block();
    JitValue* self = graph_->addInput("self");
    self->setType(root.type());
    modulePointers_[""] = self;
    for (ValueId id : g_.inputs()) bind(id, graph_->addInput());
    prologueEnd_ = append(graph_->createNone());
    writeBlock(g_.root());
    std::vector<JitValue*> returns;
    for (const Argument& a : g_.returns()) returns.push_back(argument(a, nullptr));
    JitValue* result = returns.size() == 1 ? returns[0]
                       : returns.empty()   ? constant(c10::IValue())
                                           : append(graph_->createTuple(returns))->output();
    graph_->registerOutput(result);
    prologueEnd_->destroy();
    graph_->lint();
    auto* method = unit_->create_function(c10::QualifiedName(*root.type()->name(), "forward"), graph_);
    root.type()->addMethod(method);
    return root;
  } catch (const Refusal& r) {
    return badInput(r.what());
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
}

}  // namespace graft
