#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "core/formats/torchscript/convert.h"
#include "core/formats/torchscript/writer.h"
#include "core/torch/run/capture_facts.h"
#include "core/torch/values/model_device.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

namespace jit = torch::jit;
using Refusal = WriterRefusal;

constexpr const char* runnerAttribute = "graft_runner";

/// A Python identifier that resembles `name`.
std::string identifier(std::string_view name, std::string_view empty) {
  // Python's words, and those that TorchScript's own printing and reading gives a meaning.
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
  // "_12" is how TorchScript numbers what has no name.
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

std::string joined(const std::string& module, const std::string& name) {
  return module.empty() ? name : module + "." + name;
}

}  // namespace

std::string methodName(size_t call, size_t part) {
  std::string out = "forward";
  if (call > 0) out += fmt::format("_call{}", call + 1);
  if (part > 0) out += fmt::format("_part{}", part + 1);
  return out;
}

std::optional<std::pair<size_t, size_t>> callOfMethod(std::string_view method) {
  const auto number = [&](std::string_view mark) -> std::optional<size_t> {
    if (!method.starts_with(mark)) return 0;
    method.remove_prefix(mark.size());
    size_t n = 0;
    const auto [end, error] = std::from_chars(method.data(), method.data() + method.size(), n);
    if (error != std::errc() || n < 2) return std::nullopt;
    method.remove_prefix(static_cast<size_t>(end - method.data()));
    return n - 1;
  };
  if (!method.starts_with("forward")) return std::nullopt;
  method.remove_prefix(7);
  const auto call = number("_call");
  const auto part = call ? number("_part") : std::nullopt;
  if (!part || !method.empty()) return std::nullopt;
  return std::pair(*call, *part);
}

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
  std::vector<ValueId> placed;
  for (ValueId id : g_.weights()) {
    const Value& v = g_.value(id);
    if (g_.isUnused(id) || v.isConstant) continue;
    auto [module, name] = splitPath(v.path.empty() ? v.name : v.path);
    addModule(module);
    places_[id.index] = {module, name};
    placed.push_back(id);
  }
  for (ValueId id : placed) {
    Place& place = places_[id.index];
    // An attribute and a module of the same name, or one that modules have of their own.
    auto isTaken = [&](const std::string& name) {
      const auto& c = children_[place.module];
      if (name == "training" || name == runnerAttribute || std::find(c.begin(), c.end(), name) != c.end()) return true;
      const auto& a = attributes_[place.module];
      return std::any_of(a.begin(), a.end(), [&](const auto& entry) { return entry.first == name; });
    };
    while (place.attribute.empty() || isTaken(place.attribute)) place.attribute += '_';
    attributes_[place.module].emplace_back(place.attribute, id);
  }
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
  for (const std::string& child : children_[path]) module.register_module(child, buildModule(joined(path, child)));
  modules_.emplace(path, module);
  return module;
}

// Attributes that the model sets. One that it never reads has no value in the graph: it begins empty.
void TorchScriptWriter::placeWritten() {
  for (NodeId id : g_.order()) {
    const Node& n = g_.node(id);
    const auto* path = n.op->name == "prim.SetAttr" && n.args.size() == 2 ? n.args[0].as<std::string>() : nullptr;
    if (!path || written_.contains(*path)) continue;
    const auto [module, name] = splitPath(*path);
    Place place{module, name};
    const ValueId read = g_.findWeight(*path);
    if (const auto it = read ? places_.find(read.index) : places_.end(); it != places_.end()) {
      place = it->second;
      setWeights_.insert(read.index);
    } else if (const auto here = modules_.find(module); here == modules_.end()) {
      throw Refusal(fmt::format("it sets the attribute {} of a module that is not called", *path));
    } else {
      Type type = n.args[1].isValue() ? g_.value(n.args[1].valueId()).type : Type::any();
      if (!type.isTensor())
        throw Refusal(fmt::format("it sets the attribute {}, which is no tensor: its first value is not known", *path));
      while (here->second.type()->findAttributeSlot(place.attribute)) place.attribute += '_';
      const auto dtype = type.tensorInfo.dtype.value_or(DType::Float32);
      here->second.register_buffer(place.attribute, at::empty({0}, torchDType(dtype)));
    }
    written_.emplace(*path, place);
  }
}

