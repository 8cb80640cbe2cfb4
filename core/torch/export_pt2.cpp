#include <ATen/core/Tensor.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/base/atomic_file.h"
#include "core/torch/export.h"
#include "core/torch/internal/archive_note.h"
#include "core/torch/internal/operators.h"
#include "core/torch/internal/pt2_schema.h"
#include "core/torch/internal/values.h"
#include "core/torch/internal/weight.h"

namespace graft {
namespace {

using nlohmann::json;

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Our graph in torch.export's format (torch/_export/serde/schema.py), in the dialect that training uses: operators as
// they are, writes in place included.
class ExportWriter {
 public:
  explicit ExportWriter(const Graph& g) : g_(g) {}

  void run() {
    stacks();
    for (ValueId w : g_.weights())
      if (!g_.isUnused(w)) weight(w);
    for (ValueId v : g_.inputs()) input(v);
    for (NodeId n : g_.order(g_.root())) {
      try {
        node(g_.node(n));
      } catch (const Refusal& r) {
        throw Refusal(fmt::format("node {} ({}): {}", g_.node(n).name, g_.node(n).op->name, r.what()));
      }
    }
    const json outSpec = returns();
    json forwardNames = json::array(), leaves = json::array();
    for (ValueId v : g_.inputs()) {
      forwardNames.push_back(name(v));
      leaves.push_back(leafSpec());
    }
    const json inSpec = json::array(
        {1, spec("builtins.tuple", "null",
                 json::array({spec("builtins.tuple", "null", leaves), spec("builtins.dict", "[]", json::array())}))});
    json calls = json::array();
    calls.push_back({{"fqn", ""},
                     {"signature",
                      {{"inputs", json::array()},
                       {"outputs", json::array()},
                       {"in_spec", inSpec.dump()},
                       {"out_spec", json::array({1, outSpec}).dump()},
                       {"forward_arg_names", forwardNames}}}});
    std::set<std::string> paths;
    for (const ModuleCall& call : g_.moduleCalls())
      if (!call.path.empty() && paths.insert(call.path).second)
        calls.push_back({{"fqn", call.path}, {"signature", nullptr}});
    json ranges = json::object();
    for (const std::string& s : symbols_) ranges[s] = {{"min_val", 0}, {"max_val", nullptr}};
    program = {{"graph_module",
                {{"graph",
                  {{"inputs", inputs_},
                   {"outputs", outputs_},
                   {"nodes", nodes_},
                   {"tensor_values", tensors_},
                   {"sym_int_values", sizes_},
                   {"sym_bool_values", json::object()},
                   {"is_single_tensor_return", false},
                   {"custom_obj_values", json::object()},
                   {"sym_float_values", json::object()}}},
                 {"signature", {{"input_specs", inputSpecs_}, {"output_specs", outputSpecs_}}},
                 {"module_call_graph", calls},
                 {"metadata", json::object()},
                 {"treespec_namedtuple_fields", json::object()}}},
               {"opset_version", {{"aten", 10}}},
               {"range_constraints", ranges},
               {"schema_version", {{"major", 8}, {"minor", 17}}},
               {"verifiers", {"TRAINING"}},
               {"torch_version", "2.11.0"},
               {"guards_code", json::array()}};
    facts();
  }

  json program;
  json weights = json::object(), constants = json::object();  // the two config files
  std::vector<std::pair<std::string, at::Tensor>> data;       // record, contiguous tensor
  ArchiveNote note;

 private:
  // Names
  // -------------------------------------------------------------------------------------------------------------------
  std::string fresh(std::string_view wish) {
    std::string out;
    for (char c : wish) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
    if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "v");
    while (!taken_.insert(out).second) out += '_';
    return out;
  }
  const std::string& name(ValueId v) {
    const auto [it, isNew] = names_.try_emplace(v.index);
    if (!isNew) return it->second;
    const Value& value = g_.value(v);
    it->second = fresh(value.name);
    if (it->second != value.name) note.names[it->second] = value.name;
    return it->second;
  }

