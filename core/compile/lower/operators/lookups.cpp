// Elements at places that other elements say. A place outside is an error of the run, as in PyTorch.

#include <algorithm>

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
      {"aten.index_select.default", Kind::Gather, repeating(lowerIndexSelect)},
      {"aten.gather.default", Kind::Gather, repeating([](Call& c) { lowerGather(c, "index"); })},
      {"aten.take_along_dim.default", Kind::Gather, repeating([](Call& c) { lowerGather(c, "indices"); })},
      {"aten.index.Tensor", Kind::Gather, repeating(lowerIndex)},
      {"aten.take.default", Kind::Gather, repeating(lowerTake)},
      {"aten.one_hot.default", Kind::Pointwise, lowerOneHot},
  };
}

}  // namespace graft::lower
