#include "core/torch/bench.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

#include "core/torch/cuda_runner.h"
#include "core/torch/gpu_state.h"
#include "core/torch/run/capture_facts.h"
#include "core/torch/timing_turn.h"
#include "core/torch/values/device.h"
#include "core/torch/values/values.h"
#include "kernels/capture/pytree.h"

namespace graft {
namespace {

using Clock = std::chrono::steady_clock;

/// Linear between the two nearest samples.
double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

/// TorchScript specialises itself during its first three runs; caches and allocators settle too.
constexpr int runsToWarm = 3;
/// But no longer than this: what settles is little beside runs of seconds.
constexpr double mostWarmingSeconds = 3;

bool isOnOneThread(const RunOptions& options) {
  return options.device == "cpu" && (options.threads > 0 ? options.threads : at::get_num_threads()) == 1;
}

double millisecondsOfThread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}
double millisecondsOfClock() {
  return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

Result<double> timeOnce(const Runnable& run) {
  const auto now = run.isOnOneThread ? millisecondsOfThread : millisecondsOfClock;
  const double start = now(), startOfClock = millisecondsOfClock();
  const Status s = run.run();
  const double milliseconds = now() - start;
  run.past->lastSeconds = (millisecondsOfClock() - startOfClock) / 1000;
  ++run.past->timedRuns;
  if (run.putBack) run.putBack();
  if (!s) return s.error();
  return milliseconds;
}

/// Tensors that runs may write or reshape in place, with the numbers and the shapes that they had.
class Before {
 public:
  explicit Before(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& t : tensors)
      if (t.layout() == at::kStrided)
        saved_.push_back({t, t.clone(), t.sizes().vec(), t.strides().vec(), t.storage_offset()});
  }
  bool isEmpty() const { return saved_.empty(); }
  /// The first call finds out which of them a run writes at all.
  void putBack() {
    const c10::InferenceMode inference;
    if (!areWrittenOnly_) std::erase_if(saved_, [](const Saved& s) { return s.tensor.equal(s.numbers); });
    areWrittenOnly_ = true;
    for (const Saved& s : saved_) {
      if (s.tensor.sizes() != s.sizes || s.tensor.strides() != s.strides)
        s.tensor.as_strided_(s.sizes, s.strides, s.offset);
      s.tensor.copy_(s.numbers);
    }
  }

 private:
  struct Saved {
    at::Tensor tensor, numbers;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
  };
  std::vector<Saved> saved_;
  bool areWrittenOnly_ = false;
};

Runnable puttingBack(std::function<Status()> run, const std::vector<at::Tensor>& mayWrite, bool isOnOneThread) {
  const auto before = std::make_shared<Before>(mayWrite);
  if (before->isEmpty()) return {std::move(run), {}, isOnOneThread};
  return {std::move(run), [before] { before->putBack(); }, isOnOneThread};
}

// As nn.Module.to in Python; Module::to in C++ casts integer buffers too.
void castFloats(torch::jit::Module& module, at::ScalarType dtype) {
  const auto cast = [&](at::Tensor t) {
    if (c10::isFloatingType(t.scalar_type())) t.set_data(t.to(dtype));
  };
  for (const at::Tensor& t : module.parameters()) cast(t);
  for (const at::Tensor& t : module.buffers()) cast(t);
}

/// A file of tensors holds lists of whatever; the method says what of.
std::vector<c10::IValue> asDeclared(const torch::jit::Module& module, std::vector<c10::IValue> values) {
  const auto method = module.find_method("forward");
  if (!method) return values;
  const auto& declared = method->function().getSchema().arguments();
  for (size_t i = 0; i < values.size() && i + 1 < declared.size(); ++i)
    if (auto fitting = fit(values[i], *declared[i + 1].type())) values[i] = std::move(*fitting);
  return values;
}

Result<Runnable> torchScript(const std::string& path, const TensorSet& inputs, const RunOptions& options, bool freeze) {
  auto device = requireDevice(options.device);
  if (!device) return device.error();
  if (options.threads > 0 && at::get_num_threads() != options.threads) at::set_num_threads(options.threads);
  try {
    // Loaded outside inference mode, as plain programs load: weights made inside it carry no version, and operators
    // that keep packed copies of weights leave such ones alone.
    const at::NoGradGuard noGrad;
    auto loaded = torch::jit::load(path, *device);
    loaded.eval();
    if (freeze && options.dtype) castFloats(loaded, torchDType(*options.dtype));
    auto module = std::make_shared<torch::jit::Module>(freeze ? torch::jit::freeze(loaded) : loaded);
    const auto run = [module, values = asDeclared(*module, valuesOf(inputs)), device = *device]() -> Status {
      try {
        c10::InferenceMode inference;
        module->forward(values);
        synchronize(device);
        return done();
      } catch (const std::exception& e) {
        return badInput(fmt::format("TorchScript's own run failed: {}", shortMessage(e)));
      }
    };
    std::vector<at::Tensor> mayWrite = flattenTensors(valuesOf(inputs));
    for (const auto& buffer : module->buffers()) mayWrite.push_back(buffer);
    return puttingBack(run, mayWrite, isOnOneThread(options));
  } catch (const std::exception& e) {
    return badInput(
        fmt::format("{}: TorchScript cannot load{} it: {}", path, freeze ? " or freeze" : "", shortMessage(e)));
  }
}

}  // namespace

