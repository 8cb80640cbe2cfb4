// Runs case files, or all of a folder (a file may hold several rules, each with its cases):
//
//   build/bin/tests/matcher_cases tests/matcher/cases/linear.case
//
// UPDATE_EXPECT=1 writes what came out into the files instead, for review.
//
// Beside what the case says it checks that the graph prints and parses back, that the graph verifies after each record,
// that matching left the graph alone, that a second run changes nothing, and, where all inputs have shapes and no
// weight is missing, that both graphs compute the same numbers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/ir/verify.h"
#include "core/text/text.h"
#include "core/torch/model.h"
#include "core/torch/verification.h"
#include "matcher/lang/rule_file.h"
#include "matcher/passes/passes.h"
#include "matcher/rewrite/rewrite.h"
#include "tests/matcher/rewrite/case_file.h"

using namespace graft;
using namespace graft::test;

namespace {

namespace fs = std::filesystem;

struct Outcome {
  std::string expectation, argument, text;
  std::vector<std::string> broken;  // what must never be
};

std::string bodyOf(const Graph& g) {
  std::string text = toText(g, {.sources = false, .modules = true});
  text = text.substr(text.find('\n') + 1);
  text = text.substr(0, text.rfind('}'));
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += (line.starts_with("  ") ? line.substr(2) : line) + "\n";
  return out;
}

bool canRun(const Graph& g) {
  if (!g.weights().empty() || g.inputs().empty()) return false;
  for (ValueId v : g.inputs()) {
    const TensorInfo& t = g.value(v).type.tensorInfo;
    if (!t.dtype || !t.shape) return false;
  }
  for (NodeId n : g.order())
    if (!g.node(n).op->hasSchema) return false;
  return true;
}

/// After every record the graph has to be sound.
struct Verifier : RewriteListener {
  explicit Verifier(std::vector<std::string>& b) : broken(b) {}
  void onRecord(const Record& r, const Graph& g) override {
    if (Status s = verify(g); !s)
      broken.push_back("after a record of " + r.rule + " the graph does not verify: " + s.error().message);
  }
  std::vector<std::string>& broken;
};

Outcome run(const RuleFile& rules, const Section& section, const Case& c, const Semantics& semantics) {
  Outcome out;
  auto before = parseText("graph g {\n" + c.before + "}\n", semantics.operators(), "case");
  if (!before) {
    out.broken.push_back("the graph: " + before.error().format());
    return out;
  }
  const std::string text = toText(*before);
  if (auto again = parseText(text, semantics.operators()); !again || toText(*again) != text)
    out.broken.push_back("printing and parsing differ: " +
                         (again ? toText(*again) + "\n" + text : again.error().format()));
  if (Status s = verify(*before); !s) out.broken.push_back("the graph does not verify: " + s.error().message);
  Graph after = *before;
  Verifier verifier(out.broken);
  const RewriteOptions options{.listener = &verifier};
  bool changesNumbers = false;
  if (!section.recipe.empty()) {
    const Recipe* recipe = rules.findRecipe(section.recipe);
    if (!recipe) {
      out.broken.push_back("there is no recipe " + section.recipe);
      return out;
    }
    auto ran = runRecipe(after, rules, *recipe, semantics, {}, options);
    if (!ran) {
      out.expectation = "refused";
      out.text = ran.error().message + "\n";
      return out;
    }
    size_t records = 0;
    for (const StepRun& s : ran->steps) {
      records += s.records.size();
      for (const Record& r : s.records) changesNumbers = changesNumbers || r.changesNumbers;
    }
    out.expectation = "after";
    out.argument = std::to_string(records);
  } else {
    const Rule& rule = rules.rules.front();
    const SearchResult found = Matcher(*before).findAll(rule, {.explain = true});
    if (toText(*before) != text) out.broken.push_back("matching changed the graph");
    if (Matcher(*before).findAll(rule).matches.size() != found.matches.size())
      out.broken.push_back("explaining changed what matches");
    if (!found.problem.empty()) out.broken.push_back(found.problem);
    std::vector<uint8_t> seen(before->nodeBound(), 0);
    for (const Match& m : found.matches)
      for (NodeId n : m.nodes)
        if (seen[n.index]++) out.broken.push_back("two matches overlap");
    if (found.budgetExceeded) {
      out.expectation = "none";
      out.argument = "budget";
      return out;
    }
    if (found.matches.empty()) {
      out.expectation = "none";
      if (!found.nearMisses.empty()) {
        out.argument = reasonName(found.nearMisses.front().reason);
        out.text = found.nearMisses.front().message + "\n";
      }
      return out;
    }
    if (!rule.replacement || c.expectation == "matches") {
      out.expectation = "matches";
      out.argument = std::to_string(found.matches.size());
      return out;
    }
    auto applied = applyRule(after, rule, semantics, options);
    if (!applied) {
      out.broken.push_back(applied.error().format());
      return out;
    }
    changesNumbers = rule.changesNumbers;
    if (!applied->refused.empty()) {
      out.expectation = "refused";
      out.argument = std::to_string(applied->refused.size());
      out.text = applied->refused.front() + "\n";
      if (applied->records.empty() && toText(after) != text)
        out.broken.push_back("a refused rewrite changed the graph");
      return out;
    }
    out.expectation = "after";
    out.argument = std::to_string(applied->records.size());
    if (!section.repeats) {
      Graph second = after;
      auto again = applyRule(second, rule, semantics);
      if (!again || !again->records.empty()) out.broken.push_back("a second run changes it again");
    }
  }
  if (Status s = verify(after); !s) out.broken.push_back("the result does not verify: " + s.error().message);
  out.text = bodyOf(after);
  if (auto again = parseText(toText(after), semantics.operators()); !again || toText(*again) != toText(after))
    out.broken.push_back("printing and parsing the result differ: " +
                         (again ? toText(*again) + "\n" + toText(after) : again.error().format()));
  if (!changesNumbers && canRun(*before) && canRun(after)) {
    auto inputs = makeInputs(*before, {}, 1);
    auto verification = inputs ? verifyRewrite(*before, after, *inputs) : Result<Verification>(inputs.error());
    if (!verification)
      out.broken.push_back("it cannot run: " + verification.error().message);
    else if (!verification->passed)
      out.broken.push_back("the numbers differ: " + verification->why);
  }
  return out;
}

int runFile(const std::string& path, const Semantics& semantics, bool update) {
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto file = parseCaseFile(text, path);
  if (!file || file->cases.empty()) {
    fmt::print("{}\n", file ? path + ": no cases" : file.error().format());
    return 1;
  }
  std::vector<RuleFile> rules;
  for (const Section& s : file->sections) {
    auto parsed = parseRuleText(s.rule, path, semantics.operators());
    if (!parsed || (parsed->rules.empty() && s.recipe.empty())) {
      fmt::print("{}\n", parsed ? path + ": no rule" : parsed.error().format());
      return 1;
    }
    rules.push_back(std::move(*parsed));
  }
  int failures = 0;
  for (Case& c : file->cases) {
    const Outcome o = run(rules[c.section], file->sections[c.section], c, semantics);
    for (const std::string& b : o.broken) {
      fmt::print("{}:{}: {}\n  {}\n", path, c.line, c.name, b);
      ++failures;
    }
    if (!o.broken.empty()) continue;
    const std::string wanted = c.expectation + " " + c.argument + "\n" + c.text,
                      got = o.expectation + " " + o.argument + "\n" + o.text;
    if (wanted == got) continue;
    if (!update) {
      ++failures;
      fmt::print("{}:{}: {}\nexpected {}\nbut it is {}\n", path, c.line, c.name, wanted, got);
    }
    c.expectation = o.expectation;
    c.argument = o.argument;
    c.text = o.text;
  }
  if (update) std::ofstream(path) << toText(*file);
  fmt::print("{}: {} cases, {} failed\n", path, file->cases.size(), failures);
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const auto semantics = makeTorchSemantics();
  if (Status s = loadOperatorLibrary(); !s) fmt::print("{}\n", s.error().message);
  const char* update = std::getenv("UPDATE_EXPECT");
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      paths.push_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i]))
      if (entry.path().extension() == ".case") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> failed;
  for (const std::string& path : paths)
    if (runFile(path, *semantics, update && *update == '1') != 0) failed.push_back(path);
  fmt::print("{} files, {} failed{}{}\n", paths.size(), failed.size(), failed.empty() ? "" : ": ",
             fmt::join(failed, " "));
  return failed.empty() && !paths.empty() ? 0 : 1;
}
