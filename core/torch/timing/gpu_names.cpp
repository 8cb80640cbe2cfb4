#include "core/torch/timing/gpu_names.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <optional>

namespace graft {
namespace {

template <class F>
F* driverFunction(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver ? reinterpret_cast<F*>(dlsym(driver, name)) : nullptr;
}

/// The driver's handle of a device.
std::optional<int> handleOf(int device) {
  auto* init = driverFunction<int(unsigned)>("cuInit");
  auto* deviceAt = driverFunction<int(int*, int)>("cuDeviceGet");
  int handle = 0;
  if (!init || !deviceAt || init(0) != 0 || deviceAt(&handle, device) != 0) return std::nullopt;
  return handle;
}

}  // namespace

std::string gpuBus(int device) {
  auto* bus = driverFunction<int(char*, int, int)>("cuDeviceGetPCIBusId");
  const auto handle = handleOf(device);
  std::array<char, 32> id{};
  if (!bus || !handle || bus(id.data(), static_cast<int>(id.size()), *handle) != 0) return "";
  return id.data();
}

std::string gpuUuid(int device) {
  using Uuid = std::array<unsigned char, 16>;
  auto* uuidOf = driverFunction<int(Uuid*, int)>("cuDeviceGetUuid_v2");  // the first one gives a part the whole's
  if (!uuidOf) uuidOf = driverFunction<int(Uuid*, int)>("cuDeviceGetUuid");
  const auto handle = handleOf(device);
  Uuid uuid{};
  if (!uuidOf || !handle || uuidOf(&uuid, *handle) != 0) return "";
  std::string out;
  for (const unsigned char byte : uuid) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace graft
