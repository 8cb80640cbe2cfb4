#include "app/workbench/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/suggest.h"
#include "core/compile/fusion/steering.h"
#include "core/torch/operator_library.h"
#include "matcher/lang/rule_file.h"

namespace graft::workbench {
namespace {

Error unknown(const RuleFile& file, const char* what, const std::string& name, const std::vector<std::string>& names) {
  std::string message = fmt::format("{} has no {} {}", file.path, what, name);
  if (const auto near = nearestName(name, names))
    message += fmt::format("; did you mean {}?", *near);
  else if (!names.empty())
    message += fmt::format("; it has {}", fmt::join(names, ", "));
  return {ErrorKind::Usage, message, {}};
}

}  // namespace

Result<Recipe> chooseRecipe(const RuleFile& file, const std::string& name) {
  if (!name.empty()) {
    if (const Recipe* r = file.findRecipe(name)) return *r;
    std::vector<std::string> names;
    for (const Recipe& r : file.recipes) names.push_back(r.name);
    Error e = unknown(file, "recipe", name, names);
    if (names.empty()) e.message += "; without --recipe all its rules run, in their order";
    return e;
  }
  Recipe all;
  all.name = "all rules";
  for (const Rule& r : file.rules)
    if (r.replacement) all.steps.push_back({r.name, {}, {}, r.line});
  if (all.steps.empty()) return badInput(fmt::format("{} has no rule with a replacement", file.path));
  return all;
}

Result<RuleFile> loadRules(const std::string& path, const OperatorSet& operators) {
  return loadRuleFile(path, operators, [](const std::string& library) -> Status {
    auto loaded = loadUserLibrary(library);
    return loaded ? done() : Status(loaded.error());
  });
}

CheckedRules checkRules(const std::string& path, const OperatorSet& operators, bool loadLibraries) {
  CheckedRules out;
  out.file = path;
  const auto read = loadLibraries ? loadRules(path, operators) : loadRuleFile(path, operators);
  if (!read) {
    out.mistake = read.error();
    return out;
  }
  for (const Rule& r : read->rules) out.rules.push_back(r.name);
  for (const Recipe& r : read->recipes) out.recipes.push_back(r.name);
  return out;
}

Result<ChosenRecipe> loadRecipe(const std::string& path, const std::string& name, const OperatorSet& operators) {
  auto file = loadRules(path, operators);
  if (!file) return file.error();
  auto recipe = chooseRecipe(*file, name);
  if (!recipe) return recipe.error();
  return ChosenRecipe{std::move(*file), std::move(*recipe)};
}

Result<Recipe> firstSteps(const Recipe& recipe, size_t count) {
  if (count < 1 || count > recipe.steps.size())
    return Error{
        ErrorKind::Usage,
        fmt::format("the recipe {} has {} steps: its first {} cannot be run", recipe.name, recipe.steps.size(), count),
        {}};
  Recipe cut = recipe;
  if (count < cut.steps.size()) cut.expect.clear();
  cut.steps.resize(count);
  return cut;
}

Status steerFusion(Recipe& recipe, const std::string& plan) {
  if (auto steering = steeringOf(plan); !steering) return steering.error();
  bool isFound = false;
  for (Step& step : recipe.steps) {
    if (step.name != "fuse") continue;
    isFound = true;
    std::erase_if(step.kwargs, [](const auto& argument) { return argument.first == "plan"; });
    step.kwargs.emplace_back("plan", Argument(plan));
  }
  if (isFound) return done();
  return Error{
      ErrorKind::Usage, fmt::format("the recipe {} has no step fuse() that a plan could steer", recipe.name), {}};
}

void planForDevice(Recipe& recipe, const std::string& device) {
  if (!device.starts_with("cuda")) return;
  for (Step& step : recipe.steps) {
    const Pass* const pass = findPass(step.name);
    const bool isSaid =
        std::any_of(step.kwargs.begin(), step.kwargs.end(), [](const auto& k) { return k.first == "gpu"; });
    if (pass && takesKeyword(*pass, "gpu") && !isSaid) step.kwargs.emplace_back("gpu", Argument(true));
  }
}

Result<const Rule*> ruleNamed(const RuleFile& file, const std::string& name) {
  if (const Rule* rule = file.findRule(name)) return rule;
  std::vector<std::string> names;
  for (const Rule& r : file.rules) names.push_back(r.name);
  return unknown(file, "rule", name, names);
}

bool foundNothing(const StepRun& s) { return s.records.empty() && s.refused.empty() && s.rolledBack.empty(); }

bool foundNothing(const std::vector<StepRun>& steps) {
  return std::all_of(steps.begin(), steps.end(), [](const StepRun& s) { return foundNothing(s); });
}

bool rewroteNothing(const std::vector<StepRun>& steps) {
  const bool hasRules = std::any_of(steps.begin(), steps.end(), [](const StepRun& s) { return s.isRule; });
  // A rule that only finds leaves records that add and remove nothing.
  const auto changes = [](const Record& r) { return !r.added.empty() || !r.removed.empty() || !r.outputs.empty(); };
  return std::none_of(steps.begin(), steps.end(), [&](const StepRun& s) {
    const Pass* pass = s.isRule ? nullptr : findPass(s.name);
    const bool onlyTidies =
        pass && pass->arguments.empty() && !pass->rewrites &&
        std::none_of(s.records.begin(), s.records.end(), [](const Record& r) { return r.changesNumbers; });
    if (hasRules && onlyTidies) return false;
    return s.isRule ? std::any_of(s.records.begin(), s.records.end(), changes) : !s.records.empty();
  });
}

std::string changingSteps(const std::vector<StepRun>& steps) {
  std::vector<std::string> names;
  for (const StepRun& s : steps)
    if (std::any_of(s.records.begin(), s.records.end(), [](const Record& r) { return r.changesNumbers; }))
      names.push_back(s.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// A file that does not parse may be one that it imports: it is read again.
bool RuleText::isCurrent() const {
  std::error_code none;
  return rules_ && *rules_ && std::all_of(imports_.begin(), imports_.end(), [&](const auto& i) {
           return std::filesystem::last_write_time(i.first, none) == i.second;
         });
}

const Result<RuleFile>& RuleText::read(std::string text, std::string file, const OperatorSet& operators) {
  if (text_ == text && file_ == file && isCurrent()) return *rules_;
  text_ = std::move(text);
  file_ = std::move(file);
  const LoadLibrary onlyLoaded = [](const std::string& library) -> Status {
    if (isUserLibraryLoaded(library)) return done();
    return badInput(fmt::format(
        "{} is not loaded: load it first. Nobody else does, because loading a library runs its code", library));
  };
  rules_.emplace(parseRuleText(text_, file_, operators, onlyLoaded));
  imports_.clear();
  std::error_code none;
  if (*rules_)
    for (const std::string& path : (*rules_)->imports)
      imports_.emplace_back(path, std::filesystem::last_write_time(path, none));
  return *rules_;
}

Mistake mistakeIn(const std::string& file, std::string_view text, const Error& error) {
  const Position p = error.position.value_or(Position{});
  if (p.file == file || p.file.empty()) return {error.message, p.line, p.column};
  const std::filesystem::path other(p.file);
  Mistake out{fmt::format("{}:{}:{}: {}", other.filename().string(), p.line, p.column, error.message)};
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view here = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(here.size() + 1, text.size()));
    const size_t at = here.find(other.stem().string());
    if (!here.starts_with("from ") || at == std::string_view::npos || here.find(" import ") < at) continue;
    out.line = line;
    out.column = static_cast<int>(at) + 1;
    break;
  }
  return out;
}

}  // namespace graft::workbench
