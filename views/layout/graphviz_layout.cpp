// Graphviz' dot as a layout engine. libgvc keeps global state and cannot be stopped, so each layout runs in a forked
// child that sends its result through a pipe and is killed when it takes too long.
#include <algorithm>
#include <cstring>

#include "views/layout/layout.h"

#ifdef GRAFT_HAVE_GRAPHVIZ
#include <graphviz/gvc.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#endif

namespace graft {

#ifndef GRAFT_HAVE_GRAPHVIZ
Result<Layout> layoutGraphviz(const VisibleGraph&, const LayoutOptions&, const CancelToken&) {
  return badInput("this build has no Graphviz: use the layered layout");
}
#else
namespace {

constexpr double pointsPerInch = 72;

void set(void* object, const char* name, const std::string& value) {
  agsafeset(object, const_cast<char*>(name), const_cast<char*>(value.c_str()), const_cast<char*>(""));
}

std::string inches(double pixels) { return std::to_string(pixels / pointsPerInch); }

/// In the child: boxes, then edges as their number of points and the points.
std::vector<double> computeWithDot(const VisibleGraph& graph, const LayoutOptions& options) {
  GVC_t* context = gvContext();
  Agraph_t* g = agopen(const_cast<char*>("g"), Agdirected, nullptr);
  auto attribute = [&](int kind, const char* name, const char* value) {
    agattr(g, kind, const_cast<char*>(name), const_cast<char*>(value));
  };
  attribute(AGRAPH, "nslimit", "2");
  attribute(AGRAPH, "nslimit1", "2");
  attribute(AGRAPH, "nodesep", "0.3");
  attribute(AGRAPH, "ranksep", options.labels ? "0.42" : "0.3");
  attribute(AGRAPH, "compound", "true");
  attribute(AGRAPH, "rankdir", options.flow == Flow::Right ? "LR" : "TB");
  attribute(AGRAPH, "margin", "14");
  attribute(AGRAPH, "labelloc", "t");
  attribute(AGRAPH, "fontsize", "15");
  attribute(AGRAPH, "label", "");
  attribute(AGNODE, "shape", "box");
  attribute(AGNODE, "fixedsize", "true");
  attribute(AGNODE, "label", "");
  attribute(AGEDGE, "arrowhead", "none");
  std::vector<Agraph_t*> clusters(graph.boxes.size(), nullptr);
  std::vector<Agnode_t*> nodes(graph.boxes.size(), nullptr);
  for (size_t i = 0; i < graph.boxes.size(); ++i) {
    const Box& box = graph.boxes[i];
    Agraph_t* parent = box.parent < 0 ? g : clusters[box.parent];
    std::string id = std::to_string(i);
    if (box.open) {
      clusters[i] = agsubg(parent, const_cast<char*>(("cluster" + id).c_str()), 1);
      set(clusters[i], "label", box.title + "  " + box.name);
    }
    if (!box.open || box.kind == BoxKind::Control) {  // control flow is an edge's end itself
      nodes[i] = agnode(g, const_cast<char*>(id.c_str()), 1);
      Rect size = boxSize(box);
      set(nodes[i], "width", inches(size.width));
      set(nodes[i], "height", inches(size.height));
      agsubnode(box.open ? clusters[i] : parent, nodes[i], 1);
    }
  }
  std::vector<Agedge_t*> edges;
  for (const VisibleEdge& e : graph.edges) edges.push_back(agedge(g, nodes[e.from], nodes[e.to], nullptr, 1));
  std::vector<double> result;
  if (gvLayout(context, g, "dot") != 0) return result;
  double height = GD_bb(g).UR.y;
  result = {GD_bb(g).UR.x, height};
  for (size_t i = 0; i < graph.boxes.size(); ++i) {
    if (clusters[i]) {
      boxf bb = GD_bb(clusters[i]);
      result.insert(result.end(), {bb.LL.x, height - bb.UR.y, bb.UR.x - bb.LL.x, bb.UR.y - bb.LL.y});
    } else {
      double w = ND_width(nodes[i]) * pointsPerInch, h = ND_height(nodes[i]) * pointsPerInch;
      result.insert(result.end(), {ND_coord(nodes[i]).x - w / 2, height - ND_coord(nodes[i]).y - h / 2, w, h});
    }
  }
  for (Agedge_t* e : edges) {
    splines* s = ED_spl(e);
    if (!s || s->size == 0) {
      result.push_back(0);
      continue;
    }
    const bezier& b = s->list[0];
    result.push_back(b.size);
    for (int k = 0; k < b.size; ++k) result.insert(result.end(), {b.list[k].x, height - b.list[k].y});
  }
  return result;
}

[[noreturn]] void runChild(int out, const VisibleGraph& graph, const LayoutOptions& options) {
  std::vector<double> result = computeWithDot(graph, options);
  const char* data = reinterpret_cast<const char*>(result.data());
  size_t left = result.size() * sizeof(double);
  while (left > 0) {
    ssize_t n = write(out, data, left);
    if (n <= 0) _exit(1);
    data += n;
    left -= static_cast<size_t>(n);
  }
  _exit(0);
}

}  // namespace

Result<Layout> layoutGraphviz(const VisibleGraph& graph, const LayoutOptions& options, const CancelToken& cancel) {
  int ends[2];
  if (pipe(ends) != 0)
    return internalError("cannot open a pipe to the layout process: " + std::string(strerror(errno)));
  pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return internalError("cannot start the layout process: " + std::string(strerror(errno)));
  }
  if (child == 0) {
    close(ends[0]);
    runChild(ends[1], graph, options);
  }
  close(ends[1]);
  std::string bytes;
  std::vector<char> buffer(1 << 16);
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.graphvizSeconds);
  bool late = false;
  for (;;) {
    late = std::chrono::steady_clock::now() > end;
    if (late || cancel.cancelled()) break;
    pollfd p{ends[0], POLLIN, 0};
    if (poll(&p, 1, 20) <= 0) continue;
    ssize_t n = read(ends[0], buffer.data(), buffer.size());
    if (n <= 0) break;
    bytes.append(buffer.data(), static_cast<size_t>(n));
  }
  close(ends[0]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (cancel.cancelled()) return Error{ErrorKind::Cancelled, "the layout was stopped", {}};
  if (late) return badInput("dot took longer than the layout may");

  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  size_t next = 0;
  bool isTruncated = false;
  auto take = [&] { return next < numbers.size() ? numbers[next++] : (isTruncated = true, 0.0); };
  Layout layout;
  layout.engine = "dot";
  layout.flow = options.flow;
  layout.width = take() + 2 * Metrics::margin;
  layout.height = take() + 2 * Metrics::margin;
  for (size_t i = 0; i < graph.boxes.size(); ++i) {
    double x = take() + Metrics::margin, y = take() + Metrics::margin, w = take(), h = take();
    layout.boxes.push_back({x, y, w, h});
  }
  std::vector<char> labelled;
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    EdgePath path;
    for (double n = take(); n > 0 && !isTruncated; --n) {
      double x = take() + Metrics::margin, y = take() + Metrics::margin;
      path.points.push_back({x, y});
    }
    uint32_t value = graph.edges[e].value.index;
    if (labelled.size() <= value) labelled.resize(value + 1, 0);
    if (!path.points.empty() && options.labels && !graph.edges[e].label.empty() && !labelled[value]) {
      labelled[value] = 1;
      layout.labels.push_back(
          {static_cast<int>(e), {path.points[0].x + 5, path.points[0].y + 12}, graph.edges[e].label});
    }
    layout.edges.push_back(std::move(path));
  }
  if (isTruncated) return badInput("dot could not lay the graph out");
  return layout;
}
#endif

}  // namespace graft
