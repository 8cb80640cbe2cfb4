// Words of one size on screen, for boxes that are too small for their usual text: how many letters fit, counted in
// pixels whatever the zoom. Advances of Latin letters and signs are looked up, so that thousands of boxes cost a few
// milliseconds.
//
//   const SmallText& text = SmallText::ofSize(9, QFont::Medium);
//   QString s = text.fitted("layer_norm", room);   // "layer_norm", "laye…" or nothing
//   SmallTitle t = smallTitle("layer_norm", 0, 9, room, 1);   // of a box: narrower before it is cut; 1: "LN"
#pragma once

#include <QFont>
#include <QFontMetricsF>
#include <QString>
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "views/layout/layout.h"
#include "views/layout/small_titles.h"

namespace graft {

class SmallText {
 public:
  /// Nobody reads smaller letters.
  static constexpr int smallest = static_cast<int>(SmallMetrics::letters);
  /// A box that has no room for that many letters stays without words.
  static constexpr int fewestLetters = static_cast<int>(SmallMetrics::fewest);
  /// As large as the zoom makes it, but never too small to be read.
  static int pixelsAt(double size, double scale) { return std::max(smallest, static_cast<int>(size * scale)); }

  /// How wide letters are; narrow ones are as high.
  enum class Letters : uint8_t { Usual, Narrow };
  /// Kept for as long as the program runs.
  static const SmallText& ofSize(int pixels, QFont::Weight weight, Letters letters = Letters::Usual);

  const QFont& font() const { return font_; }
  double width(QStringView text) const;
  /// The text where it fits, else its beginning with "…"; empty where that would be fewer than three letters.
  QString fitted(const QString& text, double room) const;
  double width(std::string_view utf8) const;
  double ellipsis() const { return ellipsis_; }
  /// From a line's middle down to its baseline.
  double drop() const { return drop_; }

 private:
  SmallText(int pixels, QFont::Weight weight, Letters letters);
  double advance(QChar c) const;

  QFont font_;
  QFontMetricsF metrics_;
  std::array<double, 256> latin_{};
  double ellipsis_ = 0, drop_ = 0;
};

/// How the title of a small box is set, as `fitTitle` says.
struct SmallTitle {
  using Form = FittedTitle::Form;
  Form form = Form::None;
  QString first, second;               ///< its line, or both
  const SmallText* letters = nullptr;  ///< it is set in these
};
/// `titleForms`, kept for as long as the program runs: thousands of boxes have a few dozen titles.
const TitleForms& formsOf(std::string_view title);
/// `firstSpelling` in letters of that size. `lines` is 2 where there is room for a second.
std::optional<size_t> spellingFor(std::string_view title, int pixels, double room, int lines);
/// Of a title in UTF-8, spelled so (see small_titles.h), in letters of that size.
SmallTitle smallTitle(std::string_view title, size_t spelling, int pixels, double room, int lines);
/// Of one that stands alone: spelled as it has room.
SmallTitle smallTitle(std::string_view title, int pixels, double room, int lines);
/// Whether a box with that room for one line has words, whatever the spelling.
bool hasSmallTitle(std::string_view title, int pixels, double room);

}  // namespace graft
