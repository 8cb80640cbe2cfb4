#include "core/formats/torchscript/writer.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <charconv>

#include "core/formats/calling.h"
#include "core/formats/torchscript/convert.h"
#include "core/torch/values/call_arguments.h"
#include "core/torch/values/values.h"

namespace graft {

namespace jit = torch::jit;

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

TorchScriptWriter::~TorchScriptWriter() {
  for (const c10::FunctionSchema& s : declared_) jit::deregisterOperator(s);
}

void TorchScriptWriter::beginMethod(const std::string& path) {
  at_ = Method();
  at_.path = path;
  at_.graph = std::make_shared<jit::Graph>();
  at_.block = at_.graph->block();
  JitValue* self = at_.graph->addInput("self");
  self->setType(modules_.at(path).type());
  at_.modules[path] = self;
}

jit::Function* TorchScriptWriter::endMethod(const std::string& name, const std::vector<JitValue*>& results) {
  range_.reset();
  at_.graph->registerOutput(results.size() == 1 ? results[0]
                            : results.empty()   ? constant(c10::IValue())
                                                : append(at_.graph->createTuple(results))->output());
  at_.graph->lint();
  const auto type = modules_.at(at_.path).type();
  jit::Function* made = unit_->create_function(c10::QualifiedName(*type->name(), name), at_.graph);
  type->addMethod(made);
  return made;
}

// A tuple as the named tuple that the model returned.
TorchScriptWriter::JitValue* TorchScriptWriter::withFieldNames(JitValue* result) {
  const auto tuple = result->type()->cast<c10::TupleType>();
  if (!g_.calling || !tuple || g_.calling->result.type != namedTupleType) return result;
  for (const auto& [type, fields] : g_.calling->namedTuples) {
    if (g_.calling->result.context.find("\"" + type + "\"") == std::string::npos) continue;
    if (fields.size() != tuple->elements().size()) continue;
    const auto named =
        c10::TupleType::createNamed(c10::QualifiedName(classNameOf(type)), fields, tuple->elements().vec());
    jit::Node* unpacked = append(at_.graph->createTupleUnpack(result));
    return append(at_.graph->createTuple(unpacked->outputs(), named))->output();
  }
  return result;
}

/// Whether an argument of that type may be left out with this value. An optional dictionary that the example gave has
/// the type of a dictionary, which None is not.
static bool isDefaultOf(const c10::IValue& value, const c10::Type& type) {
  return !value.isNone() || type.kind() == c10::TypeKind::TensorType || c10::NoneType::get()->isSubtypeOf(type);
}

// What callers may leave out of the model's arguments. Those before one that they must give have no default, either.
void TorchScriptWriter::declareDefaults(jit::Function& forward) const {
  const c10::FunctionSchema& schema = forward.getSchema();
  std::vector<c10::Argument> arguments = schema.arguments();
  for (size_t i = g_.inputs().size(); i-- > 0;) {
    c10::Argument& a = arguments[i + 1];
    auto value = findDefaultValue(g_, g_.inputs()[i]);
    if (!value || !isDefaultOf(*value, *a.type())) break;
    a = c10::Argument(a.name(), a.type(), a.N(), std::move(*value));
  }
  forward.setSchema(c10::FunctionSchema(schema.name(), schema.overload_name(), std::move(arguments), schema.returns()));
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
    } catch (const WriterRefusal& r) {
      // The innermost node has named itself already.
      if (std::string_view(r.what()).starts_with("node ")) throw;
      throw WriterRefusal(fmt::format("node {} ({}): {}", n.name, n.op->name, r.what()));
    }
  }
}

std::vector<TorchScriptWriter::JitValue*> TorchScriptWriter::inputsOf(const CallSegments::Segment& s) {
  std::vector<JitValue*> inputs;
  for (ValueId v : s.inputs) inputs.push_back(g_.isWeight(v) ? weight(v) : at_.values.at(v.index));
  return inputs;
}

