#include "views/canvas/small_text.h"

#include <map>
#include <utility>

#include "views/canvas/canvas_paint.h"

namespace graft {

const SmallText& SmallText::ofSize(int pixels, QFont::Weight weight) {
  static std::map<std::pair<int, int>, SmallText> known;
  const std::pair key{pixels, static_cast<int>(weight)};
  auto it = known.find(key);
  if (it == known.end()) it = known.emplace(key, SmallText(pixels, weight)).first;
  return it->second;
}

SmallText::SmallText(int pixels, QFont::Weight weight) : font_(drawingFont(pixels, weight)), metrics_(font_) {
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

namespace {

bool isLatin(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
}

}  // namespace

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

bool SmallText::fitsSome(std::string_view text, double room) const {
  const std::string_view few = text.substr(0, fewestLetters);
  if (!isLatin(few))
    return !fitted(QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size())), room).isEmpty();
  double used = 0;
  for (const char c : few)
    if (used += latin_[static_cast<unsigned char>(c)]; used > room) return false;
  return !text.empty();
}

QString SmallText::fitted(const QString& text, double room) const {
  double used = 0;
  qsizetype fits = 0, beforeEllipsis = 0;
  for (; fits < text.size(); ++fits) {
    used += advance(text[fits]);
    if (used > room) break;
    if (used + ellipsis_ <= room) beforeEllipsis = fits + 1;
  }
  if (fits == text.size()) return text;
  if (beforeEllipsis >= fewestLetters) return text.left(beforeEllipsis) + QChar(0x2026);
  return fits >= fewestLetters ? text.left(fits) : QString();
}

}  // namespace graft
