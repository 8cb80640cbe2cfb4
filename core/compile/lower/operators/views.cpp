// Views and copies in another order: the same elements under another index.

#include <algorithm>
#include <limits>

#include "core/compile/lower/call.h"

namespace graft::lower {
namespace {

void lowerReshape(Call& c) { c.result(c.reshaped(c.tensor(c.positional(0), "self"), c.resultSizes())); }
void lowerExpand(Call& c) { c.result(c.expanded(c.tensor(c.positional(0), "self"), c.resultSizes())); }

void lowerPermute(Call& c) {
  const TensorId x = c.tensor("self");
  std::vector<size_t> order;
  for (const int64_t d : c.integers("dims")) order.push_back(c.dim(d, c.rank(x), "dims"));
  if (order.size() != c.rank(x)) c.refuse("dims", "does not name each dimension");
  c.result(c.permuted(x, order));
}

std::vector<size_t> identityOrder(size_t rank) {
  std::vector<size_t> order(rank);
  for (size_t d = 0; d < rank; ++d) order[d] = d;
  return order;
}

void lowerTranspose(Call& c) {
  const TensorId x = c.tensor("self");
  std::vector<size_t> order = identityOrder(c.rank(x));
  if (!order.empty()) std::swap(order[c.dim("dim0", order.size())], order[c.dim("dim1", order.size())]);
  c.result(c.permuted(x, order));
}

void lowerLastTwo(Call& c) {
  const TensorId x = c.tensor("self");
  std::vector<size_t> order = identityOrder(c.rank(x));
  if (order.size() >= 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
  c.result(c.permuted(x, order));
}

void lowerReversed(Call& c) {
  const TensorId x = c.tensor("self");
  std::vector<size_t> order = identityOrder(c.rank(x));
  std::reverse(order.begin(), order.end());
  c.result(c.permuted(x, order));
}

void lowerMovedim(Call& c) {
  const TensorId x = c.tensor("self");
  const size_t rank = c.rank(x);
  if (rank == 0) return c.result(c.permuted(x, {}));
  const std::vector<int64_t> from = c.integers("source"), to = c.integers("destination");
  if (from.size() != to.size()) c.refuse("destination", "is another number of dimensions than source");
  constexpr size_t open = std::numeric_limits<size_t>::max();
  std::vector<size_t> order(rank, open);
  std::vector<bool> moved(rank);
  for (size_t k = 0; k < from.size(); ++k) {
    const size_t d = c.dim(from[k], rank, "source");
    order[c.dim(to[k], rank, "destination")] = d;
    moved[d] = true;
  }
  size_t next = 0;
  for (size_t& d : order) {
    if (d != open) continue;
    while (next < rank && moved[next]) ++next;
    if (next == rank) c.refuse("destination", "names a dimension twice");
    d = next++;
  }
  c.result(c.permuted(x, order));
}

/// Where a slice begins. `length`: how long it is.
ExprId sliceStart(Call& c, ExprId size, ExprId length, bool isToTheEnd, int64_t step) {
  loops::Simplifier& s = c.l.simplifier;
  if (!c.has("start")) return c.l.integer(0);
  // Of a slice to the end, what is left says it, whatever the sizes turn out to be.
  if (isToTheEnd && step == 1) return s.subtract(size, length);
  const ExprId start = c.size("start");
  if (const auto n = c.l.findNumber(start)) {
    if (*n < 0) return s.maximum(s.add(size, start), c.l.integer(0));
    if (*n == 0) return start;
    if (const auto least = s.bounds(size).min; least && *least >= *n) return start;
    return s.minimum(start, size);
  }
  const auto bounds = s.bounds(start);
  if (!bounds.min || *bounds.min < 0) c.refuse("start", "may be negative");
  return s.minimum(start, size);
}

void lowerSlice(Call& c) {
  const TensorId x = c.tensor("self");
  const size_t dim = c.dimOf(x, "dim");
  const int64_t step = c.integer("step");
  const ExprId size = c.sizes(x)[dim];
  const Sizes sizes = c.resultOfRank(c.rank(x));
  bool isToTheEnd = !c.has("end");
  if (!isToTheEnd)
    if (const auto end = c.l.findNumber(c.size("end"))) {
      const auto most = c.l.simplifier.bounds(size).max;
      isToTheEnd = *end == std::numeric_limits<int64_t>::max() || (*end >= 0 && most && *end >= *most);
    }
  const ExprId start = sliceStart(c, size, sizes[dim], isToTheEnd, step);
  Lowering& l = c.l;
  c.result(l.view(x, sizes, [&l, dim, start, step](Index i) {
    i[dim] = l.simplifier.add(start, l.simplifier.multiply(i[dim], l.integer(step)));
    return i;
  }));
}

/// The index `at` along `dim`, that dimension gone.
TensorId selected(Lowering& l, TensorId x, size_t dim, ExprId at, Sizes sizes) {
  return l.view(x, std::move(sizes), [dim, at](Index i) {
    i.insert(i.begin() + static_cast<std::ptrdiff_t>(dim), at);
    return i;
  });
}

void lowerSelect(Call& c) {
  const TensorId x = c.tensor("self");
  const size_t dim = c.dimOf(x, "dim");
  const ExprId size = c.sizes(x)[dim];
  ExprId at = c.size("index");
  loops::Simplifier& s = c.l.simplifier;
  const auto bounds = s.bounds(at);
  if (bounds.max && *bounds.max < 0)
    at = s.add(at, size);
  else if (!bounds.min || *bounds.min < 0)
    c.refuse("index", "may be negative");
  if (!s.isAlwaysLess(at, size) || !s.isAlwaysLessOrEqual(c.l.integer(0), at)) at = c.l.pool().checkedIndex(at, size);
  c.result(selected(c.l, x, dim, at, c.resultOfRank(c.rank(x) - 1)));
}

void lowerNarrow(Call& c) {
  const TensorId x = c.tensor("self");
  const size_t dim = c.dimOf(x, "dim");
  ExprId start = c.size("start");
  loops::Simplifier& s = c.l.simplifier;
  const auto bounds = s.bounds(start);
  if (bounds.max && *bounds.max < 0)
    start = s.add(start, c.sizes(x)[dim]);
  else if (!bounds.min || *bounds.min < 0)
    c.refuse("start", "may be negative");
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x)), [&l, dim, start](Index i) {
    i[dim] = l.simplifier.add(start, i[dim]);
    return i;
  }));
}

