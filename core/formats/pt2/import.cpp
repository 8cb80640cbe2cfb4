#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "core/base/json_document.h"
#include "core/formats/calling.h"
#include "core/formats/graph_builder.h"
#include "core/formats/metadata.h"
#include "core/formats/pt2/format.h"
#include "core/formats/pt2_schema.h"
#include "core/formats/reader.h"
#include "core/text/text.h"
#include "core/torch/values/mapped_tensor.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

struct ProgramRefusal {
  std::string why;
};

// The only member of one of the schema's unions: its kind and its value.
JsonValue::Members::Member only(JsonValue u) {
  if (!u.isObject() || u.size() != 1) throw ProgramRefusal{"a value in it does not say what it is"};
  return *u.members().begin();
}

// Reads torch.export's graph (torch/_export/serde/schema.py) into ours.
class ExportImporter {
 public:
  ExportImporter(const Source& source, const OperatorSet& operators, Graph& graph)
      : metadata_(readMetadata(source.zip)),
        source_(source),
        tensors_(source.file),
        build_(graph, operators),
        g_(graph) {}

  void run(const std::string& record) {
    const ZipRecord* found = source_.zip.find(record);
    const JsonValue program = parsed(*found);
    const int64_t major = program.at("schema_version").at("major").integer();
    if (major != 8)
      throw ProgramRefusal{fmt::format(
          "it has version {} of torch.export's format; Graft reads version 8: load it with the PyTorch that "
          "wrote it and save it with torch 2.11",
          major)};
    const std::string name = record.substr(7, record.size() - 12);  // models/NAME.json
    loadConfig("data/weights/", "data/weights/" + name + "_weights_config.json");
    loadConfig("data/constants/", "data/constants/" + name + "_constants_config.json");
    const JsonValue module = program.at("graph_module"), graph = module.at("graph");
    types_ = graph;
    if (const JsonValue dialects = program.find("verifiers"); dialects.isArray())
      for (JsonValue dialect : dialects) decomposed_ |= dialect.is("ATEN");
    if (const JsonValue ranges = program.find("range_constraints"); ranges.isObject())
      for (const auto& [name, range] : ranges.members()) pt2Range(g_, name, range.at("min_val"), range.at("max_val"));
    if (metadata_)
      for (const std::string& stack : metadata_->calls) build_.enter(pt2ModuleStack(stack, g_.name));
    inputs(module.at("signature"), graph);
    nodes(graph, g_.root());
    outputs(module, graph);
    build_.findModuleInputs();
  }

  /// Whether the program is in the decomposed dialect, which writes nothing in place.
  bool isDecomposed() const { return decomposed_; }

  /// Null where Graft did not write the file. Its names of values are in names().
  const ArchiveMetadata* metadata() const { return metadata_ ? &*metadata_ : nullptr; }
  const std::vector<std::pair<ValueId, std::string>>& names() const { return names_; }

 private:
  struct Record {
    const ZipRecord* bytes;
    JsonValue meta;
  };

  JsonValue parsed(const ZipRecord& record) {
    auto document = JsonDocument::parse(source_.zip.bytes(record));
    if (!document) throw JsonError(fmt::format("{}: {}", record.name, document.error().message));
    documents_.push_back(std::make_unique<JsonDocument>(std::move(*document)));
    return documents_.back()->root();
  }

  void loadConfig(const std::string& folder, const std::string& config) {
    const ZipRecord* found = source_.zip.find(config);
    if (!found) return;
    for (const auto& [name, entry] : parsed(*found).at("config").members()) {
      if (entry.at("use_pickle").boolean())
        throw ProgramRefusal{
            fmt::format("its weight {} is pickled, which cannot be read without running it; save plain tensors", name)};
      const std::string path = entry.at("path_name").text();
      const ZipRecord* bytes = source_.zip.find(folder + path);
      if (!bytes) throw ProgramRefusal{fmt::format("the data of its weight {} ({}) is missing", name, path)};
      records_.emplace(name, Record{bytes, entry.at("tensor_meta")});
    }
  }

