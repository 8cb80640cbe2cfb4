#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/base/json_document.h"
#include "core/formats/calling.h"
#include "core/formats/fx/format.h"
#include "core/formats/graph_builder.h"
#include "core/formats/pt2_schema.h"
#include "core/formats/reader.h"
#include "core/torch/values/mapped_tensor.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

constexpr std::string_view programRecord = "graft_fx.json";

struct FxRefusal {
  std::string why;
};

Type typeOf(JsonValue v) {
  if (v.isObject()) {
    TensorInfo info;
    info.dtype = parseDType(v.at("dtype").text());
    info.device = v.at("device").text();
    info.shape.emplace();
    for (JsonValue d : v.at("shape")) info.shape->push_back(d.isText() ? Dim(pt2Spelling(d.text())) : Dim(d.integer()));
    requirePossible(info);
    return Type::tensor(std::move(info));
  }
  if (v.isArray()) return Type::list(Type::tensor());
  if (!v.isText()) return Type::any();
  const std::string kind = v.text();
  return Type(kind == "int"     ? Type::Kind::Int
              : kind == "float" ? Type::Kind::Float
              : kind == "bool"  ? Type::Kind::Bool
                                : Type::Kind::Any);
}

ReturnedRole::Kind roleOf(JsonValue kind) {
  using enum ReturnedRole::Kind;
  for (const ReturnedRole::Kind k : {Output, Mutation, Gradient, Saved})
    if (kind.is(spelling(k))) return k;
  throw FxRefusal{fmt::format("it returns a {}, which Graft does not know", kind.text())};
}

// One graph of a file that resources/python/graft_fx wrote.
class FxImporter {
 public:
  FxImporter(const Source& source, const OperatorSet& operators, Graph& graph)
      : source_(source), tensors_(source.file), build_(graph, operators), g_(graph) {}

  void run(JsonValue document, JsonValue graph) {
    countMade(graph.at("aten"));
    if (const JsonValue symbols = graph.find("symbols"); symbols.isObject())
      for (const auto& [name, range] : symbols.members()) pt2Range(g_, name, range.at(0), range.at(1));
    for (JsonValue in : graph.at("inputs")) {
      const ValueId v = g_.addInput(in.at("wish").text(), typeOf(in.at("value")));
      values_[in.at("name").text()] = Argument(v);
    }
    for (JsonValue n : graph.at("aten")) node(n);
    if (const JsonValue call = graph.find("call"); call.isObject()) calling(call);
    build_.findModuleInputs();
    constructors(graph.at("modules"));
    const std::string name = document.at("name").text();
    g_.name = name;
  }

  /// The results of FX nodes that became one node only: these keep FX's names.
  Functionalised single() const {
    Functionalised out;
    for (const auto& [name, value] : lastOf_)
      if (const auto made = madeBy_.find(name); made != madeBy_.end() && made->second == 1 && value.isValue())
        out.keepName.insert(value.valueId());
    return out;
  }

  /// What a graph of a training step takes and returns. Its inputs go by the names that they have in the graph.
  std::optional<TrainingSignature> signature(JsonValue graph) const {
    const JsonValue found = graph.find("signature");
    if (!found.isObject()) return std::nullopt;
    TrainingSignature out;
    for (JsonValue r : found.at("returns")) out.returns.push_back({roleOf(r.at(0)), r.at(1).text()});
    for (JsonValue name : found.at("tangents")) out.tangents.push_back(nameIn(name));
    for (JsonValue name : found.at("parameters")) out.parameters.push_back(nameIn(name));
    return out;
  }

