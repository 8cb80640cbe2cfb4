// Roofline: the least time that this machine can take for what a kernel moves and computes, whichever of both takes
// longer. Both speeds are measured here: how fast memory is copied, and how fast a large matrix product runs.
//
//   Roofline roof("cpu", 0);
//   const double share = roof.least(workOf(typed, node, operators)) / microseconds;
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/ir/graph.h"
#include "core/ir/operator.h"

namespace graft::workbench {

struct KernelWork {
  double bytesRead = 0, bytesWritten = 0;  ///< each tensor once; of a list of results its items
  std::optional<double> operations;        ///< floating-point operations; nothing: not known
  DType type = DType::Float32;             ///< that they are of
  double bytes() const { return bytesRead + bytesWritten; }
};

class Roofline {
 public:
  /// `threads` of the CPU; 0: as many as PyTorch uses.
  Roofline(std::string device, int threads);
  /// 0 where it cannot be measured.
  double bytesPerMicrosecond() const { return bandwidth_; }
  /// By the types that were asked for.
  const std::map<DType, double>& operationsPerMicrosecond() const { return speeds_; }
  /// Microseconds; of what computes much, the speed of its type is measured when it is first asked for.
  std::optional<double> least(const KernelWork&);

 private:
  std::string device_;
  int threads_;
  double bandwidth_;
  std::map<DType, double> speeds_;
};

/// Of a node of a graph whose types one run has recorded. `operators` for reading a generated kernel's program; without
/// them its operations are not known.
KernelWork workOf(const Graph&, NodeId, const OperatorSet* operators);

}  // namespace graft::workbench
