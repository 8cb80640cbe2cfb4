// Tensors that combine others over dimensions: at once, or in parts first, so that there is work for several threads.
#include <algorithm>
#include <string>
#include <utility>

#include "core/compile/loops/reachable.h"
#include "core/compile/lower/lowering.h"

namespace graft::lower {
namespace {

/// The index of a reduction's result without the dimensions that it keeps as 1.
Index keptIndex(const std::vector<bool>& reduced, bool keep, const Index& i) {
  Index out;
  size_t next = 0;
  for (const bool isReduced : reduced) {
    if (!isReduced)
      out.push_back(i[next++]);
    else
      next += keep ? 1 : 0;
  }
  return out;
}

Scalar combined(ReduceKind kind, Scalar a, Scalar b) {
  switch (kind) {
    case ReduceKind::Sum:
      return a + b;
    case ReduceKind::Product:
      return a * b;
    case ReduceKind::Minimum:
      return minimum(a, b);
    case ReduceKind::Maximum:
      return maximum(a, b);
    case ReduceKind::Any:
      return a | b;
    default:
      return a & b;
  }
}

/// Of a large GPU, and blocks of threads that keep them busy.
constexpr int64_t kMultiprocessors = 132, kWantedBlocks = 2 * kMultiprocessors;
constexpr int64_t kColumnsOfBlock = 64, kTeamsOfBlock = 64;

int64_t blocksOf(int64_t columns) { return (columns + kColumnsOfBlock - 1) / kColumnsOfBlock; }

/// In about how many parts columns are summed up, so that each multiprocessor has two blocks of threads; 1 where there
/// are enough, or where a kernel more takes longer than it saves.
int64_t partsOfColumns(const Machine::Columns& limits, int64_t columns, int64_t length) {
  int64_t elements = 0;
  if (!__builtin_mul_overflow(columns, length, &elements) && elements < limits.elements) return 1;
  return std::min((kWantedBlocks + blocksOf(columns) - 1) / blocksOf(columns), length / limits.partLength);
}

/// What the busiest multiprocessor does, in rows of a block: a block's teams run as many rows in turns, and each part
/// is read again by the few blocks that join them.
int64_t workWithParts(int64_t parts, int64_t rowsOfPart, int64_t columns) {
  constexpr int64_t rowsForPart = 2;
  const int64_t blocks = (parts * blocksOf(columns) + kMultiprocessors - 1) / kMultiprocessors;
  const int64_t turns = (rowsOfPart + kTeamsOfBlock - 1) / kTeamsOfBlock;
  return blocks * turns * kTeamsOfBlock + rowsForPart * parts;
}

/// How much of a dimension a part takes: the divisor of its size from a quarter of `about` to one and a half of it with
/// the least work, since a rest would be one thread's for each column, and belongs to no part's nest; `about` where
/// there is none. `outer` parts lie ahead of the dimension, and `inner` rows in each of its elements.
int64_t lengthOfParts(int64_t size, int64_t about, int64_t most, int64_t outer, int64_t inner, int64_t columns) {
  int64_t best = 0, least = 0;
  for (int64_t each = std::max<int64_t>(about / 4, 1); each <= std::min(about + (about + 1) / 2, most); ++each) {
    if (size % each != 0) continue;
    const int64_t work = workWithParts(outer * (size / each), each * inner, columns);
    if (best == 0 || work <= least) {
      best = each;
      least = work;
    }
  }
  return best == 0 ? about : best;
}

/// Parts for the blocks of threads that go over rows, too: two on each multiprocessor of a large GPU, of as many rows
/// as a block's teams run in turns.
Lowering::Parts partsOfRows(int64_t rows) {
  constexpr int64_t teams = 4;
  const int64_t each = (rows + kWantedBlocks * teams - 1) / (kWantedBlocks * teams) * teams;
  return {.dim = 0, .count = (rows + each - 1) / each, .each = each, .left = 0, .isColumns = true, .isOfRows = true};
}

std::vector<bool> marked(size_t rank, std::span<const size_t> dims) {
  std::vector<bool> out(rank);
  for (const size_t d : dims) out[d] = true;
  return out;
}

}  // namespace

TensorId Lowering::reduce(ReduceKind kind, TensorId body, std::span<const size_t> dims, bool keep) {
  const std::vector<bool> reduced = marked(values_[body.index].sizes.size(), dims);
  if (!loops::isPlace(kind))
    if (std::optional<Parts> parts = findParts(body, reduced)) {
      if (kind == ReduceKind::Sum && parts->isColumns) {
        int64_t rows = 1, columns = 1;
        for (size_t d = 0; d < reduced.size(); ++d)
          (reduced[d] ? rows : columns) *= *findNumber(values_[body.index].sizes[d]);
        if (rowsToo_.contains({rows, columns})) parts = partsOfRows(rows);
      }
      return reduceParts(kind, body, reduced, keep, *parts);
    }
  return reduceWhole(kind, body, dims, keep);
}

TensorId Lowering::reduceWhole(ReduceKind kind, TensorId body, std::span<const size_t> dims, bool keep) {
  const std::vector<bool> reduced = marked(values_[body.index].sizes.size(), dims);
  Tensor t{.name = std::string(loops::reduceName(kind)),
           .dtype = loops::isPlace(kind) ? DType::Int64 : values_[body.index].dtype,
           .form = Tensor::Form::Reduction,
           .cost = 1};
  for (size_t d = 0; d < reduced.size(); ++d) {
    if (!reduced[d])
      t.sizes.push_back(values_[body.index].sizes[d]);
    else if (keep)
      t.sizes.push_back(integer(1));
  }
  t.element = [this, kind, body, reduced, keep](const Index& i) {
    return reduction(kind, body, reduced, keptIndex(reduced, keep, i), reduced.size(), {}, {});
  };
  return add(std::move(t));
}

/// Over the reduced dimensions, of `dim` the indices from `first` on, as many as `extent`. `kept`: the others' index.
ExprId Lowering::reduction(ReduceKind kind, TensorId body, const std::vector<bool>& reduced, const Index& kept,
                           size_t dim, ExprId first, ExprId extent) {
  std::vector<RangeId> ranges;
  Index inside;
  size_t next = 0;
  for (size_t d = 0; d < reduced.size(); ++d) {
    const ExprId size = d == dim ? extent : values_[body.index].sizes[d];
    if (!reduced[d]) {
      inside.push_back(kept[next++]);
      continue;
    }
    ExprId at = integer(0);
    if (!isOne(size)) {
      ranges.push_back(program.addRange("r" + std::to_string(program.ranges.size()), size));
      at = pool().range(ranges.back());
    }
    inside.push_back(d == dim ? simplifier.add(first, at) : at);
  }
  const ExprId element = this->at(body, inside);
  if (ranges.empty()) return loops::isPlace(kind) ? integer(0) : element;
  if (kind == ReduceKind::Sum && ranges.size() == 1)
    if (const auto picked = pickedOut(ranges.front(), element)) return *picked;
  return pool().reduce(kind, std::move(ranges), element);
}

/// The sum over a range of what is 0 but at one place, which does not depend on the range: of the gradient that a loss
/// gives the class that a target names. Select(place == r and more, value, 0) becomes Select(0 <= place < extent and
/// more, value, 0).
std::optional<ExprId> Lowering::pickedOut(RangeId range, ExprId element) {
  std::vector<DType> casts;
  while (pool()[element].op == loops::Op::Cast) {
    casts.push_back(pool()[element].dtype);
    element = pool()[element].operands[0];
  }
  const loops::Expr chosen = pool()[element];
  if (chosen.op != loops::Op::Select || pool()[chosen.operands[2]].op != loops::Op::Constant ||
      pool().constant(chosen.operands[2]) != 0)
    return {};
  const auto isRange = [&](ExprId e) { return pool()[e].op == loops::Op::Range && pool()[e].range() == range; };
  const auto dependsOnIt = [&](ExprId e) { return std::ranges::any_of(loops::reachable(pool(), {e}), isRange); };
  if (dependsOnIt(chosen.operands[1])) return {};
  std::optional<ExprId> place;
  std::vector<ExprId> open{chosen.operands[0]}, others;
  while (!open.empty()) {
    const loops::Expr e = pool()[open.back()];
    const ExprId id = open.back();
    open.pop_back();
    if (e.op == loops::Op::And && e.dtype == DType::Bool) {
      open.insert(open.end(), e.operands.begin(), e.operands.end());
    } else if (const bool isLeft = e.op == loops::Op::Equal && isRange(e.operands[0]);
               !place && e.op == loops::Op::Equal && isRange(e.operands[isLeft ? 0 : 1]) &&
               !dependsOnIt(e.operands[isLeft ? 1 : 0])) {
      place = e.operands[isLeft ? 1 : 0];
    } else if (dependsOnIt(id)) {
      return {};
    } else {
      others.push_back(id);
    }
  }
  if (!place) return {};
  Scalar condition = (scalar(integer(0)) <= scalar(*place)) & (scalar(*place) < scalar(program.range(range).extent));
  for (const ExprId e : others) condition = condition & scalar(e);
  ExprId picked = pool().select(condition.id, chosen.operands[1], chosen.operands[2]);
  for (auto it = casts.rbegin(); it != casts.rend(); ++it) picked = pool().cast(picked, *it);
  return picked;
}

std::optional<Lowering::Parts> Lowering::findParts(TensorId body, const std::vector<bool>& reduced,
                                                   Machine::Statistics statistics) const {
  constexpr int64_t leastWork = 4096, mostParts = 128, lanesTogether = 16;
  const Tensor& tensor = values_[body.index];
  int64_t rows = 1, count = 1, longest = 0;
  std::optional<size_t> dim;
  for (size_t d = 0; d < reduced.size(); ++d) {
    const auto size = findNumber(tensor.sizes[d]);
    if (!size || __builtin_mul_overflow(reduced[d] ? count : rows, *size, reduced[d] ? &count : &rows)) return {};
    if (!reduced[d] || *size <= longest || longest >= 2 * fewIterations) continue;
    longest = *size;
    dim = d;
  }
  if (!dim) return {};
  const size_t fastest = tensor.fastest.value_or(reduced.size() - 1);
  if (!reduced[fastest] && findNumber(tensor.sizes[fastest]) >= machine.columns.least && rows > 0 && count > 0)
    if (const int64_t wanted = partsOfColumns(machine.columns, rows, count); wanted > 1)
      return findPartsOfColumns(body, reduced, wanted, rows);
  // On a CPU, columns side by side in memory are the lanes of few iterations.
  const int64_t lanes = machine.isGpu || reduced[fastest] ? 1 : std::clamp<int64_t>(rows, 1, lanesTogether);
  const int64_t most = machine.rowElements * (lanes == 1 ? 1 : 4 * fewIterations);
  const bool areFewAndLong = rows < fewIterations * lanes && count > most / lanes;
  if (!areFewAndLong && (rows >= statistics.fewRows || count <= statistics.elements)) return {};
  const int64_t each = std::max<int64_t>(1, std::max(leastWork / lanes, count / mostParts) / (count / longest));
  if (each >= longest) return {};
  return Parts{*dim, longest / each, each, longest % each};
}

/// About so many, of one length where a dimension has a divisor of about that size.
std::optional<Lowering::Parts> Lowering::findPartsOfColumns(TensorId body, const std::vector<bool>& reduced,
                                                            int64_t wanted, int64_t columns) const {
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d < reduced.size(); ++d)
    if (reduced[d]) inner *= *findNumber(values_[body.index].sizes[d]);
  Parts parts{.dim = reduced.size(), .count = 1, .each = 1, .left = 0, .isColumns = true};
  for (size_t d = 0; d < reduced.size(); ++d) {
    if (!reduced[d] || isOne(values_[body.index].sizes[d])) continue;
    const int64_t size = *findNumber(values_[body.index].sizes[d]);
    if (parts.dim < reduced.size()) parts.outer.push_back(parts.dim);
    parts.dim = d;
    inner /= size;
    if (size > wanted) {
      parts.each = lengthOfParts(size, size / wanted, parts.outer.empty() ? size - 1 : size, outer, inner, columns);
      parts.count = size / parts.each;
      parts.left = size % parts.each;
      return parts;
    }
    parts.count = size;
    outer *= size;
    wanted = (wanted + size - 1) / size;
  }
  return {};  // there is no more than one element for a part
}

