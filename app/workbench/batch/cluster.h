// A batch on a scheduler that exists: Dask, Slurm or Ray. What waits is cut into parts, each a batch of its own with
// its own state file, and resources/python/graft_cluster.py hands the parts out. What the parts' states say goes into
// the batch's own state, which decides what is left to do: nothing is done twice, and a lost worker loses nothing.
//
//   auto report = workbench::runOnCluster(request, {.scheduler = "dask", .workers = 4}, onResult, job);
#pragma once

#include <functional>
#include <string>

#include "app/workbench/batch/batch.h"

namespace graft::workbench {

struct ClusterRequest {
  std::string scheduler;  ///< "dask", "slurm" or "ray"
  std::string address;    ///< of a scheduler that runs; "": workers on this machine
  size_t workers = 0;     ///< on this machine, or at most at a time; 0: as many as it has cores
  std::string python;     ///< that has the scheduler's package; "": findPython's
};

/// Errors: those of runBatch; Usage without a state file; BadInput where the scheduler cannot be used.
Result<BatchReport> runOnCluster(const BatchRequest&, const ClusterRequest&,
                                 const std::function<void(const BatchResult&)>& onResult, const Job&);

}  // namespace graft::workbench
