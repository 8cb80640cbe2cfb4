#include "kernels/generated/jit_library.h"

#include <dlfcn.h>

#include <filesystem>

namespace graft::ops {
namespace {

struct Opened {
  const GraftJit* jit = nullptr;
  std::string why;
};

Opened open() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&jitLibrary), &info) || !info.dli_fname)
    return {nullptr, "this library's folder is not known"};
  std::error_code ignored;
  const std::filesystem::path path =
      std::filesystem::canonical(info.dli_fname, ignored).parent_path() / "libgraft_ops_llvm.so";
  if (!std::filesystem::exists(path, ignored)) return {nullptr, "there is no " + path.string()};
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return {nullptr, dlerror()};
  const auto table = reinterpret_cast<GraftJitFunction>(dlsym(library, "graft_jit"));
  if (!table || table()->version != graftJitVersion) return {nullptr, path.string() + " belongs to another version"};
  return {table(), ""};
}

const Opened& opened() {
  static const auto* const result = new Opened(open());
  return *result;
}

}  // namespace

const GraftJit* jitLibrary() { return opened().jit; }
const std::string& jitStatus() { return opened().why; }

}  // namespace graft::ops
