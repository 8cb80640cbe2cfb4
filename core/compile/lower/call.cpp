#include "core/compile/lower/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace graft::lower {

void Call::refuse(std::string_view parameter, std::string_view why) const {
  throw Refusal{fmt::format("Graft has no loops for {} where {} {}", node.op->name, parameter, why)};
}
void Call::refuse(std::string_view why) const {
  throw Refusal{fmt::format("Graft has no loops for {} where {}", node.op->name, why)};
}

// Arguments ---------------------------------------------------------------------------------------------------------

const Argument& Call::argument(std::string_view parameter) const {
  const Argument* a = node.findArgument(parameter);
  if (!a) throw Refusal{fmt::format("{} has no argument {}", node.op->name, parameter)};
  return *a;
}

const Argument& Call::positional(size_t i) const {
  if (i >= node.args.size()) throw Refusal{fmt::format("{} has no argument {}", node.op->name, i)};
  return node.args[i];
}

bool Call::has(std::string_view parameter) const {
  const Argument* a = node.findArgument(parameter);
  return a && !a->isNone();
}

TensorId Call::tensor(const Argument& a, std::string_view parameter) const {
  if (const auto* b = a.as<bool>()) return l.number(DType::Bool, static_cast<int64_t>(*b));
  if (const auto* i = a.as<int64_t>()) return l.number(DType::Int64, *i);
  if (const auto* d = a.as<double>()) return l.number(DType::Float64, *d);
  const bool isSymbol = a.as<SymbolicInt>() != nullptr;
  if (isSymbol || (a.isValue() && l.graph.value(a.valueId()).type.kind == Type::Kind::Int)) {
    const ExprId size = this->size(a, parameter);
    Tensor t{.name = "number", .dtype = DType::Int64};
    t.element = [size](const Index&) { return size; };
    t.isNumber = true;
    return l.add(std::move(t));
  }
  if (!a.isValue()) refuse(parameter, "is no tensor");
  return l.tensorOf(a.valueId());
}

TensorId Call::tensor(std::string_view parameter) const { return tensor(argument(parameter), parameter); }

std::vector<TensorId> Call::tensors(std::string_view parameter) const {
  const auto* items = argument(parameter).items();
  if (!items) refuse(parameter, "is no list of its elements");
  std::vector<TensorId> out;
  for (const Argument& a : *items) out.push_back(tensor(a, parameter));
  return out;
}

ExprId Call::size(const Argument& a, std::string_view parameter) const {
  if (const auto* i = a.as<int64_t>()) return l.integer(*i);
  if (const auto* s = a.as<SymbolicInt>()) return l.sizeOf(s->expression, node.op->name);
  if (a.isValue()) return l.integerOf(a.valueId());
  refuse(parameter, "is no integer");
}
ExprId Call::size(std::string_view parameter) const { return size(argument(parameter), parameter); }

int64_t Call::known(ExprId e, std::string_view parameter) const {
  // No window or shift is that large; sums and products of a few such numbers fit into 64 bits.
  constexpr int64_t greatest = int64_t{1} << 30;
  const auto n = l.findNumber(e);
  if (!n) refuse(parameter, "is not known");
  if (*n < -greatest || *n > greatest) refuse(parameter, "is too large");
  return *n;
}
int64_t Call::integer(std::string_view parameter) const { return known(size(parameter), parameter); }

std::vector<ExprId> Call::sizeList(std::string_view parameter) const {
  const Argument& a = argument(parameter);
  std::vector<ExprId> out;
  if (const auto* items = a.items())
    for (const Argument& i : *items) out.push_back(size(i, parameter));
  else
    out.push_back(size(a, parameter));
  return out;
}

std::vector<int64_t> Call::integers(std::string_view parameter) const {
  std::vector<int64_t> out;
  for (const ExprId e : sizeList(parameter)) out.push_back(known(e, parameter));
  return out;
}

