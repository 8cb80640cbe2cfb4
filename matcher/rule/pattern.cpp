#include "matcher/rule/pattern.h"

#include <utility>

namespace graft {

const Rule* RuleFile::findRule(std::string_view name) const {
  for (const Rule& r : rules)
    if (r.name == name) return &r;
  return nullptr;
}

const Recipe* RuleFile::findRecipe(std::string_view name) const {
  for (const Recipe& r : recipes)
    if (r.name == name) return &r;
  return nullptr;
}

void takeGradients(RuleFile& file) {
  for (Rule& r : file.rules) {
    if (!r.differentiable) continue;
    r.replacement = std::exchange(r.differentiable, std::nullopt);
    r.replacementExpressions = std::move(r.differentiableExpressions);
  }
}

}  // namespace graft
