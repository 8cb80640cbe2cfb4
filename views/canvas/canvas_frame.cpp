#include "views/canvas/canvas_frame.h"

#include <QCoreApplication>
#include <QFontMetricsF>
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "views/canvas/canvas_paint.h"
#include "views/document/graph_decode.h"
#include "views/layout/heat_scale.h"

namespace graft {
namespace {

QString frameWords(const char* text) { return QCoreApplication::translate("CanvasFrame", text); }

QString nameOf(BoxKind kind) { return frameWords(std::string(boxKindName(kind)).c_str()); }

/// What a module stands for: in a drawing by kernels, a kernel.
QString nameOfModules(const Scene& scene) {
  const auto& boxes = scene.view.boxes;
  const bool areKernels = std::any_of(boxes.begin(), boxes.end(), [&](const Box& b) {
    return b.kind == BoxKind::Module && !b.open && scene.options.words.contains(b.key);
  });
  return areKernels ? frameWords("generated kernel") : nameOf(BoxKind::Module);
}

QColor veil(const Palette& palette) {
  QColor back = toQt(palette.background);
  back.setAlpha(225);
  return back;
}

}  // namespace

CanvasFrame::CanvasFrame(const FrameLook& look, QSizeF size, QPointF origin, double scale)
    : look_(look), area_(QPointF(), size), seen_(origin, size / scale) {
  if (look_.hasMarks) findMarks();
  findInside();
}

void CanvasFrame::findMarks() {
  std::array<QSet<int>, 4> matches;
  std::array<int, 4> changes{}, coloured{}, nearest{-1, -1, -1, -1};
  std::array<double, 4> distance{};
  for (const int box : look_.boxes.marked) {
    const QRectF r = look_.scene.rect(box);
    if (r.intersects(seen_)) continue;
    double far = 0;
    EdgeMark::Side side = EdgeMark::Above;
    if (r.bottom() < seen_.top())
      far = seen_.top() - r.bottom();
    else if (r.top() > seen_.bottom())
      side = EdgeMark::Below, far = r.top() - seen_.bottom();
    else if (r.right() < seen_.left())
      side = EdgeMark::Left, far = seen_.left() - r.right();
    else
      side = EdgeMark::Right, far = r.left() - seen_.right();
    const auto i = static_cast<size_t>(box);
    const auto s = static_cast<size_t>(side);
    if (look_.boxes.change[i] != Change::None)
      ++changes[s];
    else
      matches[s].unite(look_.boxes.matchesIn[i]), ++coloured[s];
    if (nearest[s] < 0 || far < distance[s]) nearest[s] = box, distance[s] = far;
  }
  static constexpr std::array<const char16_t*, 4> arrows{u"▲", u"▼", u"◀", u"▶"};
  const QFontMetricsF metrics(drawingFont(11, QFont::DemiBold));
  for (size_t s = 0; s < nearest.size(); ++s) {
    if (nearest[s] < 0) continue;
    EdgeMark mark;
    mark.side = static_cast<EdgeMark::Side>(s);
    mark.nearest = nearest[s];
    // Nodes of a kernel have colours and belong to no match: there boxes count.
    mark.count = changes[s] > 0 ? changes[s] : matches[s].isEmpty() ? coloured[s] : static_cast<int>(matches[s].size());
    mark.color = look_.decorations.stale ? look_.palette.dim
                 : changes[s] > 0        ? look_.palette.change(look_.boxes.change[static_cast<size_t>(nearest[s])])
                                         : look_.palette.pattern(0);
    mark.text = QString::fromUtf16(arrows[s]) + QLatin1Char(' ') + QString::number(mark.count);
    const double w = metrics.horizontalAdvance(mark.text) + 16, h = 20, gap = 8;
    const QPointF middle = area_.center();
    switch (mark.side) {
      case EdgeMark::Above:
        mark.place = {middle.x() - w / 2, gap, w, h};
        break;
      case EdgeMark::Below:
        mark.place = {middle.x() - w / 2, area_.bottom() - gap - h, w, h};
        break;
      case EdgeMark::Left:
        mark.place = {gap, middle.y() - h / 2, w, h};
        break;
      case EdgeMark::Right:
        mark.place = {area_.right() - gap - w, middle.y() - h / 2, w, h};
        break;
    }
    mark.place = besideBoxes(mark);
    marks_.push_back(std::move(mark));
  }
}

/// As near to the middle of its edge as it covers no box; the title stands left of the middle of the upper edge.
QRectF CanvasFrame::besideBoxes(const EdgeMark& mark) const {
  constexpr double step = 28;
  const bool isAcross = mark.side == EdgeMark::Above || mark.side == EdgeMark::Below;
  const double most = (isAcross ? area_.width() : area_.height()) / 3;
  const QRectF legend = legendPlace();
  for (double shift = 0; shift <= most; shift += step)
    for (const double way : {shift, -shift}) {
      if (way < 0 && mark.side == EdgeMark::Above) continue;
      const QRectF r = mark.place.translated(isAcross ? way : 0, isAcross ? 0 : way);
      if (!covers(r) && !r.intersects(legend)) return r;
    }
  return mark.place;
}

/// Of what is at the middle of the upper edge, or of the left one in a drawing that runs to the right.
void CanvasFrame::findInside() {
  const bool isDown = look_.scene.layout.flow == Flow::Down;
  const QPointF at = isDown ? QPointF(seen_.center().x(), seen_.top()) : QPointF(seen_.left(), seen_.center().y());
  const auto& boxes = look_.scene.view.boxes;
  look_.scene.openBoxes.near({at, QSizeF()}, [&](int i) {
    const QRectF r = look_.scene.rect(i);
    const bool isNamed = r.top() + Metrics::header >= seen_.top() && r.left() + Metrics::padding >= seen_.left();
    if (r.contains(at) && !isNamed) inside_ << toQt(boxes[static_cast<size_t>(i)].title);
  });
}

std::vector<std::pair<QString, Color>> CanvasFrame::legend() const {
  std::vector<std::pair<QString, Color>> out;
  if (look_.boxes.anyChange) {
    for (const auto& [change, text] :
         {std::pair{Change::Removed, frameWords("− removed")}, std::pair{Change::Added, frameWords("+ added")},
          std::pair{Change::Changed, frameWords("~ changed")}, std::pair{Change::Moved, frameWords("→ moved")}})
      if (look_.decorations.changesBeside.contains(change) ||
          std::find(look_.boxes.change.begin(), look_.boxes.change.end(), change) != look_.boxes.change.end())
        out.emplace_back(look_.decorations.changeWords.value(change, text), look_.palette.change(change));
    return out;
  }
  if (look_.boxes.anyPattern) return out;  // then colours are the pattern's
  for (const BoxKind kind : look_.scene.kinds) {
    if (nameOf(kind).isEmpty()) continue;
    // Kinds that are told apart by no more than a shade of grey are one row.
    const Color color = look_.palette.border(kind);
    const auto alike = std::find_if(out.begin(), out.end(), [&](const auto& row) {
      return kind != BoxKind::Module && look_.palette.isAlike(row.second, color);
    });
    if (alike == out.end())
      out.emplace_back(kind == BoxKind::Module ? nameOfModules(look_.scene) : nameOf(kind), color);
    else
      alike->first += QStringLiteral(", ") + nameOf(kind);
  }
  return out;
}

void CanvasFrame::paint(QPainter& p) const {
  p.setRenderHint(QPainter::Antialiasing);
  paintTop(p);
  if (look_.boxes.anyHeat)
    paintHeatScale(p);
  else if (look_.hasLegend)
    paintLegend(p);
  paintMarks(p);
}

std::vector<CanvasFrame::Pill> CanvasFrame::pills() const {
  constexpr double left = 12, top = 10, high = 22;
  std::vector<Pill> out;
  double x = left;
  const auto add = [&](const QString& text, int weight, Color ink, double room) {
    const QFontMetricsF metrics(drawingFont(12, weight));
    const QString shown = metrics.elidedText(text, weight == QFont::DemiBold ? Qt::ElideRight : Qt::ElideLeft, room);
    out.push_back({{x, top, metrics.horizontalAdvance(shown) + 20, high}, shown, weight, ink});
    x = out.back().place.right() + 8;
  };
  if (!look_.title.isEmpty()) add(look_.title, QFont::DemiBold, look_.palette.text, area_.width() - 2 * left - 20);
  // Half of the width: the arrow upwards stands in the middle.
  const double room = (marks_.empty() ? area_.width() - left : area_.center().x() - 48) - x - 20;
  if (!inside_.isEmpty() && room > 40) {
    add(inside_.join(QStringLiteral(" ▸ ")), QFont::Medium, look_.palette.dim, room);
    if (isSmall() && covers(out.back().place)) out.pop_back();  // there it would be much of what is in view
  }
  return out;
}

QRectF CanvasFrame::topPlace() const {
  QRectF out;
  for (const Pill& pill : pills()) out |= pill.place;
  return out;
}

void CanvasFrame::paintTop(QPainter& p) const {
  if (look_.isTopAside) return;
  for (const Pill& pill : pills()) {
    p.setPen(Qt::NoPen);
    p.setBrush(toQt(look_.palette.background));  // an edge, so that what is behind it does not run into its words
    p.drawRoundedRect(pill.place.adjusted(-5, -5, 5, 5), 16, 16);
    p.setBrush(toQt(mix(look_.palette.background, look_.palette.text, 0.08)));
    p.drawRoundedRect(pill.place, 11, 11);
    p.setFont(drawingFont(12, pill.weight));
    p.setPen(toQt(pill.ink));
    p.drawText(pill.place, Qt::AlignCenter, pill.text);
  }
}

void CanvasFrame::paintMarks(QPainter& p) const {
  p.setFont(drawingFont(11, QFont::DemiBold));
  for (const EdgeMark& m : marks_) {
    p.setPen(Qt::NoPen);
    p.setBrush(toQt(look_.palette.background));
    p.drawRoundedRect(m.place.adjusted(-2, -2, 2, 2), 12, 12);
    p.setBrush(toQt(m.color));
    p.drawRoundedRect(m.place, 10, 10);
    p.setPen(toQt(inkOn(m.color)));
    p.drawText(m.place, Qt::AlignCenter, m.text);
  }
}

void CanvasFrame::paintHeatScale(QPainter& p) const {
  const QRectF place = legendPlace();
  const bool isFolded = isLegendFolded();
  constexpr double padding = 8;
  QRectF r = place.adjusted(padding, padding, -padding, -padding);
  if (!isFolded) r = {place.left() + padding, place.top() + 22, place.width() - 2 * padding, 8};
  QLinearGradient gradient(r.topLeft(), r.topRight());
  const HeatScale scale{look_.boxes.least, look_.boxes.most};
  constexpr int stops = 32;
  for (int k = 0; k <= stops; ++k)
    gradient.setColorAt(k / double{stops}, toQt(scale.color(look_.palette, scale.at(k / double{stops}))));
  p.setPen(Qt::NoPen);
  p.setBrush(veil(look_.palette));
  p.drawRoundedRect(place, 6, 6);
  p.setBrush(gradient);
  p.drawRoundedRect(r, 3, 3);
  if (isFolded) return;
  p.setFont(drawingFont(11, QFont::Normal));
  p.setPen(toQt(look_.palette.dim));
  p.drawText(r.adjusted(0, -18, 0, -10), Qt::AlignLeft | Qt::AlignVCenter, look_.decorations.heatTitle);
  p.drawText(r.adjusted(0, 10, 0, 18), Qt::AlignLeft | Qt::AlignVCenter,
             heatText(scale.least, scale.least == 0 ? QString() : look_.decorations.heatUnit));
  p.drawText(r.adjusted(0, 10, 0, 18), Qt::AlignRight | Qt::AlignVCenter,
             heatText(scale.most, look_.decorations.heatUnit));
  // Where the colours part, as far as there is room between the ends.
  constexpr double endRoom = 0.28;
  const double zero = scale.parts() ? -scale.least / (scale.most - scale.least) : 0;
  if (zero > endRoom && zero < 1 - endRoom)
    p.drawText(QRectF(r.left() + zero * r.width() - 10, r.top() + 10, 20, 16), Qt::AlignCenter, QStringLiteral("0"));
}

namespace {

/// What the legend leaves free around it: it does not touch a box either.
QRectF around(const QRectF& legend) {
  constexpr double margin = 4;
  return legend.adjusted(-margin, -margin, margin, margin);
}

constexpr double legendRow = 17, swatch = 10, swatchGap = 5, legendPadding = 8, shortNameWidth = 62;

}  // namespace

QRectF inCorner(Corner corner, QSizeF size, QSizeF canvas) {
  constexpr double gap = 12, belowTitle = 42;
  const bool isLeft = corner == Corner::BottomLeft || corner == Corner::TopLeft;
  const double x = isLeft ? gap : canvas.width() - gap - size.width();
  const double y = corner == Corner::TopLeft    ? belowTitle
                   : corner == Corner::TopRight ? gap
                                                : canvas.height() - gap - size.height();
  return {QPointF(x, y), size};
}

/// As many as the canvas has room for.
size_t CanvasFrame::shortNameRows() const {
  const double room = area_.height() - 60 - legendRow * static_cast<double>(legend().size());
  if (!look_.isLegendOpen || look_.boxes.anyHeat || room < legendRow) return 0;
  return std::min(look_.shortNames.size(), static_cast<size_t>(room / legendRow));
}

QSizeF CanvasFrame::legendSize(bool isFolded) const {
  constexpr double narrowest = 320, lowest = 240;
  if (look_.boxes.anyHeat) return isFolded ? QSizeF(96, 22) : QSizeF(156, 54);
  const auto entries = legend();
  if (!look_.hasLegend || entries.empty() || area_.width() < narrowest || area_.height() < lowest) return {};
  const auto count = static_cast<double>(entries.size());
  if (isFolded) return {count * (swatch + swatchGap) - swatchGap + 2 * legendPadding, swatch + legendPadding};
  const QFontMetricsF metrics(drawingFont(11, QFont::Normal));
  double wide = 0;
  for (const auto& [text, color] : entries) wide = std::max(wide, metrics.horizontalAdvance(text) + swatch);
  const size_t names = shortNameRows();
  for (size_t i = 0; i < names; ++i)
    wide = std::max(wide, shortNameWidth + metrics.horizontalAdvance(toQt(look_.shortNames[i].second)));
  return {wide + 3 * legendPadding, legendRow * (count + static_cast<double>(names)) + legendPadding};
}

QRectF CanvasFrame::inScene(const QRectF& r) const {
  const double scale = area_.width() / seen_.width();
  return {seen_.topLeft() + r.topLeft() / scale, r.size() / scale};
}

QRectF CanvasFrame::legendAt(LegendSpot spot, QSizeF size) const {
  const bool isLeft = spot.corner == Corner::BottomLeft || spot.corner == Corner::TopLeft;
  const bool isTop = spot.corner == Corner::TopLeft || spot.corner == Corner::TopRight;
  return inCorner(spot.corner, size, area_.size())
      .translated(isLeft ? spot.shift : -spot.shift, isTop ? spot.inward : -spot.inward);
}

bool CanvasFrame::isSmall() const {
  constexpr double wide = 640, high = 300;
  return area_.width() < wide || area_.height() < high;
}

/// There, a row of colours without words takes room for nothing.
bool CanvasFrame::isNarrow() const { return !look_.boxes.anyHeat && isSmall(); }

bool CanvasFrame::isLegendFolded() const {
  return !look_.isLegendOpen && covers(legendAt(look_.legendSpot, legendSize(false)));
}

QRectF CanvasFrame::legendPlace() const {
  const QSizeF size = legendSize(false);
  if (size.isEmpty()) return {};
  const bool isFolded = isLegendFolded();
  if (isFolded && isNarrow()) return {};
  return legendAt(look_.legendSpot, isFolded ? legendSize(true) : size);
}

bool CanvasFrame::isLegendInTheWay() const {
  const QSizeF size = legendSize(false);
  if (size.isEmpty()) return false;
  return covers(around(legendAt(look_.legendSpot, isLegendFolded() && !isNarrow() ? legendSize(true) : size)));
}

std::vector<LegendSpot> CanvasFrame::spots(QSizeF size) const {
  constexpr double step = 40, inwardStep = 24, edges = 24, farthest = 120;  // in the middle it would be in the way
  std::vector<LegendSpot> out;
  for (const Corner corner : {Corner::BottomLeft, Corner::TopLeft, Corner::TopRight, Corner::BottomRight})
    out.push_back({corner});
  const double most = std::clamp((area_.height() - size.height()) / 2 - edges, 0.0, farthest);
  for (double inward = 0; inward <= most; inward += inwardStep)
    for (const Corner corner : {Corner::BottomLeft, Corner::TopLeft}) {
      if (inward > 0) out.push_back({corner, 0, inward});
      for (double shift = step; shift < area_.width() - size.width() - edges; shift += step)
        out.push_back({corner, shift, inward});
    }
  return out;
}

LegendSpot CanvasFrame::freeSpot() const {
  const QSizeF whole = legendSize(false), folded = legendSize(true);
  if (whole.isEmpty()) return {};
  std::optional<LegendSpot> onEdges, onOutlines;  // at the upper or lower edge: further in, it is where nothing is
  for (const LegendSpot spot : spots(whole)) {
    if (legendAt(spot, whole).intersects(look_.overview)) continue;
    const QRectF r = inScene(around(legendAt(spot, whole)));
    if (look_.scene.covers(r)) continue;
    if (look_.scene.isBlankButEdges(r)) {
      if (!look_.scene.hasEdge(r)) return spot;
      if (!onEdges && spot.inward == 0) onEdges = spot;
    } else if (!onOutlines && spot.inward == 0) {
      onOutlines = spot;
    }
  }
  if (onEdges) return *onEdges;
  if (onOutlines) return *onOutlines;
  for (const bool isStrict : {true, false})
    for (const LegendSpot spot : spots(folded))
      if (const QRectF r = legendAt(spot, folded); !r.intersects(look_.overview) && !covers(isStrict ? around(r) : r))
        return spot;
  return {};
}

void CanvasFrame::paintLegend(QPainter& p) const {
  const QRectF r = legendPlace();
  if (r.isEmpty()) return;
  const bool isFolded = isLegendFolded();
  p.setPen(toQt(look_.palette.grid));
  p.setBrush(veil(look_.palette));
  p.drawRoundedRect(r.adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
  p.setFont(drawingFont(11, QFont::Normal));
  QPointF at(r.left() + legendPadding,
             r.top() + (isFolded ? legendPadding / 2 : legendPadding / 2 + (legendRow - swatch) / 2));
  for (const auto& [text, color] : legend()) {
    p.setPen(QPen(toQt(color), 1.4));
    p.setBrush(toQt(mix(look_.palette.surface, color, 0.3)));
    p.drawRoundedRect(QRectF(at, QSizeF(swatch, swatch)), 3, 3);
    if (text == nameOfModules(look_.scene)) {  // the sign that one opens, as in its box
      constexpr double half = 2.5;
      const QPointF middle = at + QPointF(swatch / 2, swatch / 2);
      p.drawLine(middle - QPointF(half, 0), middle + QPointF(half, 0));
      p.drawLine(middle - QPointF(0, half), middle + QPointF(0, half));
    }
    if (isFolded) {
      at.rx() += swatch + swatchGap;
      continue;
    }
    p.setPen(toQt(look_.palette.dim));
    const double left = at.x() + swatch + 6;
    p.drawText(QRectF(left, at.y() + swatch / 2 - legendRow / 2, r.right() - left, legendRow),
               Qt::AlignLeft | Qt::AlignVCenter, text);
    at.ry() += legendRow;
  }
  const size_t names = isFolded ? 0 : shortNameRows();
  for (size_t i = 0; i < names; ++i, at.ry() += legendRow) {
    const QRectF row(at.x(), at.y() + swatch / 2 - legendRow / 2, r.right() - at.x(), legendRow);
    p.setPen(toQt(look_.palette.text));
    p.drawText(row, Qt::AlignLeft | Qt::AlignVCenter, toQt(look_.shortNames[i].first));
    p.setPen(toQt(look_.palette.dim));
    p.drawText(row.adjusted(shortNameWidth, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter,
               toQt(look_.shortNames[i].second));
  }
}

}  // namespace graft