  /// Notes how FX spelled the nodes. Runs after the normal form, which may drop or replace some of them.
  void origins(JsonValue graph, const Functionalised& functionalised) {
    std::unordered_map<ValueId, ValueId> resultOf;
    for (const auto& w : functionalised.writes) {
      rewritten_[w.target] = w.result;
      resultOf[w.written] = w.result;
      results_.insert(w.result);
    }
    for (auto& entry : lastOf_)
      if (entry.second.isValue())
        if (const auto it = resultOf.find(entry.second.valueId()); it != resultOf.end())
          entry.second = Argument(it->second);
    std::unordered_map<std::string, Argument> fx;
    for (JsonValue n : graph.at("fx")) {
      const std::string name = n.at("name").text(), op = n.at("op").text();
      if (const JsonValue path = n.find("path"); path.isText()) {
        fx[name] = weightAt(path.text());
      } else if (op == "placeholder") {
        const ValueId v = g_.findValue(name);
        if (v) fx[name] = Argument(v);
      } else if (op == "get_attr") {
        fx[name] = weightAt(n.at("target").text());
      } else if (!n.at("number").isNull()) {
        fx[name] = pt2Number(n.at("number"));
      } else if (const JsonValue same = n.find("same"); same.isText()) {
        // relu_ returns its argument. Where the normal form made a function of it, it is a node with its own name.
        const auto it = lastOf_.find(name);
        if (it != lastOf_.end() && it->second.isValue() && results_.contains(it->second.valueId()) &&
            alive(it->second)) {
          fx[name] = it->second;
          spell(n, name, op, fx);
        } else if (const auto known = fx.find(same.text()); known != fx.end()) {
          fx[name] = known->second;
        }
      } else if (const auto it = lastOf_.find(name); it != lastOf_.end() && it->second.isValue() && alive(it->second)) {
        fx[name] = it->second;
        spell(n, name, op, fx);
      }
    }
  }

  static bool isCall(JsonValue n) { return n.at("op").is("call_function") || n.at("op").is("call_module"); }

 private:
  std::string nameIn(JsonValue file) const {
    const auto it = values_.find(file.text());
    if (it == values_.end() || !it->second.isValue()) return file.text();
    return g_.value(it->second.valueId()).name;
  }

  // Nodes of their own take the elements of a list, and FX may or may not have them: they do not count beside the node
  // that makes the list.
  void countMade(JsonValue nodes) {
    std::unordered_map<std::string, int> elements;
    for (JsonValue n : nodes) {
      if (!isCall(n) || !n.at("from").isText()) continue;
      auto& counts = n.at("target").is("operator.getitem") ? elements : madeBy_;
      ++counts[n.at("from").text()];
    }
    for (const auto& [from, count] : elements) madeBy_.emplace(from, count);
  }
  bool alive(const Argument& a) const {
    bool all = true;
    a.forEachValue(
        [&](ValueId v) { all &= g_.value(v).alive && (!g_.value(v).producer || g_.isAlive(g_.value(v).producer)); });
    return all;
  }

  /// The value that `node` reads where FX reads `v`: the result of the last write before the node.
  ValueId asReadBy(NodeId node, ValueId v) const {
    for (auto it = rewritten_.find(v); it != rewritten_.end(); it = rewritten_.find(v)) {
      const NodeId writer = g_.value(it->second).producer;
      if (!g_.isAlive(writer) || writer == node || !g_.isBefore(writer, node)) break;
      v = it->second;
    }
    return v;
  }

  Argument weightAt(const std::string& path) const {
    const ValueId v = g_.findWeight(path);
    return v && g_.value(v).alive ? Argument(v) : Argument();
  }

  void spell(JsonValue n, const std::string& name, const std::string& op,
             const std::unordered_map<std::string, Argument>& fx) {
    const auto count = madeBy_.find(name);
    const NodeId node = g_.value(lastOf_[name].valueId()).producer;
    if (count == madeBy_.end() || count->second != 1 || !node || g_.node(node).outputs.size() != 1) return;
    auto origin = std::make_shared<Origin>();
    origin->opcode = op;
    origin->name = name;
    origin->target = n.at("shown").text();
    origin->callee = n.at("target").text();
    // FX shows an operator as "aten.add.Tensor" in tables and calls it torch.ops.aten.add.Tensor in code.
    if (origin->opcode == "call_function" && origin->callee == origin->target &&
        std::count(origin->callee.begin(), origin->callee.end(), '.') == 2)
      origin->callee = "torch.ops." + origin->callee;
    bool known = true;
    const auto decoded = [&](JsonValue a) {
      Argument out = decode(a, fx, known);
      out.forEachValueMutable([&](ValueId& v) { v = asReadBy(node, v); });
      known &= alive(out);
      return out;
    };
    for (JsonValue a : n.at("args")) origin->args.push_back(decoded(a));
    for (JsonValue pair : n.at("kwargs")) origin->kwargs.emplace_back(pair.at(0).text(), decoded(pair.at(1)));
    if (known) g_.setOrigin(node, std::move(origin));
  }

