#include "views/canvas/canvas_paint.h"

#include <QFontDatabase>
#include <QFontMetricsF>
#include <QGuiApplication>
#include <algorithm>
#include <cmath>

#include "views/canvas/small_text.h"
#include "views/document/graph_decode.h"
#include "views/layout/node_text.h"

namespace graft {
namespace {

using M = Metrics;

class Painter {
 public:
  Painter(QPainter& painter, const Scene& scene, const CanvasLook& look, const QRectF& area)
      : p_(painter), scene_(scene), look_(look), pal_(look.palette), area_(area) {}

  void run() {
    const bool smooth = look_.scale > 0.22;
    p_.setRenderHint(QPainter::Antialiasing, smooth);
    p_.setRenderHint(QPainter::TextAntialiasing);
    const auto& boxes = scene_.view.boxes;
    for (size_t i = 0; i < boxes.size(); ++i)
      if (boxes[i].open && visible(i)) container(i);
    edges(smooth);
    const bool hasUsualText = readable(M::detailSize);
    if (hasUsualText)
      for (size_t i = 0; i < boxes.size(); ++i)
        if (boxes[i].open && visible(i)) containerTitle(i);
    if (look_.scale > 0.75) labels();
    p_.setRenderHint(QPainter::Antialiasing, smooth);
    for (size_t i = 0; i < boxes.size(); ++i)
      if (!boxes[i].open && visible(i)) box(i, hasUsualText);
    if (!hasUsualText) smallTexts();
  }

 private:
  bool visible(size_t i, double margin = 12) const {
    const Rect& r = scene_.layout.boxes[i];
    return r.x <= area_.right() + margin && r.right() >= area_.left() - margin && r.y <= area_.bottom() + margin &&
           r.bottom() >= area_.top() - margin;
  }
  bool readable(double size) const { return size * look_.scale >= SmallText::smallest; }
  /// As large as the zoom makes it, but never too small to be read.
  int pixels(double size) const { return std::max(SmallText::smallest, static_cast<int>(size * look_.scale)); }
  bool block(double size) const { return size * look_.scale < 3; }
  QPen pen(QColor color, double width = 1.2, Qt::PenStyle style = Qt::SolidLine) const {
    QPen pen(color, width, style);
    pen.setCosmetic(width * look_.scale < 0.7);
    if (pen.isCosmetic()) pen.setWidthF(0.8);
    return pen;
  }
  QColor faded(Color c, double amount) const { return toQt(mix(pal_.background, c, amount)); }

  void container(size_t i) {
    const Box& box = scene_.view.boxes[i];
    const QRectF r = toQt(scene_.layout.boxes[i]);
    const Color base = pal_.container(scene_.depth[i]);
    const Color border = box.kind == BoxKind::Control ? pal_.hue(BoxKind::Control)
                                                      : mix(pal_.background, pal_.hue(BoxKind::Module), 0.45);
    p_.setPen(pen(toQt(border), 1));
    p_.setBrush(toQt(base));
    for (int k = box.repeat > 1 ? 2 : 0; k >= 1; --k) p_.drawRoundedRect(r.translated(4 * k, 4 * k), 8, 8);
    if (look_.selected[i]) p_.setPen(pen(toQt(pal_.accent), 2.4));
    if (look_.lit[i]) p_.setPen(pen(toQt(pal_.accent), 2));
    p_.drawRoundedRect(r, 8, 8);
  }

