// Elements at places that other elements say. A place outside is an error of the run, as in PyTorch.

#include <algorithm>
#include <array>
#include <limits>

#include "core/compile/lower/call.h"
#include "core/compile/lower/operators/places.h"

namespace graft::lower {

void requireIndices(Call& c, TensorId indices, std::string_view parameter) {
  const DType d = c.type(indices);
  if (isFloatingPoint(d) || d == DType::Bool || d == DType::UInt8) c.refuse(parameter, "has no whole numbers");
}

ExprId placeOf(Lowering& l, ExprId element, ExprId size, bool wraps) {
  loops::Simplifier& s = l.simplifier;
  ExprId at = s.simplify(l.pool().cast(element, DType::Int64));
  if (wraps) at = s.select(s.compare(Op::Less, at, l.integer(0)), s.add(at, size), at);
  if (s.isAlwaysLessOrEqual(l.integer(0), at) && s.isAlwaysLess(at, size)) return at;
  return l.pool().checkedIndex(at, size);
}

namespace {

void lowerEmbedding(Call& c) {
  const TensorId weight = c.tensor("weight"), indices = c.tensor("indices");
  requireIndices(c, indices, "indices");
  if (c.rank(weight) != 2) c.refuse("weight", "has other than two dimensions");
  c.l.repeat(weight);
  Lowering& l = c.l;
  c.result(l.define(c.name(), c.type(weight), c.resultOfRank(c.rank(indices) + 1), 2, std::span(&weight, 1),
                    [&l, weight, indices](Index i) {
                      const ExprId column = i.back();
                      i.pop_back();
                      return l.at(weight, {placeOf(l, l.at(indices, i), l[weight].sizes[0], false), column});
                    }));
}

constexpr int64_t mostInBags = 64, mostBagReads = 4096;

/// The sum, mean or maximum of the rows of each bag: those from its offset to the next one. Where a bag ends is data,
/// so each bag looks through all indices.
void lowerEmbeddingBag(Call& c) {
  const TensorId weight = c.tensor("weight"), indices = c.tensor("indices"), offsets = c.tensor("offsets");
  const DType d = c.floatingType();
  if (c.rank(weight) != 2 || c.type(weight) != d) c.refuse("weight", "is no table of the result's dtype");
  requireIndices(c, indices, "indices");
  requireIndices(c, offsets, "offsets");
  if (c.rank(indices) != 1 || c.rank(offsets) != 1) c.refuse("indices", "has other than one dimension");
  for (size_t k = 1; k < c.node.outputs.size(); ++k)
    if (!c.l.graph.isUnused(c.node.outputs[k])) c.refuse("more than its bags is read");
  Lowering& l = c.l;
  const Sizes sizes = c.resultOfRank(2);
  const auto count = l.findNumber(c.sizes(indices)[0]), bags = l.findNumber(sizes[0]);
  if (!count || !bags) c.refuse("indices", "has a number that varies");
  if (*count > mostInBags || *count * *bags > mostBagReads)
    c.refuse("indices", "has more places than are worth looking through for each bag");
  const int64_t mode = c.integer("mode");
  if (mode < 0 || mode > 2) c.refuse("mode", "is none that PyTorch has");
  std::optional<TensorId> scale;
  if (c.has("per_sample_weights")) scale = c.tensor("per_sample_weights");
  std::optional<int64_t> padding;
  const auto rows = l.findNumber(c.sizes(weight)[0]);
  if (c.node.findArgument("padding_idx") && c.has("padding_idx")) {
    padding = c.integer("padding_idx");
    if (*padding < 0 && !rows) c.refuse("padding_idx", "counts from an end that varies");
    if (*padding < 0) *padding += *rows;
  }
  const int64_t last = c.flag("include_last_offset") ? *bags : *bags - 1;
  l.repeat(weight);
  c.traits.repeatsReads = true;
  const auto place = [&l, indices](ExprId k) {
    return l.simplifier.simplify(l.pool().cast(l.at(indices, {k}), DType::Int64));
  };
  const auto isIn = [&l, offsets, place, padding, n = *count, last](ExprId bag, ExprId k) {
    loops::Simplifier& s = l.simplifier;
    const auto offset = [&](ExprId at) {
      // The first one has to be 0, and none lies behind the indices.
      const ExprId most = s.select(s.compare(Op::Equal, at, l.integer(0)), l.integer(1), l.integer(n + 1));
      return l.pool().checkedIndex(s.simplify(l.pool().cast(l.at(offsets, {at}), DType::Int64)), most);
    };
    const ExprId next = s.add(bag, l.integer(1));
    const ExprId hasNext = s.compare(Op::LessEqual, next, l.integer(last));
    const ExprId end = s.select(hasNext, offset(s.minimum(next, l.integer(last))), l.integer(n));
    ExprId in = s.logicalAnd(s.compare(Op::LessEqual, offset(bag), k), s.compare(Op::Less, k, end));
    if (padding) in = s.logicalAnd(in, s.compare(Op::NotEqual, place(k), l.integer(*padding)));
    return in;
  };
  const double lowest = -std::numeric_limits<double>::infinity();
  const ReduceKind kind = mode == 2 ? ReduceKind::Maximum : ReduceKind::Sum;
  const TensorId all =
      c.combined(kind, d, sizes, {l.integer(*count)},
                 [&l, weight, scale, place, isIn, kind, lowest](const Index& i, const Index& k) {
                   Scalar row = l.scalarAt(weight, {placeOf(l, place(k[0]), l[weight].sizes[0], false), i[1]});
                   if (scale) row = row * l.convert(l.scalarAt(*scale, {k[0]}), l[*scale].dtype, l[weight].dtype);
                   const ExprId none = l.constant(l[weight].dtype, kind == ReduceKind::Maximum ? lowest : 0);
                   return l.simplifier.select(isIn(i[0], k[0]), row.id, none);
                 });
  if (mode == 0) {
    c.result(all);
    return;
  }
  const TensorId counts = c.combined(ReduceKind::Sum, DType::Int64, {sizes[0]}, {l.integer(*count)},
                                     [&l, isIn](const Index& i, const Index& k) {
                                       return l.simplifier.select(isIn(i[0], k[0]), l.integer(1), l.integer(0));
                                     });
  const std::array operands{all, counts};
  c.result(l.define(c.name(), d, sizes, 4, operands, [&l, all, counts, mode](const Index& i) {
    const Scalar n = l.scalarAt(counts, {i[0]}), value = l.scalarAt(all, i);
    if (mode == 2) return where(n > 0.0, value, value.number(0)).id;
    return (value / l.convert(maximum(n, 1.0), DType::Int64, value.dtype())).id;
  }));
}

void lowerIndexSelect(Call& c) {
  const TensorId x = c.tensor("self"), indices = c.tensor("index");
  requireIndices(c, indices, "index");
  if (c.rank(x) == 0 || c.rank(indices) != 1) c.refuse("index", "has other than one dimension");
  const size_t dim = c.dim("dim", c.rank(x));
  c.l.repeat(x);
  Lowering& l = c.l;
  c.result(
      l.define(c.name(), c.type(x), c.resultOfRank(c.rank(x)), 2, std::span(&x, 1), [&l, x, indices, dim](Index i) {
        i[dim] = placeOf(l, l.at(indices, {i[dim]}), l[x].sizes[dim], false);
        return l.at(x, i);
      }));
}

void lowerGather(Call& c, std::string_view parameter) {
  const TensorId x = c.tensor("self");
  TensorId indices = c.tensor(parameter);
  requireIndices(c, indices, parameter);
  if (!c.has("dim")) c.refuse("dim", "is None");
  if (c.rank(x) == 0 || c.rank(x) != c.rank(indices)) c.refuse(parameter, "has other dimensions than self");
  const size_t dim = c.dim("dim", c.rank(x));
  const Sizes sizes = c.resultOfRank(c.rank(x));
  const bool broadcasts = parameter == "indices";  // take_along_dim
  if (broadcasts) indices = c.expanded(indices, sizes);
  c.l.repeat(x);
  Lowering& l = c.l;
  c.result(l.define(c.name(), c.type(x), sizes, 2, std::span(&x, 1),
                    [&l, x, indices, dim, sizes, broadcasts](const Index& i) {
                      Index source = i;
                      source[dim] = placeOf(l, l.at(indices, i), l[x].sizes[dim], false);
                      if (broadcasts)
                        for (size_t d = 0; d < source.size(); ++d)
                          if (d != dim && l.isOne(l[x].sizes[d])) source[d] = l.integer(0);
                      return l.at(x, source);
                    }));
}

/// x[i, :, j]: tensors of places that broadcast against each other. Their dimensions stand where the first of them
/// does, or in front where a slice is between.
void lowerIndex(Call& c) {
  const TensorId x = c.tensor("self");
  const auto* items = c.argument("indices").items();
  if (!items || items->size() > c.rank(x)) c.refuse("indices", "is no list of tensors");
  Lowering& l = c.l;
  std::vector<std::optional<TensorId>> given(c.rank(x));
  size_t first = c.rank(x), last = 0, rank = 0;
  for (size_t d = 0; d < items->size(); ++d) {
    if ((*items)[d].isNone()) continue;
    given[d] = c.tensor((*items)[d], "indices");
    requireIndices(c, *given[d], "indices");
    first = std::min(first, d);
    last = d;
    rank = std::max(rank, c.rank(*given[d]));
  }
  if (first == c.rank(x)) c.refuse("indices", "has no tensor");
  bool isTogether = true;
  for (size_t d = first; d <= last; ++d) isTogether = isTogether && given[d].has_value();
  const size_t front = isTogether ? first : 0;
  const auto left = static_cast<size_t>(std::count(given.begin(), given.end(), std::nullopt));
  const Sizes sizes = c.resultOfRank(left + rank);
  const Sizes common(sizes.begin() + static_cast<std::ptrdiff_t>(front),
                     sizes.begin() + static_cast<std::ptrdiff_t>(front + rank));
  std::vector<TensorId> read{x};
  for (auto& t : given) {
    if (!t) continue;
    t = c.expanded(*t, common);
    read.push_back(*t);
  }
  l.repeat(x);
  c.result(l.define(c.name(), c.type(x), sizes, 2, read, [&l, x, given, front, rank](const Index& i) {
    const Index within(i.begin() + static_cast<std::ptrdiff_t>(front),
                       i.begin() + static_cast<std::ptrdiff_t>(front + rank));
    Index source;
    size_t next = 0;  // of the result's dimensions that are self's
    for (size_t d = 0; d < given.size(); ++d) {
      if (given[d]) {
        source.push_back(placeOf(l, l.at(*given[d], within), l[x].sizes[d], true));
        continue;
      }
      if (next == front) next += rank;
      source.push_back(i[next++]);
    }
    return l.at(x, source);
  }));
}

/// Elements at places of the flattened tensor.
void lowerTake(Call& c) {
  const TensorId x = c.tensor("self"), indices = c.tensor("index");
  requireIndices(c, indices, "index");
  Lowering& l = c.l;
  l.repeat(x);
  const ExprId count = l.product(c.sizes(x));
  const TensorId flat = c.reshaped(x, {count});
  c.result(l.define(
      c.name(), c.type(x), Sizes(c.sizes(indices)), 2, std::span(&x, 1),
      [&l, flat, indices, count](const Index& i) { return l.at(flat, {placeOf(l, l.at(indices, i), count, true)}); }));
}

void lowerOneHot(Call& c) {
  const TensorId x = c.tensor("self");
  requireIndices(c, x, "self");
  const int64_t classes = c.integer("num_classes");
  if (classes < 1) c.refuse("num_classes", "follows from the elements");
  Lowering& l = c.l;
  c.result(
      l.define(c.name(), DType::Int64, c.resultOfRank(c.rank(x) + 1), 2, std::span(&x, 1), [&l, x, classes](Index i) {
        const ExprId column = i.back();
        i.pop_back();
        const ExprId place = placeOf(l, l.at(x, i), l.integer(classes), false);
        return l.pool().cast(l.simplifier.compare(Op::Equal, place, column), DType::Int64);
      }));
}

}  // namespace

std::vector<Entry> lookupOperators() {
  const auto repeating = [](std::function<void(Call&)> build) {
    return [build = std::move(build)](Call& c) {
      c.traits.repeatsReads = true;
      build(c);
    };
  };
  return {
      {"aten.embedding.default", Kind::Gather, repeating(lowerEmbedding)},
      {"aten.embedding_bag.default", Kind::Gather, lowerEmbeddingBag},
      {"aten.embedding_bag.padding_idx", Kind::Gather, lowerEmbeddingBag},
      {"aten.index_select.default", Kind::Gather, repeating(lowerIndexSelect)},
      {"aten.gather.default", Kind::Gather, repeating([](Call& c) { lowerGather(c, "index"); })},
      {"aten.take_along_dim.default", Kind::Gather, repeating([](Call& c) { lowerGather(c, "indices"); })},
      {"aten.index.Tensor", Kind::Gather, repeating(lowerIndex)},
      {"aten.take.default", Kind::Gather, repeating(lowerTake)},
      {"aten.one_hot.default", Kind::Pointwise, lowerOneHot},
  };
}

}  // namespace graft::lower
