// The layered layout of nested containers: each container is a level of its own, laid out from the inside out, with
// ports where edges pass through its border. An edge is the chain of its pieces in all the levels it crosses.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "views/layout/edge_labels.h"
#include "views/layout/layered/level.h"
#include "views/layout/layered/level_plan.h"
#include "views/layout/layout.h"

namespace graft {
namespace {

/// Nets below are values.
constexpr uint32_t firstBundle = 1U << 31;

/// When levels go on in columns.
struct Wrapping {
  double low = 1;      ///< how long a level is at least, in the flow's usual length
  double slim = 3.5;   ///< `Level::Options::slim`
  double shape = 1.4;  ///< of a level: how much wider than long it may be, as boxes are
  bool tail = false;   ///< of the model itself: `Level::Options::tail`
  bool early = false;  ///< `Level::Options::early`
  double letters = 1;  ///< how much wider boxes are than their usual words
  bool operator==(const Wrapping&) const = default;
};

class Nested {
 public:
  Nested(const VisibleGraph& graph, const LayoutOptions& options, const Wrapping& wrapping, const CancelToken& cancel)
      : graph_(graph), options_(options), wrapping_(wrapping), cancel_(cancel), containers_(graph.boxes.size() + 1) {}

  Result<Layout> run() {
    if (Status s = place(); !s) return s.error();
    return assemble();
  }

  /// After `place`.
  LevelPlans plans() const {
    LevelPlans plans{.levels = {}, .nets = netOf_};
    for (size_t i = 0; i < containers_.size(); ++i) {
      const int box = static_cast<int>(i) - 1;
      if (box >= 0 && !graph_.boxes[box].open) continue;
      const Container& c = containers_[i];
      LevelPlan& plan = plans.levels.emplace_back();
      plan.container = box;
      for (const LevelItem& item : c.level.items) plan.items.push_back({item.kind, 0});
      for (int child : box < 0 ? graph_.roots : graph_.boxes[box].children)
        plan.items[itemOf_[child]].what = static_cast<uint32_t>(child);
      for (const auto* ports : {&c.inPorts, &c.outPorts})
        for (auto [value, item] : *ports) plan.items[item].what = value;
      plan.layers = c.level.layers();
      plan.threads = c.level.threads();
      plan.turn = c.level.wayBack();
      for (size_t e = 0; e < c.level.edges.size(); ++e) {
        const LevelEdge& edge = c.level.edges[e];
        plan.edges.push_back({edge.net, c.level.isReversed(e), edge.isFar, c.level.chainOf(e)});
      }
    }
    return plans;
  }

  Status place() {
    itemOf_.assign(graph_.boxes.size(), -1);
    for (Container& c : containers_) {
      c.level.before = options_.before;
      c.level.keepsOrder = options_.keepsOrder;
    }
    for (size_t i = 0; i < graph_.boxes.size(); ++i)
      if (graph_.boxes[i].parent < 0 || graph_.boxes[graph_.boxes[i].parent].open) addBox(static_cast<int>(i));
    pieces_.resize(graph_.edges.size());
    netOf_.resize(graph_.edges.size());
    netNames_.resize(graph_.edges.size());
    labelsOf_.resize(graph_.boxes.size());
    findBundles();
    planEdges();
    findWayBack();
    for (size_t i = graph_.boxes.size(); i-- > 0;) {  // containers come before their children
      if (!graph_.boxes[i].open) continue;
      if (cancel_.cancelled()) return Error{ErrorKind::Cancelled, "the layout was stopped", {}};
      finish(static_cast<int>(i));
    }
    if (cancel_.cancelled()) return Error{ErrorKind::Cancelled, "the layout was stopped", {}};
    finish(-1);
    return done();
  }

 private:
  struct Container {
    Level level;
    std::unordered_map<uint32_t, int> inPorts, outPorts;  ///< by value: the item
    std::unordered_map<uint64_t, std::vector<std::pair<int, uint32_t>>>
        known;                 ///< by from and to: edges and their nets
    double left = 0, top = 0;  ///< of the level inside the box
  };
  /// Where a level's points are in the drawing.
  struct Frame {
    Point origin;
    double sign = 1;  ///< -1: turned by half a circle
    Point at(Point p) const { return {origin.x + sign * p.x, origin.y + sign * p.y}; }
  };
  struct Piece {
    int container, edge;
  };

