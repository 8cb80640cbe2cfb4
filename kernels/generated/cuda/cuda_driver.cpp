#include "kernels/generated/cuda/cuda_driver.h"

#include <dlfcn.h>

#include <type_traits>

namespace graft::ops {
namespace {

// Of cuda.h
constexpr int kMaxDynamicSharedBytes = 8, kLocalBytes = 3;
constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76, kMultiprocessorCount = 16,
              kMostSharedBytes = 97;
constexpr int kProgrammaticStreamSerialization = 6;
constexpr int64_t kSharedBytesWithoutAsking = 48 * 1024;

}  // namespace

bool CudaDriver::open() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  bool isWhole = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    isWhole &= function != nullptr;
  };
  find(ctxGetCurrent_, "cuCtxGetCurrent");
  find(ctxSetCurrent_, "cuCtxSetCurrent");
  find(devicePrimaryCtxRetain_, "cuDevicePrimaryCtxRetain");
  find(moduleLoadData_, "cuModuleLoadData");
  find(moduleUnload_, "cuModuleUnload");
  find(moduleGetFunction_, "cuModuleGetFunction");
  find(funcSetAttribute_, "cuFuncSetAttribute");
  find(funcGetAttribute_, "cuFuncGetAttribute");
  find(launchKernelEx_, "cuLaunchKernelEx");
  find(streamIsCapturing_, "cuStreamIsCapturing");
  find(deviceGet_, "cuDeviceGet");
  find(deviceGetAttribute_, "cuDeviceGetAttribute");
  find(getErrorString_, "cuGetErrorString");
  return isWhole;
}

const CudaDriver* cudaDriver() {
  static const CudaDriver* const driver = [] {
    auto* made = new CudaDriver();
    return made->open() ? made : nullptr;
  }();
  return driver;
}

std::string CudaDriver::textOf(int status) const {
  if (status == 0) return "";
  const char* text = nullptr;
  if (getErrorString_(status, &text) != 0 || !text) return "CUDA error " + std::to_string(status);
  return text;
}

void CudaDriver::enter(int device) const {
  void* context = nullptr;
  if (ctxGetCurrent_(&context) == 0 && context) return;
  int handle = 0;
  if (deviceGet_(&handle, device) == 0 && devicePrimaryCtxRetain_(&context, handle) == 0) (void)ctxSetCurrent_(context);
}

std::string CudaDriver::load(const void* binary, Module* module) const {
  return textOf(moduleLoadData_(module, binary));
}

void CudaDriver::unload(Module module) const { (void)moduleUnload_(module); }

std::string CudaDriver::find(Module module, const char* name, int64_t sharedBytes, Function* function) const {
  if (const int status = moduleGetFunction_(function, module, name); status != 0) return textOf(status);
  if (sharedBytes <= kSharedBytesWithoutAsking) return "";
  return textOf(funcSetAttribute_(*function, kMaxDynamicSharedBytes, static_cast<int>(sharedBytes)));
}

int64_t CudaDriver::localBytes(Function function) const {
  int bytes = 0;
  return funcGetAttribute_(&bytes, kLocalBytes, function) == 0 ? bytes : 0;
}

std::string CudaDriver::launch(const Launch& launch, Stream stream, void** parameters) const {
  LaunchAttribute overlap{};
  overlap.id = kProgrammaticStreamSerialization;
  overlap.value.programmaticStreamSerialization = 1;
  LaunchConfig config{
      static_cast<unsigned>(launch.blocks),      1,      1,        static_cast<unsigned>(launch.threads), 1, 1,
      static_cast<unsigned>(launch.sharedBytes), stream, &overlap, launch.isOverlapped ? 1U : 0U};
  return textOf(launchKernelEx_(&config, launch.function, parameters, nullptr));
}

bool CudaDriver::isCapturing(Stream stream) const {
  int status = 0;
  return streamIsCapturing_(stream, &status) != 0 || status != 0;
}

CudaDriver::Gpu CudaDriver::gpu(int device) const {
  int handle = 0, major = 0, minor = 0;
  Gpu gpu;
  if (deviceGet_(&handle, device) != 0 || deviceGetAttribute_(&major, kComputeCapabilityMajor, handle) != 0 ||
      deviceGetAttribute_(&minor, kComputeCapabilityMinor, handle) != 0 ||
      deviceGetAttribute_(&gpu.multiprocessors, kMultiprocessorCount, handle) != 0 ||
      deviceGetAttribute_(&gpu.sharedBytes, kMostSharedBytes, handle) != 0)
    return {};
  gpu.capability = major * 10 + minor;
  return gpu;
}

}  // namespace graft::ops