  // Sizes
  // -------------------------------------------------------------------------------------------------------------------
  // "2*s0 + s1//2" as the functions that sympy reads, and its value for one choice of the symbols.
  class Sympy {
   public:
    Sympy(std::string_view text, std::set<std::string>& symbols) : text_(text), symbols_(symbols) {}
    std::pair<std::string, int64_t> read() {
      auto out = sum();
      skip();
      if (at_ != text_.size()) fail();
      return out;
    }

   private:
    using Term = std::pair<std::string, int64_t>;
    [[noreturn]] void fail() const { throw Refusal(fmt::format("the size '{}' cannot be written", text_)); }
    void skip() {
      while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool eat(std::string_view token) {
      skip();
      if (text_.substr(at_, token.size()) != token) return false;
      at_ += token.size();
      return true;
    }
    static Term number(int64_t n) { return {fmt::format("Integer({})", n), n}; }
    static Term join(const char* f, const Term& a, const Term& b, int64_t value) {
      return {fmt::format("{}({}, {})", f, a.first, b.first), value};
    }
    Term sum() {
      Term out = product();
      for (;;) {
        if (eat("+")) {
          const Term b = product();
          out = join("Add", out, b, out.second + b.second);
        } else if (eat("-")) {
          Term b = product();
          b = join("Mul", number(-1), b, -b.second);
          out = join("Add", out, b, out.second + b.second);
        } else {
          return out;
        }
      }
    }
    Term product() {
      Term out = atom();
      for (;;) {
        if (eat("//")) {
          const Term b = atom();
          if (b.second <= 0) fail();
          out = join("FloorDiv", out, b, out.second / b.second);
        } else if (eat("*")) {
          const Term b = atom();
          out = join("Mul", out, b, out.second * b.second);
        } else {
          return out;
        }
      }
    }
    Term atom() {
      if (++depth_ > 100) fail();
      skip();
      if (eat("-")) {
        const Term b = atom();
        return b.first.starts_with("Integer(") ? number(-b.second) : join("Mul", number(-1), b, -b.second);
      }
      if (eat("(")) {
        Term out = sum();
        if (!eat(")")) fail();
        return out;
      }
      const size_t from = at_;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
      const std::string word(text_.substr(from, at_ - from));
      if (word.empty() || word.size() > 40) fail();
      if (word.find_first_not_of("0123456789") == word.npos && word.size() < 18) return number(std::stoll(word));
      symbols_.insert(word);
      // Any size will do as a hint, if symbols have different ones.
      const auto place = static_cast<int64_t>(std::distance(symbols_.begin(), symbols_.find(word)));
      return {fmt::format("Symbol('{}', positive=True, integer=True)", word), 48 + 16 * place};
    }

    std::string_view text_;
    std::set<std::string>& symbols_;
    size_t at_ = 0;
    int depth_ = 0;
  };

  json size(const Dim& d) {
    if (d.isStatic()) return {{"as_int", d.size}};
    if (!d.isKnown()) throw Refusal("a size is not known: give the model's inputs (--inputs)");
    const auto [text, hint] = Sympy(d.symbol, symbols_).read();
    return {{"as_expr", {{"expr_str", text}, {"hint", {{"as_int", hint}}}}}};
  }

  static json device(const std::string& text) {
    const size_t colon = text.find(':');
    return {{"type", text.empty() ? "cpu" : text.substr(0, colon)},
            {"index", colon == text.npos ? json() : json(std::stoi(text.substr(colon + 1)))}};
  }

