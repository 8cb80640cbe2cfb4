#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "core/formats/torchscript/set_attribute.h"
#include "core/formats/torchscript/writer.h"
#include "core/torch/operator_library.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

namespace jit = torch::jit;
using Refusal = WriterRefusal;

/// A Python identifier that resembles `name`.
std::string identifier(std::string_view name, std::string_view empty) {
  // Python's keywords, and names with a meaning for TorchScript's printer and parser.
  static const std::unordered_set<std::string_view> taken{
      "False",   "None",    "True",      "and",        "as",    "assert", "async",     "await",
      "break",   "class",   "continue",  "def",        "del",   "elif",   "else",      "except",
      "finally", "for",     "from",      "global",     "if",    "import", "in",        "is",
      "lambda",  "not",     "nonlocal",  "or",         "pass",  "raise",  "return",    "try",
      "while",   "with",    "yield",     "self",       "torch", "ops",    "annotate",  "uninitialized",
      "fork",    "inf",     "nan",       "infj",       "nanj",  "print",  "aten",      "attribute",
      "getattr", "hasattr", "CONSTANTS", "__torch__",  "_",     "int",    "float",     "bool",
      "complex", "str",     "range",     "len",        "list",  "tuple",  "dict",      "unchecked_cast",
      "min",     "max",     "abs",       "isinstance", "type",  "device", "enumerate", "zip"};
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (out.empty()) out = empty;
  if (std::isdigit(static_cast<unsigned char>(out[0]))) out = std::string(empty) + out;
  if (taken.contains(out)) out += '_';
  // TorchScript numbers unnamed values like "_12".
  if (out[0] == '_' && out.find_first_not_of("0123456789", 1) == out.npos) out = std::string(empty) + out;
  return out;
}

std::pair<std::string, std::string> splitPath(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == path.npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

bool isBelow(const std::string& path, const std::string& module) {
  return module.empty() || path == module ||
         (path.size() > module.size() && path.starts_with(module) && path[module.size()] == '.');
}

bool isListOfTensors(const Graph& g, const Argument& a) {
  const auto isTensor = [&](const Argument& item) { return item.isValue() && g.value(item.valueId()).type.isTensor(); };
  if (const auto* items = a.items()) return std::all_of(items->begin(), items->end(), isTensor);
  if (!a.isValue()) return false;
  const Type& type = g.value(a.valueId()).type;
  return type.kind == Type::Kind::List && type.element().isTensor();
}

std::string joined(const std::string& module, const std::string& name) {
  return module.empty() ? name : module + "." + name;
}

}  // namespace

/// `self.anchors = [a.to(x) for a in self.anchors]`: what the list holds before that is read from an attribute that is
/// a list, too.
void TorchScriptWriter::findSetLists() {
  for (const NodeId id : g_.order()) {
    const Node& n = g_.node(id);
    const std::string* path = setAttributePath(n);
    if (!path || !isListOfTensors(g_, n.args[1])) continue;
    for (size_t i = 0; const ValueId item = g_.findWeight(fmt::format("{}.{}", *path, i)); ++i) {
      listItems_[item.index] = {*path, i};
      if (!g_.isUnused(item)) setWeights_.insert(item.index);
    }
  }
}

/// Whether another attribute or a submodule of the module has the name, or every module does.
bool TorchScriptWriter::isTaken(const std::string& module, const std::string& name) {
  if (name == "training" || name == runnerAttribute) return true;
  const auto& c = children_[module];
  const auto& a = attributes_[module];
  return std::ranges::find(c, name) != c.end() ||
         std::ranges::any_of(a, [&](const auto& entry) { return entry.first == name; });
}

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
  std::vector<ValueId> placed;
  for (ValueId id : g_.weights()) {
    const Value& v = g_.value(id);
    const auto& written = facts_.writtenWeights;
    // A constant that the model writes (a cache that export has lifted) is state, which an archive keeps in attributes.
    if (g_.isUnused(id) || listItems_.contains(id.index) ||
        (v.isConstant && std::find(written.begin(), written.end(), id) == written.end()))
      continue;
    auto [module, name] = splitPath(v.path.empty() ? v.name : v.path);
    addModule(module);
    places_[id.index] = {module, name};
    placed.push_back(id);
  }
  for (ValueId id : placed) {
    Place& place = places_[id.index];
    while (place.attribute.empty() || isTaken(place.module, place.attribute)) place.attribute += '_';
    attributes_[place.module].emplace_back(place.attribute, id);
  }
}

