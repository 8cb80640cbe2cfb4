// Timeline: one run, lane by lane: what the host does, what each other thread of it computes, and on a GPU what was
// launched when and what each stream runs. Of several runs, the one of median length.
//
//   Result<Timeline> t = timelineOf(program, graph, inputs, job);
//   t->lanes[0].busy() + t->idle(t->lanes[0]) == t->microseconds
#pragma once

#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/torch/executor.h"

namespace graft {

struct TimelineSpan {
  std::string what;                    ///< an operator, a function of the driver, a kernel
  std::string node;                    ///< that it belongs to; "": none
  double start = 0, microseconds = 0;  ///< from the run's begin
};

struct TimelineLane {
  enum class Kind : uint8_t {
    Host,      ///< the thread that runs the model; its spans follow each other without a gap
    Launches,  ///< the same thread's calls of the GPU's driver
    Thread,    ///< another thread: in each node, as long as it used a processor there
    Stream,    ///< of a GPU
  } kind = Kind::Host;
  std::string name;  ///< "host", "thread 2", "stream 7"
  std::vector<TimelineSpan> spans;
  double busy() const;
};
/// "host", "launches", "thread", "stream".
const char* laneKindName(TimelineLane::Kind);

struct Timeline {
  double microseconds = 0;  ///< of the run, until the GPU is done
  std::vector<TimelineLane> lanes;
  std::string how;  ///< it was measured, in words
  double idle(const TimelineLane& lane) const { return microseconds - lane.busy(); }
};

/// `graph`: the program's. On a GPU a replay of the captured graph where it can be captured, else operator by operator.
Result<Timeline> timelineOf(const Program&, const Graph& graph, const TensorSet& inputs, const Job& = {});

}  // namespace graft