  // The inverse of encode in graft_fx/graphs.py. Sets `known` to false where it names a node that is not in `names`.
  static Argument decode(JsonValue a, const std::unordered_map<std::string, Argument>& names, bool& known,
                         int depth = 0) {
    if (depth > 60) throw FxRefusal{"an argument is nested too deep"};
    const auto each = [&](JsonValue items) {
      std::vector<Argument> out;
      for (JsonValue i : items) out.push_back(decode(i, names, known, depth + 1));
      return out;
    };
    if (a.isNull()) return {};
    if (a.isBoolean() || a.isNumber()) return pt2Number(a);
    if (a.isText()) return Argument(a.text());
    if (a.isArray()) return Argument::list(each(a));
    if (!a.isObject() || a.size() != 1) throw FxRefusal{"an argument does not say what it is"};
    const auto [kind, v] = *a.members().begin();
    if (kind == "node") {
      const auto it = names.find(v.text());
      if (it != names.end()) return it->second;
      known = false;
      return {};
    }
    if (kind == "tuple") return Argument::tuple(each(v));
    if (kind == "dict") {
      std::vector<std::pair<Argument, Argument>> items;
      for (JsonValue i : v)
        items.emplace_back(decode(i.at(0), names, known, depth + 1), decode(i.at(1), names, known, depth + 1));
      return Argument::dict(std::move(items));
    }
    if (kind == "slice") {
      auto bounds = each(v);
      if (bounds.size() != 3) throw FxRefusal{"a slice does not have three bounds"};
      return Argument::slice(bounds[0], bounds[1], bounds[2]);
    }
    if (kind == "float") {
      const std::string text = v.text();
      return Argument(std::strtod(text.c_str(), nullptr));
    }
    if (kind == "complex") return Argument(std::complex<double>(v.at(0).number(), v.at(1).number()));
    if (kind == "ellipsis") return Argument(Ellipsis{});
    if (kind == "dtype") {
      const auto d = parseDType(v.text());
      if (!d) throw FxRefusal{fmt::format("it names dtype {}, which Graft does not know", v.text())};
      return Argument(*d);
    }
    if (kind == "device") return Argument(DeviceName{v.text()});
    if (kind == "named") return Argument(Named{v.text()});
    if (kind == "symbol") return Argument(SymbolicInt{pt2Spelling(v.text())});
    if (kind == "text") return Argument(v.text());
    throw FxRefusal{fmt::format("it has an argument of kind {}, which Graft does not know", kind)};
  }

  Argument argument(JsonValue a) {
    bool known = true;
    Argument out = decode(a, values_, known);
    if (!known) throw FxRefusal{"it uses a value before it is made"};
    return out;
  }

  void weight(JsonValue n) {
    const JsonValue data = n.at("data");
    const std::string record = data.at("record").text();
    const ZipRecord* found = source_.zip.find(record);
    if (!found) throw FxRefusal{fmt::format("the data of a weight ({}) is missing", record)};
    const auto dtype = parseDType(data.at("dtype").text());
    if (!dtype)
      throw FxRefusal{fmt::format("a weight has dtype {}, which Graft does not know", data.at("dtype").text())};
    const bool constant = !n.at("path").isText();
    const auto path = constant ? std::string("constant") : n.at("path").text();
    const std::string key = record;
    if (const auto it = weights_.find(key); it != weights_.end()) {
      values_[n.at("name").text()] = Argument(it->second);
      return;
    }
    TensorLayout layout{torchDType(*dtype), {}, {}, 0};
    for (JsonValue size : data.at("shape")) layout.sizes.push_back(size.integer());
    auto tensor = tensors_.tensor(*found, layout, path);
    if (!tensor) throw FxRefusal{tensor.error().message};
    const ValueId v = g_.addWeight(path, typeOfValue(c10::IValue(*tensor)), std::make_shared<TensorWeight>(*tensor),
                                   n.at("buffer").boolean());
    g_.mutableWeight(v).isConstant = constant;
    const JsonValue frozen = n.find("frozen");
    g_.mutableWeight(v).isFrozen = frozen.isBoolean() && frozen.boolean() && !g_.value(v).isBuffer;
    weights_.emplace(key, v);
    values_[n.at("name").text()] = Argument(v);
  }

