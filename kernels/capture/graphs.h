// CUDA graphs behind a C interface: libgraft_ops_cuda.so, which links LibTorch's CUDA half, implements it; the program
// and libgraft_ops.so, which do not, call it. Functions return null, false or a negative number with a message in
// `error` where they fail.
//
//   const GraftCudaGraphs* cuda = graft_ops_cuda_graphs();      // of libgraft_ops.so; null without a GPU
#pragma once

#include <cstddef>

extern "C" {

struct GraftCudaGraphs {
  int version;  ///< of this table
  /// Memory, streams to capture on that nobody else has, and the order of use, shared by graphs of one device that
  /// never run at once. Once all its graphs are freed, a pool takes no more: captures after that need another one.
  /// Throws c10::Error.
  void* (*makePool)(int device);
  /// Waits for what still runs. Its graphs are freed before.
  void (*freePool)(void* pool);
  /// Runs body(argument) twice as it is, so that kernels are loaded and tuned, then captures it: several times where
  /// ways to multiply are close to one another, to find the fastest in place (unless autotuning is off), and at last
  /// for good; on several streams where it has parts that do not need each other, and that is faster (unless it sets
  /// marks). body returns 0 where it failed. What it allocates while captured lives in the pool as long as the graph
  /// does.
  void* (*capture)(void* pool, int (*body)(void*), void* argument, char* error, size_t size);
  /// Around each use of the pool's graphs and of the memory they read and write: what the current stream does between
  /// the two comes after all earlier uses, on whichever streams those were.
  bool (*enter)(void* pool, char* error, size_t size);
  bool (*leave)(void* pool, char* error, size_t size);
  /// Once after capture: copies into blocks of memory that the graph reads and out of blocks that it has written become
  /// part of it, its first and its last kernels. kernelCount does not count them.
  bool (*addCopies)(void* graph, size_t inputs, void* const* into, const size_t* inputBytes, size_t outputs,
                    void* const* outOf, const size_t* outputBytes, char* error, size_t size);
  /// On the current stream, without waiting. `from`, `to`: a place on this GPU for each block of addCopies, an input's
  /// may be the block itself; null for both where nothing is to be copied.
  bool (*replay)(void* graph, const void* const* from, void* const* to, char* error, size_t size);
  /// Replays once without copies and waits: milliseconds on the GPU, from events around it; negative where it failed.
  /// `flush`: writes over the L2 cache first (outside of the time).
  float (*replayTimed)(void* graph, bool flush, char* error, size_t size);
  size_t (*kernelCount)(void* graph);
  /// On how many streams it was captured.
  size_t (*streamCount)(void* graph);
  /// Waits for what still runs.
  void (*freeGraph)(void* graph);
  /// Whether somebody captures the current stream.
  bool (*capturing)();
  /// Marks inside a captured graph, whose times are read after a replay. A mark is set while capturing; at other times
  /// setting one does nothing. n marks give n - 1 times.
  void* (*makeMarks)();
  void (*freeMarks)(void* marks);
  bool (*setMark)(void* marks, char* error, size_t size);
  bool (*markTimes)(void* marks, double* microseconds, size_t count, char* error, size_t size);
  /// The kernels between marks i and i + 1, a line each. Owned by the marks.
  const char* (*markedKernels)(void* marks, size_t i);
  /// The most bytes of device memory that LibTorch's allocator has held since the last call.
  size_t (*peakMemory)(int device);
  /// Whether the calling thread's operators may stop to try out algorithms; returns what it was.
  bool (*setAutotune)(bool on);
  /// Gives back the device memory that LibTorch's allocator keeps and nobody uses, where no capture hinders it.
  void (*emptyCache)();
};
constexpr int graftCudaGraphsVersion = 6;

/// Of libgraft_ops.so. Null where there is no CUDA to run on; graft_ops_cuda_status() says why.
__attribute__((visibility("default"))) const GraftCudaGraphs* graft_ops_cuda_graphs();
/// Its type, and that of libgraft_ops_cuda.so's "graft_cuda_graphs".
using GraftCudaGraphsFunction = const GraftCudaGraphs* (*)();
}
