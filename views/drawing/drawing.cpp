#include "views/drawing/drawing.h"

#include "views/drawing/page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to us

namespace graft {
namespace {

namespace fs = std::filesystem;

std::string dotString(std::string_view text) {
  std::string s = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    if (c == '\n')
      s += "\\n";
    else
      s += c;
  }
  return s + "\"";
}

/// Beside it, synced, then renamed: the file is whole or not there.
Status writeWhole(const fs::path& path, std::string_view bytes) {
  auto failed = [&](const char* what) -> Error {
    return badInput(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno)));
  };
  fs::path beside = path.string() + fmt::format(".{}.part", getpid());
  int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return failed("write");
  while (!bytes.empty()) {
    ssize_t n = write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      Error e = failed("write");
      close(file);
      unlink(beside.c_str());
      return e;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (fsync(file) != 0 || close(file) != 0 || rename(beside.c_str(), path.c_str()) != 0) {
    Error e = failed("write");
    unlink(beside.c_str());
    return e;
  }
  return done();
}

std::string findRasteriser() {
  std::error_code ignored;
  fs::path own = fs::read_symlink("/proc/self/exe", ignored);
  for (const fs::path& folder : {own.parent_path(), own.parent_path().parent_path()})
    if (fs::exists(folder / "graft-raster", ignored)) return (folder / "graft-raster").string();
  std::string_view path = getenv("PATH") ? getenv("PATH") : "";
  while (!path.empty()) {
    std::string_view folder = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(path.size(), folder.size() + 1));
    if (!folder.empty() && fs::exists(fs::path(folder) / "graft-raster", ignored))
      return (fs::path(folder) / "graft-raster").string();
  }
  return {};
}

Status rasterise(const std::string& svg, const fs::path& path, double scale) {
  std::string program = findRasteriser();
  if (program.empty())
    return badInput(
        "PNG and PDF need the program graft-raster, which comes with the window: write .svg instead, or install "
        "that (`graft gui` says how)");
  fs::path source = path.string() + fmt::format(".{}.svg", getpid()),
           beside = path.string() + fmt::format(".{}.part{}", getpid(), path.extension().string());
  if (Status s = writeWhole(source, svg); !s) return s;
  std::vector<std::string> words = {program, source.string(), beside.string(), fmt::format("{}", scale)};
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  int status = posix_spawn(&child, program.c_str(), nullptr, nullptr, argv.data(), environ);
  if (status == 0) waitpid(child, &status, 0);
  std::error_code ignored;
  fs::remove(source, ignored);
  if (status != 0) {
    fs::remove(beside, ignored);
    return badInput(fmt::format("{} could not turn the drawing into {}", program, path.string()));
  }
  fs::rename(beside, path, ignored);
  if (ignored) return badInput(fmt::format("cannot write {}: {}", path.string(), ignored.message()));
  return done();
}

}  // namespace

GraphDifference differenceByNames(const Graph& before, const Graph& after) {
  GraphDifference d;
  auto text = [](const Graph& g, const Node& n) {
    std::string s = n.op->name;
    for (const Argument& a : n.args) s += "," + argumentText(a, g);
    for (const auto& [name, a] : n.kwargs) s += "," + name + "=" + argumentText(a, g);
    for (ValueId v : n.outputs) s += ":" + toString(g.value(v).type);
    return s;
  };
  for (NodeId id : before.order()) {
    const Node& node = before.node(id);
    NodeId other = after.findNode(node.name);
    if (!other || after.node(other).op->name != node.op->name)
      d.removed.insert(node.name);
    else if (text(before, node) != text(after, after.node(other)))
      d.changed.insert(node.name);
  }
  for (NodeId id : after.order()) {
    const Node& node = after.node(id);
    NodeId other = before.findNode(node.name);
    if (!other || before.node(other).op->name != node.op->name) d.added.insert(node.name);
  }
  return d;
}

