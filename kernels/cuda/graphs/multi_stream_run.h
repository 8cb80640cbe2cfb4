#pragma once
// MultiStreamRun: runs a model's operators on several streams, as a plan assigns them (kernels/capture/stream_plan.h).
//
//   ExclusiveStreams streams(device);
//   const c10::cuda::CUDAStreamGuard onStream(streams.get(0));
//   MultiStreamRun run(observed, plan, streams);       // `observed`: an earlier run of the same model on stream 0
//   run.begin();
//   model(x);
//   if (!run.finish()) ...                             // it deviated from the plan: discard its results or its capture
//
// The run is captured on stream 0 of the plan. The other streams are forked from it when they are first needed and
// joined to it at the end. A kernel that depends on kernels of several streams is launched without PDL (afterJoin in
// launchers.h). Memory belongs to the caching allocator: a tensor belongs to the stream of the operator that allocated
// it, and recordStream tells the allocator which other streams use it, so that it is not reused too early.
#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "kernels/capture/observed_run.h"
#include "kernels/capture/stream_plan.h"
#include "kernels/cuda/graphs/exclusive_streams.h"

namespace graft::cuda {

/// The most streams that a captured run may use: GRAFT_STREAMS in the environment, from 1 to 8; 4 by default.
uint32_t maxStreams();

/// The number of nodes that the capture on a stream has so far; 0 where there is none.
size_t capturedNodes(cudaStream_t stream);

/// Use it on one thread, while nothing else uses the streams.
class MultiStreamRun : public Observer {
 public:
  /// `observed` and `plan` must outlive it. Stream i of the plan is streams.get(i), on the current device.
  MultiStreamRun(const ObservedRun& observed, const StreamPlan& plan, ExclusiveStreams& streams);
  ~MultiStreamRun() override;

  /// Stream 0 must be the current stream; it may be capturing.
  void begin();
  /// Joins all streams to stream 0. False where the operators differed from those observed.
  bool finish();

 protected:
  void onOperatorBegin(size_t i) override;
  void onOperatorEnd(size_t i) override;

 private:
  struct Event {
    cudaEvent_t event = nullptr;
    Event();
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
  };
  struct Stream {
    explicit Stream(c10::cuda::CUDAStream s) : stream(s) {}
    c10::cuda::CUDAStream stream;
    bool forked = false;
    bool joins = false;  ///< its next kernel depends on work of other streams
    Event last;
  };
  bool matchesPlan(size_t i) const;
  void switchToStream(size_t i);
  void fail();

  const ObservedRun& observed_;
  const StreamPlan& plan_;
  const c10::cuda::CUDAStream main_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> ended_;  ///< by operator; null unless another operator waits for it
  Event begun_;
  bool failed_ = false;
};

}  // namespace graft::cuda
