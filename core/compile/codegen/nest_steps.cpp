// Lanes that lie a few elements apart in memory: every second element of a row, one channel of three, a row backwards.
// Whole registers are read and shuffled together, and elements of which several vectors are computed are stored
// alternately.
#include <algorithm>
#include <cstdlib>

#include "core/compile/codegen/nest_emitter.h"

namespace graft::codegen {

namespace {

std::vector<int> counted(int from, int count) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(from + i);
  return list;
}

Value part(IrBuilder& b, const Value& v, int from, int count) {
  return count == v.lanes ? v : b.shuffle(v, v, counted(from, count));
}

Value joined(IrBuilder& b, std::vector<Value> parts) {
  for (; parts.size() > 1; parts.resize(parts.size() / 2))
    for (size_t i = 0; i < parts.size() / 2; ++i)
      parts[i] = b.shuffle(parts[2 * i], parts[2 * i + 1], counted(0, 2 * parts[2 * i].lanes));
  return parts[0];
}

/// Lane k of the result is element at[k].second of vector at[k].first.
Value gathered(IrBuilder& b, const std::vector<Value>& vectors, const std::vector<std::pair<int, int>>& at) {
  Value result = vectors[0];
  const int n = result.lanes;
  for (int i = vectors.size() > 1 ? 1 : 0; i < static_cast<int>(vectors.size()); ++i) {
    std::vector<int> from;
    for (size_t k = 0; k < at.size(); ++k) {
      const auto [vector, lane] = at[k];
      const int before = i <= 1 ? lane : static_cast<int>(k);  // the first step takes lanes from where they lie
      from.push_back(vector == i && i > 0 ? n + lane : before);
    }
    result = b.shuffle(result, vectors[static_cast<size_t>(i)], from);
  }
  return result;
}

}  // namespace

int NestEmitter::registerLanes(DType stored) const { return dtypeSize(stored) == 8 ? width_ / 2 : width_; }

Value NestEmitter::readSteps(ExprId id, const Pointer& from, const Value& active, int scope, int64_t version) {
  const loops::ExprPool& pool = accesses_.program().expressions;
  const loops::Expr e = pool[id];
  const DType stored = e.dtype == DType::Bool ? DType::UInt8 : e.dtype;
  const int apart = static_cast<int>(std::abs(from.step)), lanes = lanes_.count, n = registerLanes(stored);
  // Loads of the nest that read what is between, at the same places otherwise, share the registers. All of those
  // elements are there.
  const Affine own = accesses_.ofLoad(id);
  const int64_t* constant = pool.findInteger(own.constant);
  int64_t low = 0, high = 0;
  for (const ExprId other : constant&& accesses_.isAlwaysInside(id) ? loads_ : std::vector<ExprId>{}) {
    if (pool[other].buffer() != e.buffer() || !accesses_.isAlwaysInside(other)) continue;
    const Affine& where = accesses_.ofLoad(other);
    const int64_t* start = pool.findInteger(where.constant);
    const bool isSame =
        start && where.terms.size() == own.terms.size() && std::ranges::all_of(where.terms, [&](const Affine::Term& t) {
          return std::ranges::any_of(own.terms,
                                     [&](const Affine::Term& o) { return o.atom == t.atom && o.factor == t.factor; });
        });
    // The others count from the constant of the lowest, so all of them find the same window.
    if (!isSame || std::abs(*start - *constant) >= apart) continue;
    low = std::max(low, *constant - *start);
    high = std::max(high, *start - *constant);
  }
  if (low + high >= apart) low = high = 0;
  const auto between = static_cast<int>(low + high);
  const int span = apart * (n - 1) + between + 1;
  const bool isBack = from.step < 0;
  std::vector<Value> parts;
  for (int chunk = 0; chunk < lanes; chunk += n) {
    const int64_t first = (isBack ? -int64_t{apart} * (chunk + n - 1) : int64_t{apart} * chunk) - low;
    const Value base = b_.advance(from.at, stored, b_.integer(DType::Int64, first));
    std::vector<int> offsets;
    for (int at = 0; at < span; at += n) offsets.push_back(std::min(at, span - n));
    std::vector<Value> vectors;
    for (const int offset : offsets) {
      const Value at = b_.advance(base, stored, b_.integer(DType::Int64, offset));
      Value mask;
      if (active) {
        std::vector<int> mine;
        for (int i = offset; i < offset + n; ++i) {
          const int lane = isBack ? n - 1 - i / apart : i / apart;
          mine.push_back(i % apart <= between ? chunk + lane : lanes);
        }
        Value none = b_.spread(b_.boolean(false), lanes);
        mask = b_.shuffle(active, none, mine);
      }
      vectors.push_back(readVector(at, stored, n, mask, std::max(scope, mask ? mask.scope : 0), version));
    }
    std::vector<std::pair<int, int>> at;
    for (int k = 0; k < n; ++k) {
      const int place = (isBack ? n - 1 - k : k) * apart + static_cast<int>(low);
      const int vector = std::min(place / n, static_cast<int>(offsets.size()) - 1);
      at.emplace_back(vector, place - offsets[static_cast<size_t>(vector)]);
    }
    parts.push_back(gathered(b_, vectors, at));
  }
  return joined(b_, parts);
}

