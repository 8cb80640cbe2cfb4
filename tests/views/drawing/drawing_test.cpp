#include "views/drawing/drawing.h"

#include <algorithm>
#include <regex>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/views/support/sample_graphs.h"
#include "views/drawing/page.h"
#include "views/layout/layered/level_plan.h"
#include "views/layout/small_titles.h"

using namespace graft;

TEST_CASE("an SVG names modules, operators, shapes and repeats") {
  Result<std::string> svg = drawSvg(test::encoder(6), {.depth = 4});
  REQUIRE(svg);
  for (const char* part :
       {">attention<", ">BertSelfAttention<", ">softmax<", ">1×12×128×128 f32<", ">×6<", ">384 → 1536<", ">MiniLM<"})
    CHECK_THAT(*svg, ContainsSubstring(part));
}

TEST_CASE("a title that is wider than a box may be is set narrower, in two lines or in short before it is cut") {
  const auto drawn = [](const std::string& op, bool hasDetail) {
    Graph g;
    const ValueId x = g.addInput("x", Type::tensor(DType::Float32, {Dim(8)}));
    std::vector<Argument> args{Argument(x)};
    if (hasDetail) args.emplace_back(int64_t{3});
    const NodeId n = g.append(g.root(), unknownOperator("aten." + op + ".default"), std::move(args), "n");
    g.setReturns(g.root(), {Argument(g.addOutput(n, "y", Type::tensor(DType::Float32, {Dim(8)})))});
    const Result<std::string> svg = drawSvg(g, {});
    return svg ? *svg : svg.error().message;
  };
  const std::string narrow = "scale(" + std::to_string(narrowLetters).substr(0, 4) + ",1)";
  const std::string sdpa = "_scaled_dot_product_flash_attention_for_cpu";
  CHECK_THAT(drawn("linear", true), ContainsSubstring(">linear<") && !ContainsSubstring(narrow));
  const std::string letters(33, 'n');
  REQUIRE(textWidth(letters + "_" + letters, 13) > 1.5 * Metrics::maxWidth);
  CHECK_THAT(drawn("squeeze_the_values_of_this_tensor_once_more", true),
             ContainsSubstring(">squeeze_the_values_of_this_tensor_once_more<") && ContainsSubstring(narrow));
  CHECK_THAT(drawn(letters + "_" + letters, false),
             ContainsSubstring(">" + letters + "_<") && ContainsSubstring(">" + letters + "<"));
  CHECK_THAT(drawn(sdpa + "_" + letters, true), ContainsSubstring(">SDPA<") && !ContainsSubstring(sdpa + "<"));
  CHECK_THAT(drawn(std::string(66, 'n'), true), ContainsSubstring("nnn…<"));
}

TEST_CASE("a drawing of too many boxes is refused with the way out") {
  Result<std::string> svg = drawSvg(test::encoder(6), {.depth = -1, .foldRepeats = false, .maxBoxes = 50});
  REQUIRE_FALSE(svg);
  CHECK_THAT(svg.error().message, ContainsSubstring("smaller depth"));
}

TEST_CASE("a difference draws both graphs and marks what went and what came") {
  Graph before = test::encoder(1), after = before;
  NodeId gelu = after.findNode("gelu");
  OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  ValueId x = after.node(gelu).args[0].valueId();
  NodeId n = after.insertBefore(gelu, relu, {Argument(x)}, "relu");
  NodeId user = after.value(after.output(gelu)).users.front();
  after.setArgument(user, 0, Argument(after.output(n)));
  after.erase(gelu);
  GraphDifference d = differenceByNames(before, after);
  CHECK(d.removed == std::set<std::string, std::less<>>{"gelu"});
  CHECK(d.added == std::set<std::string, std::less<>>{"relu"});
  CHECK(d.changed == std::set<std::string, std::less<>>{
                         before.node(before.findNode("linear_4")).name == "linear_4" ? after.node(user).name : ""});
  Result<std::string> svg = drawSvg(after, {.depth = -1, .before = &before});
  REQUIRE(svg);
  CHECK_THAT(*svg, ContainsSubstring("MiniLM · before") && ContainsSubstring("MiniLM · after") &&
                       ContainsSubstring("− removed"));
}

