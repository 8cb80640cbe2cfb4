// How a title is set where its box has little room: the same in the window, in an SVG and on the page. An operator has
// one spelling in a drawing: its name where all of its boxes have room for that, else a short name. The page carries
// the spellings of its titles as data, and its script (resources/page/viewer.js) does what stands here.
//
//   Spellings spellings;
//   for (…) if (auto s = firstSpelling(title, forms, room, 1, narrow)) spellings.add(title, forms, *s);
//   FittedTitle t = fitTitle(title, forms, spellings.of(title), room, 1, usual, narrow);
//   // t.first: "layer_norm", perhaps in narrow letters; "LN"; "layer…"
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "views/layout/layout.h"

namespace graft {

/// Letters that are narrow take this share of the usual width, and are as high.
inline constexpr double narrowLetters = 0.85;

/// What a title may become, whatever the room.
struct TitleForms {
  std::string first, second;       ///< "layer_" and "norm": its two lines; empty where it is one word
  std::vector<std::string> brief;  ///< "LN": its usual short names, from the one that says most
  std::string stem;                ///< "layer_norm" of "native_layer_norm_backward"
  bool hasUsual = false;           ///< the last of `brief` is what the field calls the stem, as "LN bwd"
};
TitleForms titleForms(std::string_view title);

/// A title's spellings have numbers: 0 is the title itself, the others are its short names in their order.
inline std::string_view spelled(std::string_view title, const TitleForms& forms, size_t spelling) {
  return spelling == 0 || forms.brief.empty() ? title : forms.brief[std::min(spelling, forms.brief.size()) - 1];
}

/// How each title is spelled in one drawing.
class Spellings {
 public:
  /// One of its boxes has room for that spelling, and for none before it.
  void add(std::string_view title, const TitleForms& forms, size_t spelling);
  /// The first one that all its boxes have room for, of those that have room for any. Where an operator goes by the
  /// field's short name ("LN"), so do its variants and its backward pass ("LN bwd").
  size_t of(std::string_view title) const;
  /// Titles that are not spelled out, each after what stands for it.
  std::vector<std::pair<std::string, std::string>> shortNames() const;

 private:
  struct Known {
    TitleForms forms;
    size_t spelling = 0;
  };
  std::map<std::string, Known, std::less<>> titles_;
  std::set<std::string, std::less<>> usual_;  ///< stems that go by the field's short name
};

/// How a title is set. The views are of the title and of its forms.
struct FittedTitle {
  enum class Form : uint8_t { None, Whole, TwoLines, Short, Cut } form = Form::None;
  bool isNarrow = false;           ///< its letters
  std::string_view first, second;  ///< its line, or both; "…" follows what is cut
};

/// As many bytes of a text as have room, with "…" behind them where that is not all.
struct Beginning {
  size_t size = 0;
  bool isCut = false;
};

/// All of the text, else its beginning before "…"; nothing where that would be fewer than three letters. `Letters` have
/// `width(std::string_view)` and `ellipsis()`, both in the unit of `room`.
template <class Letters>
Beginning beginningOf(std::string_view text, double room, const Letters& letters) {
  double used = 0;
  size_t fits = 0, before = 0, lettersBefore = 0;  // bytes and letters
  while (fits < text.size()) {
    size_t next = fits + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
    used += letters.width(text.substr(fits, next - fits));
    if (used > room) break;
    fits = next;
    if (used + letters.ellipsis() <= room) before = fits, ++lettersBefore;
  }
  if (fits == text.size()) return {fits, false};
  return lettersBefore >= SmallMetrics::fewest ? Beginning{before, true} : Beginning{};
}

/// The first spelling that has room, in letters that may be narrow; the title itself in two lines, too, where `lines`
/// is 2. None where no spelling has.
template <class Letters>
std::optional<size_t> firstSpelling(std::string_view title, const TitleForms& forms, double room, int lines,
                                    const Letters& narrow) {
  if (title.empty()) return std::nullopt;
  const auto fits = [&](std::string_view text) { return narrow.width(text) <= room; };
  if (fits(title) || (lines > 1 && !forms.second.empty() && fits(forms.first) && fits(forms.second))) return 0;
  for (size_t i = 0; i < forms.brief.size(); ++i)
    if (fits(forms.brief[i])) return i + 1;
  return std::nullopt;
}

/// That spelling in the first of these that has room: usual letters; narrow ones; two lines, where `lines` is 2 and it
/// is the title itself; its beginning in narrow letters.
template <class Letters>
FittedTitle fitTitle(std::string_view title, const TitleForms& forms, size_t spelling, double room, int lines,
                     const Letters& usual, const Letters& narrow) {
  using Form = FittedTitle::Form;
  if (title.empty()) return {};
  const auto fits = [&](std::string_view text, bool isNarrow) {
    return (isNarrow ? narrow : usual).width(text) <= room;
  };
  const std::string_view text = spelled(title, forms, spelling);
  const bool isWhole = spelling == 0;
  for (const bool isNarrow : {false, true})
    if (fits(text, isNarrow)) return {isWhole ? Form::Whole : Form::Short, isNarrow, text, {}};
  if (isWhole && lines > 1 && !forms.second.empty())
    for (const bool isNarrow : {false, true})
      if (fits(forms.first, isNarrow) && fits(forms.second, isNarrow))
        return {Form::TwoLines, isNarrow, forms.first, forms.second};
  const Beginning cut = beginningOf(text, room, narrow);
  if (cut.size == 0) return {};
  return {Form::Cut, true, text.substr(0, cut.size), {}};
}

}  // namespace graft
