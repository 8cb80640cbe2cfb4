// graft draw: the graph as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "views/drawing/drawing.h"
#include "views/layout/blocks.h"

namespace graft::cli {
namespace {

struct DrawFlags : Common {
  std::string model, output, other, theme = "light", flow = "down", numbers;
  int depth = 1;
  bool all = false, deadEnds = false;
};

/// Shapes on the edges come from a run on the given inputs where the file has none.
Result<Graph> readGraph(const std::string& path, const DrawFlags& o, const Console& console) {
  auto m = openModel(path, o, console.job());
  if (!m) return m.error();
  if (Status s = recordGivenTypes(*m, o, console); !s) return s.error();
  addBlocks(m->graph);
  return std::move(m->graph);
}

Status draw(const DrawFlags& o) {
  const Console console(o.printing);
  auto g = readGraph(o.model, o, console);
  if (!g) return g.error();
  DrawOptions options;
  options.depth = o.all ? -1 : o.depth;
  options.flow = o.flow == "right" ? Flow::Right : Flow::Down;
  options.foldDeadEnds = !o.deadEnds;
  options.theme = o.theme == "dark" ? Theme::Dark : Theme::Light;
  if (!o.numbers.empty()) {
    std::ifstream in(o.numbers, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) return badInput("cannot read " + o.numbers);
    Result<NodeNumbers> numbers = readNumbers(text, std::filesystem::path(o.numbers).stem().string());
    if (!numbers) return numbers.error();
    const auto isThere = [&](const auto& entry) { return bool(g->findNode(entry.first)); };
    if (std::none_of(numbers->values.begin(), numbers->values.end(), isThere))
      return badInput(fmt::format("{} names no node of {}: `graft text` shows them", o.numbers, o.model));
    options.numbers.push_back(std::move(*numbers));
  }
  std::optional<Graph> other;
  if (!o.other.empty()) {
    auto second = readGraph(o.other, o, console);
    if (!second) return second.error();
    other = std::move(*second);
    options.before = &*g;
  }
  if (Status s = drawToFile(other ? *other : *g, o.output, options); !s) return s;
  console.print("drawn   " + o.output);
  const workbench::DrawnModel drawn{o.model, o.output, (other ? *other : *g).nodeCount()};
  console.document(workbench::document(toJson(drawn)));
  return done();
}

}  // namespace

void addDraw(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand(
      "draw", "Draw the graph as SVG, PNG, PDF, DOT or an interactive HTML page; with --diff, what a rewrite changed");
  auto o = std::make_shared<DrawFlags>();
  c->add_option("model", o->model, "The model")->required()->type_name("MODEL");
  c->add_option("-o,--output", o->output, "The picture; its ending says the format: .svg .png .pdf .html .dot")
      ->required()
      ->type_name("FILE");
  c->add_option("--depth", o->depth, "Draw modules that are nested this deep as one box")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  c->add_flag("--all", o->all, "Collapse nothing");
  c->add_flag("--dead-ends", o->deadEnds,
              "Draw every operator that depends on weights alone or whose results nothing uses, instead of one box for "
              "several");
  c->add_option("--flow", o->flow, "Which way the drawing runs: down or right")
      ->check(CLI::IsMember({"down", "right"}))
      ->capture_default_str();
  c->add_option("--diff", o->other, "The rewritten model: draw both, with what was removed, added and changed")
      ->type_name("OTHER");
  c->add_option("--numbers", o->numbers,
                "Colour nodes by the numbers in this JSON, {\"node\": 1.5}, or Model Explorer's node data; not in .dot")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  c->add_option("--theme", o->theme, "The colours: light or dark")
      ->check(CLI::IsMember({"light", "dark"}))
      ->capture_default_str();
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return draw(*o); }; });
}

}  // namespace graft::cli