bool TorchScriptWriter::holds(ValueId weight, const std::string& path) const {
  // What the model sets is read once, before that, and handed to whoever uses it.
  if (setWeights_.contains(weight.index)) return false;
  const auto place = places_.find(weight.index);
  return place == places_.end() || isBelow(place->second.module, path);
}

// Methods
// ---------------------------------------------------------------------------------------------------------------------

void TorchScriptWriter::beginMethod(const std::string& path) {
  at_ = Method();
  at_.path = path;
  at_.graph = std::make_shared<jit::Graph>();
  at_.block = at_.graph->block();
  JitValue* self = at_.graph->addInput("self");
  self->setType(modules_.at(path).type());
  at_.modules[path] = self;
}

void TorchScriptWriter::endMethod(const std::string& name, const std::vector<JitValue*>& results) {
  range_.reset();
  at_.graph->registerOutput(results.size() == 1 ? results[0]
                            : results.empty()   ? constant(c10::IValue())
                                                : append(at_.graph->createTuple(results))->output());
  at_.graph->lint();
  const auto type = modules_.at(at_.path).type();
  type->addMethod(unit_->create_function(c10::QualifiedName(*type->name(), name), at_.graph));
}

void TorchScriptWriter::writeItems(const std::vector<CallSegments::Item>& items, const CallSegments& cut) {
  for (const CallSegments::Item& item : items) {
    if (item.segment != CallSegments::none) {
      writeCall(cut.segment(item.segment), cut);
      continue;
    }
    const Node& n = g_.node(item.node);
    try {
      takeSource(n);
      writeNode(n, cut);
    } catch (const Refusal& r) {
      // The innermost node has named itself already.
      if (std::string_view(r.what()).starts_with("node ")) throw;
      throw Refusal(fmt::format("node {} ({}): {}", n.name, n.op->name, r.what()));
    }
  }
}

void TorchScriptWriter::writeCall(const CallSegments::Segment& s, const CallSegments& cut) {
  const std::string& path = g_.moduleCall(s.call).path;
  const std::string name = methodName(callNumber_[s.call.index], s.part);
  range_.reset();
  std::vector<JitValue*> inputs{modulePointer(path)};
  for (ValueId v : s.inputs) inputs.push_back(g_.isWeight(v) ? weight(v) : at_.values.at(v.index));

  Method outer = std::exchange(at_, Method());
  beginMethod(path);
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    JitValue* in = at_.graph->addInput();
    in->setType(inputs[i + 1]->type());
    bind(s.inputs[i], in, true);
  }
  writeItems(s.items, cut);
  std::vector<JitValue*> results;
  for (ValueId v : s.outputs) results.push_back(at_.values.at(v.index));
  endMethod(name, results);
  const c10::TypePtr type = at_.graph->outputs()[0]->type();
  at_ = std::move(outer);

  jit::Node* made = at_.graph->create(jit::prim::CallMethod, inputs, 1);
  made->s_(jit::attr::name, name);
  made->output()->setType(type);
  append(made);
  if (s.outputs.size() == 1) {
    bind(s.outputs[0], made->output(), true);
  } else if (s.outputs.size() > 1) {
    jit::Node* unpacked = append(at_.graph->createTupleUnpack(made->output()));
    for (size_t i = 0; i < s.outputs.size(); ++i) bind(s.outputs[i], unpacked->output(i), true);
  }
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
    // A module that lives elsewhere (an embedding that the decoder shares): this one refers to it.
    std::string& alias = aliases_[at_.path + "\n" + path];
    if (alias.empty()) {
      jit::Module& here = modules_.at(at_.path);
      alias = splitPath(path).second;
      while (here.type()->findAttributeSlot(alias)) alias += '_';
      here.register_module(alias, modules_.at(path));
      note_.aliases[joined(at_.path, alias)] = path;
    }
    name = alias;
  }
  jit::Node* n = appendOutside(at_.graph->createGetAttr(from, name));
  return at_.modules[path] = n->output();
}

