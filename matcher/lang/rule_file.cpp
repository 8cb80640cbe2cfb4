#include "matcher/lang/rule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "core/base/suggest.h"
#include "matcher/lang/rule_compiler.h"

namespace graft {
namespace {

using namespace lang;

/// pattern and replacement beside each other in a file, as a script for torch.fx has them.
std::optional<RuleSyntax> bareRule(const FileContext& context) {
  const FileSyntax& file = context.syntax;
  RuleSyntax rule;
  const auto side = [&](std::initializer_list<const char*> names) -> SideSyntax {
    for (const char* n : names) {
      if (const FunctionSyntax* f = file.findFunction(n)) return {f, nullptr, &context};
      if (const ClassSyntax* c = file.findClass(n); c && !derivesFrom(*c, "Rule") && !derivesFrom(*c, "Recipe"))
        return {nullptr, c, &context};
    }
    return {};
  };
  rule.pattern = side({"pattern", "Pattern"});
  if (!rule.pattern) return std::nullopt;
  rule.replacement = side({"replacement", "replace", "Replacement"});
  if (const FunctionSyntax* f = file.findFunction("where")) rule.where = {f, nullptr, &context};
  if (const FunctionSyntax* f = file.findFunction("backward")) rule.backward = {f, nullptr, &context};
  rule.name = std::filesystem::path(context.text.file()).stem().string();
  rule.doc = file.doc;
  rule.docSpan = file.docSpan;
  rule.span = rule.pattern.span();
  return rule;
}

/// The settings of rules without a class stand beside them, among the file's constants.
ClassSyntax settingsOf(const FileSyntax& file) {
  ClassSyntax out;
  for (const auto& a : file.assignments)
    if (a.first == "scope" || a.first == "exact" || a.first == "changes_numbers" || a.first == "tolerance")
      out.assignments.push_back(a);
  return out;
}

/// def replace_attention(gm): with a pattern and a replacement inside, and the call that applies them, as scripts for
/// torch.fx are written. The rule is called like the function.
std::optional<RuleSyntax> functionRule(const FileContext& context, const FunctionSyntax& function) {
  for (const StatementSyntax& s : function.body) {
    if (!s.value || s.value->kind != Syntax::Kind::Call || s.value->items.size() < 4) continue;
    const std::string callee = dottedName(s.value->items[0]);
    if (callee.substr(callee.rfind('.') + 1) != "replace_pattern") continue;
    const auto side = [&](const Syntax& given) -> SideSyntax {
      const std::string name = dottedName(given.kind == Syntax::Kind::Call ? given.items[0] : given);
      if (const FunctionSyntax* f = function.findFunction(name)) return {f, nullptr, &context};
      if (const FunctionSyntax* f = context.syntax.findFunction(name)) return {f, nullptr, &context};
      if (const ClassSyntax* c = context.syntax.findClass(name)) return {nullptr, c, &context};
      context.text.fail(given.span.begin, "replace_pattern takes functions or classes of this file");
    };
    RuleSyntax rule;
    rule.name = function.name;
    rule.doc = function.doc;
    rule.docSpan = function.docSpan;
    rule.span = function.span;
    rule.pattern = side(s.value->items[2]);
    rule.replacement = side(s.value->items[3]);
    return rule;
  }
  return std::nullopt;
}

/// A rule file that has been read. Other files' definitions point into it, so it stays where it is in memory.
struct Module {
  Module(SourceText t, const OperatorSet& operators)
      : text(std::move(t)), syntax(parseFile(text)), context{text, syntax, operators} {}
  SourceText text;
  FileSyntax syntax;
  FileContext context;
  RuleFile file;
};

/// The rule files that are read while one of them is loaded.
struct Reading {
  const OperatorSet& operators;
  std::vector<std::string> open;      // from the first file to the one that is being read, canonical
  bool onDisk = true;                 // whether the first one's neighbours may be looked at
  const LoadLibrary* load = nullptr;  // what library("…") does; null: nothing
  std::map<std::string, std::unique_ptr<Module>> done = {};  // by path
};

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
  if (std::string shipped = shippedRulesFolder(); !shipped.empty()) folders.emplace_back(std::move(shipped));
  for (const auto& folder : folders) {
    std::error_code e;
    const auto path = std::filesystem::canonical(folder / (std::string(module) + ".py"), e);
    if (!e && std::filesystem::is_regular_file(path, e)) return path.string();
  }
  return std::nullopt;
}

std::unique_ptr<Module> compile(SourceText text, Reading& reading);

const Module& imported(const std::string& path, const SourceText& by, uint32_t offset, Reading& reading) {
  if (const auto known = reading.done.find(path); known != reading.done.end()) return *known->second;
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
  std::unique_ptr<Module> module = compile(SourceText::scan(content.view(), path), reading);
  reading.open.pop_back();
  return *reading.done.emplace(path, std::move(module)).first->second;
}

/// What `from … import …` brings into a file. Functions, modules and constants are known before the file's own rules
/// are compiled; rules and recipes come behind its own.
class Imports {
 public:
  Imports(Module& into, Reading& reading) : into_(into) {
    for (const ImportedName& name : into.text.importedNames()) {
      const auto path = ruleFileOf(name.module, reading);
      if (!path) continue;
      const Module& from = imported(*path, into.text, name.offset, reading);
      noteFile(*path);
      for (const std::string& further : from.file.imports) noteFile(further);
      into.file.libraries.insert(into.file.libraries.end(), from.file.libraries.begin(), from.file.libraries.end());
      if (name.name == "*") {
        takeAll(from, name.offset);
      } else if (!take(from, name.name, name.local, name.offset)) {
        unknown(from, *path, name);
      }
    }
  }

