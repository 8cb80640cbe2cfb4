#include "kernels/cuda/graphs/event_markers.h"

#include <cuda.h>

#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/graphs/graph_support.h"

namespace graft::cuda {
namespace {

/// What the driver calls a kernel; empty where it does not say. Through the runtime, so that nothing links libcuda.
std::string kernelName(cudaGraphNode_t node) {
  const auto entry = [](const char* name, unsigned version) {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion(name, &f, version, cudaEnableDefault, &found) != cudaSuccess) {
      (void)cudaGetLastError();
      return static_cast<void*>(nullptr);
    }
    return found == cudaDriverEntryPointSuccess ? f : nullptr;
  };
  static auto* parameters =
      reinterpret_cast<CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*)>(entry("cuGraphKernelNodeGetParams", 12000));
  static auto* functionName = reinterpret_cast<CUresult (*)(const char**, CUfunction)>(entry("cuFuncGetName", 12030));
  static auto* kernelNameOf = reinterpret_cast<CUresult (*)(const char**, CUkernel)>(entry("cuKernelGetName", 12030));
  CUDA_KERNEL_NODE_PARAMS p{};
  const char* name = nullptr;
  if (!parameters || parameters(reinterpret_cast<CUgraphNode>(node), &p) != CUDA_SUCCESS) return {};
  if (p.func && functionName && functionName(&name, p.func) == CUDA_SUCCESS) return name;
  if (p.kern && kernelNameOf && kernelNameOf(&name, p.kern) == CUDA_SUCCESS) return name;
  return {};
}

struct Marks {
  std::vector<cudaEvent_t> events;
  std::vector<size_t> places;        ///< the event of each mark; marks with no kernel between them share one
  std::vector<std::string> kernels;  ///< between a mark and the next
  std::set<cudaGraphNode_t> seen;

  ~Marks() {
    for (cudaEvent_t e : events) cudaEventDestroy(e);
  }
};

}  // namespace

void* makeMarks() { return new Marks; }
void freeMarks(void* marks) { delete static_cast<Marks*>(marks); }

bool setMark(void* place, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* marks = static_cast<Marks*>(place);
    const cudaStream_t stream = currentStream();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = nullptr;
    C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
    if (status == cudaStreamCaptureStatusNone) return;
    marked = true;
    std::string names;
    for (cudaGraphNode_t node : nodesOf(graph)) {
      if (!marks->seen.insert(node).second || !isKernel(node)) continue;
      const std::string name = kernelName(node);
      names += (name.empty() ? "kernel" : name) + "\n";
    }
    const bool nothing = names.empty() && !marks->events.empty();
    if (!marks->places.empty()) marks->kernels.push_back(std::move(names));
    marks->places.push_back(nothing ? marks->events.size() - 1 : marks->events.size());
    if (nothing) return;
    cudaEvent_t event = nullptr;
    C10_CUDA_CHECK(cudaEventCreate(&event));
    marks->events.push_back(event);
    // External: the event may be read outside of the graph, after each replay.
    C10_CUDA_CHECK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  });
}

bool markTimes(void* place, double* microseconds, size_t count, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* marks = static_cast<Marks*>(place);
    if (marks->places.size() != count + 1) throw std::runtime_error("the captured run and its marks do not agree");
    C10_CUDA_CHECK(cudaEventSynchronize(marks->events.back()));
    for (size_t i = 0; i < count; ++i) {
      const size_t from = marks->places[i], to = marks->places[i + 1];
      float ms = 0;
      if (from != to) C10_CUDA_CHECK(cudaEventElapsedTime(&ms, marks->events[from], marks->events[to]));
      microseconds[i] = ms * 1e3;
    }
  });
}

const char* markedKernels(void* marks, size_t i) {
  const auto& kernels = static_cast<Marks*>(marks)->kernels;
  return i < kernels.size() ? kernels[i].c_str() : "";
}

}  // namespace graft::cuda
