// Loads libgraft_ops_cuda.so from this library's folder if the machine has a driver and a GPU. It does so while this
// library is loaded, before anybody asks LibTorch whether it has CUDA, because LibTorch caches the answer. It prints
// nothing; graft_ops_cuda_status() returns the reason if the CUDA operators are not loaded.
#include <ATen/Context.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "kernels/capture/cuda_graphs.h"
#include "kernels/library/c_interface.h"

namespace {

const GraftCudaGraphs* graphs = nullptr;

std::filesystem::path folderOf(const void* symbol) {
  Dl_info info{};
  if (!dladdr(symbol, &info) || !info.dli_fname) return {};
  std::error_code ignored;
  const std::filesystem::path path = std::filesystem::canonical(info.dli_fname, ignored);
  return path.parent_path();
}

std::string loadCudaOperators() {
  if (const char* wanted = std::getenv("GRAFT_OPS_CUDA"); wanted && std::string(wanted) == "0") {
    return "switched off by GRAFT_OPS_CUDA=0";
  }
  const std::filesystem::path library =
      folderOf(reinterpret_cast<const void*>(&graft_ops_cuda_status)) / "libgraft_ops_cuda.so";
  std::error_code ignored;
  if (!std::filesystem::exists(library, ignored)) return "built without CUDA: there is no " + library.string();
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (!driver) return "no NVIDIA driver: libcuda.so.1 cannot be loaded";
  int (*init)(unsigned) = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  int (*count)(int*) = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  if (!init || !count || init(0) != 0 || count(&devices) != 0 || devices == 0) return "no NVIDIA GPU is visible";
  if (!dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_NOW | RTLD_GLOBAL)) {
    const std::filesystem::path torch =
        folderOf(reinterpret_cast<const void*>(&at::globalContext)) / "libtorch_cuda.so";
    if (!dlopen(torch.c_str(), RTLD_NOW | RTLD_GLOBAL)) return std::string("LibTorch here has no CUDA: ") + dlerror();
  }
  void* operators = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!operators) return std::string("cannot load the CUDA operators: ") + dlerror();
  const auto table = reinterpret_cast<GraftCudaGraphsFunction>(dlsym(operators, "graft_cuda_graphs"));
  if (!table || table()->version != graftCudaGraphsVersion)
    return "the libgraft_ops_cuda.so beside libgraft_ops.so belongs to another version";
  graphs = table();
  return "";
}

// Static initialisers run in no particular order. That is safe: the CUDA library needs LibTorch's dispatcher, but none
// of this library's objects.
const std::string& cudaStatus() {
  static const std::string status = loadCudaOperators();
  return status;
}

[[maybe_unused]] const bool loadedAtStart = (cudaStatus(), true);

}  // namespace

const GraftCudaGraphs* graft_ops_cuda_graphs() {
  cudaStatus();
  return graphs;
}

const char* graft_ops_cuda_status() { return cudaStatus().c_str(); }
