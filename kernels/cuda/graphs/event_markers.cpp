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

/// The driver's name of a kernel; empty where it has none. The driver's functions come through the runtime, so that
/// nothing links libcuda.
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

struct Markers {
  std::vector<cudaEvent_t> events;
  std::vector<size_t> eventOf;       ///< the event of each marker; markers without a kernel between them share one
  std::vector<std::string> kernels;  ///< between a marker and the next, a line each
  std::set<cudaGraphNode_t> seen;    ///< nodes before the last marker

  ~Markers() {
    for (cudaEvent_t e : events) cudaEventDestroy(e);
  }
};

}  // namespace

void* makeMarkers() { return new Markers; }
void freeMarkers(void* markers) { delete static_cast<Markers*>(markers); }

bool recordMarker(void* handle, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* markers = static_cast<Markers*>(handle);
    const cudaStream_t stream = currentStream();
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = nullptr;
    C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
    if (status == cudaStreamCaptureStatusNone) return;
    hasMarkers = true;
    std::string names;
    for (cudaGraphNode_t node : nodesOf(graph)) {
      if (!markers->seen.insert(node).second || !isKernel(node)) continue;
      const std::string name = kernelName(node);
      names += (name.empty() ? "kernel" : name) + "\n";
    }
    const bool noKernels = names.empty() && !markers->events.empty();
    if (!markers->eventOf.empty()) markers->kernels.push_back(std::move(names));
    markers->eventOf.push_back(noKernels ? markers->events.size() - 1 : markers->events.size());
    if (noKernels) return;
    cudaEvent_t event = nullptr;
    C10_CUDA_CHECK(cudaEventCreate(&event));
    markers->events.push_back(event);
    // External: the event can be read outside of the graph, after each replay.
    C10_CUDA_CHECK(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal));
  });
}

bool markerTimes(void* handle, double* microseconds, size_t count, char* error, size_t size) {
  return guarded(error, size, [&] {
    auto* markers = static_cast<Markers*>(handle);
    if (markers->eventOf.size() != count + 1)
      throw std::runtime_error("the number of markers differs from that of the captured run");
    C10_CUDA_CHECK(cudaEventSynchronize(markers->events.back()));
    for (size_t i = 0; i < count; ++i) {
      const size_t from = markers->eventOf[i], to = markers->eventOf[i + 1];
      float ms = 0;
      if (from != to) C10_CUDA_CHECK(cudaEventElapsedTime(&ms, markers->events[from], markers->events[to]));
      microseconds[i] = ms * 1e3;
    }
  });
}

const char* kernelsAfterMarker(void* markers, size_t i) {
  const auto& kernels = static_cast<Markers*>(markers)->kernels;
  return i < kernels.size() ? kernels[i].c_str() : "";
}

}  // namespace graft::cuda
