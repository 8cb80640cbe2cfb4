#include "core/torch/types/meta_inference.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>

#include "core/torch/semantics.h"
#include "core/torch/types/meta_rules.h"
#include "core/torch/types/zeros_run.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"
#include "core/torch/values/weight.h"

namespace graft {
namespace {

constexpr int deepestLookup = 64;

bool cannotKnow(const std::exception& e) {
  if (dynamic_cast<const c10::NotImplementedError*>(&e)) return true;
  // Operators that look at data, or have no kernel for meta tensors, say so in words only.
  // The backtrace of c10::Error names functions, which would be signs of everything.
  const std::string why = shortMessage(e);
  for (std::string_view sign :
       {"meta", "Meta", "data-dependent", "item()", "is_nonzero", "_local_scalar_dense", "not implemented"})
    if (why.find(sign) != why.npos) return true;
  return false;
}

/// Whether the operator is neither PyTorch's nor Graft's.
bool isOfLibrary(std::string_view name) {
  const std::string_view space = name.substr(0, name.find('.'));
  for (std::string_view own : {"aten", "prim", "prims", "graft", "quantized"})
    if (space == own) return false;
  return true;
}

bool hasMetaKernel(std::string_view name) {
  const auto op = c10::Dispatcher::singleton().findSchema(torchName(name));
  return op && op->hasKernelForDispatchKey(c10::DispatchKey::Meta);
}

}  // namespace

void MetaInference::nameUnknownSizes() {
  std::set<std::string> taken;
  const auto collect = [&](const auto& self, const Type& t) -> void {
    if (t.tensorInfo.shape)
      for (const Dim& d : *t.tensorInfo.shape)
        if (!d.symbol.empty()) taken.insert(d.symbol);
    for (const Type& e : t.elements) self(self, e);
  };
  for (size_t i = 0; i < g_.valueBound(); ++i) collect(collect, g_.value(ValueId(static_cast<uint32_t>(i))).type);
  names_.nameUnknown(std::move(taken));
}

namespace {

/// A tensor of one number and no dimensions, with its number.
bool isNumber(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined() && !v.toTensor().is_meta() && v.toTensor().dim() == 0;
}

}  // namespace

std::optional<int64_t> MetaInference::sizeIn(const SizeExpression& e, size_t run) {
  return e.evaluate([&](std::string_view symbol) { return names_.standIn(symbol, run); });
}

void MetaInference::declareSize(const SizeExpression& e, const std::string& text) {
  SizeNames::Sizes sizes{};
  for (size_t r = 0; r < runs; ++r) {
    const auto n = sizeIn(e, r);
    if (!n) return;
    sizes[r] = *n;
  }
  names_.declare(sizes, text);
}

std::optional<c10::IValue> MetaInference::make(const Type& t, size_t run) {
  if (t.kind != Type::Kind::Tensor || !t.tensorInfo.dtype || !t.tensorInfo.shape) return std::nullopt;
  std::vector<int64_t> sizes;
  int64_t elements = 1;
  for (const Dim& d : *t.tensorInfo.shape) {
    std::optional<int64_t> n;
    if (d.isStatic()) {
      n = d.size;
    } else if (const auto e = SizeExpression::parse(d.symbol)) {
      n = sizeIn(*e, run);
      if (run == 0 && e->steps().size() > 1) declareSize(*e, d.symbol);
    }
    // What LibTorch could not count the bytes of.
    if (!n || *n < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(*n, 1), &elements) ||
        elements > (int64_t{1} << 56))
      return std::nullopt;
    sizes.push_back(*n);
  }
  return c10::IValue(at::empty(sizes, at::TensorOptions(torchDType(*t.tensorInfo.dtype)).device(c10::kMeta)));
}

bool MetaInference::isWritten(ValueId v) {
  if (!written_) written_ = writtenSources(g_);
  return written_->contains(v);
}

