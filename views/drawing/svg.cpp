// The SVG writer. Only what every viewer draws alike: rectangles, paths, text; presentation attributes instead of style
// sheets.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "views/drawing/drawing.h"
#include "views/layout/small_titles.h"

namespace graft {
namespace {

using M = Metrics;
constexpr const char* sans = "Inter, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

std::string escape(std::string_view text) {
  std::string s;
  for (char c : text) {
    if (c == '<')
      s += "&lt;";
    else if (c == '>')
      s += "&gt;";
    else if (c == '&')
      s += "&amp;";
    else if (c == '"')
      s += "&quot;";
    else if (static_cast<unsigned char>(c) >= 32)
      s += c;
  }
  return s;
}

/// Widths of a title's letters.
struct TitleLetters {
  double share = 1;  ///< of the usual width
  double width(std::string_view text) const { return textWidth(text, M::titleSize) * share; }
  double ellipsis() const { return width("…"); }
};

class Writer {
 public:
  Writer(const DrawOptions& options, const Tints& tints)
      : options_(options), tints_(tints), p_(palette(options.theme)) {}

  const Palette& colors() const { return p_; }

  /// What titles are called, in all graphs of the drawing: told of each before any is drawn.
  void spell(const VisibleGraph& graph, const Layout& layout) {
    for (size_t i = 0; i < graph.boxes.size(); ++i) {
      const Box& box = graph.boxes[i];
      const TitleForms forms = titleForms(box.title);
      if (box.open || forms.brief.empty()) continue;
      const auto [room, lines] = titleRoom(box, layout.boxes[i]);
      if (const auto first = firstSpelling(box.title, forms, room, lines, TitleLetters{narrowLetters}))
        spellings_.add(box.title, forms, *first);
    }
  }

  void graph(const VisibleGraph& graph, const Layout& layout, const std::vector<Change>& changes, double dx,
             double dy) {
    bool isDiff = !changes.empty();
    fmt::format_to(out(), "<g transform=\"translate({:.1f},{:.1f})\">\n", dx, dy);
    for (size_t i = 0; i < graph.boxes.size(); ++i)
      if (graph.boxes[i].open) container(graph, static_cast<int>(i), layout.boxes[i]);
    fmt::format_to(out(), "<g fill=\"none\" stroke=\"{}\" stroke-width=\"1.2\"{}>\n", p_.edge.hex(),
                   isDiff ? " stroke-opacity=\"0.6\"" : "");
    for (const EdgePath& edge : layout.edges) path(edge);
    body_ += "</g>\n";
    fmt::format_to(out(), "<g fill=\"{}\" stroke=\"none\">\n", p_.edge.hex());
    for (const EdgePath& edge : layout.edges) arrow(edge);
    body_ += "</g>\n";
    for (size_t i = 0; i < graph.boxes.size(); ++i)
      if (graph.boxes[i].open) containerTitle(graph, static_cast<int>(i), layout.boxes[i]);
    for (const EdgeLabel& label : layout.labels) text(label.text, label.at.x, label.at.y, M::labelSize, p_.dim, 400);
    for (size_t i = 0; i < graph.boxes.size(); ++i) {
      if (graph.boxes[i].open) continue;
      box(i, graph.boxes[i], layout.boxes[i], isDiff ? changes[i] : Change::None, isDiff);
      const int parent = graph.boxes[i].parent;
      figures(i, layout.boxes[i].right(), layout.boxes[i].y - 5,
              parent < 0 ? p_.background : p_.container(graph.depthOf(parent)));
    }
    body_ += "</g>\n";
  }

  void legend(const std::array<bool, boxKindCount>& used, double x, double y, bool diff) {
    auto item = [&](Color fill, Color border, std::string_view name, const char* dash) {
      fmt::format_to(
          out(), "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" rx=\"3\" fill=\"{}\" stroke=\"{}\"{}/>\n",
          x, y - 10, fill.hex(), border.hex(), dash);
      if (name == boxKindName(BoxKind::Module))  // the sign that it can be opened, as in its box
        fmt::format_to(out(), "<path d=\"M{:.1f} {:.1f}h5m-2.5 -2.5v5\" stroke=\"{}\" fill=\"none\"/>\n", x + 3.5,
                       y - 4, border.hex());
      text(name, x + 17, y, 10, p_.dim, 400);
      x += 17 + textWidth(name, 10) + 18;
    };
    for (const auto& [kind, name] : kindRows(used)) item(p_.fill(kind), p_.border(kind), name, "");
    if (diff) {
      item(mix(p_.surface, p_.change(Change::Removed), 0.15), p_.change(Change::Removed), "− removed",
           " stroke-dasharray=\"4 3\"");
      item(mix(p_.surface, p_.change(Change::Added), 0.15), p_.change(Change::Added), "+ added", "");
      item(mix(p_.surface, p_.change(Change::Changed), 0.15), p_.change(Change::Changed), "~ changed", "");
    }
    for (const auto& [shown, title] : spellings_.shortNames()) {
      text(shown, x, y, 10, p_.text, 500);
      x += textWidth(shown, 10) + 6;
      text(title, x, y, 10, p_.dim, 400);
      x += textWidth(title, 10) + 18;
    }
  }