std::string TorchScriptWriter::className(const std::string& path) const {
  std::string type = path.empty() ? g_.name : "";
  for (const ModuleCall& call : g_.moduleCalls())
    if (!path.empty() && call.path == path) type = call.type;
  if (type.empty()) type = path.empty() ? "Model" : "torch.nn.modules.module.Module";
  return classNameOf(type);
}

std::string TorchScriptWriter::classNameOf(const std::string& type) {
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
  // A model with operators of ours, or to be captured, is for inference: it runs as it was verified, also where
  // gradients are on.
  const bool isForInference = capture_ || usesGraftOperators(g_);
  for (const auto& [name, id] : attributes_[path]) {
    const Value& v = g_.value(id);
    at::Tensor t = weightTensor(v);
    if (!t.defined()) throw Refusal(fmt::format("the weight '{}' has no data", v.path));
    t = t.detach();
    // The file would hold all of the larger tensor that a slice belongs to.
    if (t.has_storage() && t.storage().nbytes() > t.nbytes() + 64) t = t.clone();
    const bool takesGradient =
        (c10::isFloatingType(t.scalar_type()) || c10::isComplexType(t.scalar_type())) && !v.isFrozen && !isForInference;
    if (v.isBuffer || v.isConstant)
      module.register_buffer(name, t);
    else
      module.register_parameter(name, t.set_requires_grad(takesGradient), false);
  }
  for (const std::string& child : children_[path]) module.register_module(child, buildModule(joined(path, child)));
  modules_.emplace(path, module);
  return module;
}

// Places the attributes that the model sets. One that it never reads has no value in the graph, so it begins empty.
void TorchScriptWriter::placeWritten() {
  for (NodeId id : g_.order()) {
    const Node& n = g_.node(id);
    const std::string* path = setAttributePath(n);
    if (!path || written_.contains(*path)) continue;
    if (wasNoneBefore(n))
      throw Refusal(fmt::format(
          "its attribute {} is None in the file and has a value after the first run, and the graph is that of the "
          "first run. Give the attribute a value before you save the model, or make it an input and a result",
          *path));
    const auto [module, name] = splitPath(*path);
    Place place{module, name};
    const ValueId read = g_.findWeight(*path);
    if (const auto it = read ? places_.find(read.index) : places_.end(); it != places_.end()) {
      place = it->second;
      setWeights_.insert(read.index);
    } else if (const auto here = modules_.find(module); here == modules_.end()) {
      throw Refusal(fmt::format("it sets the attribute {} of a module that is not called", *path));
    } else {
      if (isListOfTensors(g_, n.args[1])) {
        placeList(*path, place);
        continue;
      }
      Type type = n.args[1].isValue() ? g_.value(n.args[1].valueId()).type : Type::any();
      if (!type.isTensor())
        throw Refusal(fmt::format(
            "it sets the attribute {}, which is no tensor: its first value is not known. Save a part of the "
            "model that sets none, e.g. model.backbone",
            *path));
      while (here->second.type()->findAttributeSlot(place.attribute)) place.attribute += '_';
      const auto dtype = type.tensorInfo.dtype.value_or(DType::Float32);
      here->second.register_buffer(place.attribute, at::empty({0}, torchDType(dtype)));
    }
    written_.emplace(*path, place);
  }
}

void TorchScriptWriter::placeList(const std::string& path, Place place) {
  jit::Module& here = modules_.at(place.module);
  while (here.type()->findAttributeSlot(place.attribute)) place.attribute += '_';
  c10::List<at::Tensor> first;
  for (size_t i = 0; const ValueId item = g_.findWeight(fmt::format("{}.{}", path, i)); ++i) {
    const at::Tensor t = weightTensor(g_.value(item));
    if (!t.defined()) throw Refusal(fmt::format("the weight '{}' has no data", g_.value(item).path));
    first.push_back(t.detach());
  }
  here.register_attribute(place.attribute, c10::ListType::ofTensors(), first);
  written_.emplace(path, std::move(place));
}

