#include "views/canvas/small_text.h"

#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "views/canvas/canvas_paint.h"
#include "views/document/graph_decode.h"

namespace graft {

namespace {

QFont fontOf(int pixels, QFont::Weight weight, SmallText::Letters letters) {
  constexpr int usual = 100;  // percent
  QFont font = drawingFont(pixels, weight);
  if (letters == SmallText::Letters::Narrow)
    font.setStretch(static_cast<int>(std::lround((font.stretch() > 0 ? font.stretch() : usual) * narrowLetters)));
  return font;
}

}  // namespace

const SmallText& SmallText::ofSize(int pixels, QFont::Weight weight, Letters letters) {
  static std::map<std::tuple<int, int, Letters>, SmallText> known;
  const std::tuple key{pixels, static_cast<int>(weight), letters};
  auto it = known.find(key);
  if (it == known.end()) it = known.emplace(key, SmallText(pixels, weight, letters)).first;
  return it->second;
}

SmallText::SmallText(int pixels, QFont::Weight weight, Letters letters)
    : font_(fontOf(pixels, weight, letters)), metrics_(font_) {
  for (size_t c = ' '; c < latin_.size(); ++c) latin_[c] = metrics_.horizontalAdvance(QChar(static_cast<ushort>(c)));
  ellipsis_ = metrics_.horizontalAdvance(QChar(0x2026));
  drop_ = metrics_.capHeight() / 2;
}

double SmallText::advance(QChar c) const {
  return c.unicode() < latin_.size() ? latin_[c.unicode()] : metrics_.horizontalAdvance(c);
}

double SmallText::width(QStringView text) const {
  double sum = 0;
  for (const QChar c : text) sum += advance(c);
  return sum;
}

double SmallText::width(std::string_view utf8) const {
  double sum = 0;
  for (size_t i = 0; i < utf8.size(); ++i) {
    size_t c = static_cast<unsigned char>(utf8[i]);
    constexpr size_t ascii = 0x80, firstLatin = 0xC2, lastLatin = 0xC3, six = 0x3F;
    if ((c == firstLatin || c == lastLatin) && i + 1 < utf8.size())  // two bytes, as of ×
      c = (c & 3) << 6 | (static_cast<unsigned char>(utf8[++i]) & six);
    else if (c >= ascii)
      return width(QString::fromUtf8(utf8.data(), static_cast<qsizetype>(utf8.size())));
    sum += latin_[c];
  }
  return sum;
}

QString SmallText::fitted(const QString& text, double room) const {
  if (width(QStringView(text)) <= room) return text;
  const std::string utf8 = text.toStdString();
  const Beginning beginning = beginningOf(utf8, room, *this);
  return toQt(utf8.substr(0, beginning.size)) + (beginning.isCut ? QStringLiteral("…") : QString());
}

namespace {

const SmallText& titleLetters(int pixels, SmallText::Letters letters = SmallText::Letters::Usual) {
  return SmallText::ofSize(pixels, QFont::Medium, letters);
}

}  // namespace

const TitleForms& formsOf(std::string_view title) {
  static std::map<std::string, TitleForms, std::less<>> known;
  auto it = known.find(title);
  if (it == known.end()) it = known.emplace(title, titleForms(title)).first;
  return it->second;
}

std::optional<size_t> spellingFor(std::string_view title, int pixels, double room, int lines) {
  const SmallText& narrow = titleLetters(pixels, SmallText::Letters::Narrow);
  if (!title.empty() && narrow.width(title) <= room) return 0;  // most do: no look at their forms
  return firstSpelling(title, formsOf(title), room, lines, narrow);
}

SmallTitle smallTitle(std::string_view title, size_t spelling, int pixels, double room, int lines) {
  const SmallText &usual = titleLetters(pixels), &narrow = titleLetters(pixels, SmallText::Letters::Narrow);
  const FittedTitle t = fitTitle(title, formsOf(title), spelling, room, lines, usual, narrow);
  const QString end = t.form == FittedTitle::Form::Cut ? QStringLiteral("…") : QString();
  return {t.form, toQt(t.first) + end, toQt(t.second), t.isNarrow ? &narrow : &usual};
}

SmallTitle smallTitle(std::string_view title, int pixels, double room, int lines) {
  return smallTitle(title, spellingFor(title, pixels, room, lines).value_or(0), pixels, room, lines);
}

bool hasSmallTitle(std::string_view title, int pixels, double room) {
  if (spellingFor(title, pixels, room, 1)) return true;
  return !title.empty() && beginningOf(title, room, titleLetters(pixels, SmallText::Letters::Narrow)).size > 0;
}

}  // namespace graft
