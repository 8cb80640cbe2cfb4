#pragma once
// Copies at the beginning and at the end of a captured graph: from wherever a call's inputs lie into the graph's own
// memory, and from there to wherever its outputs shall be. As nodes of the graph they cost the host nothing but a look
// at whether the places are those of the last call, where kernels launched before and after it cost 8 to 15 us.
//
//   GraphCopies copies(graph, inputs, outputs);                 // before the graph is instantiated
//   copies.aim(executable, from, to);                           // before each launch
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

// Blocks of the graph's memory, in bytes; blocks of none are passed over.
struct GraphBlocks {
  size_t count = 0;
  void* const* places = nullptr;
  const size_t* bytes = nullptr;
};

class GraphCopies {
 public:
  // What `graph` does already comes after the inputs' copies and before the outputs'. Throws c10::Error.
  GraphCopies(cudaGraph_t graph, GraphBlocks inputs, GraphBlocks outputs);
  // One place outside for each block, in order; null for both: nothing is copied. An input's place may be the graph's
  // own.
  void aim(cudaGraphExec_t, const void* const* from, void* const* to);

 private:
  // A kernel that copies some of the blocks.
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
