#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/growth.h"
#include "tests/views/support/layout_quality.h"
#include "tests/views/support/sample_graphs.h"
#include "views/layout/edge_labels.h"
#include "views/layout/layered/level.h"
#include "views/layout/layout.h"

using namespace graft;

namespace {

bool overlap(const Rect& a, const Rect& b) {
  return a.x < b.right() - 0.5 && b.x < a.right() - 0.5 && a.y < b.bottom() - 0.5 && b.y < a.bottom() - 0.5;
}

/// Nothing overlaps that does not hold the other; children lie inside; every edge is drawn between its boxes' borders.
void checkLayout(const VisibleGraph& view, const Layout& layout) {
  REQUIRE(layout.boxes.size() == view.boxes.size());
  REQUIRE(layout.edges.size() == view.edges.size());
  int overlaps = 0, outside = 0, loose = 0;
  for (size_t i = 0; i < view.boxes.size(); ++i) {
    const Rect& r = layout.boxes[i];
    int parent = view.boxes[i].parent;
    Rect outer = parent < 0 ? Rect{0, 0, layout.width, layout.height} : layout.boxes[parent];
    outside += r.x < outer.x - 0.5 || r.y < outer.y - 0.5 || r.right() > outer.right() + 0.5 ||
               r.bottom() > outer.bottom() + 0.5;
    for (size_t k = 0; k < i; ++k) overlaps += view.boxes[k].parent == parent && overlap(r, layout.boxes[k]);
  }
  for (size_t e = 0; e < view.edges.size(); ++e) {
    const auto& points = layout.edges[e].points;
    if (points.size() < 4) {
      ++loose;
      continue;
    }
    const Rect &from = layout.boxes[view.edges[e].from], &to = layout.boxes[view.edges[e].to];
    const Point a = points.front(), b = points.back();
    if (layout.flow == Flow::Right) {
      loose += std::abs(a.x - from.right()) > 1 || a.y < from.y || a.y > from.bottom();
      loose += std::abs(b.x - to.x) > 1 || b.y < to.y || b.y > to.bottom();
      continue;
    }
    loose += std::abs(a.y - from.bottom()) > 1 || a.x < from.x || a.x > from.right();
    loose += std::abs(b.y - to.y) > 1 || b.x < to.x || b.x > to.right();
  }
  CHECK(overlaps == 0);
  CHECK(outside == 0);
  CHECK(loose == 0);
}

/// Labels that stand on a box or on another label.
int labelsOnOthers(const VisibleGraph& view, const Layout& layout) {
  int wrong = 0;
  for (size_t i = 0; i < layout.labels.size(); ++i) {
    const Rect text = labelRect(layout.labels[i]);
    for (size_t k = 0; k < i; ++k) wrong += overlap(text, labelRect(layout.labels[k]));
    for (size_t b = 0; b < view.boxes.size(); ++b) wrong += !view.boxes[b].open && overlap(text, layout.boxes[b]);
  }
  return wrong;
}

int boxNamed(const VisibleGraph& view, std::string_view key) {
  for (size_t i = 0; i < view.boxes.size(); ++i)
    if (view.boxes[i].key == key) return static_cast<int>(i);
  return -1;
}

}  // namespace

TEST_CASE("an encoder's six equal layers are one block with a badge, and open in full when unfolded") {
  Graph g = test::encoder(6);
  VisibleGraph view = makeVisibleGraph(g, {.depth = 1});
  int layer = boxNamed(view, "encoder.layer.0");
  REQUIRE(layer >= 0);
  CHECK(view.boxes[layer].repeat == 6);
  CHECK(view.boxes[layer].title == "layer.0");
  CHECK_FALSE(view.boxes[layer].open);
  CHECK(boxNamed(view, "encoder.layer.1") < 0);
  CHECK(boxNamed(makeVisibleGraph(g, {.depth = 1, .unfolded = {"encoder.layer.0"}}), "encoder.layer.5") >= 0);
}

TEST_CASE("a value that every layer of a flat graph uses costs no more than the graph is long") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
  const OperatorRef add = *parseSchema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  ValueId last = x;
  constexpr int count = 20'000;
  for (int i = 0; i < count; ++i)
    last = g.output(g.append(g.root(), add, {Argument(last), Argument(x), Argument(int64_t{1})}));
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g, {.depth = 0});
  const Result<Layout> layout = layoutGraph(view, {});
  REQUIRE(layout);
  size_t points = 0, stubs = 0, loose = 0;
  for (size_t e = 0; e < view.edges.size(); ++e) {
    const auto& way = layout->edges[e].points;
    points += way.size();
    REQUIRE(way.size() >= 4);
    const Rect& to = layout->boxes[static_cast<size_t>(view.edges[e].to)];
    loose += std::abs(way.back().y - to.y) > 1 || way.back().x < to.x || way.back().x > to.right();
    stubs += std::abs(way.front().y - way.back().y) < 20 && view.edges[e].from == 0;
  }
  CHECK(loose == 0);
  CHECK(stubs > count * 9 / 10);
  CHECK(points < size_t{count} * 40);
}

