#include "views/canvas/canvas.h"

#include <QPaintEvent>
#include <QPainter>
#include <QResizeEvent>
#include <QTimer>
#include <algorithm>
#include <cmath>
#include <utility>

#include "views/canvas/canvas_frame.h"
#include "views/canvas/canvas_paint.h"
#include "views/canvas/hover_card.h"
#include "views/canvas/overview.h"
#include "views/document/async.h"
#include "views/document/graph_decode.h"

namespace graft {
namespace {

using ShortNames = std::vector<std::pair<std::string, std::string>>;

constexpr double smallestScale = 0.01, largestScale = 6;
/// Names can be read from here on.
constexpr double legibleScale = 0.7;
/// Whether nearly all boxes have words at that scale.
bool canBeRead(const Scene& scene, double scale) {
  constexpr size_t many = 3000;  // have no words in any window
  constexpr double nearlyAll = 0.9;
  const auto& boxes = scene.view.boxes;
  if (boxes.size() > many) return false;
  size_t closed = 0, have = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].open) continue;
    ++closed;
    have += hasWords(scene, static_cast<int>(i), scale);
  }
  return static_cast<double>(have) >= nearlyAll * static_cast<double>(closed);
}

/// Smaller graphs are laid out within a frame or two: no detour over a worker.
constexpr size_t laidOutInPlace = 3000;
/// Square pixels: of less, a map of the drawing would hide too much.
constexpr int smallCanvas = 900 * 600;
/// Boxes, and four times as many where pixels are half as large: while one zooms, more are not painted for each frame.
constexpr double sketchedFrom = 3000;

}  // namespace

Canvas::Canvas(QWidget* parent) : QWidget(parent), palette_(graft::palette(Theme::Light)) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAcceptDrops(true);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setMinimumSize(120, 80);
  setAccessibleName(tr("Drawing of the model"));
  overview_ = new Overview(this);
  overview_->hide();
  card_ = new HoverCard(this);
  connect(this, &Canvas::viewChanged, card_, &QWidget::hide);
  zoomRests_ = new QTimer(this);
  zoomRests_->setSingleShot(true);
  constexpr int rest = 120;  // milliseconds: notches of a wheel come faster
  zoomRests_->setInterval(rest);
  connect(zoomRests_, &QTimer::timeout, this, &Canvas::invalidate);
  viewRests_ = new QTimer(this);
  viewRests_->setSingleShot(true);
  viewRests_->setInterval(rest);
  connect(viewRests_, &QTimer::timeout, this, &Canvas::placeLegend);
}

Canvas::~Canvas() { layoutToken_.cancel(); }

void Canvas::setGraph(std::shared_ptr<const Graph> graph, const Successor& now) {
  if (graph == graph_) return;
  const bool isFirst = !graph_;
  graph_ = std::move(graph);
  if (!graph_) {
    freeAsync(std::exchange(scene_, nullptr));
    selection_.clear();  // names of another model's
    litNodes_.clear();
    fitted_ = false;
    viewTouched_ = false;
    overview_->hide();
    invalidate();
    Q_EMIT sceneChanged();
    return;
  }
  if (isFirst) fitted_ = false;
  const auto [key, at] = anchor();
  rebuild(now && !key.isEmpty() ? now(key) : key, at);
}

std::pair<QString, QPointF> Canvas::anchor() const {
  if (!scene_ || !fitted_) return {};
  const int box = scene_->boxAt(toScene(rect().center()));
  if (box < 0) return {};
  return {selectionKey(*scene_->graph, scene_->view.boxes[static_cast<size_t>(box)]),
          toWidget(scene_->rect(box).topLeft())};
}

/// Lays out anew; the box in the middle stays there.
void Canvas::rebuildAnchored() {
  const auto [key, at] = anchor();
  rebuild(key, at);
}

void Canvas::adoptViewOptions(const ViewOptions& options) {
  const auto same = [](const ViewOptions& a, const ViewOptions& b) {
    return a.depth == b.depth && a.opened == b.opened && a.closed == b.closed && a.unfolded == b.unfolded &&
           a.columns == b.columns && a.flow == b.flow && a.foldDeadEnds == b.foldDeadEnds && a.words == b.words;
  };
  if (same(options, options_)) return;
  options_ = options;
  if (graph_) rebuildAnchored();
}

