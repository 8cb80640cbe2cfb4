// layout_look [--depth N]... [--repeats] [--dead-ends] [--flow down|right] [--columns 0] [--bundles 0] [--svg FOLDER]
// GRAPH.json...
// How good the drawings of graphs are, in numbers, each a row of a table. GRAPH.json is what `graft text MODEL --json`
// prints, or the places of another viewer's boxes (tests/bench/other_viewers.py). docs/measurements/window.md has the
// table.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/json/graph_reader.h"
#include "tests/support/thread_time.h"
#include "tests/views/support/layout_quality.h"
#include "views/drawing/drawing.h"
#include "views/layout/blocks.h"

using namespace graft;

namespace {

struct Options {
  ViewOptions view;
  std::vector<int> depths;
  std::string svg;
  bool bundles = true, repeats = false;
};

void printRow(const std::string& name, const test::LayoutQuality& q, const std::string& end) {
  fmt::print("| {} | {} | {} | {} | {} | {:.0f} % | {:.0f} × {:.0f} | {:.0f} % | {} |\n", name, q.boxes, q.edges,
             q.crossings, q.bends, 100 * q.straightness, q.width, q.height, 100 * q.readable, end);
  std::fflush(stdout);
}

void printGraph(const std::string& name, const Graph& graph, const Options& options) {
  for (const int depth : options.depths) {
    ViewOptions how = options.view;
    how.depth = depth;
    if (options.repeats)
      for (const ModuleCall& call : graph.moduleCalls()) how.unfolded.insert(call.path);
    VisibleGraph view;
    Result<Layout> layout = Layout{};
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double start = test::threadMs();
      view = makeVisibleGraph(graph, how);
      layout = layoutGraph(view, {.bundles = options.bundles, .columns = how.columns, .flow = how.flow});
      best = std::min(best, test::threadMs() - start);
    }
    const std::string title = name + (depth < 0 ? ", all open" : fmt::format(", depth {}", depth));
    printRow(title, test::qualityOf(view, *layout), fmt::format("{:.1f} ms", best));
    if (options.svg.empty()) continue;
    std::filesystem::create_directories(options.svg);
    std::ofstream(fmt::format("{}/{}_{}.svg", options.svg, name, depth))
        << svgOf(view, *layout, {.flow = how.flow, .legend = false});
  }
}

/// Boxes and edges of a drawing that another program made.
void printPlaces(const std::string& name, const nlohmann::json& json) {
  VisibleGraph view;
  Layout layout;
  for (const auto& b : json["boxes"]) {
    Box box;
    box.title = b.value("title", "");
    box.parent = b.value("parent", -1);
    box.open = b.value("open", false);
    const int index = static_cast<int>(view.boxes.size());
    (box.parent < 0 ? view.roots : view.boxes[static_cast<size_t>(box.parent)].children).push_back(index);
    view.boxes.push_back(std::move(box));
    layout.boxes.push_back({b["x"], b["y"], b["w"], b["h"]});
    layout.width = std::max(layout.width, layout.boxes.back().right());
    layout.height = std::max(layout.height, layout.boxes.back().bottom());
  }
  for (const auto& e : json["edges"]) {
    VisibleEdge edge;
    edge.from = e["from"];
    edge.to = e["to"];
    edge.value = ValueId(static_cast<uint32_t>(edge.from));  // edges of one box count as edges of one value
    EdgePath way;
    for (const auto& p : e["points"]) {
      const Point at{p[0], p[1]};
      if (!way.points.empty()) way.points.insert(way.points.end(), {way.points.back(), at});
      way.points.push_back(at);
    }
    view.edges.push_back(std::move(edge));
    layout.edges.push_back(std::move(way));
  }
  const test::LayoutQuality q = test::qualityOf(view, layout);
  printRow(name, q, fmt::format("letters of {:.1f} px at fit", json.value("font", 0.0) * q.fitScale));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto next = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (word == "--depth")
      options.depths.push_back(std::atoi(next()));
    else if (word == "--repeats")
      options.repeats = true;
    else if (word == "--dead-ends")
      options.view.foldDeadEnds = false;
    else if (word == "--flow")
      options.view.flow = std::string_view(next()) == "right" ? Flow::Right : Flow::Down;
    else if (word == "--columns")
      options.view.columns = std::atoi(next()) != 0;
    else if (word == "--bundles")
      options.bundles = std::atoi(next()) != 0;
    else if (word == "--svg")
      options.svg = next();
    else
      paths.emplace_back(word);
  }
  if (options.depths.empty()) options.depths = {1, -1};
  fmt::print(
      "| drawing | boxes | edges | crossings | bends | straight | size | words at fit | |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) return fmt::print(stderr, "layout_look: {} is no JSON\n", path), 1;
    const std::string name = std::filesystem::path(path).stem().string();
    if (json.contains("boxes")) {
      printPlaces(name, json);
      continue;
    }
    // As the window reads them: names are all that it knows of operators.
    GraphReader reader([](std::string_view op, const std::vector<std::string>& parameters) {
      Operator made = *unknownOperator(std::string(op));
      made.sideEffects = op == "prim.Print" || op == "prim.RaiseException";
      for (const std::string& p : parameters) made.parameters.emplace_back().name = p;
      return std::make_shared<const Operator>(std::move(made));
    });
    if (!reader.read(text)) return fmt::print(stderr, "layout_look: {}: {}\n", path, reader.why()), 1;
    const std::shared_ptr<Graph> graph = reader.take();
    addBlocks(*graph);
    printGraph(name, *graph, options);
  }
}