TEST_CASE("every node has a box, those of hidden repeats that of their twin") {
  Graph g = test::encoder(3);
  VisibleGraph view = makeVisibleGraph(g, {.depth = -1});
  for (NodeId id : g.order()) CHECK(view.boxOfNode[id.index] >= 0);
  CHECK(view.boxOfNode[g.findNode("softmax").index] == view.boxOfNode[g.findNode("softmax_2").index]);
}

TEST_CASE("very many inputs or outputs are one bundle, and come out of it when unfolded") {
  const auto count = [](const VisibleGraph& view, BoxKind kind) {
    return std::count_if(view.boxes.begin(), view.boxes.end(), [&](const Box& b) { return b.kind == kind; });
  };
  const Graph few = test::manyEnds(20), many = test::manyEnds(200);
  CHECK(count(makeVisibleGraph(few), BoxKind::Input) == 21);
  CHECK(count(makeVisibleGraph(few), BoxKind::Output) == 20);
  const VisibleGraph view = makeVisibleGraph(many);
  CHECK(count(view, BoxKind::Input) == 2);  // x is another kind of input
  CHECK(count(view, BoxKind::Output) == 2);
  CHECK(view.bundled.size() == 200);
  const auto bundle =
      std::find_if(view.boxes.begin(), view.boxes.end(), [](const Box& b) { return b.key == "inputs p_"; });
  REQUIRE(bundle != view.boxes.end());
  CHECK(bundle->repeat == 200);
  CHECK(bundle->detail == "p_0 to p_199");
  // Each sum is still joined to x, to the bundle and to an output.
  CHECK(view.edges.size() == 3 * 200);
  Result<Layout> layout = layoutGraph(view);
  REQUIRE(layout);
  checkLayout(view, *layout);
  ViewOptions all;
  all.unfolded = {"inputs p_", "outputs others"};
  CHECK(count(makeVisibleGraph(many, all), BoxKind::Input) == 201);
  CHECK(count(makeVisibleGraph(many, all), BoxKind::Output) == 200);
  CHECK(count(makeVisibleGraph(many, {.foldRepeats = false}), BoxKind::Input) == 201);
}

TEST_CASE("weights are chips of their users and sizes are left out") {
  Graph g = test::encoder(1);
  VisibleGraph view = makeVisibleGraph(g, {.depth = -1});
  int linear = boxNamed(view, "linear");
  REQUIRE(linear >= 0);
  CHECK(view.boxes[linear].chips == std::vector<std::string>{"weight", "bias"});
  CHECK(view.boxes[linear].detail == "384 → 384");
  CHECK(view.boxes[linear].name == "query");
  CHECK(boxNamed(view, "size") < 0);
  CHECK(boxNamed(makeVisibleGraph(g, {.depth = -1, .showScalars = true}), "size") >= 0);
}

TEST_CASE("a module opened by path shows its children whatever the depth") {
  Graph g = test::encoder(2);
  VisibleGraph view = makeVisibleGraph(g, {.depth = 0, .opened = {"embeddings"}});
  int embeddings = boxNamed(view, "embeddings");
  CHECK(view.boxes[embeddings].open);
  CHECK(view.boxes[embeddings].children.size() >= 4);
  CHECK_FALSE(view.boxes[boxNamed(view, "encoder")].open);
}

TEST_CASE("the layered layout overlaps nothing and joins every edge to its boxes") {
  Graph g = test::encoder(3);
  for (int depth : {0, 1, 2, 3, -1}) {
    VisibleGraph view = makeVisibleGraph(g, {.depth = depth, .foldRepeats = depth != 3});
    Result<Layout> layout = layoutLayered(view);
    REQUIRE(layout);
    checkLayout(view, *layout);
    CHECK(labelsOnOthers(view, *layout) == 0);
    CHECK(layout->labels.size() > view.edges.size() / 3);
  }
  VisibleGraph random = makeVisibleGraph(test::randomGraph(300));
  Result<Layout> layout = layoutLayered(random);
  REQUIRE(layout);
  checkLayout(random, *layout);
}

