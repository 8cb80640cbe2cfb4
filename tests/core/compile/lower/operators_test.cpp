// Each lowered operator against LibTorch: operators.txt, a line a case.
//
//   [finite] [any] [contiguous] x: F[3,s0], i: i64[4]<0..2> | %a = aten.exp.default(%x); aten.index_select.default(%a,
//   0, %i)
//
// Letters stand for several dtypes, one after the other: F floating ones, I integers, A both, N bool too. `finite`: no
// NaN and infinities among the numbers. Tensors lie in memory in two orders, but where `contiguous` forbids it. Sizes
// s0, s1 vary, between 2 and 64, or from 0 on where `any` says so.

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "core/compile/lower/lower.h"
#include "core/torch/executor.h"
#include "core/torch/semantics.h"
#include "tests/core/compile/lower/torch_compare.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;

namespace {

struct Input {
  std::string name, dtype;
  std::vector<std::string> sizes;
  std::optional<double> least, greatest;
};
struct Case {
  std::string line;
  bool finite = false, anySize = false, contiguous = false;
  std::vector<Input> inputs;
  std::vector<std::string> statements;
};

std::string trimmed(const std::string& s) {
  const size_t a = s.find_first_not_of(' '), b = s.find_last_not_of(' ');
  return a == s.npos ? "" : s.substr(a, b - a + 1);
}

std::vector<std::string> splitAt(const std::string& s, char separator) {
  std::vector<std::string> out;
  int depth = 0;
  std::string one;
  for (const char c : s) {
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c == separator && depth == 0) {
      out.push_back(trimmed(one));
      one.clear();
    } else {
      one += c;
    }
  }
  if (!trimmed(one).empty()) out.push_back(trimmed(one));
  return out;
}

Input parsedInput(const std::string& text) {
  Input in;
  const size_t colon = text.find(':'), open = text.find('['), close = text.find(']');
  REQUIRE(colon != text.npos);
  REQUIRE(close != text.npos);
  in.name = trimmed(text.substr(0, colon));
  in.dtype = trimmed(text.substr(colon + 1, open - colon - 1));
  in.sizes = splitAt(text.substr(open + 1, close - open - 1), ',');
  if (const size_t range = text.find('<', close); range != text.npos) {
    const size_t dots = text.find("..", range);
    in.least = std::stod(text.substr(range + 1, dots));
    in.greatest = std::stod(text.substr(dots + 2));
  }
  return in;
}

std::vector<Case> readCases() {
  std::istringstream lines(test::readFile(GRAFT_SOURCE_DIR "/tests/core/compile/lower/operators.txt"));
  std::vector<Case> out;
  for (std::string line; std::getline(lines, line);) {
    if (trimmed(line).empty() || line[0] == '#') continue;
    INFO(line);
    Case c;
    c.line = line;
    const size_t bar = line.find('|');
    REQUIRE(bar != line.npos);
    std::string head = trimmed(line.substr(0, bar));
    for (bool again = true; again;) {
      again = false;
      for (const auto& [word, flag] :
           {std::pair{"finite", &c.finite}, std::pair{"any", &c.anySize}, std::pair{"contiguous", &c.contiguous}})
        if (head.rfind(word, 0) == 0 &&
            (head.size() == std::string(word).size() || head[std::string(word).size()] == ' ')) {
          *flag = true;
          head = trimmed(head.substr(std::string(word).size()));
          again = true;
        }
    }
    for (const std::string& in : splitAt(head, ',')) c.inputs.push_back(parsedInput(in));
    c.statements = splitAt(line.substr(bar + 1), ';');
    out.push_back(std::move(c));
  }
  return out;
}

std::vector<DType> dtypesOf(const std::string& spelled) {
  const std::vector<DType> floating{DType::Float32, DType::Float64, DType::Float16, DType::BFloat16};
  const std::vector<DType> whole{DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64};
  std::vector<DType> out;
  if (spelled == "F" || spelled == "A" || spelled == "N") out = floating;
  if (spelled == "I" || spelled == "A" || spelled == "N") out.insert(out.end(), whole.begin(), whole.end());
  if (spelled == "N") out.push_back(DType::Bool);
  if (out.empty()) {
    const auto d = parseDType(spelled);
    REQUIRE(d);
    out.push_back(*d);
  }
  return out;
}

/// The case as a graph, its letters standing for `dtype`.
Result<Graph> graphOf(const Case& c, DType letter) {
  std::string text = "graph g {\n";
  std::set<std::string> symbols;
  for (const Input& in : c.inputs)
    for (const std::string& s : in.sizes)
      if (!std::isdigit(static_cast<unsigned char>(s[0]))) symbols.insert(s);
  for (const std::string& s : symbols) text += "  symbol " + s + (c.anySize ? " [0, 64]\n" : " [2, 64]\n");
  for (const Input& in : c.inputs) {
    const std::vector<DType> dtypes = dtypesOf(in.dtype);
    text += "  input %" + in.name + " : " + std::string(dtypeShort(dtypes.size() > 1 ? letter : dtypes[0])) + "[";
    for (size_t k = 0; k < in.sizes.size(); ++k) text += (k ? "," : "") + in.sizes[k];
    text += "]\n";
  }
  std::string results;
  for (size_t k = 0; k < c.statements.size(); ++k) {
    std::string s = c.statements[k];
    const size_t equals = s.find(" = ");
    if (equals == s.npos) {
      s = "%result = " + s;
      results = "%result";
    } else {
      results = s.substr(0, equals);
    }
    text += "  " + s + "\n";
  }
  text += "  return " + results + "\n}\n";
  Graph g = test::graphOf(text, test::semantics().operators());
  std::vector<Type> types;
  for (const ValueId v : g.inputs()) types.push_back(g.value(v).type);
  if (const Status typed = inferAllTypes(g, types); !typed) return badInput(typed.error().message + "\n" + text);
  return g;
}

