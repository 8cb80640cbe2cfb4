#include "views/canvas/canvas_paint.h"

#include <QFontDatabase>
#include <QFontMetricsF>
#include <QGuiApplication>
#include <algorithm>
#include <cmath>

#include "views/canvas/scene_painter.h"
#include "views/layout/heat_scale.h"

namespace graft {

void ScenePainter::run() {
  // Of very many edges that are very small, nobody sees the curves.
  constexpr size_t few = 1500;
  const bool smooth = look_.scale > 0.22 || scene_.paths.size() < few;
  p_.setRenderHint(QPainter::Antialiasing, smooth);
  p_.setRenderHint(QPainter::TextAntialiasing);
  const std::vector<size_t> open = seen(scene_.openBoxes), closed = seen(scene_.closedBoxes);
  containers(open);
  edges(smooth);
  const bool hasUsualText = readable(M::detailSize);
  if (hasUsualText)
    for (const size_t i : open) containerTitle(i);
  if (look_.scale > LabelPlaces::edgeLabels) labels();
  p_.setRenderHint(QPainter::Antialiasing, smooth);
  for (const size_t i : closed) box(i, hasUsualText);
  if (!hasUsualText) smallTexts();
}

std::vector<size_t> ScenePainter::seen(const RectRuns& boxes, double margin) const {
  std::vector<size_t> seen;
  boxes.near(area_.adjusted(-margin, -margin, margin, margin), [&](int box) {
    if (const auto i = static_cast<size_t>(box); visible(i, margin)) seen.push_back(i);
  });
  return seen;
}

/// Outer ones come first. What is inside of one as a whole sees nothing of those around it.
void ScenePainter::containers(const std::vector<size_t>& open) {
  constexpr double corner = 10;
  size_t first = 0;
  for (size_t k = 0; k < open.size(); ++k)
    if (toQt(scene_.layout.boxes[open[k]]).adjusted(corner, corner, -corner, -corner).contains(area_)) first = k + 1;
  const double pixel = 1 / look_.scale;
  if (first > 0)
    p_.fillRect(area_.adjusted(-pixel, -pixel, pixel, pixel), toQt(pal_.container(scene_.depth[open[first - 1]])));
  for (size_t k = first; k < open.size(); ++k) container(open[k]);
}

void ScenePainter::container(size_t i) {
  const Box& box = scene_.view.boxes[i];
  const QRectF r = toQt(scene_.layout.boxes[i]);
  const Color base = pal_.container(scene_.depth[i]);
  const Color border =
      box.kind == BoxKind::Control ? pal_.hue(BoxKind::Control) : mix(pal_.background, pal_.hue(BoxKind::Module), 0.45);
  // Of a corner that is less than a pixel nobody sees the curve, which takes most of the time.
  const bool isRound = p_.testRenderHint(QPainter::Antialiasing) || 8 * look_.scale > 1;
  const auto frame = [&](const QRectF& at) { isRound ? p_.drawRoundedRect(at, 8, 8) : p_.drawRect(at); };
  p_.setPen(pen(toQt(border), 1));
  p_.setBrush(toQt(base));
  for (int k = box.repeat > 1 ? 2 : 0; k >= 1; --k) frame(r.translated(4 * k, 4 * k));
  const Change change = look_.boxes.change[i];
  if (change != Change::None)
    p_.setPen(pen(toQt(pal_.change(change)), 2, change == Change::Removed ? Qt::DashLine : Qt::SolidLine));
  if (look_.selected[i]) p_.setPen(pen(toQt(pal_.accent), 2.4));
  if (look_.lit[i]) p_.setPen(pen(toQt(pal_.accent), 2));
  frame(r);
  changeMark(change, r);
}

void ScenePainter::edges(bool smooth) {
  const bool fade = look_.boxes.anyChange;
  p_.setBrush(Qt::NoBrush);
  const QColor normal = fade ? faded(pal_.edge, 0.6) : toQt(pal_.edge);
  const QPen plain = pen(normal);
  std::vector<std::pair<int, bool>> special;  // lit: which, is an input of the selection
  p_.setPen(plain);
  constexpr size_t many = 5000;
  const bool tiny = look_.scale < 0.10 && scene_.paths.size() > many;
  for (size_t i = 0; i < look_.selected.size(); ++i) {  // all of them: a way that they share may be in view
    if (!look_.selected[i]) continue;
    for (const int e : scene_.inEdges[i]) special.push_back({e, true});
    for (const int e : scene_.outEdges[i])
      if (!look_.selected[static_cast<size_t>(scene_.view.edges[static_cast<size_t>(e)].to)])
        special.push_back({e, false});
  }
  std::sort(special.begin(), special.end());
  std::vector<size_t> near;
  scene_.edgesNear.near(area_, [&](int edge) {
    if (const auto e = static_cast<size_t>(edge); scene_.pathBounds[e].intersects(area_)) near.push_back(e);
  });
  for (const size_t e : near) {
    const VisibleEdge& edge = scene_.view.edges[e];
    if (look_.selected[static_cast<size_t>(edge.to)] || look_.selected[static_cast<size_t>(edge.from)]) continue;
    if (smooth)
      drawEdge(e, normal);
    else if (tiny && isTiny(e))
      lines_.append(straight(e));
    else
      polyline(e);
  }
  if (!lines_.isEmpty()) p_.drawLines(lines_);
  if (smooth) {
    p_.setPen(Qt::NoPen);
    p_.setBrush(normal);
    for (const size_t e : near) arrow(e);
  }
  for (auto [e, isInput] : special) {
    const QColor color = toQt(isInput ? pal_.inputLit : pal_.outputLit);
    QPen lit = pen(color, 2.2);
    if (!isInput) lit.setDashPattern({5, 2.5});  // told apart without colour, too
    p_.setPen(lit);
    p_.setBrush(Qt::NoBrush);
    p_.drawPath(scene_.wholePath(e));
    p_.setPen(Qt::NoPen);
    p_.setBrush(color);
    arrow(static_cast<size_t>(e));
  }
}

void ScenePainter::drawEdge(size_t e, const QColor& color) {
  if (!scene_.widths.empty()) p_.setPen(pen(color, scene_.widths[e]));
  p_.drawPath(scene_.paths[e]);
}

/// An edge of few pixels is straight in effect; a longer one would cross what it passes.
bool ScenePainter::isTiny(size_t e) const {
  constexpr double fewPixels = 40;
  const QRectF& r = scene_.pathBounds[e];
  return (r.width() + r.height()) * look_.scale < fewPixels && scene_.layout.edges[e].points.size() >= 4;
}

QLineF ScenePainter::straight(size_t e) const {
  const auto& q = scene_.layout.edges[e].points;
  const size_t from = scene_.pathFrom[e];
  return {q[from].x, q[from].y, q.back().x, q.back().y};
}

void ScenePainter::polyline(size_t e) {
  const auto& q = scene_.layout.edges[e].points;
  if (q.size() < 4) return;
  const size_t from = scene_.pathFrom[e];
  QPolygonF line;
  for (size_t i = from; i < q.size(); i += 3) line << QPointF(q[i].x, q[i].y);
  p_.drawPolyline(line);
}

void ScenePainter::arrow(size_t e) {
  if (scene_.layout.edges[e].points.size() < 4) return;
  QPolygonF head;
  for (const Point& p : arrowHead(scene_.layout.edges[e])) head << QPointF(p.x, p.y);
  p_.drawPolygon(head);
}

ScenePainter::Shade ScenePainter::shadeOf(size_t i) const {
  const Box& box = scene_.view.boxes[i];
  const bool isIo = box.kind == BoxKind::Input || box.kind == BoxKind::Output;
  const Change change = look_.boxes.change[i];
  const int pattern = look_.boxes.pattern[i];
  Shade s{pal_.fill(box.kind), pal_.border(box.kind), pal_.text, pal_.dim};
  if (isIo) s.width = 1.8;
  // While a rule's matches show, colours are the pattern's: kinds are quiet.
  const bool isQuiet = look_.boxes.anyPattern && !isIo;
  if (isQuiet) {
    s.fill = mix(pal_.surface, pal_.dim, 0.07);
    s.border = mix(pal_.surface, pal_.dim, 0.5);
  }
  const double heat = look_.boxes.heat[i];
  if (look_.boxes.anyHeat) {
    const HeatScale scale{look_.boxes.least, look_.boxes.most};
    const bool saysNothing = std::isnan(heat) || (scale.least == 0 && scale.most == 0);
    s.fill = saysNothing ? pal_.surface : scale.color(pal_, heat);
    s.border = mix(s.fill, pal_.text, 0.3);
    s.text = s.dim = inkOn(s.fill);
  }
  // Under heat the fill says how hot it is, and the border what changed.
  const bool fade = look_.boxes.anyChange && change == Change::None && !isIo && !look_.boxes.anyHeat;
  if (change != Change::None) {
    s.border = pal_.change(change);
    if (!look_.boxes.anyHeat) s.fill = mix(pal_.surface, s.border, pal_.dark ? 0.25 : 0.15);
    s.width = 2;
    if (change == Change::Removed) s.style = Qt::DashLine;
  }
  if (pattern >= 0) {
    s.border =
        look_.decorations.stale ? mix(pal_.background, pal_.dim, 0.6) : pal_.pattern(static_cast<size_t>(pattern));
    s.fill = mix(pal_.surface, s.border, pal_.dark ? 0.34 : 0.24);
    s.width = 2.4;
  }
  if (fade) {
    s.fill = mix(pal_.background, s.fill, 0.4);
    s.border = mix(pal_.background, s.border, 0.4);
    s.text = quietly(s.text, s.fill);
    s.dim = quietly(s.dim, s.fill);
  }
  if (block(M::titleSize) && pattern < 0 && change == Change::None && !look_.boxes.anyHeat)
    s.fill = fade      ? mix(pal_.background, pal_.block(box.kind), 0.5)
             : isQuiet ? mix(pal_.surface, pal_.dim, 0.3)
                       : pal_.block(box.kind);
  return s;
}

/// That of a kind is mixed once.
QColor ScenePainter::blockColor(size_t i) {
  const BoxKind kind = scene_.view.boxes[i].kind;
  if (look_.boxes.anyHeat || look_.boxes.pattern[i] >= 0 || look_.boxes.change[i] != Change::None)
    return toQt(shadeOf(i).fill);
  QColor& color = blocks_[static_cast<size_t>(kind)];
  if (!color.isValid()) color = toQt(shadeOf(i).fill);
  return color;
}

void ScenePainter::box(size_t i, bool hasUsualText) {
  const Box& box = scene_.view.boxes[i];
  const QRectF r = toQt(scene_.layout.boxes[i]);
  const bool isIo = box.kind == BoxKind::Input || box.kind == BoxKind::Output;
  const Change change = look_.boxes.change[i];
  // Of thousands of blocks of colour, pens and brushes would take most of the time.
  constexpr double seen = 1;  // pixel: what is thinner might be left out
  if (look_.scale < 0.22 && block(M::titleSize) && !look_.selected[i] && r.height() * look_.scale >= seen) {
    p_.fillRect(r, blockColor(i));
    if (look_.scale > 0.15) changeMark(change, r);
    return;
  }
  const Shade shade = shadeOf(i);
  QPen outline = pen(toQt(shade.border), shade.width, shade.style);
  if (look_.selected[i])
    outline = pen(toQt(pal_.accent), 2.6);
  else if (look_.lit[i] && look_.boxes.pattern[i] < 0)
    outline = pen(toQt(pal_.accent), 2.2);
  p_.setPen(block(M::titleSize) && !look_.selected[i] ? QPen(Qt::NoPen) : outline);
  p_.setBrush(toQt(shade.fill));
  const double radius = isIo ? r.height() / 2 : 6;
  if (look_.scale < 0.22) {
    p_.drawRect(r);
  } else {
    for (int k = box.repeat > 1 ? 2 : 0; k >= 1; --k) p_.drawRoundedRect(r.translated(3 * k, 3 * k), radius, radius);
    if (look_.selected[i] || look_.lit[i]) {  // a halo: the border's own colour stays
      QColor halo = toQt(pal_.accent);
      halo.setAlpha(70);
      p_.setPen(pen(halo, 8));
      p_.drawRoundedRect(r, radius, radius);
      p_.setPen(outline);
    }
    p_.drawRoundedRect(r, radius, radius);
  }
  if (hasUsualText)
    writeBox(i, box, r, isIo, shade.text, shade.dim);
  else if (look_.scale > 0.15)
    changeMark(change, r);
}

void ScenePainter::changeMark(Change change, const QRectF& r) {
  if (change == Change::None) return;
  const QString sign = change == Change::Removed ? QStringLiteral("−")
                       : change == Change::Added ? QStringLiteral("+")
                       : change == Change::Moved ? QStringLiteral("→")
                                                 : QStringLiteral("~");
  const double radius = std::max(7.5, 5.5 / look_.scale);
  p_.setPen(Qt::NoPen);
  p_.setBrush(toQt(pal_.change(change)));
  const QPointF c(r.right() - 2, r.y() + 2);
  p_.drawEllipse(c, radius, radius);
  p_.setFont(drawingFont(1.6 * radius, QFont::Bold));
  p_.setPen(toQt(inkOn(pal_.change(change))));
  p_.drawText(QRectF(c.x() - radius, c.y() - radius - 0.5, 2 * radius, 2 * radius), Qt::AlignCenter, sign);
}

namespace {

/// The layout knows Inter's widths. Where that is not installed, letters of another font are set as much closer.
int stretchOf(const QString& family) {
  const std::string sample = "layer_norm embedding 384×1536";
  QFont font(family);
  constexpr double pixels = 40;
  font.setPixelSize(static_cast<int>(pixels));
  const double own = QFontMetricsF(font).horizontalAdvance(QString::fromStdString(sample));
  return std::clamp(static_cast<int>(100 * textWidth(sample, pixels) / own), 75, 100);
}

}  // namespace

QFont drawingFont(double pixels, int weight) {
  static const bool hasInter = QFontDatabase::hasFamily(QStringLiteral("Inter"));
  static const QString family = hasInter ? QStringLiteral("Inter") : QGuiApplication::font().family();
  static const int stretch = hasInter ? 100 : stretchOf(family);
  QFont font(family);
  if (stretch < 100) font.setStretch(stretch);
  font.setPixelSize(std::max(1, static_cast<int>(std::lround(pixels))));
  font.setWeight(static_cast<QFont::Weight>(weight));
  font.setHintingPreference(QFont::PreferNoHinting);  // widths stay the same at every zoom
  // Names and figures need no ligatures; scripts that do are shaped all the same.
  font.setStyleStrategy(QFont::PreferNoShaping);
  return font;
}

void paintScene(QPainter& painter, const Scene& scene, const CanvasLook& look, const QRectF& area) {
  ScenePainter(painter, scene, look, area).run();
}

}  // namespace graft