TEST_CASE("what flows straight on runs straight down, and equal layers stand one below the other") {
  for (int layers : {3, 12}) {
    const VisibleGraph view = makeVisibleGraph(test::encoder(layers), {.depth = 2, .foldRepeats = false});
    const Result<Layout> layout = layoutLayered(view, {.columns = false});
    REQUIRE(layout);
    const test::LayoutQuality quality = test::qualityOf(view, *layout);
    CHECK(quality.straightness > 0.9);
    for (int i = 1; i < layers; ++i) {
      const int above = boxNamed(view, "encoder.layer." + std::to_string(i - 1));
      const int below = boxNamed(view, "encoder.layer." + std::to_string(i));
      CHECK(std::abs(layout->boxes[above].centerX() - layout->boxes[below].centerX()) < 1);
    }
  }
}

TEST_CASE("a chain is one vertical line, and so is one that a shortcut passes by") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  const OperatorRef add = *parseSchema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  ValueId last = x;
  for (int block = 0; block < 3; ++block) {
    const ValueId before = last;
    for (int i = 0; i < 4; ++i) last = g.output(g.append(g.root(), relu, {Argument(last)}));
    last = g.output(g.append(g.root(), add, {Argument(last), Argument(before), Argument(int64_t{1})}));
  }
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g);
  const Result<Layout> layout = layoutLayered(view);
  REQUIRE(layout);
  checkLayout(view, *layout);
  for (const Rect& box : layout->boxes) CHECK(std::abs(box.centerX() - layout->boxes[0].centerX()) < 0.5);
}

TEST_CASE("what is much taller than wide goes on in columns, and every edge still joins its boxes") {
  const VisibleGraph view = makeVisibleGraph(test::encoder(12), {.depth = -1, .foldRepeats = false});
  const Result<Layout> whole = layoutLayered(view, {.columns = false}), cut = layoutLayered(view);
  REQUIRE((whole && cut));
  checkLayout(view, *whole);
  checkLayout(view, *cut);
  CHECK(whole->height > 5 * whole->width);
  CHECK(cut->height < 2 * cut->width);
  const test::LayoutQuality before = test::qualityOf(view, *whole), after = test::qualityOf(view, *cut);
  CHECK(after.fitScale > 2 * before.fitScale);
  CHECK(after.crossings <= before.crossings + 24);
}

TEST_CASE("columns keep the edges of random graphs with skips on their boxes") {
  for (unsigned seed : {1u, 2u, 3u}) {
    Graph g;
    const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
    const OperatorRef add = *parseSchema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
    std::vector<ValueId> values{g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}))};
    for (unsigned i = 0, random = seed; i < 120; ++i) {
      random = random * 1664525u + 1013904223u;
      const ValueId last = values.back(),
                    earlier = values[values.size() - 1 - std::min<size_t>(values.size() - 1, random >> 28)];
      values.push_back(
          g.output(random >> 30 ? g.append(g.root(), relu, {Argument(last)})
                                : g.append(g.root(), add, {Argument(last), Argument(earlier), Argument(int64_t{1})})));
    }
    g.setReturns(g.root(), {Argument(values.back())});
    const VisibleGraph view = makeVisibleGraph(g);
    const Result<Layout> layout = layoutLayered(view);
    REQUIRE(layout);
    CHECK(layout->height < 3 * layout->width);
    checkLayout(view, *layout);
  }
}

TEST_CASE("a drawing that runs to the right overlaps nothing, joins every edge, and goes on in rows") {
  const Graph g = test::encoder(12);
  for (int depth : {0, 1, 2, -1}) {
    const VisibleGraph view = makeVisibleGraph(g, {.depth = depth, .foldRepeats = depth != -1});
    for (bool columns : {false, true}) {
      const Result<Layout> layout = layoutLayered(view, {.columns = columns, .flow = Flow::Right});
      REQUIRE(layout);
      checkLayout(view, *layout);
      // Shapes stand between boxes, not on them.
      CHECK(labelsOnOthers(view, *layout) == 0);
      CHECK(layout->labels.size() > view.edges.size() / 3);
      if (depth != -1) continue;
      if (columns)
        CHECK(layout->width < 4 * layout->height);
      else
        CHECK(layout->width > 10 * layout->height);
    }
  }
  const VisibleGraph random = makeVisibleGraph(test::randomGraph(300));
  const Result<Layout> layout = layoutLayered(random, {.flow = Flow::Right});
  REQUIRE(layout);
  checkLayout(random, *layout);
}