const c10::IValue* MetaInference::lookup(ValueId v, size_t run, int depth) {
  if (const auto it = values_.find(v); it != values_.end() && it->second[run]) return &*it->second[run];
  if (absent_[run].contains(v)) return nullptr;
  const Value& value = g_.value(v);
  at::Tensor number = constantNumber(value);  // sizes may follow from it
  if (number.defined() && isWritten(v)) number = at::Tensor();
  std::optional<c10::IValue> found = number.defined() ? std::optional(c10::IValue(number)) : make(value.type, run);
  // A size or what was computed from sizes: ask who made it.
  if (!found && !value.type.isTensor() && value.kind == Value::Kind::Output && depth < deepestLookup) {
    std::vector<c10::IValue> results;
    std::string why;
    if (runOnce(g_.node(value.producer), run, depth + 1, results, why) == Outcome::Known) {
      const auto& outputs = g_.node(value.producer).outputs;
      for (size_t i = 0; i < std::min(outputs.size(), results.size()); ++i)
        if (outputs[i] == v) found = results[i];
    }
  }
  if (!found) {
    absent_[run].insert(v);
    return nullptr;
  }
  std::optional<c10::IValue>& kept = values_[v][run];
  kept = std::move(found);
  return &kept.value();
}

MetaInference::Outcome MetaInference::runOnce(const Node& n, size_t run, int depth, std::vector<c10::IValue>& results,
                                              std::string& why) {
  if (!n.op->hasSchema || !n.blocks.empty() || n.op->sideEffects) return Outcome::Unknown;
  const ValueLookup look = [&](ValueId v) { return lookup(v, run, depth); };
  bool known = true;
  for (const Argument& a : n.args) a.forEachValue([&](ValueId v) { known = known && look(v) != nullptr; });
  if (!known) return Outcome::Unknown;

  if (n.op->name == "prim.getitem") {
    const auto container = toIValue(n.args[0], nullptr, look);
    const auto* i = n.args[1].as<int64_t>();
    if (!container || !i) return Outcome::Unknown;
    std::vector<c10::IValue> items;
    if (container->isList()) {
      for (const c10::IValue& v : container->toListRef()) items.push_back(v);
    } else if (container->isTuple()) {
      items = container->toTupleRef().elements().vec();
    }
    const auto size = static_cast<int64_t>(items.size());
    if (*i < -size || *i >= size) return Outcome::Unknown;
    results = {items[static_cast<size_t>(*i < 0 ? *i + size : *i)]};
    return Outcome::Known;
  }
  const auto op = torch::jit::findOperatorFor(torchName(n.op->name));
  // A library's own kernel may stand for all devices, and then read memory that a meta tensor does not have.
  if (isOfLibrary(n.op->name) && !hasMetaKernel(n.op->name)) return Outcome::Unknown;
  if (!op || op->schema().arguments().size() != n.args.size()) return Outcome::Unknown;
  torch::jit::Stack stack;
  bool hasNumbers = false, hasOthers = n.op->writes();
  for (size_t i = 0; i < n.args.size(); ++i) {
    const c10::Argument& parameter = op->schema().arguments()[i];
    if (parameter.name() == "device" && parameter.type()->kind() != c10::TypeKind::TensorType) {
      // Factories would make real tensors elsewhere.
      stack.emplace_back(c10::Device(c10::kMeta));
      continue;
    }
    auto v = argumentValue(n, i, op->schema(), look);
    if (!v) {
      why = v.error().message;
      return Outcome::Refused;
    }
    (isNumber(*v) ? hasNumbers : hasOthers) |= v->isTensor() || v->isTensorList();
    stack.push_back(std::move(*v));
  }
  // Of numbers alone, a number. Beside tensors it is on their device, and promotes as a number does.
  for (size_t i = 0; hasNumbers && hasOthers && i < stack.size(); ++i) {
    if (!isNumber(stack[i])) continue;
    const at::Tensor number = at::empty({}, stack[i].toTensor().options().device(c10::kMeta));
    number.unsafeGetTensorImpl()->set_wrapped_number(n.args[i].number().has_value());
    stack[i] = number;
  }
  switch (applyMetaRule(*n.op, stack, results, why)) {
    case MetaRule::Done:
      return Outcome::Known;
    case MetaRule::Refused:
      return Outcome::Refused;
    case MetaRule::None:
      break;
  }
  const std::vector<c10::IValue> given = stack;
  try {
    const c10::NoGradGuard noGrad;
    checkCall(op->schema(), stack);
    if (op->schema().is_vararg()) stack.emplace_back(static_cast<int64_t>(n.args.size()));
    op->getOperation()(stack);
  } catch (const std::exception& e) {
    if (cannotKnow(e)) {
      const ZerosRun run = runOnZeros(*n.op, *op, given, results, why);
      return run == ZerosRun::Done ? Outcome::Known : run == ZerosRun::Refused ? Outcome::Refused : Outcome::Unknown;
    }
    why = shortMessage(e);
    return Outcome::Refused;
  }
  results = std::move(stack);
  for (size_t i = 0; i < results.size(); ++i) {
    c10::IValue& v = results[i];
    if (!v.isTensor() || !v.toTensor().defined() || v.toTensor().is_meta()) continue;
    if (isNumber(v) && (i >= n.outputs.size() || !isWritten(n.outputs[i]))) continue;
    const at::Tensor& t = v.toTensor();  // of numbers: expand(n, [4, 4])
    v = at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::kMeta));
  }
  return Outcome::Known;
}