  void node(JsonValue n) {
    const std::string op = n.at("op").text(), name = n.at("name").text();
    if (op == "get_attr") return weight(n);
    if (op == "output") {
      Argument out = argument(n.at("args").at(0));
      // torch.compile returns a tuple from every graph.
      if (const auto* items = out.items(); items && items->size() == 1) out = Argument((*items)[0]);
      return g_.setReturns(g_.root(), {std::move(out)});
    }
    if (!isCall(n)) throw FxRefusal{fmt::format("node {} is a {}, which lowering should have removed", name, op)};
    const std::string target = n.at("target").text();
    for (std::string_view guard : {"aten._assert_tensor_metadata", "aten._assert_scalar", "aten.sym_constrain_range"})
      if (target.starts_with(guard)) return;
    if (target.ends_with("_set_grad_enabled")) return;

    Call call;
    call.op = target;
    const JsonValue from = n.at("from");
    const bool only = from.isText() && madeBy_[from.text()] == 1;
    call.name = only ? from.text() : name;
    for (JsonValue a : n.at("args")) call.args.push_back(argument(a));
    for (JsonValue pair : n.at("kwargs")) call.kwargs.emplace_back(pair.at(0).text(), argument(pair.at(1)));
    std::vector<GraphBuilder::Entered> stack;
    for (JsonValue m : n.at("modules")) {
      GraphBuilder::Entered e{m.at(0).text(), m.at(1).text(), m.at(2).text()};
      if (const size_t again = e.path.find('@'); again != std::string::npos) e.path.resize(again);
      stack.push_back(std::move(e));
    }
    call.module = build_.enter(stack);
    if (const JsonValue stackTrace = n.at("stack"); stackTrace.isText()) call.source = build_.source(stackTrace.text());

    if (target == "operator.getitem" && call.args.size() == 2) {
      // The outputs of one node are known; the elements of a list need a node.
      const auto* items = call.args[0].items();
      const auto* i = call.args[1].as<int64_t>();
      if (items && i && *i >= 0 && static_cast<size_t>(*i) < items->size())
        return bind(n, Argument((*items)[static_cast<size_t>(*i)]));
      call.op = "prim.getitem";
    } else if (target.starts_with("operator.") || target.starts_with("builtins.") || target.starts_with("math.") ||
               target.starts_with("torch.sym_") || target.starts_with("torch._sym_")) {
      const std::string known = numberOperator(std::string_view(target).substr(target.find('.') + 1), call.args, g_);
      if (!known.empty()) call.op = known;
    }
    const NodeId made = build_.add(g_.root(), call);
    const JsonValue value = n.at("value");
    if (g_.node(made).outputs.empty() && !g_.node(made).op->hasSchema) g_.addOutput(made, call.name, typeOf(value));
    const std::vector<ValueId> outputs = g_.node(made).outputs;
    if (outputs.empty()) return;
    if (outputs.size() == 1) {
      const Type type = typeOf(value);
      if (type.kind != Type::Kind::Any) g_.setType(outputs[0], type);
      return bind(n, Argument(outputs[0]));
    }
    std::vector<Argument> all;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (value.isArray() && i < value.size()) g_.setType(outputs[i], typeOf(value.at(i)));
      all.emplace_back(outputs[i]);
    }
    bind(n, Argument::tuple(std::move(all)));
  }

  // How the captured model was called; what torch.compile makes of its results is no part of the graph.
  void calling(JsonValue call) {
    CallingConvention out;
    auto arguments = parseTreeSpec(call.at("arguments").text());
    std::vector<Argument> leaves;
    for (JsonValue leaf : call.at("leaves")) leaves.push_back(argument(leaf));
    if (!arguments || arguments->children.size() != 2 || !fillLeaves(*arguments, leaves)) return;
    out.arguments = std::move(*arguments);
    for (JsonValue name : call.at("names")) out.names.push_back(name.text());
    setCalling(g_, std::move(out));
  }

  void bind(JsonValue n, Argument value) {
    if (n.at("from").isText()) lastOf_[n.at("from").text()] = value;
    values_[n.at("name").text()] = std::move(value);
  }

  void constructors(JsonValue modules) {
    for (size_t i = 0; i < g_.moduleCalls().size(); ++i) {
      ModuleCall& call = g_.mutableModuleCall(ModuleCallId(static_cast<uint32_t>(i)));
      const JsonValue module = modules.find(call.path);
      if (!module) continue;
      bool known = true;
      for (JsonValue pair : module.at("constructor"))
        call.constructor.emplace_back(pair.at(0).text(), decode(pair.at(1), {}, known));
    }
  }

  const Source& source_;
  MappedTensors tensors_;
  GraphBuilder build_;
  Graph& g_;
  std::unordered_map<std::string, Argument> values_;
  std::unordered_map<std::string, ValueId> weights_;
  std::unordered_map<std::string, int> madeBy_;       // ATen nodes of each FX node
  std::unordered_map<std::string, Argument> lastOf_;  // the result of each FX node
  std::unordered_map<ValueId, ValueId> rewritten_;  // target of a write in place -> the value that stands for it since
  std::unordered_set<ValueId> results_;             // of these writes
};