  Container& at(int box) { return containers_[box + 1]; }
  bool isDown() const { return options_.flow == Flow::Down; }
  /// In the container's level.
  LevelItem& itemOf(int box) { return at(graph_.boxes[box].parent).level.items[itemOf_[box]]; }

  void addBox(int i) {
    const Box& box = graph_.boxes[i];
    Rect size = box.open ? Rect{} : boxSize(box, options_.flow, wrapping_.letters);
    itemOf_[i] = isDown() ? at(box.parent).level.addItem(size.width, size.height)
                          : at(box.parent).level.addItem(size.height, size.width);
    setName(itemOf(i), nameOfBox(i));
  }

  /// Modules of both passes of a training step have one key.
  uint64_t nameOfBox(int box) const {
    constexpr uint64_t module = 1, backward = 2;
    if (box < 0) return 0;
    const Box& b = graph_.boxes[box];
    const uint64_t kind = (b.kind == BoxKind::Module ? module : 0) + (b.isInBackward ? backward : 0);
    return derivedName(std::hash<std::string>{}(b.key), kind, 0);
  }

  void setName(LevelItem& item, uint64_t name) const {
    item.name = name;
    if (options_.before) item.before = options_.before->placeOf(name).value_or(NAN);
  }

  /// `e` flows through it; `beyond`: the item outside of the container that it comes from or goes to.
  int port(int container, size_t e, bool in, const LevelItem& beyond) {
    auto& ports = in ? at(container).inPorts : at(container).outPorts;
    auto [it, isNew] = ports.try_emplace(netOf_[e], 0);
    if (!isNew) return it->second;
    Level& level = at(container).level;
    it->second = level.addItem(8, 0, in ? LevelItem::Kind::InPort : LevelItem::Kind::OutPort);
    LevelItem& item = level.items[it->second];
    constexpr uint64_t noStep = 1ULL << 40;  // a dummy of the container's edges has one
    setName(item, derivedName(nameOfBox(container), netNames_[e], noStep + (in ? 1 : 2)));
    if (std::isnan(item.before) && !beyond.isHint) {
      item.before = beyond.before;
      item.isHint = !std::isnan(item.before);
    }
    return it->second;
  }

  int edgeIn(int container, int from, int to, size_t e) {
    const uint32_t net = netOf_[e];
    Container& c = at(container);
    auto& list = c.known[uint64_t(uint32_t(from)) << 32 | uint32_t(to)];
    for (auto [edge, n] : list)
      if (n == net) return edge;
    LevelEdge edge;
    edge.from = from;
    edge.to = to;
    edge.net = net;
    edge.netName = netNames_[e];
    edge.joins = net >= firstBundle;
    int index = c.level.addEdge(std::move(edge));
    list.push_back({index, net});
    return index;
  }

  /// The boxes, or the open modules around them, between which an edge runs in the module that holds both.
  std::pair<int, int> endsOf(const VisibleEdge& edge) const {
    const int common = graph_.commonContainer(edge.from, edge.to);
    std::pair<int, int> ends{edge.from, edge.to};
    for (int* end : {&ends.first, &ends.second})
      while (graph_.boxes[*end].parent != common) *end = graph_.boxes[*end].parent;
    return ends;
  }

