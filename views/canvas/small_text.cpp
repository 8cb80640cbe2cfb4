#include "views/canvas/small_text.h"

#include <map>
#include <tuple>
#include <utility>

#include "views/canvas/canvas_paint.h"
#include "views/document/graph_decode.h"
#include "views/layout/node_text.h"

namespace graft {

namespace {

QFont fontOf(int pixels, QFont::Weight weight, SmallText::Letters letters) {
  constexpr int narrow = 85, usual = 100;  // percent
  QFont font = drawingFont(pixels, weight);
  if (letters == SmallText::Letters::Narrow)
    font.setStretch((font.stretch() > 0 ? font.stretch() : usual) * narrow / usual);
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

namespace {

/// The two lines of a title whose longer one is shortest: "scaled_dot_", "product_attention". Of one word, nothing.
std::pair<QString, QString> inTwoLines(const QString& title, const SmallText& letters) {
  qsizetype best = 0;
  double least = letters.width(QStringView(title));
  for (qsizetype at = 1; at < title.size(); ++at) {
    const QChar before = title[at - 1];
    const bool isBetweenWords = before == QLatin1Char('_') || before == QLatin1Char('.') ||
                                before == QLatin1Char(' ') || (before.isLower() && title[at].isUpper());
    if (!isBetweenWords) continue;
    const double longer =
        std::max(letters.width(QStringView(title).left(at)), letters.width(QStringView(title).mid(at)));
    if (longer < least) least = longer, best = at;
  }
  if (best == 0) return {};
  return {title.left(best), title.mid(best)};
}

/// "exp" says less than nothing of "expand".
bool readsAsAnother(const QString& cut) { return !cut.endsWith(QChar(0x2026)) && isOperatorName(cut.toStdString()); }

}  // namespace

SmallTitle smallTitle(const QString& title, int pixels, double room, int lines) {
  using Form = SmallTitle::Form;
  const SmallText& usual = SmallText::ofSize(pixels, QFont::Medium);
  if (usual.width(QStringView(title)) <= room) return {title.isEmpty() ? Form::None : Form::Whole, title, {}, &usual};
  const SmallText& narrow = SmallText::ofSize(pixels, QFont::Medium, SmallText::Letters::Narrow);
  if (narrow.width(QStringView(title)) <= room) return {Form::Whole, title, {}, &narrow};
  const auto fits = [&](const SmallText& letters, const auto& parts) {
    return !parts.first.isEmpty() && letters.width(QStringView(parts.first)) <= room &&
           letters.width(QStringView(parts.second)) <= room;
  };
  if (lines > 1)
    for (const SmallText* letters : {&usual, &narrow})
      if (const auto parts = inTwoLines(title, *letters); fits(*letters, parts))
        return {Form::TwoLines, parts.first, parts.second, letters};
  if (const QString brief = toQt(shortTitle(title.toStdString())); !brief.isEmpty())
    for (const SmallText* letters : {&usual, &narrow})
      if (letters->width(QStringView(brief)) <= room) return {Form::Short, brief, {}, letters};
  const QString cut = narrow.fitted(title, room);
  if (cut.isEmpty() || readsAsAnother(cut)) return {Form::None, {}, {}, &narrow};
  return {Form::Cut, cut, {}, &narrow};
}

bool hasSmallTitle(std::string_view title, int pixels, double room) {
  const SmallText& narrow = SmallText::ofSize(pixels, QFont::Medium, SmallText::Letters::Narrow);
  if (title.empty()) return false;
  if (narrow.width(title) <= room) return true;
  if (const std::string_view brief = shortTitle(title); !brief.empty() && narrow.width(brief) <= room) return true;
  if (!narrow.fitsSome(title, room)) return false;
  return !readsAsAnother(narrow.fitted(toQt(title), room));
}

}  // namespace graft
