#include "matcher/lang/fix_it.h"

#include <algorithm>
#include <map>

#include "matcher/lang/fix_it_candidates.h"
#include "matcher/lang/rule_file.h"

namespace graft {
namespace {

using lang::FileSyntax;
using lang::SourceText;

constexpr size_t mostReadings = 24;  // changed texts read for one rule: somebody is waiting

struct Extent {
  size_t begin = 0, end = 0;
  bool holds(size_t at) const { return begin <= at && at < end; }
};

/// The end of the string that begins there. What strings say is crossed out in that text.
size_t behindString(const std::string& text, size_t at) {
  const std::string triple(3, text[at]);
  const std::string quote = text.compare(at, 3, triple) == 0 ? triple : triple.substr(0, 1);
  const size_t end = text.find(quote, at + quote.size());
  return end == std::string::npos ? text.size() : end + quote.size();
}

/// The lines of a class that begins at the left edge: to the next line that begins there, outside of brackets and
/// strings.
Extent extentOf(const lang::ClassSyntax& c, const std::string& text) {
  const size_t before = text.rfind('\n', c.span.begin);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  size_t depth = 0, i = c.span.begin;
  while (i < text.size()) {
    const char ch = text[i];
    if (ch == '"' || ch == '\'') {
      i = behindString(text, i);
      continue;
    }
    if (ch == '(' || ch == '[' || ch == '{') ++depth;
    if ((ch == ')' || ch == ']' || ch == '}') && depth > 0) --depth;
    ++i;
    if (ch == '\n' && depth == 0 && i < text.size() &&
        std::string_view(" \t\r\n").find(text[i]) == std::string_view::npos)
      break;
  }
  return {begin, i};
}

/// The recipes, and the rules that nothing else names. Without them a file is read in a tenth of the time.
std::vector<Extent> othersThan(const std::string& rule, const std::string& text, const FileSyntax& file) {
  std::vector<Extent> out;
  for (const lang::ClassSyntax& c : file.classes)
    if (derivesFrom(c, "Recipe")) out.push_back(extentOf(c, text));
  const std::vector<Extent> recipes = out;
  for (const lang::ClassSyntax& c : file.classes) {
    if (c.name == rule || !derivesFrom(c, "Rule")) continue;
    const Extent own = extentOf(c, text);
    bool isNamed = false;
    for (size_t i = text.find(c.name); i != std::string::npos && !isNamed; i = text.find(c.name, i + 1))
      isNamed = !own.holds(i) && std::none_of(recipes.begin(), recipes.end(), [&](Extent e) { return e.holds(i); });
    if (!isNamed) out.push_back(own);
  }
  std::sort(out.begin(), out.end(), [](Extent a, Extent b) { return a.begin < b.begin; });
  return out;
}

}  // namespace

std::string withEdits(std::string_view text, const std::vector<TextEdit>& edits) {
  std::string out;
  size_t at = 0;
  for (const TextEdit& e : edits) {
    out += text.substr(at, e.begin - at);
    out += e.after;
    at = e.end;
  }
  return out += text.substr(at);
}

struct FixIts::Reading {
  Reading(std::string_view t, std::string_view f, const OperatorSet& o, const Graph& g)
      : text(t), file(f), operators(o), graph(g), matcher(g) {}
  std::string text, file;
  const OperatorSet& operators;
  const Graph& graph;
  Matcher matcher;
  std::optional<SourceText> source;  ///< nothing where it cannot be read
  FileSyntax syntax;
  std::string rule;  ///< `others` is everything that this rule does not need
  std::vector<Extent> others;
  std::map<std::string, std::optional<RuleFile>> read;  ///< by the changed text; nothing where it cannot be read

  /// The rule as the edited text has it; null where that cannot be read.
  const Rule* edited(const std::string& name, const std::vector<TextEdit>& edits) {
    if (rule != name) {
      rule = name;
      others = othersThan(name, source->masked(), syntax);
      read.clear();
    }
    std::vector<TextEdit> all = edits;
    for (const Extent& e : others) all.push_back({e.begin, e.end, 0, {}, {}});
    std::sort(all.begin(), all.end(), [](const TextEdit& a, const TextEdit& b) { return a.begin < b.begin; });
    const std::string changed = withEdits(source->original(), all);
    auto it = read.find(changed);
    if (it == read.end()) {
      if (read.size() >= mostReadings) return nullptr;
      auto parsed = parseRuleText(changed, file, operators);
      it = read.emplace(changed, std::nullopt).first;
      if (parsed) it->second = std::move(*parsed);
    }
    return it->second ? it->second->findRule(name) : nullptr;
  }

  /// The rule matches where it missed: it covers all that had fitted before.
  bool matchesAt(const Rule& rule, const NearMiss& miss) {
    SearchOptions options;
    options.at = miss.anchor ? miss.anchor : miss.at;
    const SearchResult found = matcher.findAll(rule, options);
    return std::any_of(found.matches.begin(), found.matches.end(), [&](const Match& m) {
      return std::all_of(miss.matchedNodes.begin(), miss.matchedNodes.end(), [&](NodeId n) {
        return n == miss.at || std::find(m.nodes.begin(), m.nodes.end(), n) != m.nodes.end();
      });
    });
  }
};

FixIts::FixIts(std::string_view text, std::string_view file, const OperatorSet& operators, const Graph& graph)
    : reading_(std::make_unique<Reading>(text, file, operators, graph)) {
  try {
    reading_->source = SourceText::scan(text, file);
    reading_->syntax = lang::parseFile(*reading_->source);
  } catch (const lang::Failure&) {
    reading_->source.reset();
  }
}

FixIts::~FixIts() = default;

std::vector<TextEdit> FixIts::edits(const Rule& rule, const NearMiss& miss) {
  Reading& r = *reading_;
  constexpr std::string_view mark = "\xef\xbb\xbf";  // counts in the file's offsets, not in the text that is read
  if (!r.source || r.text.starts_with(mark) || rule.file != r.source->file()) return {};
  if (miss.matched + 1 < miss.total) return {};  // more than one thing is wrong
  lang::FixItCandidates candidates(*r.source, r.syntax, r.graph, rule, miss);
  for (const auto& edits : candidates.all())
    if (const Rule* changed = r.edited(rule.name, edits); changed && r.matchesAt(*changed, miss)) return edits;
  return {};
}

}  // namespace graft
