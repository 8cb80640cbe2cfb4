#include "core/torch/verify/elements.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>

namespace graft {
namespace {

constexpr int64_t chunkSize = 1 << 16;

/// Calls `work(chunk, from, n)` for each chunk of that many elements, on as many threads as PyTorch uses. These are
/// threads of their own: at::parallel_for needs OpenMP at compile time, which this library does without.
template <class Work>
void forEachChunk(int64_t elements, const Work& work) {
  const int64_t chunks = (elements + chunkSize - 1) / chunkSize;
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr problem;
  const auto take = [&] {
    const at::AutoDispatchBelowADInplaceOrView plain;  // inputs that were made in inference mode can be read here, too
    try {
      for (int64_t c = next++; c < chunks; c = next++)
        work(c, c * chunkSize, std::min(chunkSize, elements - c * chunkSize));
    } catch (...) {
      next = chunks;
      const std::lock_guard lock(mutex);
      problem = std::current_exception();
    }
  };
  {
    constexpr int64_t chunksPerThread = 4;  // starting a thread takes about as long as one chunk
    const int64_t threads = std::min<int64_t>(at::get_num_threads(), chunks / chunksPerThread);
    std::vector<std::jthread> others;
    try {
      for (int64_t i = 1; i < threads; ++i) others.emplace_back(take);
    } catch (const std::system_error&) {  // no more threads: fewer do the work
    }
    take();
  }
  if (problem) std::rethrow_exception(problem);
}

template <class Part>
std::vector<Part> partsOf(int64_t elements) {
  return std::vector<Part>(static_cast<size_t>((elements + chunkSize - 1) / chunkSize));
}

/// Floats of one width as integers in the same order, so that differences count representable numbers between them.
template <class Bits>
int64_t ordered(Bits bits) {
  using Signed = std::make_signed_t<Bits>;
  const auto s = static_cast<Signed>(bits);
  const auto sign =
      static_cast<int64_t>(s >> (8 * sizeof(Bits) - 1));  // -1 or 0: signs are hard to predict for a branch
  return (static_cast<int64_t>(s) ^ (sign & std::numeric_limits<Signed>::max())) - sign;
}

template <class Bits>
std::vector<uint64_t> countUlps(const at::Tensor& e, const at::Tensor& a) {
  const auto* x = static_cast<const Bits*>(e.const_data_ptr());
  const auto* y = static_cast<const Bits*>(a.const_data_ptr());
  using Histogram = std::array<uint32_t, 8 * sizeof(Bits) + 1>;
  std::vector<Histogram> parts = partsOf<Histogram>(e.numel());
  forEachChunk(e.numel(), [&](int64_t chunk, int64_t from, int64_t n) {
    Histogram& part = parts[static_cast<size_t>(chunk)];
    for (int64_t i = from; i < from + n; ++i) {
      const int64_t p = ordered(x[i]), q = ordered(y[i]);
      // Unsigned: the distance between the most negative and most positive double exceeds int64. Without branches, as
      // nothing predicts which of the two is less, nor whether they are equal.
      const uint64_t less = p < q ? ~uint64_t{0} : 0,
                     distance = ((static_cast<uint64_t>(p) - static_cast<uint64_t>(q)) ^ less) - less;
      ++part[static_cast<size_t>(std::bit_width(distance | 1)) - static_cast<size_t>(distance == 0)];
    }
  });
  std::array<uint64_t, std::tuple_size_v<Histogram>> all{};
  for (const Histogram& part : parts)
    for (size_t i = 0; i < all.size(); ++i) all[i] += part[i];
  size_t used = all.size();
  while (used > 0 && all[used - 1] == 0) --used;
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(used)};
}

bool sameKind(double e, double a) {
  if (std::isnan(e) || std::isnan(a)) return std::isnan(e) && std::isnan(a);
  if (std::isinf(e) || std::isinf(a)) return e == a;
  return true;
}

/// Two doubles, with which every x86-64 and ARM64 processor calculates at once.
using Lanes = double __attribute__((vector_size(16)));
constexpr int64_t laneCount = 2;

Lanes lanesAt(const double* p) {
  Lanes x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
Lanes magnitude(const Lanes& x) { return x < 0 ? -x : x; }
Lanes greater(const Lanes& a, const Lanes& b) { return a < b ? b : a; }
double greatest(const Lanes& x) { return std::max(x[0], x[1]); }
double total(const Lanes& x) { return x[0] + x[1]; }

/// The elements of a tensor as doubles, some at a time.
class Doubles {
 public:
  explicit Doubles(const at::Tensor& flat)
      : flat_(flat), buffer_(at::empty({std::min(most, flat.numel())}, at::kDouble)) {}
  static constexpr int64_t most = 1 << 13;  ///< so many of three tensors stay in a core's cache
  const double* read(int64_t from, int64_t n) {
    if (flat_.scalar_type() == at::kDouble) return flat_.const_data_ptr<double>() + from;
    buffer_.narrow(0, 0, n).copy_(flat_.narrow(0, from, n));
    return buffer_.const_data_ptr<double>();
  }

 private:
  at::Tensor flat_, buffer_;
};

/// Where a half is expected that is finite, and fp64 computes a number that a half rounds to infinity, an infinity is a
/// result like the largest number: it counts as the number behind that.
double withoutOverflow(double actual, double expected, double reference, at::ScalarType dtype) {
  constexpr double beyond = 65536, rounded = 65520;  // what follows the largest half, and from where halves round to it
  const bool isOverflow = dtype == at::ScalarType::Half && std::isinf(actual) && std::isfinite(expected) &&
                          std::abs(reference) >= rounded && std::signbit(reference) == std::signbit(actual);
  return isOverflow ? std::copysign(beyond, actual) : actual;
}

/// Adds elements of which some are not finite, one after the other.
void addEach(Sums& s, const double* pe, const double* pa, const double* pr, int64_t from, int64_t n,
             const Tolerance& tol, bool forgive, at::ScalarType dtype) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = pe[i], y = pr ? withoutOverflow(pa[i], x, pr[i], dtype) : pa[i];
    if (!std::isfinite(x) || !std::isfinite(y)) {
      // The original itself is not what fp64 computes: it overflowed, or its operator makes NaN of an infinity.
      if (forgive && pr && !sameKind(x, pr[i])) continue;
      if (pr && !std::isfinite(x) && std::isfinite(y) && std::isfinite(pr[i])) {
        ++s.repaired;
        s.repairedSquares += pr[i] * pr[i];
        s.repairedError += (y - pr[i]) * (y - pr[i]);
        continue;
      }
      s.overflowed += pr && !std::isfinite(x) && !std::isfinite(y) && std::isfinite(pr[i]) ? 1 : 0;
      if (sameKind(x, y)) {
        ++s.nonFinite;
        s.nan += std::isnan(x) ? 1 : 0;
      } else if (s.firstNonFinite < 0) {
        s.firstNonFinite = from + i;
      }
      continue;
    }
    const double d = std::abs(y - x);
    ++s.finite;
    s.squares += d * d;
    s.dot += x * y;
    s.normE += x * x;
    s.normA += y * y;
    s.maxAbs = std::max(s.maxAbs, d);
    if (x != 0) s.maxRel = std::max(s.maxRel, d / std::abs(x));
    const double excess = d - (tol.absolute + tol.relative * std::abs(x));
    if (excess > 0 && s.tooFar++ == 0) s.firstTooFar = from + i;
    if (excess > s.worstExcess) {
      s.worstExcess = excess;
      s.worst = from + i;
    }
    if (pr && std::isfinite(pr[i])) {
      ++s.referenced;
      s.worstE = std::max(s.worstE, std::abs(x - pr[i]));
      s.referenceE += (x - pr[i]) * (x - pr[i]);
      s.referenceA += (y - pr[i]) * (y - pr[i]);
    }
  }
}

