// What a scene's boxes, containers and edges say, and where it has room.
#include <QFontMetricsF>
#include <algorithm>
#include <cmath>

#include "views/canvas/scene_painter.h"
#include "views/document/graph_decode.h"

namespace graft {
namespace {

/// Of facts that stand beside each other, those that have room whole: "27 operators", "start_dim=1, …", a shape without
/// its dtype. The first one is cut where it has none.
template <typename Width>
QString wholeFacts(const QString& text, double room, const Width& width) {
  static const QString dot = QStringLiteral(" · "), comma = QStringLiteral(", "), more = QStringLiteral(", …");
  QString out = text;
  while (width(out) > room && out.contains(dot)) out.truncate(out.lastIndexOf(dot));
  if (width(out) <= room) return out;
  for (QString part = out; part.contains(comma);) {
    part.truncate(part.lastIndexOf(comma));
    if (width(part + more) <= room) return part + more;
  }
  if (const auto type = out.lastIndexOf(QLatin1Char(' ')); type > 0 && out.contains(QChar(0x00D7)))
    if (const QString shape = out.left(type); width(shape) <= room) return shape;
  return out;
}

}  // namespace

void ScenePainter::containerTitle(size_t i) {
  const Box& box = scene_.view.boxes[i];
  const QRectF r = toQt(scene_.layout.boxes[i]);
  const QFont bold = drawingFont(13, QFont::DemiBold), thin = drawingFont(11, QFont::Normal);
  const QFontMetricsF boldWidth(bold), thinWidth(thin);
  double room = r.width() - 24 - (box.repeat > 1 ? 44 : 0);
  const QString title = boldWidth.elidedText(toQt(box.title), Qt::ElideRight, room);
  const double used = boldWidth.horizontalAdvance(title) + 8;
  QString type;
  if (box.name != box.title && room - used > 24) {
    type = wholeFacts(toQt(box.name), room - used,
                      [&](const QString& words) { return thinWidth.horizontalAdvance(words); });
    type = thinWidth.elidedText(type, Qt::ElideRight, room - used);
  }
  p_.setPen(Qt::NoPen);
  p_.setBrush(toQt(pal_.container(scene_.depth[i])));
  p_.drawRoundedRect(QRectF(r.x() + 9, r.y() + 4, used + thinWidth.horizontalAdvance(type), 18), 4, 4);
  p_.setFont(bold);
  p_.setPen(toQt(pal_.text));
  p_.drawText(QPointF(r.x() + 12, r.y() + 18), title);
  p_.setFont(thin);
  p_.setPen(toQt(pal_.dim));
  p_.drawText(QPointF(r.x() + 12 + used, r.y() + 18), type);
  if (box.repeat > 1)
    badge(QStringLiteral("×%1").arg(box.repeat), r.right() - 8, r.y() + 5.5, pal_.hue(BoxKind::Module));
  heatBadge(i, r);
}

void ScenePainter::smallTexts() {
  p_.save();
  const QTransform place = p_.transform();
  p_.resetTransform();
  const double overhang = 60 / look_.scale;  // badges stand out of small boxes
  for (const size_t i : seen(scene_.closedBoxes, overhang)) smallBox(i, place.mapRect(toQt(scene_.layout.boxes[i])));
  placedLabels(place);
  p_.restore();
}

void ScenePainter::placedLabels(const QTransform& place) {
  const SmallText& names = SmallText::ofSize(pixels(M::nameSize), QFont::DemiBold);
  const SmallText& counts = SmallText::ofSize(pixels(M::detailSize), QFont::Normal);
  const QRectF area = place.mapRect(area_).adjusted(-1, -1, 1, 1);
  for (const PlacedLabel& label : look_.places.labels()) {
    const QRectF at = label.at.translated(place.dx(), place.dy());
    if (!at.intersects(area)) continue;
    const auto box = static_cast<size_t>(label.box);
    const bool isOpen = scene_.view.boxes[box].open;
    if (label.kind == PlacedLabel::Kind::Count) {
      smallBadge(label.text, at.right(), at.center().y(), pal_.hue(BoxKind::Module), isOpen ? names : counts);
      continue;
    }
    const int around = isOpen ? label.box : scene_.view.boxes[box].parent;
    QColor back = toQt(around < 0 ? pal_.background : pal_.container(scene_.depth[static_cast<size_t>(around)]));
    back.setAlpha(225);
    p_.setPen(Qt::NoPen);
    p_.setBrush(back);
    p_.drawRoundedRect(at, 3, 3);
    // Of landmarks, the names of operators, less is made than of names of modules.
    const bool isQuiet = label.kind == PlacedLabel::Kind::Landmark && scene_.view.boxes[box].kind != BoxKind::Module;
    p_.setFont(isQuiet ? counts.font() : names.font());
    p_.setPen(toQt(isQuiet ? mix(pal_.text, pal_.dim, 0.5) : pal_.text));
    p_.drawText(QPointF(at.left() + 2, at.center().y() + names.drop()), label.text);
  }
}

namespace {

/// Of the weights that a box holds, as many as have room behind its detail.
QString withChips(QString detail, const Box& box, bool hasHeat, const SmallText& words, double room) {
  if (hasHeat) return detail;
  for (const std::string& chip : box.chips) {
    const QString more = detail + QStringLiteral(" · ") + toQt(chip);
    if (words.width(more) > room) break;
    detail = more;
  }
  return detail;
}

}  // namespace

void ScenePainter::smallBox(size_t i, const QRectF& r) {
  constexpr double gap = 5;
  const double padding = SmallMetrics::padding(r.width());
  const Box& box = scene_.view.boxes[i];
  const bool isModule = box.kind == BoxKind::Module;
  const int matches = isModule && look_.boxes.change[i] == Change::None ? look_.boxes.matches[i] : 0;
  const auto index = static_cast<int>(i);
  const bool hasWords = hasLine(scene_, index, look_.scale);
  if (matches == 0 && !hasWords) return;
  const SmallText& small = SmallText::ofSize(pixels(M::detailSize), QFont::Normal);
  if (matches > 0) {
    const Color color = look_.decorations.stale ? pal_.dim : pal_.pattern(0);
    smallBadge(QStringLiteral("◆%1").arg(matches), r.right() + 6, r.top(), color, small);
  }
  if (!hasWords) return;
  const bool hasHeat = look_.boxes.anyHeat && !std::isnan(look_.boxes.heat[i]);
  const QString detail = hasHeat ? heatText(look_.boxes.heat[i], look_.decorations.heatUnit) : toQt(box.detail);
  const bool two = hasTwoLines(!detail.isEmpty(), r.height(), look_.scale);
  const int size = pixels(M::titleSize);
  const BoxTitle placed = look_.places.titleOf(scene_, index, !detail.isEmpty());
  const SmallTitle& title = placed.text;
  if (title.form == SmallTitle::Form::None) return;
  const double left = r.left() + placed.left, right = r.left() + placed.right;
  const Shade shade = shadeOf(i);
  const double y = middleOfFirstLine(!detail.isEmpty(), r, look_.scale);
  if (title.form == SmallTitle::Form::TwoLines) {
    p_.setFont(title.letters->font());
    p_.setPen(toQt(shade.text));
    const auto line = [&](const QString& text, double middle) {
      p_.drawText(QPointF((left + right - title.letters->width(text)) / 2, middle + title.letters->drop()), text);
    };
    line(title.first, y - size / 2.0);
    line(title.second, y + size / 2.0);
    return;
  }
  const double used = title.letters->width(title.first);
  // The beginning of a name says less than nothing where many begin alike.
  constexpr qsizetype tellsEnough = 6;
  const double nameRoom = right - left - used - gap;
  QString name = toQt(box.name);
  if (isModule) name = wholeFacts(name, nameRoom, [&](const QString& words) { return small.width(words); });
  name = box.name == box.title || title.form != SmallTitle::Form::Whole ? QString() : small.fitted(name, nameRoom);
  const bool repeatsTitle =
      name.endsWith(QChar(0x2026)) && title.first.startsWith(name.chopped(1));  // "any_of any_of…"
  if (repeatsTitle || name.size() < std::min(tellsEnough, toQt(box.name).size())) name.clear();
  const double whole = used + (name.isEmpty() ? 0 : gap + small.width(name));
  const bool centred = !two || box.kind == BoxKind::Input || box.kind == BoxKind::Output;
  const double end = r.right() - padding;
  const QString facts = wholeFacts(detail, end - left, [&](const QString& s) { return small.width(s); });
  const QString line = facts == detail ? withChips(facts, box, hasHeat, small, end - left) : facts;
  const QString second = two ? small.fitted(line, end - left) : QString();
  const double secondWidth = small.width(second);
  double x = centred ? std::max(left, (left + right - whole) / 2) : left + std::min(4.0, (right - left - whole) / 2);
  if (!centred) x = std::clamp(x, left, std::max(left, end - secondWidth));  // both lines begin at one place
  p_.setFont(title.letters->font());
  p_.setPen(toQt(shade.text));
  p_.drawText(QPointF(x, y + title.letters->drop()), title.first);
  if (!name.isEmpty() || two) {
    p_.setFont(small.font());
    p_.setPen(toQt(shade.dim));
  }
  if (!name.isEmpty()) p_.drawText(QPointF(x + used + gap, y + small.drop()), name);
  if (!two) return;
  if (centred) x = std::max(left, (left + end - secondWidth) / 2);
  p_.drawText(QPointF(x, r.bottom() - (r.bottom() - r.top()) * 0.28 + small.drop()), second);
}

void ScenePainter::smallBadge(const QString& text, double right, double middle, Color color, const SmallText& words) {
  const double w = words.width(text) + 8, h = words.font().pixelSize() + 3;
  const QRectF r(right - w, middle - h / 2, w, h);
  p_.setPen(Qt::NoPen);
  p_.setBrush(toQt(color));
  p_.drawRoundedRect(r, h / 2, h / 2);
  p_.setFont(words.font());
  p_.setPen(toQt(inkOn(color)));
  p_.drawText(QPointF(r.left() + 4, middle + words.drop()), text);
}

void ScenePainter::heatBadge(size_t i, const QRectF& r) {
  if (!look_.boxes.anyHeat || std::isnan(look_.boxes.heat[i])) return;
  const double right = scene_.view.boxes[i].repeat > 1 ? 54 : 10;
  figures(look_.boxes.heat[i], r.right() - right, r.y() + 6, pal_.container(scene_.depth[i]));
}

void ScenePainter::figures(double heat, double right, double y, Color back) {
  const QFont font = drawingFont(10, QFont::Medium);
  const QString text = heatText(heat, look_.decorations.heatUnit);
  const double w = QFontMetricsF(font).horizontalAdvance(text);
  const QRectF place(right - w, y, w, 13);
  p_.setPen(Qt::NoPen);
  p_.setBrush(toQt(back));
  p_.drawRoundedRect(place.adjusted(-3, 0, 3, 0), 3, 3);
  p_.setFont(font);
  p_.setPen(toQt(pal_.dim));
  p_.drawText(place, Qt::AlignRight | Qt::AlignVCenter, text);
}

/// Each on the colour of what it stands in: an edge that passes by does not strike it through.
void ScenePainter::labels() {
  const SmallText& words = SmallText::ofSize(pixels(M::labelSize), QFont::Normal);
  const double high = words.font().pixelSize();
  p_.save();
  const QTransform place = p_.transform();
  p_.resetTransform();
  p_.setRenderHint(QPainter::Antialiasing, false);
  p_.setFont(words.font());
  p_.setPen(toQt(look_.boxes.anyChange ? quietly(pal_.dim, pal_.background) : pal_.dim));
  int depth = -1;  // that `behind` is of; -1: of no container
  QColor behind = toQt(pal_.background);
  scene_.labelsNear.near(area_, [&](int index) {
    const auto i = static_cast<size_t>(index);
    if (!look_.places.showsEdgeLabel(i)) return;
    const EdgeLabel& label = scene_.layout.labels[i];
    if (!area_.contains(label.at.x, label.at.y) && !area_.contains(label.at.x + 100, label.at.y)) return;
    const QString text = toQt(label.text);
    const QPointF at = place.map(QPointF(label.at.x, label.at.y)) + look_.places.labelShift(i);
    const VisibleEdge& edge = scene_.view.edges[static_cast<size_t>(label.edge)];
    const int around = scene_.view.boxes[static_cast<size_t>(edge.from)].parent;
    if (const int own = around < 0 ? -1 : scene_.depth[static_cast<size_t>(around)]; own != depth) {
      depth = own;
      behind = toQt(own < 0 ? pal_.background : pal_.container(own));
    }
    p_.fillRect(QRectF(at.x() - 1, at.y() - 0.8 * high, words.width(text) + 2, high).toAlignedRect(), behind);
    p_.drawText(at, text);
  });
  p_.restore();
}

void ScenePainter::badge(const QString& text, double right, double y, Color color) {
  const QFont font = drawingFont(11, QFont::DemiBold);
  const double w = QFontMetricsF(font).horizontalAdvance(text) + 12;
  p_.setPen(Qt::NoPen);
  p_.setBrush(toQt(color));
  const QRectF r(right - w, y, w, 16);
  p_.drawRoundedRect(r, 8, 8);
  p_.setFont(font);
  p_.setPen(toQt(inkOn(color)));
  p_.drawText(r, Qt::AlignCenter, text);
}

void ScenePainter::writeBox(size_t i, const Box& box, const QRectF& r, bool isIo, Color text, Color dim) {
  const bool two = !box.detail.empty() || !box.chips.empty();
  const double y = r.y() + (two ? 19 : r.height() / 2 + 4.8);
  const QFont nameFont = drawingFont(M::nameSize, QFont::Normal);
  const QFontMetricsF nameWidth(nameFont);
  const bool isModule = box.kind == BoxKind::Module;
  const double room = r.width() - 2 * M::padding - (box.repeat > 1 ? 34 : 0) - (isModule ? 16 : 0);
  const SmallTitle title = look_.places.usualTitle(scene_, static_cast<int>(i));
  const double used = std::max(title.letters->width(title.first), title.letters->width(title.second));
  const bool isOfWords = isModule && scene_.options.words.contains(box.key);  // not of a name, whose end tells most
  QString name;
  if (box.name != box.title && title.form == SmallTitle::Form::Whole && room - used >= 28) {
    name = toQt(box.name);
    if (isOfWords)
      name =
          wholeFacts(name, room - used - 8, [&](const QString& words) { return nameWidth.horizontalAdvance(words); });
    name = nameWidth.elidedText(name, isOfWords ? Qt::ElideRight : Qt::ElideMiddle, room - used - 8);
  }
  const double total = used + (name.isEmpty() ? 0 : 8 + nameWidth.horizontalAdvance(name));
  const double middle = r.center().x() - (box.repeat > 1 ? 17 : 0);  // of what the count leaves
  double x = isIo ? std::max(r.x() + M::padding, middle - total / 2) : r.x() + M::padding;
  p_.setFont(title.letters->font());
  p_.setPen(toQt(text));
  constexpr double ofTwo = 6.5;  // of lines, from the only one's baseline
  const bool isTwo = title.form == SmallTitle::Form::TwoLines;
  p_.drawText(QPointF(x, isTwo ? y - ofTwo : y), title.first);
  if (isTwo) p_.drawText(QPointF(x, y + ofTwo), title.second);
  p_.setFont(nameFont);
  p_.setPen(toQt(dim));
  p_.drawText(QPointF(x + used + 8, y), name);
  if (isModule) {
    p_.setPen(pen(toQt(dim), 1.4));
    const double ex = r.right() - M::padding - 8 - (box.repeat > 1 ? 36 : 0), ey = y - 4;
    p_.drawLine(QPointF(ex, ey), QPointF(ex + 8, ey));
    p_.drawLine(QPointF(ex + 4, ey - 4), QPointF(ex + 4, ey + 4));
  }
  if (box.repeat > 1) badge(QStringLiteral("×%1").arg(box.repeat), r.right() - 6, r.y() + 6, pal_.hue(BoxKind::Module));
  if (two) secondLine(box, r, isIo, dim, text);
  marks(i, box, r);
}

void ScenePainter::secondLine(const Box& box, const QRectF& r, bool centred, Color dim, Color text) {
  const QFont font = drawingFont(M::detailSize, QFont::Normal), chipFont = drawingFont(M::chipSize, QFont::Normal);
  const QFontMetricsF width(font), chipWidth(chipFont);
  double x = r.x() + M::padding;
  const double y = r.y() + 36, right = r.right() - M::padding;
  if (!box.detail.empty()) {
    const QString facts =
        wholeFacts(toQt(box.detail), right - x, [&](const QString& s) { return width.horizontalAdvance(s); });
    const QString s = width.elidedText(facts, Qt::ElideRight, right - x);
    p_.setFont(font);
    p_.setPen(toQt(dim));
    if (centred) {
      p_.drawText(QRectF(r.x(), r.y() + 24, r.width(), 18), Qt::AlignCenter, s);
      return;
    }
    p_.drawText(QPointF(x, y), s);
    x += width.horizontalAdvance(s) + M::chipGap + 2;
  }
  p_.setFont(chipFont);
  for (const std::string& chip : box.chips) {
    const double room = right - x - 2 * M::chipPadding + 3;
    if (room < 8) break;
    const QString s = chipWidth.elidedText(toQt(chip), Qt::ElideRight, room);
    const double w = chipWidth.horizontalAdvance(s) + 2 * M::chipPadding;
    p_.setPen(Qt::NoPen);
    QColor back = toQt(look_.boxes.anyHeat ? text : look_.boxes.anyPattern ? dim : pal_.hue(box.kind));
    back.setAlphaF(pal_.dark ? 0.34F : 0.2F);
    p_.setBrush(back);
    p_.drawRoundedRect(QRectF(x, y - 11, w, 14), 7, 7);
    p_.setPen(toQt(text));
    p_.drawText(QPointF(x + M::chipPadding, y), s);
    x += w + M::chipGap;
  }
}

void ScenePainter::marks(size_t i, const Box& box, const QRectF& r) {
  const Change change = look_.boxes.change[i];
  if (change != Change::None) {
    changeMark(change, r);
  } else if (box.kind == BoxKind::Module && look_.boxes.matches[i] > 0) {
    const Color color = look_.decorations.stale ? pal_.dim : pal_.pattern(0);
    badge(QStringLiteral("◆ %1").arg(look_.boxes.matches[i]), r.right() + 8, r.y() - 9, color);
  }
  if (look_.boxes.anyHeat && !std::isnan(look_.boxes.heat[i])) heatNote(box, r, look_.boxes.heat[i]);
}

void ScenePainter::heatNote(const Box& box, const QRectF& r, double heat) {
  figures(heat, r.right(), r.y() - 15,
          box.parent < 0 ? pal_.background : pal_.container(scene_.depth[static_cast<size_t>(box.parent)]));
}

}  // namespace graft