std::string graphName(JsonValue graph, size_t index) {
  if (const JsonValue name = graph.find("name")) return name.text();
  return index == 0 ? "forward" : fmt::format("forward.{}", index);
}

// What torch.compile said about a graph: why it ends where it does, and the guards that it depends on.
std::vector<std::string> notes(JsonValue graph) {
  std::vector<std::string> out;
  if (const JsonValue why = graph.find("break"); why.isText())
    out.push_back("the capture broke after this graph: " + why.text());
  if (const JsonValue guards = graph.find("guards"))
    for (JsonValue g : guards) out.push_back("guard: " + g.text());
  return out;
}

JsonDocument documentOf(const Source& source) {
  auto json = JsonDocument::parse(source.zip.bytes(*source.zip.find(programRecord)));
  if (!json) throw JsonError(fmt::format("{}: {}", programRecord, json.error().message));
  const JsonValue document = json->root();
  if (!document.at("format").is("graft-fx") || document.at("version").integer() != 1)
    throw FxRefusal{"it was written by another version of graft_fx; save it with the one in resources/python"};
  return std::move(*json);
}

}  // namespace

bool FxFormat::matches(const ZipDirectory& zip) { return zip.find(programRecord) != nullptr; }

Result<Model> FxFormat::read(const Source& source, const Semantics& semantics, const ImportOptions& options) {
  Model m;
  try {
    const JsonDocument json = documentOf(source);
    const JsonValue document = json.root();
    // A capture that broke has several graphs: "forward" is the first, "forward.1" the next.
    JsonValue chosen;
    std::string all;
    size_t i = 0;
    for (JsonValue graph : document.at("graphs")) {
      const std::string name = graphName(graph, i);
      all += (i++ ? ", " : "") + name;
      if (name == options.method)
        chosen = graph;
      else
        m.methods.push_back(name);
    }
    if (!chosen) return badInput(fmt::format("{} has no graph {}; it has {}", source.path, options.method, all));
    m.notes = notes(chosen);
    FxImporter importer(source, semantics.operators(), m.graph);
    importer.run(document, chosen);
    m.signature = importer.signature(chosen);
    Functionalised functionalised = importer.single();
    // The file gives the types of all values that FX knows.
    const FinishOptions finish{.functionalised = &functionalised,
                               .afterNormalForm = [&] { importer.origins(chosen, functionalised); },
                               .inferTypes = false};
    if (Status s = finishImport(m, source, semantics, finish); !s) return s.error();
    return m;
  } catch (const FxRefusal& r) {
    return badInput(fmt::format("{}: {}", source.path, r.why));
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} is not a valid FX file: {}", source.path, shortMessage(e)));
  }
}

Result<std::vector<CapturedGraph>> FxFormat::graphs(const Source& source) {
  try {
    const JsonDocument json = documentOf(source);
    std::vector<CapturedGraph> out;
    for (JsonValue graph : json.root().at("graphs")) {
      CapturedGraph g;
      g.name = graphName(graph, out.size());
      for (JsonValue n : graph.at("aten")) g.nodes += FxImporter::isCall(n) ? 1 : 0;
      if (const JsonValue why = graph.find("break"); why.isText()) g.breakReason = why.text();
      if (const JsonValue guards = graph.find("guards"))
        for (JsonValue guard : guards) g.guards.push_back(guard.text());
      out.push_back(std::move(g));
    }
    std::stable_partition(out.begin(), out.end(), [](const CapturedGraph& g) { return g.name == "forward"; });
    return out;
  } catch (const FxRefusal& r) {
    return badInput(fmt::format("{}: {}", source.path, r.why));
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} is not a valid FX file: {}", source.path, shortMessage(e)));
  }
}

}  // namespace graft