void lowerDiagonal(Call& c) {
  const TensorId x = c.tensor("self");
  const int64_t offset = c.integer("offset");
  const size_t a = c.dim("dim1", c.rank(x)), b = c.dim("dim2", c.rank(x));
  if (a == b) c.refuse("dim2", "is dim1");
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x) - 1), [&l, offset, a, b](const Index& i) {
    Index source;
    for (size_t d = 0, next = 0; d < i.size() + 1; ++d) {
      if (d == a)
        source.push_back(l.simplifier.add(i.back(), l.integer(std::max<int64_t>(0, -offset))));
      else if (d == b)
        source.push_back(l.simplifier.add(i.back(), l.integer(std::max<int64_t>(0, offset))));
      else
        source.push_back(i[next++]);
    }
    return source;
  }));
}

void lowerUnfold(Call& c) {
  const TensorId x = c.tensor("self");
  const size_t dim = c.dim("dimension", c.rank(x));
  const int64_t step = c.integer("step");
  if (c.rank(x) == 0) c.refuse("self", "has no dimension");
  c.traits.repeatsReads = true;
  c.l.repeat(x);
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x) + 1), [&l, dim, step](Index i) {
    const ExprId within = i.back();
    i.pop_back();
    i[dim] = l.simplifier.add(l.simplifier.multiply(i[dim], l.integer(step)), within);
    return i;
  }));
}

void lowerFlip(Call& c) {
  const TensorId x = c.tensor("self");
  std::vector<size_t> dims;
  for (const int64_t d : c.integers("dims")) dims.push_back(c.dim(d, c.rank(x), "dims"));
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x)), [&l, x, dims](Index i) {
    for (const size_t d : dims)
      if (d < i.size()) i[d] = l.simplifier.subtract(l.simplifier.subtract(l[x].sizes[d], l.integer(1)), i[d]);
    return i;
  }));
}

