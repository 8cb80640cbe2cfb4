#include "kernels/cuda/graphs/streams.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {
namespace {

/// Streams that have no holder. They are never destroyed: the allocator and cuBLAS keep memory by stream, which the
/// next holder finds there.
struct Unheld {
  std::mutex mutex;
  std::map<c10::DeviceIndex, std::vector<cudaStream_t>> streams;
};
Unheld& unheld() {
  static auto* all = new Unheld;  // holders may live until the process ends
  return *all;
}

}  // namespace

uint32_t mostStreams() {
  constexpr long kUsual = 4, kMost = 8;
  const char* value = std::getenv("GRAFT_STREAMS");
  char* end = nullptr;
  const long given = value ? std::strtol(value, &end, 10) : 0;
  return static_cast<uint32_t>(value && end != value ? std::clamp(given, 1L, kMost) : kUsual);
}

size_t capturedNodes(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  size_t count = 0;
  if (cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr) != cudaSuccess ||
      (status == cudaStreamCaptureStatusActive && cudaGraphGetNodes(graph, nullptr, &count) != cudaSuccess))
    (void)cudaGetLastError();
  return count;
}

OwnStreams::~OwnStreams() {
  const std::scoped_lock lock(unheld().mutex);
  auto& free = unheld().streams[device_];
  free.insert(free.end(), streams_.rbegin(), streams_.rend());  // the next holder's stream 0 is this one's
}

c10::cuda::CUDAStream OwnStreams::get(size_t i) {
  while (streams_.size() <= i) {
    cudaStream_t stream = nullptr;
    {
      const std::scoped_lock lock(unheld().mutex);
      auto& free = unheld().streams[device_];
      if (!free.empty()) {
        stream = free.back();
        free.pop_back();
      }
    }
    if (!stream) C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
  }
  return c10::cuda::getStreamFromExternal(streams_[i], device_);
}

SpreadRun::Event::Event() { C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); }
SpreadRun::Event::~Event() { cudaEventDestroy(event); }

SpreadRun::SpreadRun(const ObservedRun& observed, const StreamPlan& plan, OwnStreams& streams)
    : Observer(c10::kCUDA, [s = streams.get(0).stream()] { return capturedNodes(s); }),
      observed_(observed),
      plan_(plan),
      main_(streams.get(0)),
      ended_(plan.places.size()) {
  for (size_t i = 0; i < plan.streams; ++i) streams_.push_back(std::make_unique<Stream>(streams.get(i)));
  streams_[0]->forked = true;
  for (size_t i = 0; i < plan.places.size(); ++i)
    if (plan.places[i].awaited) ended_[i] = std::make_unique<Event>();
}

SpreadRun::~SpreadRun() { stop(); }

void SpreadRun::begin() {
  C10_CUDA_CHECK(cudaEventRecord(begun_.event, main_.stream()));
  start();
}

bool SpreadRun::finish() {
  stop();
  if (run().steps.size() != observed_.steps.size() || run().outside > 0) fail();
  c10::cuda::setCurrentCUDAStream(main_);
  afterJoin = false;
  for (size_t s = 1; s < streams_.size(); ++s) {
    Stream& side = *streams_[s];
    if (!side.forked) continue;
    if (cudaEventRecord(side.last.event, side.stream.stream()) != cudaSuccess ||
        cudaStreamWaitEvent(main_.stream(), side.last.event, 0) != cudaSuccess)
      fail();
  }
  if (failed_) (void)cudaGetLastError();
  return !failed_;
}

void SpreadRun::fail() {
  failed_ = true;
  afterJoin = false;
  c10::cuda::setCurrentCUDAStream(main_);
}

/// Whether operator i, which is about to run, is the one that the plan was made for.
bool SpreadRun::expects(size_t i) const {
  if (i >= observed_.steps.size() || run().names[i] != observed_.names[i]) return false;
  const RunStep &now = run().steps[i], &then = observed_.steps[i];
  return now.reads == then.reads && now.writes.size() <= then.writes.size() &&
         std::equal(now.writes.begin(), now.writes.end(), then.writes.begin());
}

void SpreadRun::begins(size_t i) {
  if (failed_) return;
  if (!expects(i)) return fail();
  if (observed_.steps[i].idle()) return;
  try {
    enter(i);
  } catch (const std::exception&) {
    fail();
  }
}

void SpreadRun::enter(size_t i) {
  const StreamPlan::Place& place = plan_.places[i];
  Stream& stream = *streams_[place.stream];
  const auto wait = [&](const Event& event) {
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream.stream.stream(), event.event, 0));
    stream.joins = true;
  };
  if (!std::exchange(stream.forked, true)) wait(begun_);
  for (uint32_t w : place.waits) wait(*ended_[w]);
  // Only what the run made may be given back before it is over.
  for (const Input& input : inputs())
    if (input.maker) c10::cuda::CUDACachingAllocator::recordStream(input.storage->data_ptr(), stream.stream);
  c10::cuda::setCurrentCUDAStream(stream.stream);
  afterJoin = stream.joins;
}

void SpreadRun::ends(size_t i) {
  if (failed_) return;
  const RunStep &now = run().steps[i], &then = observed_.steps[i];
  if (now.writes != then.writes) return fail();
  if (then.idle()) {
    if (now.kernels > 0) fail();
    return;
  }
  Stream& stream = *streams_[plan_.places[i].stream];
  stream.joins = std::exchange(afterJoin, false);
  if (ended_[i] && cudaEventRecord(ended_[i]->event, stream.stream.stream()) != cudaSuccess) return fail();
  c10::cuda::setCurrentCUDAStream(main_);
}

}  // namespace graft::cuda
