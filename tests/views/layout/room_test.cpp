// What words may take: labels in their module, and the room beside a slim drawing.
#include <algorithm>
#include <string>

#include "tests/support/catch.h"
#include "views/layout/edge_labels.h"
#include "views/layout/layout.h"

using namespace graft;

TEST_CASE("sizes that are calculated are left out of a label that has no room") {
  CHECK(shortLabel("s0×64×(s2 + 1)//2×(s3 + 1)//2 f32") == "s0×64×…×… f32");
  CHECK(shortLabel("2*s0×(s1 - 1)//2 + 1 i64") == "…×… i64");
  CHECK(shortLabel("1×128×768 f32") == "1×128×768 f32");
  CHECK(shortLabel("s0×3") == "s0×3");
  CHECK(shortLabel("scalar f32") == "scalar f32");
  CHECK(shortLabel("12 values") == "12 values");
}

TEST_CASE("labels stay in the module that their edge leaves from") {
  Graph g;
  const Type type = Type::tensor(DType::Float32, {Dim(std::string("s0")), Dim(64), Dim(std::string("(s2 + 1)//2")),
                                                  Dim(std::string("(s3 + 1)//2"))});
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  ValueId last = g.addInput("x", type);
  const ModuleCallId module = g.addModuleCall({}, "net", "Net");
  for (int i = 0; i < 4; ++i) {
    const NodeId node = g.append(g.root(), relu, {Argument(last)}, "a_quite_long_name_of_it_" + std::to_string(i));
    g.setModule(node, module);
    last = g.output(node);
    g.setType(last, type);
  }
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g, {.depth = -1});
  const Result<Layout> layout = layoutLayered(view);
  REQUIRE(layout);
  const auto found = std::find_if(view.boxes.begin(), view.boxes.end(), [](const Box& b) { return b.key == "net"; });
  REQUIRE(found != view.boxes.end());
  const auto net = static_cast<int>(found - view.boxes.begin());
  int inside = 0;
  for (const EdgeLabel& label : layout->labels) {
    if (view.boxes[view.edges[label.edge].from].parent != net) continue;
    ++inside;
    const Rect r = labelRect(label), &frame = layout->boxes[net];
    CHECK(r.x >= frame.x);
    CHECK(r.right() <= frame.right());
    CHECK(label.text == "s0×64×…×… f32");
  }
  CHECK(inside == 4);
}

TEST_CASE("labels stand beside the boxes behind one that repeats") {
  // What a folded dead end hides stands behind it, 6 pixels further down and to the right.
  constexpr double stack = 6;
  VisibleGraph view;
  for (const int repeat : {1, 3, 1}) {
    Box& box = view.boxes.emplace_back();
    box.kind = BoxKind::Shape;
    box.repeat = repeat;
  }
  view.edges.push_back({});
  view.edges[0].from = 0, view.edges[0].to = 2;
  Layout layout;
  layout.boxes = {{0, 0, 40, 30}, {60, 0, 200, 40}, {0, 80, 40, 30}};
  layout.edges.push_back({{{20, 30}, {20, 40}, {20, 60}, {20, 80}}});
  layout.labels.push_back({0, {25, 50}, "s0×(d4//14)*(d1//28)×12×49×49 f32"});
  clearLabels(view, layout);
  for (const EdgeLabel& label : layout.labels) {
    const Rect text = labelRect(label);
    CHECK((text.right() <= 60 || text.y >= 40 + stack));
  }
}

TEST_CASE("boxes of a slim drawing take the room beside it for words that can be read at fit") {
  Graph g;
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  ValueId last = g.addInput("x", Type::tensor(DType::Float32, {Dim(4)}));
  for (int i = 0; i < 18; ++i)
    last = g.output(g.append(g.root(), relu, {Argument(last)}, "a_long_name_" + std::to_string(i)));
  g.setReturns(g.root(), {Argument(last)});
  const VisibleGraph view = makeVisibleGraph(g);
  const Result<Layout> usual = layoutLayered(view), wide = layoutLayered(view, {.wide = true});
  REQUIRE(usual);
  REQUIRE(wide);
  CHECK(wide->height == Approx(usual->height).epsilon(0.01));
  const double scale = 760 / wide->height;
  REQUIRE(scale < 0.8);
  for (size_t i = 0; i < view.boxes.size(); ++i) {
    CHECK(wide->boxes[i].height == usual->boxes[i].height);
    CHECK(wide->boxes[i].width > 1.1 * usual->boxes[i].width);
    CHECK(wide->boxes[i].width * scale <= usual->boxes[i].width);
  }
  // To the right, width is what a row runs out of.
  const Result<Layout> row = layoutLayered(view, {.flow = Flow::Right}),
                       wideRow = layoutLayered(view, {.wide = true, .flow = Flow::Right});
  CHECK(row->width == wideRow->width);
}