TEST_CASE("a long chain that runs to the right goes on in rows that fill a pane, and has words at fit") {
  const auto quality = [](Flow flow, const Graph& g) {
    const VisibleGraph view = makeVisibleGraph(g, {.depth = -1, .foldRepeats = false});
    const Result<Layout> layout = layoutLayered(view, {.flow = flow});
    REQUIRE(layout);
    checkLayout(view, *layout);
    return test::qualityOf(view, *layout);
  };
  for (const int layers : {2, 6}) {
    const Graph g = test::encoder(layers);
    const test::LayoutQuality right = quality(Flow::Right, g), down = quality(Flow::Down, g);
    CHECK(right.width < 3.5 * right.height);
    CHECK(right.readable > down.readable - 0.25);
    CHECK(right.fitScale > 0.7 * down.fitScale);
  }
}

TEST_CASE("stages of long blocks, as of a vision transformer, have words at fit") {
  Graph g;
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  const OperatorRef add = *parseSchema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  ValueId last = g.addInput("x", Type::tensor(DType::Float32, {Dim(4), Dim(56), Dim(56)}));
  const auto call = [&](const OperatorRef& op, std::vector<Argument> args, ModuleCallId module) {
    const NodeId node = g.append(g.root(), op, std::move(args));
    g.setModule(node, module);
    g.setType(g.output(node), Type::tensor(DType::Float32, {Dim(4), Dim(56), Dim(56)}));
    last = g.output(node);
  };
  constexpr std::array<int, 4> blocks{2, 2, 6, 2};
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::string name = "stage." + std::to_string(stage);
    const ModuleCallId outer = g.addModuleCall({}, name, "Stage");
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::string path = name + "." + std::to_string(i);
      const ModuleCallId block = g.addModuleCall(outer, path, "Block");
      for (const auto& [part, length] : {std::pair{".attn", 22}, {".mlp", 4}}) {
        const ValueId before = last;
        const ModuleCallId module = g.addModuleCall(block, path + part, "Part");
        for (int k = 0; k < length; ++k) call(relu, {Argument(last)}, module);
        call(add, {Argument(before), Argument(last), Argument(int64_t{1})}, block);
      }
    }
  }
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g, {.depth = -1, .foldRepeats = false});
  const Result<Layout> layout = layoutLayered(view);
  REQUIRE(layout);
  checkLayout(view, *layout);
  CHECK(test::qualityOf(view, *layout).readable > 0.5);
}

TEST_CASE("a short chain that runs to the right fills a pane better in two rows than in one") {
  Graph g;
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  ValueId last = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
  for (int i = 0; i < 14; ++i) last = g.output(g.append(g.root(), relu, {Argument(last)}));
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g);
  const Result<Layout> one = layoutLayered(view, {.columns = false, .flow = Flow::Right});
  const Result<Layout> rows = layoutLayered(view, {.flow = Flow::Right});
  REQUIRE((one && rows));
  checkLayout(view, *rows);
  CHECK(test::qualityOf(view, *rows).fitScale > 1.3 * test::qualityOf(view, *one).fitScale);
}

TEST_CASE("what follows a module that is nearly all of a drawing is no strip beside it") {
  Graph g = test::encoder(12);
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  ValueId last = *g.returns().front().as<ValueId>();
  for (int i = 0; i < 8; ++i) last = g.output(g.append(g.root(), relu, {Argument(last)}));
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g, {.depth = -1, .flow = Flow::Right});
  const Result<Layout> layout = layoutLayered(view, {.flow = Flow::Right});
  REQUIRE(layout);
  checkLayout(view, *layout);
  const Rect& encoder = layout->boxes[static_cast<size_t>(boxNamed(view, "encoder"))];
  const Rect& end = layout->boxes[static_cast<size_t>(boxNamed(view, "output 0"))];
  CHECK(end.x < encoder.right());
  CHECK(end.y > encoder.bottom());
}

TEST_CASE("a layer that is too tall for the rest of a column begins the next one") {
  // As masks and embeddings stand above an encoder.
  const auto placed = [](bool early) {
    Level level;
    int last = level.addItem(200, 40);
    for (int i = 0; i < 4; ++i) {
      const int next = level.addItem(200, 40);
      level.addEdge({.from = last, .to = next, .net = static_cast<uint32_t>(i)});
      last = next;
    }
    level.addEdge({.from = last, .to = level.addItem(400, 900), .net = 9});
    level.place({.columns = true, .low = 500, .slim = 2, .early = early});
    return level;
  };
  const Level whole = placed(false), cut = placed(true);
  CHECK(whole.items.back().y > 300);
  CHECK(cut.items.back().y < 100);
  CHECK(cut.items.back().x - 200 > 200);
  CHECK(cut.height < 0.8 * whole.height);
}

