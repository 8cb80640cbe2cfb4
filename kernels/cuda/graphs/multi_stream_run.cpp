#include "kernels/cuda/graphs/multi_stream_run.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kernels/cuda/launchers.h"

namespace graft::cuda {

uint32_t maxStreams() {
  constexpr long kDefault = 4, kMax = 8;
  const char* value = std::getenv("GRAFT_STREAMS");
  char* end = nullptr;
  const long given = value ? std::strtol(value, &end, 10) : 0;
  return static_cast<uint32_t>(value && end != value ? std::clamp(given, 1L, kMax) : kDefault);
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

MultiStreamRun::Event::Event() { C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming)); }
MultiStreamRun::Event::~Event() { cudaEventDestroy(event); }

MultiStreamRun::MultiStreamRun(const ObservedRun& observed, const StreamPlan& plan, ExclusiveStreams& streams)
    : Observer(c10::kCUDA, [s = streams.get(0).stream()] { return capturedNodes(s); }),
      observed_(observed),
      plan_(plan),
      main_(streams.get(0)),
      ended_(plan.assignments.size()) {
  for (size_t i = 0; i < plan.streams; ++i) streams_.push_back(std::make_unique<Stream>(streams.get(i)));
  streams_[0]->forked = true;
  for (size_t i = 0; i < plan.assignments.size(); ++i)
    if (plan.assignments[i].awaited) ended_[i] = std::make_unique<Event>();
}

MultiStreamRun::~MultiStreamRun() { stop(); }

void MultiStreamRun::begin() {
  C10_CUDA_CHECK(cudaEventRecord(begun_.event, main_.stream()));
  start();
}

bool MultiStreamRun::finish() {
  stop();
  if (run().steps.size() != observed_.steps.size() || run().kernelsBetweenOperators > 0) fail();
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

void MultiStreamRun::fail() {
  failed_ = true;
  afterJoin = false;
  c10::cuda::setCurrentCUDAStream(main_);
}

/// Whether operator i, which is about to run, is the one that the plan was made for, with the same memory.
bool MultiStreamRun::matchesPlan(size_t i) const {
  if (i >= observed_.steps.size() || run().names[i] != observed_.names[i]) return false;
  const RunStep &now = run().steps[i], &then = observed_.steps[i];
  return now.reads == then.reads && now.writes.size() <= then.writes.size() &&
         std::equal(now.writes.begin(), now.writes.end(), then.writes.begin());
}

void MultiStreamRun::onOperatorBegin(size_t i) {
  if (failed_) return;
  if (!matchesPlan(i)) return fail();
  if (observed_.steps[i].idle()) return;
  try {
    switchToStream(i);
  } catch (const std::exception&) {
    fail();
  }
}

void MultiStreamRun::switchToStream(size_t i) {
  const StreamPlan::Assignment& assignment = plan_.assignments[i];
  Stream& stream = *streams_[assignment.stream];
  const auto wait = [&](const Event& event) {
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream.stream.stream(), event.event, 0));
    stream.joins = true;
  };
  if (!std::exchange(stream.forked, true)) wait(begun_);
  for (uint32_t w : assignment.waits) wait(*ended_[w]);
  // Only memory that the run itself allocated may be freed before the run ends.
  for (const Input& input : inputs())
    if (input.producer) c10::cuda::CUDACachingAllocator::recordStream(input.storage->data_ptr(), stream.stream);
  c10::cuda::setCurrentCUDAStream(stream.stream);
  afterJoin = stream.joins;
}

void MultiStreamRun::onOperatorEnd(size_t i) {
  if (failed_) return;
  const RunStep &now = run().steps[i], &then = observed_.steps[i];
  if (now.writes != then.writes) return fail();
  if (then.idle()) {
    if (now.kernels > 0) fail();
    return;
  }
  Stream& stream = *streams_[plan_.assignments[i].stream];
  stream.joins = std::exchange(afterJoin, false);
  if (ended_[i] && cudaEventRecord(ended_[i]->event, stream.stream.stream()) != cudaSuccess) return fail();
  c10::cuda::setCurrentCUDAStream(main_);
}

}  // namespace graft::cuda
