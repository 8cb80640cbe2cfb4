#include "core/compile/codegen/prepare.h"

#include <algorithm>
#include <functional>

namespace graft::codegen {

using loops::Expr;
using loops::Op;
using loops::Store;

namespace {

constexpr int kMostSplits = 16;
/// A range that a store steps through by ones is not split into pieces shorter than this.
constexpr int64_t kShortestPiece = 8;
/// A row is taken apart into no more pieces than these: each has loops of its own.
constexpr size_t kMostPieces = 8;

ExprId mapExpression(loops::Program& program, loops::Simplifier& simplifier, ExprId id,
                     std::unordered_map<ExprId, ExprId>& done, const std::function<ExprId(const Expr&)>& leaf) {
  if (const auto at = done.find(id); at != done.end()) return at->second;
  const loops::ExprPool::MadeFor origin(program.expressions, program.expressions.origin(id));
  Expr e = program.expressions[id];
  ExprId result = leaf(e);
  if (!result) {
    for (ExprId& operand : e.operands) operand = mapExpression(program, simplifier, operand, done, leaf);
    result = simplifier.simplify(program.expressions.add(e));
  }
  done.emplace(id, result);
  return result;
}

/// What joins the results of a reduction's parts.
Op combinerOf(loops::ReduceKind kind) {
  switch (kind) {
    case loops::ReduceKind::Sum:
      return Op::Add;
    case loops::ReduceKind::Product:
      return Op::Multiply;
    case loops::ReduceKind::Minimum:
      return Op::Minimum;
    case loops::ReduceKind::Maximum:
      return Op::Maximum;
    case loops::ReduceKind::Any:
      return Op::Or;
    default:
      return Op::And;
  }
}

}  // namespace

void specialise(loops::Program& program, const std::vector<int64_t>& sizes, std::vector<Strides>& strides) {
  std::unordered_map<ExprId, ExprId> done;
  loops::Simplifier simplifier(program);
  const auto number = [&](const Expr& e) {
    return e.op == Op::Size ? program.expressions.integer(sizes.at(e.index)) : ExprId();
  };
  const auto change = [&](ExprId& id) { id = mapExpression(program, simplifier, id, done, number); };
  // Sizes first: what simplifies afterwards knows them.
  for (loops::Buffer& b : program.buffers)
    for (ExprId& size : b.sizes) change(size);
  for (loops::Range& r : program.ranges) change(r.extent);
  for (Strides& s : strides)
    for (ExprId& stride : s) change(stride);
  done.clear();
  loops::Simplifier withSizes(program);
  const auto changeMore = [&](ExprId& id) { id = mapExpression(program, withSizes, id, done, number); };
  for (loops::Nest& nest : program.nests)
    for (Store& store : nest.stores) {
      for (ExprId& index : store.index) changeMore(index);
      changeMore(store.value);
    }
}

ExprId NestRewriter::rewrite(ExprId id, const Replacements& replacements, std::unordered_map<ExprId, ExprId>& done) {
  return mapExpression(program_, accesses_.simplifier(), id, done, [&](const Expr& e) -> ExprId {
    if (e.op == Op::Range) {
      const auto at = replacements.find(e.range());
      return at == replacements.end() ? ExprId() : at->second.value;
    }
    if (e.op != Op::Reduce) return {};
    Expr changed = e;
    changed.ranges.clear();
    for (const RangeId r : e.ranges) {
      const auto at = replacements.find(r);
      if (at == replacements.end())
        changed.ranges.push_back(r);
      else
        changed.ranges.insert(changed.ranges.end(), at->second.ranges.begin(), at->second.ranges.end());
    }
    changed.operands[0] = rewrite(e.operands[0], replacements, done);
    if (changed.ranges.empty()) return isPlace(e) ? program_.expressions.integer(0) : changed.operands[0];
    return program_.expressions.add(std::move(changed));
  });
}

loops::Nest NestRewriter::rewrite(const loops::Nest& nest, const Replacements& replacements) {
  std::unordered_map<ExprId, ExprId> done;
  const auto change = [&](const std::vector<RangeId>& ranges) {
    std::vector<RangeId> changed;
    for (const RangeId r : ranges) {
      const auto at = replacements.find(r);
      if (at == replacements.end())
        changed.push_back(r);
      else
        changed.insert(changed.end(), at->second.ranges.begin(), at->second.ranges.end());
    }
    return changed;
  };
  loops::Nest result{change(nest.outer), {}};
  for (const Store& store : nest.stores) {
    Store s = store;
    for (ExprId& index : s.index) index = rewrite(index, replacements, done);
    s.value = rewrite(s.value, replacements, done);
    s.ranges = change(s.ranges);
    if (s.scan && std::find(s.ranges.begin(), s.ranges.end(), *s.scan) == s.ranges.end()) s.scan.reset();
    result.stores.push_back(std::move(s));
  }
  return result;
}

void NestRewriter::collect(ExprId id, std::vector<ExprId>& seen) {
  if (std::find(seen.begin(), seen.end(), id) != seen.end()) return;
  seen.push_back(id);
  for (const ExprId operand : std::vector<ExprId>(program_.expressions[id].operands)) collect(operand, seen);
}

std::vector<ExprId> NestRewriter::expressionsOf(const loops::Nest& nest) {
  std::vector<ExprId> all;
  for (const Store& store : nest.stores) {
    for (const ExprId index : store.index) collect(index, all);
    collect(store.value, all);
  }
  return all;
}

bool NestRewriter::isUnitOfStore(const loops::Nest& nest, RangeId r) {
  for (const Store& store : nest.stores)
    for (const Affine::Term& t : accesses_.offset(store.buffer, store.index).terms) {
      const Expr& atom = program_.expressions[t.atom];
      const int64_t* factor = program_.expressions.findInteger(t.factor);
      if (atom.op == Op::Range && atom.range() == r && factor && *factor == 1) return true;
    }
  return false;
}

bool NestRewriter::findSplit(const loops::Nest& nest, Split& split, bool isAlternating, int64_t most) {
  loops::Simplifier& s = accesses_.simplifier();
  for (const ExprId id : expressionsOf(nest)) {
    const Expr e = program_.expressions[id];
    if ((e.op != Op::FloorDivide && e.op != Op::Remainder) || e.dtype != DType::Int64) continue;
    const Expr dividend = program_.expressions[e.operands[0]];
    const int64_t* divisor = program_.expressions.findInteger(e.operands[1]);
    if (dividend.op != Op::Range || !divisor || *divisor < 2) continue;
    const int64_t c = *divisor;
    const RangeId r = dividend.range();
    const int64_t* rest = program_.expressions.findInteger(s.remainder(program_.range(r).extent, s.integer(c)));
    if (!rest || *rest != 0) continue;
    const bool isScan =
        std::any_of(nest.stores.begin(), nest.stores.end(), [&](const Store& st) { return st.scan == r; });
    if (isScan) continue;
    const bool isShort = c < kShortestPiece && isUnitOfStore(nest, r);
    if (isShort != isAlternating) continue;
    if (isAlternating && (c > most || std::ranges::count(nest.outer, r) == 0)) continue;
    split = {r, c};
    return true;
  }
  return false;
}

loops::Nest NestRewriter::splitRange(const loops::Nest& nest, const Split& split) {
  loops::Simplifier& s = accesses_.simplifier();
  const std::string name = program_.range(split.range).name;
  const ExprId c = s.integer(split.divisor);
  const ExprId count = s.floorDivide(program_.range(split.range).extent, c);
  const RangeId high = program_.addRange(name, count), low = program_.addRange(name, c);
  const ExprId whole = s.add(s.multiply(program_.expressions.range(high), c), program_.expressions.range(low));
  return rewrite(nest, {{split.range, {whole, {high, low}}}});
}

std::optional<loops::Nest> NestRewriter::splitAlternating(const loops::Nest& nest, int64_t most) {
  Split split;
  if (!findSplit(nest, split, true, most)) return std::nullopt;
  return splitRange(nest, split);
}

loops::Nest NestRewriter::at(const loops::Nest& nest, RangeId range, int64_t value) {
  return rewrite(nest, {{range, {accesses_.simplifier().integer(value), {}}}});
}

std::vector<ExprId> NestRewriter::loadsOf(const loops::Nest& nest) {
  std::vector<ExprId> loads = expressionsOf(nest);
  std::erase_if(loads, [&](ExprId id) { return program_.expressions[id].op != Op::Load; });
  return loads;
}

loops::Nest NestRewriter::prepare(loops::Nest nest) {
  loops::Simplifier& s = accesses_.simplifier();
  Replacements ones;
  const auto findOnes = [&](const std::vector<RangeId>& ranges) {
    for (const RangeId r : ranges)
      if (const int64_t* extent = program_.expressions.findInteger(program_.range(r).extent); extent && *extent == 1)
        ones[r] = {s.integer(0), {}};
  };
  findOnes(nest.outer);
  for (const Store& store : nest.stores) findOnes(store.ranges);
  for (const ExprId id : expressionsOf(nest)) findOnes(std::vector<RangeId>(program_.expressions[id].ranges));
  // What the ranges' bounds decide is simplified, too.
  nest = rewrite(nest, ones);
  Split split;
  for (int i = 0; i < kMostSplits && findSplit(nest, split); ++i) nest = splitRange(nest, split);
  const std::vector<ExprId> all = expressionsOf(nest);
  if (std::none_of(all.begin(), all.end(), [&](ExprId id) { return choosesBetweenLoads(id); })) return nest;
  std::unordered_map<ExprId, ExprId> done;
  std::vector<Store> stores;
  for (Store& store : nest.stores) {
    store.value = takeReductionsApart(store.value, done);
    takeStoreApart(store, stores);
  }
  nest.stores = std::move(stores);
  return nest;
}

std::vector<int64_t> NestRewriter::piecesOf(const std::vector<ExprId>& expressions, RangeId range) {
  std::vector<int64_t> ends = borders(expressions, range);
  if (ends.empty() || ends.size() >= kMostPieces) return {};
  ends.insert(ends.begin(), 0);
  ends.push_back(*program_.expressions.findInteger(program_.range(range).extent));
  for (size_t i = 1; i < ends.size(); ++i)
    if (ends[i] - ends[i - 1] < kShortestPiece) return {};
  return ends;
}

void NestRewriter::takeStoreApart(const Store& store, std::vector<Store>& pieces) {
  std::vector<ExprId> parts;
  collect(store.value, parts);
  for (const RangeId r : store.ranges) {
    if (store.scan) break;
    const std::vector<int64_t> ends = piecesOf(parts, r);
    for (size_t i = 1; i < ends.size(); ++i)
      pieces.push_back(restrictTo({{}, {store}}, r, addPart(r, ends[i] - ends[i - 1]), ends[i - 1]).stores.front());
    if (!ends.empty()) return;
  }
  pieces.push_back(store);
}

ExprId NestRewriter::takeReductionsApart(ExprId id, std::unordered_map<ExprId, ExprId>& done) {
  loops::Simplifier& s = accesses_.simplifier();
  return mapExpression(program_, s, id, done, [&](const Expr& reduction) -> ExprId {
    if (reduction.op != Op::Reduce || isPlace(reduction)) return {};
    const Op combines = combinerOf(reduction.reduce);
    std::vector<ExprId> parts;
    collect(reduction.operands[0], parts);
    for (const RangeId r : reduction.ranges) {
      const std::vector<int64_t> ends = piecesOf(parts, r);
      ExprId whole;
      for (size_t i = 1; i < ends.size(); ++i) {
        const RangeId part = addPart(r, ends[i] - ends[i - 1]);
        const ExprId at = s.add(program_.expressions.range(part), s.integer(ends[i - 1]));
        std::unordered_map<ExprId, ExprId> rewritten;
        Expr piece = reduction;
        std::replace(piece.ranges.begin(), piece.ranges.end(), r, part);
        piece.operands[0] = takeReductionsApart(rewrite(reduction.operands[0], {{r, {at, {part}}}}, rewritten), done);
        const ExprId one = program_.expressions.add(std::move(piece));
        whole = whole ? program_.expressions.binary(combines, whole, one) : one;
      }
      if (whole) return whole;
    }
    return {};
  });
}

void NestRewriter::conditionBorders(ExprId condition, RangeId range, std::vector<int64_t>& borders) {
  const Expr e = program_.expressions[condition];
  if (e.op == Op::And || e.op == Op::Or || e.op == Op::Not) {
    for (const ExprId operand : e.operands) conditionBorders(operand, range, borders);
    return;
  }
  if (!loops::isComparison(e.op) || program_.expressions[e.operands[0]].dtype != DType::Int64) return;
  // a - b = sign * range + constant
  const Affine difference = accesses_.affine(accesses_.simplifier().subtract(e.operands[0], e.operands[1]));
  const int64_t* constant = program_.expressions.findInteger(difference.constant);
  if (difference.terms.size() != 1 || !constant) return;
  const Affine::Term term = difference.terms[0];
  const Expr& atom = program_.expressions[term.atom];
  const int64_t* factor = program_.expressions.findInteger(term.factor);
  if (atom.op != Op::Range || atom.range() != range || !factor || (*factor != 1 && *factor != -1)) return;
  const int64_t zero = *factor == 1 ? -*constant : *constant;  // where both are equal
  const bool isOne = *factor == 1;
  if (e.op == Op::Less) borders.push_back(isOne ? zero : zero + 1);
  if (e.op == Op::LessEqual) borders.push_back(isOne ? zero + 1 : zero);
  if (e.op == Op::Equal || e.op == Op::NotEqual) borders.insert(borders.end(), {zero, zero + 1});
}

bool NestRewriter::hasLoads(ExprId id) {
  std::vector<ExprId> parts;
  collect(id, parts);
  return std::any_of(parts.begin(), parts.end(), [&](ExprId p) { return program_.expressions[p].op == Op::Load; });
}

bool NestRewriter::choosesBetweenLoads(ExprId id) {
  const Expr e = program_.expressions[id];
  return e.op == Op::Select && hasLoads(e.operands[1]) && hasLoads(e.operands[2]);
}

bool NestRewriter::narrow(ExprId condition, const loops::Nest& nest, RangeId range, Interval& inside) {
  const Expr e = program_.expressions[condition];
  if (e.op == Op::And) {
    // Both: each may speak of the range.
    const bool first = narrow(e.operands[0], nest, range, inside);
    return narrow(e.operands[1], nest, range, inside) || first;
  }
  const bool isOrEqual = e.op == Op::LessEqual;
  if ((e.op != Op::Less && !isOrEqual) || program_.expressions[e.operands[0]].dtype != DType::Int64) return false;
  // a - b = factor * range + (terms of ranges inside the nest) + constant
  const Affine difference = accesses_.affine(accesses_.simplifier().subtract(e.operands[0], e.operands[1]));
  const int64_t* constant = program_.expressions.findInteger(difference.constant);
  if (!constant) return false;
  int64_t factor = 0, greatest = *constant;
  for (const Affine::Term& term : difference.terms) {
    const Expr& atom = program_.expressions[term.atom];
    const int64_t* f = program_.expressions.findInteger(term.factor);
    if (atom.op != Op::Range || !f) return false;
    if (atom.range() == range) {
      factor = *f;
      continue;
    }
    const int64_t* extent = program_.expressions.findInteger(program_.range(atom.range()).extent);
    if (!extent || std::find(nest.outer.begin(), nest.outer.end(), atom.range()) != nest.outer.end()) return false;
    if (*f > 0) greatest += *f * (*extent - 1);
  }
  if (factor == 0) return false;
  // factor * range + greatest < 0, or <= 0
  const int64_t limit = isOrEqual ? greatest : greatest + 1;  // factor * range <= -limit
  const auto floorDivide = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); };
  if (factor > 0)
    inside.end = std::min(inside.end, floorDivide(-limit, factor) + 1);
  else
    inside.begin = std::max(inside.begin, -floorDivide(-limit, -factor));
  return true;
}

