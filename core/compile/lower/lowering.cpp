#include "core/compile/lower/lowering.h"

#include <fmt/format.h>

#include <limits>

#include "core/compile/lower/call.h"

namespace graft::lower {

bool isHalf(DType d) { return d == DType::Float16 || d == DType::BFloat16; }

DType computeType(DType d) {
  switch (d) {
    case DType::Float16:
    case DType::BFloat16:
      return DType::Float32;
    case DType::UInt8:
    case DType::Int8:
    case DType::Int16:
    case DType::Int32:
    case DType::Int64:
    case DType::Float32:
    case DType::Float64:
    case DType::Bool:
      return d;
    default:
      throw Refusal{fmt::format("it computes with dtype {}", dtypeName(d))};
  }
}

Scalar isNan(Scalar x) { return isFloatingPoint(x.dtype()) ? x != x : x.with(x.pool->boolean(false)); }
Scalar isInfinite(Scalar x) {
  if (!isFloatingPoint(x.dtype())) return x.with(x.pool->boolean(false));
  return abs(x) == std::numeric_limits<double>::infinity();
}

Lowering::Lowering(const Graph& g, const Machine& m, std::set<RowsAndColumns> rowsToo)
    : graph(g), machine(m), simplifier(program), rowsToo_(std::move(rowsToo)) {}

size_t Lowering::KeyHash::operator()(const Key& k) const {
  uint64_t h = k.tensor.index * 0x9e3779b97f4a7c15U;
  for (const ExprId e : k.index) h = (h ^ e.index) * 0x9e3779b97f4a7c15U ^ h >> 29;
  return h;
}

// Values of the graph ---------------------------------------------------------------------------------------------

TensorId Lowering::addInput(ValueId v) {
  auto [dtype, sizes] = typeOf(v);
  computeType(dtype);  // refuses
  const std::string& name = graph.value(v).name;
  const loops::BufferId buffer = program.addBuffer(name, dtype, sizes, loops::Buffer::Role::Input);
  const std::optional<size_t> last = sizes.empty() ? std::nullopt : std::optional(sizes.size() - 1);
  const TensorId t = add({.name = name,
                          .dtype = dtype,
                          .sizes = std::move(sizes),
                          .form = Tensor::Form::Input,
                          .cost = 1,
                          .buffer = buffer,
                          .fastest = last});
  inputs_.emplace(buffer, t);
  setTensor(v, t);
  return t;
}

std::optional<size_t> Lowering::fastestOf(const Sizes& sizes, std::span<const int64_t> strides) const {
  std::optional<size_t> fastest;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (d >= strides.size() || strides[d] == 0 || isOne(sizes[d])) continue;
    if (!fastest || strides[d] < strides[*fastest]) fastest = d;
  }
  return fastest;
}

void Lowering::setFastest(TensorId input, std::span<const int64_t> strides) {
  Tensor& t = values_[input.index];
  t.fastest = fastestOf(t.sizes, strides);
}

void Lowering::setFastest(loops::BufferId result, std::span<const int64_t> strides) {
  if (const auto fastest = fastestOf(program.buffer(result).sizes, strides)) fastestOfResults_[result] = *fastest;
}

size_t Lowering::fastestOf(loops::BufferId b) const {
  if (const auto at = fastestOfResults_.find(b); at != fastestOfResults_.end()) return at->second;
  const Sizes& sizes = program.buffer(b).sizes;
  const auto input = inputs_.find(b);
  if (input != inputs_.end())
    if (const auto fastest = values_[input->second.index].fastest) return *fastest;
  // The last one that is not 1.
  for (size_t d = sizes.size(); d-- > 0;)
    if (!isOne(sizes[d])) return d;
  return 0;
}

void Lowering::setFastestAs(TensorId t, TensorId other) {
  Tensor& to = values_[t.index];
  const Tensor& from = values_[other.index];
  if (!to.fastest && to.sizes.size() == from.sizes.size()) to.fastest = from.fastest;
}

void Lowering::addIntegerInput(ValueId v) {
  // A number of its own, even where a symbol has the same name.
  const std::string& name = graph.value(v).name;
  loops::Size size;
  size.name = sizeName(graph.findSymbol(name) ? name + "_given" : name);
  size.min = std::numeric_limits<int64_t>::min();
  unreadIntegers_.emplace(v, program.addSize(std::move(size)));
}

