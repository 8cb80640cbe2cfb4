#include "core/torch/gpu_state.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/torch/timing/gpu_names.h"

namespace graft {
namespace {

using Handle = void*;

template <class F>
F* function(void* library, const char* name) {
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

/// NVML's C interface, of which these signatures have been stable since its version 2.
struct Nvml {
  int (*handleOf)(unsigned, Handle*) = nullptr;
  int (*handleAtBus)(const char*, Handle*) = nullptr;
  int (*nameOf)(Handle, char*, unsigned) = nullptr;
  int (*clockOf)(Handle, int, unsigned*) = nullptr;
  int (*powerOf)(Handle, unsigned*) = nullptr;
  bool works = false;

  Nvml() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    auto* init = function<int()>(library, "nvmlInit_v2");
    handleOf = function<int(unsigned, Handle*)>(library, "nvmlDeviceGetHandleByIndex_v2");
    handleAtBus = function<int(const char*, Handle*)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
    nameOf = function<int(Handle, char*, unsigned)>(library, "nvmlDeviceGetName");
    clockOf = function<int(Handle, int, unsigned*)>(library, "nvmlDeviceGetClockInfo");
    powerOf = function<int(Handle, unsigned*)>(library, "nvmlDeviceGetPowerUsage");
    works = init && handleOf && handleAtBus && nameOf && clockOf && powerOf && init() == 0;
  }

  GpuState state(Handle handle) const {
    constexpr int smClock = 1, memoryClock = 2;
    GpuState state;
    std::array<char, 96> name{};
    if (nameOf(handle, name.data(), name.size()) == 0) state.name = name.data();
    clockOf(handle, smClock, &state.smClockMHz);
    clockOf(handle, memoryClock, &state.memoryClockMHz);
    unsigned milliwatts = 0;
    if (powerOf(handle, &milliwatts) == 0) state.powerWatts = milliwatts / 1000.0;
    return state;
  }
};

const Nvml& nvml() {
  static const Nvml one;
  return one;
}

}  // namespace

std::optional<GpuState> gpuState(int device) {
  if (!nvml().works) return std::nullopt;
  const std::string bus = gpuBus(device);
  Handle handle = nullptr;
  if (bus.empty() || nvml().handleAtBus(bus.c_str(), &handle) != 0) return std::nullopt;
  return nvml().state(handle);
}

std::optional<GpuState> gpuOfMachine(int index) {
  Handle handle = nullptr;
  if (index < 0 || !nvml().works || nvml().handleOf(static_cast<unsigned>(index), &handle) != 0) return std::nullopt;
  return nvml().state(handle);
}

std::string gpuStatesText(const std::vector<GpuState>& seen) {
  if (seen.empty()) return "";
  const auto range = [&](auto of) {
    const auto [low, high] = std::minmax_element(seen.begin(), seen.end(),
                                                 [&](const GpuState& a, const GpuState& b) { return of(a) < of(b); });
    const std::string from = fmt::format("{:.0f}", of(*low)), to = fmt::format("{:.0f}", of(*high));
    return from == to ? from : from + " to " + to;
  };
  return fmt::format("{}, SM clock {} MHz, {} W", seen.front().name,
                     range([](const GpuState& s) { return static_cast<double>(s.smClockMHz); }),
                     range([](const GpuState& s) { return s.powerWatts; }));
}

}  // namespace graft