/// The same for a multiple of laneCount elements that are all finite; false where they are not, and nothing is added.
/// `Judge::Elements` asks for no relative difference and no cosine.
template <Judge judge>
bool addFinite(Sums& s, const double* pe, const double* pa, const double* pr, int64_t from, int64_t n,
               const Tolerance& tol) {
  const Lanes zero{}, absolute = zero + tol.absolute, relative = zero + tol.relative;
  Lanes squares{}, dot{}, normE{}, normA{}, maxAbs{}, maxRel{}, excess{}, tooFar{}, infinite{};
  Lanes worstE{}, referenceE{}, referenceA{};
  for (int64_t i = 0; i < n; i += laneCount) {
    const Lanes x = lanesAt(pe + i), y = lanesAt(pa + i), size = magnitude(x), d = magnitude(y - x);
    infinite += (x - x) + (y - y);  // NaN where one is not finite
    squares += d * d;
    normE += x * x;
    maxAbs = greater(maxAbs, d);
    if constexpr (judge == Judge::Model) {
      dot += x * y;
      normA += y * y;
      maxRel = greater(maxRel, size == 0 ? zero : d / size);
    }
    const Lanes beyond = d - (absolute + relative * size);
    tooFar += beyond > 0 ? zero + 1 : zero;
    excess = greater(excess, beyond);
    if (!pr) continue;
    const Lanes r = lanesAt(pr + i), offE = x - r, offA = y - r;
    infinite += r - r;
    worstE = greater(worstE, magnitude(offE));
    referenceE += offE * offE;
    referenceA += offA * offA;
  }
  if (total(infinite) != 0) return false;
  s.finite += n;
  s.squares += total(squares);
  s.dot += total(dot);
  s.normE += total(normE);
  s.normA += total(normA);
  s.maxAbs = std::max(s.maxAbs, greatest(maxAbs));
  s.maxRel = std::max(s.maxRel, greatest(maxRel));
  const auto excessAt = [&](int64_t i) {
    return std::abs(pa[i] - pe[i]) - (tol.absolute + tol.relative * std::abs(pe[i]));
  };
  if (const double far = total(tooFar); far > 0) {
    if (s.tooFar == 0)
      for (int64_t i = 0; i < n && s.firstTooFar < 0; ++i)
        if (excessAt(i) > 0) s.firstTooFar = from + i;
    s.tooFar += static_cast<int64_t>(far);
  }
  if (greatest(excess) > s.worstExcess)
    for (int64_t i = 0; i < n; ++i)
      if (const double e = excessAt(i); e > s.worstExcess) {
        s.worstExcess = e;
        s.worst = from + i;
      }
  if (!pr) return true;
  s.referenced += n;
  s.worstE = std::max(s.worstE, greatest(worstE));
  s.referenceE += total(referenceE);
  s.referenceA += total(referenceA);
  return true;
}