  void containerTitle(size_t i) {
    const Box& box = scene_.view.boxes[i];
    const QRectF r = toQt(scene_.layout.boxes[i]);
    const QFont bold = drawingFont(13, QFont::DemiBold), thin = drawingFont(11, QFont::Normal);
    const QFontMetricsF boldWidth(bold), thinWidth(thin);
    double room = r.width() - 24 - (box.repeat > 1 ? 44 : 0);
    const QString title = boldWidth.elidedText(toQt(box.title), Qt::ElideRight, room);
    const double used = boldWidth.horizontalAdvance(title) + 8;
    const QString type = box.name != box.title && room - used > 24
                             ? thinWidth.elidedText(toQt(box.name), Qt::ElideRight, room - used)
                             : QString();
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

  /// Words in pixels, of one size whatever the zoom: names of containers, outer ones first, where there is room, then
  /// what each box has room for.
  void smallTexts() {
    p_.save();
    const QTransform place = p_.transform();
    p_.resetTransform();
    const auto& boxes = scene_.view.boxes;
    const double overhang = 60 / look_.scale;  // badges stand out of small boxes
    for (size_t i = 0; i < boxes.size(); ++i)
      if (!boxes[i].open && visible(i, overhang)) smallBox(i, place.mapRect(toQt(scene_.layout.boxes[i])));
    landmarks(place);
    p_.restore();
  }

  void landmarks(const QTransform& place) {
    constexpr double high = 12, gap = 4, wide = 64;
    const SmallText& words = SmallText::ofSize(pixels(M::nameSize), QFont::DemiBold);
    const double line = words.font().pixelSize() + 4;
    std::vector<QRectF> taken;
    const auto& boxes = scene_.view.boxes;
    p_.setFont(words.font());
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (!boxes[i].open || !visible(i, wide / look_.scale)) continue;
      const QRectF r = place.mapRect(toQt(scene_.layout.boxes[i]));
      if (r.height() < high) continue;
      if (boxes[i].repeat > 1)
        smallBadge(QStringLiteral("×%1").arg(boxes[i].repeat), r.right() - 2, r.top() + line / 2,
                   pal_.hue(BoxKind::Module), words);
      // The name of a narrow one may stand out of it where nothing else is named.
      const double room = std::max(r.width() - 2 * gap, std::min(wide, 2 * r.height()));
      const QString text = words.fitted(toQt(boxes[i].title), room);
      if (text.isEmpty()) continue;
      // As far up as it needs to be to leave the first boxes below the header alone: over the border, like a legend's.
      const double header = M::header * look_.scale;
      const QRectF at(r.left() + gap, r.top() + 1 - std::max(0.0, line - header - 1), words.width(text) + 4, line);
      const auto hits = [&](const QRectF& t) { return t.intersects(at); };
      if (std::any_of(taken.begin(), taken.end(), hits)) continue;
      taken.push_back(at);
      QColor back = toQt(pal_.container(scene_.depth[i]));
      back.setAlpha(225);
      p_.setPen(Qt::NoPen);
      p_.setBrush(back);
      p_.drawRoundedRect(at, 3, 3);
      p_.setPen(toQt(pal_.text));
      p_.drawText(QPointF(at.left() + 2, at.center().y() + words.drop()), text);
    }
  }

  /// As much as `r`, in pixels, has room for: the title, the name beside it, the detail below; ×N and the number of
  /// matches always.
  void smallBox(size_t i, const QRectF& r) {
    constexpr double leastHeight = 5.5, gap = 5;
    const double padding = r.width() < 30 ? 0.5 : 2;
    const Box& box = scene_.view.boxes[i];
    const Shade shade = shadeOf(i);
    const SmallText& title = SmallText::ofSize(pixels(M::titleSize), QFont::Medium);
    const SmallText& small = SmallText::ofSize(pixels(M::detailSize), QFont::Normal);
    const bool isModule = box.kind == BoxKind::Module;
    const int matches = isModule && look_.boxes.change[i] == Change::None ? look_.boxes.matches[i] : 0;
    double left = r.left() + padding, right = r.right() - padding;
    if (box.repeat > 1 && r.height() >= leastHeight) {
      const QString count = QStringLiteral("×%1").arg(box.repeat);
      const double width = small.width(count) + 8;
      const bool fits = right - left - width >= 24;
      const double end = fits ? r.right() - 2 : r.right() + width - 4;
      smallBadge(count, end, fits ? middleOfTitle(box, r) : r.center().y(), pal_.hue(BoxKind::Module), small);
      if (fits) right = end - width - 2;
    }
    if (matches > 0) {
      const Color color = look_.decorations.stale ? pal_.dim : pal_.pattern(0);
      smallBadge(QStringLiteral("◆%1").arg(matches), r.right() + 6, r.top(), color, small);
    }
    if (r.height() < leastHeight) return;
    const bool hasHeat = look_.boxes.anyHeat && !std::isnan(look_.boxes.heat[i]);
    const QString detail = hasHeat ? heatText(look_.boxes.heat[i], look_.decorations.heatUnit) : toQt(box.detail);
    const bool two = !detail.isEmpty() && r.height() >= twoLines();
    const QString first = title.fitted(toQt(box.title), right - left);
    if (first.isEmpty()) return;
    const double used = title.width(first);
    const double y = two ? middleOfTitle(box, r) : r.center().y();
    // The beginning of a name says less than nothing where many begin alike.
    constexpr qsizetype tellsEnough = 6;
    QString name = box.name == box.title || first.endsWith(QChar(0x2026))
                       ? QString()
                       : small.fitted(toQt(box.name), right - left - used - gap);
    if (name.size() < std::min(tellsEnough, toQt(box.name).size())) name.clear();
    const double whole = used + (name.isEmpty() ? 0 : gap + small.width(name));
    const bool centred = !two || box.kind == BoxKind::Input || box.kind == BoxKind::Output;
    double x = centred ? std::max(left, (left + right - whole) / 2) : left + std::min(4.0, (right - left - whole) / 2);
    p_.setFont(title.font());
    p_.setPen(toQt(shade.text));
    p_.drawText(QPointF(x, y + title.drop()), first);
    if (!name.isEmpty() || two) {
      p_.setFont(small.font());
      p_.setPen(toQt(shade.dim));
    }
    if (!name.isEmpty()) p_.drawText(QPointF(x + used + gap, y + small.drop()), name);
    if (!two) return;
    right = r.right() - padding;
    const QString second = small.fitted(detail, right - left);
    x = centred ? std::max(left, (left + right - small.width(second)) / 2) : x;
    if (x + small.width(second) > right) x = left;
    p_.drawText(QPointF(x, r.bottom() - (r.bottom() - r.top()) * 0.28 + small.drop()), second);
  }