double Call::number(std::string_view parameter) const {
  const Argument& a = argument(parameter);
  if (const auto n = a.number()) return *n;
  if (a.isValue() || a.as<SymbolicInt>())
    if (const auto n = l.findNumber(size(a, parameter))) return static_cast<double>(*n);
  refuse(parameter, "is no number");
}

bool Call::flag(std::string_view parameter) const {
  const Argument& a = argument(parameter);
  if (const auto* b = a.as<bool>()) return *b;
  if (const auto* i = a.as<int64_t>()) return *i != 0;
  refuse(parameter, "is not known");
}

std::string_view Call::text(std::string_view parameter) const {
  if (const auto* s = argument(parameter).as<std::string>()) return *s;
  refuse(parameter, "is no string");
}

std::optional<DType> Call::dtype(std::string_view parameter) const {
  const Argument& a = argument(parameter);
  if (a.isNone()) return std::nullopt;
  if (const auto* d = a.as<DType>()) return *d;
  refuse(parameter, "is not known");
}

size_t Call::dim(int64_t d, size_t rank, std::string_view parameter) const {
  const auto n = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (d < -n || d >= n) refuse(parameter, fmt::format("is {}, of a tensor with {} dimensions", d, rank));
  return static_cast<size_t>(d < 0 ? d + n : d);
}
size_t Call::dim(std::string_view parameter, size_t rank) const { return dim(integer(parameter), rank, parameter); }

size_t Call::dimOf(TensorId t, std::string_view parameter) const {
  if (rank(t) == 0) refuse(parameter, "names a dimension, and the tensor has none");
  return dim(parameter, rank(t));
}

std::vector<size_t> Call::dims(std::string_view parameter, size_t rank) const {
  std::vector<bool> named(rank);
  if (has(parameter))
    for (const int64_t d : integers(parameter))
      if (rank > 0) named[dim(d, rank, parameter)] = true;
  if (std::find(named.begin(), named.end(), true) == named.end()) named.assign(rank, true);
  std::vector<size_t> out;
  for (size_t d = 0; d < rank; ++d)
    if (named[d]) out.push_back(d);
  return out;
}

// Results -----------------------------------------------------------------------------------------------------------

ValueId Call::output(size_t i) const {
  if (i >= node.outputs.size()) throw Refusal{fmt::format("{} has no output {}", node.op->name, i)};
  return node.outputs[i];
}
DType Call::resultType(size_t i) const { return l.typeOf(output(i)).first; }
DType Call::floatingType() const {
  const DType d = resultType();
  if (!isFloatingPoint(d)) refuse("the result is no floating number");
  return d;
}
Sizes Call::resultSizes(size_t i) const { return l.typeOf(output(i)).second; }
Sizes Call::resultOfRank(size_t rank) const {
  Sizes s = resultSizes();
  if (s.size() != rank) refuse(fmt::format("the result has {} dimensions", s.size()));
  return s;
}
std::string Call::name() const { return node.name; }

void Call::requireType(TensorId t) const {
  if (type(t) != resultType()) refuse("the result has another dtype than the operand");
}

void Call::result(TensorId t, size_t i) {
  if (i >= node.outputs.size()) return;
  const auto [dtype, sizes] = l.typeOf(output(i));
  const Tensor& made = l[t];
  // What the graph says of the result is what its readers count on.
  if (dtype != made.dtype)
    refuse(fmt::format("the result has dtype {} (it would be {})", dtypeName(dtype), dtypeName(made.dtype)));
  if (sizes.size() != made.sizes.size())
    refuse(fmt::format("the result has {} dimensions (it would have {})", sizes.size(), made.sizes.size()));
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto a = l.findNumber(sizes[d]);
    const auto b = l.findNumber(made.sizes[d]);
    if (a && b && *a != *b) refuse(fmt::format("dimension {} of the result is {} (it would be {})", d, *a, *b));
    if (sizes[d] != made.sizes[d] && !(a && b) && !l.isOne(sizes[d]))
      if (const auto bounds = l.simplifier.bounds(l.simplifier.subtract(sizes[d], made.sizes[d]));
          bounds.min != 0 || bounds.max != 0)
        refuse(fmt::format("dimension {} of the result is another size than its operands make it", d));
  }
  traits.cost = std::max(traits.cost, made.cost);
  l.setTensor(output(i), t);
}

