#include "kernels/cuda/graphs/fastest_capture.h"

#include <c10/cuda/CUDAException.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/capture/observed_run.h"
#include "kernels/capture/stream_plan.h"
#include "kernels/cuda/graphs/event_markers.h"
#include "kernels/cuda/graphs/multi_stream_run.h"

namespace graft::cuda {
namespace {

/// Runs the body on the streams of `run`. False where it fails or deviates from the plan.
bool runOnStreams(MultiStreamRun& run, const Body& body) {
  run.begin();
  const bool ran = body();
  return run.finish() && ran;
}

/// Captures on the streams of a plan. Throws where the run deviates from what was observed.
std::unique_ptr<CapturedGraph> captureOnStreams(Pool& pool, c10::MempoolId_t memory, const Body& body,
                                                const ObservedRun& observed, const StreamPlan& plan) {
  MultiStreamRun run(observed, plan, pool.streams);  // it creates and destroys events, which must not be captured
  auto captured = captureOnce(pool, memory, [&] { return runOnStreams(run, body); });
  captured->streams = plan.streams;
  return captured;
}

/// Whether the captured run would take less time on the streams of the plan. Before that it runs once without a
/// capture, so that what libraries allocate for each stream does not lie in the graph's memory.
bool isFasterOnStreams(CapturedGraph& captured, Pool& pool, const Body& body, const ObservedRun& observed,
                       const StreamPlan& plan) {
  bool faster = false;
  try {
    {
      MultiStreamRun run(observed, plan, pool.streams);
      body.reset();
      faster = runOnStreams(run, body);
    }
    C10_CUDA_CHECK(cudaStreamSynchronize(pool.stream.stream()));
    if (faster)
      faster = isFaster(captured, *captureOnStreams(pool, at::cuda::graph_pool_handle(), body, observed, plan), body);
  } catch (const std::exception&) {
    (void)cudaGetLastError();
    faster = false;
  }
  C10_CUDA_CHECK(cudaStreamSynchronize(pool.stream.stream()));
  return faster;
}

}  // namespace

std::unique_ptr<CapturedGraph> captureFastest(Pool& pool, const Body& body) {
  const uint32_t most = maxStreams();
  Observer observer(c10::kCUDA, [&] { return capturedNodes(pool.stream.stream()); });
  hasMarkers = false;
  bool ran = false;
  std::unique_ptr<CapturedGraph> captured;
  try {
    captured = captureOnce(pool, pool.memory, [&] {
      observer.start();
      ran = body();
      observer.stop();
      return ran;
    });
  } catch (const std::exception& e) {
    // The run ended in the operator that it began last. Where it ended well, the capture failed for another reason.
    const std::vector<std::string>& names = observer.run().names;
    if (ran || names.empty()) throw;
    throw std::runtime_error("the operator " + names.back() + " cannot be captured");
  }
  if (most < 2) return captured;
  // A kernel that no operator launched (TorchScript's fuser launches such) cannot be part of a plan.
  const bool plannable = !hasMarkers && observer.run().kernelsBetweenOperators == 0;
  const auto plan = plannable ? planStreams(observer.run().steps, {.streams = most}) : std::nullopt;
  if (!plan) return captured;
  // The memory pool must never be without a graph: the first one lives until its successor exists.
  std::unique_ptr<CapturedGraph> best;
  if (isFasterOnStreams(*captured, pool, body, observer.run(), *plan)) {
    try {
      best = captureOnStreams(pool, pool.memory, body, observer.run(), *plan);
    } catch (const std::exception&) {
      (void)cudaGetLastError();
    }
  }
  if (!best) best = captureOnce(pool, pool.memory, body);
  return best;
}

}  // namespace graft::cuda