  json meta(const Type& t, bool gradient = false) {
    const TensorInfo& info = t.tensorInfo;
    if (!t.isTensor() || !info.dtype || !info.shape)
      throw Refusal("the type of its result is not known: give the model's inputs (--inputs)");
    const auto dtype = pt2Code(*info.dtype);
    if (!dtype) throw Refusal(fmt::format("torch.export has no dtype {}", dtypeName(*info.dtype)));
    json sizes = json::array(), strides = json::array();
    for (const Dim& d : *info.shape) sizes.push_back(size(d));
    // Strides of a dense tensor, from the last dimension on.
    Dim stride(1);
    for (size_t i = info.shape->size(); i-- > 0;) {
      strides.insert(strides.begin(), size(stride));
      const Dim& d = (*info.shape)[i];
      if (d.isStatic() && stride.isStatic())
        stride = Dim(stride.size * std::max<int64_t>(d.size, 1));
      else
        stride = Dim(fmt::format("({})*({})", stride.isStatic() ? std::to_string(stride.size) : stride.symbol,
                                 d.isStatic() ? std::to_string(d.size) : d.symbol));
    }
    return {{"dtype", *dtype},
            {"sizes", sizes},
            {"requires_grad", gradient},
            {"device", device(info.device)},
            {"strides", strides},
            {"storage_offset", {{"as_int", 0}}},
            {"layout", 7}};
  }

  // Inputs
  // -------------------------------------------------------------------------------------------------------------------
  void weight(ValueId id) {
    const Value& v = g_.value(id);
    at::Tensor t = weightTensor(v);
    if (!t.defined()) throw Refusal(fmt::format("the weight '{}' has no data", v.path));
    t = t.detach().contiguous();
    const bool gradient = !v.isBuffer && c10::isFloatingType(t.scalar_type());
    const std::string arg = fresh((v.isConstant ? "c_" : gradient ? "p_" : "b_") + v.path);
    names_[id.index] = arg;
    const json facts = meta(typeOfValue(c10::IValue(t)), gradient);
    json& config = v.isConstant ? constants : weights;
    const std::string record = fmt::format("{}_{}", v.isConstant ? "tensor" : "weight", config.size());
    config[v.path] = {{"path_name", record}, {"is_param", gradient}, {"use_pickle", false}, {"tensor_meta", facts}};
    data.emplace_back((v.isConstant ? "data/constants/" : "data/weights/") + record, t);
    tensors_[arg] = facts;
    inputs_.push_back({{"as_tensor", {{"name", arg}}}});
    if (v.isConstant)
      inputSpecs_.push_back({{"tensor_constant", {{"arg", {{"name", arg}}}, {"tensor_constant_name", v.path}}}});
    else if (gradient)
      inputSpecs_.push_back({{"parameter", {{"arg", {{"name", arg}}}, {"parameter_name", v.path}}}});
    else
      inputSpecs_.push_back({{"buffer", {{"arg", {{"name", arg}}}, {"buffer_name", v.path}, {"persistent", true}}}});
  }

  void input(ValueId v) {
    const Type& t = g_.value(v).type;
    if (!t.isTensor())
      throw Refusal(fmt::format("its input {} is {}; only tensors can be written", g_.value(v).name, toString(t)));
    try {
      tensors_[name(v)] = meta(t);
    } catch (const Refusal& r) {
      throw Refusal(fmt::format("input {}: {}", g_.value(v).name, r.what()));
    }
    inputs_.push_back({{"as_tensor", {{"name", name(v)}}}});
    inputSpecs_.push_back({{"user_input", {{"arg", inputs_.back()}}}});
  }

  // Arguments
  // -------------------------------------------------------------------------------------------------------------------
  static json number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
    return d;
  }

  json reference(ValueId v) {
    const Type& t = g_.value(v).type;
    if (t.isTensor()) return {{"as_tensor", {{"name", name(v)}}}};
    if (t.kind == Type::Kind::Int) return {{"as_sym_int", {{"as_name", name(v)}}}};
    if (t.kind == Type::Kind::Bool) return {{"as_sym_bool", {{"as_name", name(v)}}}};
    if (t.kind == Type::Kind::Float) return {{"as_sym_float", {{"as_name", name(v)}}}};
    throw Refusal(fmt::format("%{} is {}, which is no argument in torch.export", g_.value(v).name, toString(t)));
  }

