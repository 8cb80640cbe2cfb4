#include "matcher/passes/passes.h"

#include <algorithm>

#include "core/compile/fusion/fusion.h"
#include "matcher/passes/pass.h"

namespace graft {

// pass_list.inc is written by matcher/CMakeLists.txt: GRAFT_LISTED_PASS(NAME) for each matcher/passes/NAME.cpp.
#define GRAFT_LISTED_PASS(name) extern const Pass pass_##name;
#include "pass_list.inc"
#undef GRAFT_LISTED_PASS

std::span<const Pass> passes() {
  static const std::vector<Pass> all{
#define GRAFT_LISTED_PASS(name) pass_##name,
#include "pass_list.inc"
#undef GRAFT_LISTED_PASS
  };
  return all;
}

const Pass* findPass(std::string_view name) {
  const auto all = passes();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Pass& p) { return p.name == name; });
  return at == all.end() ? nullptr : &*at;
}

bool takesKeyword(const Pass& pass, std::string_view keyword) {
  return (" " + std::string(pass.arguments)).find(" " + std::string(keyword) + "=") != std::string::npos;
}

bool isForGpu(const Graph& g, const Step& step) {
  for (const auto& [key, value] : step.kwargs)
    if (key == "gpu" && value.as<bool>()) return *value.as<bool>();
  return isOnGpu(g);
}

std::string nameArgument(const Step& step, size_t index) {
  if (index >= step.args.size()) return "";
  const Argument& a = step.args[index];
  std::string text;
  if (const auto* n = a.as<Named>()) text = n->name;
  if (const auto* s = a.as<std::string>()) text = *s;
  const size_t dot = text.rfind('.');
  return dot == std::string::npos ? text : text.substr(dot + 1);
}

}  // namespace graft