  /// From the least to the most that was measured.
  void heatLegend(double x, double y) {
    constexpr int steps = 28;
    text(tints_.title, x, y, 10, p_.dim, 400);
    x += textWidth(tints_.title, 10) * 1.05 + 12;
    text(tints_.least, x, y, 10, p_.dim, 400);
    x += textWidth(tints_.least, 10) + 4;
    for (int k = 0; k < steps; ++k, x += 5)
      fmt::format_to(out(), "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"5.3\" height=\"9\" fill=\"{}\"/>\n", x, y - 8.5,
                     tints_.scale.color(p_, tints_.scale.at((k + 0.5) / steps)).hex());
    text(tints_.most, x + 5, y, 10, p_.dim, 400);
  }
  double heatLegendWidth() const { return textWidth(tints_.title + tints_.least + tints_.most, 10) * 1.05 + 184; }
  bool hasHeat() const { return !tints_.heat.empty(); }

  double legendWidth(const std::array<bool, boxKindCount>& used, bool diff) const {
    double w = 0;
    for (const auto& [kind, name] : kindRows(used)) w += 35 + textWidth(name, 10);
    for (const auto& [shown, title] : spellings_.shortNames()) w += 24 + textWidth(shown, 10) + textWidth(title, 10);
    return w + (diff ? 300 : 0);
  }

  void text(std::string_view s, double x, double y, double size, Color color, int weight,
            std::string_view attributes = "") {
    fmt::format_to(out(),
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" font-weight=\"{}\" fill=\"{}\"{}>{}</text>\n", x,
                   y, size, weight, color.hex(), attributes, escape(s));
  }

  std::string finish(double width, double height) {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"{2}\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"{3}\"/>\n{4}</svg>\n",
        width, height, sans, p_.background.hex(), body_);
  }

