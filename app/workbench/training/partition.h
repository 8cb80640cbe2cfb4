// Partition: what the forward pass of a training step keeps for its backward pass, and what is computed again instead.
//
//   Result<PartitionReport> r = workbench::partition({.model = {"net.fx", "joint"}, .memory = 0.6}, semantics, job);
//   r->saved[0].name, r->savedBytes, r->differences
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/workbench/open.h"
#include "app/workbench/training/cut_file.h"
#include "core/torch/operator_library.h"
#include "core/training/signature.h"

namespace graft::workbench {

struct PartitionRequest {
  OpenRequest model;  ///< a joint graph
  InputRequest inputs;
  CutWishes wishes;
  bool verify = true;    ///< run both halves beside the joint graph
  bool measure = false;  ///< time the nodes: the measured times decide what is worth keeping
  bool curve = false;    ///< what other budgets would give, too
  std::string output;    ///< "cut.pt": cut.forward.pt and cut.backward.pt; "": nowhere
};

/// What kind of reason a tensor is saved for.
enum class SavedKind : uint8_t {
  Must,   ///< nothing can compute it again: inputs, random numbers, what is overwritten
  Dear,   ///< computing it again is expensive
  Cheap,  ///< saving it is no dearer than computing it again
  Asked,  ///< it was asked for
};
struct SavedTensor {
  std::string name, type;
  size_t bytes = 0;
  std::string producer, module;        ///< the operator that makes it ("" of an input) and in which module
  std::vector<std::string> consumers;  ///< nodes of the backward half that read it
  double microseconds = 0;             ///< what computing its node again would take, operands given
  std::string reason;
  SavedKind kind = SavedKind::Cheap;
};
struct RecomputedNode {
  std::string name, op, module;
  size_t bytes = 0;  ///< of its results
  double microseconds = 0;
  std::string reason;
};
/// One graph that was made, and how it is called.
struct WrittenHalf {
  std::string path;  ///< "": it was not written
  size_t nodes = 0;
  std::vector<std::string> inputs;
  std::vector<ReturnedRole> returns;
};
struct PeakBytes {
  size_t forward = 0, backward = 0;  ///< the backward half's with all that was saved for it
  size_t most() const { return forward > backward ? forward : backward; }
};
/// A node of a half while it runs.
struct LiveNode {
  std::string name;
  size_t bytes = 0;  ///< that are alive; in the backward half with all that was saved for it
};
/// What the cut of another budget gives.
struct BudgetPoint {
  double memory = 1;
  size_t savedBytes = 0;
  double recomputedMicroseconds = 0;
  PeakBytes simulated;
};
struct PartitionReport {
  std::string model, method;
  double memory = 1;
  std::vector<SavedTensor> saved;
  std::vector<RecomputedNode> recomputed;
  size_t savedBytes = 0;
  size_t defaultBytes = 0;  ///< that a budget of 100 % keeps
  size_t nothingBytes = 0;  ///< that are kept where nothing is computed again
  size_t leastBytes = 0;    ///< that the smallest budget keeps
  double recomputedMicroseconds = 0;
  bool timesAreMeasured = false;
  PeakBytes simulated;
  std::vector<LiveNode> liveForward, liveBackward;  ///< in the order of the halves; `simulated` is the most of them
  std::vector<BudgetPoint> curve;                   ///< from the largest budget to the least that can be met
  std::optional<PeakBytes> measured;
  /// Of the halves' results and gradients to the joint graph's; not set: they were not run.
  std::optional<std::vector<Difference>> differences;
  std::vector<std::string> names;      ///< of what the joint graph returns: "gradient of fc.weight"
  std::string notRun;                  ///< why not, where they could not be
  std::vector<std::string> random;     ///< inputs that were made up: Inputs::random
  std::vector<std::string> notFinite;  ///< of `names`: results of the joint graph that hold NaN or infinity
  std::vector<std::string> notes;      ///< sizes that were assumed, pins that random numbers do not allow
  WrittenHalf forward, backward;
  std::optional<Error> failure;  ///< the halves compute something else; nothing was written
};
/// Whether the graph has both passes, so that it can be parted.
bool isJoint(const TrainingSignature&);

Result<PartitionReport> partition(const PartitionRequest&, const Semantics&, const Job& = {});
/// The same of a graph that is open already; the request's `model` is what the report calls it.
Result<PartitionReport> partition(const Graph&, const TrainingSignature&, const PartitionRequest&, const Semantics&,
                                  const Job& = {});

}  // namespace graft::workbench
