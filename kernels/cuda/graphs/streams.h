#pragma once
// A run's operators on several streams, as a plan says (kernels/capture/stream_plan.h).
//
//   OwnStreams streams(device);
//   const c10::cuda::CUDAStreamGuard onStream(streams.get(0));
//   SpreadRun spread(observed, plan, streams);         // `observed`: the same run before, on stream 0
//   spread.begin();
//   model(x);
//   if (!spread.finish()) ...                          // it went otherwise: what it computed or captured is no good
//
// The stream that a run is captured on is stream 0 of the plan; the others are forked from it when they are first
// needed and joined to it at the end. A kernel that comes after kernels of several streams is launched when they are
// over (afterJoin in launchers.h). Memory is the caching allocator's: what an operator makes belongs to its
// stream, and is not given to another until it has been told by recordStream who else used it.
#include <c10/core/Device.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "kernels/capture/observed_run.h"
#include "kernels/capture/stream_plan.h"

namespace graft::cuda {

/// How many streams a captured run may take at most: GRAFT_STREAMS, from 1 to 8; 4 without it.
uint32_t mostStreams();

/// How many nodes the capture on that stream has so far; 0 where there is none.
size_t capturedNodes(cudaStream_t stream);

/// Streams of one GPU that their holder has alone, be it on any thread: what somebody else launches on a stream that is
/// being captured would become part of the graph and not run, and graphs that run at the same time must not share what
/// cuBLAS keeps for each stream. None of PyTorch's own is among them: of those it has 32, and gives each to everybody.
class OwnStreams {
 public:
  explicit OwnStreams(c10::DeviceIndex device) : device_(device) {}
  /// For the next holder. What was captured on them must be over.
  ~OwnStreams();
  OwnStreams(const OwnStreams&) = delete;
  OwnStreams& operator=(const OwnStreams&) = delete;

  /// Stream i, from 0 on; its device is the current one. Throws c10::Error.
  c10::cuda::CUDAStream get(size_t i);

 private:
  const c10::DeviceIndex device_;
  std::vector<cudaStream_t> streams_;
};

/// On one thread. Nothing else uses the streams meanwhile.
class SpreadRun : public Observer {
 public:
  /// `observed` and `plan` outlive it. Stream i of the plan is streams.get(i), their device the current one.
  SpreadRun(const ObservedRun& observed, const StreamPlan& plan, OwnStreams& streams);
  ~SpreadRun() override;

  /// Stream 0 is current, and being captured or not.
  void begin();
  /// Everything is joined to stream 0. False where the operators were not those observed.
  bool finish();

 protected:
  void begins(size_t i) override;
  void ends(size_t i) override;

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
    bool joins = false;  ///< its next kernel comes after work of other streams
    Event last;
  };
  bool expects(size_t i) const;
  void enter(size_t i);
  void fail();

  const ObservedRun& observed_;
  const StreamPlan& plan_;
  const c10::cuda::CUDAStream main_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> ended_;  ///< by operator, where others wait for it
  Event begun_;
  bool failed_ = false;
};

}  // namespace graft::cuda
