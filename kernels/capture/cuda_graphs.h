// GraftCudaGraphs: CUDA graphs behind a C interface. libgraft_ops_cuda.so, which links LibTorch's CUDA half, implements
// it (kernels/cuda/graphs); the program and libgraft_ops.so, which do not link that half, call it.
//
//   const GraftCudaGraphs* cuda = graft_ops_cuda_graphs();      // from libgraft_ops.so; null without a GPU
//   void* pool = cuda->makePool(0);
//   void* graph = cuda->capture(pool, body, argument, error, size);
//
// The caller owns what the make functions and `capture` return. Functions with `error` and `size` (its bytes) return
// null, false or a negative number on failure, with a message in `error`.
#pragma once

#include <cstddef>

extern "C" {

struct GraftCudaGraphs {
  int version;  ///< of this struct: graftCudaGraphsVersion
  /// A pool: memory, streams to capture on that nobody else uses, and the order of uses. Graphs of one device that
  /// never run at the same time share it. Once all its graphs are freed, a pool accepts no more captures: make another
  /// one. Throws c10::Error.
  void* (*makePool)(int device);
  /// Waits for the pool's last use. Free its graphs first.
  void (*freePool)(void* pool);
  /// Captures body(argument), which returns 0 on failure. It first runs at least twice without a capture, so that
  /// kernels are loaded and GEMM algorithms are tuned, those that take most of the run first, until the process's time
  /// for that is over (GRAFT_TUNING_SECONDS). Then, unless autotuning is off, it is captured several times to choose
  /// among GEMM algorithms with similar times in place. The last capture uses several streams where the run has
  /// independent parts and that is faster, unless the body records markers. Memory that the body allocates during that
  /// capture lives in the pool as long as the graph.
  void* (*capture)(void* pool, int (*body)(void*), void* argument, char* error, size_t size);
  /// Call them around each use of the pool's graphs and of the memory that they read and write. Work of the current
  /// stream between the two calls is ordered after all earlier uses, whichever streams those were on.
  bool (*beginUse)(void* pool, char* error, size_t size);
  bool (*endUse)(void* pool, char* error, size_t size);
  /// Call it once after `capture`. The graph then begins with kernels that copy into the `inputs` blocks of memory at
  /// `into`, and ends with kernels that copy out of the `outputs` blocks at `outOf`; sizes are in bytes. kernelCount
  /// does not count these kernels.
  bool (*addCopies)(void* graph, size_t inputs, void* const* into, const size_t* inputBytes, size_t outputs,
                    void* const* outOf, const size_t* outputBytes, char* error, size_t size);
  /// Launches the graph on the current stream without waiting. `from` and `to` hold an address on this GPU for each
  /// block of addCopies; an input's may be the block itself. Both null: nothing is copied.
  bool (*replay)(void* graph, const void* const* from, void* const* to, char* error, size_t size);
  /// Launches the graph once without copies, waits, and returns its milliseconds on the GPU, measured by events;
  /// negative on failure. `flush`: overwrites the L2 cache before the measurement.
  float (*replayTimed)(void* graph, bool flush, char* error, size_t size);
  size_t (*kernelCount)(void* graph);
  /// The number of streams it was captured on.
  size_t (*streamCount)(void* graph);
  /// Waits for the last use of the graph's pool.
  void (*freeGraph)(void* graph);
  /// Whether a capture of the current stream is in progress.
  bool (*isCapturing)();
  /// Event markers inside a captured graph, whose times can be read after each replay. recordMarker records one during
  /// a capture and does nothing otherwise. Of n markers, markerTimes writes the n - 1 times between neighbours, in us.
  void* (*makeMarkers)();
  void (*freeMarkers)(void* markers);
  bool (*recordMarker)(void* markers, char* error, size_t size);
  bool (*markerTimes)(void* markers, double* microseconds, size_t count, char* error, size_t size);
  /// The kernels between markers i and i + 1, a line each: the name, and behind tabs blocks, threads of a block, bytes
  /// of shared memory of a block, registers of a thread, bytes of local memory of a thread, blocks that run on a
  /// multiprocessor at a time, and how many threads one holds. -1: not known. Belongs to the markers.
  const char* (*kernelsAfterMarker)(void* markers, size_t i);
  /// The peak of device memory that LibTorch's allocator has reserved since the last call, in bytes.
  size_t (*peakMemory)(int device);
  /// Sets whether operators on the calling thread may stop to time algorithms. Returns the previous setting.
  bool (*setAutotune)(bool on);
  /// Returns the unused device memory of LibTorch's allocator to the driver, unless a capture in progress prevents it.
  void (*emptyCache)();
  /// As `capture`, for a body that writes to memory which outlives it. reset(argument) brings that memory back to what
  /// it was; it is called before each run and each replay, which all work on the current stream. Returns 0 on failure.
  /// The caller resets the memory once more afterwards; by then no work of the capture is left.
  void* (*captureWriting)(void* pool, int (*body)(void*), int (*reset)(void*), void* argument, char* error,
                          size_t size);
  /// How many more seconds the process may time algorithms from now on.
  void (*setTuningSeconds)(double seconds);
  /// How many products run with a guessed algorithm because that time was over.
  size_t (*guessedProblems)();
  /// Which products the calling thread may tune: all (null), or those of a setting that this function returned. Returns
  /// the previous setting. Of a run, `capture` lets a few be tuned at a time.
  const void* (*setTunedProblems)(const void* setting);
};
constexpr int graftCudaGraphsVersion = 9;

/// Exported by libgraft_ops.so. Null where there is no CUDA to run on; graft_ops_cuda_status() returns the reason.
__attribute__((visibility("default"))) const GraftCudaGraphs* graft_ops_cuda_graphs();
/// The type of that function, and of "graft_cuda_graphs" in libgraft_ops_cuda.so.
using GraftCudaGraphsFunction = const GraftCudaGraphs* (*)();
}