TensorId rolled(Lowering& l, TensorId x, const std::vector<std::pair<size_t, int64_t>>& shifts) {
  return l.view(x, Sizes(l[x].sizes), [&l, x, shifts](Index i) {
    for (const auto& [dim, shift] : shifts) {
      const ExprId size = l[x].sizes[dim];
      const auto n = l.findNumber(size);
      if (n && *n == 0) continue;
      const int64_t by = n ? (*n - shift % *n) % *n : -shift;
      i[dim] = l.simplifier.remainder(l.simplifier.add(i[dim], l.integer(by)), size);
    }
    return i;
  });
}

void lowerRoll(Call& c) {
  const TensorId x = c.tensor("self");
  const std::vector<int64_t> shifts = c.integers("shifts");
  const std::vector<int64_t> dims = c.has("dims") ? c.integers("dims") : std::vector<int64_t>();
  if (dims.empty()) {
    if (shifts.size() != 1) c.refuse("shifts", "is not one number");
    const TensorId flat = c.reshaped(x, {c.l.product(c.sizes(x))});
    c.result(c.reshaped(rolled(c.l, flat, {{0, shifts[0]}}), c.resultSizes()));
    return;
  }
  if (dims.size() != shifts.size()) c.refuse("dims", "is another number of dimensions than shifts");
  std::vector<std::pair<size_t, int64_t>> pairs;
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t d = c.dim(dims[k], c.rank(x), "dims");
    if (c.rank(x) > 0) pairs.emplace_back(d, shifts[k]);
  }
  c.result(rolled(c.l, x, pairs));
}

void lowerRepeat(Call& c) {
  const TensorId x = c.tensor("self");
  const Sizes sizes = c.resultSizes();
  if (sizes.size() < c.rank(x)) c.refuse("the result has fewer dimensions");
  if (c.l[x].cost > 4 * cheapCost) c.l.repeat(x);
  Lowering& l = c.l;
  c.result(l.view(x, sizes, [&l, x, sizes](const Index& i) {
    const Sizes& from = l[x].sizes;
    const size_t skip = i.size() - from.size();
    Index source(from.size());
    for (size_t d = 0; d < from.size(); ++d) {
      const auto n = l.findNumber(from[d]);
      source[d] = from[d] == sizes[skip + d] ? i[skip + d]
                  : n && *n <= 1             ? l.integer(0)
                                             : l.simplifier.remainder(i[skip + d], from[d]);
    }
    return source;
  }));
}

void lowerRepeatInterleave(Call& c) {
  const TensorId x = c.tensor("self");
  const int64_t times = c.integer("repeats");
  if (times < 1) c.refuse("repeats", "is less than 1");
  const TensorId base = c.has("dim") ? x : c.reshaped(x, {c.l.product(c.sizes(x))});
  const size_t dim = c.has("dim") ? c.dimOf(x, "dim") : 0;
  if (c.l[x].cost > 4 * cheapCost) c.l.repeat(base);
  Lowering& l = c.l;
  c.result(l.view(base, c.resultOfRank(c.rank(base)), [&l, dim, times](Index i) {
    i[dim] = l.simplifier.floorDivide(i[dim], l.integer(times));
    return i;
  }));
}

void lowerPixelShuffle(Call& c) {
  const TensorId x = c.tensor("self");
  const int64_t r = c.integer("upscale_factor");
  if (c.rank(x) < 3) c.refuse("self", "has fewer than three dimensions");
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x)), [&l, r](Index i) {
    loops::Simplifier& s = l.simplifier;
    const size_t n = i.size();
    const ExprId factor = l.integer(r);
    const ExprId h = i[n - 2], w = i[n - 1];
    i[n - 3] =
        s.add(s.multiply(s.add(s.multiply(i[n - 3], factor), s.remainder(h, factor)), factor), s.remainder(w, factor));
    i[n - 2] = s.floorDivide(h, factor);
    i[n - 1] = s.floorDivide(w, factor);
    return i;
  }));
}

