#include "matcher/rule/pattern.h"

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

}  // namespace graft