/// LibTorch has no meta kernels for a few operators: a run says what types they give.
Status completeTypes(Graph& g, const TensorSet& inputs) {
  for (const NodeId n : g.order())
    for (const ValueId v : g.node(n).outputs)
      if (const Type& t = g.value(v).type; t.isTensor() && (!t.tensorInfo.dtype || !t.tensorInfo.shape))
        return recordTypes(g, inputs, true);
  return done();
}

/// What is wrong first; empty where nothing is.
std::string failureOf(const Case& c, DType letter) {
  auto made = graphOf(c, letter);
  if (!made) return made.error().message;
  Graph& g = *made;
  std::vector<int64_t> lengths{3};
  const bool varies = std::any_of(c.inputs.begin(), c.inputs.end(), [](const Input& in) {
    return std::any_of(in.sizes.begin(), in.sizes.end(),
                       [](const std::string& s) { return !std::isdigit(static_cast<unsigned char>(s[0])); });
  });
  if (varies) lengths = c.anySize ? std::vector<int64_t>{0, 1, 5} : std::vector<int64_t>{2, 7};
  for (const int64_t length : lengths) {
    for (const bool special : {false, true}) {
      if (special && c.finite) continue;
      std::map<std::string, int64_t> sizes;
      std::vector<test::Random> random;
      int64_t next = length;
      for (const Input& in : c.inputs) {
        const std::vector<DType> dtypes = dtypesOf(in.dtype);
        test::Random r{.dtype = dtypes.size() > 1 ? letter : dtypes[0],
                       .sizes = {},
                       .least = in.least,
                       .greatest = in.greatest,
                       .special = special && !in.least,
                       .strided = special && !c.contiguous};
        for (const std::string& s : in.sizes) {
          if (std::isdigit(static_cast<unsigned char>(s[0]))) {
            r.sizes.push_back(std::stoll(s));
            continue;
          }
          const auto [at, isNew] = sizes.emplace(s, next);
          if (isNew) ++next;
          r.sizes.push_back(at->second);
        }
        random.push_back(std::move(r));
      }
      const TensorSet inputs = test::randomInputs(random, 17 + static_cast<uint64_t>(length));
      if (const Status typed = completeTypes(g, inputs); !typed) return typed.error().message;
      const std::string wrong = test::compareWithTorch(g, inputs, sizes);
      if (!wrong.empty()) return "length " + std::to_string(length) + (special ? ", special numbers: " : ": ") + wrong;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("lowered operators compute what LibTorch computes") {
  const char* only = std::getenv("GRAFT_TEST_ONLY");  // a part of the line
  for (const Case& c : readCases()) {
    if (only && c.line.find(only) == c.line.npos) continue;
    INFO(c.line);
    std::vector<DType> letters{DType::Float32};
    for (const Input& in : c.inputs)
      if (const auto dtypes = dtypesOf(in.dtype); dtypes.size() > letters.size()) letters = dtypes;
    for (const DType letter : letters) {
      const std::string wrong = failureOf(c, letter);
      INFO(dtypeShort(letter) << ", " << wrong);
      CHECK(wrong.empty());
    }
  }
}

TEST_CASE("operators.txt has a line for each lowered operator") {
  std::set<std::string> seen;
  for (const Case& c : readCases())
    for (const std::string& s : c.statements) {
      const size_t at = s.find(" = ");
      const size_t start = at == s.npos ? 0 : at + 3;
      seen.insert(s.substr(start, s.find('(', start) - start));
    }
  for (const lower::LoweredOperator& op : lower::loweredOperators()) {
    INFO(op.name);
    CHECK(seen.count(op.name) == 1);
  }
}

TEST_CASE("docs/reference/lowered-operators.md lists what is lowered") {
  const std::string path = GRAFT_SOURCE_DIR "/docs/reference/lowered-operators.md";
  const std::string was = test::readFile(path);
  // Above the line: by hand. Below it: each kind with its operators, as the table of lowerings has them.
  const std::string line = "<!-- The rest is written by the test compile_lower_operators with UPDATE_EXPECT=1. -->\n";
  const size_t at = was.find(line);
  REQUIRE(at != was.npos);
  std::map<std::string, std::vector<std::string>> byKind;
  for (const lower::LoweredOperator& op : lower::loweredOperators())
    byKind[std::string(lower::kindName(op.kind))].push_back(op.name);
  std::string text = was.substr(0, at) + line;
  for (const auto& [kind, names] : byKind) {
    text += "\n## " + std::string(1, static_cast<char>(std::toupper(kind[0]))) + kind.substr(1) + "\n\n";
    text += "| Operator | Overloads |\n|---|---|\n";
    std::map<std::string, std::string> overloads;
    for (const std::string& name : names) {
      const size_t dot = name.rfind('.');
      const bool isWhole = name.find('.') == dot;  // prim.getitem
      std::string& list = overloads[isWhole ? name : name.substr(0, dot)];
      if (!isWhole) list += (list.empty() ? "`" : ", `") + name.substr(dot + 1) + "`";
    }
    for (const auto& [name, list] : overloads) text += "| `" + name + "` | " + list + " |\n";
  }
  if (std::getenv("UPDATE_EXPECT"))
    test::writeFile(path, text);
  else
    CHECK(text == was);
}
