// graft.Runner (__torch__.torch.classes.graft.Runner): runs a TorchScript module as CUDA graphs. An exported module
// holds one as the attribute `graft_runner`, and its forward begins with
//
//   if (runner).captures((x, mask), ):
//     out = unchecked_cast(Tensor, (runner).run(self, (x, mask), ))
//   else:
//     ...                                 # the model itself, operator by operator
//
// A model that writes to buffers or inputs calls run_writing instead, which is told what it writes:
//
//     (runner).run_writing(self, (x, position), [self.keys, self.values], [0])       # two buffers, and the first input
//
// So the model stays readable in the file. It runs operator by operator wherever a graph cannot replace it: on the CPU,
// when gradients, autocast or a tracer need to see the operators, and on the first call with a shape of inputs. From
// the second call on, a shape is captured and replayed. Each call checks what a capture depends on (WeightGuard), so
// moving or replacing weights is safe; a graph reads weights that were written in place anyway. When the GPU runs out
// of memory, the captures are freed and the model itself runs.
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/custom_class.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/capture/captures.h"
#include "kernels/capture/pytree.h"
#include "kernels/capture/warm_up_counter.h"
#include "kernels/library/c_interface.h"
#include "kernels/runner/weight_guard.h"

namespace graft::ops {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kDefaultLimit = 16;

/// Set while a runner calls its module's forward, which must not use the runner again.
thread_local bool inForward = false;

struct ForwardScope {
  ForwardScope() { inForward = true; }
  ~ForwardScope() { inForward = false; }
};

bool isEnabled() {
  static const bool on = [] {
    const char* value = std::getenv("GRAFT_CAPTURE");
    return !value || std::string_view(value) != "0";
  }();
  return on;
}

/// Whether something intercepts operators: a tracer, functorch, a dispatch mode, autocast.
bool isIntercepted() {
  using c10::DispatchKey;
  static const c10::DispatchKeySet interceptors(
      {DispatchKey::Tracer, DispatchKey::Python, DispatchKey::PythonTLSSnapshot,
       DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::Functionalize, DispatchKey::PreDispatch,
       DispatchKey::PythonDispatcher});
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(interceptors) ||
         at::autocast::is_autocast_enabled(at::kCUDA);
}

/// Whether a tensor of the module or of its submodules is on a GPU.
bool isOnGpu(const c10::ivalue::Object& module) {
  for (const c10::IValue& v : module.slots()) {
    if (v.isTensor() && v.toTensor().defined() && v.toTensor().is_cuda()) return true;
    if (v.isObject() && v.toObjectRef().type()->is_module() && isOnGpu(v.toObjectRef())) return true;
  }
  return false;
}

class Runner : public torch::CustomClassHolder {
 public:
  Runner(bool constantWeights, int64_t limit)
      : constantWeights_(constantWeights), limit_(limit > 0 ? static_cast<size_t>(limit) : kDefaultLimit) {}

  /// Whether to call run() rather than the operators one by one. Every call of the model asks this, so it is cheap.
  bool captures(const c10::IValue& inputs) {
    if (inForward) return false;
    bool any = false;
    const bool gradients = at::GradMode::is_enabled();
    const bool plain = allTensors(inputs, [&](const at::Tensor& t) {
      any = true;
      return isPlainCuda(t) && !(gradients && t.requires_grad());
    });
    if (!any || !plain) {
      // A model that was moved to the CPU needs no captures. Any other may be called with the earlier inputs again.
      if (hasCaptures_.load(std::memory_order_relaxed) && hasLeftGpu(inputs)) clear();
      return false;
    }
    const GraftCudaGraphs* cuda = graft_ops_cuda_graphs();
    return cuda && !isIntercepted() && !cuda->isCapturing();
  }

  c10::IValue run(const c10::IValue& self, const c10::IValue& inputs) { return runWriting(self, inputs, {}); }

  c10::IValue runWriting(const c10::IValue& self, const c10::IValue& inputs, const LastingWrites& writes) {
    if (!self.isObject() || !inputs.isTuple()) TORCH_CHECK(false, "graft.Runner.run takes a module and a tuple");
    const auto& values = inputs.toTupleRef().elements();
    const auto forward = [&](const std::vector<c10::IValue>& in) {
      const ForwardScope scope;
      // Without TorchScript's optimiser, which would profile the first runs, and from then on compile fused kernels for
      // the module: those are not needed here, and for a long chain of concatenations that takes hours.
      const torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
      return torch::jit::Module(self.toObject()).get_method("forward")(in);
    };
    const std::vector<c10::IValue> given(values.begin(), values.end());
    if (!isEnabled() || !graft_ops_cuda_graphs()) return forward(given);
    const int device = deviceOf(given);
    const std::optional<CaptureKey> key = keyOf(given, device, writes);
    const std::shared_ptr<Captures> captures = key ? capturesFor(self.toObject(), device, *key, writes) : nullptr;
    if (!captures) return runWithoutTuning(forward, given, device);
    std::string error;
    try {
      const auto body = [&](const std::vector<c10::IValue>& in) { return std::vector<c10::IValue>{forward(in)}; };
      return captures->run(given, *key, body)[0];
    } catch (const std::exception& e) {
      if (isOutOfMemory(e))
        backOff(device, *key);
      else if (dynamic_cast<const CaptureError*>(&e))
        exclude(device, *key, e.what());
      else
        error = briefMessage(e);
    }
    // If the error is the model's own, the run without a capture throws it again in its usual form.
    c10::IValue out = runWithoutTuning(forward, given, device);
    if (!error.empty()) exclude(device, *key, error);
    return out;
  }

