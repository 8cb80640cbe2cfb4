#include "core/torch/internal/meta_inference.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>

#include "core/torch/internal/meta_rules.h"
#include "core/torch/internal/values.h"
#include "core/torch/model.h"

namespace graft {
namespace {

// What symbols stand for in the two runs: primes, so that products tell their factors.
constexpr std::array<std::array<int64_t, 24>, 2> stands{{{211, 223, 227, 229, 233, 239, 241, 251, 257, 263, 269, 271,
                                                          401, 409, 419, 421, 431, 433, 439, 443, 449, 457, 461, 463},
                                                         {307, 311, 313, 317, 331, 337, 347, 349, 353, 359, 367, 373,
                                                          503, 509, 521, 523, 541, 547, 557, 563, 569, 571, 577, 587}}};
constexpr int maxDepth = 64;

// "2*s0 + s1//2": sums, products, floor divisions and parentheses.
class Expression {
 public:
  Expression(std::string_view text, const std::function<std::optional<int64_t>(std::string_view)>& symbol)
      : text_(text), symbol_(symbol) {}
  std::optional<int64_t> value() {
    const int64_t v = sum();
    skip();
    return bad_ || at_ != text_.size() ? std::nullopt : std::optional(v);
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool eat(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  int64_t sum() {
    int64_t v = product();
    for (;;) {
      if (eat("+"))
        v += product();
      else if (eat("-"))
        v -= product();
      else
        return v;
    }
  }
  int64_t product() {
    int64_t v = atom();
    for (;;) {
      if (eat("//")) {
        const int64_t d = atom();
        if (d <= 0)
          bad_ = true;
        else
          v /= d;
      } else if (eat("*")) {
        v *= atom();
      } else {
        return v;
      }
    }
  }
  int64_t atom() {
    if (++depth_ > 100) bad_ = true;
    if (bad_) return 0;
    int64_t v = 0;
    if (eat("-")) {
      v = -atom();
    } else if (eat("(")) {
      v = sum();
      bad_ |= !eat(")");
    } else {
      skip();
      const size_t from = at_;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
      const std::string_view word = text_.substr(from, at_ - from);
      if (word.empty())
        bad_ = true;
      else if (std::isdigit(static_cast<unsigned char>(word[0])) && word.size() < 12)
        v = std::stoll(std::string(word));
      else if (const auto s = symbol_(word))
        v = *s;
      else
        bad_ = true;
    }
    --depth_;
    return v;
  }

  std::string_view text_;
  const std::function<std::optional<int64_t>(std::string_view)>& symbol_;
  size_t at_ = 0;
  int depth_ = 0;
  bool bad_ = false;
};

bool cannotKnow(const std::exception& e) {
  if (dynamic_cast<const c10::NotImplementedError*>(&e)) return true;
  // Operators that look at data, or have no kernel for meta tensors, say so in words only.
  const std::string_view why = e.what();
  for (std::string_view sign :
       {"meta", "Meta", "data-dependent", "item()", "is_nonzero", "_local_scalar_dense", "not implemented"})
    if (why.find(sign) != why.npos) return true;
  return false;
}

}  // namespace

std::optional<int64_t> MetaInference::evaluate(std::string_view expression, size_t which) {
  const std::function<std::optional<int64_t>(std::string_view)> symbol =
      [&](std::string_view name) -> std::optional<int64_t> {
    auto it = std::find(symbols_.begin(), symbols_.end(), name);
    if (it == symbols_.end()) {
      if (symbols_.size() == stands[0].size()) return std::nullopt;
      it = symbols_.insert(symbols_.end(), std::string(name));
    }
    return stands[which][static_cast<size_t>(it - symbols_.begin())];
  };
  return Expression(expression, symbol).value();
}

std::optional<c10::IValue> MetaInference::make(const Type& t, size_t which) {
  if (t.kind == Type::Kind::Tensor) {
    if (!t.tensorInfo.dtype || !t.tensorInfo.shape) return std::nullopt;
    std::vector<int64_t> sizes;
    for (const Dim& d : *t.tensorInfo.shape) {
      const auto n = d.isStatic() ? std::optional(d.size) : d.symbol.empty() ? std::nullopt : evaluate(d.symbol, which);
      if (!n || *n < 0) return std::nullopt;
      sizes.push_back(*n);
    }
    return c10::IValue(at::empty(sizes, at::TensorOptions(torchDType(*t.tensorInfo.dtype)).device(c10::kMeta)));
  }
  if (t.kind == Type::Kind::List && t.element().isTensor()) return std::nullopt;
  return std::nullopt;
}

void MetaInference::set(ValueId v, const Type& t) {
  for (size_t which : {0, 1}) values_[v][which] = make(t, which);
}

const c10::IValue* MetaInference::lookup(ValueId v, size_t which, int depth) {
  if (const auto it = values_.find(v); it != values_.end() && it->second[which]) return &*it->second[which];
  if (absent_[which].contains(v)) return nullptr;
  const Value& value = g_.value(v);
  std::optional<c10::IValue> found = make(value.type, which);
  // A size or what was computed from sizes: ask who made it.
  if (!found && !value.type.isTensor() && value.kind == Value::Kind::Output && depth < maxDepth) {
    std::vector<c10::IValue> results;
    std::string why;
    if (runOnce(g_.node(value.producer), which, depth + 1, results, why) == Outcome::Known) {
      const auto& outputs = g_.node(value.producer).outputs;
      for (size_t i = 0; i < std::min(outputs.size(), results.size()); ++i)
        if (outputs[i] == v) found = results[i];
    }
  }
  if (!found) {
    absent_[which].insert(v);
    return nullptr;
  }
  std::optional<c10::IValue>& kept = values_[v][which];
  kept = std::move(found);
  return &kept.value();
}

MetaInference::Outcome MetaInference::runOnce(const Node& n, size_t which, int depth, std::vector<c10::IValue>& results,
                                              std::string& why) {
  if (!n.op->hasSchema || !n.blocks.empty() || n.op->sideEffects) return Outcome::Unknown;
  const ValueLookup look = [&](ValueId v) { return lookup(v, which, depth); };
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
  if (!op || op->schema().arguments().size() != n.args.size()) return Outcome::Unknown;
  torch::jit::Stack stack;
  for (size_t i = 0; i < n.args.size(); ++i) {
    const c10::Argument& parameter = op->schema().arguments()[i];
    if (parameter.name() == "device" && parameter.type()->kind() != c10::TypeKind::TensorType) {
      // Factories would make real tensors elsewhere.
      stack.emplace_back(c10::Device(c10::kMeta));
      continue;
    }
    auto v = toIValue(n.args[i], parameter.type().get(), look);
    if (!v) {
      why = v.error().message;
      return Outcome::Refused;
    }
    // A number beside tensors: on their device, and promoting as a number does.
    if (v->isTensor() && v->toTensor().defined() && !v->toTensor().is_meta() && v->toTensor().dim() == 0) {
      const at::Tensor number = at::empty({}, v->toTensor().options().device(c10::kMeta));
      number.unsafeGetTensorImpl()->set_wrapped_number(n.args[i].number().has_value());
      *v = number;
    }
    stack.push_back(std::move(*v));
  }
  switch (applyMetaRule(n.op->baseName(), stack, results, why)) {
    case MetaRule::Done:
      return Outcome::Known;
    case MetaRule::Refused:
      return Outcome::Refused;
    case MetaRule::None:
      break;
  }
  try {
    const c10::NoGradGuard noGrad;
    op->getOperation()(stack);
  } catch (const std::exception& e) {
    if (cannotKnow(e)) return Outcome::Unknown;
    why = shortMessage(e);
    return Outcome::Refused;
  }
  results = std::move(stack);
  return Outcome::Known;
}

Dim MetaInference::dimOf(int64_t first, int64_t second) const {
  if (first == second) return Dim(first);
  const auto scaled = [](int64_t k, const std::string& what) { return k == 1 ? what : fmt::format("{}*{}", k, what); };
  for (size_t i = 0; i < symbols_.size(); ++i)
    if (first % stands[0][i] == 0 && second % stands[1][i] == 0 && first / stands[0][i] == second / stands[1][i])
      return Dim(scaled(first / stands[0][i], symbols_[i]));
  for (size_t i = 0; i < symbols_.size(); ++i)
    for (size_t k = i; k < symbols_.size(); ++k) {
      const int64_t a = stands[0][i] * stands[0][k], b = stands[1][i] * stands[1][k];
      if (first % a == 0 && second % b == 0 && first / a == second / b)
        return Dim(scaled(first / a, symbols_[i] + "*" + symbols_[k]));
    }
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const int64_t step = stands[1][i] - stands[0][i];
    if ((second - first) % step == 0) {
      const int64_t slope = (second - first) / step, rest = first - slope * stands[0][i];
      if (slope > 0 && slope <= 8 && std::abs(rest) <= 4096)
        return Dim(fmt::format("{} {} {}", scaled(slope, symbols_[i]), rest < 0 ? "-" : "+", std::abs(rest)));
    }
    for (int64_t k = 2; k <= 64; ++k)
      if (first == stands[0][i] / k && second == stands[1][i] / k) return Dim(fmt::format("{}//{}", symbols_[i], k));
  }
  return {};
}

Type MetaInference::typeOf(const c10::IValue& first, const c10::IValue* second, const std::string& device) const {
  if (first.isTensor()) {
    const at::Tensor& t = first.toTensor();
    if (!t.defined()) return Type(Type::Kind::None);
    TensorInfo info;
    info.dtype = graftDType(t.scalar_type());
    info.device = device;
    info.shape.emplace();
    const bool both =
        second && second->isTensor() && second->toTensor().defined() && second->toTensor().dim() == t.dim();
    for (int64_t i = 0; i < t.dim(); ++i)
      info.shape->push_back(both ? dimOf(t.size(i), second->toTensor().size(i)) : Dim());
    if (second && !both) info.shape.reset();
    return Type::tensor(std::move(info));
  }
  if (first.isTensorList()) {
    const auto list = first.toTensorList();
    std::optional<Type> common;
    for (size_t i = 0; i < list.size(); ++i) {
      const c10::IValue a(list.get(i));
      std::optional<c10::IValue> b;
      if (second && second->isTensorList() && second->toTensorList().size() == list.size())
        b = second->toTensorList().get(i);
      const Type t = typeOf(a, b ? &*b : nullptr, device);
      if (common && !(*common == t)) return Type::list(Type::tensor());
      common = t;
    }
    return Type::list(common ? *common : Type::tensor());
  }
  return typeOfValue(first);
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

Result<std::vector<Type>> MetaInference::run(NodeId id) {
  const Node& n = g_.node(id);
  std::vector<c10::IValue> first, second;
  std::string why;
  const Outcome a = runOnce(n, 0, 0, first, why);
  const Outcome b = a == Outcome::Known ? runOnce(n, 1, 0, second, why) : a;
  known_ =
      a == Outcome::Known && b == Outcome::Known && first.size() == n.outputs.size() && second.size() == first.size();
  refused_ = a == Outcome::Refused || b == Outcome::Refused;
  std::vector<Type> types;
  if (a == Outcome::Known && first.size() == n.outputs.size()) {
    const bool both = b == Outcome::Known && second.size() == first.size();
    const std::string device = deviceOf(n);
    for (size_t i = 0; i < first.size(); ++i) {
      types.push_back(typeOf(first[i], both ? &second[i] : nullptr, device));
      values_[n.outputs[i]] = {first[i], both ? std::optional(second[i]) : std::nullopt};
    }
    return types;
  }
  // Numbers that stand for symbols may break what every real size keeps; only concrete shapes are refused.
  if (a == Outcome::Refused && symbols_.empty()) return badInput(fmt::format("{} ({}): {}", n.name, n.op->name, why));
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
  MetaInference meta(g);
  for (NodeId id : g.order()) {
    auto types = meta.run(id);
    if (!types) return types.error();
    for (size_t i = 0; i < types->size(); ++i) {
      const ValueId v = g.node(id).outputs[i];
      const Type& t = (*types)[i];
      // What the file knew is kept where the run knows nothing.
      const bool vague = t.kind == Type::Kind::Any || (t.isTensor() && !t.tensorInfo.dtype);
      if (!vague && t.kind != Type::Kind::None) g.setType(v, t);
    }
  }
  // A branch gives what both its blocks give. Inner ones come after outer ones in the order.
  const std::vector<NodeId> order = g.order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& n = g.node(*it);
    if (n.op->name != "prim.If" || n.blocks.size() != 2) continue;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const auto& a = g.block(n.blocks[0]).returns[i];
      const auto& b = g.block(n.blocks[1]).returns[i];
      if (a.isValue() && b.isValue() && g.value(a.valueId()).type == g.value(b.valueId()).type)
        g.setType(g.node(*it).outputs[i], g.value(a.valueId()).type);
    }
  }
  return done();
}

}  // namespace graft