  /// What a forward pass keeps for its backward pass, for instance: very many values that run from one module to
  /// another share one way, which gathers them in the one and gives them out in the other.
  void findBundles() {
    constexpr size_t few = 5;
    std::map<uint64_t, std::vector<uint32_t>> values;  // by ends: edges
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      netOf_[e] = graph_.edges[e].value.index;
      netNames_[e] = derivedName(0, netOf_[e], 1);
      if (!options_.bundles) continue;
      const auto [from, to] = endsOf(graph_.edges[e]);
      const auto isSingle = [&](int box) { return graph_.boxes[box].nodeCount == 1 && graph_.boxes[box].repeat == 1; };
      if (isSingle(from) && isSingle(to)) continue;
      values[uint64_t(uint32_t(from)) << 32 | uint32_t(to)].push_back(static_cast<uint32_t>(e));
    }
    uint32_t next = firstBundle;
    for (const auto& [ends, edges] : values) {
      std::set<uint32_t> different;
      for (const uint32_t e : edges) different.insert(graph_.edges[e].value.index);
      if (different.size() <= few) continue;
      const uint64_t name =
          derivedName(nameOfBox(static_cast<int>(ends >> 32)), nameOfBox(static_cast<int>(ends & UINT32_MAX)), 2);
      for (const uint32_t e : edges) {
        netOf_[e] = next;
        netNames_[e] = name;
        valuesFrom_[{graph_.edges[e].from, next}].insert(graph_.edges[e].value.index);
      }
      ++next;
    }
  }

  /// What is said of an edge where it leaves its box.
  std::string labelOf(size_t e) const {
    const auto it = valuesFrom_.find({graph_.edges[e].from, netOf_[e]});
    if (it == valuesFrom_.end() || it->second.size() == 1) return graph_.edges[e].label;
    return std::to_string(it->second.size()) + " values";
  }

  void planEdges() {
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      const VisibleEdge& edge = graph_.edges[e];
      const int common = graph_.commonContainer(edge.from, edge.to);
      const auto [outerFrom, outerTo] = endsOf(edge);
      int from = edge.from;
      for (; graph_.boxes[from].parent != common; from = graph_.boxes[from].parent) {
        const int container = graph_.boxes[from].parent;
        const int out = port(container, e, false, itemOf(outerTo));
        pieces_[e].push_back({container, edgeIn(container, itemOf_[from], out, e)});
      }
      std::vector<Piece> inner;
      int to = edge.to;
      for (; graph_.boxes[to].parent != common; to = graph_.boxes[to].parent) {
        const int container = graph_.boxes[to].parent;
        const int in = port(container, e, true, itemOf(outerFrom));
        inner.push_back({container, edgeIn(container, in, itemOf_[to], e)});
      }
      pieces_[e].push_back({common, edgeIn(common, itemOf_[from], itemOf_[to], e)});
      pieces_[e].insert(pieces_[e].end(), inner.rbegin(), inner.rend());
      if (!isDown() && options_.labels && !edge.label.empty()) makeRoomForLabel(e, labelOf(e));
    }
  }

  /// In the model itself: what depends on the boxes of the backward pass, and what only such boxes read.
  void findWayBack() {
    turned_.assign(graph_.boxes.size(), 0);
    if (!options_.columns) return;
    Level& level = at(-1).level;
    bool isAny = false;
    for (int root : graph_.roots) isAny |= level.items[itemOf_[root]].isBack = graph_.boxes[root].isBackward;
    if (!isAny) return;
    for (bool isChanged = true; isChanged;) {
      isChanged = false;
      for (const LevelEdge& edge : level.edges)
        if (level.items[edge.from].isBack && !level.items[edge.to].isBack)
          isChanged = level.items[edge.to].isBack = true;
    }
    std::vector<char> isSource(level.items.size(), 1), isReadThere(level.items.size(), 0);
    std::vector<char> isRead(level.items.size(), 0);
    for (const LevelEdge& edge : level.edges) {
      isSource[edge.to] = 0;
      isRead[edge.from] = 1;
      if (!level.items[edge.to].isBack) isReadThere[edge.from] = 1;
    }
    for (size_t i = 0; i < level.items.size(); ++i)
      if (isSource[i] && isRead[i] && !isReadThere[i]) level.items[i].isBack = true;
    constexpr size_t mostOverTheTurn = 40;  // values: nobody could follow more
    std::set<std::pair<int, uint32_t>> over;
    for (const LevelEdge& edge : level.edges)
      if (!level.items[edge.from].isBack && level.items[edge.to].isBack) over.insert({edge.from, edge.net});
    if (over.size() > mostOverTheTurn) {
      for (LevelItem& item : level.items) item.isBack = false;
      return;
    }
    for (size_t i = 0; i < graph_.boxes.size(); ++i) {  // containers come before their children
      const int parent = graph_.boxes[i].parent;
      turned_[i] = parent < 0 ? level.items[itemOf_[i]].isBack : turned_[parent];
    }
  }

