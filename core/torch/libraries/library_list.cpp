#include "core/torch/libraries/library_list.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

namespace graft {
namespace {

/// The operators of a library belong to the whole process, as LibTorch's dispatcher does, and so does this list.
struct Loaded {
  std::mutex mutex;
  std::vector<UserLibrary> libraries;
};
Loaded& loaded() {
  static Loaded one;
  return one;
}

}  // namespace

std::string canonicalPath(const std::string& path) {
  std::error_code none;
  const auto out = std::filesystem::canonical(path, none);
  return none ? path : out.string();
}

void addUserLibrary(UserLibrary library) {
  const std::lock_guard lock(loaded().mutex);
  loaded().libraries.push_back(std::move(library));
}

std::optional<UserLibrary> findUserLibrary(const std::string& path) {
  const std::string at = canonicalPath(path);
  for (UserLibrary& l : userLibraries())
    if (l.path == at) return std::move(l);
  return {};
}

std::vector<UserLibrary> userLibraries() {
  const std::lock_guard lock(loaded().mutex);
  return loaded().libraries;
}

std::vector<UserLibrary> userLibrariesOf(const Graph& g) {
  std::set<std::string> called;
  for (NodeId n : g.order()) called.insert(g.node(n).op->name);
  std::vector<UserLibrary> out;
  for (UserLibrary& l : userLibraries()) {
    std::erase_if(l.operators, [&](const std::string& name) { return !called.contains(name); });
    if (!l.operators.empty()) out.push_back(std::move(l));
  }
  for (const MissingOperator& m : missingOperators(g)) {
    if (m.library.empty()) continue;
    const auto at = std::find_if(out.begin(), out.end(), [&](const UserLibrary& l) { return l.path == m.library; });
    if (at != out.end())
      at->operators.push_back(m.name);
    else
      out.push_back({m.library, {m.name}});
  }
  return out;
}

bool isUserLibraryLoaded(const std::string& path) { return findUserLibrary(path).has_value(); }

}  // namespace graft
