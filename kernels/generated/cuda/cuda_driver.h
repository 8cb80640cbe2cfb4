// CudaDriver: the few functions of NVIDIA's driver that loading and launching generated kernels takes. The driver is
// opened when it is first needed, so this library needs no CUDA to be built or loaded.
//
//   if (const CudaDriver* d = cudaDriver()) d->launch(…);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace graft::ops {

class CudaDriver {
 public:
  using Module = void*;
  using Function = void*;
  using Stream = void*;

  /// Makes the GPU's context current in this thread if the thread has none: LibTorch makes it so only when it needs it.
  /// Call it before the others.
  void enter(int device) const;
  /// Empty, or what went wrong; so the next ones. Of the GPU that is current in this thread.
  std::string load(const void* binary, Module*) const;
  void unload(Module) const;
  std::string find(Module, const char* name, int64_t sharedBytes, Function*) const;
  /// Memory that each of its threads has for itself, where registers do not suffice.
  int64_t localBytes(Function) const;
  struct Launch {
    Function function = nullptr;
    int64_t blocks = 0;
    int threads = 0;
    int64_t sharedBytes = 0;
    bool isOverlapped = false;  ///< programmatic dependent launch
  };
  std::string launch(const Launch&, Stream, void** parameters) const;
  /// Whether a CUDA graph is being captured on the stream.
  bool isCapturing(Stream) const;
  struct Gpu {
    int capability = 0;  ///< 90 for 9.0
    int multiprocessors = 0;
    int sharedBytes = 0;  ///< that a block may have
  };
  Gpu gpu(int device) const;

 private:
  friend const CudaDriver* cudaDriver();
  bool open();
  std::string textOf(int status) const;

  // As cuda.h declares them; their layout is part of the driver's ABI.
  struct LaunchAttribute {
    int id;
    int padding;
    union {
      char all[64];
      int programmaticStreamSerialization;
    } value;
  };
  struct LaunchConfig {
    unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
    void* stream;
    LaunchAttribute* attributes;
    unsigned attributeCount;
  };
  int (*ctxGetCurrent_)(void**) = nullptr;
  int (*ctxSetCurrent_)(void*) = nullptr;
  int (*devicePrimaryCtxRetain_)(void**, int) = nullptr;
  int (*moduleLoadData_)(void**, const void*) = nullptr;
  int (*moduleUnload_)(void*) = nullptr;
  int (*moduleGetFunction_)(void**, void*, const char*) = nullptr;
  int (*funcSetAttribute_)(void*, int, int) = nullptr;
  int (*funcGetAttribute_)(int*, int, void*) = nullptr;
  int (*launchKernelEx_)(const LaunchConfig*, void*, void**, void**) = nullptr;
  int (*streamIsCapturing_)(void*, int*) = nullptr;
  int (*deviceGet_)(int*, int) = nullptr;
  int (*deviceGetAttribute_)(int*, int, int) = nullptr;
  int (*getErrorString_)(int, const char**) = nullptr;
};

/// Null where there is none.
const CudaDriver* cudaDriver();

}  // namespace graft::ops