TensorId Lowering::tensorOf(ValueId v) {
  if (const auto it = tensors_.find(v); it != tensors_.end()) return it->second;
  return addInput(v);
}

ExprId Lowering::integerOf(ValueId v) {
  if (const auto it = integers_.find(v); it != integers_.end()) return it->second;
  if (graph.value(v).type.kind != Type::Kind::Int)
    throw Refusal{fmt::format("%{} is no integer, but {}", graph.value(v).name, toString(graph.value(v).type))};
  if (!unreadIntegers_.contains(v)) addIntegerInput(v);
  const auto unread = unreadIntegers_.extract(v);
  program.sizes[unread.mapped().index].min = 0;
  setInteger(v, pool().size(unread.mapped()));
  return integers_.at(v);
}

const TensorList& Lowering::listOf(ValueId v) {
  if (const auto it = lists_.find(v); it != lists_.end()) return it->second;
  const Value& value = graph.value(v);
  if (value.kind == Value::Kind::Output) lowerNode(graph.node(value.producer));
  const auto it = lists_.find(v);
  if (it == lists_.end()) throw Refusal{fmt::format("%{} is no list of tensors", value.name)};
  return it->second;
}

void Lowering::lowerNode(const Node& node, Traits* traits) {
  const Entry* entry = findEntry(node.op->name);
  if (!entry) throw Refusal{fmt::format("Graft has no loops for {}", node.op->name)};
  Traits own;
  Traits& t = traits ? *traits : own;
  t.kind = entry->kind;
  origin_ = node.id.index + 1;
  Call call{*this, node, t};
  entry->build(call);
  t.takesRowsApart = hasParts_;
}

// Tensors -----------------------------------------------------------------------------------------------------------

TensorId Lowering::add(Tensor t) {
  if (t.form != Tensor::Form::Input) t.origin = origin_;
  values_.push_back(std::move(t));
  return TensorId(static_cast<uint32_t>(values_.size() - 1));
}

TensorId Lowering::define(std::string_view name, DType dtype, Sizes sizes, double cost,
                          std::span<const TensorId> operands, std::function<ExprId(const Index&)> element) {
  computeType(dtype);  // refuses
  std::optional<size_t> fastest;
  for (const TensorId o : operands) {
    const Tensor& t = values_[o.index];
    cost += t.form == Tensor::Form::Inline || t.form == Tensor::Form::Shared ? t.cost : 1;
    if (!fastest && t.fastest && t.sizes == sizes) fastest = t.fastest;
  }
  return add({.name = std::string(name),
              .dtype = dtype,
              .sizes = std::move(sizes),
              .element = std::move(element),
              .cost = cost,
              .fastest = fastest});
}

TensorId Lowering::view(TensorId of, Sizes sizes, std::function<Index(const Index&)> source) {
  return define(values_[of.index].name, values_[of.index].dtype, std::move(sizes), 0, std::span(&of, 1),
                [this, of, source = std::move(source)](const Index& i) { return at(of, source(i)); });
}

TensorId Lowering::number(DType dtype, double value) {
  Tensor t{.name = "number", .dtype = dtype};
  t.element = [this, dtype, value](const Index&) { return pool().number(computeType(dtype), value); };
  t.isNumber = true;
  return add(std::move(t));
}

TensorId Lowering::number(DType dtype, int64_t value) {
  Tensor t{.name = "number", .dtype = dtype};
  t.element = [this, dtype, value](const Index&) { return pool().number(computeType(dtype), value); };
  t.isNumber = true;
  return add(std::move(t));
}

TensorId Lowering::stored(TensorId of) {
  return add({.name = values_[of.index].name,
              .dtype = values_[of.index].dtype,
              .sizes = values_[of.index].sizes,
              .element = [this, of](const Index& i) { return at(of, i); },
              .form = Tensor::Form::Repeated,
              .cost = cheapCost + 1});
}

TensorId Lowering::scan(ReduceKind kind, TensorId body, size_t dim) {
  Tensor t{.name = "scan",
           .dtype = values_[body.index].dtype,
           .sizes = values_[body.index].sizes,
           .element = [this, body](const Index& i) { return at(body, i); },
           .form = Tensor::Form::Scan,
           .cost = 1,
           .scanDim = dim,
           .scanKind = kind};
  return add(std::move(t));
}