Type MetaInference::typeOf(const Runs& values, const std::string& device) {
  const c10::IValue& first = *values[0];
  const auto inAll = [&](auto&& f) {
    return std::all_of(values.begin(), values.end(), [&](const auto& v) { return v && f(*v); });
  };
  if (first.isTensor()) {
    const at::Tensor& t = first.toTensor();
    if (!t.defined()) return Type(Type::Kind::None);
    TensorInfo info;
    info.dtype = graftDType(t.scalar_type());
    info.device = device;
    const bool sameRank = inAll(
        [&](const c10::IValue& v) { return v.isTensor() && v.toTensor().defined() && v.toTensor().dim() == t.dim(); });
    if (!sameRank) return Type::tensor(std::move(info));
    info.shape.emplace();
    for (int64_t i = 0; i < t.dim(); ++i) {
      SizeNames::Sizes sizes;
      for (size_t r = 0; r < runs; ++r) sizes[r] = values[r]->toTensor().size(i);
      info.shape->push_back(names_.dim(sizes));
    }
    return Type::tensor(std::move(info));
  }
  if (first.isTensorList()) {
    const size_t size = first.toTensorList().size();
    if (!inAll([&](const c10::IValue& v) { return v.isTensorList() && v.toTensorList().size() == size; }))
      return Type::list(Type::tensor());
    std::optional<Type> common;
    for (size_t i = 0; i < size; ++i) {
      Runs element;
      for (size_t r = 0; r < runs; ++r) element[r] = c10::IValue(at::Tensor(values[r]->toTensorList().get(i)));
      const Type t = typeOf(element, device);
      if (common && !(*common == t)) return Type::list(Type::tensor());
      common = t;
    }
    return Type::list(common ? *common : Type::tensor());
  }
  return typeOfValue(first);
}

bool MetaInference::isSameInAllRuns(const Node& n, const std::vector<c10::IValue>& results) const {
  // What may change or be changed must not be shared between runs.
  return !names_.hasSymbols() && !n.op->writes() &&
         std::all_of(results.begin(), results.end(), [](const c10::IValue& v) {
           return v.isTensor() || v.isInt() || v.isDouble() || v.isBool() || v.isNone();
         });
}