std::optional<Lowering::Parts> Lowering::findEvenParts(TensorId body, std::span<const size_t> dims) const {
  const Tensor& tensor = values_[body.index];
  std::optional<Parts> parts = findParts(body, marked(tensor.sizes.size(), dims), machine.statistics);
  if (!parts) return {};
  // The next larger number of parts of one length, if it is not much larger.
  const int64_t size = *findNumber(tensor.sizes[parts->dim]);
  int64_t count = parts->count;
  while (size % count != 0) ++count;
  if (count > 4 * parts->count) return {};
  parts->count = count;
  parts->each = size / count;
  parts->left = 0;
  return parts;
}

/// Of one part. What the reduced dimensions count together, row by row, is what the iterations of a nest of rows count.
ExprId Lowering::reductionOfRows(ReduceKind kind, TensorId body, const std::vector<bool>& reduced, const Index& kept,
                                 const Parts& parts, ExprId part) {
  const Tensor& tensor = values_[body.index];
  Sizes sizes;
  for (size_t d = 0; d < reduced.size(); ++d)
    if (reduced[d]) sizes.push_back(tensor.sizes[d]);
  const int64_t rows = *findNumber(product(sizes));
  const RangeId inPart = program.addRange("r" + std::to_string(program.ranges.size()), integer(parts.each));
  const ExprId row = simplifier.add(simplifier.multiply(part, integer(parts.each)), pool().range(inPart));
  const bool isEven = rows % parts.each == 0;
  ExprId left = isEven ? row : simplifier.minimum(row, integer(rows - 1));
  Index at(reduced.size());
  for (size_t d = reduced.size(), next = kept.size(); d-- > 0;) {
    if (!reduced[d]) {
      at[d] = kept[--next];
      continue;
    }
    at[d] = simplifier.remainder(left, tensor.sizes[d]);
    left = simplifier.floorDivide(left, tensor.sizes[d]);
  }
  const DType dtype = computeType(tensor.dtype);
  ExprId element = this->at(body, at);
  if (!isEven)
    element = where(scalar(row) < scalar(integer(rows)), scalar(element), scalar(pool().number(dtype, 0.0))).id;
  return pool().reduce(kind, {inPart}, element);
}

