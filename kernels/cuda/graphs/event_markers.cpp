#include "kernels/cuda/graphs/event_markers.h"

#include <cuda.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/graphs/graph_support.h"

namespace graft::cuda {
namespace {

/// A function of the driver; null where it has none of that name. They come through the runtime, so that nothing links
/// libcuda.
void* driverFunction(const char* name, unsigned version) {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &f, version, cudaEnableDefault, &found) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return found == cudaDriverEntryPointSuccess ? f : nullptr;
}

int attributeOf(CUfunction function, CUfunction_attribute attribute) {
  static auto* get = reinterpret_cast<CUresult (*)(int*, CUfunction_attribute, CUfunction)>(
      driverFunction("cuFuncGetAttribute", 12000));
  int value = 0;
  return get && get(&value, attribute, function) == CUDA_SUCCESS ? value : -1;
}

/// How many of its blocks run on a multiprocessor at a time.
int residentBlocks(CUfunction function, int threads, size_t sharedBytes) {
  static auto* count = reinterpret_cast<CUresult (*)(int*, CUfunction, int, size_t)>(
      driverFunction("cuOccupancyMaxActiveBlocksPerMultiprocessor", 12000));
  int blocks = 0;
  return count && count(&blocks, function, threads, sharedBytes) == CUDA_SUCCESS ? blocks : -1;
}

int threadsOfMultiprocessor() {
  int device = 0, threads = -1;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device) != cudaSuccess)
    (void)cudaGetLastError();
  return threads;
}

/// The kernel of a node as a line of kernelsAfterMarker. "kernel" where the driver has no name for it.
std::string kernelLine(cudaGraphNode_t node) {
  static auto* parameters = reinterpret_cast<CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*)>(
      driverFunction("cuGraphKernelNodeGetParams", 12000));
  static auto* functionName =
      reinterpret_cast<CUresult (*)(const char**, CUfunction)>(driverFunction("cuFuncGetName", 12030));
  static auto* kernelName =
      reinterpret_cast<CUresult (*)(const char**, CUkernel)>(driverFunction("cuKernelGetName", 12030));
  static auto* functionOf =
      reinterpret_cast<CUresult (*)(CUfunction*, CUkernel)>(driverFunction("cuKernelGetFunction", 12000));
  CUDA_KERNEL_NODE_PARAMS p{};
  if (!parameters || parameters(reinterpret_cast<CUgraphNode>(node), &p) != CUDA_SUCCESS) return "kernel";
  const char* name = nullptr;
  if (!(p.func && functionName && functionName(&name, p.func) == CUDA_SUCCESS) &&
      !(p.kern && kernelName && kernelName(&name, p.kern) == CUDA_SUCCESS))
    name = "kernel";
  CUfunction function = p.func;
  if (!function && p.kern && (!functionOf || functionOf(&function, p.kern) != CUDA_SUCCESS)) function = nullptr;
  const auto blocks = static_cast<long long>(p.gridDimX) * p.gridDimY * p.gridDimZ;
  const auto threads = static_cast<int>(p.blockDimX * p.blockDimY * p.blockDimZ);
  const int fixed = function ? attributeOf(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) : -1;
  std::string line = name;
  for (const long long n :
       {blocks, static_cast<long long>(threads), static_cast<long long>(std::max(0, fixed)) + p.sharedMemBytes,
        function ? static_cast<long long>(attributeOf(function, CU_FUNC_ATTRIBUTE_NUM_REGS)) : -1LL,
        function ? static_cast<long long>(attributeOf(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)) : -1LL,
        function ? static_cast<long long>(residentBlocks(function, threads, p.sharedMemBytes)) : -1LL,
        static_cast<long long>(threadsOfMultiprocessor())})
    line += "\t" + std::to_string(n);
  return line;
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
      names += kernelLine(node) + "\n";
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
