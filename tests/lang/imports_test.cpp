// Rule files that take rules from each other: where they are looked for, and what is said where one is not there.
#include <filesystem>
#include <fstream>

#include "matcher/lang/rule_file.h"
#include "operators.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace graft;

namespace {

const char* const reluRules = R"(import torch
from graft import Recipe, Rule


def twice(x):
    return torch.relu(torch.relu(x))


class Relu(Rule):
    def pattern(x):
        return twice(x)

    def replacement(x):
        return torch.relu(x)


class Tanh(Rule):
    def pattern(x):
        return torch.tanh(torch.tanh(x))


class Both(Recipe):
    steps = [Relu, Tanh]
)";

struct Folder {
  test::TempDir folder;
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  Result<RuleFile> load(const std::string& text) const { return loadRuleFile(write("r.py", text), test::operators()); }
  /// Without the folder's name.
  std::string errorOf(const std::string& text) const {
    const auto file = load(text);
    if (file) return "no error";
    std::string e = file.error().format();
    const std::string here = std::filesystem::canonical(folder.path()).string() + "/";
    for (size_t at; (at = e.find(here)) != std::string::npos;) e.erase(at, here.size());
    return e;
  }
};

}  // namespace

TEST_CASE("a rule of a neighbour is a rule of this file, behind its own, and keeps its place") {
  const Folder f;
  const std::string neighbour = f.write("acts.py", reluRules);
  const auto file = f.load(
      "from acts import Relu as Rectify, Tanh\nclass Own(Rule):\n    def pattern(x):\n        return torch.exp(x)\n"
      "class All(Recipe):\n    steps = [Rectify, Tanh, Own]\n    expect = {Rectify: 2}\n");
  INFO((file ? "" : file.error().format()));
  REQUIRE(file);
  REQUIRE(file->rules.size() == 3);
  CHECK(file->rules[0].name == "Own");
  CHECK(file->rules[1].name == "Rectify");
  CHECK(file->rules[1].pattern.nodeCount() == 2);  // the helper of its own file was read there
  CHECK(file->rules[1].replacement);
  CHECK(std::filesystem::equivalent(file->rules[1].file, neighbour));
  CHECK(file->rules[1].line == 9);
  CHECK(file->rules[2].name == "Tanh");
  REQUIRE(file->imports.size() == 1);
  CHECK(std::filesystem::equivalent(file->imports[0], neighbour));
  CHECK(file->findRecipe("All")->steps[0].name == "Rectify");
  CHECK_FALSE(file->findRecipe("Both"));
}

TEST_CASE("a star takes all rules; what comes twice by two ways is one rule") {
  const Folder f;
  f.write("acts.py", reluRules);
  f.write("more.py", "from .acts import *\n");
  CHECK(f.errorOf("from more import *\n") == "no error");
  const auto file = f.load("from acts import Tanh\nfrom more import *\n");
  REQUIRE(file);
  CHECK(file->rules.size() == 2);
  CHECK(file->imports.size() == 2);
}

TEST_CASE("shipped rules can be imported from anywhere; a neighbour of that name comes first") {
  const Folder f;
  const std::string text = "from transformer import AddLayerNorm\nclass A(Recipe):\n    steps = [AddLayerNorm]\n";
  const auto shipped = f.load(text);
  INFO((shipped ? "" : shipped.error().format()));
  REQUIRE(shipped);
  CHECK(std::filesystem::equivalent(shipped->rules[0].file, GRAFT_SOURCE_DIR "/resources/rules/transformer.py"));
  CHECK(parseRuleText(text, "unsaved.py", test::operators()));
  f.write("transformer.py", reluRules);
  CHECK_THAT(f.errorOf(text), StartsWith("r.py:1:25: transformer.py has no rule `AddLayerNorm`"));
}

TEST_CASE("what cannot be imported says why, with its place") {
  const Folder f;
  f.write("acts.py", reluRules);
  CHECK(f.errorOf("from acts import Relo\n") ==
        "r.py:1:18: acts.py has no rule `Relo`; did you mean `Relu`?\n"
        "  from acts import Relo\n"
        "                   ^");
  CHECK_THAT(f.errorOf("import torch\nfrom acts import (\n    Tanh,\n    Both,\n)\n"),
             StartsWith("r.py:4:5: acts.py has no rule `Both`: that is a recipe, and only rules can be imported"));
  CHECK_THAT(f.errorOf("from acts import Relu\nclass Relu(Rule):\n    def pattern(x):\n        return torch.exp(x)\n"),
             StartsWith("r.py:1:18: a second rule called `Relu`"));
  CHECK_THAT(f.errorOf("from actz import Relu\nclass A(Recipe):\n    steps = [Relu]\n"),
             StartsWith("r.py:1:18: `Relu` is imported from `actz`, and there is no actz.py beside this file"));
  f.write("broken.py", "class A(Rule):\n    def pattern(x):\n        return torch.sofmax(x)\n");
  CHECK_THAT(f.errorOf("from broken import A\n"), StartsWith("broken.py:3:16: `torch.sofmax`"));
}

TEST_CASE("files that import each other in a circle are refused, with the circle") {
  const Folder f;
  f.write("a.py", "from b import B\n");
  f.write("b.py", "from a import A\n");
  CHECK_THAT(f.errorOf("from a import A\n"),
             StartsWith("b.py:1:15: rule files import each other in a circle: a.py → b.py → a.py"));
  CHECK_THAT(f.errorOf("from r import A\n"), StartsWith("r.py:1:15: ") && ContainsSubstring("r.py → r.py"));
}

TEST_CASE("no import leads out of the two folders, and Python's own modules need not be there") {
  const Folder f;
  std::filesystem::create_directory(f.folder.path() / "inner");
  f.write("acts.py", reluRules);
  const std::string inner = f.write("inner/r.py", "from ..acts import Relu\nclass A(Recipe):\n    steps = [Relu]\n");
  CHECK_FALSE(loadRuleFile(inner, test::operators()));
  CHECK(
      f.load("from slapo.pattern import call_module\nfrom somewhere import thing\ndef pattern(x):\n    return "
             "torch.exp(x)\n"));
  // Unsaved text has no neighbours.
  CHECK_FALSE(
      parseRuleText("from acts import Relu\nclass A(Recipe):\n    steps = [Relu]\n", "r.py", test::operators()));
}
