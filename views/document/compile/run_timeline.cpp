#include "views/document/compile/run_timeline.h"

#include <QJsonArray>

#include "views/document/json_fields.h"

namespace graft {

RunTimeline readTimeline(const QJsonObject& o) {
  RunTimeline out;
  out.microseconds = at(o, "us").toDouble();
  out.how = at(o, "how").toString();
  for (const QJsonValue v : at(o, "lanes").toArray()) {
    const QJsonObject l = v.toObject();
    RunTimeline::Lane lane{
        at(l, "kind").toString(), at(l, "name").toString(), at(l, "busyUs").toDouble(), at(l, "idleUs").toDouble(), {}};
    for (const QJsonValue sv : at(l, "spans").toArray()) {
      const QJsonObject s = sv.toObject();
      lane.spans.push_back(
          {at(s, "what").toString(), at(s, "node").toString(), at(s, "startUs").toDouble(), at(s, "us").toDouble()});
    }
    out.lanes.push_back(std::move(lane));
  }
  return out;
}

}  // namespace graft
