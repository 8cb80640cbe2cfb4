#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "core/torch/operator_library.h"
#include "core/torch/values/operators.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

/// What files said, the latest last: the operator, and its library. Errors come up where no file is known any more.
struct Said {
  std::mutex mutex;
  std::map<std::string, std::string> libraryOf;
};
Said& said() {
  static Said one;
  return one;
}

std::string libraryOf(const std::string& name) {
  const std::lock_guard lock(said().mutex);
  const auto it = said().libraryOf.find(name);
  return it == said().libraryOf.end() ? "" : it->second;
}

bool exists(const std::string& path) {
  std::error_code none;
  return !path.empty() && std::filesystem::is_regular_file(path, none);
}

/// A file may say anything, and this will stand on a terminal.
bool isPlainText(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

/// A library may have come after the graph was read.
bool isHere(const std::string& name) { return c10::Dispatcher::singleton().findSchema(torchName(name)).has_value(); }

constexpr std::string_view object = "prim.GetAttr";
bool takesFunction(std::string_view name) { return name.starts_with("higher_order."); }

}  // namespace

void noteLibraryOfFile(const UserLibrary& library) {
  if (library.path.empty() || !isPlainText(library.path)) return;
  const std::lock_guard lock(said().mutex);
  for (const std::string& name : library.operators) said().libraryOf[name] = library.path;
}

bool isOfNoLibrary(const Operator& op) { return !op.hasSchema && (op.name == object || takesFunction(op.name)); }

std::vector<MissingOperator> missingOperators(const Graph& g) {
  std::vector<MissingOperator> out;
  for (NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (!isOfNoLibrary(*n.op) && (!isForeign(*n.op) || isHere(n.op->name))) continue;
    auto at = std::find_if(out.begin(), out.end(), [&](const MissingOperator& m) { return m.name == n.op->name; });
    if (at == out.end()) {
      const std::string library = libraryOf(n.op->name);
      out.push_back({n.op->name, {}, library, exists(library)});
      at = out.end() - 1;
    }
    at->nodes.push_back(n.name);
  }
  return out;
}

std::string missingOperatorsText(const std::vector<std::string>& names) {
  if (const auto called = std::ranges::find_if(names, takesFunction); called != names.end())
    return fmt::format(
        "the model calls {}, which takes a function of Python's, and Graft follows none there: export the part of the "
        "model that does without it",
        *called);
  if (std::ranges::find(names, object) != names.end())
    return "the model keeps packed weights or another object of C++, as quantised layers do, and Graft runs none of "
           "these: give it the model as it was before it was quantised";
  std::set<std::string> there, gone;
  for (const std::string& name : names)
    if (const std::string library = libraryOf(name); !library.empty()) (exists(library) ? there : gone).insert(library);
  std::string out =
      fmt::format("this machine does not have the operator{} {}; load the library that defines {} with ",
                  names.size() == 1 ? "" : "s", fmt::join(names, ", "), names.size() == 1 ? "it" : "them");
  if (!there.empty()) {
    out += fmt::format("--library {}, which the model's file names", fmt::join(there, " --library "));
  } else {
    out += "--library LIB.so";
    if (!gone.empty()) out += fmt::format(" (the model's file names {}, which is not there)", fmt::join(gone, ", "));
    out += ", or with --library MODULE.py, a file of Python that imports its package";
  }
  return out;
}

}  // namespace graft
