#include "kernels/cuda/graphs/graph_copies.h"

#include <c10/cuda/CUDAException.h>

#include <algorithm>
#include <utility>

#include "kernels/cuda/graphs/graph_support.h"

namespace graft::cuda {
namespace {

struct Ends {
  std::vector<cudaGraphNode_t> first, last;  // nodes without predecessors, nodes without successors
};

Ends endsOf(cudaGraph_t graph) {
  const std::vector<cudaGraphNode_t> nodes = nodesOf(graph);
  size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> kinds(count);
  if (count > 0) C10_CUDA_CHECK(cudaGraphGetEdges(graph, from.data(), to.data(), kinds.data(), &count));
  std::sort(from.begin(), from.end()), std::sort(to.begin(), to.end());
  Ends ends;
  for (cudaGraphNode_t n : nodes) {
    if (!std::binary_search(to.begin(), to.end(), n)) ends.first.push_back(n);
    if (!std::binary_search(from.begin(), from.end(), n)) ends.last.push_back(n);
  }
  return ends;
}

cudaKernelNodeParams parametersOf(CopyArgs& args, void* (&pointer)[1]) {
  cudaKernelNodeParams p = copyNode(args);
  pointer[0] = &args;
  p.kernelParams = pointer;
  return p;
}

}  // namespace

GraphCopies::GraphCopies(cudaGraph_t graph, GraphBlocks inputs, GraphBlocks outputs) {
  const Ends ends = endsOf(graph);
  nodes_ = makeNodes(inputs, true);
  std::vector<Node> outputNodes = makeNodes(outputs, false);
  void* pointer[1];
  for (Node& n : nodes_) {
    const cudaKernelNodeParams p = parametersOf(n.args, pointer);
    C10_CUDA_CHECK(cudaGraphAddKernelNode(&n.node, graph, nullptr, 0, &p));
    const std::vector<cudaGraphNode_t> before(ends.first.size(), n.node);
    if (!before.empty())
      C10_CUDA_CHECK(cudaGraphAddDependencies(graph, before.data(), ends.first.data(), nullptr, before.size()));
  }
  // In a graph without nodes the outputs' copies follow the inputs' copies.
  std::vector<cudaGraphNode_t> last = ends.last;
  if (last.empty())
    for (const Node& n : nodes_) last.push_back(n.node);
  for (Node& n : outputNodes) {
    const cudaKernelNodeParams p = parametersOf(n.args, pointer);
    C10_CUDA_CHECK(cudaGraphAddKernelNode(&n.node, graph, last.data(), last.size(), &p));
  }
  nodes_.insert(nodes_.end(), outputNodes.begin(), outputNodes.end());
}

std::vector<GraphCopies::Node> GraphCopies::makeNodes(GraphBlocks blocks, bool input) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < blocks.count; ++i) {
    if (blocks.bytes[i] == 0) continue;
    if (nodes.empty() || nodes.back().args.count == kMaxCopies) nodes.emplace_back().input = input;
    Node& n = nodes.back();
    n.blocks[n.args.count] = i;
    n.args.to[n.args.count] = blocks.places[i], n.args.from[n.args.count] = blocks.places[i];  // until bind()
    n.args.bytes[n.args.count++] = static_cast<int64_t>(blocks.bytes[i]);
  }
  return nodes;
}

void GraphCopies::bind(cudaGraphExec_t executable, const void* const* from, void* const* to) {
  const bool enable = from || to;
  for (Node& n : nodes_) {
    if (enable != enabled_) C10_CUDA_CHECK(cudaGraphNodeSetEnabled(executable, n.node, enable));
    if (!enable) continue;
    bool changed = false;
    for (int i = 0; i < n.args.count; ++i) {
      const size_t block = n.blocks[i];
      if (n.input)
        changed |= from[block] != std::exchange(n.args.from[i], from[block]);
      else
        changed |= to[block] != std::exchange(n.args.to[i], to[block]);
    }
    if (!changed) continue;
    void* pointer[1];
    const cudaKernelNodeParams p = parametersOf(n.args, pointer);
    C10_CUDA_CHECK(cudaGraphExecKernelNodeSetParams(executable, n.node, &p));
  }
  enabled_ = enable;
}

}  // namespace graft::cuda