// What several families make ----------------------------------------------------------------------------------------

TensorId Call::pointwise(std::span<const TensorId> operands, Sizes sizes, DType compute, DType gives, double cost,
                         Formula formula, size_t linear) const {
  for (const TensorId o : operands) {
    const Tensor& t = l[o];
    const size_t skip = sizes.size() - t.sizes.size();
    if (t.sizes.size() > sizes.size()) refuse("an operand has more dimensions than the result");
    bool spreads = skip > 0;
    for (size_t d = 0; d < t.sizes.size(); ++d) {
      if (t.sizes[d] == sizes[skip + d]) continue;
      if (!l.isOne(t.sizes[d])) refuse("nothing says whether an operand's size is the result's or 1");
      spreads = true;
    }
    if (!spreads) continue;
    if (t.cost > 4 * cheapCost) l.repeat(o);
    l.keep(o);
  }
  Lowering& lowering = l;
  std::vector<TensorId> all(operands.begin(), operands.end());
  const size_t jumpsFrom = node.op->is(OperatorFact::Jumps) ? linear : all.size();
  return l.define(name(), gives, sizes, cost, operands,
                  [&lowering, all, sizes, compute, gives, jumpsFrom, formula = std::move(formula)](const Index& i) {
                    std::vector<Scalar> values;
                    values.reserve(all.size());
                    for (const TensorId o : all) {
                      const Scalar x = lowering.convert(lowering.scalar(lowering.broadcastAt(o, i, sizes)),
                                                        lowering[o].dtype, compute);
                      values.push_back(values.size() < jumpsFrom ? x : lowering.rounded(x, compute));
                    }
                    return formula(values).to(computeType(gives)).id;
                  });
}

TensorId Call::pointwise(std::initializer_list<TensorId> operands, DType compute, DType gives, double cost,
                         Formula formula, size_t linear) const {
  return pointwise(std::span(operands.begin(), operands.size()), resultSizes(), compute, gives, cost,
                   std::move(formula), linear);
}

TensorId Call::widened(TensorId t, DType to) const {
  const DType from = type(t);
  if (from == to) return t;
  Lowering& lowering = l;
  return l.define(l[t].name, to, sizes(t), 0, std::span(&t, 1), [&lowering, t, from, to](const Index& i) {
    return lowering.convert(lowering.scalarAt(t, i), from, to).id;
  });
}

TensorId Call::cast(TensorId t, DType to) const {
  const DType from = type(t);
  if (from == to) return t;
  Lowering& lowering = l;
  return l.define(name(), to, sizes(t), 1, std::span(&t, 1), [&lowering, t, from, to](const Index& i) {
    // From one half to the other, the first rounding counts too.
    const Scalar x =
        isFloatingPoint(to) && isHalf(from) ? lowering.rounded(lowering.scalarAt(t, i), from) : lowering.scalarAt(t, i);
    return lowering.rounded(lowering.convert(x, from, to), to).id;
  });
}

TensorId Call::expanded(TensorId t, Sizes to) const {
  const Sizes& from = sizes(t);
  if (from.size() > to.size()) refuse("the result has fewer dimensions");
  const size_t skip = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d)
    if (from[d] != to[skip + d] && !l.isOne(from[d])) refuse("nothing says whether a size is the result's or 1");
  if (l[t].cost > 4 * cheapCost) l.repeat(t);
  l.keep(t);
  Lowering& lowering = l;
  return l.define(l[t].name, type(t), to, 0, std::span(&t, 1),
                  [&lowering, t, to](const Index& i) { return lowering.broadcastAt(t, i, to); });
}

Sizes Call::commonSizes(std::span<const TensorId> tensors) const {
  size_t most = 0;
  for (const TensorId t : tensors) most = std::max(most, rank(t));
  Sizes out(most, l.integer(1));
  for (const TensorId t : tensors)
    for (size_t d = 0; d < rank(t); ++d)
      if (ExprId& size = out[most - rank(t) + d]; l.isOne(size)) size = sizes(t)[d];
  return out;
}

