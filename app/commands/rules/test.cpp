// graft test: runs the cases in the docstrings of rule files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/console/annotations.h"
#include "app/json/documents_json.h"
#include "app/workbench/cases/test_rules.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

using workbench::CaseResult;
using workbench::TestedRules;

struct TestFlags {
  Console::Options printing;
  std::vector<std::string> files;
  std::string rule, format = "text", junit;
};

constexpr const char* howToWriteCases =
    "there are no cases to run; write them into a rule's docstring, indented below a line `cases:`:\n\n"
    "    class Swish(Rule):\n"
    "        \"\"\"x times its sigmoid.\n"
    "\n"
    "        cases:\n"
    "            given x: f32[2,8]\n"
    "            matches 1\n"
    "                return x * torch.sigmoid(x)\n"
    "            none operator\n"
    "                return x * torch.tanh(x)\n"
    "        \"\"\"\n";

struct Tally {
  size_t cases = 0, failed = 0, wrongFiles = 0;
};

void tell(const TestedRules& tested, const TestFlags& o, const Console& console) {
  const auto say = [&](const Error& e) {
    console.print(o.format == "github" ? annotation(e, "graft test") : e.format());
  };
  if (tested.mistake) return say(*tested.mistake);
  size_t passed = 0;
  for (const CaseResult& r : tested.cases) {
    passed += !r.failure;
    if (r.failure) say(*r.failure);
  }
  if (o.format != "text") return;
  console.print(fmt::format("{}: {} of {} passed{}{}", tested.file, passed, counted(tested.cases.size(), "case"),
                            tested.untested.empty() ? "" : "; without cases: ", fmt::join(tested.untested, ", ")));
}

void note(const TestedRules& tested, JUnitFile& junit, Tally& tally) {
  if (tested.mistake) {
    ++tally.wrongFiles;
    junit.add(tested.file, 0, tested.mistake);
  }
  for (const CaseResult& r : tested.cases) {
    ++tally.cases;
    tally.failed += r.failure.has_value();
    junit.add(fmt::format("{}:{} {}", tested.file, r.line, r.rule), r.seconds, r.failure);
  }
}

Status test(const TestFlags& o) {
  const Console console(o.printing);
  std::vector<TestedRules> tested;
  JUnitFile junit(o.junit, "graft test");
  Tally tally;
  for (const std::string& file : o.files) {
    auto results = workbench::testRules(file, o.rule, semantics(), console.job());
    if (!results) return results.error();
    tell(*results, o, console);
    note(*results, junit, tally);
    tested.push_back(std::move(*results));
  }
  if (Status s = junit.write(); !s) return s;
  console.document(workbench::document(workbench::toJson(tested)));
  if (tally.wrongFiles != 0)
    return badInput(fmt::format("{} of {} are wrong", tally.wrongFiles, counted(o.files.size(), "rule file")));
  if (tally.cases == 0) return badInput(fmt::format("{}: {}", firstFew(o.files, 3), howToWriteCases));
  if (tally.failed == 0) return done();
  return Error{ErrorKind::Expectation, fmt::format("{} of {} failed", tally.failed, counted(tally.cases, "case")), {}};
}

}  // namespace

void addTest(CLI::App& app, Run& run) {
  auto* c =
      app.add_subcommand("test",
                         "Run the cases in the docstrings of rule files: small models that a rule must match, and "
                         "others that it must not");
  auto o = std::make_shared<TestFlags>();
  c->add_option("rules", o->files, "Rule files")->required()->type_name("FILE");
  c->add_option("--rule", o->rule, "Only the cases of this rule")->type_name("NAME");
  addFormatOption(*c, o->format);
  c->add_option("--junit", o->junit, "Write JUnit XML for CI systems: a test for each case")->type_name("FILE.xml");
  addLibraryOption(*c);
  c->add_flag("--json", o->printing.json, "Print the result as one JSON document (docs/json describes it)");
  c->add_flag("-q,--quiet", o->printing.quiet, "Leave out progress and notes on stderr");
  c->footer(
      "The rule must match each model as often as its case says. Where it matches, it rewrites the model, and the "
      "result is verified. Exit code 4 if a case fails, 3 if a file is wrong or none holds a case.");
  c->callback([&run, o] { run = [o] { return test(*o); }; });
}

}  // namespace graft::cli