  void clear() {
    const std::scoped_lock lock(mutex_);
    devices_.clear();
    warmUp_.reset();
    hasCaptures_ = false;
  }

  void setLimit(int64_t limit) {
    TORCH_CHECK(limit > 0, "graft.Runner: a limit of ", limit, " captures; it must be at least 1");
    const std::scoped_lock lock(mutex_);
    limit_ = static_cast<size_t>(limit);
    for (auto& [index, d] : devices_)
      if (d.captures) d.captures->setLimit(limit_);
  }

  std::string status() {
    const std::scoped_lock lock(mutex_);
    std::string out;
    for (auto& [index, d] : devices_) {
      if (!d.captures) continue;
      out += "cuda:" + std::to_string(index) + ": " + std::to_string(d.captures->size()) + " of at most " +
             std::to_string(limit_) + " shapes captured";
      if (const size_t streams = d.captures->maxStreams(); streams > 1)
        out += ", on up to " + std::to_string(streams) + " streams";
      out += "\n";
    }
    if (out.empty()) out = "nothing captured\n";
    if (!isEnabled()) out += "switched off by GRAFT_CAPTURE=0\n";
    if (!graft_ops_cuda_graphs()) out += std::string("no CUDA: ") + graft_ops_cuda_status() + "\n";
    if (const GraftCudaGraphs* cuda = graft_ops_cuda_graphs(); cuda && cuda->guessedProblems() > 0)
      out += std::to_string(cuda->guessedProblems()) +
             " products run with guessed algorithms: the time for tuning is over (GRAFT_TUNING_SECONDS); the next "
             "process goes on\n";
    if (!whyNotCaptured_.empty()) out += "not captured: " + whyNotCaptured_ + "\n";
    if (outOfMemory_ > 0)
      out += "captures freed or not made for lack of memory: " + std::to_string(outOfMemory_) + "\n";
    return out;
  }

  std::vector<int64_t> state() {
    const std::scoped_lock lock(mutex_);
    return {kVersion, constantWeights_, static_cast<int64_t>(limit_)};
  }

 private:
  struct Device {
    std::shared_ptr<Captures> captures;  ///< null until a shape is to be captured
    WeightGuard weights;                 ///< of the module that was captured
    c10::weak_intrusive_ptr<c10::ivalue::Object> module;
  };

  bool hasLeftGpu(const c10::IValue& inputs) {
    if (!allTensors(inputs, [](const at::Tensor& t) { return !t.is_cuda(); })) return false;
    const std::scoped_lock lock(mutex_);
    for (auto& [index, d] : devices_) {
      const auto module = d.module.lock();
      if (module && isOnGpu(*module)) return false;
    }
    return true;
  }

  /// Runs operator by operator. A shape that was used once may never be used again, so no algorithms are tuned for it.
  /// Where captures of other shapes hold the memory that it needs, they are freed.
  template <class Run>
  c10::IValue runWithoutTuning(const Run& run, const std::vector<c10::IValue>& inputs, int device) {
    struct NoTuning {
      const GraftCudaGraphs& cuda = *graft_ops_cuda_graphs();
      const bool before = cuda.setAutotune(false);
      ~NoTuning() { cuda.setAutotune(before); }
    } noTuning;
    try {
      return run(inputs);
    } catch (const std::exception& e) {
      if (!isOutOfMemory(e) || !freeCaptures(device)) throw;
    }
    return run(inputs);
  }

  /// Frees the captures of a device; whether there were any. Their shapes back off, because the model may need the
  /// memory on each call.
  bool freeCaptures(int device) {
    const std::scoped_lock lock(mutex_);
    const auto known = devices_.find(device);
    if (known == devices_.end() || !known->second.captures) return false;
    const std::vector<CaptureKey> keys = known->second.captures->releaseMemory();
    for (const CaptureKey& key : keys) backOffLocked(device, key);
    return !keys.empty();
  }

  static int deviceOf(const std::vector<c10::IValue>& inputs) {
    int device = 0;
    for (const c10::IValue& v : inputs)
      if (!allTensors(v, [&](const at::Tensor& t) {
            device = t.get_device();
            return false;
          }))
        break;
    return device;
  }

  /// Nothing where an input cannot be captured; status() then says why.
  std::optional<CaptureKey> keyOf(const std::vector<c10::IValue>& inputs, int device, const LastingWrites& writes) {
    try {
      if (const char* why = writes.any() ? writes.obstacle(inputs) : nullptr) throw CaptureError(why);
      return captureKey(inputs, device);
    } catch (const CaptureError& e) {
      const std::scoped_lock lock(mutex_);
      whyNotCaptured_ = e.what();
      return std::nullopt;
    }
  }

