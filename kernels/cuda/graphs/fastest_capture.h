#pragma once
// The capture that a graph is kept from: on one stream, or on several where the run has independent parts and several
// streams are faster.
//
//   std::unique_ptr<CapturedGraph> graph = captureFastest(pool, body);
#include <memory>

#include "kernels/cuda/graphs/captured_graph.h"

namespace graft::cuda {

/// Captures in the pool's memory. The body's last run is the one that the graph was captured from, so its outputs are
/// the graph's. Throws std::exception.
std::unique_ptr<CapturedGraph> captureFastest(Pool& pool, const Body& body);

}  // namespace graft::cuda
