#pragma once
// A run's operators on several streams, as a plan says (kernels/capture/stream_plan.h).
//
//   SpreadRun spread(observed, plan, stream);   // `observed`: the same run before, on one stream
//   spread.begin();
//   model(x);
//   if (!spread.finish()) ...                   // it went otherwise: what it computed or captured is no good
//
// The stream that a run is captured on is stream 0 of the plan; the others are forked from it when they are first
// needed and joined to it at the end. A kernel that comes after kernels of several streams is launched when they are
// over (afterJoin in launchers.h). Memory is the caching allocator's: what an operator makes belongs to its
// stream, and is not given to another until it has been told by recordStream who else used it.
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/capture/observed_run.h"
#include "kernels/capture/stream_plan.h"

namespace graft::cuda {

/// How many streams a captured run may take at most: GRAFT_STREAMS, from 1 to 8; 4 without it.
uint32_t mostStreams();

/// How many nodes the capture on that stream has so far; 0 where there is none.
size_t capturedNodes(cudaStream_t stream);

/// On one thread, and one at a time in the process: others wait while it exists.
class SpreadRun : public Observer {
 public:
  /// `observed` and `plan` outlive it. The stream's device is the current one.
  SpreadRun(const ObservedRun& observed, const StreamPlan& plan, c10::cuda::CUDAStream stream);
  ~SpreadRun() override;

  /// The run's stream is current, and being captured or not.
  void begin();
  /// Everything is joined to the run's stream. False where the operators were not those observed.
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

  const std::unique_lock<std::mutex> alone_;
  const ObservedRun& observed_;
  const StreamPlan& plan_;
  const c10::cuda::CUDAStream main_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> ended_;  ///< by operator, where others wait for it
  Event begun_;
  bool failed_ = false;
};

}  // namespace graft::cuda