TEST_CASE("what is shown large at fit keeps its one column") {
  Graph g;
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  ValueId last = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
  for (int i = 0; i < 14; ++i) last = g.output(g.append(g.root(), relu, {Argument(last)}));
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g);
  const Result<Layout> layout = layoutLayered(view);
  REQUIRE(layout);
  REQUIRE(test::qualityOf(view, *layout).fitScale > 0.6);
  CHECK(test::qualityOf(view, *layout).straightness == 1);
}

TEST_CASE("to the right, boxes leave out their names and shapes stand below them") {
  const VisibleGraph view = makeVisibleGraph(test::encoder(1), {.depth = -1});
  Box named, nameless;
  named.title = nameless.title = "softmax";
  named.name = "softmax_of_the_last_layer";
  CHECK(boxSize(named).width > boxSize(nameless).width);
  CHECK(boxSize(named, Flow::Right).width == boxSize(nameless, Flow::Right).width);
  const Result<Layout> layout = layoutLayered(view, {.flow = Flow::Right});
  REQUIRE(layout);
  size_t below = 0;
  for (const EdgeLabel& label : layout->labels) {
    const Rect& from = layout->boxes[static_cast<size_t>(view.edges[static_cast<size_t>(label.edge)].from)];
    below += label.at.y > from.bottom() && label.at.y < from.bottom() + 45 && label.at.x >= from.x;
  }
  CHECK(below > layout->labels.size() * 9 / 10);
}

TEST_CASE("the output stands where its edge leaves the model's module, not below the input") {
  for (const Flow flow : {Flow::Down, Flow::Right}) {
    const VisibleGraph view = makeVisibleGraph(test::encoder(12), {.depth = -1, .foldRepeats = false});
    const Result<Layout> layout = layoutLayered(view, {.flow = flow});
    REQUIRE(layout);
    for (size_t e = 0; e < view.edges.size(); ++e) {
      const int to = view.edges[e].to;
      if (view.boxes[static_cast<size_t>(to)].kind != BoxKind::Output) continue;
      int outermost = view.edges[e].from;
      while (view.boxes[static_cast<size_t>(outermost)].parent >= 0)
        outermost = view.boxes[static_cast<size_t>(outermost)].parent;
      const Rect &module = layout->boxes[static_cast<size_t>(outermost)], &box = layout->boxes[static_cast<size_t>(to)];
      for (const Point& p : layout->edges[e].points) {
        const bool isOutside = flow == Flow::Down ? p.y > module.bottom() - 1 : p.x > module.right() - 1;
        if (isOutside) CHECK(std::abs(flow == Flow::Down ? p.x - box.centerX() : p.y - box.y - box.height / 2) < 1);
      }
    }
  }
}

TEST_CASE("what follows the last module stands below the place where that gives its result") {
  Level level;
  const int input = level.addItem(80, 46), module = level.addItem(400, 300), output = level.addItem(80, 46);
  level.addEdge({.from = input, .to = module, .net = 1, .toOffset = -100, .toFixed = true, .stops = {}});
  level.addEdge({.from = module, .to = output, .net = 2, .fromOffset = 50, .fromFixed = true, .stops = {}});
  level.place({});
  const double middle = level.items[static_cast<size_t>(module)].x;
  CHECK(std::abs(level.items[static_cast<size_t>(input)].x - (middle - 100)) < 0.5);
  CHECK(std::abs(level.items[static_cast<size_t>(output)].x - (middle + 50)) < 0.5);
}

TEST_CASE("the frame of an open module has room for its name and its count") {
  VisibleGraph view = makeVisibleGraph(test::encoder(6), {.depth = -1});
  for (Box& box : view.boxes)
    if (box.open) box.title = box.name = "the_name_of_a_long_layer", box.repeat = 2;
  for (const Flow flow : {Flow::Down, Flow::Right}) {
    const Result<Layout> layout = layoutLayered(view, {.flow = flow});
    REQUIRE(layout);
    for (size_t i = 0; i < view.boxes.size(); ++i) {
      const Box& box = view.boxes[i];
      if (!box.open) continue;
      constexpr double bold = 1.1, ends = 24, count = 40;
      const double needs = textWidth(box.title, Metrics::titleSize) * bold + ends + (box.repeat > 1 ? count : 0);
      CHECK(layout->boxes[i].width >= std::min(needs, Metrics::maxWidth));
    }
  }
}