  /// Lines that run down have their labels beside them. Of those that run to the right, they stand below the boxes that
  /// they come from.
  void makeRoomForLabel(size_t e, const std::string& label) {
    constexpr double first = 13, line = Metrics::labelSize + 2, ends = 26;
    constexpr size_t most = 3;
    const VisibleEdge& edge = graph_.edges[e];
    LevelItem& item = itemOf(edge.from);
    if (graph_.boxes[edge.from].open) return;
    auto& labels = labelsOf_[edge.from];
    if (labels.size() == most || std::find(labels.begin(), labels.end(), label) != labels.end()) return;
    item.after += labels.empty() ? first + shadowOf(edge.from) : line;
    labels.push_back(label);
    LevelEdge& start = at(pieces_[e].front().container).level.edges[pieces_[e].front().edge];
    const double width = textWidth(label, Metrics::labelSize);
    if (width > item.height) start.labelLength = width - item.height + ends;
  }

  /// How far the sheets below a box that stands for several stick out.
  double shadowOf(int box) const { return graph_.boxes[box].repeat > 1 ? 5 : 0; }

  /// All children are done: places the level and tells the level above how large this is and where its ports are.
  void finish(int box) {
    Container& c = at(box);
    for (int child : box < 0 ? graph_.roots : graph_.boxes[box].children)
      if (graph_.boxes[child].open) fixPorts(c.level, itemOf_[child], at(child));
    constexpr double low = 2000, shortest = 3000;
    c.level.place({.labels = options_.labels,
                   .columns = options_.columns,
                   .shape = isDown() ? wrapping_.shape : 1 / wrapping_.shape,
                   .low = wrapping_.low * (isDown() ? low : shortest),
                   .slim = wrapping_.slim,
                   .early = wrapping_.early,
                   .tail = wrapping_.tail && box < 0,
                   .mirrored = box < 0});
    const double margin = Metrics::margin, header = box < 0 ? margin : Metrics::header + 4;
    // The title stays above where the rest is turned.
    const bool isTurned = box >= 0 && turned_[box];
    c.left = isDown() || isTurned ? margin : header;
    c.top = isDown() && !isTurned ? header : margin;
    if (box < 0) return;
    Box asClosed = graph_.boxes[box];
    asClosed.detail.clear();
    const double bold = 0.12 * textWidth(asClosed.title, Metrics::titleSize);  // wider than other titles
    const double titleWidth = boxSize(asClosed).width + bold;
    LevelItem& item = at(graph_.boxes[box].parent).level.items[itemOf_[box]];
    const double foot = c.outPorts.empty() ? margin : 2;
    item.width = c.left + c.level.width + (!isDown() && isTurned ? header : margin);
    item.height = c.top + c.level.height + (isDown() && isTurned ? header : foot);
    double& along = isDown() ? item.width : item.height;  // the side that the title stands on
    if (along >= titleWidth) return;
    (isDown() ? c.left : c.top) += (titleWidth - along) / 2;
    along = titleWidth;
  }

  void fixPorts(Level& outer, int item, Container& inner) {
    auto offset = [&](int port) { return inner.left + inner.level.items[port].x - outer.items[item].width / 2; };
    for (LevelEdge& edge : outer.edges) {
      if (edge.from == item)
        if (auto it = inner.outPorts.find(edge.net); it != inner.outPorts.end())
          edge.fromOffset = offset(it->second), edge.fromFixed = true;
      if (edge.to == item)
        if (auto it = inner.inPorts.find(edge.net); it != inner.inPorts.end())
          edge.toOffset = offset(it->second), edge.toFixed = true;
    }
  }

