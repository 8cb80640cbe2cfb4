#include "views/panels/captured/joint_rows.h"

#include <QHash>
#include <algorithm>
#include <functional>
#include <map>

#include "views/document/graph_decode.h"

namespace graft {
namespace {

/// A module with both halves of what happens in it.
struct Module {
  QString path, type;
  std::vector<int> children;  ///< in the order in which the forward pass comes to them
  JointRow sum;               ///< all inside
  std::vector<JointRow> tensors;
};

class Modules {
 public:
  Modules() { all_.emplace_back(); }

  /// The module of that path and those around it.
  int at(const QString& path) {
    if (path.isEmpty()) return 0;
    if (const auto it = index_.constFind(path); it != index_.constEnd()) return *it;
    const int parent = at(path.section(QLatin1Char('.'), 0, -2));
    const int made = static_cast<int>(all_.size());
    all_.emplace_back().path = path;
    all_[static_cast<size_t>(parent)].children.push_back(made);
    index_.insert(path, made);
    return made;
  }
  Module& operator[](int i) { return all_[static_cast<size_t>(i)]; }
  Module* find(const QString& path) {
    const auto it = index_.constFind(path);
    return it == index_.constEnd() ? nullptr : &all_[static_cast<size_t>(*it)];
  }

  /// Calls f for the module and each around it.
  void upwards(const QString& path, const std::function<void(Module&)>& f) {
    for (QString p = path;; p = p.section(QLatin1Char('.'), 0, -2)) {
      f((*this)[at(p)]);
      if (p.isEmpty()) return;
    }
  }

