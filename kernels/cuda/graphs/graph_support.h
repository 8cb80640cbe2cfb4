#pragma once
// Helpers of the functions behind kernels/capture/cuda_graphs.h: exceptions as text, and the nodes of a graph.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>
#include <vector>

namespace graft::cuda {

inline void writeError(const std::exception& e, char* error, size_t size) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  std::snprintf(error, size, "%s", torch ? torch->what_without_backtrace() : e.what());
}

/// Calls f; false, with the message in `error`, where it throws.
template <class F>
bool guarded(char* error, size_t size, const F& f) {
  try {
    f();
    return true;
  } catch (const std::exception& e) {
    writeError(e, error, size);
    return false;
  }
}

inline cudaStream_t currentStream() { return c10::cuda::getCurrentCUDAStream().stream(); }

inline std::vector<cudaGraphNode_t> nodesOf(cudaGraph_t graph) {
  size_t n = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &n));
  std::vector<cudaGraphNode_t> nodes(n);
  if (n > 0) C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &n));
  return nodes;
}

inline bool isKernel(cudaGraphNode_t node) {
  cudaGraphNodeType type;
  C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
  return type == cudaGraphNodeTypeKernel;
}

}  // namespace graft::cuda