  void addRules() {
    for (const auto& [rule, name, offset] : rules_) add(*rule, name, offset);
    // A recipe brings the rules that it names, under the names that it uses.
    for (const auto& [recipe, from, name, offset] : recipes_)
      for (const Step& step : recipe->steps)
        if (const Rule* rule = from->file.findRule(step.name)) add(*rule, step.name, offset);
  }

  void addRecipes() {
    for (const auto& [recipe, from, name, offset] : recipes_) {
      if (into_.file.findRecipe(name)) {
        if (isOwn(name)) into_.text.fail(offset, fmt::format("a second recipe called `{}`", name));
        continue;
      }
      into_.file.recipes.push_back(*recipe);
      into_.file.recipes.back().name = name;
    }
  }

 private:
  struct TakenRule {
    const Rule* rule;
    std::string name;
    uint32_t offset;
  };
  struct TakenRecipe {
    const Recipe* recipe;
    const Module* from;
    std::string name;
    uint32_t offset;
  };

  void noteFile(const std::string& path) {
    std::vector<std::string>& known = into_.file.imports;
    if (std::find(known.begin(), known.end(), path) == known.end()) known.push_back(path);
  }

  bool isOwn(const std::string& name) const { return into_.syntax.findClass(name) != nullptr; }

  bool take(const Module& from, const std::string& name, const std::string& local, uint32_t offset) {
    if (const Rule* rule = from.file.findRule(name)) {
      rules_.push_back({rule, local, offset});
      into_.context.importedRules.insert(local);
      return true;
    }
    if (const Recipe* recipe = from.file.findRecipe(name)) {
      recipes_.push_back({recipe, &from, local, offset});
      return true;
    }
    const Definition d = from.context.find(name);
    if (!d) return false;
    if (into_.syntax.findFunction(local) || into_.syntax.findAssignment(local) || isOwn(local))
      into_.text.fail(offset, fmt::format("`{}` is imported here and defined in this file too", local));
    const auto [at, fresh] = into_.context.imported.emplace(local, d);
    if (!fresh && !(at->second == d))
      into_.text.fail(offset, fmt::format("`{}` is imported from {} already", local, at->second.file->text.file()));
    return true;
  }