 private:
  /// What the legend says of kinds: those that are no more than shades of grey apart are one entry.
  std::vector<std::pair<BoxKind, std::string>> kindRows(const std::array<bool, boxKindCount>& used) const {
    std::vector<std::pair<BoxKind, std::string>> rows;
    for (int k = 0; k < boxKindCount; ++k) {
      const auto kind = static_cast<BoxKind>(k);
      if (!used[static_cast<size_t>(k)] || boxKindName(kind).empty()) continue;
      const auto alike = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
        return kind != BoxKind::Module && Palette::isAlike(p_.border(row.first), p_.border(kind));
      });
      if (alike == rows.end())
        rows.emplace_back(kind, boxKindName(kind));
      else
        alike->second += ", " + std::string(boxKindName(kind));
    }
    return rows;
  }

  std::back_insert_iterator<std::string> out() { return std::back_inserter(body_); }

  void path(const EdgePath& edge) {
    const auto& q = edge.points;
    if (q.size() < 4) return;
    fmt::format_to(out(), "<path d=\"M{:.1f} {:.1f}", q[0].x, q[0].y);
    for (size_t i = 1; i + 2 < q.size(); i += 3)
      if (q[i].x == q[i + 2].x && q[i].x == q[i - 1].x)
        fmt::format_to(out(), "V{:.1f}", q[i + 2].y);
      else if (q[i].y == q[i + 2].y && q[i].y == q[i - 1].y)
        fmt::format_to(out(), "H{:.1f}", q[i + 2].x);
      else
        fmt::format_to(out(), "C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", q[i].x, q[i].y, q[i + 1].x, q[i + 1].y,
                       q[i + 2].x, q[i + 2].y);
    body_ += "\"/>\n";
  }

  void arrow(const EdgePath& edge) {
    if (edge.points.size() < 4) return;
    const auto [tip, a, b] = arrowHead(edge);
    fmt::format_to(out(), "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}z\"/>\n", tip.x, tip.y, a.x, a.y, b.x,
                   b.y);
  }

  void badge(size_t repeat, double right, double y) {
    std::string s = fmt::format("×{}", repeat);
    double w = textWidth(s, 10.5) + 12;
    fmt::format_to(out(), "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"16\" rx=\"8\" fill=\"{}\"/>\n",
                   right - w, y, w, p_.hue(BoxKind::Module).hex());
    text(s, right - w / 2, y + 11.8, 10.5, p_.background, 600, " text-anchor=\"middle\"");
  }

  /// As a path: some renderers draw the corners of large rectangles square.
  void rounded(double x, double y, double w, double h, double r, Color fill, Color stroke,
               const std::string& extra = "") {
    r = std::min({r, w / 2, h / 2});
    fmt::format_to(out(),
                   "<path d=\"M{:.1f} {:.1f}h{:.1f}a{r} {r} 0 0 1 {r} {r}v{:.1f}a{r} {r} 0 0 1 -{r} {r}h{:.1f}"
                   "a{r} {r} 0 0 1 -{r} -{r}v{:.1f}a{r} {r} 0 0 1 {r} -{r}z\" fill=\"{}\" stroke=\"{}\"{}/>\n",
                   x + r, y, w - 2 * r, h - 2 * r, -(w - 2 * r), -(h - 2 * r), fill.hex(), stroke.hex(), extra,
                   fmt::arg("r", r));
  }

  void container(const VisibleGraph& graph, int i, const Rect& r) {
    const Box& box = graph.boxes[i];
    int depth = graph.depthOf(i);
    Color faint = mix(p_.background, p_.hue(BoxKind::Module), 0.45);
    for (int k = box.repeat > 1 ? 2 : 0; k >= 1; --k)
      rounded(r.x + 4 * k, r.y + 4 * k, r.width, r.height, 8, p_.container(depth), faint);
    rounded(r.x, r.y, r.width, r.height, 8, p_.container(depth),
            box.kind == BoxKind::Control ? p_.hue(BoxKind::Control) : faint);
  }

  /// After the edges: where one runs through a header, the title stays readable.
  void containerTitle(const VisibleGraph& graph, int i, const Rect& r) {
    const Box& box = graph.boxes[i];
    Color behind = p_.container(graph.depthOf(i));
    double room = r.width - 24 - (box.repeat > 1 ? 40 : 0);
    std::string title = elide(box.title, 12.5, room);
    bool typed = box.name != box.title && !box.name.empty();
    double used = textWidth(title, 12.5) * 1.1 + 8;
    std::string type = typed && room - used > 24 ? elide(box.name, 11, room - used) : "";
    rounded(r.x + 9, r.y + 4, used + textWidth(type, 11) * 1.05, 18, 4, behind, behind);
    text(title, r.x + 12, r.y + 17.5, 12.5, p_.text, 600);
    if (!type.empty()) text(type, r.x + 12 + used, r.y + 17.5, 11, p_.dim, 400);
    figures(static_cast<size_t>(i), r.right() - (box.repeat > 1 ? 54 : 10), r.y + 16.5, behind);
    if (box.repeat > 1) badge(box.repeat, r.right() - 8, r.y + 5.5);
  }

  /// What was measured, up to `right`, on the colour of what it stands in.
  void figures(size_t i, double right, double baseline, Color behind) {
    if (i >= tints_.heat.size() || std::isnan(tints_.heat[i])) return;
    const double w = textWidth(tints_.figures[i], 10) * 1.05;
    rounded(right - w - 3, baseline - 10, w + 6, 13, 3, behind, behind);
    text(tints_.figures[i], right, baseline, 10, p_.dim, 500, " text-anchor=\"end\"");
  }

  /// What a box leaves to its title, and how many lines.
  static std::pair<double, int> titleRoom(const Box& box, const Rect& r) {
    const bool hasSecondLine = !box.detail.empty() || !box.chips.empty();
    return {r.width - 2 * M::padding - (box.repeat > 1 ? 34 : 0) - (box.kind == BoxKind::Module ? 16 : 0),
            hasSecondLine || box.repeat > 1 ? 1 : 2};
  }

  void box(size_t i, const Box& box, const Rect& r, Change change, bool isDiff) {
    bool isIo = box.kind == BoxKind::Input || box.kind == BoxKind::Output;
    Color fill = p_.fill(box.kind), border = p_.border(box.kind);
    double width = isIo ? 1.8 : 1.2;
    std::string extra;
    title_ = p_.text, dim_ = p_.dim;
    if (!tints_.heat.empty()) {
      fill = std::isnan(tints_.heat[i]) ? p_.surface : tints_.scale.color(p_, tints_.heat[i]);
      border = mix(fill, p_.text, 0.3);
      title_ = dim_ = inkOn(fill);
    }
    if (i < tints_.pattern.size() && tints_.pattern[i] >= 0) {
      border = p_.pattern(static_cast<size_t>(tints_.pattern[i]));
      fill = mix(p_.surface, border, p_.dark ? 0.34 : 0.24);
      width = 2.4;
    }
    const bool hasHeat = !tints_.heat.empty();  // then the fill says that, and the border what changed
    bool faded = isDiff && change == Change::None && !isIo && !hasHeat;
    if (change != Change::None) {
      border = p_.change(change);
      if (!hasHeat) fill = mix(p_.surface, border, p_.dark ? 0.25 : 0.15);
      width = 2;
      if (change == Change::Removed) extra = " stroke-dasharray=\"5 3\"";
    }
    if (faded) {
      fill = mix(p_.background, fill, 0.4);
      border = mix(p_.background, border, 0.4);
      for (Color* ink : {&title_, &dim_}) *ink = readable(mix(fill, *ink, 0.55), fill, *ink);
    }
    for (int k = box.repeat > 1 ? 2 : 0; k >= 1; --k)
      rounded(r.x + 3 * k, r.y + 3 * k, r.width, r.height, 6, fill, border);
    rounded(r.x, r.y, r.width, r.height, isIo ? r.height / 2 : 6, fill, border,
            fmt::format(" stroke-width=\"{}\"{}", width, extra));
    bool two = !box.detail.empty() || !box.chips.empty();
    double y = r.y + (two ? 18.5 : r.height / 2 + 4.5);
    const auto [room, lineCount] = titleRoom(box, r);
    const TitleForms forms = titleForms(box.title);
    const FittedTitle set = fitTitle(box.title, forms, spellings_.of(box.title), room, lineCount, TitleLetters{},
                                     TitleLetters{narrowLetters});
    const TitleLetters letters{set.isNarrow ? narrowLetters : 1};
    const std::string title = std::string(set.first) + (set.form == FittedTitle::Form::Cut ? "…" : "");
    double used = std::max(letters.width(title), letters.width(set.second)) * 1.04;
    const bool hasName = box.name != box.title && set.form == FittedTitle::Form::Whole && room - used >= 28;
    std::string name = hasName ? elide(box.name, M::nameSize, room - used - 8, true) : "";
    double total = used + (name.empty() ? 0 : 8 + textWidth(name, M::nameSize) * 1.04);
    double x = isIo ? r.centerX() - total / 2 : r.x + M::padding;
    const double lines = set.second.empty() ? 0 : 6.5;  // of two, from the middle
    writeTitle(title, x, y - lines, set.isNarrow);
    if (lines > 0) writeTitle(set.second, x, y + lines, set.isNarrow);
    if (!name.empty()) text(name, x + used + 8, y, M::nameSize, dim_, 400);
    if (box.kind == BoxKind::Module) expander(r.right() - M::padding - 8 - (box.repeat > 1 ? 36 : 0), y - 8);
    if (box.repeat > 1) badge(box.repeat, r.right() - 6, r.y + 6);
    if (two) secondLine(box, r, isIo, faded);
    if (change != Change::None) glyph(change, r);
  }

  void writeTitle(std::string_view s, double x, double y, bool isNarrow) {
    if (!isNarrow) return text(s, x, y, M::titleSize, title_, 500);
    text(s, x / narrowLetters, y, M::titleSize, title_, 500, fmt::format(" transform=\"scale({},1)\"", narrowLetters));
  }

  void secondLine(const Box& box, const Rect& r, bool centred, bool faded) {
    double x = r.x + M::padding, y = r.y + 35.5, right = r.right() - M::padding;
    if (!box.detail.empty()) {
      std::string s = elide(box.detail, M::detailSize, right - x);
      if (centred) {
        text(s, r.centerX(), y, M::detailSize, dim_, 400, " text-anchor=\"middle\"");
        return;
      }
      text(s, x, y, M::detailSize, dim_, 400);
      x += textWidth(s, M::detailSize) * 1.04 + M::chipGap;
    }
    for (size_t i = 0; i < box.chips.size(); ++i) {
      double room = right - x - 2 * M::chipPadding;
      if (room < 8) break;
      std::string s = elide(box.chips[i], M::chipSize, room);
      double w = textWidth(s, M::chipSize) * 1.03 + 2 * M::chipPadding;
      fmt::format_to(
          out(),
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" rx=\"7\" fill=\"{}\" fill-opacity=\"{}\"/>\n",
          x, y - 10.6, w,
          (tints_.heat.empty() ? mix(p_.surface, p_.hue(box.kind), p_.dark ? 0.42 : 0.24) : title_).hex(),
          !tints_.heat.empty() ? 0.2
          : faded              ? 0.55
                               : 1.0);
      text(s, x + M::chipPadding, y - 0.3, M::chipSize, title_, 400);
      x += w + M::chipGap;
    }
  }

  void expander(double x, double y) {
    fmt::format_to(out(), "<path d=\"M{:.1f} {:.1f}h8m-4 -4v8\" stroke=\"{}\" stroke-width=\"1.4\" fill=\"none\"/>\n",
                   x, y + 4, dim_.hex());
  }

  void glyph(Change change, const Rect& r) {
    const char* sign = change == Change::Removed ? "−" : change == Change::Added ? "+" : "~";
    fmt::format_to(out(), "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"7.5\" fill=\"{}\"/>\n", r.right() - 2, r.y + 2,
                   p_.change(change).hex());
    text(sign, r.right() - 2, r.y + 6.2, 12, inkOn(p_.change(change)), 700, " text-anchor=\"middle\"");
  }

  const DrawOptions& options_;
  const Tints& tints_;
  Palette p_;
  Spellings spellings_;
  Color title_, dim_;  ///< of the text in the box that is written
  std::string body_;
};