TensorId Call::permuted(TensorId t, std::span<const size_t> order) const {
  std::vector<bool> seen(rank(t));
  for (const size_t d : order) {
    if (seen[d]) refuse("a dimension is named twice");
    seen[d] = true;
  }
  if (order.size() != rank(t)) refuse("not each dimension is named");
  Sizes to;
  for (const size_t d : order) to.push_back(sizes(t)[d]);
  const TensorId out =
      l.view(t, std::move(to), [order = std::vector<size_t>(order.begin(), order.end())](const Index& i) {
        Index source(i.size());
        for (size_t d = 0; d < i.size(); ++d) source[order[d]] = i[d];
        return source;
      });
  if (const auto fastest = l[t].fastest)
    l.setFastest(out, static_cast<size_t>(std::find(order.begin(), order.end(), *fastest) - order.begin()));
  return out;
}

std::vector<ExprId> Call::constants(std::span<const int64_t> numbers) const {
  std::vector<ExprId> out;
  for (const int64_t n : numbers) out.push_back(l.integer(n));
  return out;
}

ExprId Call::combination(Lowering& l, ReduceKind kind, std::span<const ExprId> extents,
                         const std::function<ExprId(const Index&)>& element) {
  std::vector<RangeId> ranges;
  Index offsets;
  for (const ExprId extent : extents) {
    if (l.isOne(extent)) {
      offsets.push_back(l.integer(0));
      continue;
    }
    ranges.push_back(l.program.addRange("r" + std::to_string(l.program.ranges.size()), extent));
    offsets.push_back(l.pool().range(ranges.back()));
  }
  const ExprId body = element(offsets);
  if (!ranges.empty()) return l.pool().reduce(kind, std::move(ranges), body);
  return loops::isPlace(kind) ? l.integer(0) : body;
}

TensorId Call::combined(ReduceKind kind, DType d, Sizes sizes, std::vector<ExprId> extents,
                        std::function<ExprId(const Index&, const Index&)> element) const {
  Lowering& lowering = l;
  Tensor t;
  t.name = name();
  t.dtype = d;
  t.sizes = std::move(sizes);
  t.form = Tensor::Form::Reduction;
  t.cost = 1;
  t.element = [&lowering, kind, extents = std::move(extents), element = std::move(element)](const Index& i) {
    return combination(lowering, kind, extents, [&](const Index& offsets) { return element(i, offsets); });
  };
  return l.add(std::move(t));
}

TensorId Call::reshaped(TensorId t, Sizes to) const {
  // Runs of dimensions whose products are the same on both sides: each is taken apart by itself.
  struct Run {
    std::vector<size_t> from, to;
  };
  const Sizes from = sizes(t);
  std::vector<Run> runs;
  std::vector<size_t> a, b;  // dimensions other than 1
  for (size_t d = 0; d < from.size(); ++d)
    if (!l.isOne(from[d])) a.push_back(d);
  for (size_t d = 0; d < to.size(); ++d)
    if (!l.isOne(to[d])) b.push_back(d);
  loops::Simplifier& s = l.simplifier;
  const auto known = [&](ExprId e) { return l.findNumber(e) ? *l.findNumber(e) : -1; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    Run run{{a[i]}, {b[j]}};
    ExprId p = from[a[i++]], q = to[b[j++]];
    while (p != q) {
      const int64_t m = known(p), n = known(q);
      const bool takeFrom = m >= 0 && n >= 0 ? m < n : b.size() - j <= a.size() - i;
      if ((takeFrom || j >= b.size()) && i < a.size()) {
        run.from.push_back(a[i]);
        p = s.multiply(p, from[a[i++]]);
      } else if (j < b.size()) {
        run.to.push_back(b[j]);
        q = s.multiply(q, to[b[j++]]);
      } else {
        break;
      }
    }
    runs.push_back(std::move(run));
  }
  // What is left belongs to the last run: sizes 0 and products that only together are the same.
  if (runs.empty() && (i < a.size() || j < b.size())) runs.emplace_back();
  for (; i < a.size(); ++i) runs.back().from.push_back(a[i]);
  for (; j < b.size(); ++j) runs.back().to.push_back(b[j]);

  Lowering& lowering = l;
  return l.view(t, to, [&lowering, from, to, runs](const Index& index) {
    loops::Simplifier& simplify = lowering.simplifier;
    Index source(from.size(), lowering.integer(0));
    for (const Run& run : runs) {
      if (run.from.size() == 1 && run.to.size() == 1) {
        source[run.from[0]] = index[run.to[0]];
        continue;
      }
      ExprId place = lowering.integer(0);
      for (const size_t d : run.to) place = simplify.add(simplify.multiply(place, to[d]), index[d]);
      for (size_t k = run.from.size(); k-- > 0;) {
        const size_t d = run.from[k];
        if (const auto n = lowering.findNumber(from[d]); n && *n == 0) continue;  // nobody reads an element
        if (k == 0) {
          source[d] = place;
          break;
        }
        source[d] = simplify.remainder(place, from[d]);
        place = simplify.floorDivide(place, from[d]);
      }
    }
    return source;
  });
}