Status Runnable::operator()() const {
  const double start = millisecondsOfClock();
  Status s = run();
  past->lastSeconds = (millisecondsOfClock() - start) / 1000;
  if (putBack) putBack();
  return s;
}

Timing timingOf(std::vector<double> samplesMs) {
  std::vector<double> sorted = samplesMs;
  std::sort(sorted.begin(), sorted.end());
  return {percentile(sorted, 0.5), percentile(sorted, 0.1), percentile(sorted, 0.9), std::move(samplesMs)};
}

Runnable runnable(const Program& program, const TensorSet& inputs) {
  const auto run = [&program, &inputs]() -> Status {
    auto out = program.run(inputs);
    if (!out) return out.error();
    if (auto device = requireDevice(program.options().device)) synchronize(*device);
    return done();
  };
  const bool isAlone = isOnOneThread(program.options());
  if (!program.capture().writes()) return {run, {}, isAlone};
  std::vector<at::Tensor> mayWrite = flattenTensors(valuesOf(inputs));
  for (const at::Tensor& weight : flattenTensors(valuesOf(program.capture().writtenTensors)))
    mayWrite.push_back(weight);
  return puttingBack(run, mayWrite, isAlone);
}

Result<Runnable> frozenTorchScript(const std::string& path, const TensorSet& inputs, const RunOptions& options) {
  return torchScript(path, inputs, options, true);
}

Result<Runnable> loadedTorchScript(const std::string& path, const TensorSet& inputs, const RunOptions& options) {
  return torchScript(path, inputs, options, false);
}

double medianRatio(const Timing& a, const Timing& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.samplesMs.size(), b.samplesMs.size()); ++i)
    ratios.push_back(a.samplesMs[i] / b.samplesMs[i]);
  if (ratios.empty()) return 0;
  std::sort(ratios.begin(), ratios.end());
  return percentile(ratios, 0.5);
}

Result<PairedTiming> timeTwoInTurns(const Stopwatch& a, const Stopwatch& b, double seconds, const Job& job,
                                    int fewest) {
  auto timings = timeInTurns({a, b}, seconds, job, fewest);
  if (!timings) return timings.error();
  PairedTiming out;
  out.a = std::move((*timings)[0]);
  out.b = std::move((*timings)[1]);
  out.ratio = medianRatio(out.a, out.b);
  out.repetitions = static_cast<int>(out.a.samplesMs.size());
  return out;
}