bool TorchScriptWriter::holds(ValueId weight, const std::string& path) const {
  // An attribute that the model sets is read once before that, and passed to the methods that use it.
  if (setWeights_.contains(weight.index)) return false;
  const auto place = places_.find(weight.index);
  return place == places_.end() || isBelow(place->second.module, path);
}

TorchScriptWriter::JitValue* TorchScriptWriter::modulePointer(const std::string& path) {
  if (auto it = at_.modules.find(path); it != at_.modules.end()) return it->second;
  std::string name;
  JitValue* from = at_.modules.at(at_.path);
  if (isBelow(path, at_.path)) {
    const auto [parent, last] = splitPath(path);
    from = modulePointer(parent);
    name = last;
  } else {
    // The module lies elsewhere (an embedding that the decoder shares): this module gets a reference to it.
    std::string& alias = aliases_[at_.path + "\n" + path];
    if (alias.empty()) {
      jit::Module& here = modules_.at(at_.path);
      alias = splitPath(path).second;
      while (here.type()->findAttributeSlot(alias)) alias += '_';
      here.register_module(alias, modules_.at(path));
      metadata_.aliases[joined(at_.path, alias)] = path;
    }
    name = alias;
  }
  jit::Node* n = appendOutside(at_.graph->createGetAttr(from, name));
  return at_.modules[path] = n->output();
}

TorchScriptWriter::JitValue* TorchScriptWriter::weight(ValueId id) {
  if (auto it = at_.values.find(id.index); it != at_.values.end()) return it->second;
  const Value& v = g_.value(id);
  if (v.isConstant && !places_.contains(id.index)) {
    const at::Tensor t = weightTensor(v);
    if (!t.defined()) throw Refusal(fmt::format("the constant '{}' has no data", v.name));
    return at_.values[id.index] = t.dim() > 0 ? placedConstant(t, v) : tensorConstant(t, v.path, v.name);
  }
  if (const auto item = listItems_.find(id.index); item != listItems_.end()) {
    const Place& place = written_.at(item->second.path);
    jit::Node* list = appendOutside(at_.graph->createGetAttr(modulePointer(place.module), place.attribute));
    const jit::WithInsertPoint outside =
        at_.control ? jit::WithInsertPoint(at_.control) : jit::WithInsertPoint(at_.block);
    JitValue* index = at_.graph->insertConstant(static_cast<int64_t>(item->second.index));
    jit::Node* read = appendOutside(at_.graph->create(c10::aten::__getitem__, {list->output(), index}, 1));
    read->output()->setType(c10::TensorType::get());
    return at_.values[id.index] = read->output();
  }
  const Place& place = places_.at(id.index);
  JitValue* module = modulePointer(place.module);
  return at_.values[id.index] =
             inItsDType(appendOutside(at_.graph->createGetAttr(module, place.attribute))->output(), v);
}

/// A buffer that the model keeps in more precision than it computes in (rotary frequencies). `module.to(float16)` casts
/// it as all others, and what it meets is in float32: it is read as float32, which costs nothing where it still is.
TorchScriptWriter::JitValue* TorchScriptWriter::inItsDType(JitValue* read, const Value& v) {
  const auto dtype = v.type.tensorInfo.dtype;
  const auto& written = facts_.writtenWeights;
  if (!(v.isBuffer || v.isConstant) || !dtype || !isFloatingPoint(*dtype) || !modelDType_ ||
      dtypeSize(*dtype) <= dtypeSize(*modelDType_) || std::find(written.begin(), written.end(), v.id) != written.end())
    return read;
  const jit::WithInsertPoint outside =
      at_.control ? jit::WithInsertPoint(at_.control) : jit::WithInsertPoint(at_.block);
  std::vector<JitValue*> inputs{read};
  for (const c10::IValue& a :
       {c10::IValue(static_cast<int64_t>(torchDType(*dtype))), c10::IValue(false), c10::IValue(false), c10::IValue()})
    inputs.push_back(at_.graph->insertConstant(a));
  jit::Node* cast = appendOutside(at_.graph->create(c10::aten::to, inputs, 1));
  cast->output()->setType(c10::TensorType::get());
  return cast->output();
}

