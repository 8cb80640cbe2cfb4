// Where the LibTorch of this process lies: the CUDA packages that its wheel brings along lie beside it.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <filesystem>

namespace graft {

/// The folder of its libraries, torch/lib; empty where this process has not loaded it.
inline std::filesystem::path loadedTorch() {
  void* library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return {};
  std::array<char, 4096> origin{};
  const int status = dlinfo(library, RTLD_DI_ORIGIN, origin.data());
  dlclose(library);
  return status == 0 ? std::filesystem::path(origin.data()) : std::filesystem::path();
}

}  // namespace graft
