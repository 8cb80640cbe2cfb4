// Rule files that take rules from each other: where they are looked for, and what is said where one is not there.
#include <filesystem>
#include <fstream>

#include "core/text/text.h"
#include "matcher/lang/fix_it.h"
#include "matcher/lang/rule_file.h"
#include "matcher/search/search.h"
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
  CHECK(file->findRecipe("Both"));
}

TEST_CASE("functions, modules and constants of a neighbour mean what they mean there") {
  const Folder f;
  const std::string neighbour = f.write("parts.py", R"(import torch.nn.functional as G
from torch import nn

RATE = 0.25
HALF = 0.5


def squash(x, by=HALF):
    return finish(G.gelu(x) * by)


def finish(x):
    return G.relu(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 1)

    def forward(self, x):
        return finish(self.linear(x))
)");
  f.write("between.py", "from parts import squash as press, RATE\n");
  const auto file = f.load(R"(import torch
from parts import squash, Layer as Pattern
from between import press, RATE


def finish(x):
    return torch.exp(x)


class Press(Rule):
    def pattern(x):
        return finish(squash(x) + press(x, RATE))

    def replacement(x):
        return finish(squash(x))

class Linears(Rule):
    changes_numbers = True
    pattern = Pattern

    def replacement(x):
        return finish(x)
)");
  INFO((file ? "" : file.error().format()));
  REQUIRE(file);
  REQUIRE(file->rules.size() == 2);
  const Graph& pattern = file->rules[0].pattern;
  std::vector<std::string> operators;
  for (NodeId n : pattern.order()) operators.push_back(pattern.node(n).op->name);
  REQUIRE(operators == std::vector<std::string>{"aten.gelu.default", "aten.mul.Tensor", "aten.relu.default",
                                                "aten.gelu.default", "aten.mul.Tensor", "aten.relu.default",
                                                "aten.add.Tensor", "aten.exp.default"});
  CHECK(pattern.node(pattern.order()[4]).args[1] == Argument(0.25));
  CHECK(std::filesystem::equivalent(pattern.sourceOf(pattern.node(pattern.order()[2]))->file, neighbour));
  CHECK(pattern.sourceOf(pattern.node(pattern.order()[2]))->line == 13);
  CHECK_FALSE(std::filesystem::equivalent(pattern.sourceOf(pattern.node(pattern.order()[6]))->file, neighbour));
  CHECK(file->rules[1].pattern.nodeCount() == 2);
  CHECK(file->imports.size() == 2);  // read again when either changes
}

TEST_CASE("a star takes functions and constants too, but for what the file defines itself and what is private") {
  const Folder f;
  f.write("parts.py", "LIMIT = 6.0\ndef squash(x):\n    return _inner(x)\ndef _inner(x):\n    return torch.relu(x)\n");
  const auto file = f.load(
      "from parts import *\ndef squash(x):\n    return torch.exp(x)\ndef pattern(x):\n    return squash(x) * LIMIT\n");
  INFO((file ? "" : file.error().format()));
  REQUIRE(file);
  CHECK(file->rules[0].pattern.node(file->rules[0].pattern.order()[0]).op->name == "aten.exp.default");
  CHECK_THAT(f.errorOf("from parts import *\ndef pattern(x):\n    return _inner(x)\n"),
             StartsWith("r.py:3:12: `_inner` is not defined"));
}

TEST_CASE("an imported recipe brings the rules that it names") {
  const Folder f;
  f.write("acts.py", reluRules);
  const auto file =
      f.load("from acts import Both as All\nclass Own(Rule):\n    def pattern(x):\n        return torch.exp(x)\n");
  INFO((file ? "" : file.error().format()));
  REQUIRE(file);
  REQUIRE(file->findRecipe("All"));
  CHECK(file->findRecipe("All")->steps.size() == 2);
  CHECK(file->rules.size() == 3);
  CHECK(file->findRule("Relu"));
  // One more rule of a name that the recipe means otherwise.
  CHECK_THAT(f.errorOf("from acts import Both\nclass Relu(Rule):\n    def pattern(x):\n        return torch.exp(x)\n"),
             StartsWith("r.py:1:18: a second rule called `Relu`"));
  CHECK_THAT(f.errorOf("from acts import Both\nclass Both(Recipe):\n    steps = [normalize]\n"),
             StartsWith("r.py:1:18: a second recipe called `Both`"));
}

TEST_CASE("a mistake in what is imported is told where it is, and where it is used") {
  const Folder f;
  f.write("parts.py",
          "import torch\n\n\ndef squash(x, n):\n    return torch.split(x, n)[3].sofmax(-1)\n\n\n"
          "def loop(x):\n    return loop(x)\n");
  const std::string wrong = f.errorOf(
      "import torch\nfrom parts import squash\ndef pattern(x):\n    y = torch.relu(x)\n    return squash(y, 2)\n");
  CHECK_THAT(wrong,
             StartsWith("parts.py:5:33: ") && ContainsSubstring("softmax") && ContainsSubstring("used at r.py:5:12"));
  // What it is given wrongly is the caller's mistake.
  CHECK_THAT(f.errorOf("from parts import squash\ndef pattern(x):\n    return squash(x, m=2)\n"),
             StartsWith("r.py:3:"));
  CHECK_THAT(f.errorOf("from parts import loop\ndef pattern(x):\n    return loop(x)\n"),
             StartsWith("parts.py:8:") && ContainsSubstring("calls itself"));
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
  CHECK_THAT(f.errorOf(text), StartsWith("r.py:1:25: transformer.py has no rule"));
}

