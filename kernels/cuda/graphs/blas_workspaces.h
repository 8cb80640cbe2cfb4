#pragma once
// Keeps the workspaces of cuBLAS that captured graphs use. PyTorch has one for each handle and stream, and frees them
// all whenever torch.compile records graphs of its own (torch._C._cuda_clearCublasWorkspaces). A graph that was
// captured before would then write to memory that is somebody else's by now, or nobody's.
//
//   keepBlasWorkspaces(pool.streams.all());   // before a capture on them, and after it
#include <cuda_runtime_api.h>

#include <vector>

namespace graft::cuda {

/// Takes over the workspaces of these streams, which are never destroyed (ExclusiveStreams), for as long as the process
/// lives. PyTorch goes on using them: where it has forgotten one, it gets it again.
void keepBlasWorkspaces(const std::vector<cudaStream_t>&);

}  // namespace graft::cuda