  Layout assemble() {
    Layout layout;
    layout.engine = "layered";
    layout.flow = options_.flow;
    layout.boxes.resize(graph_.boxes.size());
    std::vector<Frame> frames(graph_.boxes.size() + 1);  // of each container's level
    frames[0].origin = {at(-1).left, at(-1).top};
    for (size_t i = 0; i < graph_.boxes.size(); ++i) {
      if (itemOf_[i] < 0) continue;
      const int parent = graph_.boxes[i].parent;
      const LevelItem& item = at(parent).level.items[itemOf_[i]];
      const Frame& frame = frames[parent + 1];
      const Point a = frame.at({item.x - item.width / 2, item.y});
      const Point b = frame.at({item.x + item.width / 2, item.y + item.height});
      layout.boxes[i] = {std::min(a.x, b.x), std::min(a.y, b.y), item.width, item.height};
      if (!graph_.boxes[i].open) continue;
      const Container& c = at(static_cast<int>(i));
      const Rect& r = layout.boxes[i];
      if (turned_[i])
        frames[i + 1] = {{r.right() - c.left, r.bottom() - c.top}, -1};
      else
        frames[i + 1] = {{r.x + c.left, r.y + c.top}, 1};
    }
    layout.width = at(-1).level.width + 2 * Metrics::margin;
    layout.height = at(-1).level.height + 2 * Metrics::margin;
    if (!isDown()) {
      std::swap(layout.width, layout.height);
      for (Rect& r : layout.boxes) r = {r.y, r.x, r.height, r.width};
    }
    layout.edges.resize(graph_.edges.size());
    std::vector<std::vector<double>> startsOf(graph_.boxes.size());  // by box: where its edges leave
    for (size_t e = 0; options_.labels && isDown() && e < graph_.edges.size(); ++e) {
      const Piece& first = pieces_[e].front();
      const auto& stops = at(first.container).level.edges[first.edge].stops;
      if (!stops.empty()) startsOf[graph_.edges[e].from].push_back(frames[first.container + 1].at(stops.front()).x);
    }
    std::unordered_map<uint64_t, char> labelled;
    std::unordered_map<int, std::vector<size_t>> labelsFrom;  // by box: their numbers
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      std::vector<Point> stops;
      bool isFar = false;
      for (const Piece& piece : pieces_[e]) {
        const LevelEdge& edge = at(piece.container).level.edges[piece.edge];
        if (edge.isFar) stops.clear();  // what comes before does not lead here
        isFar |= edge.isFar;
        for (const Point p : edge.stops) stops.push_back(frames[piece.container + 1].at(p));
      }
      if (!stops.empty() && !isFar && !graph_.edges[e].label.empty() && options_.labels &&
          labelled.try_emplace(graph_.edges[e].value.index, 1).second) {
        std::string text = labelOf(e);
        const Point at = isDown() ? labelAt(graph_.edges[e], text, stops, startsOf[graph_.edges[e].from])
                                  : labelBelow(layout, graph_.edges[e], text);
        addLabel(layout, labelsFrom[graph_.edges[e].from], static_cast<int>(e), at, std::move(text));
      }
      layout.edges[e] = smoothPath(stops);
      if (!isDown())
        for (Point& p : layout.edges[e].points) std::swap(p.x, p.y);
    }
    clearLabels(graph_, layout);
    for (const Container& c : containers_)
      for (const LevelItem& item : c.level.items) layout.order.places.emplace_back(item.name, item.across);
    return layout;
  }

  /// Labels of one box stand side by side, or one below the other, equal ones once. `own`: the labels of that box.
  void addLabel(Layout& layout, std::vector<size_t>& own, int edge, Point at, std::string text) const {
    constexpr double between = 10, line = Metrics::labelSize + 2;
    constexpr size_t most = 16;
    const auto widthOf = [](const std::string& words) { return textWidth(words, Metrics::labelSize); };
    std::vector<const EdgeLabel*> others;
    for (auto it = own.rbegin(); it != own.rend() && others.size() < most; ++it) {
      others.push_back(&layout.labels[*it]);
      if (others.back()->text == text) return;
    }
    const double width = widthOf(text);
    for (bool moves = isDown(); moves;) {  // past one, it may stand on the next
      moves = false;
      for (const EdgeLabel* other : others) {
        const double end = other->at.x + widthOf(other->text) + between;
        if (at.x >= end || at.x + width < other->at.x) continue;
        at.x = end;
        moves = true;
      }
    }
    for (const EdgeLabel* other : others) {
      if (isDown()) break;
      at.y = turned_[graph_.edges[edge].from] ? std::min(at.y, other->at.y - line) : std::max(at.y, other->at.y + line);
    }
    own.push_back(layout.labels.size());
    layout.labels.push_back({edge, at, std::move(text)});
  }

  /// Beside the edge where it leaves its source, on the side that it does not bend to. Another edge of the source does
  /// not come between them, as far as there is a side without one. `starts`: where edges leave that source.
  Point labelAt(const VisibleEdge& edge, const std::string& text, const std::vector<Point>& stops,
                const std::vector<double>& starts) const {
    constexpr double aside = 5, straight = 3;
    double width = textWidth(text, Metrics::labelSize), bend = 0;
    for (size_t i = 1; i < stops.size() && bend == 0; ++i) bend = stops[i].x - stops[0].x;
    const auto isFree = [&](double from, double to) {
      return std::none_of(starts.begin(), starts.end(), [&](double x) { return x > from && x < to; });
    };
    const double x = stops[0].x;
    const bool isFreeLeft = isFree(x - aside - width, x - 1), isFreeRight = isFree(x + 1, x + aside + width);
    bool isLeft = bend > straight;
    if (isLeft ? !isFreeLeft && isFreeRight : !isFreeRight && isFreeLeft && bend > -straight) isLeft = !isLeft;
    const double y = turned_[edge.from] ? stops[0].y - 5 : stops[0].y + 12 + shadowOf(edge.from);
    return {isLeft ? x - aside - width : x + aside, y};
  }

  /// Near the end where the edge leaves; what is wider than the box sticks out there.
  Point labelBelow(const Layout& layout, const VisibleEdge& edge, const std::string& text) const {
    const Rect& box = layout.boxes[edge.from];
    const double width = textWidth(text, Metrics::labelSize);
    if (turned_[edge.from]) return {std::min(box.x + 2, box.right() - 2 - width), box.y - 5};
    return {std::max(box.x + 2, box.right() - 2 - width), box.bottom() + 11 + shadowOf(edge.from)};
  }

  const VisibleGraph& graph_;
  const LayoutOptions& options_;
  const Wrapping wrapping_;
  const CancelToken& cancel_;
  std::vector<Container> containers_;  ///< by box + 1
  std::vector<int> itemOf_;            ///< by box: its item in its container's level
  std::vector<char> turned_;           ///< by box: it runs up, or to the left
  std::vector<std::vector<Piece>> pieces_;
  std::vector<uint32_t> netOf_;     ///< by edge: its value, or its bundle from `firstBundle` on
  std::vector<uint64_t> netNames_;  ///< by edge: the same in each layout of the graph
  std::map<std::pair<int, uint32_t>, std::set<uint32_t>> valuesFrom_;  ///< by box and bundle
  std::vector<std::vector<std::string>> labelsOf_;                     ///< by box: those that have room below it
};

