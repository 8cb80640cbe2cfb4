// Assigns the operators of a run to several GPU streams, and finds the waits between streams that their dependencies
// need. Pure planning, without a GPU and without LibTorch.
//
//   std::vector<RunStep> steps = {...};  // the operators in the order they ran, with what they read and wrote
//   if (const auto plan = planStreams(steps, {.streams = 4}))
//     for (size_t i = 0; i < steps.size(); ++i)
//       launch(i, plan->assignments[i].stream, /*after=*/plan->assignments[i].waits);
//
// A step runs after the earlier steps of its stream, after the steps that it waits for, and after everything that those
// run after. That orders every pair of steps of which one writes what the other reads or writes (stream_plan_test.cpp
// checks it).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace graft {

/// One operator of a run. The caller numbers the pieces of memory; tensors that share memory share a number.
struct RunStep {
  std::vector<uint32_t> reads, writes;  ///< memory that it allocates counts as written
  uint32_t kernels = 0;                 ///< how many it launches, copies and fills included
  bool barrier = false;  ///< its accesses are unknown: it runs after all earlier and before all later steps

  /// It launches, allocates and writes nothing (a view, a size), so it needs no stream.
  bool idle() const { return !barrier && kernels == 0 && writes.empty(); }
  bool operator==(const RunStep&) const = default;
};

struct StreamOptions {
  uint32_t streams = 4;          ///< at most
  uint32_t minChainKernels = 4;  ///< a chain of steps with fewer kernels does not get a stream of its own
};

struct StreamPlan {
  struct Assignment {
    uint32_t stream = 0;  ///< meaningless for an idle step
    std::vector<uint32_t>
        waits;             ///< steps on other streams, without those that another wait or the stream's order implies
    bool awaited = false;  ///< a later step waits for this one
  };
  std::vector<Assignment> assignments;  ///< one for each step
  uint32_t streams = 1;                 ///< streams 0 to streams - 1 are used
  // Estimated times, in kernels, as if all kernels took equally long:
  double total = 0;         ///< on one stream
  double criticalPath = 0;  ///< the longest chain of dependencies: no plan takes less
  double length = 0;        ///< with this plan; a wait between streams counts as half a kernel
};

/// A plan for any steps, whether or not it saves time.
StreamPlan assignStreams(const std::vector<RunStep>&, const StreamOptions&);

/// Whether the plan is worth trying: its estimate saves a fifth of the time, and at least six kernels lie off the
/// critical path.
bool isPromising(const StreamPlan&);

/// The plan where it is promising; otherwise nothing, and one stream is enough.
std::optional<StreamPlan> planStreams(const std::vector<RunStep>&, const StreamOptions&);

}  // namespace graft