  /// Why the weights of a module cannot be part of a capture. Who calls a model to infer with it hears once of
  /// gradients.
  static std::string whyNoGuard(const c10::ivalue::Object& module, int device, bool gradients) {
    if (!gradients || !WeightGuard::make(module, device, false))
      return "a weight lies on another device, or is no plain tensor";
    constexpr const char* kWhy =
        "its weights require gradients; call it under torch.no_grad(), or model.requires_grad_(False)";
    TORCH_WARN_ONCE("graft: this model runs operator by operator, not as a CUDA graph: ", kWhy);
    return kWhy;
  }

  /// The captures to run inputs of that key with; null where the operators run one by one.
  std::shared_ptr<Captures> capturesFor(const c10::intrusive_ptr<c10::ivalue::Object>& module, int device,
                                        const CaptureKey& key, const LastingWrites& writes) {
    const bool gradients = at::GradMode::is_enabled();
    const std::scoped_lock lock(mutex_);
    auto known = devices_.find(device);
    if (known == devices_.end() || !known->second.weights.holds(*module, gradients)) {
      auto weights = WeightGuard::make(*module, device, gradients);
      if (!weights) {
        whyNotCaptured_ = whyNoGuard(*module, device, gradients);
        return nullptr;
      }
      if (known != devices_.end()) warmUp_.reset();
      Device fresh{nullptr, std::move(*weights), c10::weak_intrusive_ptr<c10::ivalue::Object>(module)};
      known = devices_.insert_or_assign(device, std::move(fresh)).first;
    }
    Device& d = known->second;
    if (d.captures && d.captures->has(key)) return d.captures;
    if (!warmUp_.countCall({device, key}, d.captures && d.captures->size() >= limit_)) return nullptr;
    if (!d.captures)
      d.captures =
          std::make_shared<Captures>(*graft_ops_cuda_graphs(), device, limit_, BodyFacts{constantWeights_, writes});
    hasCaptures_ = true;
    return d.captures;
  }

  /// After a capture or a replay ran out of memory; Captures has freed all captures by then.
  void backOff(int device, const CaptureKey& key) {
    const std::scoped_lock lock(mutex_);
    backOffLocked(device, key);
  }

  /// The caller holds the lock.
  void backOffLocked(int device, const CaptureKey& key) {
    if (outOfMemory_++ == 0)
      TORCH_WARN(
          "graft: the GPU ran out of memory, so this model's CUDA graphs were freed. The model runs operator by "
          "operator and tries again after more calls (GRAFT_CAPTURE=0 stops further tries)");
    warmUp_.backOff({device, key});
  }

  void exclude(int device, const CaptureKey& key, const std::string& why) {
    const std::scoped_lock lock(mutex_);
    if (whyNotCaptured_ != why)
      TORCH_WARN("graft: this model runs operator by operator, not as a CUDA graph: ", why,
                 ". A graph can hold nothing that waits for the GPU: .item(), .cpu(), sizes that depend on data. "
                 "GRAFT_CAPTURE=0 stops further tries");
    whyNotCaptured_ = why;
    warmUp_.exclude({device, key});
  }

  const bool constantWeights_;
  std::mutex mutex_;
  size_t limit_;
  std::map<int, Device> devices_;
  WarmUpCounter warmUp_;
  std::string whyNotCaptured_;
  size_t outOfMemory_ = 0;  ///< captures that memory did not suffice for
  std::atomic<bool> hasCaptures_{false};
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.class_<Runner>("Runner")
      .def(torch::init<bool, int64_t>())
      .def("captures",
           [](const c10::intrusive_ptr<Runner>& self, c10::IValue inputs) { return self->captures(inputs); })
      .def("run", [](const c10::intrusive_ptr<Runner>& self, c10::IValue module,
                     c10::IValue inputs) { return self->run(module, inputs); })
      .def("run_writing",
           [](const c10::intrusive_ptr<Runner>& self, c10::IValue module, c10::IValue inputs,
              std::vector<at::Tensor> buffers, const std::vector<int64_t>& written) {
             return self->runWriting(module, inputs, {std::move(buffers), {written.begin(), written.end()}});
           })
      .def("clear", [](const c10::intrusive_ptr<Runner>& self) { self->clear(); })
      .def("set_limit", [](const c10::intrusive_ptr<Runner>& self, int64_t limit) { self->setLimit(limit); })
      .def("status", [](const c10::intrusive_ptr<Runner>& self) { return self->status(); })
      .def_pickle([](const c10::intrusive_ptr<Runner>& self) { return self->state(); },
                  [](std::vector<int64_t> state) {
                    TORCH_CHECK(state.size() >= 3 && state[0] == kVersion,
                                "this model was written by another version of Graft: load its libgraft_ops.so");
                    return c10::make_intrusive<Runner>(state[1] != 0, state[2]);
                  });
}

}  // namespace graft::ops