  json list(const std::vector<Argument>& items, const Type* wanted) {
    const Type* element = wanted && wanted->kind == Type::Kind::List ? &wanted->element() : nullptr;
    const auto all = [&](auto&& f) { return std::all_of(items.begin(), items.end(), f); };
    const auto isTensorValue = [&](const Argument& a) { return a.isValue() && g_.value(a.valueId()).type.isTensor(); };
    const auto isInt = [&](const Argument& a) {
      return a.as<int64_t>() || (a.isValue() && g_.value(a.valueId()).type.kind == Type::Kind::Int);
    };
    json out = json::array();
    if (items.empty()) {
      const bool tensors = element && (element->isTensor() || element->kind == Type::Kind::Optional);
      return {{tensors ? "as_tensors" : "as_ints", out}};
    }
    if (all(isTensorValue)) {
      for (const Argument& a : items) out.push_back({{"name", name(a.valueId())}});
      return {{"as_tensors", out}};
    }
    if (all([&](const Argument& a) { return a.isNone() || isTensorValue(a); })) {
      for (const Argument& a : items)
        out.push_back(a.isNone() ? json{{"as_none", true}} : json{{"as_tensor", {{"name", name(a.valueId())}}}});
      return {{"as_optional_tensors", out}};
    }
    if (all([](const Argument& a) { return a.as<bool>(); })) {
      for (const Argument& a : items) out.push_back(*a.as<bool>());
      return {{"as_bools", out}};
    }
    if (all([](const Argument& a) { return a.as<int64_t>(); })) {
      for (const Argument& a : items) out.push_back(*a.as<int64_t>());
      return {{"as_ints", out}};
    }
    if (all(isInt)) {
      for (const Argument& a : items)
        out.push_back(a.isValue() ? json{{"as_name", name(a.valueId())}} : json{{"as_int", *a.as<int64_t>()}});
      return {{"as_sym_ints", out}};
    }
    if (all([](const Argument& a) { return a.as<double>() || a.as<int64_t>(); })) {
      for (const Argument& a : items) out.push_back(number(*a.number()));
      return {{"as_floats", out}};
    }
    if (all([](const Argument& a) { return a.as<std::string>(); })) {
      for (const Argument& a : items) out.push_back(*a.as<std::string>());
      return {{"as_strings", out}};
    }
    throw Refusal("it has a list that torch.export cannot hold");
  }

  json argument(const Argument& a, const Type* wanted) {
    if (a.isNone()) return {{"as_none", true}};
    if (a.isValue()) return reference(a.valueId());
    if (const auto* b = a.as<bool>()) return {{"as_bool", *b}};
    if (const auto* i = a.as<int64_t>()) return {{"as_int", *i}};
    if (const auto* d = a.as<double>()) return {{"as_float", number(*d)}};
    if (const auto* s = a.as<std::string>()) return {{"as_string", *s}};
    if (const auto* c = a.as<std::complex<double>>())
      return {{"as_complex", {{"real", c->real()}, {"imag", c->imag()}}}};
    if (const auto* d = a.as<DType>()) {
      const auto code = pt2Code(*d);
      if (!code) throw Refusal(fmt::format("torch.export has no dtype {}", dtypeName(*d)));
      return {{"as_scalar_type", *code}};
    }
    if (const auto* d = a.as<DeviceName>()) return {{"as_device", device(d->name)}};
    if (a.as<Named>()) {
      for (int64_t code = 1; code <= 7; ++code)
        if (pt2Layout(code) == a) return {{"as_layout", code}};
      for (int64_t code = 1; code <= 4; ++code)
        if (pt2MemoryFormat(code) == a) return {{"as_memory_format", code}};
    }
    while (wanted && wanted->kind == Type::Kind::Optional) wanted = &wanted->element();
    if (const auto* items = a.items()) return list(*items, wanted);
    throw Refusal("it has an argument that torch.export cannot hold");
  }