void lowerPixelUnshuffle(Call& c) {
  const TensorId x = c.tensor("self");
  const int64_t r = c.integer("downscale_factor");
  if (c.rank(x) < 3) c.refuse("self", "has fewer than three dimensions");
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x)), [&l, r](Index i) {
    loops::Simplifier& s = l.simplifier;
    const size_t n = i.size();
    const ExprId factor = l.integer(r), channel = i[n - 3];
    const ExprId above = s.floorDivide(channel, factor);
    i[n - 3] = s.floorDivide(above, factor);
    i[n - 2] = s.add(s.multiply(i[n - 2], factor), s.remainder(above, factor));
    i[n - 1] = s.add(s.multiply(i[n - 1], factor), s.remainder(channel, factor));
    return i;
  }));
}

void lowerChannelShuffle(Call& c) {
  const TensorId x = c.tensor("self");
  const int64_t groups = c.integer("groups");
  if (c.rank(x) < 2) c.refuse("self", "has no channels");
  const auto channels = c.l.findNumber(c.sizes(x)[1]);
  if (!channels || groups < 1) c.refuse("self", "has a number of channels that is not known");
  const int64_t each = *channels / groups;
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x)), [&l, groups, each](Index i) {
    loops::Simplifier& s = l.simplifier;
    i[1] = s.add(s.multiply(s.remainder(i[1], l.integer(groups)), l.integer(each)),
                 s.floorDivide(i[1], l.integer(groups)));
    return i;
  }));
}

/// A quarter turn, k times: one dimension backwards, then both exchanged.
void lowerQuarterTurns(Call& c) {
  const TensorId x = c.tensor("self");
  const std::vector<int64_t> dims = c.integers("dims");
  if (dims.size() != 2) c.refuse("dims", "are not two");
  const size_t a = c.dim(dims[0], c.rank(x), "dims"), b = c.dim(dims[1], c.rank(x), "dims");
  const int64_t turns = ((c.integer("k") % 4) + 4) % 4;
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x)), [&l, x, a, b, turns](Index i) {
    if (turns % 2 == 1) std::swap(i[a], i[b]);
    for (const size_t d : {a, b}) {
      if (turns != 2 && (turns == 0 || d != (turns == 1 ? b : a))) continue;
      i[d] = l.simplifier.subtract(l.simplifier.subtract(l[x].sizes[d], l.integer(1)), i[d]);
    }
    return i;
  }));
}

/// The last dimension along a diagonal of two, zeros beside it.
void lowerDiagonalEmbedding(Call& c) {
  const TensorId x = c.tensor("self");
  const size_t rank = c.rank(x) + 1;
  if (rank < 2) c.refuse("self", "has no dimension");
  const size_t row = c.dim("dim1", rank), column = c.dim("dim2", rank);
  if (row == column) c.refuse("dim1", "is dim2");
  const int64_t offset = c.integer("offset");
  const DType d = c.resultType();
  Lowering& l = c.l;
  c.result(
      l.define(c.name(), d, c.resultOfRank(rank), 1, std::span(&x, 1), [&l, x, row, column, offset, d](const Index& i) {
        loops::Simplifier& s = l.simplifier;
        const ExprId expected = s.add(i[row], l.integer(offset));
        Index source;
        for (size_t k = 0; k < i.size(); ++k)
          if (k != row && k != column) source.push_back(i[k]);
        source.push_back(offset < 0 ? i[column] : i[row]);
        return s.select(s.compare(Op::Equal, i[column], expected), l.at(x, source), l.constant(d, 0));
      }));
}

// Lists ---------------------------------------------------------------------------------------------------------

/// Pieces of `base` along `dim`, the k-th from start(k) on.
void setPieces(Call& c, TensorId base, size_t dim, std::function<ExprId(size_t)> start) {
  Lowering& l = c.l;
  l.setList(c.output(), {[&l, base, dim, start = std::move(start)](size_t k, const std::string&, DType, Sizes sizes) {
              if (sizes.size() != l[base].sizes.size()) throw Refusal{"a piece has another number of dimensions"};
              const ExprId first = start(k);
              return l.view(base, std::move(sizes), [&l, dim, first](Index i) {
                i[dim] = l.simplifier.add(first, i[dim]);
                return i;
              });
            }});
}

