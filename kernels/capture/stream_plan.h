// Which operators of a run may go side by side on a GPU, and who must wait for whom: planning alone, without a GPU and
// without LibTorch.
//
//   std::vector<RunStep> steps = {...};  // the operators in the order they ran, and what they read and wrote
//   if (const auto plan = planStreams(steps, {.streams = 4}))
//     for (size_t i = 0; i < steps.size(); ++i)
//       launch(i, plan->places[i].stream, /*after=*/plan->places[i].waits);
//
// A step comes after those before it on its stream, after those it waits for, and after whatever these came after. That
// covers every pair of steps of which one writes what the other reads or writes (stream_plan_test.cpp holds it to
// that).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace graft {

/// One operator of a run. Memory is named by numbers of the caller's; tensors that share memory share a number.
struct RunStep {
  std::vector<uint32_t> reads, writes;  ///< what it makes counts as written
  uint32_t kernels = 0;                 ///< how many it launches, copies and fills included
  bool everything = false;              ///< what it touches is not known: all before it, all after it

  /// Launches nothing, makes nothing, writes nothing (a view, a size): it needs no stream.
  bool idle() const { return !everything && kernels == 0 && writes.empty(); }
  bool operator==(const RunStep&) const = default;
};

struct StreamOptions {
  uint32_t streams = 4;   ///< at most
  uint32_t shortest = 4;  ///< kernels of a chain of steps that may have a stream to itself
};

struct StreamPlan {
  struct Place {
    uint32_t stream = 0;          ///< of an idle step it means nothing
    std::vector<uint32_t> waits;  ///< steps on other streams; none that another wait, or the stream's order, implies
    bool awaited = false;         ///< some later step waits for this one
  };
  std::vector<Place> places;  ///< one for each step
  uint32_t streams = 1;       ///< numbers 0 to streams - 1 are used
  // In kernels, each taken to last as long as any other:
  double total = 0;     ///< one after the other
  double critical = 0;  ///< the longest chain that nothing can shorten
  double length = 0;    ///< with the plan, waits between streams counted as half a kernel
};

/// A plan for any steps, be it worth its waits or not.
StreamPlan placeSteps(const std::vector<RunStep>&, const StreamOptions&);

/// Whether the plan promises enough to be tried out: a fifth of the time, and no fewer than six kernels beside the
/// longest chain.
bool isPromising(const StreamPlan&);

/// Nothing where one stream will do.
std::optional<StreamPlan> planStreams(const std::vector<RunStep>&, const StreamOptions&);

}  // namespace graft