  // Nodes
  // -------------------------------------------------------------------------------------------------------------------
  /// Each call's nn_module_stack, by call.
  void stacks() {
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
        throw Refusal(fmt::format("the module {} of type {} has no name in torch.export", m.path, m.type));
      stacks_.push_back(fmt::format("{};L__self__{}{},{}{},{}", outer, key, number, m.path, number, m.type));
    }
    // The order of calls, and those that own nothing, follow from no node.
    note.calls = stacks_;
  }

  json metadata(const Node& n) {
    json out = json::object();
    if (const SourceLocation* s = g_.sourceOf(n); s && !s->file.empty())
      out["stack_trace"] = fmt::format("File \"{}\", line {}, in forward\n    {}", s->file, s->line, s->code);
    out["nn_module_stack"] =
        n.module ? stacks_[n.module.index] : fmt::format("L__self__,,{}", g_.name.empty() ? "Model" : g_.name);
    return out;
  }

  // Arithmetic on sizes is Python's in torch.export.
  static std::string target(const Node& n) {
    static const std::unordered_map<std::string_view, const char*> python{
        {"aten.add.int", "_operator.add"},
        {"aten.sub.int", "_operator.sub"},
        {"aten.mul.int", "_operator.mul"},
        {"aten.floordiv.int", "_operator.floordiv"},
        {"aten.remainder.int", "_operator.mod"},
        {"aten.neg.int", "_operator.neg"},
        {"aten.size.int", "torch.ops.aten.sym_size.int"}};
    if (const auto it = python.find(n.op->name); it != python.end()) return it->second;
    if (!n.op->hasSchema || n.op->name.starts_with("prim."))
      throw Refusal("torch.export has no such operator; write TorchScript (.pt) instead");
    return "torch.ops." + withNumbers(n);
  }

  // ge.Tensor(x, 0) in normal form is ge.Scalar for PyTorch.
  static std::string withNumbers(const Node& n) {
    static const TorchOperators operators{};
    const auto isNumber = [&](size_t i) {
      return n.op->parameters[i].type.isTensor() && (n.args[i].number() || n.args[i].as<std::complex<double>>());
    };
    bool any = false;
    for (size_t i = 0; i < n.args.size(); ++i) any = any || isNumber(i);
    if (!any) return n.op->name;
    for (const OperatorRef& other : operators.overloads(n.op->packetName())) {
      bool fits = other->parameters.size() == n.args.size();
      for (size_t i = 0; fits && i < n.args.size(); ++i)
        fits = other->parameters[i].name == n.op->parameters[i].name &&
               (isNumber(i) ? other->parameters[i].type.kind == Type::Kind::Number
                            : other->parameters[i].type == n.op->parameters[i].type);
      if (fits) return other->name;
    }
    return n.op->name;
  }

  std::string expression(const Argument& a) const {
    if (const auto* i = a.as<int64_t>()) return std::to_string(*i);
    if (a.isValue())
      if (const auto it = expressions_.find(a.valueId().index); it != expressions_.end()) return "(" + it->second + ")";
    throw Refusal("it computes with a size that is not known beforehand");
  }