// Convolutions, pools and slices with a step round down: three runs would not tell which halves they take.
bool MetaInference::declareWindows(const Node& n) {
  const std::string_view op = n.op->baseName();
  const auto known = [&](const Argument& a) -> const Runs* {
    const auto it = a.isValue() ? values_.find(a.valueId()) : values_.end();
    return it == values_.end() ||
                   !std::all_of(it->second.begin(), it->second.end(), [](const auto& v) { return v && v->isTensor(); })
               ? nullptr
               : &it->second;
  };
  if (n.outputs.empty() || n.args.empty()) return true;
  const Runs *in = known(n.args[0]), *out = known(Argument(n.outputs[0]));
  if (!in || !out) return true;
  const auto sizes = [](const Runs& v, int64_t dim) {
    SizeNames::Sizes s;
    for (size_t r = 0; r < runs; ++r) s[r] = v[r]->toTensor().size(dim);
    return s;
  };
  bool telling = true;
  const auto declare = [&](int64_t dim, int64_t add, int64_t divisor) {
    const SizeNames::Sizes from = sizes(*in, dim), to = sizes(*out, dim);
    const auto isOne = [](const SizeNames::Sizes& s) {
      return std::all_of(s.begin(), s.end(), [&](int64_t n) { return n == s[0]; });
    };
    telling = telling && (isOne(from) || !isOne(to));
    names_.declareFloor(to, from, add, divisor);
  };
  const int64_t rank = (*in)[0]->toTensor().dim();
  const auto number = [&](std::string_view parameter, size_t i, int64_t otherwise) -> std::optional<int64_t> {
    const Argument* a = n.findArgument(parameter);
    if (!a || a->isNone()) return otherwise;
    if (const auto* items = a->items()) {
      if (items->empty()) return otherwise;
      a = &(*items)[std::min(i, items->size() - 1)];
    }
    if (a->as<std::string>() && *a->as<std::string>() == "valid") return 0;  // a convolution's padding
    const auto* value = a->as<int64_t>();
    return value ? std::optional(*value) : std::nullopt;
  };
  if (op == "slice") {
    const auto dim = number("dim", 0, 0), start = number("start", 0, 0), step = number("step", 0, 1);
    const auto end = number("end", 0, INT64_MAX);
    if (!dim || !start || !step || !end || *step < 2 || *start < 0 || *end < INT32_MAX || *dim >= rank || *dim < -rank)
      return true;
    const int64_t at = *dim < 0 ? *dim + rank : *dim;
    declare(at, *step - 1 - *start, *step);
    return telling;
  }
  const bool convolution = n.op->facts->family == OperatorFamily::Convolution;
  const bool pool = op.starts_with("max_pool") || op.starts_with("avg_pool");
  if (!convolution && !pool) return true;
  if (const Argument* turned = n.findArgument("transposed"); turned && !(*turned == Argument(false))) return true;
  if (const Argument* ceil = n.findArgument("ceil_mode"); ceil && !(*ceil == Argument(false))) return true;
  const Runs* weight = convolution ? known(n.args[1]) : nullptr;
  if (convolution && (!weight || (*weight)[0]->toTensor().dim() < 3)) return true;
  const int64_t spatial = convolution          ? (*weight)[0]->toTensor().dim() - 2
                          : op.ends_with("1d") ? 1
                          : op.ends_with("3d") ? 3
                                               : 2;
  if (rank < spatial || (*out)[0]->toTensor().dim() != rank) return true;
  for (int64_t i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto kernel =
        convolution ? std::optional((*weight)[0]->toTensor().size(i + 2)) : number("kernel_size", at, 1);
    const auto stride = number("stride", at, pool ? kernel.value_or(1) : 1), padding = number("padding", at, 0);
    const auto dilation = number("dilation", at, 1);
    if (!kernel || !stride || !padding || !dilation || *stride < 1) return telling;
    declare(rank - spatial + i, 2 * *padding - *dilation * (*kernel - 1) - 1 + *stride, *stride);
  }
  return telling;
}

std::string MetaInference::deviceOf(const Node& n) const {
  if (const Argument* device = n.findArgument("device"))
    if (const auto* named = device->as<DeviceName>()) return named->name;
  std::string found;
  for (const Argument& a : n.args)
    a.forEachValue([&](ValueId v) {
      if (found.empty() && g_.value(v).type.isTensor()) found = g_.value(v).type.tensorInfo.device;
    });
  return found;
}

void MetaInference::rememberCalls() {
  const std::vector<NodeId> order = g_.order();
  remembers_ = std::none_of(order.begin(), order.end(), [&](NodeId id) { return g_.node(id).op->writes(); });
}