std::vector<Change> changesOf(const Graph& graph, const VisibleGraph& view,
                              const std::set<std::string, std::less<>>& names,
                              const std::set<std::string, std::less<>>& changed, Change kind) {
  std::vector<Change> changes(view.boxes.size(), Change::None);
  for (NodeId id : graph.order()) {
    int box = view.boxOfNode[id.index];
    if (box < 0) continue;
    Change c = names.contains(graph.node(id).name)     ? kind
               : changed.contains(graph.node(id).name) ? Change::Changed
                                                       : Change::None;
    if (c == Change::None) continue;
    changes[box] = view.boxes[box].node == id && !view.boxes[box].open ? c
                   : view.boxes[box].kind == BoxKind::Module           ? Change::Changed
                                                                       : c;
  }
  return changes;
}

struct Part {
  VisibleGraph view;
  Layout layout;
};

Result<Part> prepare(const Graph& graph, const DrawOptions& options) {
  Part part;
  part.view = makeVisibleGraph(graph, {.depth = options.depth,
                                       .opened = options.opened,
                                       .closed = options.closed,
                                       .foldRepeats = options.foldRepeats,
                                       .showScalars = options.showScalars,
                                       .foldDeadEnds = options.foldDeadEnds});
  if (part.view.boxes.size() > options.maxBoxes)
    return badInput(fmt::format("the drawing would have {} boxes, more than {}: collapse modules with a smaller depth",
                                part.view.boxes.size(), options.maxBoxes));
  LayoutOptions how;
  how.engine = options.engine;
  how.labels = options.labels;
  how.columns = options.columns;
  how.flow = options.flow;
  how.graphvizSeconds = 5;
  Result<Layout> layout = layoutGraph(part.view, how);
  if (!layout) return layout.error();
  part.layout = std::move(*layout);
  return part;
}

