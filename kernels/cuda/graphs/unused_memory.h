#pragma once
// Returns device memory that nobody uses before and after a capture, so that it is not held beside the graph's own
// memory.

namespace graft::cuda {

/// Empties the caching allocator's cache: what tuning and the runs before a capture have freed will not be used again.
/// Does nothing while another thread captures.
void emptyAllocatorCache();

/// Frees the workspaces that cuBLAS and cuBLASLt keep for this thread on the default stream (32 MiB on Hopper), if that
/// is the current stream. The runs before a capture used it, the captured one will use another stream. It is safe only
/// for the default stream, on which no graph can have been captured, and for this thread, whose kernels have completed.
void freeBlasWorkspaces();

}  // namespace graft::cuda
