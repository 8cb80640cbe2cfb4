#include "app/workbench/compile/memory_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace graft::workbench {

double memoryBandwidth(int threads) {
  constexpr size_t bytes = size_t{64} << 20;
  constexpr int rounds = 5;
  const size_t parts = threads > 0 ? static_cast<size_t>(threads) : std::max(1U, std::thread::hardware_concurrency());
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes);
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> workers;
    for (size_t p = 0; p < parts; ++p)
      workers.emplace_back([&, p] {
        const size_t first = bytes / parts * p;
        std::memcpy(to.data() + first, from.data() + first, bytes / parts);
      });
    for (std::thread& w : workers) w.join();
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, 2.0 * static_cast<double>(bytes / parts * parts) / us);
  }
  return best;
}

}  // namespace graft::workbench
