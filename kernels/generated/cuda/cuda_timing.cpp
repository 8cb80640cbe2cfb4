#include "kernels/generated/cuda/cuda_timing.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>

#include "core/compile/nvrtc/nvrtc.h"
#include "kernels/generated/cuda/cuda_compiled.h"
#include "kernels/generated/cuda/cuda_driver.h"

namespace graft::ops {
namespace {

constexpr int kRounds = 7;
constexpr int kRuns = 10;  // in a row
/// More than the caches of today's GPUs hold. Of what is read again and again they keep a part, even where it is
/// larger than they are: so there are two sets of inputs at least, unless these take most of the memory.
constexpr int64_t kBytes = int64_t{192} << 20;
constexpr int64_t kLeastCopies = 2, kMostCopies = 16;
constexpr int64_t kMostBytes = int64_t{1} << 30;
/// The host queues a run in less than this.
constexpr int64_t kNanosecondsOfQueueing = 40'000;

/// One thread that waits.
constexpr const char* waitSource = R"(
extern "C" __global__ void wait_for(long long nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while ((long long)(now - begin) < nanoseconds);
}
)";

Result<CudaDriver::Function> waitFunction(const CudaDriver& driver, int device) {
  const Nvrtc* nvrtc = findNvrtc();
  if (!nvrtc) return badInput(nvrtcStatus());
  Result<std::string> binary = cudaBinary(*nvrtc, waitSource, driver.gpu(device).capability);
  if (!binary) return binary.error();
  CudaDriver::Module module = nullptr;
  CudaDriver::Function function = nullptr;
  std::string why = driver.load(binary->data(), &module);
  if (why.empty()) why = driver.find(module, "wait_for", 0, &function);
  if (!why.empty()) return internalError("the kernel that waits cannot be loaded: " + why);
  return function;
}

/// The inputs, and copies of those that can be copied as they lie.
std::vector<std::vector<at::Tensor>> copiesOf(at::TensorList inputs) {
  int64_t bytes = 1;
  for (const at::Tensor& t : inputs) bytes += static_cast<int64_t>(t.nbytes());
  const int64_t least = bytes > kMostBytes ? 1 : kLeastCopies;
  const int64_t count = std::clamp<int64_t>(kBytes / bytes, least, kMostCopies);
  std::vector<std::vector<at::Tensor>> out{inputs.vec()};
  for (int64_t i = 1; i < count; ++i) {
    std::vector<at::Tensor>& copy = out.emplace_back();
    for (const at::Tensor& t : inputs) {
      if (!t.is_non_overlapping_and_dense() || CudaCompiled::alignmentOf(t) < 16) {
        copy.push_back(t);
        continue;
      }
      copy.push_back(at::empty_strided(t.sizes(), t.strides(), t.options()));
      copy.back().copy_(t);
    }
  }
  return out;
}

double medianOf(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace

Result<std::vector<double>> timeRuns(const std::vector<const CudaRun*>& runs, at::TensorList inputs) {
  // Groups are made side by side, and what another thread queues would be timed as well.
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const c10::Device device = inputs[0].device();
  const c10::DeviceGuard guard(device);
  const CudaDriver* driver = cudaDriver();
  driver->enter(device.index());
  const Result<CudaDriver::Function> wait = waitFunction(*driver, device.index());
  if (!wait) return wait.error();
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  std::vector<std::vector<at::Tensor>> copies{inputs.vec()};
  try {
    copies = copiesOf(inputs);
  } catch (const c10::Error&) {
    // Without memory for copies, each run reads the same.
  }
  for (const CudaRun* r : runs) (void)r->run(inputs);
  std::vector<std::vector<double>> times(runs.size());
  size_t next = 0;
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < runs.size(); ++i) {
      int64_t nanoseconds = kRuns * kNanosecondsOfQueueing;
      void* parameters[] = {&nanoseconds};
      if (const std::string why = driver->launch({*wait, 1, 1, 0, false}, stream.native_handle(), parameters);
          !why.empty())
        return internalError("the kernel that waits cannot be launched: " + why);
      c10::Event begin(device.type(), c10::EventFlag::BACKEND_DEFAULT),
          end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
      begin.record(stream);
      for (int k = 0; k < kRuns; ++k) (void)runs[i]->run(copies[next++ % copies.size()]);
      end.record(stream);
      end.synchronize();
      times[i].push_back(begin.elapsedTime(end) * 1000 / kRuns);
    }
  std::vector<double> out;
  for (const std::vector<double>& t : times) out.push_back(medianOf(t));
  return out;
}

}  // namespace graft::ops