  void sizeValue(const Node& n) {
    const ValueId v = n.outputs[0];
    std::string e;
    if (n.op->name == "aten.size.int") {
      const auto* dim = n.args[1].as<int64_t>();
      const auto& shape = g_.value(n.args[0].valueId()).type.tensorInfo.shape;
      const int64_t rank = shape ? static_cast<int64_t>(shape->size()) : 0;
      const int64_t at = dim && *dim < 0 ? *dim + rank : dim ? *dim : -1;
      if (at < 0 || at >= rank || !(*shape)[static_cast<size_t>(at)].isKnown())
        throw Refusal("it asks for a size that is not known beforehand: give the model's inputs (--inputs)");
      const Dim& d = (*shape)[static_cast<size_t>(at)];
      e = d.isStatic() ? std::to_string(d.size) : d.symbol;
    } else if (n.op->name == "aten.neg.int") {
      e = "-" + expression(n.args[0]);
    } else {
      const char* sign = n.op->name == "aten.add.int"        ? " + "
                         : n.op->name == "aten.sub.int"      ? " - "
                         : n.op->name == "aten.mul.int"      ? "*"
                         : n.op->name == "aten.floordiv.int" ? "//"
                                                             : nullptr;
      if (!sign) throw Refusal("it computes a size in a way that torch.export cannot say");
      e = expression(n.args[0]) + sign + expression(n.args[1]);
    }
    const auto [text, hint] = Sympy(e, symbols_).read();
    sizes_[name(v)] = {{"as_expr", {{"expr_str", text}, {"hint", {{"as_int", hint}}}}}};
    expressions_[v.index] = e;
  }

  void node(const Node& n) {
    if (n.op->name == "prim.getitem") {
      const auto* index = n.args[1].as<int64_t>();
      const ValueId list = n.args[0].isValue() ? n.args[0].valueId() : ValueId();
      if (!index || !list || !elements_.contains(list.index) || *index < 0 ||
          static_cast<size_t>(*index) >= elements_.at(list.index).size())
        throw Refusal("it takes an element of a list in a way that torch.export cannot say");
      names_[n.outputs[0].index] = elements_.at(list.index)[static_cast<size_t>(*index)];
      return;
    }
    json made{{"target", target(n)}, {"metadata", metadata(n)}, {"is_hop_single_tensor_return", nullptr}};
    json inputs = json::array(), outputs = json::array();
    for (size_t i = 0; i < n.args.size(); ++i) {
      const Parameter& p = n.op->parameters.at(i);
      inputs.push_back({{"name", p.name}, {"arg", argument(n.args[i], &p.type)}, {"kind", p.keywordOnly ? 2 : 1}});
    }
    for (ValueId v : n.outputs) {
      const Type& t = g_.value(v).type;
      if (t.isTensor()) {
        tensors_[name(v)] = meta(t);
        outputs.push_back({{"as_tensor", {{"name", name(v)}}}});
      } else if (t.kind == Type::Kind::Int) {
        sizeValue(n);
        outputs.push_back({{"as_sym_int", {{"as_name", name(v)}}}});
      } else if (t.kind == Type::Kind::List && t.element().isTensor()) {
        outputs.push_back(listOutput(v));
      } else {
        throw Refusal(fmt::format("its result is {}, which torch.export cannot hold", toString(t)));
      }
    }
    made["inputs"] = std::move(inputs);
    made["outputs"] = std::move(outputs);
    // A node of several results is none of them.
    made["name"] = n.outputs.size() == 1 ? name(n.outputs[0]) : fresh(n.name);
    nodes_.push_back(std::move(made));
  }

  // A list's elements have names of their own; nodes that take one are not written.
  json listOutput(ValueId list) {
    int64_t count = 0;
    std::unordered_map<int64_t, ValueId> taken;
    for (NodeId user : g_.value(list).users) {
      const Node& u = g_.node(user);
      const auto* i = u.op->name == "prim.getitem" ? u.args[1].as<int64_t>() : nullptr;
      if (!i || *i < 0) throw Refusal("the list that it makes is used as a whole, which torch.export cannot say");
      count = std::max(count, *i + 1);
      if (!taken.emplace(*i, u.outputs[0]).second) continue;
    }
    json out = json::array();
    auto& names = elements_[list.index];
    for (int64_t i = 0; i < count; ++i) {
      const auto it = taken.find(i);
      const std::string element =
          it == taken.end() ? fresh(fmt::format("{}_{}", g_.value(list).name, i)) : name(it->second);
      // An element that nobody takes looks like one that somebody does: its numbers are not read.
      tensors_[element] = meta(g_.value(it == taken.end() ? taken.begin()->second : it->second).type);
      names.push_back(element);
      out.push_back({{"name", element}});
    }
    return {{"as_tensors", out}};
  }

