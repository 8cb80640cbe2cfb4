#include "app/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/base/suggest.h"
#include "core/base/words.h"
#include "core/formats/export.h"
#include "core/formats/format_list.h"
#include "core/formats/model.h"
#include "matcher/lang/rule_file.h"
#include "views/drawing/drawing.h"

namespace graft::cli {
namespace {

Error unknown(const RuleFile& file, const char* what, const std::string& name, const std::vector<std::string>& names) {
  std::string message = fmt::format("{} has no {} {}", file.path, what, name);
  if (const auto near = nearestName(name, names))
    message += fmt::format("; did you mean {}?", *near);
  else if (!names.empty())
    message += fmt::format("; it has {}", fmt::join(names, ", "));
  return {ErrorKind::Usage, message, {}};
}

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

}  // namespace

Result<std::vector<std::string>> modelFiles(const std::vector<std::string>& paths, const Console& console) {
  std::vector<std::string> out, others;
  for (const std::string& p : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(p, error)) {
      out.push_back(p);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(p, error)) {
      const std::string file = entry.path().string();
      const FileFormat* format = formatOfEnding(entry.path().extension().string());
      if (!format) continue;
      if (format->sharesEnding && isSavedObject(file)) {
        others.push_back(entry.path().filename().string());
      } else {
        found.push_back(file);
      }
    }
    if (error || found.empty())
      return badInput(fmt::format("{}: no models ({}) in this folder", p, fmt::join(endingPatterns(), ", ")));
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }
  if (!others.empty()) {
    std::sort(others.begin(), others.end());
    console.warn(fmt::format("{} passed over, written by torch.save and so no model: {}",
                             counted(others.size(), "file"), firstFew(others, 3)));
  }
  return out;
}

std::string modelHelp() { return "A model file: " + modelKinds(); }

Status checkModelOutput(const std::string& path) {
  auto format = exportFormat(path);
  if (format) return done();
  Error e = format.error();
  if (isPictureName(path)) e.message += "; pictures are made by `graft draw`";
  return e;
}

Result<std::pair<std::string, size_t>> parseExpectation(const std::string& text, const RuleFile& file) {
  const size_t eq = text.find('=');
  const std::string digits = eq == std::string::npos ? "" : text.substr(eq + 1);
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
    return Error{ErrorKind::Usage, fmt::format("--expect {}: write RULE=COUNT, like Attention=12", text), {}};
  const std::string rule = text.substr(0, eq);
  if (!file.findRule(rule)) return noSuchRule(file, rule);
  return std::pair{rule, std::stoul(digits)};
}

Status forEachModel(const std::vector<std::string>& paths, const Console& console,
                    const std::function<Status(const std::string&)>& f) {
  auto files = modelFiles(paths, console);
  if (!files) return files.error();
  Status first = done();
  size_t failed = 0;
  for (const std::string& file : *files) {
    Status s = f(file);
    if (s) continue;
    if (s.error().kind == ErrorKind::Cancelled || files->size() == 1) return s;
    console.warn("graft: " + s.error().format());
    if (failed++ == 0) first = s;
  }
  if (failed == 0) return done();
  Error e = first.error();
  e.message = fmt::format("{} of {} models failed, the first with: {}", failed, files->size(), e.message);
  return e;
}

Error noSuchRule(const RuleFile& file, const std::string& rule) {
  std::vector<std::string> names;
  for (const Rule& r : file.rules) names.push_back(r.name);
  return unknown(file, "rule", rule, names);
}

std::string whyHint(const std::string& model, const std::string& rules, const std::string& rule) {
  return fmt::format("`graft explain {} --rules {} --rule {}` says why {} matches nowhere", model, rules, rule,
                     rule == "NAME" ? "a rule" : rule);
}

std::string whyHint(const std::string& model, const ChosenRecipe& rules) {
  const RuleFile& file = rules.file;
  return whyHint(model, file.path, file.rules.size() == 1 ? file.rules[0].name : "NAME");
}

bool foundNothing(const StepRun& s) { return s.records.empty() && s.refused.empty() && s.rolledBack.empty(); }

bool rewroteNothing(const RecipeRun& run) { return std::all_of(run.steps.begin(), run.steps.end(), foundNothing); }

std::string changingSteps(const RecipeRun& run) {
  std::vector<std::string> names;
  for (const StepRun& s : run.steps)
    if (std::any_of(s.records.begin(), s.records.end(), [](const Record& r) { return r.changesNumbers; }))
      names.push_back(s.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<ChosenRecipe> loadRecipe(const std::string& path, const std::string& name) {
  auto file = loadRuleFile(path, semantics().operators());
  if (!file) return file.error();
  auto recipe = chooseRecipe(*file, name);
  if (!recipe) return recipe.error();
  return ChosenRecipe{std::move(*file), std::move(*recipe)};
}

}  // namespace graft::cli