  /// `import *` as Python does it, without names that begin with an underscore; the file's own definitions win. The
  /// two functions of a rule without a class are parts of that rule.
  void takeAll(const Module& from, uint32_t offset) {
    for (const Rule& rule : from.file.rules) take(from, rule.name, rule.name, offset);
    for (const Recipe& recipe : from.file.recipes)
      if (!isOwn(recipe.name)) take(from, recipe.name, recipe.name, offset);
    std::vector<std::string> names;
    for (const FunctionSyntax& f : from.syntax.functions) names.push_back(f.name);
    for (const auto& [name, value] : from.syntax.assignments) names.push_back(name);
    for (const ClassSyntax& c : from.syntax.classes) names.push_back(c.name);
    for (const auto& [name, definition] : from.context.imported) names.push_back(name);
    for (const std::string& name : names) {
      const bool part =
          name == "pattern" || name == "replacement" || name == "replace" || name == "where" || name == "backward";
      if (part || name.starts_with("_") || into_.context.find(name).file == &into_.context) continue;
      if (from.context.find(name)) take(from, name, name, offset);
    }
  }

  [[noreturn]] void unknown(const Module& from, const std::string& path, const ImportedName& name) const {
    std::vector<std::string> known;
    for (const Rule& rule : from.file.rules) known.push_back(rule.name);
    for (const Recipe& recipe : from.file.recipes) known.push_back(recipe.name);
    for (const FunctionSyntax& f : from.syntax.functions) known.push_back(f.name);
    for (const auto& [constant, value] : from.syntax.assignments) known.push_back(constant);
    for (const ClassSyntax& c : from.syntax.classes) known.push_back(c.name);
    for (const auto& [further, definition] : from.context.imported) known.push_back(further);
    const auto near = nearestName(name.name, known);
    into_.text.fail(name.offset, fmt::format("{} has no rule, recipe, function, module or constant `{}`{}", path,
                                             name.name, near ? fmt::format("; did you mean `{}`?", *near) : ""));
  }

  void add(Rule rule, const std::string& name, uint32_t offset) {
    rule.name = name;
    const Rule* same = into_.file.findRule(name);
    if (same && same->file == rule.file && same->line == rule.line) return;
    if (same) into_.text.fail(offset, fmt::format("a second rule called `{}`", name));
    into_.file.rules.push_back(std::move(rule));
  }