TensorId Lowering::reduceParts(ReduceKind kind, TensorId body, const std::vector<bool>& reduced, bool keep,
                               const Parts& parts) {
  // One for each part: behind the dimensions that are kept, or ahead of them where memory runs along these.
  Tensor part{.name = std::string(loops::reduceName(kind)) + "_part",
              .dtype = values_[body.index].dtype,
              .form = Tensor::Form::Reduction,
              .cost = 1,
              .columnParts = parts.isColumns ? parts.outer.size() + 1 : 0,
              .isOfRows = parts.isOfRows};
  Sizes counts;
  for (const size_t d : parts.outer) counts.push_back(values_[body.index].sizes[d]);
  counts.push_back(integer(parts.count));
  for (size_t d = 0; d < reduced.size(); ++d)
    if (!reduced[d]) part.sizes.push_back(values_[body.index].sizes[d]);
  const auto place = static_cast<std::ptrdiff_t>(parts.isColumns ? 0 : part.sizes.size());
  part.sizes.insert(part.sizes.begin() + place, counts.begin(), counts.end());
  part.element = [this, kind, body, reduced, parts, place](const Index& i) {
    const auto ofPart = i.begin() + place, behind = ofPart + static_cast<std::ptrdiff_t>(parts.outer.size()) + 1;
    Index others(i.begin(), ofPart), kept;
    others.insert(others.end(), behind, i.end());
    std::vector<bool> inPart = reduced;
    for (size_t d = 0, next = 0, outer = 0; d < reduced.size(); ++d) {
      if (!reduced[d]) {
        kept.push_back(others[next++]);
      } else if (outer < parts.outer.size() && parts.outer[outer] == d) {
        inPart[d] = false;
        kept.push_back(*(ofPart + static_cast<std::ptrdiff_t>(outer++)));
      }
    }
    const ExprId first = simplifier.multiply(*(behind - 1), integer(parts.each));
    return reduction(kind, body, inPart, kept, parts.dim, first, integer(parts.each));
  };
  if (parts.isOfRows)
    part.element = [this, kind, body, reduced, parts](const Index& i) {
      return reductionOfRows(kind, body, reduced, Index(i.begin() + 1, i.end()), parts, i.front());
    };
  const TensorId partial = add(std::move(part));
  hasParts_ = true;
  Tensor t{.name = std::string(loops::reduceName(kind)),
           .dtype = values_[body.index].dtype,
           .form = Tensor::Form::Reduction,
           .cost = 1};
  for (size_t d = 0; d < reduced.size(); ++d)
    if (!reduced[d] || keep) t.sizes.push_back(reduced[d] ? integer(1) : values_[body.index].sizes[d]);
  t.element = [this, kind, body, partial, reduced, keep, parts, counts, place](const Index& i) {
    Index inside = keptIndex(reduced, keep, i), ofPart;
    std::vector<RangeId> ranges;
    for (const ExprId count : counts) {
      if (isOne(count)) {
        ofPart.push_back(integer(0));
        continue;
      }
      ranges.push_back(program.addRange("r" + std::to_string(program.ranges.size()), count));
      ofPart.push_back(pool().range(ranges.back()));
    }
    const ExprId last = parts.left == 0 ? ExprId()
                                        : reduction(kind, body, reduced, inside, parts.dim,
                                                    integer(parts.count * parts.each), integer(parts.left));
    inside.insert(inside.begin() + place, ofPart.begin(), ofPart.end());
    const ExprId onePart = this->at(partial, inside);
    const ExprId whole = ranges.empty() ? onePart : pool().reduce(kind, ranges, onePart);
    return last ? combined(kind, scalar(whole), scalar(last)).id : whole;
  };
  const TensorId whole = add(std::move(t));
  return parts.isColumns ? stored(whole) : whole;
}

}  // namespace graft::lower