// Promotion ---------------------------------------------------------------------------------------------------------

namespace {

int category(DType d) { return d == DType::Bool ? 0 : isFloatingPoint(d) ? 2 : 1; }

}  // namespace

DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (category(a) == 2) {
    if (isHalf(a) && isHalf(b)) return DType::Float32;
    return dtypeSize(a) > dtypeSize(b) ? a : b;
  }
  // An unsigned and a signed integer: a signed one that holds both.
  if (dtypeSize(a) != dtypeSize(b)) return dtypeSize(a) > dtypeSize(b) ? a : b;
  return DType::Int16;  // u8 and i8
}

DType promoted(const Lowering& l, std::span<const TensorId> operands) {
  std::optional<DType> dims, scalars, numbers;
  for (const TensorId o : operands) {
    const Tensor& t = l[o];
    DType d = t.dtype;
    if (t.isNumber && isFloatingPoint(d)) d = DType::Float32;  // PyTorch's default dtype
    auto& group = t.isNumber ? numbers : t.sizes.empty() ? scalars : dims;
    group = group ? promoted(*group, d) : d;
  }
  const auto combined = [](std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher || !lower) return higher ? higher : lower;
    if (isFloatingPoint(*higher)) return higher;
    return *higher == DType::Bool || isFloatingPoint(*lower) ? std::optional(promoted(*higher, *lower)) : higher;
  };
  return combined(dims, combined(scalars, numbers)).value_or(DType::Float32);
}

// The table ---------------------------------------------------------------------------------------------------------

namespace {

const std::unordered_map<std::string_view, Entry>& table() {
  static const std::unordered_map<std::string_view, Entry> all = [] {
    static std::vector<Entry> entries;  // what the names look at
    for (const auto family :
         {pointwiseOperators, activationOperators, specialOperators, castOperators, viewOperators, joinOperators,
          reductionOperators, normOperators, gradientOperators, lossOperators, lookupOperators, scatterOperators,
          orderOperators, factoryOperators, windowOperators, resamplingOperators, sizeOperators, productOperators})
      for (Entry& e : family()) entries.push_back(std::move(e));
    std::unordered_map<std::string_view, Entry> out;
    for (const Entry& e : entries) {
      [[maybe_unused]] const bool isNew = out.emplace(e.name, e).second;
      assert(isNew && "two families lower one operator");
    }
    return out;
  }();
  return all;
}

}  // namespace

const Entry* findEntry(std::string_view name) {
  const auto it = table().find(name);
  return it == table().end() ? nullptr : &it->second;
}

std::vector<LoweredOperator> loweredOperators() {
  std::vector<LoweredOperator> out;
  for (const auto& [name, entry] : table()) out.push_back({std::string(name), entry.kind});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

}  // namespace graft::lower
