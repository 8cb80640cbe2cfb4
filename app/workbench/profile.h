// Profile: the time that each node of a model takes.
//
//   Result<ProfileReport> p = workbench::profile(model, inputs, {.options = {"cuda"}, .repetitions = 20}, job);
//   p->nodes[0].microseconds, p->captured->wholeMicroseconds
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/workbench/open.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/timeline.h"

namespace graft::workbench {

/// A node's own time, as Program::profile takes it.
struct NodeTimes {
  NodeId node;
  double microseconds = 0;  ///< median of the runs; of a node in a loop all rounds of a run together
  size_t calls = 0;         ///< in one run
};
/// In the order they run. Two runs more than `repetitions` are made: the first ones pay for lazy initialisation.
Result<std::vector<NodeTimes>> timeNodes(const Program&, const TensorSet& inputs, int repetitions, const Job& = {});

struct ProfileRequest {
  RunOptions options;
  int repetitions = 20;  ///< of how many runs the medians are
  bool timeline = false;
  const OperatorSet* operators = nullptr;  ///< to count what generated kernels compute; null: that is not known
};
struct ProfiledNode {
  std::string name, op;
  std::string module;  ///< the innermost module call's path; "": the model itself
  double microseconds = 0;
  std::vector<CudaRunner::Launch> launches;  ///< of a captured graph
  std::string origin;                        ///< who wrote what it runs: "generated", or as originName() spells it
  std::string generated = {};                ///< of graft::generated: its kernel's name, which its operators give
  size_t bytes = 0;                          ///< that it reads and writes, each tensor once; 0: not known
  std::optional<double> operations = {};     ///< floating-point ones, where they are known
  std::optional<double> least = {};          ///< microseconds, at the speed of memory and arithmetic (roofline.h)
};
/// Of a model that ran as a CUDA graph.
struct CapturedFacts {
  double wholeMicroseconds = 0;        ///< of the graph as it is
  double withMarkersMicroseconds = 0;  ///< of the graph with an event marker before each operator
  size_t kernels = 0;
  size_t peakBytes = 0;  ///< GPU memory held at most
  std::string gpu;       ///< "NVIDIA H200, SM clock 1980 MHz, 312 W"
};
struct ProfileReport {
  std::string model, device;
  double microseconds = 0;          ///< of all nodes together
  std::vector<ProfiledNode> nodes;  ///< in the order they run
  std::optional<CapturedFacts> captured;
  std::string notCaptured;  ///< why a GPU ran it operator by operator
  std::string how;          ///< how it was measured, in words
  /// What copying reaches on the device, in bytes read and written a microsecond.
  std::optional<double> bandwidth;
  std::map<DType, double> speeds;    ///< by type: operations a microsecond of a large matrix product there
  std::optional<Timeline> timeline;  ///< where it was asked for
};
/// On a GPU the nodes of a captured graph, where it can be captured; otherwise operator by operator.
Result<ProfileReport> profile(const Model&, const TensorSet& inputs, const ProfileRequest&, const Job& = {});

}  // namespace graft::workbench