  ValueId weight(const std::string& path, bool buffer, bool constant) {
    const auto it = records_.find(path);
    if (it == records_.end()) throw ProgramRefusal{fmt::format("the data of its weight {} is missing", path)};
    const JsonValue meta = it->second.meta;
    TensorLayout layout;
    const auto dtype = pt2DType(meta.at("dtype").integer());
    if (!dtype) throw ProgramRefusal{fmt::format("its weight {} has a dtype that Graft does not know", path)};
    layout.dtype = torchDType(*dtype);
    for (JsonValue n : meta.at("sizes")) layout.sizes.push_back(n.at("as_int").integer());
    for (JsonValue n : meta.at("strides")) layout.strides.push_back(n.at("as_int").integer());
    layout.offset = meta.at("storage_offset").at("as_int").integer();
    const std::string key = fmt::format("{} {} {} / {}", it->second.bytes->offset, layout.offset,
                                        fmt::join(layout.sizes, " "), fmt::join(layout.strides, " "));
    if (const auto known = shared_.find(key); known != shared_.end() && it->second.bytes->size > 0)
      return known->second;
    auto tensor = tensors_.tensor(*it->second.bytes, layout, path);
    if (!tensor) throw ProgramRefusal{tensor.error().message};
    const ValueId v =
        g_.addWeight(path, typeOfValue(c10::IValue(*tensor)), std::make_shared<TensorWeight>(*tensor), buffer);
    g_.mutableWeight(v).isConstant = constant;
    const JsonValue gradient = meta.find("requires_grad");
    g_.mutableWeight(v).isFrozen = !buffer && gradient.isBoolean() && !gradient.boolean();
    if (metadata_)
      if (const auto name = metadata_->weights.find(path); name != metadata_->weights.end())
        names_.emplace_back(v, name->second);
    shared_.emplace(key, v);
    return v;
  }

  void inputs(JsonValue signature, JsonValue graph) {
    for (JsonValue spec : signature.at("input_specs")) {
      const auto [kind, what] = only(spec);
      if (kind == "parameter") {
        waiting_[what.at("arg").at("name").text()] = {what.at("parameter_name").text(), false, false};
      } else if (kind == "buffer") {
        waiting_[what.at("arg").at("name").text()] = {what.at("buffer_name").text(), true, false};
      } else if (kind == "tensor_constant") {
        waiting_[what.at("arg").at("name").text()] = {what.at("tensor_constant_name").text(), true, true};
      } else if (kind == "user_input") {
        input(what.at("arg"), graph);
      } else if (kind == "constant_input") {
        leaves_.push_back(values_[what.at("name").text()] = argument(what.at("value")));
      } else {
        throw ProgramRefusal{fmt::format("it has an input of kind {}, which Graft does not know", kind)};
      }
    }
  }