/// Writes the segment as a method of the module of that path. Returns the type of what the method returns.
c10::TypePtr TorchScriptWriter::writeMethod(const std::string& path, const std::string& name,
                                            const std::vector<JitValue*>& inputs, const CallSegments::Segment& s,
                                            const CallSegments& cut) {
  Method outer = std::exchange(at_, Method());
  beginMethod(path);
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    JitValue* in = at_.graph->addInput();
    in->setType(inputs[i]->type());
    bind(s.inputs[i], in, true);
  }
  writeItems(s.items, cut);
  std::vector<JitValue*> results;
  for (ValueId v : s.outputs) results.push_back(at_.values.at(v.index));
  endMethod(name, results);
  const c10::TypePtr type = at_.graph->outputs()[0]->type();
  at_ = std::move(outer);
  return type;
}

/// `inputs`: the module, then what its method takes.
TorchScriptWriter::JitValue* TorchScriptWriter::callMethod(const std::string& name,
                                                           const std::vector<JitValue*>& inputs,
                                                           const c10::TypePtr& type) {
  jit::Node* made = at_.graph->create(jit::prim::CallMethod, inputs, 1);
  made->s_(jit::attr::name, name);
  made->output()->setType(type);
  return append(made)->output();
}

void TorchScriptWriter::bindResults(JitValue* result, const CallSegments::Segment& s) {
  if (s.outputs.size() == 1) {
    bind(s.outputs[0], result, true);
  } else if (s.outputs.size() > 1) {
    jit::Node* unpacked = append(at_.graph->createTupleUnpack(result));
    for (size_t i = 0; i < s.outputs.size(); ++i) bind(s.outputs[i], unpacked->output(i), true);
  }
}

void TorchScriptWriter::writeCall(const CallSegments::Segment& s, const CallSegments& cut) {
  if (s.piece > 0) return writePiece(s, cut);
  const std::string& path = g_.moduleCall(s.call).path;
  const std::string name = methodName(callNumber_[s.call.index], s.part);
  range_.reset();
  std::vector<JitValue*> inputs = inputsOf(s);
  JitValue* module = modulePointer(path);
  const c10::TypePtr type = writeMethod(path, name, inputs, s, cut);
  inputs.insert(inputs.begin(), module);
  bindResults(callMethod(name, inputs, type), s);
}

// The archive's debug record keeps the line of Python that a node came from.
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

Result<jit::Module> TorchScriptWriter::module() {
  try {
    unit_ = std::make_shared<jit::CompilationUnit>();
    std::unordered_map<std::string, size_t> calls;
    for (const ModuleCall& call : g_.moduleCalls()) callNumber_.push_back(calls[call.path]++);
    facts_ = captureFacts(g_);
    findSetLists();
    placeWeights();
    jit::Module root = buildModule("");
    placeWritten();
    beginMethod("");
    // Callers name the inputs, so these have the first choice of names.
    for (ValueId id : g_.inputs()) bind(id, at_.graph->addInput());
    // The printed code reads attributes into variables of their names.
    for (const auto& [path, names] : children_) taken_.insert(names.begin(), names.end());
    for (const auto& [path, entries] : attributes_)
      for (const auto& [name, id] : entries) taken_.insert(name);
    capture_ = capture_ && hasRoomForRunner();
    const auto pieces = capture_ ? capturePieces(g_, facts_) : std::nullopt;
    const CallSegments cut(
        g_, [this](ValueId w, const std::string& path) { return holds(w, path); }, pieces ? &*pieces : nullptr);
    if (capture_) makeRunner(cut.pieces());
    jit::Node* branch = capture_ ? beginCapture() : nullptr;
    for (uint32_t w : setWeights_) weight(ValueId(w));
    writeItems(cut.items(g_.root()), cut);
    range_.reset();
    std::vector<JitValue*> returns;
    for (const Argument& a : g_.returns()) returns.push_back(argument(a, nullptr));
    if (branch) returns = {endCapture(branch, returns)};
    if (returns.size() == 1) returns[0] = withFieldNames(returns[0]);
    declareDefaults(*endMethod("forward", returns));
    if (g_.returns().size() == 1 && g_.returns()[0].isValue())
      metadata_.result = g_.value(g_.returns()[0].valueId()).name;
    std::map<std::string, std::string> types;
    for (const auto& [path, module] : modules_) types[path] = demangle(module.type()->name()->qualifiedName());
    collectFacts(g_, types, metadata_);
    if (const std::string written = types[""]; written.substr(written.rfind('.') + 1) != g_.name)
      metadata_.model = g_.name;
    return root;
  } catch (const WriterRefusal& r) {
    return badInput(r.what());
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
}

}  // namespace graft
