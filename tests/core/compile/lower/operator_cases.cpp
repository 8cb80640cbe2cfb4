#include "tests/core/compile/lower/operator_cases.h"

#include <cctype>
#include <sstream>
#include <utility>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace graft::test {
namespace {

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

OperatorCase::Input parsedInput(const std::string& text) {
  OperatorCase::Input in;
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

}  // namespace

std::vector<OperatorCase> readOperatorCases() {
  std::istringstream lines(test::readFile(GRAFT_SOURCE_DIR "/tests/core/compile/lower/operators.txt"));
  std::vector<OperatorCase> out;
  for (std::string line; std::getline(lines, line);) {
    if (trimmed(line).empty() || line[0] == '#') continue;
    INFO(line);
    OperatorCase c;
    c.line = line;
    const size_t bar = line.find('|');
    REQUIRE(bar != line.npos);
    std::string head = trimmed(line.substr(0, bar));
    for (bool again = true; again;) {
      again = false;
      for (const auto& [word, flag] : {std::pair{"finite", &c.finite}, std::pair{"any", &c.anySize},
                                       std::pair{"contiguous", &c.contiguous}, std::pair{"image", &c.image}})
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

bool isSymbol(const std::string& size) { return !std::isdigit(static_cast<unsigned char>(size[0])); }

}  // namespace graft::test
