// Norms: (x - mean) / sqrt(variance + eps) * weight + bias, over different dimensions.

#include <array>
#include <cmath>
#include <limits>

#include "core/compile/lower/call.h"
#include "core/compile/lower/operators/statistics.h"

namespace graft::lower {
namespace {

/// y * weight + bias, each where it is given, broadcast to y.
TensorId scaled(Call& c, TensorId y, std::optional<TensorId> weight, std::optional<TensorId> bias, DType gives) {
  Lowering& l = c.l;
  std::vector<TensorId> operands{y};
  if (weight) operands.push_back(*weight);
  if (bias) operands.push_back(*bias);
  return c.pointwise(operands, Sizes(l[y].sizes), gives, gives, 2,
                     [has = weight.has_value(), hasBias = bias.has_value()](std::span<const Scalar> v) {
                       Scalar x = v[0];
                       if (has) x = x * v[1];
                       return hasBias ? x + v[has ? 2 : 1] : x;
                     });
}

std::optional<TensorId> optionalTensor(Call& c, std::string_view parameter) {
  return c.has(parameter) ? std::optional(c.tensor(parameter)) : std::nullopt;
}

TensorId inverseDeviation(Lowering& l, TensorId variance, double eps) {
  return mapped(
      l, variance, 9, l[variance].dtype, [eps](Scalar v) { return 1.0 / sqrt(v + eps); }, "rstd");
}

TensorId centred(Lowering& l, TensorId x, TensorId mean, TensorId rstd, DType d) {
  const std::array operands{x, mean, rstd};
  l.keep(mean);
  l.keep(rstd);
  const Sizes sizes = l[x].sizes;
  return l.define(l[x].name, d, sizes, 2, operands, [&l, x, mean, rstd, sizes](const Index& i) {
    return ((l.scalarAt(x, i) - l.scalar(l.broadcastAt(mean, i, sizes))) * l.scalar(l.broadcastAt(rstd, i, sizes))).id;
  });
}

/// The last dimensions, as many as `normalized_shape` has.
std::vector<size_t> lastDims(Call& c, TensorId x) {
  const size_t n = c.sizeList("normalized_shape").size(), rank = c.rank(x);
  if (n == 0 || n > rank) c.refuse("normalized_shape", "does not fit the tensor's dimensions");
  std::vector<size_t> dims;
  for (size_t d = rank - n; d < rank; ++d) {
    dims.push_back(d);
    c.traits.reducedDims.push_back(static_cast<int64_t>(d));
  }
  return dims;
}

void lowerLayerNorm(Call& c) {
  const DType d = c.floatingType();
  const TensorId x = c.widened(c.tensor("input"), d);
  const std::vector<size_t> dims = lastDims(c, x);
  const Statistics s = statisticsOf(c.l, x, dims, 0);
  const TensorId rstd = inverseDeviation(c.l, s.variance, c.number("eps"));
  const TensorId y = centred(c.l, x, s.mean, rstd, d);
  c.result(scaled(c, y, optionalTensor(c, "weight"), optionalTensor(c, "bias"), d), 0);
  if (c.node.outputs.size() < 3) return;
  c.result(c.widened(s.mean, c.resultType(1)), 1);
  c.result(c.widened(rstd, c.resultType(2)), 2);
}

void lowerRmsNorm(Call& c) {
  const DType d = c.floatingType();
  const TensorId x = c.widened(c.tensor("input"), d);
  const std::vector<size_t> dims = lastDims(c, x);
  // Without a number, the smallest step from 1 in what ATen computes in.
  const double eps = c.has("eps")          ? c.number("eps")
                     : d == DType::Float64 ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon();
  Lowering& l = c.l;
  l.share(x);
  const TensorId squares = mapped(l, x, 1, d, [](Scalar v) { return v * v; });
  const TensorId rstd = inverseDeviation(l, meanOf(l, squares, dims), eps);
  const TensorId y = mappedWith(l, x, rstd, 1, d, [](Scalar v, Scalar r) { return v * r; });
  c.result(scaled(c, y, optionalTensor(c, "weight"), std::nullopt, d));
}

/// A tensor of one element for each channel, as it broadcasts to (batch, channels, …).
std::optional<TensorId> byChannel(Call& c, std::string_view parameter, size_t rank) {
  if (!c.has(parameter)) return std::nullopt;
  const TensorId t = c.tensor(parameter);
  if (c.rank(t) != 1) c.refuse(parameter, "has other than one dimension");
  Sizes sizes(rank - 1, c.l.integer(1));
  sizes[0] = c.sizes(t)[0];
  return c.reshaped(t, sizes);
}

/// Statistics over groups of channels and all places: (batch, groups, channels of a group, …).
struct Grouped {
  TensorId normalized, mean, rstd;
};

/// The channel at place k of a group's. `forChannels`: of the group that a channel belongs to.
ExprId channelAt(Lowering& l, ExprId of, ExprId k, int64_t each, bool forChannels) {
  loops::Simplifier& s = l.simplifier;
  const ExprId group = forChannels ? s.floorDivide(of, l.integer(each)) : of;
  return s.add(s.multiply(group, l.integer(each)), k);
}

/// Statistics of groups of channels, (batch, groups), of an x that is (batch, places …, channels) and lies so in
/// memory. Vectors hold the channels of all groups. Each row of places has a mean of its own, and the squares of what
/// its elements are off by: x is read from memory once. Then rows and channels of a group are joined, as Chan, Golub
/// and LeVeque do (Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979). `forChannels`:
/// each channel has those of its group, (batch, channels).
Statistics statisticsOfGroups(Call& c, TensorId x, int64_t groups, int64_t each, bool forChannels) {
  Lowering& l = c.l;
  const DType d = c.type(x);
  std::vector<size_t> places;
  for (size_t k = 2; k + 1 < c.rank(x); ++k) places.push_back(k);
  const ExprId inRow = countOf(l, x, places);
  const TensorId sums = l.reduce(ReduceKind::Sum, x, places, false);
  const TensorId means = mapped(
      l, sums, 1, d, [&l, inRow](Scalar s) { return s / countAs(l, inRow, s); }, "row_mean");
  const std::array read{x, means};
  const TensorId squares = l.define("square", d, Sizes(c.sizes(x)), 2, read, [&l, x, means](const Index& i) {
    const Scalar off = l.scalarAt(x, i) - l.scalarAt(means, {i[0], i[1], i.back()});
    return (off * off).id;
  });
  const TensorId spreads = l.reduce(ReduceKind::Sum, squares, places, false);

  const Sizes grouped{c.sizes(x)[0], c.sizes(x)[1], l.integer(forChannels ? groups * each : groups), l.integer(each)};
  const std::array<size_t, 2> rows{1, 3};
  const ExprId count = l.simplifier.multiply(inRow, l.simplifier.multiply(grouped[1], grouped[3]));
  const auto divided = [&l, count](Scalar s) { return s / countAs(l, count, s); };
  const TensorId sumsOfGroups = l.view(sums, grouped, [&l, each, forChannels](const Index& i) {
    return Index{i[0], i[1], channelAt(l, i[2], i[3], each, forChannels)};
  });
  const TensorId mean = mapped(l, l.reduce(ReduceKind::Sum, sumsOfGroups, rows, false), 1, d, divided, "mean");
  const std::array parts{spreads, means, mean};
  const TensorId joined = l.define("spread", d, grouped, 4, parts, [=, &l](const Index& i) {
    const Index row{i[0], i[1], channelAt(l, i[2], i[3], each, forChannels)};
    const Scalar off = l.scalarAt(means, row) - l.scalarAt(mean, {i[0], i[2]});
    return (l.scalarAt(spreads, row) + countAs(l, inRow, off) * off * off).id;
  });
  return {mean, mapped(l, l.reduce(ReduceKind::Sum, joined, rows, false), 1, d, divided, "variance")};
}

/// (batch, groups) as (batch, 1 …, channels), with a buffer, so that vectors read it as they read the channels.
/// `forChannels`: it is (batch, channels) already.
TensorId spreadOverChannels(Lowering& l, TensorId of, const Sizes& like, int64_t each, bool forChannels) {
  Sizes sizes(like.size(), l.integer(1));
  sizes.front() = like.front();
  sizes.back() = like.back();
  return l.stored(l.view(of, std::move(sizes), [&l, each, forChannels](const Index& i) {
    return Index{i.front(), forChannels ? i.back() : l.simplifier.floorDivide(i.back(), l.integer(each))};
  }));
}

/// The same for images whose channels lie side by side: a vector along a row of places would be a gather.
Grouped normalizedAlongChannels(Call& c, TensorId image, int64_t groups, int64_t each, double eps) {
  Lowering& l = c.l;
  const size_t rank = c.rank(image);
  std::vector<size_t> order{0}, back{0, rank - 1};
  for (size_t d = 2; d < rank; ++d) {
    order.push_back(d);
    back.push_back(d - 1);
  }
  order.push_back(1);
  const TensorId x = c.permuted(image, order);
  l.repeat(x);
  const Sizes sizes = c.sizes(x);
  // A kernel less to wait for: each channel joins what its group has.
  const bool forChannels = l.machine.isGpu;
  const Statistics s = statisticsOfGroups(c, x, groups, each, forChannels);
  const TensorId centre = spreadOverChannels(l, s.mean, sizes, each, forChannels);
  const TensorId rstd = inverseDeviation(l, s.variance, eps);
  const TensorId y = centred(l, x, centre, spreadOverChannels(l, rstd, sizes, each, forChannels), l[image].dtype);
  const auto ofGroups = [&](TensorId t) {
    if (!forChannels) return t;
    return l.view(t, {sizes[0], l.integer(groups)}, [&l, each](const Index& i) {
      return Index{i[0], l.simplifier.multiply(i[1], l.integer(each))};
    });
  };
  return {c.permuted(y, back), ofGroups(s.mean), ofGroups(rstd)};
}

Grouped normalizedInGroups(Call& c, TensorId x, int64_t groups, double eps) {
  Lowering& l = c.l;
  const Sizes sizes = c.sizes(x);
  const auto channels = l.findNumber(sizes[1]);
  if (!channels || groups < 1 || *channels % groups != 0) c.refuse("the number of channels is not known");
  const int64_t each = *channels / groups;
  if (l[x].fastest == 1 && sizes.size() >= 4 && each < l.machine.channelsTogether)
    return normalizedAlongChannels(c, x, groups, each, eps);
  Sizes apart{sizes[0], l.integer(groups), l.integer(each)};
  apart.insert(apart.end(), sizes.begin() + 2, sizes.end());
  l.share(x);
  const TensorId grouped = c.reshaped(x, apart);
  std::vector<size_t> dims;
  for (size_t d = 2; d < apart.size(); ++d) dims.push_back(d);
  const Statistics s = statisticsOf(l, grouped, dims, 0);
  const TensorId rstd = inverseDeviation(l, s.variance, eps);
  return {c.reshaped(centred(l, grouped, s.mean, rstd, l[x].dtype), sizes), s.mean, rstd};
}

void lowerGroupNorm(Call& c) {
  const DType d = c.floatingType();
  const bool isNative = c.node.findArgument("group") != nullptr;  // aten.native_group_norm
  const TensorId x = c.widened(c.tensor("input"), d);
  const size_t rank = c.rank(x);
  if (rank < 2) c.refuse("input", "has no channels");
  const int64_t groups = c.integer(isNative ? "group" : "num_groups");
  for (size_t k = 1; k < rank; ++k) c.traits.reducedDims.push_back(static_cast<int64_t>(k));
  const Grouped g = normalizedInGroups(c, x, groups, c.number("eps"));
  c.result(scaled(c, g.normalized, byChannel(c, "weight", rank), byChannel(c, "bias", rank), d), 0);
  if (!isNative || c.node.outputs.size() < 3) return;
  const Sizes statistics{c.sizes(x)[0], c.l.integer(groups)};
  c.result(c.widened(c.reshaped(g.mean, statistics), c.resultType(1)), 1);
  c.result(c.widened(c.reshaped(g.rstd, statistics), c.resultType(2)), 2);
}

/// By statistics that are given: no reduction.
TensorId normalizedBy(Call& c, TensorId x, std::string_view mean, std::string_view variance, DType d) {
  const size_t rank = c.rank(x);
  const double eps = c.number("eps");
  const auto m = byChannel(c, mean, rank), v = byChannel(c, variance, rank);
  if (!m || !v) c.refuse(mean, "is None");
  const std::array operands{x, *m, *v};
  // In f32 at least: running statistics often are, where the tensor is f16.
  return c.pointwise(operands, Sizes(c.sizes(x)), d, d, 10,
                     [eps](std::span<const Scalar> s) { return (s[0] - s[1]) * (1.0 / sqrt(s[2] + eps)); });
}

/// By the statistics of each channel of this batch.
TensorId normalizedInBatch(Call& c, TensorId x, DType d) {
  if (c.has("running_mean") || c.has("running_var")) c.refuse("training", "is true, and running statistics are kept");
  c.traits.kind = Kind::Reduction;
  std::vector<size_t> dims;
  for (size_t k = 0; k < c.rank(x); ++k)
    if (k != 1) dims.push_back(k);
  c.traits.reducedDims.assign(dims.begin(), dims.end());
  const TensorId wide = c.widened(x, d);
  const Statistics s = statisticsOf(c.l, wide, dims, 0);
  return centred(c.l, wide, s.mean, inverseDeviation(c.l, s.variance, c.number("eps")), d);
}

void lowerBatchNorm(Call& c) {
  const DType d = c.floatingType();
  const TensorId x = c.tensor("input");
  const size_t rank = c.rank(x);
  if (rank < 2) c.refuse("input", "has no channels");
  const bool trains = c.node.findArgument("training") && c.flag("training");
  const TensorId y = trains ? normalizedInBatch(c, x, d) : normalizedBy(c, x, "running_mean", "running_var", d);
  c.result(scaled(c, y, byChannel(c, "weight", rank), byChannel(c, "bias", rank), d), 0);
  for (size_t k = 1; k < c.node.outputs.size(); ++k)
    if (!c.l.graph.isUnused(c.node.outputs[k])) c.refuse("its statistics are read");
}

/// Its statistics and the new running ones are results: what a training step has in place of writes.
void lowerBatchNormInTraining(Call& c) {
  if (!c.flag("training")) c.refuse("training", "is false");
  if (!c.has("momentum")) c.refuse("momentum", "is None");
  const DType d = c.floatingType();
  const TensorId x = c.widened(c.tensor("input"), d);
  const size_t rank = c.rank(x);
  if (rank < 2) c.refuse("input", "has no channels");
  std::vector<size_t> dims;
  int64_t count = 1;
  for (size_t k = 0; k < rank; ++k) {
    if (k == 1) continue;
    const auto size = c.l.findNumber(c.sizes(x)[k]);
    if (!size) c.refuse("input", "has sizes that vary");
    count *= *size;
    dims.push_back(k);
  }
  if (count < 2) c.refuse("input", "has one value a channel");
  c.traits.reducedDims.assign(dims.begin(), dims.end());
  const Statistics s = statisticsOf(c.l, x, dims, 0);
  TensorId rstd = inverseDeviation(c.l, s.variance, c.number("eps"));
  if (s.isInParts) rstd = c.l.stored(rstd);
  const TensorId y = centred(c.l, x, s.mean, rstd, d);
  c.result(scaled(c, y, byChannel(c, "weight", rank), byChannel(c, "bias", rank), d), 0);
  const Sizes channels{c.sizes(x)[1]};
  c.result(c.widened(c.reshaped(s.mean, channels), c.resultType(1)), 1);
  c.result(c.widened(c.reshaped(rstd, channels), c.resultType(2)), 2);
  const double momentum = c.number("momentum"), unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  const auto moved = [&](std::string_view running, TensorId statistic, double factor, size_t output) {
    const std::array operands{c.tensor(running), c.reshaped(statistic, channels)};
    c.result(
        c.pointwise(operands, Sizes(channels), d, c.resultType(output), 4,
                    [=](std::span<const Scalar> v) { return v[0] * (1.0 - momentum) + v[1] * (momentum * factor); }),
        output);
  };
  moved("running_mean", s.mean, 1, 3);
  moved("running_var", s.variance, unbiased, 4);
}

void lowerInstanceNorm(Call& c) {
  const DType d = c.floatingType();
  const TensorId x = c.widened(c.tensor("input"), d);
  const size_t rank = c.rank(x);
  if (rank < 3) c.refuse("input", "has no places");
  TensorId y;
  if (c.flag("use_input_stats")) {
    if (c.has("running_mean")) c.refuse("running_mean", "is updated");
    std::vector<size_t> dims;
    for (size_t k = 2; k < rank; ++k) {
      dims.push_back(k);
      c.traits.reducedDims.push_back(static_cast<int64_t>(k));
    }
    const Statistics s = statisticsOf(c.l, x, dims, 0);
    y = centred(c.l, x, s.mean, inverseDeviation(c.l, s.variance, c.number("eps")), d);
  } else {
    y = normalizedBy(c, x, "running_mean", "running_var", d);
  }
  c.result(scaled(c, y, byChannel(c, "weight", rank), byChannel(c, "bias", rank), d));
}

// Lengths and distances -----------------------------------------------------------------------------------------------

/// g * v / |v|, the length over all dimensions but one; -1: over all.
void lowerWeightNorm(Call& c) {
  const DType d = c.floatingType();
  const TensorId v = c.tensor("v"), g = c.tensor("g");
  if (c.type(v) != d || c.type(g) != d) c.refuse("v", "has another dtype");
  const int64_t kept = c.integer("dim");
  std::vector<size_t> dims;
  for (size_t k = 0; k < c.rank(v); ++k)
    if (kept == -1 || k != c.dim(kept, c.rank(v), "dim")) dims.push_back(k);
  c.traits.reducedDims.assign(dims.begin(), dims.end());
  Lowering& l = c.l;
  l.share(v);
  const TensorId squares = mapped(l, v, 1, d, [](Scalar x) { return x * x; });
  const TensorId length =
      mapped(l, l.reduce(ReduceKind::Sum, squares, dims, true), 4, d, [](Scalar x) { return sqrt(x); });
  const TensorId scale = c.pointwise(std::array{g, length}, Sizes(l[length].sizes), d, d, 4,
                                     [](std::span<const Scalar> x) { return x[0] / x[1]; });
  c.result(mappedWith(l, v, scale, 1, d, [](Scalar x, Scalar s) { return x * s; }));
}

/// Both operands broadcast to one shape.
std::array<TensorId, 2> bothExpanded(Call& c, DType d) {
  std::array<TensorId, 2> out{c.widened(c.tensor("x1"), d), c.widened(c.tensor("x2"), d)};
  const size_t rank = c.rank(out[0]);
  if (c.rank(out[1]) > rank) c.refuse("x2", "has more dimensions than x1");
  const Sizes common = c.commonSizes(out);
  for (TensorId& t : out)
    if (c.sizes(t) != common) t = c.expanded(t, common);
  return out;
}

void lowerCosineSimilarity(Call& c) {
  const DType d = c.floatingType();
  const double eps = c.number("eps");
  const auto [x, y] = bothExpanded(c, d);
  const std::array dims{c.dimOf(x, "dim")};
  c.traits.reducedDims = {static_cast<int64_t>(dims[0])};
  Lowering& l = c.l;
  l.share(x);
  l.share(y);
  const auto length = [&](TensorId t) {
    const TensorId squares = mapped(l, t, 1, d, [](Scalar v) { return v * v; });
    return mapped(l, l.reduce(ReduceKind::Sum, squares, dims, false), 5, d,
                  [eps](Scalar v) { return maximum(sqrt(v), eps); });
  };
  const TensorId product =
      l.reduce(ReduceKind::Sum, mappedWith(l, x, y, 1, d, [](Scalar a, Scalar b) { return a * b; }), dims, false);
  const std::array operands{product, length(x), length(y)};
  c.result(c.pointwise(operands, Sizes(l[product].sizes), d, d, 5,
                       [](std::span<const Scalar> v) { return v[0] / (v[1] * v[2]); }));
}

/// The length of x1 - x2 + eps along the last dimension.
void lowerPairwiseDistance(Call& c) {
  const DType d = c.floatingType();
  const double p = c.number("p"), eps = c.number("eps");
  if (p != 1 && p != 2) c.refuse("p", "is neither 1 nor 2");
  const auto [x, y] = bothExpanded(c, d);
  if (c.rank(x) == 0) c.refuse("x1", "has no dimension");
  const std::array dims{c.rank(x) - 1};
  c.traits.reducedDims = {static_cast<int64_t>(dims[0])};
  Lowering& l = c.l;
  const TensorId parts = mappedWith(l, x, y, 3, d, [p, eps](Scalar a, Scalar b) {
    const Scalar off = a - b + eps;
    return p == 1 ? abs(off) : off * off;
  });
  const TensorId sum = l.reduce(ReduceKind::Sum, parts, dims, c.flag("keepdim"));
  c.result(p == 1 ? sum : mapped(l, sum, 4, d, [](Scalar v) { return sqrt(v); }));
}

}  // namespace

std::vector<Entry> normOperators() {
  std::vector<Entry> out;
  const auto norm = [&](const char* name, Kind kind, std::function<void(Call&)> build) {
    out.push_back({std::string("aten.") + name, kind, std::move(build)});
  };
  norm("layer_norm.default", Kind::Reduction, lowerLayerNorm);
  norm("native_layer_norm.default", Kind::Reduction, lowerLayerNorm);
  norm("rms_norm.default", Kind::Reduction, lowerRmsNorm);
  norm("group_norm.default", Kind::Reduction, lowerGroupNorm);
  norm("native_group_norm.default", Kind::Reduction, lowerGroupNorm);
  norm("batch_norm.default", Kind::Pointwise, lowerBatchNorm);
  norm("_native_batch_norm_legit_functional.default", Kind::Reduction, lowerBatchNormInTraining);
  norm("_native_batch_norm_legit_no_training.default", Kind::Pointwise, lowerBatchNorm);
  norm("instance_norm.default", Kind::Reduction, lowerInstanceNorm);
  norm("_weight_norm.default", Kind::Reduction, lowerWeightNorm);
  norm("cosine_similarity.default", Kind::Reduction, lowerCosineSimilarity);
  norm("pairwise_distance.default", Kind::Reduction, lowerPairwiseDistance);
  return out;
}

}  // namespace graft::lower
