#include "views/canvas/canvas_scene.h"

#include <QPolygonF>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"

namespace graft {

QString selectionKey(const Graph& graph, const Box& box) {
  switch (box.kind) {
    case BoxKind::Module:
      return QStringLiteral("@") + toQt(box.key) + (box.isInBackward ? toQt(backwardMark) : QString());
    case BoxKind::Input:
      return QStringLiteral("<") + toQt(box.title);
    case BoxKind::Output:
      return QStringLiteral(">") + toQt(box.key).section(QLatin1Char(' '), 1);
    default:
      return toQt(graph.node(box.node).name);
  }
}

int Scene::boxOf(const QString& key) const {
  const auto it = boxOfKey.find(key);
  if (it != boxOfKey.end()) return it.value();
  if (key.startsWith(QLatin1Char('@'))) {
    const ModuleCallId call = moduleOfKey(*graph, key.mid(1).toStdString());
    return call ? view.boxOfModule[call.index] : -1;
  }
  const NodeId node = graph->findNode(key.toStdString());
  return node ? view.boxOfNode[node.index] : -1;
}

bool Scene::covers(const QRectF& r) const {
  return index.any(layout.boxes, r, [&](int box) {
    const Box& b = view.boxes[static_cast<size_t>(box)];
    if (!b.open) return true;
    const double title = 2 * Metrics::padding + textWidth(b.title, Metrics::titleSize);
    const QRectF whole = rect(box);
    return r.intersects({whole.topLeft(), QSizeF(std::min(title, whole.width()), Metrics::header)});
  });
}

bool Scene::isBlankButEdges(const QRectF& r) const {
  if (covers(r)) return false;
  bool isFree = true;
  openBoxes.near(r, [&](int box) { isFree = isFree && (!r.intersects(rect(box)) || rect(box).contains(r)); });
  return isFree;
}

bool Scene::hasEdge(const QRectF& r) const {
  bool isFree = true;
  edgesNear.near(r, [&](int edge) {
    if (!isFree || !pathBounds[static_cast<size_t>(edge)].intersects(r)) return;
    for (const QPolygonF& line : paths[static_cast<size_t>(edge)].toSubpathPolygons())
      for (qsizetype i = 0; i + 1 < line.size(); ++i) {
        const QPointF a = line[i], b = line[i + 1];
        const double left = std::min(a.x(), b.x()), top = std::min(a.y(), b.y());
        // Of a line that is not even, what is around it counts: it is short.
        isFree = isFree && (left > r.right() || std::max(a.x(), b.x()) < r.left() || top > r.bottom() ||
                            std::max(a.y(), b.y()) < r.top());
      }
  });
  return !isFree;
}

int Scene::boxAt(QPointF p) const {
  int found = -1;  // containers come before their children: the last hit is the innermost
  for (size_t i = 0; i < layout.boxes.size(); ++i) {
    const Rect& r = layout.boxes[i];
    if (p.x() >= r.x && p.x() <= r.right() && p.y() >= r.y && p.y() <= r.bottom()) found = static_cast<int>(i);
  }
  return found;
}

std::vector<int> Scene::edgesAt(QPointF p, double distance) const {
  std::vector<std::pair<double, int>> found;
  for (size_t e = 0; e < layout.edges.size(); ++e) {
    QRectF bounds;
    for (const Point& q : layout.edges[e].points) {
      const QRectF around(q.x - distance, q.y - distance, 2 * distance, 2 * distance);
      bounds = bounds.isNull() ? around : bounds.united(around);
    }
    if (!bounds.contains(p)) continue;
    double best = distance * distance;
    bool isNear = false;
    for (const QPolygonF& line : wholePath(static_cast<int>(e)).toSubpathPolygons())
      for (qsizetype i = 0; i + 1 < line.size(); ++i) {
        const QPointF along = line[i + 1] - line[i], to = p - line[i];
        const double length = QPointF::dotProduct(along, along);
        const double t = length > 0 ? std::clamp(QPointF::dotProduct(to, along) / length, 0.0, 1.0) : 0;
        const QPointF off = to - along * t;
        if (const double d = QPointF::dotProduct(off, off); d <= best) best = d, isNear = true;
      }
    if (isNear) found.emplace_back(best, static_cast<int>(e));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int> edges;
  for (const auto& [d, e] : found) edges.push_back(e);
  return edges;
}

namespace {

/// Thin for kilobytes, thick for many megabytes.
float widthOf(const Type& type) {
  double bytes = type.tensorInfo.dtype ? static_cast<double>(dtypeSize(*type.tensorInfo.dtype)) : 4;
  if (!type.isTensor() || !type.tensorInfo.shape) return 1;
  for (const Dim& d : *type.tensorInfo.shape) bytes *= static_cast<double>(std::max<int64_t>(1, d.size));
  constexpr double thin = 1, thick = 9, least = 4e3, perTenfold = 2;
  return static_cast<float>(std::clamp(thin + perTenfold * std::log10(bytes / least), thin, thick));
}

bool samePoint(Point a, Point b) { return std::abs(a.x - b.x) < 0.01 && std::abs(a.y - b.y) < 0.01; }

QPainterPath pathOf(const std::vector<Point>& q, size_t from) {
  QPainterPath path;
  if (from < q.size()) path.moveTo(q[from].x, q[from].y);
  for (size_t i = from + 1; i + 2 < q.size(); i += 3) {
    if (std::abs(q[i].x - q[i + 2].x) < 0.01 && std::abs(q[i - 1].x - q[i].x) < 0.01)
      path.lineTo(q[i + 2].x, q[i + 2].y);
    else
      path.cubicTo(q[i].x, q[i].y, q[i + 1].x, q[i + 1].y, q[i + 2].x, q[i + 2].y);
  }
  return path;
}

}  // namespace

QPainterPath Scene::wholePath(int edge) const { return pathOf(layout.edges[static_cast<size_t>(edge)].points, 0); }

namespace {

/// Long edges come last: among short ones, a long one would make a run as large as the drawing.
void indexForPainting(Scene& scene) {
  constexpr double far = 1500;
  std::array<bool, boxKindCount> has{};
  for (size_t i = 0; i < scene.view.boxes.size(); ++i) {
    const Box& box = scene.view.boxes[i];
    (box.open ? scene.openBoxes : scene.closedBoxes).add(static_cast<int>(i), scene.rect(static_cast<int>(i)));
    if (!box.open) has[static_cast<size_t>(box.kind)] = true;
  }
  for (size_t k = 0; k < has.size(); ++k)
    if (has[k]) scene.kinds.push_back(static_cast<BoxKind>(k));
  for (const bool isFar : {false, true})
    for (size_t e = 0; e < scene.pathBounds.size(); ++e)
      if (const QRectF& r = scene.pathBounds[e]; (r.width() + r.height() > far) == isFar)
        scene.edgesNear.add(static_cast<int>(e), r);
  constexpr double labelWidth = 100;
  for (size_t i = 0; i < scene.layout.labels.size(); ++i) {
    const Point at = scene.layout.labels[i].at;
    scene.labelsNear.add(static_cast<int>(i), {at.x, at.y, labelWidth, 0});
  }
}

}  // namespace

SceneRef makeScene(std::shared_ptr<const Graph> graph, const ViewOptions& options, const CancelToken& cancel,
                   const FormerOrder& former) {
  VisibleGraph view = makeVisibleGraph(*graph, options);
  return makeScene(std::move(graph), options, std::move(view), cancel, former);
}

FirstSight firstSight(std::shared_ptr<const Graph> graph, const ViewOptions& options, const CancelToken& cancel) {
  constexpr size_t many = 10000, atFirst = 1500;
  ViewOptions first = options;
  first.first = atFirst;
  // Without modules each operator is a box: the others are made with the whole, so that nobody waits for them now.
  if (graph->moduleCalls().empty() && graph->nodeCount() > many)
    return {makeScene(std::move(graph), first, cancel), std::make_shared<VisibleGraph>()};
  auto all = std::make_shared<VisibleGraph>(makeVisibleGraph(*graph, options));
  if (all->boxes.size() <= many) return {makeScene(std::move(graph), options, std::move(*all), cancel), nullptr};
  return {makeScene(std::move(graph), first, cancel), std::move(all)};
}

SceneRef makeScene(std::shared_ptr<const Graph> graph, const ViewOptions& options, VisibleGraph view,
                   const CancelToken& cancel, const FormerOrder& former) {
  auto scene = std::make_shared<Scene>();
  scene->graph = std::move(graph);
  scene->options = options;
  scene->view = view.boxes.empty() ? makeVisibleGraph(*scene->graph, options) : std::move(view);
  Result<Layout> layout = layoutGraph(scene->view,
                                      {.columns = options.columns,
                                       .wide = true,
                                       .flow = options.flow,
                                       .before = former.order.get(),
                                       .keepsOrder = former.isKept},
                                      cancel);
  if (!layout) return nullptr;
  scene->layout = std::move(*layout);
  scene->index = BoxIndex(scene->layout.boxes, scene->bounds().size());
  const size_t boxes = scene->view.boxes.size();
  scene->depth.resize(boxes);
  scene->inEdges.resize(boxes);
  scene->outEdges.resize(boxes);
  for (size_t i = 0; i < boxes; ++i) {
    scene->depth[i] = scene->view.depthOf(static_cast<int>(i));
    scene->boxOfKey.insert(selectionKey(*scene->graph, scene->view.boxes[i]), static_cast<int>(i));
  }
  if (options.widthByBytes)
    for (const VisibleEdge& edge : scene->view.edges)
      scene->widths.push_back(widthOf(scene->graph->value(edge.value).type));
  for (const auto& [input, box] : scene->view.bundled)
    scene->boxOfKey.insert(QLatin1Char('<') + toQt(scene->graph->value(input).name), box);
  std::unordered_map<uint32_t, size_t> lastOfValue;
  for (size_t e = 0; e < scene->view.edges.size(); ++e) {
    const VisibleEdge& edge = scene->view.edges[e];
    scene->outEdges[static_cast<size_t>(edge.from)].push_back(static_cast<int>(e));
    scene->inEdges[static_cast<size_t>(edge.to)].push_back(static_cast<int>(e));
    const auto& q = scene->layout.edges[e].points;
    size_t from = 0;
    auto [known, isFirst] = lastOfValue.try_emplace(edge.value.index, e);
    if (!isFirst) {
      const auto& other = scene->layout.edges[known->second].points;
      while (from + 3 < q.size() && from + 3 < other.size() && samePoint(q[from + 1], other[from + 1]) &&
             samePoint(q[from + 2], other[from + 2]) && samePoint(q[from + 3], other[from + 3]))
        from += 3;
      known->second = e;
    }
    QPainterPath path = pathOf(q, from);
    scene->pathBounds.push_back(path.controlPointRect().adjusted(-4, -4, 4, 4));
    scene->paths.push_back(std::move(path));
    scene->pathFrom.push_back(from);
  }
  indexForPainting(*scene);
  return scene;
}

BoxDecorations resolve(const Scene& scene, const Decorations& d) {
  const size_t n = scene.view.boxes.size();
  BoxDecorations out;
  out.pattern.assign(n, -1);
  out.matches.assign(n, 0);
  out.change.assign(n, Change::None);
  out.least = d.heatLeast;
  out.most = d.heatMost;
  out.changesInside.assign(n, 0);
  out.heat.assign(n, std::numeric_limits<double>::quiet_NaN());
  out.anyChange = d.fades;
  if (d.pattern.isEmpty() && d.changes.isEmpty() && d.heat.isEmpty()) return out;
  std::vector<QSet<int>>& matchesIn = out.matchesIn;
  matchesIn.resize(n);
  std::vector<char> shown(n, 0);
  auto upwards = [&](int box, auto&& f) {
    for (; box >= 0; box = scene.view.boxes[static_cast<size_t>(box)].parent) f(static_cast<size_t>(box));
  };
  for (const NodeId id : scene.graph->order()) {
    const int box = scene.view.boxOfNode[id.index];
    if (box < 0) continue;
    const auto b = static_cast<size_t>(box);
    const QString name = toQt(scene.graph->node(id).name);
    const bool own = scene.view.boxes[b].kind != BoxKind::Module && scene.view.boxes[b].fold == Fold::None;
    if (const auto it = d.pattern.find(name); it != d.pattern.end()) {
      const int match = d.match.value(name, 0);
      if (own && out.pattern[b] < 0) out.pattern[b] = it.value();
      out.anyPattern = true;
      if (d.countsMatches) upwards(box, [&](size_t up) { matchesIn[up].insert(match); });
    }
    const Change change = d.changes.value(name, Change::None);
    if (change != Change::None) {
      out.anyChange = true;
      upwards(box, [&](size_t up) { ++out.changesInside[up]; });
    }
    // One box may stand for nodes of several repeated blocks: what is true of some only is a change.
    if (own && scene.view.boxes[b].node &&
        scene.graph->node(id).op->name == scene.graph->node(scene.view.boxes[b].node).op->name) {
      out.change[b] = shown[b] && out.change[b] != change ? Change::Changed : change;
      shown[b] = 1;
    }
    if (const auto it = d.heat.find(name); it != d.heat.end()) {
      out.anyHeat = true;
      upwards(box, [&](size_t up) {
        double& heat = out.heat[up];
        heat = std::isnan(heat) ? it.value() : d.heatAdds ? heat + it.value() : std::max(heat, it.value());
      });
    }
  }
  for (auto it = d.changes.begin(); it != d.changes.end(); ++it)
    if (it.key().startsWith(QLatin1Char('@')))
      if (const auto box = scene.boxOfKey.find(it.key()); box != scene.boxOfKey.end())
        out.change[static_cast<size_t>(*box)] = *it;
  for (size_t i = 0; i < n; ++i) {
    out.matches[i] = static_cast<int>(matchesIn[i].size());
    const Box& box = scene.view.boxes[i];
    const bool holds = box.kind == BoxKind::Module || box.fold != Fold::None;
    if (holds && !box.open && out.changesInside[i] > 0 && out.change[i] == Change::None)
      out.change[i] = Change::Changed;
    if (!box.open && !std::isnan(out.heat[i])) {
      out.least = std::min(out.least, out.heat[i]);
      out.most = std::max(out.most, out.heat[i]);
    }
    if (!box.open && (out.pattern[i] >= 0 || out.change[i] != Change::None || out.matches[i] > 0))
      out.marked.push_back(static_cast<int>(i));
  }
  return out;
}

QString heatText(double v, const QString& unit) {
  if (v < 0) return QLatin1Char('-') + heatText(-v, unit);
  if (unit == QStringLiteral("µs"))
    return v >= 1000 ? QStringLiteral("%1 ms").arg(v / 1000, 0, 'f', 2) : QStringLiteral("%1 µs").arg(v, 0, 'f', 1);
  if (unit == QStringLiteral("B")) return bytes(v);
  constexpr double few = 1000, many = 1e6;  // in between, all digits before the point are shorter than an exponent
  return QString::number(v, v >= few && v < many ? 'f' : 'g', v >= few && v < many ? 0 : 3) +
         (unit.isEmpty() ? QString() : QLatin1Char(' ') + unit);
}

}  // namespace graft