// An archive keeps each constant tensor once, in the order of first use.
TorchScriptWriter::JitValue* TorchScriptWriter::tensorConstant(const at::Tensor& given, const std::string& path,
                                                               const std::string& name) {
  const at::Tensor t = given.detach();
  const bool known = std::any_of(constants_.begin(), constants_.end(), [&](const at::Tensor& c) {
    return c.scalar_type() == t.scalar_type() && c.sizes() == t.sizes() && at::equal(c, t);
  });
  if (!known) {
    constants_.push_back(t);
    metadata_.constants.emplace_back(path, name);
  }
  jit::Node* made = at_.graph->create(jit::prim::Constant);
  made->output()->setType(c10::TensorType::get());
  made->t_(jit::attr::value, t);
  return appendOutside(made)->output();
}

/// A new attribute of the module that is being written, beside the model's own.
TorchScriptWriter::JitValue* TorchScriptWriter::newBuffer(const std::string& name, const at::Tensor& t) {
  jit::Module& here = modules_.at(at_.path);
  std::string free = name;
  for (int i = 1; here.type()->findAttributeSlot(free); ++i) free = fmt::format("{}_{}", name, i);
  here.register_buffer(free, t);
  return appendOutside(at_.graph->createGetAttr(modulePointer(at_.path), free))->output();
}

/// Keeps the constant as a buffer: buffers move with their module, constants of TorchScript stay on the CPU. (0-dim
/// constants may stay there where the operator takes them beside tensors of any device: see wantsOnDevice.)
TorchScriptWriter::JitValue* TorchScriptWriter::placedConstant(const at::Tensor& t, const Value& v) {
  JitValue* made = newBuffer("graft_constant", t.detach());
  metadata_.placedConstants[joined(at_.path, made->node()->s(jit::attr::name))] = {v.path, v.name};
  return inItsDType(made, v);
}

/// Whether the node that is being written would copy this 0-dim constant from the CPU to its other tensors in every
/// run, which no CUDA graph can hold.
bool TorchScriptWriter::wantsOnDevice(const Value& v, const c10::TypePtr& wanted) const {
  const auto isNumber = [&](const Value& x) { return x.isConstant && x.type.tensorInfo.rank() == 0; };
  if (!isNumber(v) || places_.contains(v.id.index) || !node_ || place_.onHost(*node_)) return false;
  if (!wanted || !wanted->isSubtypeOf(*c10::OptionalType::ofTensor())) return false;
  if (node_->op->is(OperatorFact::CpuNumber) || node_->op->name.starts_with("prim.")) return false;
  bool besideTensors = false;
  for (const Argument& a : node_->args)
    a.forEachValue([&](ValueId id) {
      const Value& other = g_.value(id);
      besideTensors = besideTensors || (other.type.isTensor() && !isNumber(other));
    });
  return besideTensors;
}

TorchScriptWriter::JitValue* TorchScriptWriter::movingNumber(const Value& v) {
  JitValue*& made = at_.movingNumbers[v.id.index];
  if (made) return made;
  const at::Tensor t = weightTensor(v);
  if (!t.defined()) throw Refusal(fmt::format("the constant '{}' has no data", v.name));
  return made = placedConstant(t, v);
}

/// The module's device, read from a tensor that moves with it.
TorchScriptWriter::JitValue* TorchScriptWriter::moduleDevice() {
  if (at_.device) return at_.device;
  metadata_.device = place_.model();
  JitValue* anchor = nullptr;
  for (auto it = attributes_.lower_bound(at_.path); !anchor && it != attributes_.end(); ++it) {
    if (!isBelow(it->first, at_.path)) break;
    for (const auto& [name, id] : it->second)
      if (!anchor && !setWeights_.contains(id.index)) anchor = weight(id);
  }
  if (!anchor) anchor = newBuffer("graft_place", at::empty({0}));
  jit::Node* asked = at_.graph->create(jit::prim::device, {anchor}, 1);
  asked->output()->setType(c10::DeviceObjType::get());
  return at_.device = appendOutside(asked)->output();
}

std::string TorchScriptWriter::identifierOf(const std::string& name) {
  const auto [it, isNew] = identifiers_.try_emplace(name);
  if (!isNew) return it->second;
  std::string out = identifier(name, "v");
  while (!taken_.insert(out).second) out += '_';
  if (out != name) metadata_.names[out] = name;
  return it->second = out;
}

}  // namespace graft
