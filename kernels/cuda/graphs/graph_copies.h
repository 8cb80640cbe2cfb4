#pragma once
// GraphCopies: copies at the beginning and at the end of a captured graph, from a call's inputs into the graph's own
// memory, and from there into the call's outputs. They are nodes of the graph. The host only compares the addresses
// with those of the last call, while kernels launched before and after the graph would cost it 8 to 15 us.
//
//   GraphCopies copies(graph, inputs, outputs);                 // before the graph is instantiated
//   copies.bind(executable, from, to);                          // before each launch
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

// Blocks of the graph's memory: address and size in bytes. Empty blocks are ignored.
struct GraphBlocks {
  size_t count = 0;
  void* const* places = nullptr;
  const size_t* bytes = nullptr;
};

class GraphCopies {
 public:
  // Adds the inputs' copies before all nodes of `graph` and the outputs' copies after them. Throws c10::Error.
  GraphCopies(cudaGraph_t graph, GraphBlocks inputs, GraphBlocks outputs);
  // Sets the addresses outside of the graph, one for each block in order. An input's may be the block itself. Both
  // null: nothing is copied.
  void bind(cudaGraphExec_t, const void* const* from, void* const* to);

 private:
  // A kernel node that copies up to kMaxCopies blocks.
  struct Node {
    cudaGraphNode_t node = nullptr;
    CopyArgs args;
    bool input = false;
    size_t blocks[kMaxCopies] = {};
  };
  std::vector<Node> makeNodes(GraphBlocks blocks, bool input);

  std::vector<Node> nodes_;
  bool enabled_ = true;
};

}  // namespace graft::cuda