void addKinds(const VisibleGraph& view, std::array<bool, boxKindCount>& used) {
  for (const Box& box : view.boxes)
    if (!box.open) used[static_cast<int>(box.kind)] = true;
}

std::string compose(const DrawOptions& options, const std::vector<std::pair<std::string, const Part*>>& parts,
                    const std::vector<std::vector<Change>>& changes, const Tints& tints = {}) {
  Writer writer(options, tints);
  double x = 10, height = 0, width = 0, top = 10;
  // Drawings stand beside each other across the way that they run.
  const bool isBeside = options.flow == Flow::Down && !options.isStacked;
  bool titled = std::any_of(parts.begin(), parts.end(), [](auto& p) { return !p.first.empty(); });
  std::array<bool, boxKindCount> used{};
  for (const auto& [title, part] : parts) writer.spell(part->view, part->layout);
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = *parts[i].second;
    if (titled && (i == 0 || !isBeside)) top += 26;
    if (titled) writer.text(parts[i].first, x + Metrics::margin, top - 4, 15, writer.colors().text, 600);
    writer.graph(part.view, part.layout, changes[i], x, top);
    addKinds(part.view, used);
    const double w =
        std::max(part.layout.width, titled ? textWidth(parts[i].first, 15) * 1.08 + 2 * Metrics::margin : 0);
    width = std::max(width, x + w + 10);
    height = std::max(height, part.layout.height);
    if (isBeside)
      x += w + 30;
    else if (i + 1 < parts.size())
      top += part.layout.height + 10, height = 0;
  }
  double bottom = top + height + 10;
  bool diff = parts.size() > 1;
  if (options.legend && writer.hasHeat()) {
    writer.heatLegend(10 + Metrics::margin, bottom + 10);
    bottom += 26;
    width = std::max(width, writer.heatLegendWidth() + 30);
  } else if (options.legend) {
    writer.legend(used, 10 + Metrics::margin, bottom + 10, diff);
    bottom += 26;
    width = std::max(width, writer.legendWidth(used, diff) + 30);
  }
  return writer.finish(width, bottom);
}

}  // namespace