std::vector<int64_t> NestRewriter::interior(const loops::Nest& nest, RangeId range, int64_t fewest) {
  const int64_t* extent = program_.expressions.findInteger(program_.range(range).extent);
  if (!extent) return {};
  Interval inside{0, *extent};
  bool isGuarded = false;
  for (const ExprId id : expressionsOf(nest)) {
    const Expr e = program_.expressions[id];
    if (e.op == Op::Select && hasLoads(e.operands[1]) && !hasLoads(e.operands[2]))
      isGuarded = narrow(e.operands[0], nest, range, inside) || isGuarded;
  }
  if (!isGuarded || inside.end - inside.begin < fewest) return {};
  std::vector<int64_t> found;
  if (inside.begin > 0) found.push_back(inside.begin);
  if (inside.end < *extent) found.push_back(inside.end);
  return found;
}

std::vector<int64_t> NestRewriter::borders(const std::vector<ExprId>& expressions, RangeId range) {
  std::vector<int64_t> found;
  for (const ExprId id : expressions)
    if (choosesBetweenLoads(id)) conditionBorders(program_.expressions[id].operands[0], range, found);
  const int64_t* extent = program_.expressions.findInteger(program_.range(range).extent);
  if (!extent) return {};
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase_if(found, [&](int64_t b) { return b <= 0 || b >= *extent; });
  return found;
}