  double twoLines() const { return pixels(M::titleSize) + pixels(M::detailSize) + 4; }
  double middleOfTitle(const Box& box, const QRectF& r) const {
    const bool two = !box.detail.empty() && r.height() >= twoLines();
    return two ? r.top() + r.height() * 0.31 : r.center().y();
  }

  void smallBadge(const QString& text, double right, double middle, Color color, const SmallText& words) {
    const double w = words.width(text) + 8, h = words.font().pixelSize() + 3;
    const QRectF r(right - w, middle - h / 2, w, h);
    p_.setPen(Qt::NoPen);
    p_.setBrush(toQt(color));
    p_.drawRoundedRect(r, h / 2, h / 2);
    p_.setFont(words.font());
    p_.setPen(toQt(pal_.background));
    p_.drawText(QPointF(r.left() + 4, middle + words.drop()), text);
  }

  void heatBadge(size_t i, const QRectF& r) {
    if (!look_.boxes.anyHeat || std::isnan(look_.boxes.heat[i])) return;
    const double right = scene_.view.boxes[i].repeat > 1 ? 54 : 10;
    figures(look_.boxes.heat[i], r.right() - right, r.y() + 6, pal_.container(scene_.depth[i]));
  }

  /// A time or an error that ends at `right`, on the colour of what it stands in: no edge runs through it.
  void figures(double heat, double right, double y, Color back) {
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

  void edges(bool smooth) {
    const bool fade = look_.boxes.anyChange;
    p_.setBrush(Qt::NoBrush);
    const QColor normal = fade ? faded(pal_.edge, 0.6) : toQt(pal_.edge);
    const QPen plain = pen(normal);
    std::vector<std::pair<int, bool>> special;  // lit: which, is an input of the selection
    p_.setPen(plain);
    const bool tiny = look_.scale < 0.10;
    for (size_t e = 0; e < scene_.paths.size(); ++e) {
      const VisibleEdge& edge = scene_.view.edges[e];
      const bool isLit = look_.selected[static_cast<size_t>(edge.to)] || look_.selected[static_cast<size_t>(edge.from)];
      if (!isLit && !scene_.pathBounds[e].intersects(area_)) continue;
      if (look_.selected[static_cast<size_t>(edge.to)])
        special.push_back({static_cast<int>(e), true});
      else if (look_.selected[static_cast<size_t>(edge.from)])
        special.push_back({static_cast<int>(e), false});
      else if (smooth && !scene_.widths.empty())
        drawWide(e, normal);
      else if (smooth)
        p_.drawPath(scene_.paths[e]);
      else
        polyline(e, tiny);
    }
    if (smooth) {
      p_.setPen(Qt::NoPen);
      p_.setBrush(normal);
      for (size_t e = 0; e < scene_.paths.size(); ++e)
        if (scene_.pathBounds[e].intersects(area_)) arrow(e);
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

  void drawWide(size_t e, const QColor& color) {
    p_.setPen(pen(color, scene_.widths[e]));
    p_.drawPath(scene_.paths[e]);
  }

  void polyline(size_t e, bool tiny) {
    const auto& q = scene_.layout.edges[e].points;
    if (q.size() < 4) return;
    if (tiny) {
      p_.drawLine(QPointF(q.front().x, q.front().y), QPointF(q.back().x, q.back().y));
      return;
    }
    QPolygonF line;
    for (size_t i = 0; i < q.size(); i += 3) line << QPointF(q[i].x, q[i].y);
    p_.drawPolyline(line);
  }

  void arrow(size_t e) {
    const auto& q = scene_.layout.edges[e].points;
    if (q.size() < 4) return;
    const double sign = q[q.size() - 2].y <= q.back().y ? -1 : 1;
    const QPointF tip(q.back().x, q.back().y);
    p_.drawPolygon(QPolygonF({tip, tip + QPointF(-3.2, 6 * sign), tip + QPointF(3.2, 6 * sign)}));
  }

  /// Shapes on edges.
  void labels() {
    const QFont font = drawingFont(pixels(M::labelSize), QFont::Normal);
    p_.save();
    const QTransform place = p_.transform();
    p_.resetTransform();
    p_.setFont(font);
    p_.setPen(toQt(look_.boxes.anyChange ? mix(pal_.background, pal_.dim, 0.7) : pal_.dim));
    for (const EdgeLabel& label : scene_.layout.labels)
      if (area_.contains(label.at.x, label.at.y) || area_.contains(label.at.x + 100, label.at.y))
        p_.drawText(place.map(QPointF(label.at.x, label.at.y)),
                    toQt(scene_.view.edges[static_cast<size_t>(label.edge)].label));
    p_.restore();
  }

  void badge(const QString& text, double right, double y, Color color) {
    const QFont font = drawingFont(11, QFont::DemiBold);
    const double w = QFontMetricsF(font).horizontalAdvance(text) + 12;
    p_.setPen(Qt::NoPen);
    p_.setBrush(toQt(color));
    const QRectF r(right - w, y, w, 16);
    p_.drawRoundedRect(r, 8, 8);
    p_.setFont(font);
    p_.setPen(toQt(pal_.background));
    p_.drawText(r, Qt::AlignCenter, text);
  }

  /// The colours of a box that is no open container, and of its words.
  struct Shade {
    Color fill, border, text, dim;
    double width = 1.2;
    Qt::PenStyle style = Qt::SolidLine;
  };
  Shade shadeOf(size_t i) const {
    const Box& box = scene_.view.boxes[i];
    const bool isIo = box.kind == BoxKind::Input || box.kind == BoxKind::Output;
    const Change change = look_.boxes.change[i];
    const int pattern = look_.boxes.pattern[i];
    Shade s{pal_.fill(box.kind), pal_.border(box.kind), pal_.text, pal_.dim};
    if (isIo) s.width = 1.8;
    const double heat = look_.boxes.heat[i];
    if (look_.boxes.anyHeat) {
      s.fill = std::isnan(heat) || look_.boxes.most <= 0 ? pal_.surface : pal_.heat(std::sqrt(heat / look_.boxes.most));
      s.border = mix(s.fill, pal_.text, 0.3);
      const Color dark{20, 22, 26}, light{250, 250, 252};
      s.text = contrast(s.fill, dark) > contrast(s.fill, light) ? dark : light;
      s.dim = mix(s.text, s.fill, 0.2);
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
      s.text = mix(pal_.background, s.text, 0.55);
      s.dim = mix(pal_.background, s.dim, 0.55);
    }
    if (block(M::titleSize) && pattern < 0 && change == Change::None && !look_.boxes.anyHeat)
      s.fill = fade ? mix(pal_.background, pal_.block(box.kind), 0.5) : pal_.block(box.kind);
    return s;
  }

  void box(size_t i, bool hasUsualText) {
    const Box& box = scene_.view.boxes[i];
    const QRectF r = toQt(scene_.layout.boxes[i]);
    const bool isIo = box.kind == BoxKind::Input || box.kind == BoxKind::Output;
    const Change change = look_.boxes.change[i];
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

  void writeBox(size_t i, const Box& box, const QRectF& r, bool isIo, Color text, Color dim) {
    const bool two = !box.detail.empty() || !box.chips.empty();
    const double y = r.y() + (two ? 19 : r.height() / 2 + 4.8);
    const QFont titleFont = drawingFont(M::titleSize, QFont::Medium),
                nameFont = drawingFont(M::nameSize, QFont::Normal);
    const QFontMetricsF titleWidth(titleFont), nameWidth(nameFont);
    const bool isModule = box.kind == BoxKind::Module;
    const double room = r.width() - 2 * M::padding - (box.repeat > 1 ? 34 : 0) - (isModule ? 16 : 0);
    const QString title = titleWidth.elidedText(toQt(box.title), Qt::ElideRight, room);
    const double used = titleWidth.horizontalAdvance(title);
    QString name = box.name == box.title || room - used < 28
                       ? QString()
                       : nameWidth.elidedText(toQt(box.name), Qt::ElideMiddle, room - used - 8);
    const double total = used + (name.isEmpty() ? 0 : 8 + nameWidth.horizontalAdvance(name));
    double x = isIo ? r.center().x() - total / 2 : r.x() + M::padding;
    p_.setFont(titleFont);
    p_.setPen(toQt(text));
    p_.drawText(QPointF(x, y), title);
    p_.setFont(nameFont);
    p_.setPen(toQt(dim));
    p_.drawText(QPointF(x + used + 8, y), name);
    if (isModule) {
      p_.setPen(pen(toQt(dim), 1.4));
      const double ex = r.right() - M::padding - 8 - (box.repeat > 1 ? 36 : 0), ey = y - 4;
      p_.drawLine(QPointF(ex, ey), QPointF(ex + 8, ey));
      p_.drawLine(QPointF(ex + 4, ey - 4), QPointF(ex + 4, ey + 4));
    }
    if (box.repeat > 1)
      badge(QStringLiteral("×%1").arg(box.repeat), r.right() - 6, r.y() + 6, pal_.hue(BoxKind::Module));
    if (two) secondLine(box, r, isIo, dim, text);
    marks(i, box, r);
  }

  void secondLine(const Box& box, const QRectF& r, bool centred, Color dim, Color text) {
    const QFont font = drawingFont(M::detailSize, QFont::Normal), chipFont = drawingFont(M::chipSize, QFont::Normal);
    const QFontMetricsF width(font), chipWidth(chipFont);
    double x = r.x() + M::padding;
    const double y = r.y() + 36, right = r.right() - M::padding;
    if (!box.detail.empty()) {
      const QString s = width.elidedText(toQt(box.detail), Qt::ElideRight, right - x);
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
      QColor back = toQt(look_.boxes.anyHeat ? text : pal_.hue(box.kind));
      back.setAlphaF(pal_.dark ? 0.34F : 0.2F);
      p_.setBrush(back);
      p_.drawRoundedRect(QRectF(x, y - 11, w, 14), 7, 7);
      p_.setPen(toQt(text));
      p_.drawText(QPointF(x + M::chipPadding, y), s);
      x += w + M::chipGap;
    }
  }

  void marks(size_t i, const Box& box, const QRectF& r) {
    const Change change = look_.boxes.change[i];
    if (change != Change::None) {
      changeMark(change, r);
    } else if (box.kind == BoxKind::Module && look_.boxes.matches[i] > 0) {
      const Color color = look_.decorations.stale ? pal_.dim : pal_.pattern(0);
      badge(QStringLiteral("◆ %1").arg(look_.boxes.matches[i]), r.right() + 8, r.y() - 9, color);
    }
    if (look_.boxes.anyHeat && !std::isnan(look_.boxes.heat[i])) heatNote(box, r, look_.boxes.heat[i]);
  }

  /// −, + or ~ at a size that can be read where names cannot: colour alone does not tell everybody.
  void changeMark(Change change, const QRectF& r) {
    if (change == Change::None) return;
    const QString sign = change == Change::Removed ? QStringLiteral("−")
                         : change == Change::Added ? QStringLiteral("+")
                                                   : QStringLiteral("~");
    const double radius = std::max(7.5, 5.5 / look_.scale);
    p_.setPen(Qt::NoPen);
    p_.setBrush(toQt(pal_.change(change)));
    const QPointF c(r.right() - 2, r.y() + 2);
    p_.drawEllipse(c, radius, radius);
    p_.setFont(drawingFont(1.6 * radius, QFont::Bold));
    p_.setPen(toQt(pal_.background));
    p_.drawText(QRectF(c.x() - radius, c.y() - radius - 0.5, 2 * radius, 2 * radius), Qt::AlignCenter, sign);
  }

  void heatNote(const Box& box, const QRectF& r, double heat) {
    figures(heat, r.right(), r.y() - 15,
            box.parent < 0 ? pal_.background : pal_.container(scene_.depth[static_cast<size_t>(box.parent)]));
  }

  QPainter& p_;
  const Scene& scene_;
  const CanvasLook& look_;
  const Palette& pal_;
  const QRectF area_;
};

}  // namespace

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
  return font;
}

void paintScene(QPainter& painter, const Scene& scene, const CanvasLook& look, const QRectF& area) {
  Painter(painter, scene, look, area).run();
}

}  // namespace graft