  void input(JsonValue arg, JsonValue graph) {
    const auto [kind, what] = only(arg);
    if (kind == "as_tensor") {
      const std::string name = what.at("name").text();
      values_[name] = Argument(g_.addInput(nameOf(name), pt2TensorType(graph.at("tensor_values").at(name))));
      leaves_.push_back(values_[name]);
    } else if ((kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") && what.find("as_name")) {
      const std::string name = what.at("as_name").text();
      const Type type(kind == "as_sym_int"     ? Type::Kind::Int
                      : kind == "as_sym_float" ? Type::Kind::Float
                                               : Type::Kind::Bool);
      values_[name] = Argument(g_.addInput(name, type));
      leaves_.push_back(values_[name]);
    } else {
      // Numbers and None that torch.export.export got are already part of the graph.
      leaves_.push_back(argument(arg));
    }
  }

  Argument named(JsonValue name) {
    const std::string key = name.text();
    const auto it = values_.find(key);
    // A weight joins the graph at its first use, so that the order does not depend on how a file lists weights.
    if (const auto w = it == values_.end() ? waiting_.find(key) : waiting_.end(); w != waiting_.end())
      return values_[key] = Argument(weight(w->second.path, w->second.buffer, w->second.constant));
    if (it == values_.end()) throw ProgramRefusal{fmt::format("it uses {} before it is made", key)};
    return it->second;
  }

  Argument symbolic(JsonValue v, std::string_view literal) {
    const JsonValue name = v.find("as_name");
    return name ? named(name) : pt2Number(v.at(literal));
  }

  template <class F>
  static Argument listOf(JsonValue items, F&& f) {
    std::vector<Argument> out;
    for (JsonValue i : items) out.push_back(f(i));
    return Argument::list(std::move(out));
  }

  // Every member of the schema's union Argument.
  Argument argument(JsonValue a, int depth = 0) {
    if (depth > 50) throw ProgramRefusal{"an argument is nested too deep"};
    const auto [kind, v] = only(a);
    const auto number = [](JsonValue i) { return pt2Number(i); };
    const auto tensor = [&](JsonValue i) { return named(i.at("name")); };
    const auto optionalTensor = [&](JsonValue i) {
      const JsonValue given = i.find("as_tensor");
      return given ? named(given.at("name")) : Argument();
    };
    if (kind == "as_none") return {};
    if (kind == "as_tensor") return tensor(v);
    if (kind == "as_tensors") return listOf(v, tensor);
    if (kind == "as_optional_tensor") return optionalTensor(v);
    if (kind == "as_optional_tensors") return listOf(v, optionalTensor);
    if (kind == "as_nested_tensors") return listOf(v, [&](JsonValue l) { return listOf(l, tensor); });
    if (kind == "as_int" || kind == "as_float" || kind == "as_bool") return number(v);
    if (kind == "as_string") return Argument(v.text());
    if (kind == "as_operator") return Argument(v.text());
    if (kind == "as_ints" || kind == "as_floats" || kind == "as_bools") return listOf(v, number);
    if (kind == "as_strings") return listOf(v, [](JsonValue s) { return Argument(s.text()); });
    if (kind == "as_int_lists") return listOf(v, [&](JsonValue l) { return listOf(l, number); });
    if (kind == "as_sym_int") return symbolic(v, "as_int");
    if (kind == "as_sym_bool") return symbolic(v, "as_bool");
    if (kind == "as_sym_float") return symbolic(v, "as_float");
    if (kind == "as_sym_ints") return listOf(v, [&](JsonValue i) { return symbolic(i, "as_int"); });
    if (kind == "as_sym_bools") return listOf(v, [&](JsonValue i) { return symbolic(i, "as_bool"); });
    if (kind == "as_sym_floats") return listOf(v, [&](JsonValue i) { return symbolic(i, "as_float"); });
    if (kind == "as_complex") return Argument(std::complex<double>(v.at("real").number(), v.at("imag").number()));
    if (kind == "as_scalar_type") {
      if (const auto d = pt2DType(v.integer())) return Argument(*d);
      throw ProgramRefusal{fmt::format("it names dtype {}, which Graft does not know", v.integer())};
    }
    if (kind == "as_layout") return pt2Layout(v.integer());
    if (kind == "as_memory_format") return pt2MemoryFormat(v.integer());
    if (kind == "as_device") {
      std::string device = v.at("type").text();
      if (const JsonValue index = v.find("index"); index.isInteger()) device += fmt::format(":{}", index.integer());
      return Argument(DeviceName{device});
    }
    if (kind == "as_string_to_argument") {
      std::vector<std::pair<Argument, Argument>> items;
      for (const auto& [key, item] : v.members()) items.emplace_back(Argument(key), argument(item, depth + 1));
      return Argument::dict(std::move(items));
    }
    if (kind == "as_graph") return Argument(v.at("name").text());
    if (kind == "as_custom_obj") return Argument(v.at("name").text());
    throw ProgramRefusal{fmt::format("it has an argument of kind {}, which Graft does not know", kind)};
  }

  void nodes(JsonValue graph, BlockId block) {
    if (++depth_ > 100) throw ProgramRefusal{"its control flow is nested more than 100 deep"};
    const JsonValue outer = std::exchange(types_, graph);
    for (JsonValue n : graph.at("nodes")) node(n, block);
    types_ = outer;
    --depth_;
  }

  Call callOf(JsonValue n) {
    Call call;
    const std::string target = n.at("target").text();
    constexpr std::string_view prefix = "torch.ops.";
    call.op = target.starts_with(prefix) ? target.substr(prefix.size()) : target;
    for (JsonValue in : n.at("inputs")) {
      const std::string name = in.at("name").text();
      const JsonValue kind = in.find("kind");
      const bool keyword = kind.isInteger() && kind.integer() == 2;
      Argument a = argument(in.at("arg"));
      if (keyword || (!call.kwargs.empty() && !name.empty()))
        call.kwargs.emplace_back(name, std::move(a));
      else if (name.empty())
        call.args.push_back(std::move(a));
      else
        call.kwargs.emplace_back(name, std::move(a));  // by name, because the file leaves defaults out
    }
    const JsonValue metadata = n.at("metadata");
    if (const JsonValue trace = metadata.find("stack_trace"); trace.isText()) call.source = build_.source(trace.text());
    if (const JsonValue stack = metadata.find("nn_module_stack"); stack.isText()) call.module = moduleOf(stack.text());
    if (const JsonValue name = n.find("name"); name.isText()) call.name = nameOf(name.text());
    if (!target.starts_with(prefix)) pythonCall(call);
    return call;
  }

  ModuleCallId moduleOf(const std::string& stack) {
    const auto [it, isNew] = modules_.try_emplace(stack);
    if (isNew) it->second = build_.enter(pt2ModuleStack(stack, g_.name));
    return it->second;
  }

  // Arithmetic on sizes calls Python's functions, with positional arguments.
  void pythonCall(Call& call) {
    for (auto& [key, a] : call.kwargs) call.args.push_back(std::move(a));
    call.kwargs.clear();
    const size_t dot = call.op.rfind('.');
    const std::string known =
        numberOperator(std::string_view(call.op).substr(dot == std::string::npos ? 0 : dot + 1), call.args, g_);
    if (!known.empty()) call.op = known;
  }

  void node(JsonValue n, BlockId block) {
    const std::string target = n.at("target").text();
    // The exporter adds checks that hold for every input that the file allows. They compute nothing.
    for (std::string_view guard : {"torch.ops.aten._assert_tensor_metadata", "torch.ops.aten._assert_scalar",
                                   "torch.ops.aten.sym_constrain_range"})
      if (target.starts_with(guard)) return;
    if (target == "torch.ops.higher_order.cond") return conditional(n, block);
    if (target == "torch.ops.higher_order.while_loop") return loop(n, block);
    if (target == "torch.ops.higher_order.wrap_with_set_grad_enabled") return inlined(n, block, 2);
    if (target == "torch.ops.higher_order.wrap_with_autocast") return withoutCasts(n, block);
    const Call call = callOf(n);
    const NodeId made = build_.add(block, call);
    bind(n, made, block, call);
  }

  void bind(JsonValue n, NodeId made, BlockId block, const Call& call) {
    const JsonValue outputs = n.at("outputs");
    size_t at = 0;
    for (JsonValue o : outputs) {
      const auto [kind, what] = only(o);
      if (kind == "as_none") {
        ++at;
        continue;
      }
      ValueId v;
      if (at < g_.node(made).outputs.size())
        v = g_.node(made).outputs[at];
      else
        v = g_.addOutput(made, call.name.empty() ? "output" : call.name, Type::any());
      ++at;
      if (kind == "as_tensor") {
        const std::string name = what.at("name").text();
        g_.setType(v, typeOf(name));
        if (metadata_ && !again_) names_.emplace_back(v, nameOf(name));
        values_[name] = Argument(v);
      } else if (kind == "as_tensors") {
        g_.setType(v, Type::list(Type::tensor()));
        int64_t i = 0;
        for (JsonValue item : what) {
          const std::string name = item.at("name").text();
          values_[name] = Argument(build_.element(block, call, v, i++, typeOf(name), nameOf(name)));
        }
      } else if (what.find("as_name")) {
        g_.setType(v, Type(kind == "as_sym_int"     ? Type::Kind::Int
                           : kind == "as_sym_float" ? Type::Kind::Float
                                                    : Type::Kind::Bool));
        values_[what.at("as_name").text()] = Argument(v);
      } else {
        throw ProgramRefusal{
            fmt::format("node {} has an output of kind {}, which Graft does not know", call.name, kind)};
      }
    }
  }

  Type typeOf(const std::string& name) const {
    const JsonValue known = types_.at("tensor_values").find(name);
    return known ? pt2TensorType(known) : Type::tensor();
  }

  std::vector<Argument> subgraph(JsonValue graph, const std::vector<Argument>& operands, BlockId block) {
    const std::vector<JsonValue> in = graph.at("inputs").elements();
    if (in.size() != operands.size())
      throw ProgramRefusal{"a graph in it is called with the wrong number of arguments"};
    auto outer = values_;  // a graph's names are its own
    for (size_t i = 0; i < in.size(); ++i) {
      const auto [kind, what] = only(in[i]);
      values_[what.at(kind == "as_tensor" ? "name" : "as_name").text()] = operands[i];
    }
    nodes(graph, block);
    std::vector<Argument> out;
    for (JsonValue o : graph.at("outputs")) out.push_back(argument(o));
    values_ = std::move(outer);
    return out;
  }

  static JsonValue graphOf(JsonValue n, size_t input) {
    const JsonValue arg = n.at("inputs").at(input).at("arg");
    return arg.at("as_graph").at("graph");
  }

  // cond(predicate, true_graph, false_graph, operands)
  void conditional(JsonValue n, BlockId block) {
    Call call = callOf(n);
    call.op = "prim.If";
    const Argument predicate = argument(n.at("inputs").at(0).at("arg"));
    const Argument operands = argument(n.at("inputs").at(3).at("arg"));
    call.args = {predicate};
    call.kwargs.clear();
    const NodeId made = build_.add(block, call);
    const std::vector<Argument> none;
    const std::vector<Argument>& given = operands.items() ? *operands.items() : none;
    for (size_t branch : {1, 2}) {
      const BlockId inner = g_.addBlock(made);
      g_.setReturns(inner, subgraph(graphOf(n, branch), given, inner));
    }
    for (JsonValue o : n.at("outputs")) {
      const auto [kind, what] = only(o);
      const auto add = [&](JsonValue item) {
        const std::string name = item.at("name").text();
        values_[name] = Argument(g_.addOutput(made, nameOf(name), typeOf(name)));
      };
      if (kind == "as_tensor")
        add(what);
      else if (kind == "as_tensors")
        for (JsonValue item : what) add(item);
      else
        throw ProgramRefusal{fmt::format("a branch returns an output of kind {}, which Graft does not know", kind)};
    }
  }

  // while_loop(condition_graph, body_graph, carried, additional) computes the condition before the loop and at the end
  // of each turn.
  void loop(JsonValue n, BlockId block) {
    Call call = callOf(n);
    const JsonValue conditionGraph = graphOf(n, 0);
    const JsonValue bodyGraph = graphOf(n, 1);
    const auto list = [&](size_t i) {
      const Argument a = argument(n.at("inputs").at(i).at("arg"));
      return a.items() ? *a.items() : std::vector<Argument>();
    };
    std::vector<Argument> carried = list(2);
    const std::vector<Argument> more = list(3);
    const auto asks = [&](std::vector<Argument> state, BlockId where) {
      state.insert(state.end(), more.begin(), more.end());
      const std::vector<Argument> out = subgraph(conditionGraph, state, where);
      if (out.size() != 1) throw ProgramRefusal{"a loop's condition returns more than one value"};
      Call truth{"aten.Bool.Tensor", {out[0]}, {}, "", call.module, call.source};
      const NodeId made = build_.add(where, truth);
      return g_.node(made).outputs.empty() ? out[0] : Argument(g_.node(made).outputs[0]);
    };
    const Argument first = asks(carried, block);
    call.op = "prim.Loop";
    call.args = {Argument(std::numeric_limits<int64_t>::max()), first};
    call.args.insert(call.args.end(), carried.begin(), carried.end());
    call.kwargs.clear();
    const NodeId made = build_.add(block, call);
    const BlockId inner = g_.addBlock(made);
    g_.addBlockParameter(inner, "turn", Type(Type::Kind::Int));
    std::vector<Argument> state;
    for (const Argument& a : carried)
      state.emplace_back(
          g_.addBlockParameter(inner, "carried", a.isValue() ? g_.value(a.valueId()).type : Type::any()));
    std::vector<Argument> given = state;
    given.insert(given.end(), more.begin(), more.end());
    std::vector<Argument> returns = subgraph(bodyGraph, given, inner);
    if (returns.size() != carried.size())
      throw ProgramRefusal{"a loop returns another number of values than it carries"};
    again_ = true;  // reads the same nodes a second time: the first ones keep the names
    returns.insert(returns.begin(), asks(returns, inner));
    again_ = false;
    g_.setReturns(inner, std::move(returns));
    size_t results = 0;
    const auto add = [&](JsonValue item) {
      const std::string name = item.at("name").text();
      values_[name] = Argument(g_.addOutput(made, nameOf(name), typeOf(name)));
      ++results;
    };
    for (JsonValue o : n.at("outputs")) {
      const auto [kind, what] = only(o);
      if (kind == "as_tensor")
        add(what);
      else if (kind == "as_tensors")
        for (JsonValue item : what) add(item);
      else
        throw ProgramRefusal{fmt::format("a loop returns an output of kind {}, which Graft does not know", kind)};
    }
    if (results != carried.size()) throw ProgramRefusal{"a loop has another number of results than it carries"};
  }

  // wrap_with_set_grad_enabled(enabled, graph, operands...): Graft computes no gradients and keeps only the graph's
  // nodes.
  void inlined(JsonValue n, BlockId block, size_t firstOperand) {
    std::vector<Argument> operands;
    const std::vector<JsonValue> in = n.at("inputs").elements();
    for (size_t i = firstOperand; i < in.size(); ++i) operands.push_back(argument(in[i].at("arg")));
    const std::vector<Argument> results = subgraph(graphOf(n, firstOperand - 1), operands, block);
    size_t at = 0;
    for (JsonValue o : n.at("outputs")) {
      const auto [kind, what] = only(o);
      const auto take = [&](JsonValue item) {
        if (at >= results.size()) throw ProgramRefusal{"a graph in it returns too few results"};
        values_[item.at("name").text()] = results[at++];
      };
      if (kind == "as_tensor")
        take(what);
      else if (kind == "as_tensors")
        for (JsonValue item : what) take(item);
    }
  }

  // wrap_with_autocast(device, dtype, enabled, cache_enabled, graph, operands...): models switch autocast off around
  // what needs its precision, which changes nothing where it is not on.
  void withoutCasts(JsonValue n, BlockId block) {
    const std::vector<JsonValue> in = n.at("inputs").elements();
    const auto literal = [&](size_t i) { return i < in.size() ? argument(in[i].at("arg")) : Argument(); };
    if (literal(2) != Argument(false))
      throw ProgramRefusal{fmt::format(
          "it computes a part under torch.autocast({}, {}), and the file does not hold the casts: export it "
          "without autocast, and let Graft cast it (--dtype)",
          toText(literal(0), g_), toText(literal(1), g_))};
    inlined(n, block, 5);
  }

  void outputs(JsonValue module, JsonValue graph) {
    std::vector<Argument> leaves;
    const std::vector<JsonValue> specs = module.at("signature").at("output_specs").elements();
    const std::vector<JsonValue> results = graph.at("outputs").elements();
    if (specs.size() != results.size()) throw ProgramRefusal{"its signature does not fit its outputs"};
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto [kind, what] = only(specs[i]);
      const Argument value = argument(results[i]);
      if (kind == "user_output" || kind == "loss_output" || kind.starts_with("gradient_to")) {
        leaves.push_back(value);
      } else if (kind == "buffer_mutation" || kind == "parameter_mutation") {
        write(weight(what.at(kind == "buffer_mutation" ? "buffer_name" : "parameter_name").text(), true, false), value);
      } else if (kind == "user_input_mutation") {
        const Argument target = named(what.at("user_input_name"));
        if (target.isValue()) write(target.valueId(), value);
      } else {
        throw ProgramRefusal{fmt::format("it has an output of kind {}, which Graft does not know", kind)};
      }
    }
    const JsonValue signature = callOfModel(module);
    std::optional<TreeSpec> result;
    if (signature) result = parseTreeSpec(signature.at("out_spec").text());
    if (!result || result->leafCount() != leaves.size()) {
      g_.setReturns(g_.root(), {leaves.size() == 1 ? leaves[0] : Argument::tuple(std::move(leaves))});
      return;
    }
    g_.setReturns(g_.root(), {structured(*result, leaves)});
    calling(signature, module, std::move(*result));
  }