void Canvas::setStyle(Flow flow, bool columns, bool foldsDeadEnds) {
  if (options_.flow == flow && options_.columns == columns && options_.foldDeadEnds == foldsDeadEnds) return;
  const bool turns = options_.flow != flow;
  options_.flow = flow;
  options_.columns = columns;
  options_.foldDeadEnds = foldsDeadEnds;
  if (turns) fitted_ = viewTouched_ = false;
  if (graph_) rebuildAnchored();
}

void Canvas::setViewOptions(const ViewOptions& options) {
  options_ = options;
  fitted_ = false;
  if (graph_) rebuild();
}

void Canvas::setDepth(int depth) {
  options_.depth = depth;
  options_.opened.clear();
  options_.closed.clear();
  options_.unfolded.clear();
  fitted_ = false;
  viewTouched_ = false;
  if (graph_) rebuild();
}

void Canvas::rebuild(const QString& anchorKey, QPointF anchorAt) {
  layoutToken_.cancel();
  layoutToken_ = CancelToken();
  const int generation = ++layoutGeneration_;
  layingOut_ = true;
  const FormerOrder former = formerOrder();
  if (graph_->nodeCount() <= laidOutInPlace) {
    take(makeScene(graph_, options_, CancelToken(), former), anchorKey, anchorAt);
    return;
  }
  if (!scene_) return showFirst(generation);
  runAsync(
      this,
      [graph = graph_, options = options_, token = layoutToken_, former] {
        return makeScene(graph, options, token, former);
      },
      [this, generation, anchorKey, anchorAt](const SceneRef& scene) {
        if (scene && generation == layoutGeneration_) take(scene, anchorKey, anchorAt);
      });
}

/// What is fitted anew is ordered anew, and so is another graph, whose values have other numbers.
FormerOrder Canvas::formerOrder() {
  const std::string closed = std::exchange(closing_, std::string());
  if (!fitted_ || !scene_ || isPartial() || scene_->graph != graph_ || scene_->options.flow != options_.flow) {
    beforeOpening_.clear();
    return {};
  }
  const LayoutOrder& now = scene_->layout.order;
  if (const auto known = beforeOpening_.find(closed); !closed.empty() && known != beforeOpening_.end())
    return {std::make_shared<LayoutOrder>(known->second.over(now)), true};
  return {{scene_, &now}, !closed.empty()};
}

/// Nothing is shown yet: of very many boxes the first come at once, the whole when it is laid out.
void Canvas::showFirst(int generation) {
  runAsync(
      this, [graph = graph_, options = options_, token = layoutToken_] { return firstSight(graph, options, token); },
      [this, generation](const FirstSight& sight) {
        if (!sight.scene || generation != layoutGeneration_) return;
        take(sight.scene, {}, {});
        if (!sight.rest) return;
        layingOut_ = true;
        runAsync(
            this,
            [graph = graph_, options = options_, rest = sight.rest, token = layoutToken_] {
              return makeScene(graph, options, std::move(*rest), token);
            },
            [this, generation](const SceneRef& scene) {
              if (!scene || generation != layoutGeneration_) return;
              const auto [key, at] = anchor();
              take(scene, key, at);
            });
      });
}