Result<std::vector<Timing>> timeInTurns(const std::vector<Stopwatch>& sides, double seconds, const Job& job,
                                        int fewest) {
  const auto begin = Clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::vector<Timing> out(sides.size());
  constexpr int most = 20000;
  for (int round = 0; round < fewest || (elapsed() < seconds && round < most); ++round) {
    for (size_t i = 0; i < sides.size(); ++i) {
      // Who comes second finds caches and clocks as the first left them.
      const size_t k = round % 2 == 0 ? i : sides.size() - 1 - i;
      auto t = sides[k]();
      if (!t) return t.error();
      if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
      out[k].samplesMs.push_back(*t);
    }
    // Where runs take seconds, the rounds are what is left to do.
    constexpr double all = 1000;
    const double part = std::min(seconds > 0 ? elapsed() / seconds : 1, static_cast<double>(round + 1) / fewest);
    job.report("timing", static_cast<size_t>(std::min(part, 1.0) * all), static_cast<size_t>(all));
  }
  for (Timing& t : out) t = timingOf(std::move(t.samplesMs));
  return out;
}

namespace {

std::string launched(const CudaRunner::Replay& r) {
  return fmt::format("{} kernels{}", r.kernels, r.streams > 1 ? fmt::format(" on {} streams", r.streams) : "");
}

/// What a reader of the times should know of the tuner; may be empty.
std::string guesses() {
  const size_t n = guessedProducts();
  if (n == 0) return "";
  return fmt::format(
      "; {} product{} guessed, as the time for tuning was over: another run goes on with them, or set "
      "GRAFT_TUNING_SECONDS",
      n, n == 1 ? "" : "s");
}

}  // namespace

Result<ProgramWatch> stopwatch(const Program& program, const TensorSet& inputs, const Job& job) {
  const RunOptions& o = program.options();
  const auto begin = Clock::now();
  ProgramWatch out;
  if (o.device != "cpu") {
    auto made = CudaRunner::make(program);
    std::string why = made ? "" : made.error().message;
    if (made) {
      auto runner = std::make_shared<CudaRunner>(std::move(*made));
      if (auto first = runner->time(inputs, false, job)) {
        out.how = "captured, " + launched(*first);
        out.run = [runner, &inputs]() -> Result<double> {
          auto t = runner->time(inputs);
          return t ? Result<double>(t->milliseconds) : t.error();
        };
      } else {
        if (first.error().kind == ErrorKind::Cancelled) return first.error();
        why = first.error().message;
      }
    }
    if (!out.run) out.how = fmt::format("launched one by one ({})", why);
  } else {
    const int threads = o.threads > 0 ? o.threads : at::get_num_threads();
    out.how = fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
  }
  if (!out.run) {
    out.run = [run = runnable(program, inputs)] { return timeOnce(run); };
    if (auto first = out.run(); !first) return first.error();
  }
  out.readySeconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return out;
}

namespace {

Result<PairedTiming> timePairedBy(const Stopwatch& a, const Stopwatch& b, double seconds, const Job& job,
                                  int fewest = usualPairs) {
  const auto begin = Clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const double most = std::max(seconds, mostWarmingSeconds);
  job.report("timing", 0, 1);
  for (int i = 0; i == 0 || (i < runsToWarm && elapsed() < most) || (i < 20 && elapsed() < seconds * 0.1); ++i) {
    for (const Stopwatch* s : {&a, &b})
      if (auto t = (*s)(); !t) return t.error();
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
  }
  return timeTwoInTurns(a, b, seconds, job, fewest);
}

/// Both captured, GPU time by events; `why` where one of them cannot be captured.
std::optional<Result<PairedTiming>> timeCaptured(const Program& a, const Program& b, const TensorSet& inputs,
                                                 double seconds, const Job& job, std::string& why) {
  auto ra = CudaRunner::make(a), rb = CudaRunner::make(b);
  for (auto* r : {&ra, &rb}) {
    if (!*r) {
      why = r->error().message;
      return std::nullopt;
    }
    if (auto t = (*r)->time(inputs, false, job); !t) {
      if (t.error().kind == ErrorKind::Cancelled) return t.error();
      why = t.error().message;
      return std::nullopt;
    }
  }
  auto watch = [&inputs](CudaRunner& r, bool flushed) -> Stopwatch {
    return [&r, &inputs, flushed]() -> Result<double> {
      auto t = r.time(inputs, flushed);
      return t ? Result<double>(t->milliseconds) : t.error();
    };
  };
  auto warm = timePairedBy(watch(*ra, false), watch(*rb, false), seconds * 0.7, job);
  if (!warm) return warm;
  const std::string state = gpuStateText(a.options().device);
  auto flushed = timePairedBy(watch(*ra, true), watch(*rb, true), seconds * 0.3, job);
  if (!flushed) return flushed;
  warm->protocol = fmt::format(
      "{}, {} alternating pairs of captured CUDA graphs ({} and {}), GPU time by events, waiting between{}{}",
      a.options().device, warm->repetitions, launched(*ra->time(inputs)), launched(*rb->time(inputs)),
      state.empty() ? "" : "; " + state, guesses());
  warm->flushed = {std::move(flushed->a), std::move(flushed->b), flushed->ratio, flushed->repetitions};
  return warm;
}

}  // namespace

