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
#include <optional>

#include "core/torch/cuda_runner.h"
#include "core/torch/internal/device.h"
#include "core/torch/internal/values.h"

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

void summarise(Timing& t) {
  std::vector<double> sorted = t.samplesMs;
  std::sort(sorted.begin(), sorted.end());
  t.medianMs = percentile(sorted, 0.5);
  t.p10Ms = percentile(sorted, 0.1);
  t.p90Ms = percentile(sorted, 0.9);
}

Result<double> timeOnce(const Runnable& run) {
  const auto start = Clock::now();
  if (Status s = run(); !s) return s.error();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

Runnable runnable(const Program& program, const TensorSet& inputs) {
  return [&program, &inputs]() -> Status {
    auto out = program.run(inputs);
    if (!out) return out.error();
    if (auto device = requireDevice(program.options().device)) synchronize(*device);
    return done();
  };
}

Result<Runnable> frozenTorchScript(const std::string& path, const TensorSet& inputs, const RunOptions& options) {
  auto device = requireDevice(options.device);
  if (!device) return device.error();
  if (options.threads > 0 && at::get_num_threads() != options.threads) at::set_num_threads(options.threads);
  try {
    // Loaded outside inference mode, as plain programs load: weights made inside it carry no version, and operators
    // that keep packed copies of weights leave such ones alone.
    const at::NoGradGuard noGrad;
    auto module = torch::jit::load(path, *device);
    module.eval();
    if (options.dtype) module.to(torchDType(*options.dtype));
    auto frozen = std::make_shared<torch::jit::Module>(torch::jit::freeze(module));
    return Runnable([frozen, values = valuesOf(inputs), device = *device]() -> Status {
      try {
        c10::InferenceMode inference;
        frozen->forward(values);
        synchronize(device);
        return done();
      } catch (const std::exception& e) {
        return badInput(fmt::format("TorchScript's own run failed: {}", shortMessage(e)));
      }
    });
  } catch (const std::exception& e) {
    return badInput(fmt::format("{}: TorchScript cannot load or freeze it: {}", path, shortMessage(e)));
  }
}

namespace {

/// One measured run: its milliseconds, however they are taken.
using Stopwatch = std::function<Result<double>()>;

Result<PairedTiming> timePairedBy(const Stopwatch& a, const Stopwatch& b, double seconds, const Job& job) {
  // TorchScript specialises itself during its first three runs; caches and allocators settle too.
  const auto begin = Clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (int i = 0; i < 3 || (i < 20 && elapsed() < seconds * 0.1); ++i) {
    for (const Stopwatch* s : {&a, &b})
      if (auto t = (*s)(); !t) return t.error();
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
  }
  PairedTiming out;
  std::vector<double> ratios;
  const double warm = elapsed();
  constexpr int most = 20000;
  while (out.repetitions < 5 || (elapsed() - warm < seconds && out.repetitions < most)) {
    auto ta = a();
    if (!ta) return ta.error();
    auto tb = b();
    if (!tb) return tb.error();
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
    out.a.samplesMs.push_back(*ta);
    out.b.samplesMs.push_back(*tb);
    ratios.push_back(*ta / *tb);
    ++out.repetitions;
    job.report("timing", static_cast<size_t>((elapsed() - warm) * 1000), static_cast<size_t>(seconds * 1000));
  }
  summarise(out.a);
  summarise(out.b);
  std::sort(ratios.begin(), ratios.end());
  out.ratio = percentile(ratios, 0.5);
  return out;
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
    if (auto t = (*r)->time(inputs); !t) {
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
  const auto state = gpuState(0);
  auto flushed = timePairedBy(watch(*ra, true), watch(*rb, true), seconds * 0.3, job);
  if (!flushed) return flushed;
  warm->protocol = fmt::format(
      "{}, {} alternating pairs of captured CUDA graphs ({} and {} kernels), GPU time by events, waiting between; with "
      "a flushed L2 "
      "cache {:.3f} and {:.3f} ms{}",
      a.options().device, warm->repetitions, ra->time(inputs)->kernels, rb->time(inputs)->kernels, flushed->a.medianMs,
      flushed->b.medianMs,
      state ? fmt::format("; {}, SM clock {} MHz, {:.0f} W", state->name, state->smClockMHz, state->powerWatts) : "");
  return warm;
}

}  // namespace

Result<PairedTiming> timePaired(const Runnable& a, const Runnable& b, double seconds, const Job& job,
                                const std::string& where) {
  auto out = timePairedBy([&] { return timeOnce(a); }, [&] { return timeOnce(b); }, seconds, job);
  if (!out) return out;
  out->protocol = fmt::format("{}{}{} alternating pairs after warm-up, wall time of whole runs", where,
                              where.empty() ? "" : ", ", out->repetitions);
  return out;
}

Result<PairedTiming> timePaired(const Program& a, const Program& b, const TensorSet& inputs, double seconds,
                                const Job& job) {
  const RunOptions& o = a.options();
  std::string why;
  if (o.device != "cpu" && b.options().device == o.device)
    if (auto captured = timeCaptured(a, b, inputs, seconds, job, why)) return std::move(*captured);
  const int threads = o.threads > 0 ? o.threads : at::get_num_threads();
  return timePaired(runnable(a, inputs), runnable(b, inputs), seconds, job,
                    o.device == "cpu" ? fmt::format("cpu, {} thread{}", threads, threads == 1 ? "" : "s")
                                      : fmt::format("{}, launched one by one, not captured ({})", o.device, why));
}

}  // namespace graft
