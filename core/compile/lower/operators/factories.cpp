// Tensors that no tensor's elements go into.

#include "core/compile/lower/call.h"

namespace graft::lower {
namespace {

/// A tensor of the result's dtype and shape, of a formula of the index.
void setFactory(Call& c, std::function<Scalar(const Index&)> element) {
  const DType d = c.resultType();
  c.result(c.l.define(c.name(), d, c.resultSizes(), 1, {},
                      [d, element = std::move(element)](const Index& i) { return element(i).to(computeType(d)).id; }));
}

void lowerConstant(Call& c, double value) {
  Lowering& l = c.l;
  const DType d = c.resultType();
  setFactory(c, [&l, d, value](const Index&) { return l.scalar(l.constant(d, value)); });
}

/// The number may be an integer of sizes, or a tensor without dimensions.
void lowerFilled(Call& c, std::string_view parameter) {
  const TensorId value = c.tensor(parameter);
  if (c.rank(value) != 0) c.refuse(parameter, "has dimensions");
  const DType d = c.resultType(), from = c.type(value);
  Lowering& l = c.l;
  setFactory(c, [&l, value, from, d](const Index&) { return l.rounded(l.convert(l.scalarAt(value, {}), from, d), d); });
}

/// As PyTorch numbers what a dropout draws on a GPU: see graft::dropoutUniform().
void lowerDropoutMask(Call& c) {
  const int64_t row = c.integer("row"), vector = c.integer("vector"), threads = c.integer("threads");
  if (vector < 4 || vector % 4 != 0) c.refuse("vector", "is no multiple of 4");
  if (threads < 1) c.refuse("threads", "is not positive");
  const double kept = 1.0 - c.number("p");
  const TensorId states = c.tensor("states");
  if (c.type(states) != DType::Int64 || c.rank(states) != 2) c.refuse("states", "is not i64 of two dimensions");
  const int64_t draws = c.known(c.sizes(states)[0], "states");
  if (row < 0 || row >= draws) c.refuse("row", "is none of the draws");
  const Sizes sizes = c.resultSizes();
  Lowering& l = c.l;
  const auto mask = [&l, states, sizes, row, vector, threads, kept](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const auto number = [&](int64_t n) { return l.integer(n); };
    ExprId e = number(0);
    for (size_t d = 0; d < i.size(); ++d) e = s.add(s.multiply(e, sizes[d]), i[d]);
    const ExprId chunk = s.floorDivide(e, number(vector)), inside = s.remainder(e, number(vector));
    const ExprId first = l.scalarAt(states, {number(row), number(1)}).id;
    const ExprId block = s.add(first, s.add(s.multiply(s.floorDivide(chunk, number(threads)), number(vector / 4)),
                                            s.floorDivide(inside, number(4))));
    const ExprId drawn = l.pool().uniform(l.scalarAt(states, {number(row), number(0)}).id,
                                          s.remainder(chunk, number(threads)), block, s.remainder(e, number(4)));
    return l.scalar(drawn) < l.scalar(l.pool().number(DType::Float32, kept));
  };
  c.result(l.define(c.name(), DType::Bool, sizes, 30, {}, [mask](const Index& i) { return mask(i).id; }));
}

bool isWhole(const Argument& a, const Lowering& l) {
  return a.as<int64_t>() || a.as<SymbolicInt>() ||
         (a.isValue() && l.graph.value(a.valueId()).type.kind == Type::Kind::Int);
}

void lowerArange(Call& c) {
  (void)c.resultOfRank(1);
  const DType d = c.resultType();
  const bool hasStart = c.node.findArgument("start") != nullptr, hasStep = c.node.findArgument("step") != nullptr;
  Lowering& l = c.l;
  const bool whole = (!hasStart || isWhole(c.argument("start"), l)) && (!hasStep || isWhole(c.argument("step"), l));
  if (whole) {
    const ExprId start = hasStart ? c.size("start") : l.integer(0), step = hasStep ? c.size("step") : l.integer(1);
    setFactory(c, [&l, start, step, d](const Index& i) {
      const ExprId n = l.simplifier.add(start, l.simplifier.multiply(i[0], step));
      return l.convert(l.scalar(n), DType::Int64, d);
    });
    return;
  }
  const auto rational = [&](std::string_view parameter) {
    const TensorId t = c.tensor(parameter);  // a size may be among them
    if (c.rank(t) != 0) c.refuse(parameter, "is no number");
    return l.scalarAt(t, {}).to(DType::Float64).id;
  };
  const ExprId first = hasStart ? rational("start") : l.pool().number(DType::Float64, 0.0);
  const ExprId each = hasStep ? rational("step") : l.pool().number(DType::Float64, 1.0);
  if (!isFloatingPoint(d)) {
    // Of integers, ATen cuts off start and step before it counts.
    const Scalar from = l.scalar(first).to(DType::Int64), by = l.scalar(each).to(DType::Int64);
    setFactory(c, [&l, from, by, d](const Index& i) { return l.convert(from + l.scalar(i[0]) * by, DType::Int64, d); });
    return;
  }
  setFactory(c, [&l, first, each](const Index& i) {
    const Scalar start = l.scalar(first), step = l.scalar(each);
    return start + l.scalar(i[0]).to(DType::Float64) * step;  // as ATen: in f64, then rounded
  });
}

void lowerLinspace(Call& c) {
  (void)c.resultOfRank(1);
  const DType d = c.resultType();
  if (!isFloatingPoint(d)) c.refuse("dtype", "has whole numbers");
  const double start = c.number("start"), end = c.number("end");
  const ExprId steps = c.size("steps");
  Lowering& l = c.l;
  setFactory(c, [&l, start, end, steps, d](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const DType compute = computeType(d);
    const ExprId last = s.subtract(steps, l.integer(1));
    if (l.isOne(steps)) return l.scalar(l.pool().number(compute, start));
    const Scalar place = l.scalar(i[0]).to(compute);
    const Scalar left = l.scalar(s.subtract(last, i[0])).to(compute);
    const auto count = l.findNumber(last);
    const Scalar step = count ? place.number((end - start) / static_cast<double>(*count))
                              : place.number(end - start) / maximum(l.scalar(last).to(compute), 1.0);
    // The start is the one element where steps is 1.
    const Scalar isFirstHalf =
        l.scalar(s.compare(Op::Less, i[0], s.maximum(s.floorDivide(steps, l.integer(2)), l.integer(1))));
    return where(isFirstHalf, start + step * place, end - step * left);
  });
}

void lowerEye(Call& c) {
  (void)c.resultOfRank(2);
  Lowering& l = c.l;
  setFactory(c, [&l](const Index& i) { return l.scalar(l.simplifier.compare(Op::Equal, i[0], i[1])); });
}

}  // namespace

std::vector<Entry> factoryOperators() {
  std::vector<Entry> out;
  const auto factory = [&](const char* name, std::function<void(Call&)> build) {
    out.push_back({std::string("aten.") + name, Kind::Factory, std::move(build)});
  };
  for (const char* name : {"zeros.default", "zeros_like.default", "new_zeros.default"})
    factory(name, [](Call& c) { lowerConstant(c, 0); });
  for (const char* name : {"ones.default", "ones_like.default", "new_ones.default"})
    factory(name, [](Call& c) { lowerConstant(c, 1); });
  for (const char* name : {"full.default", "full_like.default", "new_full.default"})
    factory(name, [](Call& c) { lowerFilled(c, "fill_value"); });
  for (const char* name : {"fill.Scalar", "fill.Tensor"}) factory(name, [](Call& c) { lowerFilled(c, "value"); });
  factory("scalar_tensor.default", [](Call& c) { lowerFilled(c, "s"); });
  for (const char* name : {"arange.default", "arange.start", "arange.start_step"}) factory(name, lowerArange);
  factory("linspace.default", lowerLinspace);
  factory("eye.default", lowerEye);
  factory("eye.m", lowerEye);
  out.push_back({"graft.dropout_mask.default", Kind::Factory, lowerDropoutMask});
  return out;
}

}  // namespace graft::lower