void Lowering::share(TensorId t) {
  Tensor& v = values_[t.index];
  if (v.form == Tensor::Form::Inline && v.cost > cheapCost) v.form = Tensor::Form::Shared;
}

void Lowering::repeat(TensorId t) {
  Tensor& v = values_[t.index];
  if ((v.form == Tensor::Form::Inline || v.form == Tensor::Form::Shared) && v.cost > cheapCost)
    v.form = Tensor::Form::Repeated;
}

void Lowering::keep(TensorId t) {
  Tensor& v = values_[t.index];
  if (v.form == Tensor::Form::Inline && v.cost > 1) v.form = Tensor::Form::Shared;
}

void Lowering::keepResult(TensorId t) {
  keep(t);
  Tensor& v = values_[t.index];
  v.isResult = v.form == Tensor::Form::Shared && !machine.isGpu && v.dtype == computeType(v.dtype);
}

ExprId Lowering::definition(TensorId t, const Index& i) {
  const Key key{t, i};
  if (const auto it = elements_.find(key); it != elements_.end()) return it->second;
  const auto element = values_[t.index].element;  // a copy: computing may add tensors
  const loops::ExprPool::MadeFor origin(pool(), values_[t.index].origin);
  const ExprId e = element(i);
  elements_.emplace(key, e);
  // A load is an element of the tensor that it loads.
  if (!isHalf(values_[t.index].dtype) && pool()[e].op != Op::Load) wide_.insert(e);
  return e;
}

ExprId Lowering::at(TensorId t, const Index& i) {
  const Tensor& v = values_[t.index];
  if (v.form == Tensor::Form::Inline) return definition(t, i);
  const DType compute = computeType(v.dtype);
  if (v.form == Tensor::Form::Input) return pool().cast(pool().load(v.buffer, i, v.dtype), compute);
  if (!v.buffer) {
    const loops::BufferId whole = program.addBuffer(fmt::format("{}_{}", v.name, program.buffers.size()), compute,
                                                    v.sizes, loops::Buffer::Role::Temporary);
    values_[t.index].buffer = whole;
    buffers_.emplace(whole, t);
  }
  return pool().load(values_[t.index].buffer, i, compute);
}

TensorId Lowering::tensorOfBuffer(loops::BufferId b) const {
  const auto it = buffers_.find(b);
  return it == buffers_.end() ? TensorId() : it->second;
}

TensorId Lowering::inputOf(loops::BufferId b) const {
  const auto it = inputs_.find(b);
  return it == inputs_.end() ? TensorId() : it->second;
}

ExprId Lowering::broadcastAt(TensorId t, const Index& i, const Sizes& to) {
  const Sizes& sizes = values_[t.index].sizes;
  Index source(sizes.size());
  const size_t skip = i.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d)
    source[d] = isOne(sizes[d]) && !isOne(to[skip + d]) ? integer(0) : i[skip + d];
  return at(t, source);
}

Scalar Lowering::rounded(Scalar x, DType d) {
  if (!isHalf(d)) return x;
  const loops::Expr& e = pool()[x.id];
  if (e.op == Op::Cast && pool()[e.operands[0]].dtype == d) return x;
  return x.to(d).to(x.dtype());
}

Scalar Lowering::convert(Scalar x, DType from, DType to) {
  if (from == to) return x;
  const DType target = computeType(to);
  if (isHalf(from) && !isHalf(to)) x = rounded(x, from);  // PyTorch converts what is in memory
  const loops::Expr& e = pool()[x.id];
  if (e.op == Op::Constant && isFloatingPoint(target)) return scalar(pool().number(target, pool().constant(x.id)));
  if (const auto n = findNumber(x.id); n && (target == DType::Int64 || target == DType::Bool || target == DType::Int32))
    return scalar(pool().number(target, target == DType::Int32 ? static_cast<int64_t>(static_cast<int32_t>(*n)) : *n));
  return x.to(target);
}

bool Lowering::isOne(ExprId size) const {
  const auto n = findNumber(size);
  return n && *n == 1;
}

ExprId Lowering::product(std::span<const ExprId> sizes) {
  ExprId p = integer(1);
  for (const ExprId s : sizes) p = simplifier.multiply(p, s);
  return p;
}

}  // namespace graft::lower
