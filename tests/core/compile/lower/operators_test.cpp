// Each lowered operator against LibTorch: the cases of operators.txt (operator_cases.h says how to read them).

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
#include "tests/core/compile/lower/operator_cases.h"
#include "tests/core/compile/lower/torch_compare.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using test::dtypesOf;
using Case = test::OperatorCase;

namespace {

/// The case as a graph, its letters standing for `dtype`.
Result<Graph> graphOf(const Case& c, DType letter) {
  std::string text = "graph g {\n";
  std::set<std::string> symbols;
  for (const Case::Input& in : c.inputs)
    for (const std::string& s : in.sizes)
      if (test::isSymbol(s)) symbols.insert(s);
  for (const std::string& s : symbols) text += "  symbol " + s + (c.anySize ? " [0, 64]\n" : " [2, 64]\n");
  for (const Case::Input& in : c.inputs) {
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

/// What is wrong first; empty where nothing is.
std::string failureOf(const Case& c, DType letter) {
  auto made = graphOf(c, letter);
  if (!made) return made.error().message;
  Graph& g = *made;
  std::vector<int64_t> lengths{3};
  const bool varies = std::any_of(c.inputs.begin(), c.inputs.end(), [](const Case::Input& in) {
    return std::any_of(in.sizes.begin(), in.sizes.end(), [](const std::string& s) { return test::isSymbol(s); });
  });
  if (varies) lengths = c.anySize ? std::vector<int64_t>{0, 1, 5} : std::vector<int64_t>{2, 7};
  for (const int64_t length : lengths) {
    for (const bool special : {false, true}) {
      if (special && c.finite) continue;
      std::map<std::string, int64_t> sizes;
      std::vector<test::Random> random;
      int64_t next = length;
      for (const Case::Input& in : c.inputs) {
        const std::vector<DType> dtypes = dtypesOf(in.dtype);
        test::Random r{.dtype = dtypes.size() > 1 ? letter : dtypes[0],
                       .sizes = {},
                       .least = in.least,
                       .greatest = in.greatest,
                       .special = special && !in.least,
                       .strided = special && !c.contiguous,
                       .image = c.image};
        for (const std::string& s : in.sizes) {
          if (!test::isSymbol(s)) {
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
      if (const Status typed = test::completeTypes(g, inputs); !typed) return typed.error().message;
      const std::string wrong = test::compareWithTorch(g, inputs, sizes);
      if (!wrong.empty()) return "length " + std::to_string(length) + (special ? ", special numbers: " : ": ") + wrong;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("lowered operators compute what LibTorch computes") {
  const char* only = std::getenv("GRAFT_TEST_ONLY");  // a part of the line
  for (const Case& c : test::readOperatorCases()) {
    if (only && c.line.find(only) == c.line.npos) continue;
    INFO(c.line);
    std::vector<DType> letters{DType::Float32};
    for (const Case::Input& in : c.inputs)
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
  for (const Case& c : test::readOperatorCases())
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
