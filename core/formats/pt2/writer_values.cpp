#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/formats/pt2/writer.h"
#include "core/formats/pt2_schema.h"
#include "core/torch/operator_library.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {

using nlohmann::json;

// Names
// ---------------------------------------------------------------------------------------------------------------------

std::string ExportWriter::fresh(std::string_view wish) {
  std::string out;
  for (char c : wish) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "v");
  while (!taken_.insert(out).second) out += '_';
  return out;
}

const std::string& ExportWriter::name(ValueId v) {
  if (const auto maker = deferred_.extract(v.index)) node(g_.node(maker.mapped()));
  const auto [it, isNew] = names_.try_emplace(v.index);
  if (!isNew) return it->second;
  const Value& value = g_.value(v);
  it->second = fresh(value.name);
  if (it->second != value.name) archiveMetadata.names[it->second] = value.name;
  return it->second;
}

// Types
// ---------------------------------------------------------------------------------------------------------------------

std::pair<std::string, int64_t> ExportWriter::sympy(const std::string& expression) {
  auto out = pt2Sympy(expression, g_, symbols_);
  if (!out) throw Pt2Refusal(fmt::format("the size '{}' cannot be written", expression));
  return *out;
}

json ExportWriter::symbolic(const std::string& expression) {
  const auto [text, hint] = sympy(expression);
  return {{"as_expr", {{"expr_str", text}, {"hint", {{"as_int", hint}}}}}};
}

json ExportWriter::size(const Dim& d) {
  if (d.isStatic()) return {{"as_int", d.size}};
  if (!d.isKnown())
    throw Pt2Refusal("a size is not known: give the model's inputs (--inputs), or write TorchScript (.pt)");
  return symbolic(d.symbol);
}

static json device(const std::string& text) {
  const size_t colon = text.find(':');
  return {{"type", text.empty() ? "cpu" : text.substr(0, colon)},
          {"index", colon == text.npos ? json() : json(std::stoi(text.substr(colon + 1)))}};
}