void Canvas::take(SceneRef scene, const QString& anchorKey, QPointF anchorAt) {
  freeAsync(std::exchange(scene_, std::move(scene)));
  places_ = {};
  layingOut_ = false;
  hover_ = -1;
  boxes_ = resolve(*scene_, decorations_);
  const int anchor = anchorKey.isEmpty() ? -1 : scene_->boxOf(anchorKey);
  if (anchor >= 0) origin_ = scene_->rect(anchor).topLeft() - anchorAt / scale_;
  if (const auto under = std::exchange(under_, {}); under && anchor >= 0) {
    constexpr double edge = 8;  // not on the border itself
    const QRectF r(toWidget(scene_->rect(anchor).topLeft()), scene_->rect(anchor).size() * scale_);
    const double dx = std::min(edge, r.width() / 2), dy = std::min(edge, r.height() / 2);
    const QPointF nearest(std::clamp(under->x(), r.left() + dx, r.right() - dx),
                          std::clamp(under->y(), r.top() + dy, r.bottom() - dy));
    origin_ -= (*under - nearest) / scale_;
  }
  setSelection(selection_);
  setLit(litNodes_);
  if (!fitted_ || autoFit_)
    fit();
  else if (frame().isLegendInTheWay())
    legendSpot_ = frame().freeSpot();
  overview_->refresh();
  placeOverview();
  invalidate();
  Q_EMIT sceneChanged();
  Q_EMIT viewChanged();
  if (!revealing_.isEmpty()) bringIntoView(std::exchange(revealing_, QString()));
}

void Canvas::setDecorations(Decorations decorations) {
  if (decorations == decorations_) return;  // as one types, matches come that are those of before
  decorations_ = std::move(decorations);
  const bool hadHeat = boxes_.anyHeat;
  if (scene_) boxes_ = resolve(*scene_, decorations_);
  if (scene_ && boxes_.anyHeat != hadHeat) legendSpot_ = frame().freeSpot();  // another one stands there
  overview_->refresh();
  invalidate();
}

void Canvas::setTheme(Theme theme) {
  palette_ = graft::palette(theme);
  overview_->refresh();
  invalidate();
}

void Canvas::setSelection(const QStringList& keys) {
  selection_ = keys;
  if (!scene_) return;
  selected_.assign(scene_->view.boxes.size(), 0);
  for (const QString& key : keys)
    if (const int box = scene_->boxOf(key); box >= 0) selected_[static_cast<size_t>(box)] = 1;
  if (const int box = keys.size() == 1 ? scene_->boxOf(keys.first()) : -1; box >= 0) tellOf(box);
  invalidate();
}

void Canvas::setLit(const QStringList& nodes) {
  litNodes_ = nodes;
  if (!scene_) return;
  lit_.assign(scene_->view.boxes.size(), 0);
  for (const QString& key : nodes)
    if (const int box = scene_->boxOf(key); box >= 0) lit_[static_cast<size_t>(box)] = 1;
  invalidate();
}

void Canvas::setOverviewVisible(bool visible) {
  overview_->setProperty("wanted", visible);
  placeOverview();
}

void Canvas::setLegendVisible(bool on) {
  hasLegend_ = on;
  if (scene_) legendSpot_ = frame().freeSpot();
  update();
}

void Canvas::setAutoFit(bool on, double smallest) {
  autoFit_ = on;
  autoFitSmallest_ = smallest;
  if (on) fit();
  options_.columns = !on;  // a narrow pane has no room for them
}

/// It does not hop about while one drags: where the view rests, it goes to where it covers no box.
void Canvas::placeLegend() {
  if (!scene_ || isLegendOpen_ || !frame().isLegendInTheWay()) return;
  legendSpot_ = frame().freeSpot();
  placeOverview();
  viewRests_->stop();
  update();
}

void Canvas::placeOverview() {
  viewRests_->start();
  if (overview_->isHeld()) return overview_->update();  // it does not vanish under the hand
  const bool wanted = overview_->property("wanted").toBool() && scene_ && width() > 640 && height() > 300;
  // A map of what is in view as a whole says nothing, and hides a part of it.
  const double pixel = 1 / scale_;
  const bool isWhole = scene_ && visibleSceneRect().adjusted(-pixel, -pixel, pixel, pixel).contains(scene_->bounds());
  overview_->fitRoom();
  const auto rectIn = [&](Corner corner) { return inCorner(corner, overview_->size(), size()); };
  bool isFree = true;
  if (wanted && !isWhole && width() * height() < smallCanvas) {  // there it stands where it covers no boxes, or nowhere
    const QRectF legend = frame().legendPlace();
    const auto covers = [&](Corner corner) {
      const QRectF r = rectIn(corner);
      return r.intersects(legend) || scene_->covers({toScene(r.topLeft()), r.size() / scale_});
    };
    if (covers(overviewCorner_))
      for (const Corner corner : {Corner::BottomRight, Corner::TopRight, Corner::BottomLeft, Corner::TopLeft})
        if (!covers(corner)) {
          overviewCorner_ = corner;
          break;
        }
    isFree = !covers(overviewCorner_);
  } else {
    const bool isTaken = scene_ && rectIn(Corner::BottomRight).intersects(frame().legendPlace());
    overviewCorner_ = isTaken ? Corner::TopRight : Corner::BottomRight;
  }
  overview_->setVisible(wanted && !isWhole && isFree);
  overview_->move(rectIn(overviewCorner_).topLeft().toPoint());
  overview_->update();
}

