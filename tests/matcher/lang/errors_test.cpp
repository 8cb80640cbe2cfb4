// What a wrong rule file says, to the letter: line, column, caret, and the name that was probably meant.
#include "matcher/lang/rule_file.h"
#include "operators.h"
#include "tests/support/catch.h"

using namespace graft;

namespace {

std::string errorOf(const std::string& text) {
  const auto file = parseRuleText(text, "r.py", test::operators());
  if (file) return "no error";
  CHECK(file.error().kind == ErrorKind::BadInput);
  return file.error().format();
}
/// For a pattern of one line: the message after "r.py:2:", and under which word the caret stands.
struct Seen {
  std::string message, word;
};
Seen inPattern(const std::string& line, const std::string& rest = "") {
  const auto file = parseRuleText("def pattern(x):\n    " + line + "\n" + rest, "r.py", test::operators());
  if (file) return {"no error", ""};
  const Error& e = file.error();
  REQUIRE(e.position);
  const std::string tail =
      e.position->text.substr(std::min(e.position->text.size(), static_cast<size_t>(e.position->column - 1)));
  return {e.message, tail};
}

}  // namespace

TEST_CASE("an error shows file, line, column, the line and a caret") {
  CHECK(errorOf("def pattern(x):\n    return torch.sofmax(x, dim=-1)\n") ==
        "r.py:2:12: `torch.sofmax` is not a known operator; did you mean `torch.softmax`?\n"
        "      return torch.sofmax(x, dim=-1)\n"
        "             ^");
  CHECK(errorOf("def pattern(q, k):\n    x = torch.matmul(q k)\n    return x\n") ==
        "r.py:2:24: expected `)` but found a name\n"
        "      x = torch.matmul(q k)\n"
        "                         ^");
}

TEST_CASE("unknown names are answered with the nearest known one") {
  CHECK_THAT(inPattern("return x.contigous()").message, EndsWith("did you mean `.contiguous`?"));
  CHECK_THAT(inPattern("return kernels.atention(x, x, x)").message, EndsWith("did you mean `kernels.attention`?"));
  CHECK_THAT(inPattern("return torch.softmax(x, dmi=-1)").message, EndsWith("did you mean `dim`?"));
  CHECK(inPattern("return torch.softmax(x, dmi=-1)").word == "dmi=-1)");
  CHECK_THAT(inPattern("return call_module(nn.Linaer, x)").message, EndsWith("did you mean `nn.Linear`?"));
  CHECK_THAT(inPattern("return call_modul('a', x)").message, EndsWith("did you mean `call_module`?"));
  CHECK(errorOf("def pattern(query):\n    return qurey.relu()\n").substr(0, 60) ==
        "r.py:2:12: `qurey` is not defined; did you mean `query`?\n   ");
  CHECK_THAT(errorOf("def pattern(q: Tenso):\n    return q.relu()\n"),
             ContainsSubstring("r.py:1:16") && ContainsSubstring("did you mean `Tensor`?"));
  CHECK_THAT(errorOf("def pattern(q: Tensor | str):\n    return q.relu()\n"),
             ContainsSubstring("r.py:1:16") && ContainsSubstring("a tensor, a tensor or a number, or a constant"));
  CHECK_THAT(errorOf("class A(Rul):\n    pass\n"),
             ContainsSubstring("r.py:1:9") && ContainsSubstring("did you mean `Rule`?"));
  CHECK_THAT(errorOf("class A(Rule):\n    def patern(x):\n        return x.relu()\n"),
             ContainsSubstring("did you mean `pattern`?"));
  CHECK_THAT(errorOf("class A(Rule):\n    scop = 'a'\n    def pattern(x):\n        return x.relu()\n"),
             ContainsSubstring("r.py:2:5") && ContainsSubstring("did you mean `scope`?"));
}

TEST_CASE("a line of a pattern that nothing uses is told") {
  CHECK_THAT(errorOf("def pattern(x):\n    y = torch.exp(x)\n    return torch.relu(x)\n"),
             StartsWith("r.py:2:9: what this line computes is not part of what the pattern returns"));
  CHECK_THAT(errorOf("def pattern(x):\n    y = torch.exp(x)\n    z = y * 2\n    return torch.relu(x)\n"),
             StartsWith("r.py:3:11: what this line computes"));
  CHECK(errorOf("def pattern(x):\n    _unused = torch.exp(x)\n    a, b = x.chunk(2)\n    return torch.relu(a)\n") ==
        "no error");
  // A replacement may be somebody's code as it was: Kernl's hands its kernel a buffer.
  CHECK(errorOf("def pattern(x):\n    return torch.exp(x)\ndef replace(x):\n    y = torch.empty_like(x)\n    return "
                "x.exp()\n") == "no error");
}