  Module& into_;
  std::vector<TakenRule> rules_;
  std::vector<TakenRecipe> recipes_;
};

void refuseOtherClass(const SourceText& text, const ClassSyntax& c) {
  const std::vector<std::string> known{"Rule", "Recipe", "Module"};
  const std::string base = c.bases.empty() ? "" : dottedName(c.bases[0]);
  const auto near = nearestName(base, known);
  text.fail(c.bases.empty() ? c.span.begin : c.bases[0].span.begin,
            fmt::format("the class `{}` is not a Rule, a Recipe or an nn.Module{}", c.name,
                        near ? fmt::format("; did you mean `{}`?", *near) : ""));
}

/// library("libmy_ops.so"), from the folder of the file: its operators are known from here on.
void loadLibraries(Module& module, const Reading& reading) {
  for (const Syntax& call : module.syntax.expressions) {
    if (call.kind != Syntax::Kind::Call) continue;
    const std::string callee = dottedName(call.items[0]);
    if (callee != "library" && callee != "graft.library") continue;
    const auto* given =
        call.items.size() == 2 && call.keywords.empty() ? call.items[1].literal.as<std::string>() : nullptr;
    if (!given || given->empty())
      module.text.fail(call.span.begin,
                       "`library` takes one text: the path of a library of operators, from this file's folder");
    const auto path = (std::filesystem::path(reading.open.back()).parent_path() / *given).lexically_normal().string();
    module.file.libraries.push_back(path);
    if (reading.load && *reading.load)
      if (Status loaded = (*reading.load)(path); !loaded)
        module.text.fail(call.items[1].span.begin, loaded.error().message);
  }
}

std::unique_ptr<Module> compile(SourceText source, Reading& reading) {
  auto module = std::make_unique<Module>(std::move(source), reading.operators);
  const SourceText& text = module->text;
  const FileContext& context = module->context;
  RuleFile& out = module->file;
  out.path = text.file();
  loadLibraries(*module, reading);
  Imports imports(*module, reading);
  const auto add = [&](Rule rule, Span at) {
    if (out.findRule(rule.name)) text.fail(at.begin, fmt::format("a second rule called `{}`", rule.name));
    out.rules.push_back(std::move(rule));
  };
  const auto addWithoutClass = [&](const RuleSyntax& syntax) {
    Rule rule = compileRule(context, syntax);
    applySettings(context, settingsOf(module->syntax), rule);
    add(std::move(rule), syntax.span);
  };
  if (const auto bare = bareRule(context)) addWithoutClass(*bare);
  for (const FunctionSyntax& f : module->syntax.functions)
    if (const auto rule = functionRule(context, f)) addWithoutClass(*rule);
  for (const ClassSyntax& c : module->syntax.classes) {
    if (derivesFrom(c, "Rule")) {
      Rule rule = compileRule(context, ruleSyntax(context, c));
      applySettings(context, c, rule);
      add(std::move(rule), c.span);
    } else if (!derivesFrom(c, "Recipe") && !derivesFrom(c, "Module")) {
      refuseOtherClass(text, c);
    }
  }
  imports.addRules();
  for (const ClassSyntax& c : module->syntax.classes)
    if (derivesFrom(c, "Recipe")) out.recipes.push_back(compileRecipe(context, c, out));
  imports.addRecipes();
  const bool isFirst = reading.open.size() == 1;  // a file of helpers alone is there to be imported
  if (isFirst && out.rules.empty() && out.recipes.empty())
    throw Failure{badInputAt({text.file(), 0, 0, {}},
                             "no rule in this file: write `class Name(Rule)` with `def pattern(...)`, or two functions "
                             "`pattern` and `replacement`")};
  return module;
}

}  // namespace

namespace {

Result<RuleFile> parse(std::string_view text, std::string_view file, bool onDisk, const OperatorSet& operators,
                       const LoadLibrary& load) {
  try {
    Reading reading{operators, {}, onDisk, &load};
    std::error_code none;
    const auto path = std::filesystem::weakly_canonical(std::string(file), none);
    reading.open.push_back(none ? std::string(file) : path.string());
    return std::move(compile(SourceText::scan(text, file), reading)->file);
  } catch (const Failure& f) {
    return f.error;
  }
}

}  // namespace

std::string shippedRulesFolder() {
  std::error_code e;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", e).parent_path();
  // In an installed tree, the program lies in lib/graft/bin; in a build in bin, its tests one folder deeper.
  for (const char* folder :
       {"../../../share/graft/rules", "../share/graft/rules", "../../resources/rules", "../../../resources/rules"})
    if (std::filesystem::is_directory(program / folder, e)) return std::filesystem::canonical(program / folder, e);
  return {};
}

Result<RuleFile> parseRuleText(std::string_view text, std::string_view file, const OperatorSet& operators,
                               const LoadLibrary& load) {
  return parse(text, file, file.find('/') != std::string_view::npos, operators, load);
}

Result<RuleFile> loadRuleFile(const std::string& path, const OperatorSet& operators, const LoadLibrary& load) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return badInputAt({path, 0, 0, {}}, "this is a folder, not a rule file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return badInputAt({path, 0, 0, {}}, fmt::format("cannot read the rule file: {}", std::strerror(errno)));
  std::ostringstream content;
  content << in.rdbuf();
  return parse(content.view(), path, true, operators, load);
}

}  // namespace graft