TorchScriptWriter::JitValue* TorchScriptWriter::weight(ValueId id) {
  if (auto it = at_.values.find(id.index); it != at_.values.end()) return it->second;
  const Value& v = g_.value(id);
  if (v.isConstant) {
    const at::Tensor t = weightTensor(v);
    if (!t.defined()) throw Refusal(fmt::format("the constant '{}' has no data", v.name));
    return at_.values[id.index] = t.dim() > 0 ? placedConstant(t, v) : tensorConstant(t, v.path, v.name);
  }
  const Place& place = places_.at(id.index);
  JitValue* module = modulePointer(place.module);
  return at_.values[id.index] = appendOutside(at_.graph->createGetAttr(module, place.attribute))->output();
}

// An archive keeps equal tensors among its constants once, in the order in which they are used first.
TorchScriptWriter::JitValue* TorchScriptWriter::tensorConstant(const at::Tensor& given, const std::string& path,
                                                               const std::string& name) {
  const at::Tensor t = given.detach();
  const bool known = std::any_of(constants_.begin(), constants_.end(), [&](const at::Tensor& c) {
    return c.scalar_type() == t.scalar_type() && c.sizes() == t.sizes() && at::equal(c, t);
  });
  if (!known) {
    constants_.push_back(t);
    note_.constants.emplace_back(path, name);
  }
  jit::Node* made = at_.graph->create(jit::prim::Constant);
  made->output()->setType(c10::TensorType::get());
  made->t_(jit::attr::value, t);
  return appendOutside(made)->output();
}

/// An attribute of the module that is being written, beside those that the model has.
TorchScriptWriter::JitValue* TorchScriptWriter::newBuffer(const std::string& name, const at::Tensor& t) {
  jit::Module& here = modules_.at(at_.path);
  std::string free = name;
  for (int i = 1; here.type()->findAttributeSlot(free); ++i) free = fmt::format("{}_{}", name, i);
  here.register_buffer(free, t);
  return appendOutside(at_.graph->createGetAttr(modulePointer(at_.path), free))->output();
}

/// Constants of TorchScript stay on the CPU whatever is done to the module; its buffers move with it. (Those without
/// dimensions may stay: operators of every device take them.)
TorchScriptWriter::JitValue* TorchScriptWriter::placedConstant(const at::Tensor& t, const Value& v) {
  JitValue* made = newBuffer("graft_constant", t.detach());
  note_.placedConstants[joined(at_.path, made->node()->s(jit::attr::name))] = {v.path, v.name};
  return made;
}

/// Where the module is, asked of something that moves with it.
TorchScriptWriter::JitValue* TorchScriptWriter::moduleDevice() {
  if (at_.device) return at_.device;
  note_.device = device_;
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
  if (out != name) note_.names[out] = name;
  return it->second = out;
}

// Python's debugging record of the archive keeps the line that a node came from.
void TorchScriptWriter::takeSource(const Node& n) {
  range_.reset();
  const SourceLocation* where = g_.sourceOf(n);
  if (!where || where->file.empty() || where->line < 1) return;
  auto& source = sources_[n.source];
  const auto column = static_cast<size_t>(std::max(where->column, 1) - 1);
  const auto end = static_cast<size_t>(std::max(where->endColumn, 1) - 1);
  if (!source) {
    std::string text = where->code;
    text.resize(std::max(text.size(), end), ' ');
    source = std::make_shared<jit::Source>(text, where->file, static_cast<size_t>(where->line));
  }
  range_ = where->column > 0 ? jit::SourceRange(source, column, std::max(column, end))
                             : jit::SourceRange(source, 0, source->size());
}

// Captured runs
// ---------------------------------------------------------------------------------------------------------------------