TEST_CASE("a chain that runs to the right is one horizontal line, and its arrows point there") {
  Graph g;
  ValueId last = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  for (int i = 0; i < 5; ++i) last = g.output(g.append(g.root(), relu, {Argument(last)}));
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g);
  const Result<Layout> layout = layoutLayered(view, {.flow = Flow::Right});
  REQUIRE(layout);
  const auto middle = [&](size_t i) { return layout->boxes[i].y + layout->boxes[i].height / 2; };
  for (size_t i = 1; i < layout->boxes.size(); ++i) {
    CHECK(std::abs(middle(i) - middle(0)) < 0.5);
    CHECK(layout->boxes[i].x > layout->boxes[i - 1].right());
  }
  for (const EdgePath& edge : layout->edges) {
    const auto [tip, a, b] = arrowHead(edge);
    CHECK((a.x < tip.x && a.x == b.x));
  }
}

TEST_CASE("a table that is filled in place is constant, unless something of an input is written to it") {
  const auto build = [](bool writesInput) {
    Graph g;
    const auto op = [](const char* name) {  // as the window reads them: a name and no schema
      Operator made = *unknownOperator(name);
      made.sideEffects = false;
      made.returns.emplace_back();
      return std::make_shared<const Operator>(std::move(made));
    };
    const Type type = Type::tensor(DType::Float32, {Dim(4)});
    const ValueId x = g.addInput("x", type), w = g.addWeight("w", type, nullptr);
    const auto call = [&](const char* name, std::vector<Argument> args, const char* called) {
      return g.output(g.append(g.root(), op(name), std::move(args), called));
    };
    const ValueId table = call("aten.new_zeros.default", {Argument(x)}, "table");
    const ValueId part = call("aten.slice.Tensor", {Argument(table), Argument(int64_t{0})}, "part");
    call("aten.fill_.Tensor", {Argument(part), Argument(writesInput ? x : w)}, "filled");
    const ValueId rows = call("aten.view.default", {Argument(table)}, "rows");
    g.setReturns(g.root(), {Argument(call("aten.add.Tensor", {Argument(x), Argument(rows)}, "sum"))});
    return g;
  };
  const VisibleGraph constant = makeVisibleGraph(build(false)), written = makeVisibleGraph(build(true));
  const int fold = boxNamed(constant, "rows");
  REQUIRE(fold >= 0);
  CHECK(constant.boxes[fold].fold == Fold::Constant);
  CHECK(constant.boxes[fold].repeat == 4);
  // Of x it takes the size alone: no edge leads there.
  CHECK(std::none_of(constant.edges.begin(), constant.edges.end(), [&](const VisibleEdge& e) { return e.to == fold; }));
  for (const char* name : {"table", "part", "filled", "rows"}) {
    const int box = boxNamed(written, name);
    REQUIRE(box >= 0);
    CHECK(written.boxes[box].fold == Fold::None);
  }
}

TEST_CASE("what a forward pass keeps for its backward pass runs there on one way") {
  // A chain of calls in one module, and one in another that takes each of their results, the last one first.
  Graph g;
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  const OperatorRef add = *parseSchema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  const ModuleCallId forward = g.addModuleCall({}, "forward", "Net"), backward = g.addModuleCall({}, "backward", "Net");
  const auto call = [&](const OperatorRef& op, std::vector<Argument> args, ModuleCallId module) {
    const NodeId node = g.append(g.root(), op, std::move(args));
    g.setModule(node, module);
    g.setType(g.output(node), Type::tensor(DType::Float32, {Dim(4)}));
    return g.output(node);
  };
  std::vector<ValueId> kept{g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}))};
  constexpr int count = 20;
  for (int i = 0; i < count; ++i) kept.push_back(call(relu, {Argument(kept.back())}, forward));
  ValueId last = g.addInput("tangent", Type::tensor(DType::Float32, {Dim(4)}));
  for (; kept.size() > 1; kept.pop_back())
    last = call(add, {Argument(last), Argument(kept.back()), Argument(int64_t{1})}, backward);
  g.setReturns(g.root(), {Argument(last)});
  for (const Flow flow : {Flow::Down, Flow::Right}) {
    const VisibleGraph view = makeVisibleGraph(g, {.depth = -1, .flow = flow});
    // Where edges leave the frame of the first module.
    const auto ways = [&](bool bundles) {
      const Result<Layout> layout = layoutGraph(view, {.bundles = bundles, .columns = false, .flow = flow});
      REQUIRE(layout);
      checkLayout(view, *layout);
      const int forwards = boxNamed(view, "forward"), backwards = boxNamed(view, "backward");
      const Rect& frame = layout->boxes[static_cast<size_t>(forwards)];
      std::set<long> at;
      for (size_t e = 0; e < view.edges.size(); ++e)
        for (size_t i = 0; i < layout->edges[e].points.size(); i += 3) {
          if (view.boxes[view.edges[e].from].parent != forwards || view.boxes[view.edges[e].to].parent != backwards)
            continue;
          const Point p = layout->edges[e].points[i];
          if (flow == Flow::Down && std::abs(p.y - frame.bottom()) < 0.5) at.insert(std::lround(p.x));
          if (flow == Flow::Right && std::abs(p.x - frame.right()) < 0.5) at.insert(std::lround(p.y));
        }
      return at.size();
    };
    CHECK(ways(false) == count);
    CHECK(ways(true) == 1);
  }
  // Closed, it says how many values run there.
  const Result<Layout> closed = layoutGraph(makeVisibleGraph(g, {.depth = 0}));
  REQUIRE(closed);
  CHECK(std::any_of(closed->labels.begin(), closed->labels.end(),
                    [](const EdgeLabel& label) { return label.text == "20 values"; }));
}