QRectF Canvas::visibleSceneRect() const { return {origin_, QSizeF(size()) / scale_}; }

void Canvas::fit() {
  if (!scene_ || width() < 20) return;
  const QRectF b = scene_->bounds();
  const double head = titleRoom();
  const double whole = std::min((width() - 16) / b.width(), (height() - 16 - head) / b.height());
  // What cannot be read as a whole is shown from its beginning, rather than as a thread.
  // A canvas that fits itself keeps its names legible; a drawing that is larger is dragged.
  scale_ = std::clamp(whole, autoFit_ ? autoFitSmallest_ : smallestScale, autoFit_ ? 1.0 : 1.25);
  const bool isDown = options_.flow == Flow::Down;
  if (!autoFit_ && !fitted_ && !viewTouched_ && whole < legibleScale && !canBeRead(*scene_, whole))
    scale_ = std::clamp(isDown ? (width() - 32) / b.width() : (height() - 32) / b.height(), legibleScale, 0.9);
  const QSizeF seen = QSizeF(size()) / scale_;
  const double edge = 8 / scale_;
  const bool isWhole = whole >= scale_ - 1e-9;
  QPointF at = b.center() - QPointF(seen.width(), seen.height()) / 2;
  at.ry() -= head / 2 / scale_;
  if (!isWhole) (isDown ? at.ry() : at.rx()) = (isDown ? b.top() - head / scale_ : b.left()) - edge;
  // Where not all of it is in view across its way, its first input or operator is.
  if (!fitted_ && !scene_->view.roots.empty()) {
    const QRectF begin = scene_->rect(scene_->view.roots.front());
    const QPointF first = begin.center();
    // Nor is the upper half empty where all inputs are further down, as beside the longer pass of a training step.
    double start = isDown ? begin.top() : begin.left();
    for (const int root : scene_->view.roots)
      if (scene_->view.boxes[static_cast<size_t>(root)].kind == BoxKind::Input)
        start = std::min(start, isDown ? scene_->rect(root).top() : scene_->rect(root).left());
    if (!isWhole && isDown && start - at.y() > seen.height() / 3) at.setY(start - head / scale_ - edge);
    if (!isWhole && !isDown && start - at.x() > seen.width() / 3) at.setX(start - edge);
    if (isDown && seen.width() < b.width())
      at.setX(std::clamp(first.x() - seen.width() / 2, b.left() - edge, b.right() + edge - seen.width()));
    if (!isDown && seen.height() < b.height())
      at.setY(std::clamp(first.y() - seen.height() / 2, b.top() - edge, b.bottom() + edge - seen.height()));
  }
  origin_ = at;
  fitted_ = true;
  legendSpot_ = frame().freeSpot();
  invalidate();
  placeOverview();
  Q_EMIT viewChanged();
}

void Canvas::begin() {
  fitted_ = viewTouched_ = false;
  fit();
}

void Canvas::setView(QPointF origin, double scale) {
  if (qFuzzyCompare(scale, scale_) && (origin - origin_).manhattanLength() * scale < 0.5) return;
  origin_ = origin;
  scale_ = scale;
  viewTouched_ = true;
  fitted_ = true;
  invalidate();
  placeOverview();
}