bool MetaInference::gatherArguments(const Node& n) {
  arguments_.clear();
  bool known = remembers_;
  for (const Argument& a : n.args)
    a.forEachValue([&](ValueId v) {
      for (size_t r = 0; known && r < runs; ++r) known = lookup(v, r, 0) != nullptr;
      if (known) arguments_.push_back(&values_.at(v));
    });
  return known;
}

Result<std::vector<Type>> MetaInference::run(NodeId id) {
  const Node& n = g_.node(id);
  std::string why;
  const std::string device = deviceOf(n);
  const bool gathered = gatherArguments(n);
  if (const MetaMemo::Call* c = gathered ? memo_.find(n, arguments_, device) : nullptr) {
    for (size_t i = 0; i < n.outputs.size(); ++i) values_[n.outputs[i]] = c->results[i];
    refused_ = false;
    known_ = true;
    return c->types;
  }
  std::array<std::vector<c10::IValue>, runs> results;
  Outcome outcome = Outcome::Known;
  for (size_t r = 0; r < runs && outcome == Outcome::Known; ++r) {
    outcome = runOnce(n, r, 0, results[r], why);
    if (r > 0 || outcome != Outcome::Known || !isSameInAllRuns(n, results[0])) continue;
    for (size_t other = 1; other < runs; ++other) results[other] = results[0];
    break;
  }
  refused_ = outcome == Outcome::Refused;
  std::vector<Type> types;
  const bool counted =
      std::all_of(results.begin(), results.end(), [&](const auto& r) { return r.size() == n.outputs.size(); });
  known_ = outcome == Outcome::Known && counted;
  if (known_) {
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      Runs& all = values_[n.outputs[i]];
      for (size_t r = 0; r < runs; ++r) all[r] = std::move(results[r][i]);
    }
    refused_ = names_.hasSymbols() && !declareWindows(n);
    if (refused_) {
      known_ = false;
      for (ValueId v : n.outputs) values_.erase(v);
    }
  }
  if (known_) {
    for (ValueId v : n.outputs) types.push_back(typeOf(values_.at(v), device));
    if (gathered) {
      std::vector<Runs> made;
      for (ValueId v : n.outputs) made.push_back(values_.at(v));
      memo_.remember(n, arguments_, device, std::move(made), types);
    }
    return types;
  }
  // Numbers that stand for symbols may break what every real size keeps; only concrete shapes are refused.
  if (refused_ && !names_.hasSymbols()) return badInput(fmt::format("{} ({}): {}", n.name, n.op->name, why));
  for (ValueId v : n.outputs) {
    const Type& declared = g_.value(v).type;
    types.push_back(declared.isTensor() ? Type::tensor() : declared);
  }
  return types;
}

Status inferAllTypes(Graph& g, const std::vector<Type>& inputTypes) {
  if (inputTypes.size() > g.inputs().size())
    return Error{ErrorKind::Usage,
                 fmt::format("the model takes {} inputs, {} types were given", g.inputs().size(), inputTypes.size()),
                 {}};
  for (size_t i = 0; i < inputTypes.size(); ++i) g.setType(g.inputs()[i], inputTypes[i]);
  // What large sizes do not fit (a table of positions), small ones may.
  bool refused = true;
  for (SizeNames::Scale scale : {SizeNames::Scale::Large, SizeNames::Scale::Below77, SizeNames::Scale::Below14}) {
    if (!refused) break;
    refused = false;
    MetaInference meta(g);
    meta.use(scale);
    meta.rememberCalls();
    for (NodeId id : g.order()) {
      auto types = meta.run(id);
      if (!types) return types.error();
      refused = refused || meta.refused();
      for (size_t i = 0; i < types->size(); ++i) {
        const ValueId v = g.node(id).outputs[i];
        const Type& t = (*types)[i];
        // What the file knew is kept where the run knows nothing.
        const bool vague = t.kind == Type::Kind::Any || (t.isTensor() && !t.tensorInfo.dtype);
        if (!vague && t.kind != Type::Kind::None) g.setType(v, t);
      }
    }
  }
  return done();
}

}  // namespace graft
