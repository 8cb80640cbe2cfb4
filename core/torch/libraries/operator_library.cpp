#include "core/torch/operator_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace graft {
namespace {

// Beside the program in a build and where it is installed, or beside the library that this code is part of.
std::vector<std::filesystem::path> librarySearchPath() {
  std::vector<std::filesystem::path> out;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  // build/bin/graft finds build/lib; test programs lie one folder deeper.
  for (auto folder = program.parent_path(); folder.has_relative_path() && out.size() < 6;
       folder = folder.parent_path()) {
    out.push_back(folder / "lib" / "libgraft_ops.so");
    out.push_back(folder / "lib" / "graft" / "libgraft_ops.so");
  }
  return out;
}

/// The function by which the loaded library describes itself; null before it is loaded.
using Describe = const char* (*)();
Describe describeFunction() { return reinterpret_cast<Describe>(dlsym(RTLD_DEFAULT, "graft_ops_describe")); }

Status openLibrary(const std::string& path) {
  // RTLD_GLOBAL: operator libraries register with the LibTorch that is already here.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return done();
  const char* why = dlerror();
  return badInput(fmt::format("cannot load the operator library {}: {}", path, why ? why : "unknown reason"));
}

}  // namespace

const char* describeOperatorLibrary() {
  const Describe describe = describeFunction();
  return describe ? describe() : nullptr;
}

Result<std::string> findOperatorLibrary() {
  Dl_info loaded{};
  if (const Describe describe = describeFunction();
      describe && dladdr(reinterpret_cast<const void*>(describe), &loaded) != 0 && loaded.dli_fname)
    return std::string(loaded.dli_fname);
  if (const char* named = std::getenv("GRAFT_OPS"); named && *named) return std::string(named);
  const auto places = librarySearchPath();
  for (const auto& p : places)
    if (std::filesystem::exists(p)) return p.string();
  return badInput(fmt::format(
      "libgraft_ops.so is in no folder lib beside or above this program in {}; build it, or set GRAFT_OPS to its path",
      places.empty() ? "" : places.front().parent_path().parent_path().string()));
}

Status loadOperatorLibrary() {
  const auto own = findOperatorLibrary();
  return own ? openLibrary(*own) : Status(own.error());
}

bool usesGraftOperators(const Graph& g) {
  for (NodeId id : g.order())
    if (g.node(id).op->name.starts_with("graft.")) return true;
  return false;
}

}  // namespace graft