TEST_CASE("a module of the backward pass says so, and what is in it does not say it again") {
  const auto titles = [](const char* second) {
    Graph g;
    const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
    ValueId last = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
    const auto addPass = [&] {
      const ModuleCallId outer = g.addModuleCall({}, "model", "Net");
      for (const char* path : {"model.a", "model.b"}) {
        const ModuleCallId module = g.addModuleCall(outer, path, "Block");
        for (int i = 0; i < 2; ++i) {
          const NodeId node = g.append(g.root(), relu, {Argument(last)});
          g.setModule(node, module);
          last = g.output(node);
        }
      }
    };
    addPass();
    g.addInput(second, Type::tensor(DType::Float32, {Dim(4)}));
    addPass();
    g.setReturns(g.root(), {Argument(last)});
    std::multiset<std::string> out;
    for (const Box& box : makeVisibleGraph(g, {.depth = -1, .foldRepeats = false}).boxes)
      if (box.kind == BoxKind::Module) out.insert(box.title);
    return out;
  };
  CHECK(titles("tangents_1") == std::multiset<std::string>{"a", "a", "b", "b", "model", "model, backward"});
  CHECK(titles("y") == std::multiset<std::string>{"a", "a", "b", "b", "model", "model"});
}

TEST_CASE("a convolution says what is not usual of it") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor(DType::Float32, {Dim(1), Dim(3), Dim(8), Dim(8)}));
  const auto detail = [&](const char* schema, std::vector<Dim> kernel, std::vector<Argument> args) {
    const ValueId w = g.addWeight("w", Type::tensor(DType::Float32, std::move(kernel)), nullptr);
    args.insert(args.begin(), {Argument(x), Argument(w), Argument()});
    return describeNode(g, g.node(g.append(g.root(), *parseSchema(schema), std::move(args)))).detail;
  };
  const char* const two =
      "aten::conv2d(Tensor input, Tensor weight, Tensor? bias, SymInt[2] stride, SymInt[2] padding, SymInt[2] "
      "dilation, SymInt groups) -> Tensor";
  CHECK(detail(two, {Dim(16), Dim(3), Dim(7), Dim(7)},
               {Argument::ints({2, 2}), Argument::ints({3, 3}), Argument::ints({1, 1}), Argument(int64_t{1})}) ==
        "3 → 16, 7×7, stride=2, padding=3");
  CHECK(detail(two, {Dim(16), Dim(1), Dim(3), Dim(3)},
               {Argument::ints({1, 2}), Argument::ints({0, 0}), Argument::ints({2, 2}), Argument(int64_t{16})}) ==
        "1 → 16, 3×3, stride=[1, 2], dilation=2, groups=16");
  CHECK(detail("aten::conv1d(Tensor input, Tensor weight, Tensor? bias, SymInt[1] stride, SymInt[1] padding) -> Tensor",
               {Dim(16), Dim(3), Dim(3)}, {Argument::ints({1}), Argument::ints({1})}) == "3 → 16, kernel 3, padding=1");
}