  // Says how the model was called, where its inputs and results do not.
  void calling(JsonValue signature, JsonValue module, TreeSpec result) {
    auto arguments = parseTreeSpec(signature.at("in_spec").text());
    if (!arguments || arguments->children.size() != 2 || !fillLeaves(*arguments, leaves_)) return;
    CallingConvention out;
    if (const JsonValue names = signature.find("forward_arg_names"); names.isArray()) {
      for (JsonValue name : names) out.names.push_back(name.text());
    } else {
      for (size_t i = 0; i < arguments->children[0].children.size(); ++i) out.names.push_back(fmt::format("arg_{}", i));
      for (const Argument& key : arguments->children[1].keys())
        out.names.push_back(key.as<std::string>() ? *key.as<std::string>() : std::string());
    }
    if (const JsonValue named = module.find("treespec_namedtuple_fields"); named.isObject())
      for (const auto& [type, fields] : named.members()) {
        auto& [_, names] = out.namedTuples.emplace_back(std::string(type), std::vector<std::string>());
        for (JsonValue field : fields.at("field_names")) names.push_back(field.text());
      }
    out.arguments = std::move(*arguments);
    out.result = std::move(result);
    setCalling(g_, std::move(out));
  }

  static JsonValue callOfModel(JsonValue module) {
    for (JsonValue entry : module.at("module_call_graph"))
      if (entry.at("fqn").text().empty() && entry.at("signature").isObject()) return entry.at("signature");
    return {};
  }