TEST_CASE("what nothing is known of in a module is told") {
  const std::string classes =
      "class Pattern(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(1, 1)\n    def forward(self, "
      "x):\n"
      "        return self.fc(x).relu()\nclass Replacement(nn.Module):\n    def __init__(self):\n";
  const auto with = [&](const std::string& init, const std::string& forward) {
    return errorOf(classes + "        " + init + "\n    def forward(self, x):\n        " + forward + "\n");
  };
  CHECK(with("self.fc = nn.Linear(1, 1)", "return F.linear(x, self.fc.weight)") == "no error");
  CHECK_THAT(with("self.other = nn.Linear(4)", "return self.other(x)"),
             ContainsSubstring("`__init__` needs its argument `out_features`"));
  CHECK_THAT(with("self.cell = nn.LSTMCell(4, 4)", "return self.cell(x)"),
             ContainsSubstring("a replacement cannot make a new nn.LSTMCell"));
  CHECK_THAT(with("self.lstm = nn.LSTM(4, 4, 9)", "return self.lstm(x)"),
             ContainsSubstring("a replacement can make a new nn.LSTM of 1 to 8 layers"));
  CHECK_THAT(with("self.list = nn.ModuleList([nn.ReLU()])", "return self.list(x)"),
             ContainsSubstring("a ModuleList is not called"));
  CHECK_THAT(with("self.fc = nn.ReLU()", "return self.fc(x)"), ContainsSubstring("`fc` is Linear in the pattern"));
}

TEST_CASE("arguments that no overload takes are named") {
  CHECK(inPattern("return torch.softmax(x)").message == "`torch.softmax` needs its argument `dim`");
  CHECK(inPattern("return x.transpose(0, 'a')").message == "`dim1` of `.transpose` is an int, not a string");
  CHECK(inPattern("return x.transpose(0, 'a')").word == "'a')");
  CHECK_THAT(inPattern("return x.relu(1)").message, StartsWith("`.relu` takes 1 positional argument,"));
  CHECK(inPattern("return F.dropout(x, 0.1, p=0.2)").message == "`p` is given twice");
}

TEST_CASE("Python that would have to be executed is refused where it stands") {
  CHECK_THAT(inPattern("if x:").message, StartsWith("a rule holds no `if` statements"));
  CHECK_THAT(inPattern("for i in x:").message, StartsWith("a rule holds no loops"));
  CHECK_THAT(inPattern("return [i for i in x]").message, StartsWith("comprehensions"));
  CHECK_THAT(inPattern("return (lambda y: y)(x)").message, StartsWith("a rule cannot hold a lambda"));
  CHECK_THAT(inPattern("return x + f'{x}'").message, StartsWith("f-strings"));
  CHECK_THAT(inPattern("y := x").message, StartsWith("`:=`"));
  CHECK_THAT(inPattern("assert x").message, StartsWith("`assert` has no meaning"));
  CHECK_THAT(inPattern("a = x.relu(); b = x").message, StartsWith("put each statement on a line of its own"));
}

TEST_CASE("broken Python is reported at the place that is wrong") {
  CHECK(inPattern("return torch.matmul(x, x").message == "`(` is never closed");
  CHECK(inPattern("return torch.matmul(x, x").word == "(x, x");
  CHECK(inPattern("return x.relu(])").message == "`]` does not close the `(` of line 2");
  CHECK(inPattern("return x)").message == "`)` without an opening `(`");
  CHECK(inPattern("return x +").message == "expected a name or value but found the end of the line");
  CHECK(inPattern("return x + 'abc").message == "this string is never closed");
  CHECK(inPattern("return x $ 3").message == "`$` is not part of the rule language");
  CHECK(errorOf("def pattern(x)\n    return x.relu()\n").substr(0, 45) ==
        "r.py:1:15: expected `:` but found the end of ");
  CHECK_THAT(errorOf("def pattern(x):\nreturn x.relu()\n"),
             StartsWith("r.py:2:1: an indented block is missing after line 1"));
  CHECK_THAT(errorOf("def pattern(x):\n        return x.relu()\n      y = 3\n"),
             StartsWith("r.py:3:7: this indentation matches none"));
  CHECK_THAT(errorOf("def pattern(x):\n    y = x\n      return y\n"),
             StartsWith("r.py:3:7: this line is indented further than the one above"));
}