  // Results
  // -------------------------------------------------------------------------------------------------------------------
  static json spec(const json& type, const json& context, const json& children) {
    return {{"type", type}, {"context", context}, {"children_spec", children}};
  }
  static json leafSpec() { return spec(nullptr, nullptr, json::array()); }

  json result(const Argument& a, int depth) {
    if (depth > 50) throw Refusal("its result is nested too deep");
    if (const auto* dict = a.as<Argument::Dict>()) {
      json keys = json::array(), children = json::array();
      for (const auto& [key, value] : dict->items) {
        const auto* text = key.as<std::string>();
        if (!text) throw Refusal("its result is a dictionary whose keys are no strings");
        keys.push_back(*text);
        children.push_back(result(value, depth + 1));
      }
      return spec("builtins.dict", keys.dump(), children);
    }
    if (const auto* items = a.items()) {
      json children = json::array();
      for (const Argument& i : *items) children.push_back(result(i, depth + 1));
      return a.isList() ? spec("builtins.list", "null", children) : spec("builtins.tuple", "null", children);
    }
    outputs_.push_back(argument(a, nullptr));
    outputSpecs_.push_back({{"user_output", {{"arg", outputs_.back()}}}});
    return leafSpec();
  }

  json returns() {
    if (g_.returns().size() == 1) return result(g_.returns()[0], 0);
    return result(Argument::tuple(std::vector<Argument>(g_.returns().begin(), g_.returns().end())), 0);
  }

  void facts() {
    std::map<std::string, std::string> types;
    for (const ModuleCall& m : g_.moduleCalls()) types[m.path] = m.type;
    noteFacts(g_, types, note);
    note.inputs.clear();  // the program says all types itself
    note.types.clear();
    note.model = g_.name;
    for (NodeId n : g_.order())
      for (size_t i = 1; i < g_.node(n).outputs.size(); ++i) {
        const ValueId v = g_.node(n).outputs[i];
        if (names_.contains(v.index)) note.names.emplace(name(v), g_.value(v).name);
      }
  }

  const Graph& g_;
  std::unordered_map<uint32_t, std::string> names_;
  std::unordered_set<std::string> taken_;
  std::set<std::string> symbols_;
  std::vector<std::string> stacks_;
  std::unordered_map<uint32_t, std::string> expressions_;            // of sizes that nodes compute
  std::unordered_map<uint32_t, std::vector<std::string>> elements_;  // of lists, by value
  json inputs_ = json::array(), inputSpecs_ = json::array(), outputs_ = json::array(), outputSpecs_ = json::array();
  json nodes_ = json::array(), tensors_ = json::object(), sizes_ = json::object();
};

}  // namespace

Status exportTorchExport(const Graph& graph, const std::string& path, const ExportOptions& options) {
  auto file = AtomicFile::beside(path);
  if (!file) return file.error();
  try {
    ExportWriter program(graph);
    program.run();
    if (usesGraftOperators(graph))
      program.note.operatorLibrary = options.operatorLibrary.empty() ? "libgraft_ops.so" : options.operatorLibrary;
    std::ofstream out(file->temporaryPath(), std::ios::binary | std::ios::trunc);
    {
      caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, size_t n) {
        out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(n));
        return out ? n : 0;
      });
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
      write("extra/graft.json", noteJson(program.note));
      writer.writeEndOfFile();
    }
    out.close();
    if (!out) return badInput(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
  } catch (const Refusal& r) {
    return badInput(fmt::format("the model cannot be written for torch.export: {}", r.what()));
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} cannot be written: {}", path, shortMessage(e)));
  }
  return file->commit();
}

}  // namespace graft