  void write(ValueId target, const Argument& value) {
    Call call{"aten.copy_.default", {Argument(target), value, Argument(false)}, {}, "", {}, UINT32_MAX};
    build_.add(g_.root(), call);
  }

  std::string nameOf(const std::string& name) const {
    if (!metadata_) return name;
    const auto it = metadata_->names.find(name);
    return it == metadata_->names.end() ? name : it->second;
  }

  std::optional<ArchiveMetadata> metadata_;  // of a file that Graft wrote
  std::vector<std::pair<ValueId, std::string>> names_;
  const Source& source_;
  MappedTensors tensors_;
  GraphBuilder build_;
  Graph& g_;
  std::vector<std::unique_ptr<JsonDocument>> documents_;  // values point to them
  std::unordered_map<std::string, Record> records_;
  std::unordered_map<std::string, ValueId> shared_;
  std::unordered_map<std::string, Argument> values_;
  std::vector<Argument> leaves_;  // what callers give, one after the other
  struct Weight {
    std::string path;
    bool buffer = false, constant = false;
  };
  std::unordered_map<std::string, Weight> waiting_;        // by the name that nodes use
  std::unordered_map<std::string, ModuleCallId> modules_;  // by the stack as it is written
  JsonValue types_;
  int depth_ = 0;
  bool decomposed_ = false;
  bool again_ = false;  // while a graph is read for the second time
};

}  // namespace

