#include "app/commands/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "core/base/words.h"
#include "core/formats/export.h"
#include "core/formats/format_list.h"
#include "core/formats/model.h"
#include "views/drawing/drawing.h"

namespace graft::cli {

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
      if (file.ends_with(".inputs.pt")) continue;  // a model's inputs, beside it
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

void addJUnitOption(CLI::App& command, std::string& file) {
  command
      .add_option("--junit", file,
                  "Write JUnit XML for CI systems: a test for each model, which fails as the model does")
      ->type_name("FILE.xml");
}

Ending noted(JUnitFile& junit, const std::string& model, const std::function<Ending()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  Ending ending = f();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  junit.add(model, seconds.count(), ending.status ? std::nullopt : std::optional<Error>(ending.status.error()),
            ending.isUnchanged ? "nothing was rewritten" : "");
  return ending;
}

std::string modelHelp() { return "A model file: " + modelKinds(); }

Status checkModelOutput(const std::string& path) {
  auto format = exportFormat(path);
  if (format) return done();
  Error e = format.error();
  if (isPictureName(path)) e.message += "; pictures are made by `graft draw`";
  return e;
}

Result<workbench::Expectation> parseExpectation(const std::string& text, const RuleFile& file) {
  const size_t eq = text.find('=');
  const std::string digits = eq == std::string::npos ? "" : text.substr(eq + 1);
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
    return Error{ErrorKind::Usage, fmt::format("--expect {}: write RULE=COUNT, like Attention=12", text), {}};
  const std::string rule = text.substr(0, eq);
  if (auto known = workbench::ruleNamed(file, rule); !known) return known.error();
  return workbench::Expectation{rule, std::stoul(digits)};
}

Ending forEachModel(const std::vector<std::string>& paths, const Console& console,
                    const std::function<Ending(const std::string&)>& f) {
  auto files = modelFiles(paths, console);
  if (!files) return files.error();
  Status first = done();
  size_t failed = 0;
  for (const std::string& file : *files) {
    Ending e = f(file);
    if (files->size() == 1) return e;
    if (e.status) continue;
    if (e.status.error().kind == ErrorKind::Cancelled) return e;
    console.warn("graft: " + e.status.error().format());
    if (failed++ == 0) first = e.status;
  }
  if (failed == 0) return done();
  Error e = first.error();
  e.message = fmt::format("{} of {} models failed, the first with: {}", failed, files->size(), e.message);
  return e;
}

std::string whyHint(const std::string& model, const std::string& rules, const std::string& rule) {
  return fmt::format("`graft explain {} --rules {} --rule {}` says why {} matches nowhere", model, rules, rule,
                     rule == "NAME" ? "a rule" : rule);
}

std::string whyHint(const std::string& model, const workbench::ChosenRecipe& rules) {
  const RuleFile& file = rules.file;
  return whyHint(model, file.path, file.rules.size() == 1 ? file.rules[0].name : "NAME");
}

}  // namespace graft::cli