std::vector<NestRewriter::Line> NestRewriter::linesOf(ExprId id, RangeId range) {
  constexpr size_t kMostLines = 4;
  const Expr e = program_.expressions[id];
  if (const int64_t* number = program_.expressions.findInteger(id)) return {{0, *number}};
  if (e.op == Op::Range && e.range() == range) return {{1, 0}};
  std::vector<Line> found;
  if (e.op == Op::Add || e.op == Op::Subtract) {
    const int64_t sign = e.op == Op::Add ? 1 : -1;
    for (const Line& x : linesOf(e.operands[0], range))
      for (const Line& y : linesOf(e.operands[1], range)) found.push_back({x.a + sign * y.a, x.b + sign * y.b});
  } else if (e.op == Op::Minimum || e.op == Op::Maximum || e.op == Op::Select) {
    for (size_t i = e.op == Op::Select ? 1 : 0; i < e.operands.size(); ++i) {
      const std::vector<Line> part = linesOf(e.operands[i], range);
      if (part.empty()) return {};
      found.insert(found.end(), part.begin(), part.end());
    }
  }
  return found.size() <= kMostLines ? found : std::vector<Line>{};
}

void NestRewriter::bendsOf(ExprId id, RangeId range, std::vector<int64_t>& found) {
  constexpr int64_t kMostRounds = 4;
  const Expr e = program_.expressions[id];
  if (e.operands.size() < 2 || program_.expressions[e.operands[0]].dtype != DType::Int64) return;
  const bool isMinimum = e.op == Op::Minimum, isMaximum = e.op == Op::Maximum;
  const int64_t* divisor = program_.expressions.findInteger(e.operands[1]);
  if (e.op == Op::Remainder && divisor && *divisor > 1) {
    const int64_t* extent = program_.expressions.findInteger(program_.range(range).extent);
    for (const Line& line : linesOf(e.operands[0], range)) {
      if (line.a != 1 || !extent || *extent > kMostRounds * *divisor) continue;
      for (int64_t i = 1; i < *extent; ++i)
        if ((i + line.b) % *divisor == 0) found.push_back(i);
    }
    return;
  }
  if (!isMinimum && !isMaximum && !loops::isComparison(e.op)) return;
  for (const Line& x : linesOf(e.operands[0], range))
    for (const Line& y : linesOf(e.operands[1], range)) {
      const int64_t a = x.a - y.a, b = x.b - y.b;
      if (a != 1 && a != -1) continue;
      const int64_t zero = -b * a;  // where the lines meet
      // What varies is before the bend of a minimum and behind that of a maximum, where it grows.
      const bool grows = (x.a != 0 ? x.a : y.a) > 0;
      if (isMinimum || isMaximum) found.push_back(isMaximum == grows ? zero : zero + 1);
      if (e.op == Op::Less) found.push_back(a == 1 ? zero : zero + 1);
      if (e.op == Op::LessEqual) found.push_back(a == 1 ? zero + 1 : zero);
    }
}