bool TorchExportFormat::matches(const ZipDirectory& zip) { return zip.hasFolder("models"); }

Result<Model> TorchExportFormat::read(const Source& source, const Semantics& semantics, const ImportOptions& options) {
  // "forward" is the program that torch.export.save writes, or the first one; the others go by their own names.
  std::vector<std::string> programs;
  for (const ZipRecord& r : source.zip.records())
    if (r.name.starts_with("models/") && r.name.ends_with(".json"))
      programs.push_back(r.name.substr(7, r.name.size() - 12));
  if (programs.empty())
    return badInput(fmt::format("{} is a torch.export archive without a program in it", source.path));
  const auto main = std::find(programs.begin(), programs.end(), "model");
  if (main != programs.end()) std::rotate(programs.begin(), main, main + 1);
  auto chosen =
      options.method == "forward" ? programs.begin() : std::find(programs.begin(), programs.end(), options.method);
  if (chosen == programs.end())
    return badInput(fmt::format("{} has no program {}; it has forward{}{}", source.path, options.method,
                                programs.size() > 1 ? ", " : "",
                                fmt::join(programs.begin() + 1, programs.end(), ", ")));
  Model m;
  if (chosen != programs.begin()) m.methods.push_back("forward");
  for (auto it = programs.begin() + 1; it < programs.end(); ++it)
    if (it != chosen) m.methods.push_back(*it);
  try {
    ExportImporter importer(source, semantics.operators(), m.graph);
    importer.run("models/" + *chosen + ".json");
    const FinishOptions finish{
        .isDecomposed = importer.isDecomposed(), .names = importer.names(), .metadata = importer.metadata()};
    if (Status s = finishImport(m, source, semantics, finish); !s) return s.error();
    return m;
  } catch (const ProgramRefusal& r) {
    return badInput(fmt::format("{}: {}", source.path, r.why));
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} is not a valid torch.export program: {}", source.path, shortMessage(e)));
  }
}

}  // namespace graft
