#include "views/drawing/page.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "views/layout/layered/level_plan.h"
#include "views/layout/small_titles.h"

namespace graft {
namespace {

using Json = nlohmann::json;

const char* const pageTemplate =
#include "views/drawing/page_html.inc"
    ;
const char* const styleText =
#include "views/drawing/page_style.inc"
    ;
const char* const layoutScript =
#include "views/drawing/page_layout.inc"
    ;
const char* const viewerScript =
#include "views/drawing/page_viewer.inc"
    ;

double rounded(double v) { return std::round(v * 10) / 10; }

std::string escaped(std::string_view text) {
  std::string s;
  for (char c : text)
    s += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return s;
}

Json colours(Theme theme) {
  const Palette p = palette(theme);
  Json kinds = Json::array(), containers = Json::array(), heat = Json::array(), cold = Json::array();
  for (int k = 0; k < boxKindCount; ++k) {
    const auto kind = static_cast<BoxKind>(k);
    kinds.push_back({p.fill(kind).hex(), p.border(kind).hex(), p.block(kind).hex()});
  }
  for (int depth = 0; depth < 8; ++depth) containers.push_back(p.container(depth).hex());
  for (int step = 0; step <= 20; ++step) {
    heat.push_back(p.heat(step / 20.0).hex());
    cold.push_back(HeatScale::cold(p, step / 20.0).hex());
  }
  Json changes = Json::array();
  for (Change c : {Change::None, Change::Removed, Change::Added, Change::Changed})
    changes.push_back({mix(p.surface, p.change(c), p.dark ? 0.25 : 0.15).hex(), p.change(c).hex()});
  return {{"background", p.background.hex()},
          {"surface", p.surface.hex()},
          {"text", p.text.hex()},
          {"dim", p.dim.hex()},
          {"edge", p.edge.hex()},
          {"accent", p.accent.hex()},
          {"inputLit", p.inputLit.hex()},
          {"outputLit", p.outputLit.hex()},
          {"badge", p.hue(BoxKind::Module).hex()},
          {"moduleEdge", mix(p.background, p.hue(BoxKind::Module), 0.45).hex()},
          {"kinds", kinds},
          {"containers", containers},
          {"heat", heat},
          {"cold", cold},
          {"changes", changes}};
}

/// Not where the author's packages are: the page is for others.
std::string_view sourceName(std::string_view file) {
  constexpr std::string_view packages = "-packages/";
  const size_t at = file.rfind(packages);
  return at == std::string_view::npos ? file : file.substr(at + packages.size());
}

Json boxJson(const Graph& graph, const Box& box, bool isOpen) {
  Json j{{"kind", static_cast<int>(box.kind)}, {"parent", box.parent}, {"title", box.title}, {"key", box.key}};
  if (!box.name.empty() && box.name != box.title) j["name"] = box.name;
  if (!box.detail.empty()) j["detail"] = box.detail;
  if (!box.chips.empty()) j["chips"] = box.chips;
  if (box.repeat > 1) j["repeat"] = box.repeat;
  if (box.fold != Fold::None) j["fold"] = box.fold == Fold::Constant ? "depend on weights alone" : "nothing uses";
  if (box.open) {
    j["container"] = true;
    j["nodes"] = box.nodeCount;
    if (isOpen) j["open"] = true;
    Box head = box;
    head.detail.clear();
    j["headWidth"] = rounded(boxSize(head).width);
  }
  const Rect size = boxSize(box);
  j["w"] = rounded(size.width);
  j["h"] = rounded(size.height);
  if (box.node) {
    const Node& node = graph.node(box.node);
    j["operator"] = node.op->name;
    Json types = Json::array();
    for (ValueId v : node.outputs) types.push_back(typeLabel(graph.value(v).type));
    j["types"] = std::move(types);
    if (const SourceLocation* source = graph.sourceOf(node); source && !source->file.empty())
      j["source"] = fmt::format("{}:{}", sourceName(source->file), source->line);
  }
  if (box.module) j["path"] = graph.moduleCall(box.module).path;
  return j;
}

Json levelJson(const LevelPlan& level) {
  Json items = Json::array(), edges = Json::array();
  for (const LevelPlan::Item& item : level.items) items.push_back({static_cast<int>(item.kind), item.what});
  for (const LevelPlan::Edge& e : level.edges)
    edges.push_back({e.value, e.isReversed ? 1 : 0, e.isFar ? 1 : 0, e.chain});
  return {{"box", level.container},    {"items", std::move(items)}, {"layers", level.layers},
          {"edges", std::move(edges)}, {"threads", level.threads},  {"turn", level.turn}};
}

/// By its number, the values of each bundle: where they come from, where they go, which.
Json bundlesJson(const VisibleGraph& view, const std::vector<uint32_t>& nets) {
  Json bundles = Json::object();
  for (size_t e = 0; e < nets.size(); ++e) {
    const VisibleEdge& edge = view.edges[e];
    if (nets[e] != edge.value.index) bundles[std::to_string(nets[e])].push_back({edge.from, edge.to, edge.value.index});
  }
  return bundles;
}

/// What titles become where they have no room, for those that are made of several words or have a short name.
void addTitleForms(const VisibleGraph& view, Json& titles) {
  std::set<std::string_view> seen;
  for (const Box& box : view.boxes) {
    if (titles.contains(box.title) || !seen.insert(box.title).second) continue;
    TitleForms forms = titleForms(box.title);
    Json j = Json::object();
    if (!forms.second.empty()) j["lines"] = {std::move(forms.first), std::move(forms.second)};
    if (!forms.brief.empty()) j["brief"] = std::move(forms.brief);
    if (forms.hasUsual) j["usual"] = std::move(forms.stem);
    if (!j.empty()) titles[box.title] = std::move(j);
  }
}

/// What became of nodes, onto boxes: a module holds the changes of its nodes.
Result<Json> graphJson(const Graph& graph, const DrawOptions& options, const std::set<std::string, std::less<>>& gone,
                       const std::set<std::string, std::less<>>& changed, Change kind, Json& titles) {
  const ViewOptions all{.depth = -1,
                        .foldRepeats = options.foldRepeats,
                        .showScalars = options.showScalars,
                        .foldDeadEnds = options.foldDeadEnds};
  const VisibleGraph view = makeVisibleGraph(graph, all);
  // A page of more would be slow to open.
  const size_t most = options.maxBoxes * 8;
  if (view.boxes.size() > most)
    return badInput(fmt::format("the page would have {} boxes, more than {}", view.boxes.size(), most));
  Result<LevelPlans> plan = planLevels(view);
  if (!plan) return plan.error();
  ViewOptions first = all;
  first.depth = options.depth;
  first.opened = options.opened;
  first.closed = options.closed;
  std::set<std::string> open;  // at first
  for (const Box& box : makeVisibleGraph(graph, first).boxes)
    if (box.open) open.insert(box.key);
  Json boxes = Json::array(), plans = Json::array(), labels = Json::object(), others = Json::object();
  for (const Box& box : view.boxes) boxes.push_back(boxJson(graph, box, open.contains(box.key)));
  addTitleForms(view, titles);
  for (const LevelPlan& level : plan->levels) plans.push_back(levelJson(level));
  for (const VisibleEdge& e : view.edges)
    if (!e.label.empty()) labels[std::to_string(e.value.index)] = e.label;
  for (NodeId id : graph.order()) {
    const int box = view.boxOfNode[id.index];
    if (box < 0) continue;
    const std::string& name = graph.node(id).name;
    if (view.boxes[static_cast<size_t>(box)].key != name) others[name] = box;
    const Change change = gone.contains(name) ? kind : changed.contains(name) ? Change::Changed : Change::None;
    if (change != Change::None) boxes[static_cast<size_t>(box)]["change"] = static_cast<int>(change);
  }
  return Json{{"name", graph.name},         {"nodes", graph.nodeCount()},  {"boxes", std::move(boxes)},
              {"levels", std::move(plans)}, {"labels", std::move(labels)}, {"bundles", bundlesJson(view, plan->nets)},
              {"others", std::move(others)}};
}

Json numbersJson(const NodeNumbers& numbers) {
  return {{"title", numbers.title},
          {"unit", numbers.unit},
          {"adds", numbers.adds},
          {"fromZero", numbers.fromZero},
          {"values", numbers.values}};
}

void replaceOnce(std::string& text, std::string_view mark, std::string_view by) {
  const size_t at = text.find(mark);
  if (at != std::string::npos) text.replace(at, mark.size(), by);
}

/// In a script element, "</" would end it.
std::string forScript(const Json& json) {
  std::string s = json.dump(-1, ' ', false, Json::error_handler_t::replace), out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size(); ++i) {
    out += s[i];
    if (s[i] == '<') out.pop_back(), out += "\\u003c";
  }
  return out;
}

}  // namespace