void lowerSplit(Call& c) {
  const TensorId x = c.tensor("self");
  const ExprId each = c.size("split_size");
  Lowering& l = c.l;
  setPieces(c, x, c.dimOf(x, "dim"),
            [&l, each](size_t k) { return l.simplifier.multiply(l.integer(static_cast<int64_t>(k)), each); });
}

void lowerSplitWithSizes(Call& c) {
  const TensorId x = c.tensor("self");
  std::vector<ExprId> starts{c.l.integer(0)};
  for (const ExprId n : c.sizeList("split_sizes")) starts.push_back(c.l.simplifier.add(starts.back(), n));
  setPieces(c, x, c.dimOf(x, "dim"), [starts](size_t k) {
    if (k + 1 >= starts.size()) throw Refusal{"it takes a piece that is not there"};
    return starts[k];
  });
}

void lowerChunk(Call& c) {
  const TensorId x = c.tensor("self");
  const int64_t chunks = c.integer("chunks");
  const size_t dim = c.dimOf(x, "dim");
  if (chunks < 1 || c.rank(x) == 0) c.refuse("chunks", "is less than 1");
  loops::Simplifier& s = c.l.simplifier;
  const ExprId each = s.floorDivide(s.add(c.sizes(x)[dim], c.l.integer(chunks - 1)), c.l.integer(chunks));
  Lowering& l = c.l;
  setPieces(c, x, dim,
            [&l, each](size_t k) { return l.simplifier.multiply(l.integer(static_cast<int64_t>(k)), each); });
}

void lowerTensorSplit(Call& c) {
  const TensorId x = c.tensor("self");
  const int64_t sections = c.integer("sections");
  const size_t dim = c.dimOf(x, "dim");
  if (sections < 1 || c.rank(x) == 0) c.refuse("sections", "is less than 1");
  const auto size = c.l.findNumber(c.sizes(x)[dim]);
  if (!size) c.refuse("self", "has a size along dim that varies");
  const int64_t each = *size / sections, longer = *size % sections;
  Lowering& l = c.l;
  setPieces(c, x, dim, [&l, each, longer](size_t k) {
    const auto n = static_cast<int64_t>(k);
    return l.integer(n * each + std::min(n, longer));
  });
}

/// Pieces between places that numbers say; a negative one counts from the end, as in a slice.
void lowerTensorSplitAt(Call& c) {
  const TensorId x = c.tensor("self");
  const size_t dim = c.dimOf(x, "dim");
  const auto size = c.l.findNumber(c.sizes(x)[dim]);
  if (!size) c.refuse("self", "has a size along dim that varies");
  std::vector<int64_t> starts{0};
  for (const int64_t at : c.integers("indices"))
    starts.push_back(std::clamp<int64_t>(at < 0 ? at + *size : at, 0, *size));
  Lowering& l = c.l;
  setPieces(c, x, dim, [&l, starts](size_t k) {
    if (k >= starts.size()) throw Refusal{"it takes a piece that is not there"};
    return l.integer(starts[k]);
  });
}

void lowerUnbind(Call& c) {
  const TensorId x = c.tensor("self");
  const size_t dim = c.dimOf(x, "dim");
  Lowering& l = c.l;
  l.setList(c.output(), {[&l, x, dim](size_t k, const std::string&, DType, Sizes sizes) {
              if (sizes.size() + 1 != l[x].sizes.size()) throw Refusal{"a piece has another number of dimensions"};
              return selected(l, x, dim, l.integer(static_cast<int64_t>(k)), std::move(sizes));
            }});
}

void setTensors(Call& c, std::vector<TensorId> tensors) {
  c.l.setList(c.output(), {[tensors = std::move(tensors)](size_t k, const std::string&, DType, const Sizes&) {
                if (k >= tensors.size()) throw Refusal{"it takes a tensor that is not there"};
                return tensors[k];
              }});
}

void lowerBroadcastTensors(Call& c) {
  std::vector<TensorId> tensors = c.tensors("tensors");
  const Sizes common = c.commonSizes(tensors);
  for (TensorId& t : tensors) t = c.expanded(t, common);
  setTensors(c, std::move(tensors));
}

