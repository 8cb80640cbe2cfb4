// libgraft_cuda_runner.so: see core/torch/internal/cuda_graphs.h.
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/torch/internal/cuda_graphs.h"

namespace {

void tell(const std::exception& e, char* error, size_t size) {
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  std::snprintf(error, size, "%s", torch ? torch->what_without_backtrace() : e.what());
}

struct Captured {
  at::cuda::CUDAGraph graph{/*keep_graph=*/true};
  int device = 0;
  size_t kernels = 0;
  cudaEvent_t start = nullptr, stop = nullptr;

  ~Captured() {
    if (start) cudaEventDestroy(start);
    if (stop) cudaEventDestroy(stop);
  }
};

size_t countKernels(cudaGraph_t graph) {
  size_t n = 0, kernels = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &n));
  std::vector<cudaGraphNode_t> nodes(n);
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &n));
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    kernels += type == cudaGraphNodeTypeKernel;
  }
  return kernels;
}

void* makePool() { return new c10::MempoolId_t(at::cuda::graph_pool_handle()); }
void freePool(void* pool) { delete static_cast<c10::MempoolId_t*>(pool); }

void* capture(int device, void* pool, int (*body)(void*), void* argument, char* error, size_t size) {
  try {
    const c10::cuda::CUDAGuard onDevice(static_cast<c10::DeviceIndex>(device));
    // Inputs and weights may still be on their way on the caller's stream.
    C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()));
    const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(false, static_cast<c10::DeviceIndex>(device));
    const c10::cuda::CUDAStreamGuard onStream(stream);
    for (int i = 0; i < 2; ++i)
      if (!body(argument)) throw std::runtime_error("the model does not run");
    C10_CUDA_CHECK(cudaStreamSynchronize(stream.stream()));
    auto captured = std::make_unique<Captured>();
    captured->device = device;
    captured->graph.capture_begin(*static_cast<c10::MempoolId_t*>(pool), cudaStreamCaptureModeThreadLocal);
    int ran = 0;
    try {
      ran = body(argument);
    } catch (...) {
      ran = 0;
    }
    if (!ran) {
      try {
        captured->graph.capture_end();  // ends the capture that the failing operator has made invalid
      } catch (const std::exception&) {
        (void)cudaGetLastError();
      }
      throw std::runtime_error("the model does something that cannot be captured");
    }
    captured->graph.capture_end();
    captured->kernels = countKernels(captured->graph.raw_cuda_graph());
    captured->graph.instantiate();
    C10_CUDA_CHECK(cudaEventCreate(&captured->start));
    C10_CUDA_CHECK(cudaEventCreate(&captured->stop));
    return captured.release();
  } catch (const std::exception& e) {
    tell(e, error, size);
    return nullptr;
  }
}

bool replay(void* graph, char* error, size_t size) {
  try {
    auto* captured = static_cast<Captured*>(graph);
    const c10::cuda::CUDAGuard onDevice(static_cast<c10::DeviceIndex>(captured->device));
    captured->graph.replay();
    return true;
  } catch (const std::exception& e) {
    tell(e, error, size);
    return false;
  }
}

/// Writes over twice the L2 cache, so that nothing of the last run is left in it.
void flushL2(cudaStream_t stream) {
  static void* buffer = nullptr;
  static size_t bytes = 0;
  if (!buffer) {
    bytes = 2 * static_cast<size_t>(at::cuda::getCurrentDeviceProperties()->l2CacheSize);
    C10_CUDA_CHECK(cudaMalloc(&buffer, bytes));
  }
  C10_CUDA_CHECK(cudaMemsetAsync(buffer, 1, bytes, stream));
}

float replayTimed(void* graph, bool flush, char* error, size_t size) {
  try {
    auto* captured = static_cast<Captured*>(graph);
    const c10::cuda::CUDAGuard onDevice(static_cast<c10::DeviceIndex>(captured->device));
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
    if (flush) flushL2(stream);
    C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    C10_CUDA_CHECK(cudaEventRecord(captured->start, stream));
    captured->graph.replay();
    C10_CUDA_CHECK(cudaEventRecord(captured->stop, stream));
    C10_CUDA_CHECK(cudaEventSynchronize(captured->stop));
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, captured->start, captured->stop));
    return milliseconds;
  } catch (const std::exception& e) {
    tell(e, error, size);
    return -1;
  }
}

size_t kernelCount(void* graph) { return static_cast<Captured*>(graph)->kernels; }
void freeGraph(void* graph) { delete static_cast<Captured*>(graph); }

constexpr GraftCudaGraphs table{1, makePool, freePool, capture, replay, replayTimed, kernelCount, freeGraph};

}  // namespace

extern "C" __attribute__((visibility("default"))) const GraftCudaGraphs* graft_cuda_graphs() { return &table; }
