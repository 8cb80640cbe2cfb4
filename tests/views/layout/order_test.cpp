// A module that is opened or closed leaves the others where they stand: in their order in each rank.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/growth.h"
#include "tests/views/support/layout_quality.h"
#include "tests/views/support/sample_graphs.h"
#include "views/layout/layout.h"

using namespace graft;

namespace {

/// Operators with one or two operands each among those just before, in modules "m0", "m1", … and outside of them; some
/// modules hold one of their own.
Graph randomModules(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Graph g;
  const Type type = Type::tensor(DType::Float32, {Dim(4)});
  const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
  const OperatorRef add = *parseSchema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  std::vector<ValueId> values;
  for (size_t i = 0; i < 2 + below(3); ++i) values.push_back(g.addInput("in" + std::to_string(i), type));
  const auto operand = [&] { return values[values.size() - 1 - below(std::min<size_t>(values.size(), 9))]; };
  const auto call = [&](ModuleCallId module) {
    const NodeId node = below(3) > 0
                            ? g.append(g.root(), add, {Argument(operand()), Argument(operand()), Argument(int64_t{1})})
                            : g.append(g.root(), relu, {Argument(operand())});
    if (module) g.setModule(node, module);
    values.push_back(g.output(node));
  };
  const size_t modules = 4 + below(5);
  for (size_t m = 0; m < modules; ++m) {
    const std::string path = "m" + std::to_string(m);
    const ModuleCallId module = g.addModuleCall({}, path, "M" + std::to_string(m));
    const size_t first = 2 + below(6);
    for (size_t i = 0; i < first; ++i) call(module);
    if (below(2) > 0) {
      const ModuleCallId inner = g.addModuleCall(module, path + ".inner", "I");
      for (size_t i = 0; i < 2 + below(4); ++i) call(inner);
      call(module);
    }
    for (size_t i = 0; i < below(3); ++i) call({});
  }
  std::vector<Argument> returns;
  for (const ValueId v : values)
    if (g.value(v).users.empty()) returns.emplace_back(v);
  g.setReturns(g.root(), std::move(returns));
  return g;
}

struct Drawing {
  VisibleGraph view;
  Layout layout;
};

Drawing draw(const Graph& g, const std::set<std::string, std::less<>>& opened, Flow flow,
             const LayoutOrder* before = nullptr, bool keepsOrder = false) {
  Drawing d;
  d.view = makeVisibleGraph(g, {.depth = 0, .opened = opened});
  Result<Layout> layout =
      layoutLayered(d.view, {.columns = false, .flow = flow, .before = before, .keepsOrder = keepsOrder});
  REQUIRE(layout);
  d.layout = std::move(*layout);
  return d;
}

/// Modules of both passes of a training step have one key.
std::string nameOf(const VisibleGraph& view, int box) {
  if (box < 0) return {};
  const Box& b = view.boxes[static_cast<size_t>(box)];
  return b.key + (b.isInBackward ? " back" : "");
}

/// By rank of each module: what stands in it, from left to right.
std::map<std::pair<std::string, long>, std::vector<std::string>> ranks(const Drawing& d) {
  std::map<std::pair<std::string, long>, std::vector<std::pair<double, std::string>>> found;
  for (size_t i = 0; i < d.view.boxes.size(); ++i) {
    const Rect& r = d.layout.boxes[i];
    const bool isDown = d.layout.flow == Flow::Down;
    const double along = isDown ? r.y + r.height / 2 : r.centerX(), across = isDown ? r.centerX() : r.y + r.height / 2;
    found[{nameOf(d.view, d.view.boxes[i].parent), std::lround(2 * along)}].emplace_back(
        across, nameOf(d.view, static_cast<int>(i)));
  }
  std::map<std::pair<std::string, long>, std::vector<std::string>> out;
  for (auto& [rank, boxes] : found) {
    std::sort(boxes.begin(), boxes.end());
    for (const auto& [across, key] : boxes) out[rank].push_back(key);
  }
  return out;
}

/// Pairs that stand in one rank of both drawings, and how many of them stand the other way round.
std::pair<size_t, size_t> pairs(const Drawing& a, const Drawing& b) {
  std::map<std::string, std::pair<std::pair<std::string, long>, size_t>> placeOf;
  for (const auto& [rank, boxes] : ranks(a))
    for (size_t i = 0; i < boxes.size(); ++i) placeOf[boxes[i]] = {rank, i};
  size_t all = 0, turned = 0;
  for (const auto& [rank, boxes] : ranks(b))
    for (size_t i = 0; i < boxes.size(); ++i)
      for (size_t k = 0; k < i; ++k) {
        const auto left = placeOf.find(boxes[k]), right = placeOf.find(boxes[i]);
        if (left == placeOf.end() || right == placeOf.end() || left->second.first != right->second.first) continue;
        ++all;
        turned += left->second.second > right->second.second;
      }
  return {all, turned};
}

bool isSame(const Layout& a, const Layout& b) {
  const auto equal = [](const Rect& r, const Rect& s) {
    return std::abs(r.x - s.x) < 1e-6 && std::abs(r.y - s.y) < 1e-6 && std::abs(r.width - s.width) < 1e-6;
  };
  return std::equal(a.boxes.begin(), a.boxes.end(), b.boxes.begin(), b.boxes.end(), equal);
}

}  // namespace