/// Adds the sums of the elements that come next.
void append(Sums& s, const Sums& next) {
  s.maxAbs = std::max(s.maxAbs, next.maxAbs);
  s.maxRel = std::max(s.maxRel, next.maxRel);
  s.squares += next.squares;
  s.dot += next.dot;
  s.normA += next.normA;
  s.normE += next.normE;
  s.referenceE += next.referenceE;
  s.referenceA += next.referenceA;
  s.worstE = std::max(s.worstE, next.worstE);
  s.finite += next.finite;
  s.tooFar += next.tooFar;
  if (next.worstExcess > s.worstExcess) {
    s.worstExcess = next.worstExcess;
    s.worst = next.worst;
  }
  if (s.firstTooFar < 0) s.firstTooFar = next.firstTooFar;
  if (s.firstNonFinite < 0) s.firstNonFinite = next.firstNonFinite;
  s.referenced += next.referenced;
  s.repaired += next.repaired;
  s.overflowed += next.overflowed;
  s.nonFinite += next.nonFinite;
  s.nan += next.nan;
  s.repairedSquares += next.repairedSquares;
  s.repairedError += next.repairedError;
}

}  // namespace

Sums sumsOf(const at::Tensor& expected, const at::Tensor& actual, const at::Tensor& reference, const Tolerance& tol,
            Judge judge) {
  std::vector<Sums> parts = partsOf<Sums>(expected.numel());
  const at::Tensor flatE = expected.reshape({-1}), flatA = actual.reshape({-1}),
                   flatR = reference.defined() ? reference.reshape({-1}) : at::Tensor();
  forEachChunk(expected.numel(), [&](int64_t chunk, int64_t begin, int64_t count) {
    Sums& s = parts[static_cast<size_t>(chunk)];
    Doubles e(flatE), a(flatA);
    std::optional<Doubles> r;
    if (flatR.defined()) r.emplace(flatR);
    for (int64_t from = begin; from < begin + count; from += Doubles::most) {
      const int64_t n = std::min(Doubles::most, begin + count - from), whole = n - n % laneCount;
      const double *pe = e.read(from, n), *pa = a.read(from, n), *pr = r ? r->read(from, n) : nullptr;
      const bool added = judge == Judge::Model ? addFinite<Judge::Model>(s, pe, pa, pr, from, whole, tol)
                                               : addFinite<Judge::Elements>(s, pe, pa, pr, from, whole, tol);
      const int64_t rest = added ? whole : 0;
      addEach(s, pe + rest, pa + rest, pr ? pr + rest : nullptr, from + rest, n - rest, tol, judge == Judge::Elements,
              actual.scalar_type());
    }
  });
  Sums s;
  for (const Sums& part : parts) append(s, part);
  return s;
}

int64_t firstBeyond(const at::Tensor& expected, const at::Tensor& actual, const at::Tensor& reference, double allowed,
                    const Tolerance& tol) {
  const at::Tensor flatE = expected.reshape({-1}), flatA = actual.reshape({-1}), flatR = reference.reshape({-1});
  std::atomic<int64_t> first = std::numeric_limits<int64_t>::max();
  forEachChunk(expected.numel(), [&](int64_t, int64_t begin, int64_t count) {
    Doubles e(flatE), a(flatA), r(flatR);
    for (int64_t from = begin; from < begin + count && from < first; from += Doubles::most) {
      const int64_t n = std::min(Doubles::most, begin + count - from);
      const double *pe = e.read(from, n), *pa = a.read(from, n), *pr = r.read(from, n);
      for (int64_t i = 0; i < n; ++i) {
        const double off = std::abs(withoutOverflow(pa[i], pe[i], pr[i], actual.scalar_type()) - pr[i]);
        if (off <= allowed + tol.absolute + tol.relative * std::abs(pr[i]) || !std::isfinite(pe[i]) ||
            !std::isfinite(pr[i]))
          continue;
        int64_t known = first;
        while (from + i < known && !first.compare_exchange_weak(known, from + i)) {
        }
        return;
      }
    }
  });
  return first == std::numeric_limits<int64_t>::max() ? -1 : first.load();
}

std::vector<uint64_t> ulpHistogram(const at::Tensor& expected, const at::Tensor& actual) {
  switch (expected.scalar_type()) {
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
      return countUlps<uint16_t>(expected, actual);
    case c10::ScalarType::Float:
      return countUlps<uint32_t>(expected, actual);
    case c10::ScalarType::Double:
      return countUlps<uint64_t>(expected, actual);
    default:
      return {};
  }
}

}  // namespace graft
