// How a title is set where its box has little room: the same in the window, in an SVG and on the page. The page carries
// the forms of its titles as data, and its script (resources/page/viewer.js) does what `fitTitle` does.
//
//   FittedTitle t = fitTitle("layer_norm", titleForms("layer_norm"), room, 1, usual, narrow);
//   // t.first: "layer_norm", perhaps in narrow letters; "LN"; "layer…"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "views/layout/layout.h"

namespace graft {

/// Letters that are narrow take this share of the usual width, and are as high.
inline constexpr double narrowLetters = 0.85;

/// What a title may become, whatever the room.
struct TitleForms {
  std::string first, second;       ///< "layer_" and "norm": its two lines; empty where it is one word
  std::vector<std::string> brief;  ///< "LN": its usual short names, from the one that says most
  std::vector<size_t> misread;     ///< 3 for "expand": so many letters of it, 3 at least, are another operator's name
};
TitleForms titleForms(std::string_view title);
/// Whether an operator is called so.
bool isOperatorName(std::string_view name);

/// How a title is set. The views are of the title and of its forms.
struct FittedTitle {
  enum class Form : uint8_t { None, Whole, TwoLines, Short, Cut } form = Form::None;
  bool isNarrow = false;           ///< its letters
  std::string_view first, second;  ///< its line, or both
  bool hasEllipsis = false;        ///< "…" follows: one sees that it is cut
};

/// As many bytes of a text as have room, and whether "…" has room behind them.
struct Beginning {
  size_t size = 0;
  bool hasEllipsis = false;
};

/// All of the text, else its beginning before "…", else its first letters; nothing where that would be fewer than
/// three. `Letters` have `width(std::string_view)` and `ellipsis()`, both in the unit of `room`.
template <class Letters>
Beginning beginningOf(std::string_view text, double room, const Letters& letters) {
  double used = 0;
  size_t fits = 0, fitting = 0, before = 0, lettersBefore = 0;  // bytes and letters
  while (fits < text.size()) {
    size_t next = fits + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
    used += letters.width(text.substr(fits, next - fits));
    if (used > room) break;
    fits = next;
    ++fitting;
    if (used + letters.ellipsis() <= room) before = fits, lettersBefore = fitting;
  }
  if (fits == text.size()) return {fits, false};
  if (lettersBefore >= SmallMetrics::fewest) return {before, true};
  return {fitting >= SmallMetrics::fewest ? fits : 0, false};
}

/// The first of these that has room: the title in usual letters; in narrow ones; in two lines, where `lines` is 2; a
/// short name; its beginning in narrow letters. A beginning that is another operator's name is left out.
template <class Letters>
FittedTitle fitTitle(std::string_view title, const TitleForms& forms, double room, int lines, const Letters& usual,
                     const Letters& narrow) {
  using Form = FittedTitle::Form;
  if (title.empty()) return {};
  const auto fits = [&](std::string_view text, bool isNarrow) {
    return (isNarrow ? narrow : usual).width(text) <= room;
  };
  for (const bool isNarrow : {false, true})
    if (fits(title, isNarrow)) return {Form::Whole, isNarrow, title, {}, false};
  if (lines > 1 && !forms.second.empty())
    for (const bool isNarrow : {false, true})
      if (fits(forms.first, isNarrow) && fits(forms.second, isNarrow))
        return {Form::TwoLines, isNarrow, forms.first, forms.second, false};
  for (const std::string& brief : forms.brief)
    for (const bool isNarrow : {false, true})
      if (fits(brief, isNarrow)) return {Form::Short, isNarrow, brief, {}, false};
  const Beginning cut = beginningOf(title, room, narrow);
  if (cut.size == 0) return {};
  if (!cut.hasEllipsis)
    for (const size_t size : forms.misread)
      if (size == cut.size) return {};
  return {Form::Cut, true, title.substr(0, cut.size), {}, cut.hasEllipsis};
}

}  // namespace graft