void Canvas::panTo(QPointF centre) {
  origin_ = centre - QPointF(width(), height()) / scale_ / 2;
  viewTouched_ = true;
  invalidate();
  placeOverview();
  Q_EMIT viewChanged();
}

void Canvas::zoomBy(double factor, QPointF at) {
  if (!scene_) return;
  keepSketch();
  const QPointF fixed = toScene(at);
  scale_ = std::clamp(scale_ * factor, smallestScale, largestScale);
  origin_ = fixed - at / scale_;
  viewTouched_ = true;
  constexpr double far = 2;  // times: what is shown larger or smaller than that is painted
  if (const double shown = scale_ / sketchScale_; isSketched() && shown < far && shown > 1 / far) {
    zoomRests_->start();
    update();
  } else {
    invalidate();
  }
  placeOverview();
  Q_EMIT viewChanged();
}

/// Of very many boxes: the picture so far is shown larger or smaller until the zooming rests.
void Canvas::keepSketch() {
  const double dpr = devicePixelRatioF();
  if (isSketched() || !cacheValid_ || static_cast<double>(scene_->view.boxes.size()) * dpr * dpr < sketchedFrom) return;
  sketch_ = cache_;
  sketchOrigin_ = origin_;
  sketchScale_ = scale_;
}

void Canvas::paintSketch(QPainter& p) {
  const double factor = scale_ / sketchScale_;
  p.fillRect(rect(), toQt(palette_.background));
  // Of pixels that are half as large, nobody sees the steps, and there are four times as many.
  constexpr double fine = 1.5;
  p.setRenderHint(QPainter::SmoothPixmapTransform, devicePixelRatioF() < fine);
  p.drawPixmap(QRectF(toWidget(sketchOrigin_), QSizeF(size()) * factor), sketch_, QRectF(sketch_.rect()));
}

void Canvas::zoomToKeys(const QStringList& keys, double largest, double smallest) {
  if (!scene_) return;
  QRectF bounds;
  for (const QString& key : keys)
    if (const int box = scene_->boxOf(key); box >= 0) bounds |= scene_->rect(box);
  if (bounds.isEmpty()) return;
  bounds.adjust(-60, -60, 60, 60);
  scale_ = std::clamp(std::min(width() / bounds.width(), height() / bounds.height()), smallest, largest);
  panTo(bounds.center());
}

bool Canvas::openTo(const QString& key) {
  if (!scene_ || !graph_) return false;
  ModuleCallId call;
  if (key.startsWith(QLatin1Char('@'))) {
    if (const ModuleCallId named = moduleOfKey(*graph_, key.mid(1).toStdString()))
      call = graph_->moduleCall(named).parent;
  } else if (const NodeId node = graph_->findNode(key.toStdString())) {
    call = graph_->node(node).module;
  }
  bool changed = false;
  const int shown = scene_->boxOf(key);
  const bool hidden = shown >= 0 && selectionKey(*graph_, scene_->view.boxes[static_cast<size_t>(shown)]) != key;
  if (hidden)
    for (; call; call = graph_->moduleCall(call).parent) {
      const std::string& path = graph_->moduleCall(call).path;
      changed |= options_.opened.insert(path).second;
      changed |= options_.closed.erase(path) > 0;
      // One block stands for all of its kind: the one that is looked for comes out of it.
      const int box = scene_->view.boxOfModule[call.index];
      if (box < 0) continue;
      const Box& standsFor = scene_->view.boxes[static_cast<size_t>(box)];
      if (standsFor.repeat > 1 && standsFor.key != path) changed |= options_.unfolded.insert(standsFor.key).second;
    }
  // An input comes out of its bundle, an operator out of its dead end.
  if (shown >= 0)
    if (const Box& box = scene_->view.boxes[static_cast<size_t>(shown)];
        box.repeat > 1 && (key.startsWith(QLatin1Char('<')) || (hidden && box.fold != Fold::None)))
      changed |= options_.unfolded.insert(box.key).second;
  if (changed) rebuild();
  return changed;
}