TorchScriptWriter::JitValue* TorchScriptWriter::callRunner(const char* method, std::vector<JitValue*> arguments,
                                                           const c10::TypePtr& type) {
  arguments.insert(arguments.begin(), runner_);
  JitValue* out = call("prim::CallMethod", std::move(arguments), type);
  out->node()->s_(jit::attr::name, method);
  return out;
}

/// The question whether a captured run stands in; what is written next is the answer "no".
jit::Node* TorchScriptWriter::beginCapture(jit::Module& root) {
  const auto type = torch::getCustomClass("__torch__.torch.classes.graft.Runner");
  if (!type) throw Refusal("libgraft_ops.so, which the model needs, is not loaded");
  const c10::IValue runner = c10::ivalue::Object::create(c10::StrongTypePtr({}, type), 1);
  constexpr int64_t usualLimit = 0;
  jit::Stack stack{runner, captureFacts(g_).constantWeights, usualLimit};
  type->getMethod("__init__").run(stack);
  root.register_attribute(runnerAttribute, type, runner);
  const auto inputs = at_.graph->inputs();
  runner_ = append(at_.graph->createGetAttr(inputs[0], runnerAttribute))->output();
  arguments_ = append(at_.graph->createTuple(inputs.slice(1)))->output();
  JitValue* captures = callRunner("captures", {arguments_}, c10::BoolType::get());
  jit::Node* branch = append(at_.graph->create(c10::prim::If, {captures}, 1));
  branch->addBlock();
  at_.block = branch->addBlock();
  return branch;
}

TorchScriptWriter::JitValue* TorchScriptWriter::endCapture(jit::Node* branch, const std::vector<JitValue*>& results) {
  JitValue* result = results.size() == 1 ? results[0]
                     : results.empty()   ? constant(c10::IValue())
                                         : append(at_.graph->createTuple(results))->output();
  const c10::TypePtr type = c10::unshapedType(result->type());
  at_.block->registerOutput(result);
  at_.block = branch->blocks()[0];
  JitValue* replayed = callRunner("run", {at_.graph->inputs()[0], arguments_}, c10::AnyType::get());
  at_.block->registerOutput(call("prim::unchecked_cast", {replayed}, type));
  at_.block = at_.graph->block();
  branch->output()->setType(type);
  return branch->output();
}

Result<jit::Module> TorchScriptWriter::module() {
  try {
    unit_ = std::make_shared<jit::CompilationUnit>();
    std::unordered_map<std::string, size_t> calls;
    for (const ModuleCall& call : g_.moduleCalls()) callNumber_.push_back(calls[call.path]++);
    device_ = modelDevice(g_);
    placeWeights();
    jit::Module root = buildModule("");
    placeWritten();
    // The printed code reads attributes into variables of their names.
    for (const auto& [path, names] : children_) taken_.insert(names.begin(), names.end());
    for (const auto& [path, entries] : attributes_)
      for (const auto& [name, id] : entries) taken_.insert(name);
    const CallSegments cut(g_, [this](ValueId w, const std::string& path) { return holds(w, path); });
    beginMethod("");
    for (ValueId id : g_.inputs()) bind(id, at_.graph->addInput());
    jit::Node* branch = capture_ ? beginCapture(root) : nullptr;
    for (uint32_t w : setWeights_) weight(ValueId(w));
    writeItems(cut.items(g_.root()), cut);
    range_.reset();
    std::vector<JitValue*> returns;
    for (const Argument& a : g_.returns()) returns.push_back(argument(a, nullptr));
    if (branch) returns = {endCapture(branch, returns)};
    endMethod("forward", returns);
    if (g_.returns().size() == 1 && g_.returns()[0].isValue()) note_.result = g_.value(g_.returns()[0].valueId()).name;
    std::map<std::string, std::string> types;
    for (const auto& [path, module] : modules_) types[path] = demangle(module.type()->name()->qualifiedName());
    noteFacts(g_, types, note_);
    if (const std::string written = types[""]; written.substr(written.rfind('.') + 1) != g_.name) note_.model = g_.name;
    return root;
  } catch (const Refusal& r) {
    return badInput(r.what());
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
}

}  // namespace graft
