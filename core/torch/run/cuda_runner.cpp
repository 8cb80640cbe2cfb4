#include "core/torch/cuda_runner.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>

#include "core/torch/gpu_state.h"
#include "core/torch/operator_library.h"
#include "core/torch/run/capture_facts.h"
#include "core/torch/values/device.h"
#include "core/torch/values/values.h"
#include "kernels/capture/captures.h"
#include "kernels/capture/pytree.h"

namespace graft {
namespace {

Result<const GraftCudaGraphs*> cudaGraphs() {
  if (Status s = loadOperatorLibrary(); !s) return s.error();
  const auto get = reinterpret_cast<GraftCudaGraphsFunction>(dlsym(RTLD_DEFAULT, "graft_ops_cuda_graphs"));
  const GraftCudaGraphs* table = get ? get() : nullptr;
  if (table && table->version == graftCudaGraphsVersion) return table;
  const auto status = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "graft_ops_cuda_status"));
  const std::string why = status ? status() : "";
  return Error{ErrorKind::NoDevice,
               fmt::format("CUDA graphs are not available: {}",
                           why.empty() ? "the operator library belongs to another version of this program" : why),
               {}};
}

/// An Error as an exception, to pass through code that reports errors by exceptions.
struct Failed : std::exception {
  Error error;
  explicit Failed(Error e) : error(std::move(e)) {}
  const char* what() const noexcept override { return error.message.c_str(); }
};

double median(std::vector<double>& v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

BodyFacts factsOf(const Program& program) {
  const CaptureFacts& facts = program.capture();
  return {facts.constantWeights, {flattenTensors(valuesOf(facts.writtenTensors)), facts.writtenInputs}};
}

/// A line of kernelsAfterMarker.
CudaRunner::Launch launchOf(std::string_view line) {
  std::vector<int64_t> numbers;
  const std::string_view name = line.substr(0, line.find('\t'));
  for (size_t at = name.size(); at < line.size();) {
    int64_t n = -1;
    std::from_chars(line.data() + at + 1, line.data() + line.size(), n);
    numbers.push_back(n);
    at = std::min(line.find('\t', at + 1), line.size());
  }
  CudaRunner::Launch out{std::string(name)};
  if (numbers.size() != 7) return out;
  out.blocks = numbers[0];
  out.threads = static_cast<int>(numbers[1]);
  out.sharedBytes = numbers[2];
  out.registers = static_cast<int>(numbers[3]);
  out.localBytes = numbers[4];
  if (numbers[5] >= 0 && numbers[6] > 0)
    out.occupancy = static_cast<double>(numbers[5] * numbers[1]) / static_cast<double>(numbers[6]);
  return out;
}

struct Markers {
  const GraftCudaGraphs& cuda;
  void* handle;
  explicit Markers(const GraftCudaGraphs& c) : cuda(c), handle(c.makeMarkers()) {}
  ~Markers() { cuda.freeMarkers(handle); }
};

}  // namespace

struct CudaRunner::Impl {
  const Program* program;
  const GraftCudaGraphs* cuda;
  int device;
  Captures captures;

  Impl(const Program& p, const GraftCudaGraphs& c, int d, size_t limit)
      : program(&p), cuda(&c), device(d), captures(c, d, limit, factsOf(p)) {}

  Captures::Body body(const TensorSet& like, const Job& job) const {
    return [this, &like, &job, captures = 0](const Captures::Values& in) mutable {
      const bool capturing = cuda->isCapturing();
      auto out = capturing ? program->run(named(in, like), job) : runBefore(named(in, like), job);
      if (capturing) job.report(fmt::format("choosing algorithms in the whole model, capture {}", ++captures), 0, 0);
      if (!out) throw Failed(out.error());
      return valuesOf(*out);
    };
  }

  /// A run without a capture, in which operators may time their algorithms.
  Result<TensorSet> runBefore(const TensorSet& inputs, const Job& job) const {
    const size_t total = std::max<size_t>(program->operators(), 1);
    size_t begun = 0;
    const auto report = [&](NodeId) {
      job.report("timing each operator's algorithms", std::min(begun++, total - 1), total);
    };
    return program->runMarked(inputs, report, job);
  }

  static TensorSet named(const Captures::Values& values, const TensorSet& like) {
    TensorSet out = tensorSet(values);
    if (like.impl) out.impl->names = like.impl->names;
    return out;
  }
};

namespace {

template <class F>
auto caught(const Job& job, const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Failed& e) {
    return e.error;
  } catch (const CaptureError& e) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
    return badInput(fmt::format("the model cannot be captured in a CUDA graph: {}", e.what()));
  } catch (const std::exception& e) {
    return internalError(shortMessage(e));
  }
}

}  // namespace

CudaRunner::CudaRunner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaRunner::CudaRunner(CudaRunner&&) noexcept = default;
CudaRunner& CudaRunner::operator=(CudaRunner&&) noexcept = default;
CudaRunner::~CudaRunner() = default;

Result<CudaRunner> CudaRunner::make(const Program& program, size_t captures) {
  auto device = requireDevice(program.options().device);
  if (!device) return device.error();
  if (device->is_cpu()) return Error{ErrorKind::NoDevice, "CUDA graphs need a program for 'cuda'", {}};
  auto cuda = cudaGraphs();
  if (!cuda) return cuda.error();
  if (const std::string& why = program.capture().obstacle; !why.empty())
    return badInput(fmt::format("the model cannot be captured in a CUDA graph: {}", why));
  return caught({}, [&]() -> Result<CudaRunner> {
    return CudaRunner(std::make_unique<Impl>(program, **cuda, device->index(), captures));
  });
}

