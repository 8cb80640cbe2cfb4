#include "core/torch/machine_speed.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>

#include "core/torch/values/device.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

double microsecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

/// Larger and larger products, each several times: the best of all. Others may use the machine in a moment.
double measured(c10::Device device, c10::ScalarType type) {
  const int64_t largest = device.is_cpu() ? 1024 : 8192;
  constexpr double perSize = 60e3, inAll = 300e3;  // microseconds
  constexpr int leastRounds = 3, mostRounds = 30;
  const auto start = std::chrono::steady_clock::now();
  double best = 0;
  const c10::InferenceMode inference;
  for (int64_t n = 256; n <= largest; n *= 2) {
    const at::Tensor a = at::ones({n, n}, at::TensorOptions(type).device(device));
    const auto first = std::chrono::steady_clock::now();
    double least = 0;
    for (int i = 0; i < leastRounds || (i < mostRounds && microsecondsSince(first) < perSize); ++i) {
      synchronize(device);
      const auto begin = std::chrono::steady_clock::now();
      const at::Tensor product = at::mm(a, a);
      synchronize(device);
      const double us = microsecondsSince(begin);
      if (i > 0) least = least > 0 ? std::min(least, us) : us;  // the first one prepares
    }
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / least);
    if (microsecondsSince(start) > inAll) break;
  }
  return best;
}

}  // namespace

double productSpeed(const std::string& name, DType type, int threads) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, DType, int>, double> known;
  const std::lock_guard lock(mutex);
  const auto device = requireDevice(name);
  if (!device || !isFloatingPoint(type)) return 0;
  const int before = at::get_num_threads();
  const int wanted = threads > 0 ? threads : before;
  const auto key = std::tuple(name, type, wanted);
  if (const auto at = known.find(key); at != known.end()) return at->second;
  if (wanted != before) at::set_num_threads(wanted);
  double speed = 0;
  try {
    speed = measured(*device, torchDType(type));
  } catch (const std::exception&) {
    speed = 0;  // no product of that type
  }
  if (wanted != before) at::set_num_threads(before);
  return known.emplace(key, speed).first->second;
}

}  // namespace graft