std::string svgOf(const VisibleGraph& view, const Layout& layout, const DrawOptions& options,
                  const std::vector<Change>& changes, const Tints& tints) {
  Part part{view, layout};
  return compose(options, {{options.title, &part}}, {changes}, tints);
}

namespace {

/// The first of the numbers on the boxes; a module has what its nodes have together.
Tints tintsOf(const Graph& graph, const VisibleGraph& view, const DrawOptions& options) {
  Tints tints;
  if (options.numbers.empty()) return tints;
  const NodeNumbers& numbers = options.numbers.front();
  std::vector<double> sums(view.boxes.size(), std::nan(""));
  for (NodeId id : graph.order()) {
    const auto known = numbers.values.find(graph.node(id).name);
    if (known == numbers.values.end()) continue;
    for (int box = view.boxOfNode[id.index]; box >= 0; box = view.boxes[static_cast<size_t>(box)].parent) {
      double& sum = sums[static_cast<size_t>(box)];
      sum = std::isnan(sum) ? known->second : numbers.adds ? sum + known->second : std::max(sum, known->second);
    }
  }
  constexpr double none = std::numeric_limits<double>::infinity();
  tints.scale = numbers.fromZero ? HeatScale{} : HeatScale{none, -none};
  for (size_t i = 0; i < sums.size(); ++i)
    if (!view.boxes[i].open && !std::isnan(sums[i])) {
      tints.scale.least = std::min(tints.scale.least, sums[i]);
      tints.scale.most = std::max(tints.scale.most, sums[i]);
    }
  const auto figure = [&](double v) {
    return fmt::format("{:.4g}{}{}", v, numbers.unit.empty() ? "" : " ", numbers.unit);
  };
  if (tints.scale.least > tints.scale.most) tints.scale = {};  // no node of the drawing has one
  tints.heat = sums;
  for (double sum : sums) {
    tints.figures.push_back(std::isnan(sum) ? std::string() : figure(sum));
  }
  tints.title = numbers.title;
  tints.least = tints.scale.least == 0 ? "0" : figure(tints.scale.least);
  tints.most = figure(tints.scale.most);
  return tints;
}

}  // namespace

Result<std::string> drawSvg(const Graph& graph, const DrawOptions& options) {
  Result<Part> after = prepare(graph, options);
  if (!after) return after.error();
  std::string title = options.title.empty() ? graph.name : options.title;
  if (!options.before) return compose(options, {{title, &*after}}, {{}}, tintsOf(graph, after->view, options));
  Result<Part> before = prepare(*options.before, options);
  if (!before) return before.error();
  GraphDifference own;
  if (!options.difference) own = differenceByNames(*options.before, graph);
  const GraphDifference& d = options.difference ? *options.difference : own;
  std::string heading = title.empty() ? "" : title + " · ";
  return compose(options, {{heading + "before", &*before}, {heading + "after", &*after}},
                 {changesOf(*options.before, before->view, d.removed, d.changed, Change::Removed),
                  changesOf(graph, after->view, d.added, d.changed, Change::Added)});
}

}  // namespace graft
