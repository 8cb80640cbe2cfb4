// Prices: what a plan of fusion costs, in microseconds, from bytes and operations. Ratios matter, not the figures.
#pragma once

#include <cstddef>

namespace graft {

/// Of two cores of a server's CPU, measured (docs/measurements/cpu.md).
struct Prices {
  double call = 2.5;                       ///< microseconds that one operator costs before it does anything
  double bytesPerMicrosecond = 12e3;       ///< read or written, beyond the first-level cache
  double operationsPerMicrosecond = 20e3;  ///< of elementary floating-point operations, vectorised
};

/// Of one H200, as part of a CUDA graph, measured (docs/measurements/zoo.md).
inline constexpr Prices kGpuPrices{.call = 1.2, .bytesPerMicrosecond = 3.8e6, .operationsPerMicrosecond = 15e6};

inline double microsecondsOfBytes(const Prices& p, double bytes) { return bytes / p.bytesPerMicrosecond; }
inline double microsecondsOfOperations(const Prices& p, double n) { return n / p.operationsPerMicrosecond; }

}  // namespace graft