Result<TensorSet> CudaRunner::run(const TensorSet& inputs, const Job& job) {
  return caught(job, [&]() -> Result<TensorSet> {
    return tensorSet(impl_->captures.run(valuesOf(inputs), impl_->body(inputs, job)));
  });
}

Result<CudaRunner::Replay> CudaRunner::time(const TensorSet& inputs, bool flushed, const Job& job) {
  return caught(job, [&]() -> Result<Replay> {
    const auto r = impl_->captures.time(valuesOf(inputs), impl_->body(inputs, job), flushed);
    return Replay{r.milliseconds, r.kernels, r.streams};
  });
}

Result<CudaRunner::Profile> CudaRunner::profile(const TensorSet& inputs, int repetitions, const Job& job) {
  return caught(job, [&]() -> Result<Profile> {
    const GraftCudaGraphs& cuda = *impl_->cuda;
    const Markers markers(cuda);
    std::array<char, 1024> error{};
    std::vector<NodeId> order;
    const auto recordMarker = [&] {
      if (!cuda.recordMarker(markers.handle, error.data(), error.size())) throw CaptureError(error.data());
    };
    const Captures::Body withMarkersBody = [&](const Captures::Values& in) {
      order.clear();
      auto out = impl_->program->runMarked(Impl::named(in, inputs), [&](NodeId n) {
        order.push_back(n);
        recordMarker();
      });
      if (!out) throw Failed(out.error());
      recordMarker();
      return valuesOf(*out);
    };
    // A cache of its own: nothing else may use graphs with markers.
    Captures markedCaptures(cuda, impl_->device, 1, factsOf(*impl_->program));
    const auto& values = valuesOf(inputs);
    const auto plain = impl_->body(inputs, job);
    std::vector<double> whole, withMarkers;
    std::vector<std::vector<double>> samples;
    Profile out;
    constexpr int warmUp = 3;
    for (int i = 0; i < warmUp + repetitions; ++i) {
      if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
      job.report("profiling", static_cast<size_t>(i), static_cast<size_t>(warmUp + repetitions - 1));
      const auto a = impl_->captures.time(values, plain, false),
                 b = markedCaptures.time(values, withMarkersBody, false);
      samples.resize(order.size());
      std::vector<double> times(order.size());
      if (!cuda.markerTimes(markers.handle, times.data(), times.size(), error.data(), error.size()))
        throw CaptureError(error.data());
      if (i < warmUp) continue;
      whole.push_back(a.milliseconds);
      withMarkers.push_back(b.milliseconds);
      out.kernels = a.kernels;
      for (size_t k = 0; k < times.size(); ++k) samples[k].push_back(times[k]);
    }
    out.milliseconds = median(whole);
    out.labelledMs = median(withMarkers);
    std::map<NodeId, size_t> place;
    for (size_t k = 0; k < order.size(); ++k) {
      const auto [it, fresh] = place.try_emplace(order[k], out.nodes.size());
      if (fresh) out.nodes.push_back({order[k], 0, {}});
      NodeProfile& node = out.nodes[it->second];
      node.microseconds += median(samples[k]);
      std::string_view names = cuda.kernelsAfterMarker(markers.handle, k);
      while (!names.empty()) {
        const size_t end = std::min(names.find('\n'), names.size());
        node.launches.push_back(launchOf(names.substr(0, end)));
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    }
    return out;
  });
}

Capturing capturing(const Graph& g) {
  const CaptureFacts facts = captureFacts(g);
  Capturing out{facts.obstacle, facts.waits, capturePieces(g, facts).has_value(), {}};
  for (ValueId w : facts.writtenWeights)
    out.writes.push_back(g.value(w).path.empty() ? g.value(w).name : g.value(w).path);
  for (size_t i : facts.writtenInputs) out.writes.push_back(g.value(g.inputs()[i]).name);
  return out;
}

std::optional<GpuState> gpuState(const std::string& name) {
  const auto device = requireDevice(name);
  return device && !device->is_cpu() ? gpuState(device->index()) : std::nullopt;
}

std::string gpuStateText(const std::string& name) {
  const auto state = gpuState(name);
  return state ? gpuStatesText({*state}) : "";
}

void limitTuning(double seconds) {
  if (std::getenv("GRAFT_TUNING_SECONDS")) return;
  if (const auto cuda = cudaGraphs()) (*cuda)->setTuningSeconds(seconds);
}

size_t guessedProducts() {
  const auto cuda = cudaGraphs();
  return cuda ? (*cuda)->guessedProblems() : 0;
}

double gpuBandwidth(const std::string& name) {
  constexpr int64_t bytes = int64_t{256} << 20;
  constexpr int rounds = 5;
  const auto device = requireDevice(name);
  if (!device || device->is_cpu()) return 0;
  try {
    const c10::DeviceGuard guard(*device);
    const at::Tensor from = at::ones({bytes}, at::TensorOptions(at::kByte).device(*device));
    at::Tensor to = at::empty_like(from);
    const auto stream = c10::impl::VirtualGuardImpl(device->type()).getStream(*device);
    double best = 0;
    for (int i = 0; i < rounds; ++i) {
      c10::Event begin(device->type(), c10::EventFlag::BACKEND_DEFAULT),
          end(device->type(), c10::EventFlag::BACKEND_DEFAULT);
      begin.record(stream);
      to.copy_(from);
      end.record(stream);
      end.synchronize();
      best = std::max(best, 2.0 * static_cast<double>(bytes) / (begin.elapsedTime(end) * 1000));
    }
    return best;
  } catch (const std::exception&) {
    return 0;  // there is no memory for it
  }
}

size_t peakGpuMemory(const std::string& name) {
  const auto device = requireDevice(name);
  if (!device || device->is_cpu()) return 0;
  const auto cuda = cudaGraphs();
  return cuda ? (*cuda)->peakMemory(device->index()) : 0;
}

}  // namespace graft