TEST_CASE("a module that is opened leaves what was visible in its order, and closed again the drawing as it was") {
  size_t compared = 0, moved = 0, kept = 0, fresh = 0, few = 0, less = 0;
  const auto crossings = [](const Drawing& d) { return test::qualityOf(d.view, d.layout).crossings; };
  for (unsigned seed = 1; seed <= 40; ++seed)
    for (const Flow flow : {Flow::Down, Flow::Right}) {
      const Graph g = randomModules(seed);
      std::set<std::string, std::less<>> opened;
      Drawing now = draw(g, opened, flow);
      for (const char* path : {"m1", "m3", "m1.inner", "m0"}) {
        CAPTURE(seed, path);
        const Drawing before = now;
        opened.insert(path);
        now = draw(g, opened, flow, &before.layout.order);
        const auto [all, turned] = pairs(before, now);
        compared += all;
        moved += turned;
        const Drawing still = draw(g, opened, flow, &before.layout.order, true);
        CHECK(pairs(before, still).second == 0);
        if (turned > 0) less += crossings(still), few += crossings(now);
        opened.erase(path);
        const LayoutOrder former = before.layout.order.over(now.layout.order);
        const Drawing again = draw(g, opened, flow, &former, true);
        const auto& places = again.layout.order.places;
        CHECK(std::adjacent_find(places.begin(), places.end(),
                                 [](const auto& a, const auto& b) { return a.first == b.first; }) == places.end());
        CHECK(isSame(again.layout, before.layout));
        opened.insert(path);
      }
      kept += crossings(now);
      fresh += crossings(draw(g, opened, flow));
    }
  CHECK(compared > 1000);
  CAPTURE(compared, moved, kept, fresh, few, less);
  CHECK(10 * moved < compared);
  CHECK(few < less);  // where something moved, crossings fell
  // What keeps its order has not many more crossings than what is drawn anew.
  CHECK(static_cast<double>(kept) <= 1.15 * static_cast<double>(fresh));
}

TEST_CASE("modules of an encoder and of a training step open without a change of order elsewhere") {
  size_t compared = 0;
  for (const Graph& g : {test::encoder(3), test::trainingStep(3)}) {
    std::set<std::string, std::less<>> paths;
    for (const ModuleCall& call : g.moduleCalls()) paths.insert(call.path);
    std::set<std::string, std::less<>> opened;
    Drawing now = draw(g, opened, Flow::Down);
    for (const std::string& path : paths) {  // outer ones come first
      const Drawing before = now;
      opened.insert(path);
      now = draw(g, opened, Flow::Down, &before.layout.order);
      const auto [all, turned] = pairs(before, now);
      compared += all;
      CAPTURE(path);
      CHECK(turned == 0);
    }
  }
  CHECK(compared > 20);
}

TEST_CASE("what is new in a module takes its place among what was there") {
  const Graph g = test::encoder(4);
  VisibleGraph folded = makeVisibleGraph(g, {.depth = -1}),
               all = makeVisibleGraph(g, {.depth = -1, .unfolded = {"encoder.layer.0"}});
  const Result<Layout> before = layoutLayered(folded, {.columns = false});
  REQUIRE(before);
  const Result<Layout> now = layoutLayered(all, {.columns = false, .before = &before->order});
  REQUIRE(now);
  const Drawing a{std::move(folded), *before}, b{std::move(all), *now};
  CHECK(pairs(a, b).second == 0);
}