void NestEmitter::storeAlternately(const Value& to, const std::vector<Value>& phases) {
  const int count = static_cast<int>(phases.size()), lanes = phases[0].lanes;
  const DType stored = phases[0].dtype;
  const int n = registerLanes(stored);
  for (int chunk = 0; chunk < lanes; chunk += n) {
    std::vector<Value> vectors;
    for (const Value& phase : phases) vectors.push_back(part(b_, phase, chunk, n));
    for (int out = 0; out < count; ++out) {
      std::vector<std::pair<int, int>> at;
      std::vector<int> active;
      for (int k = 0; k < n; ++k) {
        const int place = out * n + k;
        at.emplace_back(place % count, place / count);
        active.push_back(chunk + place / count);
      }
      const Value v = gathered(b_, vectors, at);
      const Value place = b_.advance(to, stored, b_.integer(DType::Int64, int64_t{chunk} * count + out * n));
      if (lanes_.active)
        writeMasked(place, v, b_.shuffle(lanes_.active, lanes_.active, active));
      else
        b_.effect("store " + b_.typed(v) + ", ptr " + place.name + ", align " + std::to_string(dtypeSize(stored)));
    }
  }
}

void NestEmitter::emitInterleaved(const loops::Nest& nest) {
  const RangeId across = *plan_.interleaved, along = plan_.vector->ranges.back();
  const int64_t count = *known(accesses_.program().range(across).extent);
  std::vector<bool> isAlternate;
  for (const loops::Store& s : nest.stores) isAlternate.push_back(planner_.isInterleaved(s, along, across));
  std::vector<loops::Nest> phases;
  loads_.clear();
  for (int64_t i = 0; i < count; ++i) {
    phases.push_back(rewriter_.at(nest, across, i));
    for (const ExprId load : rewriter_.loadsOf(phases.back())) loads_.push_back(load);
  }
  std::vector<std::vector<Value>> values(nest.stores.size());
  const bool isVector = lanes_.count > 1;
  for (const loops::Nest& phase : phases) {
    std::vector<std::pair<const loops::Store*, Value>> left;
    for (size_t i = 0; i < phase.stores.size(); ++i)
      if (isVector && isAlternate[i]) left.emplace_back(&phase.stores[i], Value{});
    phase_ = &left;
    emitStores(phase);
    phase_ = nullptr;
    for (const auto& [store, v] : left) values[static_cast<size_t>(store - phase.stores.data())].push_back(v);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty()) continue;
    const loops::Store& store = phases[0].stores[i];
    for (Value& v : values[i]) v = b_.spread(inMemory(store.buffer, v), lanes_.count);
    const Binding lanes = bindings_.at(along);
    bindings_[along].lanes = 1;
    const Pointer to = pointer(store.buffer, accesses_.offset(store.buffer, store.index));
    bindings_[along] = lanes;
    storeAlternately(to.at, values[i]);
  }
}

}  // namespace graft::codegen