TEST_CASE("a stacked difference is as wide as the wider graph, and higher than both side by side") {
  const Graph g = test::encoder(1);
  const auto sizeOf = [&](bool isStacked) {
    const auto svg = drawSvg(g, {.depth = -1, .before = &g, .isStacked = isStacked});
    REQUIRE(svg);
    std::smatch found;
    REQUIRE(std::regex_search(*svg, found, std::regex("width=\"([0-9.]+)\" height=\"([0-9.]+)\"")));
    return std::pair(std::stod(found[1]), std::stod(found[2]));
  };
  const auto [width, height] = sizeOf(true);
  const auto [wide, low] = sizeOf(false);
  CHECK(width < 0.7 * wide);
  CHECK(height > 1.7 * low);
}

TEST_CASE("a page holds every module, opened or not, and what its names cannot break") {
  Graph g = test::encoder(2);
  g.name = "</script><b>&amp;";
  Result<std::string> page = drawPage(g, {.depth = 0, .opened = {"embeddings"}});
  REQUIRE(page);
  CHECK_THAT(*page, StartsWith("<!DOCTYPE html>") && ContainsSubstring("encoder.layer.0.attention.self") &&
                        !ContainsSubstring("</script><b>") && ContainsSubstring("&lt;/script&gt;&lt;b&gt;&amp;amp;"));
  size_t scripts = 0;
  for (size_t at = page->find("</script>"); at != std::string::npos; at = page->find("</script>", at + 1)) ++scripts;
  CHECK(scripts == 3);
}

TEST_CASE("legends of drawings and pages have the words of the window's") {
  const Graph g = test::encoder(1);
  const Result<std::string> svg = drawSvg(g, {.depth = -1}), page = drawPage(g, {.depth = -1});
  REQUIRE(svg);
  REQUIRE(page);
  for (const BoxKind kind : {BoxKind::Product, BoxKind::Normalization, BoxKind::Activation}) {
    CHECK_THAT(*svg, ContainsSubstring(">" + std::string(boxKindName(kind)) + "<"));
    CHECK_THAT(*page, ContainsSubstring("\"" + std::string(boxKindName(kind)) + "\""));
  }
  CHECK_THAT(*svg, !ContainsSubstring(">module<"));  // all are open
  CHECK_THAT(*drawSvg(g, {.depth = 0}), ContainsSubstring(">module<"));
}

TEST_CASE("plans of levels have each item in one layer and each edge through neighbouring ones") {
  const VisibleGraph view = makeVisibleGraph(test::encoder(2), {.depth = -1});
  const Result<LevelPlans> plans = planLevels(view);
  REQUIRE(plans);
  size_t boxes = 0;
  for (const LevelPlan& plan : plans->levels) {
    std::vector<int> layerOf(plan.items.size(), -1);
    for (size_t l = 0; l < plan.layers.size(); ++l)
      for (int item : plan.layers[l]) {
        CHECK(layerOf[static_cast<size_t>(item)] == -1);
        layerOf[static_cast<size_t>(item)] = static_cast<int>(l);
      }
    for (const LevelPlan::Item& item : plan.items)
      if (item.kind == LevelItem::Kind::Box) {
        ++boxes;
        CHECK(view.boxes[item.what].parent == plan.container);
      }
    for (const LevelPlan::Edge& edge : plan.edges)
      for (size_t i = 0; i + 1 < edge.chain.size(); ++i)
        CHECK(layerOf[static_cast<size_t>(edge.chain[i + 1])] == layerOf[static_cast<size_t>(edge.chain[i])] + 1);
    CHECK(std::count(layerOf.begin(), layerOf.end(), -1) == 0);
  }
  CHECK(boxes == view.boxes.size());
}

TEST_CASE("numbers of nodes are read in both forms, and what is neither is refused") {
  const auto value = [](std::string_view text) {
    const Result<NodeNumbers> n = readNumbers(text, "file");
    return n ? n->values.at("a") : -1;
  };
  CHECK(value(R"({"a": 1.5, "b": 2})") == 1.5);
  CHECK(value(R"({"results": {"a": {"value": 2.5}}})") == 2.5);
  CHECK(value(R"({"main": {"results": {"a": {"value": 3}}}})") == 3);
  for (const char* wrong : {"", "[]", "{}", "3", R"({"a": "1"})", R"({"a": {"v": 1}})", R"({"results": 1})"}) {
    const Result<NodeNumbers> n = readNumbers(wrong, "file");
    REQUIRE_FALSE(n);
    CHECK_THAT(n.error().message, StartsWith("file "));
  }
}

