// RunTimeline: one run, lane by lane, as the engine's model/timeline tells it. Plain values.
#pragma once

#include <QJsonObject>
#include <QString>
#include <vector>

namespace graft {

struct RunTimeline {
  struct Span {
    QString what, node;
    double start = 0, microseconds = 0;
  };
  struct Lane {
    QString kind, name;  ///< kind: "host", "launches", "thread", "stream"
    double busy = 0, idle = 0;
    std::vector<Span> spans;
  };
  double microseconds = 0;
  QString how;
  std::vector<Lane> lanes;
  bool isEmpty() const { return lanes.empty(); }
};

RunTimeline readTimeline(const QJsonObject& timeline);

}  // namespace graft