json ExportWriter::meta(const Type& t, bool gradient) {
  const TensorInfo& info = t.tensorInfo;
  if (!t.isTensor() || !info.dtype || !info.shape)
    throw Pt2Refusal(
        "the type of its result is not known: give the model's inputs (--inputs), or write TorchScript (.pt)");
  const auto dtype = pt2Code(*info.dtype);
  if (!dtype) throw Pt2Refusal(fmt::format("torch.export has no dtype {}", dtypeName(*info.dtype)));
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
// ---------------------------------------------------------------------------------------------------------------------

void ExportWriter::weight(ValueId id) {
  const Value& v = g_.value(id);
  at::Tensor t = weightTensor(v);
  if (!t.defined()) throw Pt2Refusal(fmt::format("the weight '{}' has no data", v.path));
  if (t.layout() != c10::kStrided)
    throw Pt2Refusal(
        fmt::format("the weight '{}' is sparse, and archives of torch.export hold dense ones; write "
                    "TorchScript (.pt) instead",
                    v.path));
  // A dense layout stays: weights in channels-last are there to be read so. Views of other tensors are copied.
  t = t.detach();
  if (!t.is_non_overlapping_and_dense()) t = t.contiguous();
  const bool isParameter = !v.isBuffer && !v.isConstant;
  // A model with operators of ours is for inference: it runs as it was verified, also where gradients are on.
  const bool gradient = isParameter && !v.isFrozen && !usesGraftOperators(g_) &&
                        (c10::isFloatingType(t.scalar_type()) || c10::isComplexType(t.scalar_type()));
  const std::string arg = fresh((v.isConstant ? "c_" : isParameter ? "p_" : "b_") + v.path);
  names_[id.index] = arg;
  json facts = meta(typeOfValue(c10::IValue(t)), gradient);
  json strides = json::array();
  for (const int64_t s : t.strides()) strides.push_back({{"as_int", s}});
  facts["strides"] = std::move(strides);
  json& config = v.isConstant ? constants : weights;
  const std::string record = fmt::format("{}_{}", v.isConstant ? "tensor" : "weight", config.size());
  config[v.path] = {{"path_name", record}, {"is_param", isParameter}, {"use_pickle", false}, {"tensor_meta", facts}};
  data.emplace_back((v.isConstant ? "data/constants/" : "data/weights/") + record, t);
  body_.tensors[arg] = facts;
  body_.inputs.push_back({{"as_tensor", {{"name", arg}}}});
  if (v.isConstant)
    inputSpecs_.push_back({{"tensor_constant", {{"arg", {{"name", arg}}}, {"tensor_constant_name", v.path}}}});
  else if (isParameter)
    inputSpecs_.push_back({{"parameter", {{"arg", {{"name", arg}}}, {"parameter_name", v.path}}}});
  else
    inputSpecs_.push_back({{"buffer", {{"arg", {{"name", arg}}}, {"buffer_name", v.path}, {"persistent", true}}}});
}

void ExportWriter::input(ValueId v) {
  const Type& t = g_.value(v).type;
  json arg;
  if (t.kind == Type::Kind::Int) {
    // A number that the caller gives becomes a symbol of that name.
    const std::string symbol = fresh("n_" + name(v));
    body_.ints[name(v)] = symbolic(symbol);
    inputSymbols_.insert(symbol);
    expressions_[v.index] = symbol;
    arg = {{"as_sym_int", {{"as_name", name(v)}}}};
  } else if (const auto fixed = literals_.find(v.index); fixed != literals_.end()) {
    return constantInput(name(v), fixed->second);
  } else if (!t.isTensor()) {
    const bool nests = t.kind == Type::Kind::List || t.kind == Type::Kind::Tuple || t.kind == Type::Kind::Dict;
    throw Pt2Refusal(
        fmt::format("its input {} is {}; torch.export takes tensors and whole numbers{}write TorchScript (.pt) "
                    "instead",
                    g_.value(v).name, toString(t),
                    nests ? "; " : ", everything else as a constant: fix it by giving the inputs (--inputs), or "));
  } else {
    try {
      body_.tensors[name(v)] = meta(t);
    } catch (const Pt2Refusal& r) {
      throw Pt2Refusal(fmt::format("input {}: {}", g_.value(v).name, r.what()));
    }
    arg = {{"as_tensor", {{"name", name(v)}}}};
  }
  body_.inputs.push_back(arg);
  inputSpecs_.push_back({{"user_input", {{"arg", arg}}}});
}

void ExportWriter::constantInput(const std::string& name, const Argument& value) {
  body_.inputs.push_back(argument(value, nullptr));
  inputSpecs_.push_back({{"constant_input", {{"name", name}, {"value", body_.inputs.back()}}}});
}

// Arguments
// ---------------------------------------------------------------------------------------------------------------------

static json number(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
  return d;
}

json ExportWriter::reference(ValueId v) {
  const Type& t = g_.value(v).type;
  if (t.isTensor()) return {{"as_tensor", {{"name", name(v)}}}};
  if (t.kind == Type::Kind::Int) return {{"as_sym_int", {{"as_name", name(v)}}}};
  if (t.kind == Type::Kind::Bool) return {{"as_sym_bool", {{"as_name", name(v)}}}};
  if (t.kind == Type::Kind::Float) return {{"as_sym_float", {{"as_name", name(v)}}}};
  throw Pt2Refusal(fmt::format("%{} is {}, which is no argument in torch.export", g_.value(v).name, toString(t)));
}

const Argument& ExportWriter::known(const Argument& a) const {
  const auto it = a.isValue() ? literals_.find(a.valueId().index) : literals_.end();
  return it == literals_.end() ? a : it->second;
}

json ExportWriter::list(const std::vector<Argument>& given, const Type* wanted) {
  std::vector<Argument> items;
  for (const Argument& a : given) items.push_back(known(a));
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
  throw Pt2Refusal("it has a list that torch.export cannot hold");
}

json ExportWriter::argument(const Argument& given, const Type* wanted) {
  const Argument& a = known(given);
  if (a.isNone()) return {{"as_none", true}};
  if (a.isValue()) return reference(a.valueId());
  if (const auto* b = a.as<bool>()) return {{"as_bool", *b}};
  if (const auto* i = a.as<int64_t>()) return {{"as_int", *i}};
  if (const auto* d = a.as<double>()) return {{"as_float", number(*d)}};
  if (const auto* s = a.as<std::string>()) return {{"as_string", *s}};
  if (const auto* c = a.as<std::complex<double>>()) return {{"as_complex", {{"real", c->real()}, {"imag", c->imag()}}}};
  if (const auto* d = a.as<DType>()) {
    const auto code = pt2Code(*d);
    if (!code) throw Pt2Refusal(fmt::format("torch.export has no dtype {}", dtypeName(*d)));
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
  throw Pt2Refusal("it has an argument that torch.export cannot hold");
}

}  // namespace graft