double leastSeconds(const Runnable& a, const Runnable& b) {
  const double pair = a.past->lastSeconds + b.past->lastSeconds;
  const int warm = std::max(0, runsToWarm - std::min(a.past->timedRuns, b.past->timedRuns));
  return pair * usualPairs + std::min(pair * warm, warm > 0 ? std::max(pair, mostWarmingSeconds) : 0.0);
}

Result<PairedTiming> timePaired(const Runnable& given, const Runnable& other, double seconds, const Job& job,
                                const std::string& where, int fewest) {
  const TimingTurn turn(where, job);
  Runnable a = given, b = other;
  a.isOnOneThread = b.isOnOneThread = given.isOnOneThread && other.isOnOneThread;
  const bool areWarm = a.past->timedRuns >= runsToWarm && b.past->timedRuns >= runsToWarm;
  const Stopwatch ofA = [&] { return timeOnce(a); }, ofB = [&] { return timeOnce(b); };
  auto out = areWarm ? timeTwoInTurns(ofA, ofB, seconds, job, fewest) : timePairedBy(ofA, ofB, seconds, job, fewest);
  if (!out) return out;
  out->protocol =
      fmt::format("{}{}{} alternating pairs after warm-up, {} of whole runs", where, where.empty() ? "" : ", ",
                  out->repetitions, a.isOnOneThread ? "the thread's own time" : "wall time");
  return out;
}

Result<PairedTiming> timePaired(const Program& a, const Program& b, const TensorSet& inputs, double seconds,
                                const Job& job) {
  const RunOptions& o = a.options();
  const TimingTurn turn(o.device, job);
  std::string why;
  if (o.device != "cpu" && b.options().device == o.device)
    if (auto captured = timeCaptured(a, b, inputs, seconds, job, why)) return std::move(*captured);
  const int threads = o.threads > 0 ? o.threads : at::get_num_threads();
  return timePaired(runnable(a, inputs), runnable(b, inputs), seconds, job,
                    o.device == "cpu" ? fmt::format("cpu, {} thread{}", threads, threads == 1 ? "" : "s")
                                      : fmt::format("{}, launched one by one, not captured ({})", o.device, why));
}

Result<PairedTiming> timeAgainstFrozen(const std::string& path, const Program& b, const TensorSet& inputs,
                                       double seconds, const Job& job) {
  const RunOptions& o = b.options();
  const TimingTurn turn(o.device, job);
  auto frozen = frozenTorchScript(path, inputs, o);
  if (!frozen) return frozen.error();
  auto watch = stopwatch(b, inputs, job);
  if (!watch) return watch.error();
  auto out = timePairedBy([&] { return timeOnce(*frozen); }, watch->run, seconds, job);
  if (!out) return out;
  const std::string state = o.device == "cpu" ? "" : gpuStateText(o.device);
  out->protocol = o.device == "cpu"
                      ? fmt::format("cpu, {}, {} alternating pairs after warm-up, {} of whole runs", watch->how,
                                    out->repetitions, frozen->isOnOneThread ? "the thread's own time" : "wall time")
                      : fmt::format(
                            "{}, {} alternating pairs after warm-up: TorchScript by the clock, the rewritten "
                            "model {}{}",
                            o.device, out->repetitions, watch->how, state.empty() ? "" : "; " + state);
  return out;
}

}  // namespace graft
