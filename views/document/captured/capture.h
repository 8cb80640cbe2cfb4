// Capture: what the engine tells of the capture that the open model is a graph of: all its graphs, where and why
// torch.compile broke between them, and the guards of the open graph with what would break each. Empty for models of
// any other kind.
//
//   Capture capture(document);
//   connect(&capture, &Capture::changed, …);   // capture.graphs()[0].breakReason, capture.guards()
#pragma once

#include <QObject>
#include <QString>
#include <vector>

#include "views/document/document.h"

namespace graft {

struct CapturedGraphInfo {
  QString name;
  int nodes = 0, guards = 0;  ///< nodes as they were captured: an opened graph has fewer
  bool breaks = false;        ///< the capture broke behind it
  QString reason, explanation, hint, file, code;
  int line = 0;
  /// "joint" of "joint.1": which of a training step's graphs it is.
  QString role() const { return roleOf(name); }
  /// 1 of "joint.1": how many breaks are before it.
  int part() const { return partOf(name); }
  /// "step_1" of "step_1/joint.1", where the capture is a folder of files; else "".
  QString folderEntry() const {
    return name.contains(QLatin1Char('/')) ? name.section(QLatin1Char('/'), 0, -2) : QString();
  }
  /// "13 nodes captured"
  QString nodesText() const;
  /// Why the open graph's number of nodes is another.
  static QString nodesTip();
  static int partOf(const QString& name) {
    return name.section(QLatin1Char('/'), -1).section(QLatin1Char('.'), 1, 1).toInt();
  }
  /// The graph of that role beside this one: "step_1/joint.2" beside "step_1/forward.2".
  static QString sibling(const QString& name, const QString& role) {
    const int part = partOf(name);
    const QString graph = part == 0 ? role : role + QLatin1Char('.') + QString::number(part);
    return name.chopped(name.section(QLatin1Char('/'), -1).size()) + graph;
  }
  static QString roleOf(const QString& name) {
    const QString graph = name.section(QLatin1Char('/'), -1);
    return name.chopped(graph.size()) + graph.section(QLatin1Char('.'), 0, 0);
  }
};

struct GuardInfo {
  QString text, about, brokenBy;
};

class Capture : public QObject {
  Q_OBJECT

 public:
  explicit Capture(Document& document, QObject* parent = nullptr);
  const std::vector<CapturedGraphInfo>& graphs() const { return graphs_; }
  const std::vector<GuardInfo>& guards() const { return guards_; }
  /// The graph of that name; null where there is none.
  const CapturedGraphInfo* find(const QString& name) const;
  /// Of each part of a broken capture the graph with the open one's role: joint, joint.1, …
  std::vector<const CapturedGraphInfo*> chain() const;

 Q_SIGNALS:
  void changed();

 private:
  void ask();

  Document& document_;
  std::vector<CapturedGraphInfo> graphs_;
  std::vector<GuardInfo> guards_;
  QString path_;
  int asked_ = 0;
};

}  // namespace graft