TEST_CASE("patterns and replacements must make sense together") {
  CHECK_THAT(errorOf("def pattern(q):\n    return q\n"), ContainsSubstring("the pattern holds no operation"));
  CHECK_THAT(errorOf("def pattern(q):\n    y = q.relu()\n"), ContainsSubstring("`pattern` returns nothing"));
  CHECK_THAT(errorOf("def pattern(q):\n    return q.shape\n"),
             ContainsSubstring("a pattern returns values of the graph"));
  CHECK_THAT(inPattern("return x.relu()", "def replacement(x):\n    return x, x\n").message,
             StartsWith("the pattern returns 1 value and the replacement 2"));
  CHECK_THAT(inPattern("return x.relu(), x.exp()", "def replacement(x):\n    return x.chunk(2)\n").message,
             StartsWith("the pattern returns 2 values and the replacement 1, a list: give its items names"));
  CHECK_THAT(inPattern("return x.relu()", "def replacement(x, z):\n    return x\n").message,
             StartsWith("the pattern has no parameter `z`"));
  CHECK_THAT(inPattern("return x.relu()", "def replacement(x):\n    return torch.relu(_)\n").message,
             StartsWith("`_` says that anything matches"));
  CHECK_THAT(inPattern("return x.relu()", "def where(x):\n    return x.relu().dim() == 2\n").message,
             StartsWith("`relu` computes with tensors"));
  CHECK_THAT(inPattern("return x.relu()", "def where(x):\n    return x.shpae[0] == 2\n").message,
             StartsWith("values have no `shpae`; did you mean `shape`?"));
  CHECK_THAT(inPattern("return x.relu()", "def where(x):\n    return 1 == not x.dim()\n").message,
             StartsWith("`not` binds less than the operator before it"));
  CHECK_THAT(errorOf("def pattern(x, y):\n    return x.relu()\ndef replacement(x, y):\n    return x + y\n"),
             ContainsSubstring("nothing is bound to it"));
  CHECK_THAT(errorOf("class A(Rule):\n    pass\n"), ContainsSubstring("the rule `A` has no pattern"));
  CHECK_THAT(
      errorOf(
          "class A(Rule):\n    def pattern(x): return x.relu()\nclass A(Rule):\n    def pattern(x): return x.relu()\n"),
      ContainsSubstring("r.py:3:7: a second rule called `A`"));
}

TEST_CASE("recipes name what exists") {
  const std::string rule = "class A(Rule):\n    def pattern(x): return x.relu()\nclass R(Recipe):\n";
  CHECK_THAT(errorOf(rule + "    steps = [normalise, A]\n"),
             ContainsSubstring("r.py:4:14") && ContainsSubstring("did you mean `normalize`?"));
  for (const std::string step : {"melt", "fuse_pointwise", "parcel(n=2)", "capture()"})
    CHECK_THAT(
        errorOf(rule + "    steps = [" + step + "]\n"),
        ContainsSubstring("`" + step.substr(0, step.find('(')) + "` is neither a rule of this file nor a known pass"));
  CHECK_THAT(errorOf(rule + "    steps = [A]\n    expect = {A: 1.5}\n"), ContainsSubstring("r.py:5:18"));
  CHECK_THAT(errorOf(rule + "    steps = [A]\n    expect = {B: 1}\n"),
             ContainsSubstring("`B` is neither a rule of this file nor a known pass"));
  CHECK_THAT(errorOf(rule + "    expect = {A: 1}\n"), ContainsSubstring("the recipe `R` has no steps"));
}

TEST_CASE("files that hold no rule or cannot be read say so") {
  CHECK_THAT(errorOf("x = 3\n"), StartsWith("r.py: no rule in this file"));
  CHECK_THAT(errorOf(""), StartsWith("r.py: no rule in this file"));
  const auto missing = loadRuleFile("/no/such/file.py", test::operators());
  REQUIRE_FALSE(missing);
  CHECK(missing.error().format() == "/no/such/file.py: cannot read the rule file: No such file or directory");
  CHECK_THAT(loadRuleFile("/", test::operators()).error().format(), ContainsSubstring("this is a folder"));
}