 private:
  std::vector<Module> all_;
  QHash<QString, int> index_;
};

QString scopeOf(const Graph& g, const QString& node) {
  const NodeId n = g.findNode(node.toStdString());
  if (n) return toQt(std::string(g.scopeOf(n)));
  const ValueId v = g.findValue(node.toStdString());
  return v && g.value(v).producer ? toQt(std::string(g.scopeOf(g.value(v).producer))) : QString();
}

void addTypes(Modules& modules, const Graph& g) {
  for (const ModuleCall& m : g.moduleCalls()) {
    // A module none of whose nodes are in a half has no row.
    if (Module* found = modules.find(toQt(m.path)); found && found->type.isEmpty())
      found->type = toQt(std::string(m.shortType()));
  }
}

JointRow tensorRow(const QString& name, const QString& module, const QString& op) {
  JointRow out;
  out.kind = JointRow::Kind::Tensor;
  out.name = name;
  out.path = module;
  out.detail = op;
  return out;
}

Modules modulesOf(const Graph& g, const TrainingCut& cut) {
  const CutReport& report = cut.report();
  Modules out;
  // Modules come in the order of their first node in the forward pass, then of what the backward pass alone has.
  for (const auto* half : {&report.forward, &report.backward})
    for (const LiveNodeInfo& n : *half)
      out.upwards(scopeOf(g, n.name),
                  [&](Module& m) { ++(half == &report.forward ? m.sum.forwardNodes : m.sum.backwardNodes); });
  for (const SavedTensorInfo& s : report.saved) {
    JointRow row = tensorRow(s.name, s.module, s.producer);
    row.savedBytes = row.bytesBy[static_cast<size_t>(s.kind)] = s.bytes;
    row.crossing = s.kind;
    row.type = s.type;
    row.reason = s.reason;
    row.pin = cut.pinOf(s.name, s.module);
    row.consumers = s.consumers;
    row.microseconds = s.microseconds;
    out.upwards(s.module, [&](Module& m) {
      ++m.sum.tensors;
      m.sum.savedBytes += s.bytes;
      m.sum.bytesBy[static_cast<size_t>(s.kind)] += s.bytes;
    });
    out[out.at(s.module)].tensors.push_back(std::move(row));
  }
  for (const RecomputedInfo& n : report.recomputed) {
    if (n.bytes == 0) continue;  // a view: it takes neither memory nor time
    JointRow row = tensorRow(n.name, n.module, n.op);
    row.againBytes = n.bytes;
    row.crossing = Crossing::Again;
    row.reason = n.reason;
    row.pin = cut.pinOf(n.name, n.module);
    row.microseconds = n.microseconds;
    if (const ValueId v = g.findValue(n.name.toStdString())) row.type = toQt(toString(g.value(v).type));
    out.upwards(n.module, [&](Module& m) {
      ++m.sum.againNodes;
      m.sum.againBytes += n.bytes;
      m.sum.againMicroseconds += n.microseconds;
    });
    out[out.at(n.module)].tensors.push_back(std::move(row));
  }
  addTypes(out, g);
  return out;
}

void emitRows(JointRows& into, Modules& modules, int index, int depth, const QSet<QString>& opened, const Graph& g) {
  Module& m = modules[index];
  JointRow row = m.sum;
  row.depth = depth;
  row.path = m.path;
  row.name =
      m.path.isEmpty() ? (g.name.empty() ? JointRow().name : toQt(g.name)) : m.path.section(QLatin1Char('.'), -1);
  row.detail = m.type;
  row.canOpen = !m.children.empty() || !m.tensors.empty();
  row.isOpen = row.canOpen && opened.contains(m.path);
  into.rows.push_back(row);
  if (!row.isOpen) {
    into.mostBytes = std::max(into.mostBytes, row.savedBytes);
    return;
  }
  // Tensors stand in the graph's order among themselves, ahead of the modules inside.
  std::stable_sort(m.tensors.begin(), m.tensors.end(), [&](const JointRow& a, const JointRow& b) {
    const auto place = [&](const JointRow& r) -> NodeId {
      const ValueId v = g.findValue(r.name.toStdString());
      return v ? g.value(v).producer : NodeId();
    };
    const NodeId x = place(a), y = place(b);
    if (!x || !y) return !x && y;
    return x != y && g.isBefore(x, y);
  });
  for (JointRow& t : m.tensors) {
    t.depth = depth + 1;
    into.mostBytes = std::max(into.mostBytes, t.savedBytes);
    into.rows.push_back(t);
  }
  for (const int child : m.children) emitRows(into, modules, child, depth + 1, opened, g);
}

}  // namespace

JointRows JointRows::make(const Graph& graph, const TrainingCut& cut, const QSet<QString>& opened) {
  JointRows out;
  if (cut.report().isEmpty()) return out;
  Modules modules = modulesOf(graph, cut);
  emitRows(out, modules, 0, 0, opened, graph);
  return out;
}

QSet<QString> JointRows::openedAtFirst(const Graph& graph) {
  std::map<QString, QSet<QString>> children;
  for (const ModuleCall& m : graph.moduleCalls())
    for (QString path = toQt(m.path); !path.isEmpty(); path = path.section(QLatin1Char('.'), 0, -2))
      children[path.section(QLatin1Char('.'), 0, -2)].insert(path);
  QSet<QString> out;
  // Down the largest module of each level, until one has a handful: the layers of a network.
  QString at;
  constexpr int handful = 3;
  for (int depth = 0; depth < 6; ++depth) {
    out.insert(at);
    const QSet<QString>& inside = children[at];
    if (inside.isEmpty() || (inside.size() > handful && depth > 0)) break;
    QString widest;
    qsizetype most = -1;
    for (const QString& path : inside) {
      qsizetype count = 0;
      for (const auto& [outer, in] : children)
        if (outer == path || outer.startsWith(path + QLatin1Char('.'))) count += in.size();
      if (count > most || (count == most && path < widest)) most = count, widest = path;
    }
    at = widest;
  }
  return out;
}

int JointRows::find(const QString& value, const QString& module) const {
  int best = -1;
  qsizetype length = -1;
  for (size_t i = 0; i < rows.size(); ++i) {
    const JointRow& r = rows[i];
    if (r.kind == JointRow::Kind::Tensor && r.name == value) return static_cast<int>(i);
    const bool holds = r.kind == JointRow::Kind::Module &&
                       (r.path.isEmpty() || module == r.path || module.startsWith(r.path + QLatin1Char('.')));
    if (holds && r.path.size() > length) best = static_cast<int>(i), length = r.path.size();
  }
  return best;
}

}  // namespace graft