TEST_CASE("what cannot be imported says why, with its place") {
  const Folder f;
  f.write("acts.py", reluRules);
  CHECK(f.errorOf("from acts import Relo\n") ==
        "r.py:1:18: acts.py has no rule, recipe, function, module or constant `Relo`; did you mean `Relu`?\n"
        "  from acts import Relo\n"
        "                   ^");
  CHECK_THAT(f.errorOf("import torch\nfrom acts import (\n    Tanh,\n    twise,\n)\n"),
             StartsWith("r.py:4:5: acts.py has no ") && ContainsSubstring("did you mean `twice`?"));
  // What it is decides where it can stand.
  CHECK_THAT(f.errorOf("from acts import twice\nclass A(Recipe):\n    steps = [twice]\n"),
             StartsWith("r.py:3:14: `twice` is a function, not a rule or a pass"));
  CHECK_THAT(f.errorOf("from acts import Relu\ndef pattern(x):\n    return Relu(x)\n"),
             StartsWith("r.py:3:12: `Relu` is a rule: a pattern can use functions"));
  CHECK_THAT(f.errorOf("from acts import twice\ndef twice(x):\n    return x\ndef pattern(x):\n    return twice(x)\n"),
             StartsWith("r.py:1:18: `twice` is imported here and defined in this file too"));
  CHECK_THAT(f.errorOf("from actz import twice\ndef pattern(x):\n    return twice(x)\n"),
             StartsWith("r.py:3:12: ") && ContainsSubstring("there is no actz.py beside this file"));
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
  // Functions alone make a circle too, as in Python.
  f.write("a.py", "from b import g\ndef f(x):\n    return g(x)\n");
  f.write("b.py", "from a import f\ndef g(x):\n    return f(x)\n");
  CHECK_THAT(f.errorOf("from a import f\ndef pattern(x):\n    return f(x)\n"),
             ContainsSubstring("in a circle: a.py → b.py → a.py"));
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

TEST_CASE("a near miss names lines of the rule's own file alone") {
  const Folder f;
  f.write("base.py", reluRules);
  const std::string text = R"(import torch
from base import twice
from graft import Rule


class Mine(Rule):
    pattern = twice
)";
  const std::string path = f.write("mine.py", text);
  const auto file = loadRuleFile(path, test::operators());
  INFO((file ? "" : file.error().format()));
  REQUIRE(file);
  const Rule& rule = file->rules[0];
  CHECK(rule.line == 6);
  const auto graph = parseText(
      "graph g {\n input %x : f32[2]\n %a = aten.tanh.default(%x) : f32[2]\n %b = aten.relu.default(%a) : f32[2]\n "
      "return %b\n}\n",
      test::operators());
  REQUIRE(graph);
  SearchOptions options;
  options.explain = true;
  const SearchResult found = Matcher(*graph).findAll(rule, options);
  REQUIRE_FALSE(found.nearMisses.empty());
  CHECK(found.nearMisses[0].reason == Reason::Operator);
  CHECK(found.nearMisses[0].line == 6);  // not that of `twice`, which stands in another file
  CHECK(FixIts(text, path, test::operators(), *graph).edits(rule, found.nearMisses[0]).empty());
}

TEST_CASE("a library is looked for beside the file that names it, and only who reads the file loads it") {
  Folder f;
  const std::string own = f.write("own.py", "library(\"libs/libown.so\")\n" + std::string(reluRules));
  const std::string path = f.write("rules.py", "from own import Relu\nlibrary('/opt/libother.so')\n");
  const auto noted = loadRuleFile(path, test::operators());
  REQUIRE(noted);
  const std::string beside = (std::filesystem::canonical(own).parent_path() / "libs/libown.so").string();
  CHECK(noted->libraries == std::vector<std::string>{"/opt/libother.so", beside});
  std::vector<std::string> asked;
  REQUIRE(loadRuleFile(path, test::operators(), [&](const std::string& library) {
    asked.push_back(library);
    return done();
  }));
  CHECK(asked == noted->libraries);
  const auto refused = loadRuleFile(path, test::operators(),
                                    [](const std::string&) -> Status { return badInput("it is of another machine"); });
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().format(), ContainsSubstring("rules.py:2:9: it is of another machine"));
  for (const char* wrong :
       {"library()\n", "library(3)\n", "library('')\n", "library('a.so', 'b.so')\n", "library(path='a.so')\n"}) {
    const auto file = parseRuleText(wrong + std::string(reluRules), "rules.py", test::operators());
    REQUIRE_FALSE(file);
    CHECK_THAT(file.error().message, ContainsSubstring("`library` takes one text"));
  }
}