/// A pane of the usual shape.
constexpr double paneWidth = 1100, paneHeight = 760;

double scaleAtFit(const Layout& layout) { return std::min(paneWidth / layout.width, paneHeight / layout.height); }

/// At which most boxes have words.
double scaleForWords(const VisibleGraph& graph, Flow flow) {
  constexpr double most = 0.7;
  std::vector<double> needed;
  for (const Box& box : graph.boxes) {
    if (box.open) continue;
    const Rect size = boxSize(box, flow);
    const double word = textWidth(box.title.substr(0, SmallMetrics::fewest), SmallMetrics::letters) + 1;
    needed.push_back(std::max(SmallMetrics::lowest / size.height, word / size.width));
  }
  if (needed.empty()) return 0;
  const auto at = needed.begin() + static_cast<ptrdiff_t>(most * static_cast<double>(needed.size() - 1));
  std::nth_element(needed.begin(), at, needed.end());
  return *at;
}

}  // namespace

Result<LevelPlans> planLevels(const VisibleGraph& graph, const CancelToken& cancel) {
  const LayoutOptions options;
  Nested nested(graph, options, {}, cancel);
  if (Status s = nested.place(); !s) return s.error();
  return nested.plans();
}

namespace {

/// Of the ways to go on in columns, the one that shows most at fit.
Result<Layout> layoutInColumns(const VisibleGraph& graph, const LayoutOptions& options, const CancelToken& cancel) {
  // Of its size: what is shown larger stays as it is. One row in a high pane looks lost, however short it is.
  const double shown = options.flow == Flow::Down ? 0.6 : 0.9;
  const double small = options.flow == Flow::Down ? 0.3 : shown;  // there, all boxes have words
  constexpr double better = 1.1, muchBetter = 1.2, betterForWords = 1.03, betterByTail = 1.05;
  constexpr size_t most = 12000, mostAgain = 5000;  // boxes in all tries: more would be felt
  static constexpr std::array<Wrapping, 5> others{{{1, 2}, {2.0 / 3, 3.5}, {8.0 / 3, 3.5}, {0.4, 2.5}, {0.3, 3.5}}};
  // They break more of what is straight.
  static constexpr std::array<Wrapping, 4> forWords{{{2.0 / 3, 2, 2}, {0.3, 2, 2}, {2, 1.5}, {1, 1.5}}};
  // Smaller drawings have time for more.
  static constexpr std::array<Wrapping, 3> again{{{}, {0.6, 2}, {0.6, 1.5}}};
  Result<Layout> best = Nested(graph, options, {}, cancel).run();
  if (!options.columns || !best) return best;
  size_t laidOut = graph.boxes.size(), room = most;
  double scale = scaleAtFit(*best);
  Wrapping chosen;
  const auto attempt = [&](const Wrapping& other, double factor, double enough) -> Status {
    if (scale >= enough || laidOut + graph.boxes.size() > room) return done();
    laidOut += graph.boxes.size();
    if (other == Wrapping()) return done();  // that was the first one; it counts, so that no further one is tried
    Result<Layout> tried = Nested(graph, options, other, cancel).run();
    if (!tried) return tried.error();
    if (scaleAtFit(*tried) < factor * scale) return done();
    scale = scaleAtFit(*tried);
    best = std::move(tried);
    chosen = other;
    return done();
  };
  const double legible = scaleForWords(graph, options.flow);
  const auto tryAll = [&](std::span<const Wrapping> wrappings, double factor, double enough, bool early) -> Status {
    for (Wrapping other : wrappings) {
      other.early = early;
      if (Status s = attempt(other, scale < small ? factor : muchBetter, enough); !s) return s;
    }
    return done();
  };
  if (Status s = tryAll(others, better, shown, false); !s) return s.error();
  if (Status s = tryAll(forWords, betterForWords, legible, false); !s) return s.error();
  room = mostAgain;
  for (const bool early : {false, true}) {
    if (Status s = tryAll(again, better, shown, early); !s) return s.error();
  }
  if (Status s = tryAll(others, better, shown, true); !s) return s.error();
  room = most;
  Wrapping tailed = chosen;
  tailed.tail = true;
  if (Status s = attempt(tailed, betterByTail, shown); !s) return s.error();
  // As tall as before, and as wide as its words are there.
  constexpr double usual = SmallMetrics::letters / Metrics::detailSize, widest = 1.6, few = 1.05, nearly = 0.995;
  chosen.letters = std::min({usual / scale, paneWidth / (scale * best->width), widest});
  if (!options.wide || options.flow != Flow::Down || chosen.letters < few || graph.boxes.size() > mostAgain)
    return best;
  Result<Layout> tried = Nested(graph, options, chosen, cancel).run();
  if (!tried) return tried.error();
  return scaleAtFit(*tried) >= nearly * scale ? std::move(tried) : std::move(best);
}

}  // namespace

Result<Layout> layoutLayered(const VisibleGraph& graph, const LayoutOptions& options, const CancelToken& cancel) {
  Result<Layout> layout = layoutInColumns(graph, options, cancel);
  if (layout) std::sort(layout->order.places.begin(), layout->order.places.end());
  return layout;
}

}  // namespace graft
