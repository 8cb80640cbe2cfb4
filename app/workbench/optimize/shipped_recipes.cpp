#include "app/workbench/optimize/shipped_recipes.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "matcher/lang/rule_file.h"

namespace graft::workbench {

Result<std::vector<RuleFile>> loadShippedRules(const OperatorSet& operators) {
  const std::string folder = shippedRulesFolder();
  std::vector<std::string> paths;
  std::error_code error;
  if (!folder.empty())
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      if (entry.path().extension() == ".py") paths.push_back(entry.path().string());
  if (paths.empty()) return badInput("the rules that come with Graft do not lie beside this program; install it whole");
  std::sort(paths.begin(), paths.end());
  std::vector<RuleFile> out;
  for (const std::string& path : paths) {
    auto file = loadRuleFile(path, operators);
    if (!file) return file.error();
    file->path = std::filesystem::proximate(path, error).string();
    if (error || file->path.starts_with("..")) file->path = path;
    out.push_back(std::move(*file));
  }
  return out;
}

bool hasStep(const Recipe& recipe, std::string_view name) {
  return std::any_of(recipe.steps.begin(), recipe.steps.end(), [&](const Step& s) { return s.name == name; });
}

Recipe without(const Recipe& recipe, const std::vector<std::string>& steps) {
  Recipe out = recipe;
  out.expect.clear();
  std::erase_if(out.steps, [&](const Step& s) { return std::find(steps.begin(), steps.end(), s.name) != steps.end(); });
  return out;
}

bool holds(const RecipeFit& all, const RecipeFit& some) {
  return std::all_of(some.rules.begin(), some.rules.end(), [&](const auto& rule) {
    return std::find(all.rules.begin(), all.rules.end(), rule) != all.rules.end();
  });
}

std::vector<RecipeFit> fittingRecipes(const Graph& graph, const std::vector<RuleFile>& files,
                                      const Semantics& semantics, const Job& job) {
  std::vector<RecipeFit> out;
  size_t total = 0, tried = 0;
  for (const RuleFile& f : files) total += f.recipes.size();
  for (const RuleFile& file : files)
    for (const Recipe& recipe : file.recipes) {
      job.report("trying " + recipe.name, tried++, total);
      if (job.cancelled()) return out;
      Graph copy = graph;
      auto run = runRecipe(copy, file, without(recipe, {}), semantics);
      if (!run) continue;  // a recipe that this model breaks does not fit it
      RecipeFit fit{&file, &recipe, {}, 0, graph.nodeCount(), copy.nodeCount()};
      for (const StepRun& s : run->steps)
        if (s.isRule && !s.records.empty()) {
          fit.rules.emplace_back(s.name, s.records.size());
          fit.rewrites += s.records.size();
        }
      if (fit.rewrites > 0) out.push_back(std::move(fit));
    }
  job.report("trying", total, total);
  // Of two that leave as many, the one that does more may make the trial of the other one needless.
  std::stable_sort(out.begin(), out.end(), [](const RecipeFit& a, const RecipeFit& b) {
    return a.nodesAfter != b.nodesAfter ? a.nodesAfter < b.nodesAfter : a.rewrites > b.rewrites;
  });
  // What does all that another one does, and more, comes before it: the other one needs no trial then.
  for (size_t i = 1; i < out.size(); ++i) {
    const auto at = out.begin() + static_cast<std::ptrdiff_t>(i);
    const auto first =
        std::find_if(out.begin(), at, [&](const RecipeFit& f) { return holds(*at, f) && !holds(f, *at); });
    std::rotate(first, at, at + 1);
  }
  // What makes kernels of all that no rule covers comes second, or behind what does all that it does: it serves any
  // model, and the time may end the trials. It comes first where it leaves about as few nodes as the first.
  const auto fuses =
      std::find_if(out.begin(), out.end(), [](const RecipeFit& f) { return hasStep(*f.recipe, "fuse"); });
  if (fuses != out.begin() && fuses != out.end()) {
    auto place = fuses;
    constexpr double about = 1.15;
    const bool isAsGood = static_cast<double>(fuses->nodesAfter) <= about * static_cast<double>(out[0].nodesAfter);
    const auto foremost = out.begin() + (isAsGood ? 0 : 1);
    while (place != foremost && !holds(*(place - 1), *fuses)) --place;
    std::rotate(place, fuses, fuses + 1);
  }
  // Recipes share rules: what rewrites the same by the same rules is one.
  std::set<std::set<std::pair<std::string, size_t>>> seen;
  std::erase_if(out, [&](const RecipeFit& f) { return !seen.insert({f.rules.begin(), f.rules.end()}).second; });
  return out;
}

}  // namespace graft::workbench
