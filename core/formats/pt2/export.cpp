#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/atomic_file.h"
#include "core/formats/archive_sink.h"
#include "core/formats/calling.h"
#include "core/formats/export.h"
#include "core/formats/pt2/format.h"
#include "core/formats/pt2/writer.h"
#include "core/torch/operator_library.h"
#include "core/torch/values/values.h"

namespace graft {

using nlohmann::json;

namespace {

/// Inputs of kinds that torch.export does not have become constants of the program, as torch.export.export makes them.
std::unordered_map<uint32_t, Argument> fixedInputs(const Graph& g, const ExportOptions& options) {
  std::unordered_map<uint32_t, Argument> out;
  const auto& given = valuesOf(options.inputs);
  const std::vector<std::string> names = options.inputs.impl ? options.inputs.impl->names : std::vector<std::string>();
  for (size_t place = 0; place < g.inputs().size(); ++place) {
    const ValueId v = g.inputs()[place];
    const size_t i = names.empty()
                         ? place
                         : static_cast<size_t>(std::find(names.begin(), names.end(), g.value(v).name) - names.begin());
    const Type& t = g.value(v).type;
    if (t.isTensor() || t.kind == Type::Kind::Int) continue;
    if (t.kind == Type::Kind::None)
      out.emplace(v.index, Argument());
    else if (i < given.size() &&
             (given[i].isNone() || given[i].isBool() || given[i].isDouble() || given[i].isInt() || given[i].isString()))
      out.emplace(v.index, *toArgument(given[i]));
  }
  return out;
}

}  // namespace

json ExportWriter::Body::whole() const {
  return {{"inputs", inputs},
          {"outputs", outputs},
          {"nodes", nodes},
          {"tensor_values", tensors},
          {"sym_int_values", ints},
          {"sym_bool_values", bools},
          {"is_single_tensor_return", false},
          {"custom_obj_values", json::object()},
          {"sym_float_values", json::object()}};
}

void ExportWriter::run() {
  stacks();
  for (ValueId w : g_.weights())
    if (!g_.isUnused(w)) weight(w);
  const CallingConvention calling = convention();
  calling.arguments.forEachLeaf([&](const TreeSpec& t) {
    if (t.leaf.isValue())
      input(t.leaf.valueId());
    else
      constantInput(fresh("constant"), t.leaf);
  });
  nodes(g_.root());
  for (const Argument& a : g_.returns()) result(a, 0);
  json calls = json::array();
  calls.push_back({{"fqn", ""},
                   {"signature",
                    {{"inputs", json::array()},
                     {"outputs", json::array()},
                     {"in_spec", treeSpecJson(calling.arguments)},
                     {"out_spec", treeSpecJson(calling.result)},
                     {"forward_arg_names", calling.names}}}});
  json namedTuples = json::object();
  for (const auto& [type, fields] : calling.namedTuples) namedTuples[type] = {{"field_names", fields}};
  std::set<std::string> paths;
  for (const ModuleCall& call : g_.moduleCalls())
    if (!call.path.empty() && paths.insert(call.path).second)
      calls.push_back({{"fqn", call.path}, {"signature", nullptr}});
  json ranges = json::object();
  for (const std::string& s : symbols_) ranges[s] = {{"min_val", 0}, {"max_val", nullptr}};
  for (const std::string& s : inputSymbols_) ranges[s] = {{"min_val", nullptr}, {"max_val", nullptr}};
  for (const Symbol& s : g_.symbols())  // some may occur in no size any more
    if (symbols_.contains(s.name))
      ranges[s.name] = {{"min_val", s.min ? json(*s.min) : json()}, {"max_val", s.max ? json(*s.max) : json()}};
  program = {{"graph_module",
              {{"graph", body_.whole()},
               {"signature", {{"input_specs", inputSpecs_}, {"output_specs", outputSpecs_}}},
               {"module_call_graph", calls},
               {"metadata", json::object()},
               {"treespec_namedtuple_fields", namedTuples}}},
             {"opset_version", {{"aten", 10}}},
             {"range_constraints", ranges},
             {"schema_version", {{"major", 8}, {"minor", 17}}},
             {"verifiers", {"TRAINING"}},
             {"torch_version", "2.11.0"},
             {"guards_code", json::array()}};
  facts();
}

// Writes each module call's nn_module_stack.
void ExportWriter::stacks() {
  std::unordered_map<std::string, int> calls;
  std::vector<bool> hasNodes(g_.moduleCalls().size(), false);
  for (NodeId n : g_.order())
    if (const ModuleCallId m = g_.node(n).module) hasNodes[m.index] = true;
  for (const ModuleCall& m : g_.moduleCalls()) {
    const std::string outer =
        m.parent ? stacks_[m.parent.index] : fmt::format("L__self__,,{}", g_.name.empty() ? "Model" : g_.name);
    const int again = calls[m.path]++;
    const std::string number = again ? fmt::format("@{}", again) : std::string();
    std::string key = m.path;
    std::replace(key.begin(), key.end(), '.', '_');
    if ((m.path + m.type).find_first_of(",;@") != std::string::npos)
      throw Pt2Refusal(fmt::format("the module {} of type {} has no name in torch.export", m.path, m.type));
    stacks_.push_back(fmt::format("{};L__self__{}{},{}{},{}", outer, key, number, m.path, number, m.type));
  }
  // No node tells the order of calls, nor the calls that own no node.
  archiveMetadata.calls = stacks_;
}

// As the model was called where it was exported; of other models, with positional arguments.
CallingConvention ExportWriter::convention() {
  CallingConvention out;
  if (g_.calling) out = *g_.calling;
  if (out.arguments.isLeaf()) {
    std::vector<Argument> inputs;
    for (ValueId v : g_.inputs()) {
      inputs.emplace_back(v);
      out.names.push_back(name(v));
    }
    out.arguments = positional(inputs);
  }
  // Python has no class for a named tuple of TorchScript's.
  if (out.result.context.starts_with("\"__torch__.")) {
    out.result = TreeSpec();
    out.namedTuples.clear();
  }
  if (!out.result.isLeaf()) return out;
  auto containers = containersOf(g_);
  if (!containers) throw Pt2Refusal("its result is a dictionary whose keys are neither texts nor whole numbers");
  out.result = std::move(*containers);
  return out;
}

void ExportWriter::result(const Argument& a, int depth) {
  if (depth > 50) throw Pt2Refusal("its result is nested too deep");
  if (const auto* dict = a.as<Argument::Dict>()) {
    for (const auto& [key, value] : dict->items) result(value, depth + 1);
  } else if (const auto* items = a.items()) {
    for (const Argument& i : *items) result(i, depth + 1);
  } else {
    body_.outputs.push_back(argument(a, nullptr));
    outputSpecs_.push_back({{"user_output", {{"arg", body_.outputs.back()}}}});
  }
}

void ExportWriter::facts() {
  std::map<std::string, std::string> types;
  for (const ModuleCall& m : g_.moduleCalls()) types[m.path] = m.type;
  collectFacts(g_, types, archiveMetadata);
  // The program itself says ranges and types.
  archiveMetadata.symbols.clear();
  archiveMetadata.inputs.clear();
  archiveMetadata.types.clear();
  archiveMetadata.calling.clear();
  archiveMetadata.model = g_.name;
  for (NodeId n : g_.order())
    for (size_t i = 1; i < g_.node(n).outputs.size(); ++i) {
      const ValueId v = g_.node(n).outputs[i];
      if (names_.contains(v.index)) archiveMetadata.names.emplace(name(v), g_.value(v).name);
    }
}

Status TorchExportFormat::write(const Graph& graph, const std::string& path, const ExportOptions& options) {
  auto file = AtomicFile::beside(path);
  if (!file) return file.error();
  try {
    ExportWriter program(graph, fixedInputs(graph, options));
    program.run();
    if (usesGraftOperators(graph))
      program.archiveMetadata.operatorLibrary =
          options.operatorLibrary.empty() ? "libgraft_ops.so" : options.operatorLibrary;
    ArchiveSink sink(file->temporaryPath());
    {
      caffe2::serialize::PyTorchStreamWriter writer(sink.writer());
      writer.setMinVersion(6);
      const auto write = [&](const std::string& name, const std::string& text) {
        writer.writeRecord(name, text.data(), text.size());
      };
      write("archive_format", "pt2");
      write("archive_version", "0");
      write("byteorder", "little");
      for (const auto& [record, t] : program.data) writer.writeRecord(record, t.const_data_ptr(), t.nbytes());
      write("data/weights/model_weights_config.json", json{{"config", program.weights}}.dump());
      write("data/constants/model_constants_config.json", json{{"config", program.constants}}.dump());
      write("models/model.json", program.program.dump(-1, ' ', false, json::error_handler_t::replace));
      write("data/sample_inputs/model.pt", "");
      write("extra/graft.json", metadataJson(program.archiveMetadata));
      writer.writeEndOfFile();
    }
    if (Status s = sink.finish(path); !s) return s;
  } catch (const Pt2Refusal& r) {
    return badInput(fmt::format("the model cannot be written for torch.export: {}", r.what()));
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} cannot be written: {}", path, shortMessage(e)));
  }
  return file->commit();
}

}  // namespace graft
