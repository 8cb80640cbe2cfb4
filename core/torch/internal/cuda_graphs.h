// CUDA graphs behind a C interface: libgraft_cuda_runner.so links LibTorch's CUDA half, the program does not and opens
// it when somebody runs on a GPU. Every call returns null or false with a message in `error` where it fails.
#pragma once

#include <cstddef>

extern "C" {

struct GraftCudaGraphs {
  int version;  ///< of this table; 1
  /// A pool of memory that captures may share.
  void* (*makePool)();
  void (*freePool)(void* pool);
  /// Runs body(argument) twice as it is, so that kernels are loaded and tuned, then captures a third run. body returns
  /// 0 where it failed. What it allocates while captured lives in the pool as long as the graph does.
  void* (*capture)(int device, void* pool, int (*body)(void*), void* argument, char* error, size_t size);
  /// On the current stream, without waiting.
  bool (*replay)(void* graph, char* error, size_t size);
  /// Replays once and waits: milliseconds on the GPU, from events around it; negative where it failed. `flush`: writes
  /// over the L2 cache first (outside of the time).
  float (*replayTimed)(void* graph, bool flush, char* error, size_t size);
  size_t (*kernelCount)(void* graph);
  void (*freeGraph)(void* graph);
};

/// The symbol "graft_cuda_graphs" of the library.
using GraftCudaGraphsFunction = const GraftCudaGraphs* (*)();
}
