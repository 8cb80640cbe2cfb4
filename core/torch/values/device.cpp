#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "core/torch/values/device.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

/// LibTorch's CUDA half registers itself when it is loaded, which must come before anybody asks whether there is CUDA:
/// the answer is remembered. Our operator library does this when it is loaded first. Returns why it could not be, or
/// nothing.
std::string loadCuda() {
  static const std::string why = []() -> std::string {
    if (dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_NOW | RTLD_GLOBAL)) return {};
    if (!dlopen("libcuda.so.1", RTLD_LAZY)) return "no NVIDIA driver is installed";
    Dl_info torch{};
    if (!dladdr(reinterpret_cast<void*>(&at::globalContext), &torch)) return "LibTorch cannot be located";
    const auto library = std::filesystem::path(torch.dli_fname).parent_path() / "libtorch_cuda.so";
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) return {};
    return dlerror();
  }();
  return why;
}

}  // namespace

Result<c10::Device> requireDevice(const std::string& name) {
  c10::Device device(c10::kCPU);
  try {
    device = c10::Device(name);
  } catch (const std::exception&) {
    return Error{ErrorKind::Usage, fmt::format("'{}' is no device; use cpu, cuda or cuda:N", name), {}};
  }
  if (device.is_cpu() || device.is_meta()) return device;
  if (!device.is_cuda())
    return Error{
        ErrorKind::NoDevice, fmt::format("the device '{}' is not supported; use cpu, cuda or cuda:N", name), {}};
  if (std::string why = loadCuda(); !why.empty())
    return Error{ErrorKind::NoDevice, fmt::format("no CUDA here: {}", why), {}};
  try {
    const int count = at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
    if (count == 0)
      return Error{ErrorKind::NoDevice, "no CUDA device is visible on this machine; run with --device cpu", {}};
    if (!device.has_index()) device = c10::Device(c10::kCUDA, 0);
    if (device.index() >= count)
      return Error{
          ErrorKind::NoDevice, fmt::format("there is no '{}': this machine has {} CUDA device(s)", name, count), {}};
    at::globalContext().lazyInitDevice(c10::kCUDA);
  } catch (const std::exception& e) {
    return Error{ErrorKind::NoDevice, fmt::format("CUDA does not start: {}", shortMessage(e)), {}};
  }
  return device;
}

void synchronize(c10::Device device) {
  if (!device.is_cpu()) c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
}

}  // namespace graft