void Canvas::reveal(const QString& key) {
  if (!scene_ || !graph_) return;
  const bool changed = openTo(key);
  setSelection({key});
  Q_EMIT selectionEdited({key});
  // A large graph is laid out on a worker: the place is known when that is done.
  revealing_ = changed && layingOut_ ? key : QString();
  if (revealing_.isEmpty()) bringIntoView(key);
}

void Canvas::bringIntoView(const QString& key) {
  const int box = scene_->boxOf(key);
  if (box < 0) return;
  const bool grows = scale_ < 0.74;
  if (grows) scale_ = 0.85;  // so that it can be read
  const QRectF r = scene_->rect(box), view = visibleSceneRect();
  if (grows || !view.contains(r) || r.height() > view.height())
    panTo(r.height() > view.height() ? QPointF(r.center().x(), r.top() + view.height() / 3) : r.center());
}

void Canvas::toggle(int index, std::optional<QPointF> under) {
  if (!scene_ || index < 0) return;
  const Box& box = scene_->view.boxes[static_cast<size_t>(index)];
  const bool isControl = box.kind == BoxKind::Control && box.nodeCount > 1;
  if (box.repeat > 1 && box.kind != BoxKind::Module) return unfold(index);
  if (box.kind != BoxKind::Module && !isControl) return;
  const std::string path = isControl ? "%" + box.key : box.key;
  if (box.open) {
    options_.opened.erase(path);
    options_.closed.insert(path);
    closing_ = path;
  } else {
    constexpr size_t large = 50'000;  // is not kept for each module
    options_.closed.erase(path);
    options_.opened.insert(path);
    if (scene_->layout.order.places.size() < large) beforeOpening_[path] = scene_->layout.order;
  }
  const QString key = selectionKey(*graph_, box);
  under_ = under;
  viewTouched_ = true;  // a panel that comes later does not fit the view anew
  rebuild(key, toWidget(scene_->rect(index).topLeft()));
}

void Canvas::unfold(int index) {
  if (!scene_ || index < 0) return;
  const Box& box = scene_->view.boxes[static_cast<size_t>(index)];
  if (box.repeat < 2) return;
  options_.unfolded.insert(box.key);
  viewTouched_ = true;
  rebuild(selectionKey(*graph_, box), toWidget(scene_->rect(index).topLeft()));
}

/// What is closed stays in view: where its head is, or in the middle.
void Canvas::toggleSelected() {
  if (!scene_ || selection_.isEmpty()) return;
  const int box = scene_->boxOf(selection_.first());
  if (box < 0) return;
  const QPointF head = toWidget(scene_->rect(box).topLeft());
  const bool isSeen = rect().contains(head.toPoint());
  toggle(box, isSeen ? std::nullopt : std::optional<QPointF>(rect().center()));
}

void Canvas::invalidate() {
  cacheValid_ = false;
  sketch_ = {};
  zoomRests_->stop();
  update();
}

void Canvas::paintCache(const QRect& area) {
  QPainter p(&cache_);
  p.setClipRect(area);
  p.fillRect(area, toQt(palette_.background));
  p.scale(scale_, scale_);
  p.translate(-origin_);
  const QRectF part(toScene(area.topLeft()), QSizeF(area.size()) / scale_);
  if (places_.scale() != scale_) places_ = LabelPlaces(*scene_, scale_);
  const CanvasLook look{palette_, decorations_, boxes_, selected_, lit_, places_, scale_};
  paintScene(p, *scene_, look, part);
}

void Canvas::pan(QPointF delta) {
  const QPoint whole = delta.toPoint();
  if (whole.isNull()) return;
  origin_ -= QPointF(whole) / scale_;
  viewTouched_ = true;
  const double dpr = devicePixelRatioF();
  const QPoint device = whole * dpr;
  if (isSketched()) {
    zoomRests_->start();
    update();
  } else if (cacheValid_ && !cache_.isNull() && std::abs(device.x()) < cache_.width() &&
             std::abs(device.y()) < cache_.height()) {
    QRegion exposed;
    cache_.scroll(device.x(), device.y(), cache_.rect(), &exposed);
    for (const QRect& r : exposed)
      paintCache(
          QRect(QPointF(r.topLeft() / dpr).toPoint(), QSize(std::ceil(r.width() / dpr), std::ceil(r.height() / dpr)))
              .adjusted(-1, -1, 1, 1));
    update();
  } else {
    invalidate();
  }
  placeOverview();
  Q_EMIT viewChanged();
}