TEST_CASE("what depends on weights alone, and what nothing uses, is one box each, and comes out of it when unfolded") {
  Graph g;
  const ValueId x = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
  const ValueId table = g.addWeight("table", Type::tensor(DType::Float32, {Dim(4)}), nullptr);
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  const OperatorRef add = *parseSchema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  const OperatorRef write = *parseSchema("aten::relu_(Tensor(a!) self) -> Tensor(a!)");
  const auto call = [&](const OperatorRef& op, std::vector<Argument> args, const char* name) {
    return g.output(g.append(g.root(), op, std::move(args), name));
  };
  const ValueId a = call(relu, {Argument(table)}, "bias_0"), b = call(relu, {Argument(a)}, "bias_1");
  const ValueId sum = call(add, {Argument(x), Argument(b), Argument(int64_t{1})}, "sum");
  const ValueId lost = call(relu, {Argument(sum)}, "lost_0");
  call(relu, {Argument(lost)}, "lost_1");
  const ValueId alone = call(relu, {Argument(table)}, "alone");  // one is no less than a box
  const ValueId end = call(add, {Argument(sum), Argument(alone), Argument(int64_t{1})}, "end");
  const ValueId kept = call(relu, {Argument(x)}, "kept");
  call(write, {Argument(kept)}, "written");  // what writes is never unused
  g.setReturns(g.root(), {Argument(end)});
  const VisibleGraph view = makeVisibleGraph(g);
  const int constant = boxNamed(view, "bias_1"), unused = boxNamed(view, "lost_1");
  REQUIRE((constant >= 0 && unused >= 0));
  CHECK(view.boxes[constant].fold == Fold::Constant);
  CHECK(view.boxes[constant].repeat == 2);
  CHECK(view.boxes[constant].detail == "relu");
  CHECK(view.boxes[unused].fold == Fold::Unused);
  CHECK(view.boxOfNode[g.findNode("bias_0").index] == constant);
  CHECK(view.boxOfNode[g.findNode("lost_0").index] == unused);
  for (const char* name : {"alone", "sum", "end", "kept", "written"}) {
    const int box = boxNamed(view, name);
    REQUIRE(box >= 0);
    CHECK(view.boxes[box].fold == Fold::None);
  }
  const auto joined = [&](int from, int to) {
    return std::any_of(view.edges.begin(), view.edges.end(),
                       [&](const VisibleEdge& e) { return e.from == from && e.to == to; });
  };
  CHECK(joined(constant, boxNamed(view, "sum")));
  CHECK(joined(boxNamed(view, "sum"), unused));
  const Result<Layout> layout = layoutLayered(view);
  REQUIRE(layout);
  checkLayout(view, *layout);
  CHECK(boxNamed(makeVisibleGraph(g, {.unfolded = {"bias_1"}}), "bias_0") >= 0);
  CHECK(boxNamed(makeVisibleGraph(g, {.foldDeadEnds = false}), "lost_0") >= 0);
  // A graph that has no inputs or no outputs is no dead end.
  Graph without;
  const ValueId w = without.addWeight("w", Type::tensor(DType::Float32, {Dim(4)}), nullptr);
  const ValueId one = without.output(without.append(without.root(), relu, {Argument(w)}, "one"));
  const ValueId two = without.output(without.append(without.root(), relu, {Argument(one)}, "two"));
  CHECK(boxNamed(makeVisibleGraph(without), "one") >= 0);
  without.setReturns(without.root(), {Argument(two)});
  CHECK(boxNamed(makeVisibleGraph(without), "one") >= 0);
}

// docs/measurements/window.md has the times.
TEST_CASE("the time of a layout grows in step with the graph") {
  const auto secondsFor = [](int layers) {
    const VisibleGraph view = makeVisibleGraph(test::encoder(layers), {.depth = -1, .foldRepeats = false});
    return test::processorSeconds([&] { REQUIRE(layoutLayered(view)); });
  };
  const double less = secondsFor(68);
  CHECK(test::growsInStep(less, secondsFor(340)));
}

TEST_CASE("a cancelled layout says so") {
  VisibleGraph view = makeVisibleGraph(test::encoder(1));
  CancelToken cancel;
  cancel.cancel();
  Result<Layout> layout = layoutGraph(view, {}, cancel);
  REQUIRE_FALSE(layout);
  CHECK(layout.error().kind == ErrorKind::Cancelled);
}

TEST_CASE("long names are cut so that they fit, between letters and not within one") {
  CHECK(elide("linear", 12, 200) == "linear");
  std::string cut = elide("a_very_long_name_of_a_module→→→→→→→→", 12, 120);
  CHECK(textWidth(cut, 12) <= 120);
  CHECK_THAT(cut, EndsWith("…"));
  CHECK_THAT(elide("first_middle_middle_middle_last", 12, 120, true), StartsWith("first") && EndsWith("last"));
}
