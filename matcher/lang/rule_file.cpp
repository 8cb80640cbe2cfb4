#include "matcher/lang/rule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
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

RuleFile compile(const SourceText& text, const OperatorSet& operators) {
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
  for (const ClassSyntax& c : syntax.classes)
    if (derives(c, "Recipe")) out.recipes.push_back(compileRecipe(context, c, out));
  if (out.rules.empty() && out.recipes.empty())
    throw Failure{badInputAt({text.file(), 0, 0, {}},
                             "no rule in this file: write `class Name(Rule)` with `def pattern(...)`, or two functions "
                             "`pattern` and `replacement`")};
  return out;
}

}  // namespace

Result<RuleFile> parseRuleText(std::string_view text, std::string_view file, const OperatorSet& operators) {
  try {
    return compile(SourceText::scan(text, file), operators);
  } catch (const Failure& f) {
    return f.error;
  }
}

Result<RuleFile> loadRuleFile(const std::string& path, const OperatorSet& operators) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return badInputAt({path, 0, 0, {}}, "this is a folder, not a rule file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return badInputAt({path, 0, 0, {}}, fmt::format("cannot read the rule file: {}", std::strerror(errno)));
  std::ostringstream content;
  content << in.rdbuf();
  return parseRuleText(content.view(), path, operators);
}

}  // namespace graft
