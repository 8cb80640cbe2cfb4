#include "app/workbench/cases/case_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/base/suggest.h"
#include "matcher/search/search.h"

namespace graft::workbench {
namespace {

std::string trimmed(const std::string& s) {
  const size_t a = s.find_first_not_of(" \t\r"), b = s.find_last_not_of(" \t\r");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

bool isName(const std::string& s) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return !s.empty() && s.find_first_of(letters) == 0 &&
         s.find_first_not_of(std::string(letters) + "0123456789") == std::string::npos;
}

std::vector<std::string> reasonNames() {
  std::vector<std::string> out;
  for (int i = 0; i <= static_cast<int>(Reason::Budget); ++i) out.emplace_back(reasonName(static_cast<Reason>(i)));
  return out;
}

/// Reads the lines of one text. What is wrong with a line is kept as an error at its place.
class CaseReader {
 public:
  CaseReader(const std::string& path, int line) : number_(line - 1) { common_.file = path; }

  Status read(const std::string& line) {
    ++number_;
    const std::string all = trimmed(line);
    if (all.empty() || (all[0] == '#' && !isBody(line))) {
      keepLine("");
      return done();
    }
    if (!margin_) margin_ = line.find_first_not_of(" \t");
    if (isBody(line)) {
      if (out_.empty())
        return wrong(line, "code stands before the first case; begin a case with `matches 1` or `none`");
      if (out_.back().body.empty()) out_.back().bodyLine = number_;
      keepLine(line);
      out_.back().body += line + "\n";
      return done();
    }
    if (Status s = endCase(); !s) return s;
    const std::string text = trimmed(all.substr(0, all.find(" #")));
    const size_t space = text.find(' ');
    return word(text.substr(0, space), space == std::string::npos ? "" : trimmed(text.substr(space)), line);
  }

  Result<std::vector<Case>> end() {
    if (Status s = endCase(); !s) return s.error();
    return std::move(out_);
  }

 private:
  Error wrong(const std::string& line, const std::string& message) const {
    return badInputAt({common_.file, number_, static_cast<int>(line.find_first_not_of(" \t")) + 1, line}, message);
  }

  /// Deeper than the words of cases: a line of a model.
  bool isBody(const std::string& line) const { return margin_ && line.find_first_not_of(" \t") > *margin_; }

  /// Blank lines keep the lines behind them at their place.
  void keepLine(const std::string& line) {
    if (out_.empty() || out_.back().body.empty()) return;
    if (line.empty())
      ++blank_;
    else
      out_.back().body.append(std::exchange(blank_, 0), '\n');
  }

  Status endCase() {
    blank_ = 0;
    if (out_.empty() || !out_.back().body.empty()) return done();
    return badInputAt({common_.file, out_.back().line, 0, {}},
                      "the case has no model: write its lines below, indented, the last one `return …`");
  }

  Status word(const std::string& word, const std::string& rest, const std::string& line) {
    if (word == "rules") {
      common_.rules = rest;
    } else if (word == "rule") {
      common_.rule = rest;
    } else if (word == "given") {
      return given(rest, line);
    } else if (word == "matches") {
      if (rest.empty() || rest.size() > 6 || rest.find_first_not_of("0123456789") != std::string::npos)
        return wrong(line, "say how often the rule matches: `matches 1`");
      begin().matches = static_cast<size_t>(std::stoul(rest));
    } else if (word == "none") {
      const std::vector<std::string> known = reasonNames();
      if (!rest.empty() && std::find(known.begin(), known.end(), rest) == known.end()) {
        const auto near = nearestName(rest, known);
        return wrong(line, fmt::format("`{}` is no reason of a near miss{}; there are {}", rest,
                                       near ? fmt::format(", did you mean {}?", *near) : "", fmt::join(known, ", ")));
      }
      begin().reason = rest;
    } else {
      const std::vector<std::string> known{"given", "matches", "none"};
      const auto near = nearestName(word, known);
      return wrong(line, fmt::format("a case has no `{}`{}; its lines begin with given, matches or none", word,
                                     near ? fmt::format(", did you mean {}?", *near) : ""));
    }
    return done();
  }

  Case& begin() {
    out_.push_back(common_);
    out_.back().line = number_;
    return out_.back();
  }

  Status given(const std::string& text, const std::string& line) {
    common_.given.clear();
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ';');) {
      const size_t colon = part.find(':');
      Given g;
      g.name = trimmed(part.substr(0, colon));
      std::string type = colon == std::string::npos ? "" : trimmed(part.substr(colon + 1));
      if (type.starts_with("weight ")) {
        g.isWeight = true;
        type = trimmed(type.substr(7));
      }
      const size_t fill = type.find(':');
      const auto parsed = parseType(type.substr(0, fill) + "@cpu");
      const bool isKnown = parsed && parsed->tensorInfo.dtype && parsed->tensorInfo.shape &&
                           std::all_of(parsed->tensorInfo.shape->begin(), parsed->tensorInfo.shape->end(),
                                       [](const Dim& d) { return d.isStatic(); });
      if (!isName(g.name) || !isKnown)
        return wrong(
            line,
            fmt::format(
                "`{}` gives no tensor; write its name, dtype and sizes as in `given x: f32[2,8]; "
                "w: weight f32[8]; i: i64[4]:randint(0,9)`. Dtypes are f16, bf16, f32, f64, i8 to i64, u8, and b8 "
                "for bool",
                trimmed(part)));
      g.type = *parsed;
      g.spec = fill == std::string::npos ? type + ":randn" : type;
      common_.given.push_back(std::move(g));
    }
    return done();
  }

  Case common_;  ///< what holds for the next cases
  std::vector<Case> out_;
  std::optional<size_t> margin_;
  int number_;
  size_t blank_ = 0;
};

}  // namespace

std::string Case::python() const {
  std::string parameters;
  for (const Given& g : given) parameters += (parameters.empty() ? "" : ", ") + g.name;
  return std::string(static_cast<size_t>(bodyLine - 2), '\n') + "def pattern(" + parameters + "):\n" + body;
}

Result<std::vector<Case>> readCases(const std::string& path) {
  std::ifstream in(path);
  if (!in) return badInput(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return readCases(in, path, 1);
}

Result<std::vector<Case>> readCases(std::istream& in, const std::string& path, int line) {
  CaseReader reader(path, line);
  for (std::string text; std::getline(in, text);)
    if (Status s = reader.read(text); !s) return s.error();
  return reader.end();
}

}  // namespace graft::workbench
