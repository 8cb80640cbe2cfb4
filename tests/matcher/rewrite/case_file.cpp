#include "tests/matcher/rewrite/case_file.h"

namespace graft::test {
namespace {

std::string indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    out += line.empty() ? "\n" : "    " + std::string(line) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

Result<CaseFile> parseCaseFile(std::string_view text, std::string_view path) {
  CaseFile file;
  std::string* content = nullptr;
  int number = 0;
  const auto fail = [&](std::string message, std::string_view line) {
    return badInputAt({std::string(path), number, 1, std::string(line)}, std::move(message));
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.starts_with("    ") || line.empty()) {
      if (content)
        *content += std::string(line.empty() ? line : line.substr(4)) + "\n";
      else if (!line.empty())
        return fail("indented text belongs to a section", line);
      continue;
    }
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, space);
    const std::string rest(space < line.size() ? line.substr(space + 1) : "");
    if (line.starts_with("#")) {
      file.comment += std::string(line) + "\n";
    } else if (word == "rule") {
      file.sections.emplace_back();
      content = &file.sections.back().rule;
    } else if (file.sections.empty()) {
      return fail("a rule comes first", line);
    } else if (word == "recipe") {
      file.sections.back().recipe = rest;
    } else if (word == "repeats") {
      file.sections.back().repeats = true;
    } else if (word == "case") {
      file.cases.push_back({rest, "", "", "", "", number, file.sections.size() - 1});
      content = &file.cases.back().before;
    } else if (word == "after" || word == "none" || word == "matches" || word == "refused") {
      if (file.cases.empty()) return fail("an expectation belongs to a case", line);
      file.cases.back().expectation = word;
      file.cases.back().argument = rest;
      content = &file.cases.back().text;
    } else {
      return fail("a section is rule, recipe, repeats, case, after, none, matches or refused", line);
    }
  }
  for (Case& c : file.cases)
    for (std::string* s : {&c.before, &c.text}) {
      while (s->ends_with("\n\n")) s->pop_back();
      if (*s == "\n") s->clear();
    }
  for (Section& s : file.sections)
    while (s.rule.ends_with("\n\n")) s.rule.pop_back();
  return file;
}

std::string toText(const CaseFile& file) {
  std::string out = file.comment;
  size_t sections = 0;
  for (const Case& c : file.cases) {
    for (; sections <= c.section; ++sections) {
      const Section& s = file.sections[sections];
      out += (sections ? "\n" : "") + std::string("rule\n") + indented(s.rule);
      if (!s.recipe.empty()) out += "recipe " + s.recipe + "\n";
      if (s.repeats) out += "repeats\n";
    }
    out += "\ncase " + c.name + "\n" + indented(c.before);
    out += c.expectation + (c.argument.empty() ? "" : " " + c.argument) + "\n" + indented(c.text);
  }
  return out;
}

}  // namespace graft::test