void Canvas::paintEvent(QPaintEvent*) {
  QPainter p(this);
  if (!scene_) {
    p.fillRect(rect(), toQt(palette_.background));
    p.setPen(toQt(palette_.dim));
    p.setFont(drawingFont(13, QFont::Normal));
    p.drawText(rect().adjusted(24, 24, -24, -24), Qt::AlignCenter | Qt::TextWordWrap, placeholder_);
    return;
  }
  const double dpr = devicePixelRatioF();
  if (isSketched() && sketch_.size() == size() * dpr) {
    paintSketch(p);
    return paintFrame(p);
  }
  if (cache_.size() != size() * dpr) {
    cache_ = QPixmap(size() * dpr);
    cache_.setDevicePixelRatio(dpr);
    cacheValid_ = false;
  }
  if (!cacheValid_) {
    paintCache(rect());
    cacheValid_ = true;
  }
  p.drawPixmap(0, 0, cache_);
  paintFrame(p);
}

/// What stands over the drawing.
void Canvas::paintFrame(QPainter& p) {
  p.setRenderHint(QPainter::Antialiasing);
  if (hover_ >= 0) {
    const QRectF r = scene_->rect(hover_);
    const bool io = scene_->view.boxes[static_cast<size_t>(hover_)].kind == BoxKind::Input ||
                    scene_->view.boxes[static_cast<size_t>(hover_)].kind == BoxKind::Output;
    p.setPen(QPen(toQt(palette_.text), 1.4));
    const double radius = (io ? r.height() / 2 : 6) * scale_;
    p.drawRoundedRect(QRectF(toWidget(r.topLeft()), r.size() * scale_).adjusted(-2, -2, 2, 2), radius + 2, radius + 2);
  }
  const CanvasFrame framed = frame();
  framed.paint(p);
  if (showsFocus_) {
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(toQt(palette_.accent), 2));
    p.drawRect(QRectF(rect()).adjusted(1, 1, -1, -1));
  }
}

/// The legend opens under the pointer, and what stands at the top goes aside.
void Canvas::pointAtFrame(bool isLegend, bool isTop) {
  if (isLegend == isLegendOpen_ && isTop == isTopAside_) return;
  isLegendOpen_ = isLegend;
  isTopAside_ = isTop;
  update();
}

CanvasFrame Canvas::frame() const {
  return {{palette_, *scene_, decorations_, boxes_, title_, hasLegend_, !autoFit_, legendSpot_, isLegendOpen_,
           isLegendOpen_ && places_.scale() == scale_ ? places_.spellings().shortNames() : ShortNames(),
           overview_->isVisible() ? QRectF(overview_->geometry()) : QRectF(), isTopAside_},
          size(),
          origin_,
          scale_};
}

double Canvas::wholeScale() const {
  if (!scene_) return 1;
  const QRectF b = scene_->bounds();
  return std::clamp(std::min((width() - 16) / b.width(), (height() - 16 - titleRoom()) / b.height()), smallestScale,
                    1.25);
}

void Canvas::centre(double scale) {
  if (!scene_) return;
  const QPointF middle = scene_->bounds().center();
  setView(middle - QPointF(width(), height() + titleRoom()) / scale / 2, scale);
}

void Canvas::resizeEvent(QResizeEvent* e) {
  invalidate();
  // A panel that comes or goes beside it leaves what one looks at in the middle.
  if (viewTouched_ && !autoFit_ && e->oldSize().isValid()) {
    const QSize grown = e->size() - e->oldSize();
    origin_ -= QPointF(grown.width(), grown.height()) / 2 / scale_;
  }
  if (autoFit_ || !fitted_ || !viewTouched_) {
    fitted_ = autoFit_ ? fitted_ : false;
    fit();
  }
  placeOverview();
  if (scene_) Q_EMIT viewChanged();
}

}  // namespace graft