Result<std::string> drawPage(const Graph& graph, const DrawOptions& options) {
  const std::string title = !options.title.empty() ? options.title : !graph.name.empty() ? graph.name : "model";
  Json graphs = Json::array(), titles = Json::object();
  GraphDifference difference;
  if (options.before) difference = options.difference ? *options.difference : differenceByNames(*options.before, graph);
  if (options.before) {
    Result<Json> before =
        graphJson(*options.before, options, difference.removed, difference.changed, Change::Removed, titles);
    if (!before) return before.error();
    graphs.push_back(std::move(*before));
  }
  Result<Json> after = graphJson(graph, options, difference.added, difference.changed, Change::Added, titles);
  if (!after) return after.error();
  graphs.push_back(std::move(*after));
  Json numbers = Json::array(), kinds = Json::array();
  for (const NodeNumbers& n : options.numbers) numbers.push_back(numbersJson(n));
  for (int k = 0; k < boxKindCount; ++k) kinds.push_back(boxKindName(static_cast<BoxKind>(k)));
  const Json data{{"title", title},
                  {"theme", options.theme == Theme::Dark ? "dark" : "light"},
                  {"colours", {{"light", colours(Theme::Light)}, {"dark", colours(Theme::Dark)}}},
                  {"kinds", std::move(kinds)},
                  {"toRight", options.flow == Flow::Right},
                  {"titles", std::move(titles)},
                  {"narrowLetters", narrowLetters},
                  {"graphs", std::move(graphs)},
                  {"numbers", std::move(numbers)}};
  std::string html = pageTemplate;
  replaceOnce(html, "<!--TITLE-->", escaped(title));
  replaceOnce(html, "/*STYLE*/", styleText);
  replaceOnce(html, "/*DATA*/", forScript(data));
  replaceOnce(html, "/*LAYOUT*/", layoutScript);
  replaceOnce(html, "/*VIEWER*/", viewerScript);
  return html;
}

}  // namespace graft