std::vector<int64_t> NestRewriter::bends(const loops::Nest& nest, RangeId range, int64_t fewest) {
  const int64_t* extent = program_.expressions.findInteger(program_.range(range).extent);
  if (!extent) return {};
  std::vector<int64_t> found;
  for (const ExprId load : loadsOf(nest)) {
    std::vector<ExprId> parts;
    for (const ExprId index : std::vector<ExprId>(program_.expressions[load].operands))
      if (accesses_.of(index).depends(range) && !hasLoads(index)) collect(index, parts);
    for (const ExprId part : parts) bendsOf(part, range, found);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::erase_if(found, [&](int64_t b) { return b <= 0 || b >= *extent; });
  int64_t longest = 0, before = 0;
  for (const int64_t border : found) {
    longest = std::max(longest, border - before);
    before = border;
  }
  longest = std::max(longest, *extent - before);
  return longest < fewest || found.size() >= kMostPieces ? std::vector<int64_t>{} : found;
}

std::optional<loops::Nest> NestRewriter::keepRows(const loops::Nest& nest, RangeId lanes) {
  constexpr int64_t kShortestRow = 4, kLongestRow = 4096;
  loops::ExprPool& pool = program_.expressions;
  std::unordered_map<ExprId, ExprId> rowRanges;   // by their extents
  std::unordered_map<ExprId, ExprId> kept;        // loads of rows, and of locals
  std::vector<std::pair<ExprId, BufferId>> rows;  // what is copied, over a range of its own
  const auto isOuter = [&](RangeId r) { return std::ranges::count(nest.outer, r) > 0; };
  for (const ExprId id : expressionsOf(nest)) {
    const Expr e = pool[id];
    if (e.op != Op::Load || dtypeSize(e.dtype) != 4 || program_.buffer(e.buffer()).role == loops::Buffer::Role::Local)
      continue;
    std::optional<RangeId> along;
    bool isAcross = false, isRow = true;
    for (const Affine::Term& t : Affine(accesses_.ofLoad(id)).terms) {
      const Expr& atom = pool[t.atom];
      const int64_t* factor = pool.findInteger(t.factor);
      isRow = isRow && atom.op == Op::Range;
      if (!isRow) break;
      if (atom.range() == lanes) isAcross = !factor || *factor != 1;
      if (isOuter(atom.range())) continue;
      isRow = !along && factor && *factor == 1;
      along = atom.range();
    }
    // An index that strides of 0 hide counts, too.
    for (const RangeId r : std::vector<RangeId>(accesses_.of(id).ranges)) isRow = isRow && (isOuter(r) || r == along);
    if (!isRow || !along || !isAcross || !accesses_.isAlwaysInside(id)) continue;
    const ExprId extent = program_.range(*along).extent;
    const int64_t* length = pool.findInteger(extent);
    if (!length || *length < kShortestRow || *length > kLongestRow) continue;
    ExprId& range = rowRanges[extent];
    if (!range) range = pool.range(addPart(*along, *length));
    std::unordered_map<ExprId, ExprId> done;
    const ExprId row = rewrite(id, {{*along, {range, {}}}}, done);
    auto at = std::ranges::find_if(rows, [&](const auto& r) { return r.first == row; });
    if (at == rows.end()) {
      const std::string name = "row_" + std::to_string(program_.buffers.size());
      rows.emplace_back(row, program_.addBuffer(name, e.dtype, {extent}, loops::Buffer::Role::Local));
      accesses_.addBuffer({pool.integer(1)});
      at = std::prev(rows.end());
    }
    kept.emplace(id, pool.load(at->second, {pool.range(*along)}, e.dtype));
  }
  if (kept.empty()) return std::nullopt;
  loops::Nest result{nest.outer, {}};
  for (const auto& [row, local] : rows) {
    const ExprId range = rowRanges.at(program_.buffer(local).sizes[0]);
    Store copy;
    copy.buffer = local;
    copy.index = {range};
    copy.value = row;
    copy.ranges = {pool[range].range()};
    result.stores.push_back(std::move(copy));
  }
  std::unordered_map<ExprId, ExprId> done;
  for (Store store : nest.stores) {
    store.value = mapExpression(program_, accesses_.simplifier(), store.value, done, [&](const Expr& e) {
      const auto at = e.op == Op::Load ? kept.find(pool.add(e)) : kept.end();
      return at == kept.end() ? ExprId() : at->second;
    });
    result.stores.push_back(std::move(store));
  }
  return result;
}

loops::Nest NestRewriter::restrictTo(const loops::Nest& nest, RangeId range, RangeId part, int64_t start) {
  loops::Simplifier& s = accesses_.simplifier();
  return rewrite(nest, {{range, {s.add(program_.expressions.range(part), s.integer(start)), {part}}}});
}

}  // namespace graft::codegen