TEST_CASE("negative numbers of nodes are blue in a picture, as in the window") {
  const Graph g = test::encoder(1);
  const std::string first = g.node(g.order()[0]).name, second = g.node(g.order()[1]).name;
  const Palette p = palette(Theme::Light);
  const std::string blue = HeatScale::cold(p, 1).hex(), hot = p.heat(1).hex();
  const auto drawn = [&](double a, double b, bool fromZero) {
    NodeNumbers numbers;
    numbers.title = "change";
    numbers.fromZero = fromZero;
    numbers.values = {{first, a}, {second, b}};
    const Result<std::string> svg = drawSvg(g, {.depth = -1, .foldDeadEnds = false, .numbers = {numbers}});
    return svg ? *svg : svg.error().message;
  };
  // Both signs: each end has its colour, and the legend says which numbers they are.
  std::string svg = drawn(-4, 4, false);
  CHECK_THAT(svg, ContainsSubstring(blue) && ContainsSubstring(hot) && ContainsSubstring(">-4<"));
  svg = drawn(-4, -2, false);
  CHECK_THAT(svg, ContainsSubstring(blue) && !ContainsSubstring(hot));
  // One sign, far from 0: the colours span what there is, unless they are to begin at 0.
  const std::string least = p.heat(0).hex();
  const auto boxes = [&](const std::string& picture, const std::string& fill) {
    return picture.find("z\" fill=\"" + fill + "\"") != std::string::npos;
  };
  CHECK(boxes(drawn(101, 102, false), least));
  CHECK_FALSE(boxes(drawn(101, 102, true), least));
}

TEST_CASE("a file is complete or absent, and its format follows its name") {
  test::TempDir dir;
  Graph g = test::encoder(1);
  REQUIRE(drawToFile(g, (dir / "g.svg").string()));
  CHECK_THAT(test::readFile(dir / "g.svg"), StartsWith("<svg") && EndsWith("</svg>\n"));
  REQUIRE(drawToFile(g, (dir / "g.dot").string()));
  CHECK_THAT(test::readFile(dir / "g.dot"), StartsWith("digraph"));
  Status wrong = drawToFile(g, (dir / "g.bmp").string());
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().kind == ErrorKind::Usage);
  Status nowhere = drawToFile(g, (dir / "no" / "g.svg").string());
  REQUIRE_FALSE(nowhere);
  CHECK_THAT(nowhere.error().message, ContainsSubstring("No such file"));
  CHECK_FALSE(std::filesystem::exists(dir / "no"));
}

TEST_CASE("a box that is too small for its border is seen, and words can be read on it") {
  for (const Theme theme : {Theme::Light, Theme::Dark}) {
    const Palette p = palette(theme);
    for (int k = 0; k < boxKindCount; ++k) {
      const auto kind = static_cast<BoxKind>(k);
      CAPTURE(k, static_cast<int>(theme));
      for (const Color behind : {p.background, p.container(0), p.container(3)})
        CHECK(contrast(p.block(kind), behind) >= 1.4);
      CHECK(contrast(p.text, p.block(kind)) >= legible);
    }
  }
}

TEST_CASE("kinds of one grey are one entry of a legend") {
  const Palette p = palette(Theme::Light);
  CHECK(Palette::isAlike(p.border(BoxKind::Shape), p.border(BoxKind::Arithmetic)));
  CHECK_FALSE(Palette::isAlike(p.border(BoxKind::Product), p.border(BoxKind::Lookup)));
  Graph g = test::encoder(1);
  const Result<std::string> svg = drawSvg(g, {.depth = -1});
  REQUIRE(svg);
  CHECK_THAT(*svg, ContainsSubstring(">shape, arithmetic<"));
}

TEST_CASE("text on every kind of box is readable in both themes") {
  for (Theme theme : {Theme::Light, Theme::Dark}) {
    Palette p = palette(theme);
    for (int k = 0; k < boxKindCount; ++k) {
      CHECK(contrast(p.text, p.fill(static_cast<BoxKind>(k))) >= 4.5);
      CHECK(contrast(p.dim, p.fill(static_cast<BoxKind>(k))) >= 4.5);
    }
    for (int depth = 0; depth < 8; ++depth) CHECK(contrast(p.dim, p.container(depth)) >= 4.5);
  }
}
