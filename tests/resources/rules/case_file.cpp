#include "case_file.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace graft::test {
namespace {

std::string trimmed(const std::string& s) {
  const size_t a = s.find_first_not_of(" \t"), b = s.find_last_not_of(" \t\r");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

std::vector<Given> parseGiven(const std::string& text) {
  std::vector<Given> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    const size_t colon = part.find(':');
    if (colon == std::string::npos) throw std::runtime_error("`" + part + "` has no type");
    Given g;
    g.name = trimmed(part.substr(0, colon));
    g.type = trimmed(part.substr(colon + 1));
    if (g.type.starts_with("weight ")) {
      g.isWeight = true;
      g.type = trimmed(g.type.substr(7));
    }
    if (const size_t fill = g.type.find(':'); fill != std::string::npos) {
      g.fill = g.type.substr(fill + 1);
      g.type = g.type.substr(0, fill);
    }
    out.push_back(std::move(g));
  }
  return out;
}

}  // namespace

std::string Case::python() const {
  std::string parameters;
  for (const Given& g : given) parameters += (parameters.empty() ? "" : ", ") + g.name;
  return "def pattern(" + parameters + "):\n" + body;
}

std::vector<Case> readCases(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  return readCases(in, path, 1);
}

std::vector<Case> readCases(std::istream& in, const std::string& path, int line0) {
  std::vector<Case> out;
  Case common;
  common.file = path;
  int number = line0 - 1;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (trimmed(line).empty() || line[0] == '#') continue;
    if (line[0] == ' ') {
      if (out.empty()) throw std::runtime_error(path + ":" + std::to_string(number) + ": code before a case");
      out.back().body += line + "\n";
      continue;
    }
    const std::string text = trimmed(line.substr(0, line.find(" #")));
    const size_t space = text.find(' ');
    const std::string word = text.substr(0, space),
                      rest = space == std::string::npos ? "" : trimmed(text.substr(space));
    common.line = number;
    if (word == "rules") {
      common.rules = rest;
    } else if (word == "rule") {
      common.rule = rest;
    } else if (word == "given") {
      common.given = parseGiven(rest);
    } else if (word == "matches" || word == "none") {
      out.push_back(common);
      if (word == "matches") out.back().matches = static_cast<size_t>(std::stoul(rest));
      if (word == "none") out.back().reason = rest;
    } else {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": unknown word `" + word + "`");
    }
  }
  return out;
}

}  // namespace graft::test