Result<std::string> drawDot(const Graph& graph, const DrawOptions& options) {
  VisibleGraph view = makeVisibleGraph(graph, {.depth = options.depth,
                                               .foldRepeats = options.foldRepeats,
                                               .showScalars = options.showScalars,
                                               .foldDeadEnds = options.foldDeadEnds});
  return dotOf(view, graph.name, options);
}

std::string dotOf(const VisibleGraph& view, const std::string& name, const DrawOptions& options) {
  Palette p = palette(options.theme);
  std::string s = fmt::format(
      "digraph {} {{\n{}  bgcolor=\"{}\"; compound=true; nslimit=2; fontname=\"Inter\";\n"
      "  node [shape=box, style=\"rounded,filled\", fontname=\"Inter\", fontsize=11, fontcolor=\"{}\"];\n"
      "  edge [color=\"{}\", fontname=\"Inter\", fontsize=9, fontcolor=\"{}\", arrowsize=0.6];\n",
      dotString(name), options.flow == Flow::Right ? "  rankdir=LR;\n" : "", p.background.hex(), p.text.hex(),
      p.edge.hex(), p.dim.hex());
  auto write = [&](int i, int indent, auto& self) -> void {
    const Box& box = view.boxes[i];
    std::string pad(indent, ' ');
    std::string title = box.title + (box.repeat > 1 ? fmt::format("  ×{}", box.repeat) : "");
    if (box.open) {
      s += fmt::format(
          "{}subgraph cluster_{} {{\n{}  label={}; style=\"rounded,filled\"; fillcolor=\"{}\"; color=\"{}\";\n", pad, i,
          pad, dotString(title + "  " + box.name), p.container(indent / 2).hex(), p.border(BoxKind::Module).hex());
      if (box.kind == BoxKind::Control) s += fmt::format("{}  b{} [label={}];\n", pad, i, dotString(box.title));
      for (int child : box.children) self(child, indent + 2, self);
      s += pad + "}\n";
      return;
    }
    std::string label = title + (box.name.empty() || box.name == box.title ? "" : "  " + box.name);
    std::string second = box.detail;
    for (const std::string& chip : box.chips) second += (second.empty() ? "(" : "  (") + chip + ")";
    if (!second.empty()) label += "\n" + second;
    s += fmt::format("{}b{} [label={}, fillcolor=\"{}\", color=\"{}\"];\n", pad, i, dotString(label),
                     p.fill(box.kind).hex(), p.border(box.kind).hex());
  };
  for (int root : view.roots) write(root, 2, write);
  for (const VisibleEdge& e : view.edges)
    s += fmt::format("  b{} -> b{}{};\n", e.from, e.to,
                     options.labels && !e.label.empty() ? " [label=" + dotString(e.label) + "]" : "");
  return s + "}\n";
}

bool isPictureName(const std::string& path) {
  const std::string ending = fs::path(path).extension().string();
  return ending == ".svg" || ending == ".png" || ending == ".pdf" || ending == ".html" || ending == ".dot" ||
         ending == ".gv";
}

Status drawToFile(const Graph& graph, const std::string& path, const DrawOptions& options) {
  if (!isPictureName(path))
    return Error{ErrorKind::Usage,
                 fmt::format("cannot draw into \"{}\": use a name that ends in .svg, .png, .pdf, .html or .dot", path),
                 {}};
  const std::string ending = fs::path(path).extension().string();
  if (ending == ".dot" || ending == ".gv") {
    Result<std::string> dot = drawDot(graph, options);
    return dot ? writeWhole(path, *dot) : Status(dot.error());
  }
  if (ending == ".html") {
    Result<std::string> page = drawPage(graph, options);
    return page ? writeWhole(path, *page) : Status(page.error());
  }
  Result<std::string> svg = drawSvg(graph, options);
  if (!svg) return svg.error();
  return ending == ".svg" ? writeWhole(path, *svg) : rasterise(*svg, path, options.scale);
}

}  // namespace graft
