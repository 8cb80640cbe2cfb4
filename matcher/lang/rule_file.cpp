#include "matcher/lang/rule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/base/suggest.h"
#include "matcher/lang/rule_compiler.h"

namespace graft {
namespace {

using namespace lang;

bool derives(const ClassSyntax& c, std::string_view base) {
  return std::any_of(c.bases.begin(), c.bases.end(), [&](const Syntax& b) {
    const std::string name = dottedName(b);
    return name == base || name.ends_with("." + std::string(base));
  });
}

/// pattern and replacement beside each other in a file, as a script for torch.fx has them.
std::optional<RuleSyntax> bareRule(const FileSyntax& file, std::string_view path) {
  RuleSyntax rule;
  const auto side = [&](std::initializer_list<const char*> names) -> SideSyntax {
    for (const char* n : names) {
      if (const FunctionSyntax* f = file.findFunction(n)) return {f, nullptr};
      if (const ClassSyntax* c = file.findClass(n); c && !derives(*c, "Rule") && !derives(*c, "Recipe"))
        return {nullptr, c};
    }
    return {};
  };
  rule.pattern = side({"pattern", "Pattern"});
  if (!rule.pattern) return std::nullopt;
  rule.replacement = side({"replacement", "replace", "Replacement"});
  rule.where = file.findFunction("where");
  rule.name = std::filesystem::path(path).stem().string();
  rule.doc = file.doc;
  rule.span = rule.pattern.span();
  return rule;
}

/// Rule files that take rules from each other, while one of them is read.
struct Reading {
  const OperatorSet& operators;
  std::vector<std::string> open;              // from the first file to the one that is being read, canonical
  bool onDisk = true;                         // whether the first one's neighbours may be looked at
  std::map<std::string, RuleFile> done = {};  // by path
};

/// Where the shipped rules lie beside this program; empty where they do not.
std::filesystem::path shippedRules() {
  std::error_code e;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", e).parent_path();
  for (const char* folder : {"../share/graft/rules", "../../resources/rules", "../../../resources/rules"})
    if (std::filesystem::is_directory(program / folder, e)) return std::filesystem::canonical(program / folder, e);
  return {};
}

/// The rule file that a module's name stands for: a neighbour of the importing file, or a shipped one. Nothing for
/// Python's own modules and for names that are no plain word, so that no import leads out of these two folders.
std::optional<std::string> ruleFileOf(std::string_view module, const Reading& reading) {
  if (module.starts_with(".")) module.remove_prefix(1);
  if (module.empty() || module.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") !=
                            std::string_view::npos)
    return std::nullopt;
  std::vector<std::filesystem::path> folders;
  if (reading.onDisk || reading.open.size() > 1)
    folders.push_back(std::filesystem::path(reading.open.back()).parent_path());
  if (auto shipped = shippedRules(); !shipped.empty()) folders.push_back(std::move(shipped));
  for (const auto& folder : folders) {
    std::error_code e;
    const auto path = std::filesystem::canonical(folder / (std::string(module) + ".py"), e);
    if (!e && std::filesystem::is_regular_file(path, e)) return path.string();
  }
  return std::nullopt;
}

RuleFile compile(const SourceText& text, Reading& reading);

const RuleFile& imported(const std::string& path, const SourceText& by, uint32_t offset, Reading& reading) {
  if (const auto known = reading.done.find(path); known != reading.done.end()) return known->second;
  if (std::find(reading.open.begin(), reading.open.end(), path) != reading.open.end()) {
    std::string circle;
    for (auto f = std::find(reading.open.begin(), reading.open.end(), path); f != reading.open.end(); ++f)
      circle += std::filesystem::path(*f).filename().string() + " → ";
    by.fail(offset,
            "rule files import each other in a circle: " + circle + std::filesystem::path(path).filename().string());
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  if (!in) by.fail(offset, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  reading.open.push_back(path);
  RuleFile file = compile(SourceText::scan(content.view(), path), reading);
  reading.open.pop_back();
  return reading.done.emplace(path, std::move(file)).first->second;
}

void importRules(const SourceText& text, Reading& reading, RuleFile& out) {
  const auto add = [&](Rule rule, const std::string& name, uint32_t offset) {
    rule.name = name;
    if (const Rule* same = out.findRule(name); same && same->file == rule.file && same->line == rule.line) return;
    if (out.findRule(name)) text.fail(offset, fmt::format("a second rule called `{}`", name));
    out.rules.push_back(std::move(rule));
  };
  for (const ImportedName& name : text.importedNames()) {
    const auto path = ruleFileOf(name.module, reading);
    if (!path) continue;
    const RuleFile& file = imported(*path, text, name.offset, reading);
    if (std::find(out.imports.begin(), out.imports.end(), *path) == out.imports.end()) out.imports.push_back(*path);
    for (const std::string& further : file.imports)
      if (std::find(out.imports.begin(), out.imports.end(), further) == out.imports.end())
        out.imports.push_back(further);
    if (name.name == "*") {
      for (const Rule& rule : file.rules) add(rule, rule.name, name.offset);
      continue;
    }
    if (const Rule* rule = file.findRule(name.name)) {
      add(*rule, name.local, name.offset);
      continue;
    }
    std::vector<std::string> rules;
    for (const Rule& rule : file.rules) rules.push_back(rule.name);
    const auto near = nearestName(name.name, rules);
    text.fail(name.offset,
              fmt::format("{} has no rule `{}`{}{}", *path, name.name,
                          file.findRecipe(name.name) ? ": that is a recipe, and only rules can be imported" : "",
                          near ? fmt::format("; did you mean `{}`?", *near) : ""));
  }
}

RuleFile compile(const SourceText& text, Reading& reading) {
  const OperatorSet& operators = reading.operators;
  RuleFile out;
  out.path = text.file();
  const FileSyntax syntax = parseFile(text);
  const FileContext context{text, syntax, operators};
  const auto add = [&](Rule rule, Span at) {
    if (out.findRule(rule.name)) text.fail(at.begin, fmt::format("a second rule called `{}`", rule.name));
    out.rules.push_back(std::move(rule));
  };
  if (const auto bare = bareRule(syntax, text.file())) add(compileRule(context, *bare), bare->span);
  for (const ClassSyntax& c : syntax.classes) {
    if (derives(c, "Rule")) {
      Rule rule = compileRule(context, ruleSyntax(context, c));
      applySettings(context, c, rule);
      add(std::move(rule), c.span);
    } else if (!derives(c, "Recipe") && !derives(c, "Module")) {
      const std::vector<std::string> known{"Rule", "Recipe", "Module"};
      const std::string base = c.bases.empty() ? "" : dottedName(c.bases[0]);
      const auto near = nearestName(base, known);
      text.fail(c.bases.empty() ? c.span.begin : c.bases[0].span.begin,
                fmt::format("the class `{}` is no Rule, no Recipe and no nn.Module{}", c.name,
                            near ? fmt::format("; did you mean `{}`?", *near) : ""));
    }
  }
  importRules(text, reading, out);
  for (const ClassSyntax& c : syntax.classes)
    if (derives(c, "Recipe")) out.recipes.push_back(compileRecipe(context, c, out));
  if (out.rules.empty() && out.recipes.empty())
    throw Failure{badInputAt({text.file(), 0, 0, {}},
                             "no rule in this file: write `class Name(Rule)` with `def pattern(...)`, or two functions "
                             "`pattern` and `replacement`")};
  return out;
}

}  // namespace

namespace {

Result<RuleFile> parse(std::string_view text, std::string_view file, bool onDisk, const OperatorSet& operators) {
  try {
    Reading reading{operators, {}, onDisk};
    std::error_code none;
    const auto path = std::filesystem::weakly_canonical(std::string(file), none);
    reading.open.push_back(none ? std::string(file) : path.string());
    return compile(SourceText::scan(text, file), reading);
  } catch (const Failure& f) {
    return f.error;
  }
}

}  // namespace

Result<RuleFile> parseRuleText(std::string_view text, std::string_view file, const OperatorSet& operators) {
  return parse(text, file, file.find('/') != std::string_view::npos, operators);
}

Result<RuleFile> loadRuleFile(const std::string& path, const OperatorSet& operators) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return badInputAt({path, 0, 0, {}}, "this is a folder, not a rule file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return badInputAt({path, 0, 0, {}}, fmt::format("cannot read the rule file: {}", std::strerror(errno)));
  std::ostringstream content;
  content << in.rdbuf();
  return parse(content.view(), path, true, operators);
}

}  // namespace graft
