// graft draw: the graph as a picture.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "views/drawing/drawing.h"

namespace graft::cli {
namespace {

struct Options : Common {
  std::string model, output, other, theme = "light";
  int depth = 1;
  bool all = false;
};

Result<Graph> readGraph(const std::string& path, const Options& o, const Job& job) {
  auto m = openModel(path, o, {}, job);
  if (!m) return m.error();
  // Shapes on the edges come from a run where the file has none.
  if (o.givesInputs())
    if (auto inputs = typedInputs(*m, o); !inputs) return inputs.error();
  return std::move(m->graph);
}

Status draw(const Options& o) {
  const Console console(o);
  const Job job = console.job();
  auto g = readGraph(o.model, o, job);
  if (!g) return g.error();
  DrawOptions options;
  options.depth = o.all ? -1 : o.depth;
  options.theme = o.theme == "dark" ? Theme::Dark : Theme::Light;
  std::optional<Graph> other;
  if (!o.other.empty()) {
    auto second = readGraph(o.other, o, job);
    if (!second) return second.error();
    other = std::move(*second);
    options.before = &*g;
  }
  if (Status s = drawToFile(other ? *other : *g, o.output, options); !s) return s;
  console.print("drawn   " + o.output);
  console.document({{"model", o.model}, {"output", o.output}, {"nodes", (other ? *other : *g).nodeCount()}});
  return done();
}

}  // namespace

void addDraw(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("draw", "Draw the graph as SVG, PNG, PDF or DOT; --diff draws what a rewrite changed");
  auto o = std::make_shared<Options>();
  c->add_option("model", o->model, "The model")->required()->type_name("MODEL");
  c->add_option("-o,--output", o->output, "The picture; its ending says the format: .svg .png .pdf .dot")
      ->required()
      ->type_name("FILE");
  c->add_option("--depth", o->depth, "Modules nested this deep are drawn collapsed")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  c->add_flag("--all", o->all, "Collapse nothing");
  c->add_option("--diff", o->other, "The rewritten model: draw both with what was removed, added and changed")
      ->type_name("OTHER");
  c->add_option("--theme", o->theme, "light or dark")->check(CLI::IsMember({"light", "dark"}))->capture_default_str();
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return draw(*o); }; });
}

}  // namespace graft::cli