/// Each vector along a dimension of its own; with "xy", the first two dimensions change places.
void lowerMeshgrid(Call& c) {
  std::vector<TensorId> tensors = c.tensors("tensors");
  const bool swaps = c.node.findArgument("indexing") && c.text("indexing") == "xy" && tensors.size() > 1;
  const auto dimOf = [swaps](size_t k) { return swaps && k < 2 ? 1 - k : k; };
  Sizes sizes(tensors.size(), c.l.integer(1));
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (c.rank(tensors[k]) > 1) c.refuse("tensors", "has other than vectors");
    if (c.rank(tensors[k]) == 1) sizes[dimOf(k)] = c.sizes(tensors[k])[0];
  }
  for (size_t k = 0; k < tensors.size(); ++k) {
    Sizes along(sizes.size(), c.l.integer(1));
    along[dimOf(k)] = sizes[dimOf(k)];
    tensors[k] = c.expanded(c.reshaped(tensors[k], std::move(along)), sizes);
  }
  setTensors(c, std::move(tensors));
}

void lowerGetItem(Call& c) {
  const Argument& list = c.positional(0);
  if (!list.isValue()) c.refuse("list", "is no list of pieces");
  const auto index = c.l.findNumber(c.size(c.positional(1), "index"));
  if (!index || *index < 0) c.refuse("index", "is not known, or negative");
  const int64_t k = *index;
  auto [dtype, sizes] = c.l.typeOf(c.output());
  c.result(c.l.listOf(list.valueId()).piece(static_cast<size_t>(k), c.name(), dtype, std::move(sizes)));
}

}  // namespace

std::vector<Entry> viewOperators() {
  std::vector<Entry> out;
  const auto view = [&](const char* name, std::function<void(Call&)> build) {
    out.push_back({std::string("aten.") + name, Kind::View, std::move(build)});
  };
  for (const char* name :
       {"view.default", "reshape.default", "flatten.using_ints", "unflatten.int", "_unsafe_view.default",
        "ravel.default", "reshape_as.default", "view_as.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
        "unsqueeze.default", "atleast_1d.default", "atleast_2d.default", "atleast_3d.default"})
    view(name, lowerReshape);
  for (const char* name : {"expand.default", "expand_as.default", "broadcast_to.default"}) view(name, lowerExpand);
  view("permute.default", lowerPermute);
  view("transpose.int", lowerTranspose);
  view("t.default", lowerLastTwo);
  view("mT.default", lowerLastTwo);
  view("numpy_T.default", lowerReversed);
  view("movedim.int", lowerMovedim);
  view("movedim.intlist", lowerMovedim);
  view("slice.Tensor", lowerSlice);
  view("select.int", lowerSelect);
  view("narrow.default", lowerNarrow);
  view("diagonal.default", lowerDiagonal);
  view("unfold.default", lowerUnfold);
  view("flip.default", lowerFlip);
  view("roll.default", lowerRoll);
  view("repeat.default", lowerRepeat);
  view("tile.default", lowerRepeat);
  view("repeat_interleave.self_int", lowerRepeatInterleave);
  view("pixel_shuffle.default", lowerPixelShuffle);
  view("pixel_unshuffle.default", lowerPixelUnshuffle);
  view("channel_shuffle.default", lowerChannelShuffle);
  view("split.Tensor", lowerSplit);
  view("split_with_sizes.default", lowerSplitWithSizes);
  view("chunk.default", lowerChunk);
  view("tensor_split.sections", lowerTensorSplit);
  view("tensor_split.indices", lowerTensorSplitAt);
  view("rot90.default", lowerQuarterTurns);
  view("diag_embed.default", lowerDiagonalEmbedding);
  view("unbind.int", lowerUnbind);
  view("broadcast_tensors.default", lowerBroadcastTensors);
  view("meshgrid.default", lowerMeshgrid);
  view("meshgrid.indexing", lowerMeshgrid);
  out.push_back({"prim.getitem", Kind::View, lowerGetItem});
  return out;
}

}  // namespace graft::lower
