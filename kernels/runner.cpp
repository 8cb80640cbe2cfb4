// __torch__.torch.classes.graft.Runner: runs a TorchScript module through CUDA graphs. An exported module holds one as
// the attribute `graft_runner`, and its forward begins with
//
//   if (runner).captures((x, mask), ):
//     out = unchecked_cast(Tensor, (runner).run(self, (x, mask), ))
//   else:
//     ...                                 # the model itself, operator by operator
//
// The model stays readable in the file and is what runs wherever a graph cannot stand in for it: on the CPU, when
// gradients, autocast or a tracer want to see the operators, and the first time that a shape comes. From its second
// time on, a shape is captured and replayed. What a capture depends on (weights' places, dtypes, device) is looked at
// on each call, so that moving or replacing weights is safe; writing to them in place is seen by the graph anyway.
// Captures never stand in the model's way: where memory runs out, they are given back and the model itself runs.
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
#include "kernels/capture/warm_up.h"
#include "kernels/operator.h"
#include "kernels/weight_places.h"

namespace graft::ops {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kDefaultLimit = 16;

/// Set while a runner runs its module itself: the module's forward must not ask it again.
thread_local bool inside = false;

struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

bool switchedOn() {
  static const bool on = [] {
    const char* value = std::getenv("GRAFT_CAPTURE");
    return !value || std::string_view(value) != "0";
  }();
  return on;
}

/// Somebody stands between the caller and the operators: a tracer, functorch, a dispatch mode, autocast.
bool isWatched() {
  using c10::DispatchKey;
  static const c10::DispatchKeySet watchers({DispatchKey::Tracer, DispatchKey::Python, DispatchKey::PythonTLSSnapshot,
                                             DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::Functionalize,
                                             DispatchKey::PreDispatch, DispatchKey::PythonDispatcher});
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(watchers) ||
         at::autocast::is_autocast_enabled(at::kCUDA);
}

/// Whether a tensor of the module or of what it is made of lies on a GPU.
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

  /// Whether run() would do better than the operators one by one. Cheap: asked on each call.
  bool captures(const c10::IValue& inputs) {
    if (inside) return false;
    if (!switchedOn()) return false;
    bool any = false;
    const bool gradients = at::GradMode::is_enabled();
    const bool plain = everyTensor(inputs, [&](const at::Tensor& t) {
      any = true;
      return isPlainCuda(t) && !(gradients && t.requires_grad());
    });
    if (!any || !plain) {
      // Models that were moved to the CPU need no memory on the GPU. All others may come with the inputs of before.
      if (holding_.load(std::memory_order_relaxed) && hasLeftTheGpu(inputs)) clear();
      return false;
    }
    const GraftCudaGraphs* cuda = graft_ops_cuda_graphs();
    return cuda && !isWatched() && !cuda->capturing();
  }

  c10::IValue run(const c10::IValue& self, const c10::IValue& inputs) {
    if (!self.isObject() || !inputs.isTuple()) TORCH_CHECK(false, "graft.Runner.run takes a module and a tuple");
    const auto& values = inputs.toTupleRef().elements();
    const auto plain = [&](const std::vector<c10::IValue>& in) {
      const Inside here;
      return torch::jit::Module(self.toObject()).get_method("forward")(in);
    };
    const std::vector<c10::IValue> given(values.begin(), values.end());
    if (!graft_ops_cuda_graphs()) return plain(given);
    const int device = deviceOf(given);
    const std::optional<CaptureKey> key = keyOf(given, device);
    const std::shared_ptr<Captures> captures = key ? ready(self.toObject(), device, *key) : nullptr;
    if (!captures) return untuned(plain, given, device);
    try {
      const auto body = [&](const std::vector<c10::IValue>& in) {
        // As the graph says it: TorchScript's own optimiser would measure first and compile kernels later.
        const torch::jit::GraphOptimizerEnabledGuard asItIs(false);
        return std::vector<c10::IValue>{plain(in)};
      };
      return captures->run(given, *key, body)[0];
    } catch (const std::exception& e) {
      if (outOfMemory(e)) {
        ranOut(device, *key);
      } else if (dynamic_cast<const CaptureError*>(&e)) {
        refuse(device, *key, e.what());
      }
      // Else the model's own error: what it says outside of a capture is what the caller knows.
    }
    return untuned(plain, given, device);
  }

  void clear() {
    const std::scoped_lock lock(mutex_);
    devices_.clear();
    seen_.forget();
    holding_ = false;
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
      if (const size_t streams = d.captures->mostStreams(); streams > 1)
        out += ", on up to " + std::to_string(streams) + " streams";
      out += "\n";
    }
    if (out.empty()) out = "nothing captured\n";
    if (!switchedOn()) out += "switched off by GRAFT_CAPTURE=0\n";
    if (!graft_ops_cuda_graphs()) out += std::string("no CUDA: ") + graft_ops_cuda_status() + "\n";
    if (!refusal_.empty()) out += "not captured: " + refusal_ + "\n";
    if (ranOut_ > 0)
      out += "memory ran out, captures that were given back or not made: " + std::to_string(ranOut_) + "\n";
    return out;
  }

  std::vector<int64_t> state() {
    const std::scoped_lock lock(mutex_);
    return {kVersion, constantWeights_, static_cast<int64_t>(limit_)};
  }

 private:
  struct Device {
    std::shared_ptr<Captures> captures;  ///< null until a shape is to be captured
    WeightPlaces weights;                ///< what the captures were made with
    c10::weak_intrusive_ptr<c10::ivalue::Object> module;
  };

  bool hasLeftTheGpu(const c10::IValue& inputs) {
    if (!everyTensor(inputs, [](const at::Tensor& t) { return !t.is_cuda(); })) return false;
    const std::scoped_lock lock(mutex_);
    for (auto& [index, d] : devices_) {
      const auto module = d.module.lock();
      if (module && isOnGpu(*module)) return false;
    }
    return true;
  }

  /// A shape that has come once may never come again: not worth trying out algorithms for. Where captures of others
  /// hold the memory that it needs, they go.
  template <class Run>
  c10::IValue untuned(const Run& run, const std::vector<c10::IValue>& inputs, int device) {
    struct Untuned {
      const GraftCudaGraphs& cuda = *graft_ops_cuda_graphs();
      const bool before = cuda.setAutotune(false);
      ~Untuned() { cuda.setAutotune(before); }
    } here;
    try {
      return run(inputs);
    } catch (const std::exception& e) {
      if (!outOfMemory(e) || !giveBack(device)) throw;
    }
    return run(inputs);
  }

  /// Whether there was something. It is captured again when it has come often: the model may need the memory each time.
  bool giveBack(int device) {
    const std::scoped_lock lock(mutex_);
    const auto known = devices_.find(device);
    if (known == devices_.end() || !known->second.captures) return false;
    const std::vector<CaptureKey> keys = known->second.captures->giveBack();
    for (const CaptureKey& key : keys) noteRanOut(device, key);
    return !keys.empty();
  }

  static int deviceOf(const std::vector<c10::IValue>& inputs) {
    int device = 0;
    for (const c10::IValue& v : inputs)
      if (!everyTensor(v, [&](const at::Tensor& t) {
            device = t.get_device();
            return false;
          }))
        break;
    return device;
  }

  /// Nothing, and the reason noted, where some input cannot be captured.
  std::optional<CaptureKey> keyOf(const std::vector<c10::IValue>& inputs, int device) {
    try {
      return captureKey(inputs, device);
    } catch (const CaptureError& e) {
      const std::scoped_lock lock(mutex_);
      refusal_ = e.what();
      return std::nullopt;
    }
  }

  /// The captures that shall run inputs of that key; null where the operators shall.
  std::shared_ptr<Captures> ready(const c10::intrusive_ptr<c10::ivalue::Object>& module, int device,
                                  const CaptureKey& key) {
    const bool gradients = at::GradMode::is_enabled();
    const std::scoped_lock lock(mutex_);
    auto known = devices_.find(device);
    if (known == devices_.end() || !known->second.weights.holdFor(*module, gradients)) {
      auto weights = WeightPlaces::of(*module, device, gradients);
      if (!weights) return nullptr;
      if (known != devices_.end()) seen_.forget();
      Device fresh{nullptr, std::move(*weights), c10::weak_intrusive_ptr<c10::ivalue::Object>(module)};
      known = devices_.insert_or_assign(device, std::move(fresh)).first;
    }
    Device& d = known->second;
    if (d.captures && d.captures->has(key)) return d.captures;
    if (!seen_.come({device, key}, d.captures && d.captures->size() >= limit_)) return nullptr;
    if (!d.captures)
      d.captures = std::make_shared<Captures>(*graft_ops_cuda_graphs(), device, limit_, constantWeights_);
    holding_ = true;
    return d.captures;
  }

  /// The captures are given back already.
  void ranOut(int device, const CaptureKey& key) {
    const std::scoped_lock lock(mutex_);
    noteRanOut(device, key);
  }

  /// With the lock.
  void noteRanOut(int device, const CaptureKey& key) {
    if (ranOut_++ == 0)
      TORCH_WARN(
          "graft: memory ran out with this model's CUDA graphs, so they were given back: it runs operator by "
          "operator until a shape has come often again (GRAFT_CAPTURE=0 stops trying)");
    seen_.ranOut({device, key});
  }

  void refuse(int device, const CaptureKey& key, const std::string& why) {
    const std::scoped_lock lock(mutex_);
    if (refusal_ != why)
      TORCH_WARN("graft: this model runs operator by operator, not as a CUDA graph: ", why,
                 " (GRAFT_CAPTURE=0 stops trying)");
    refusal_ = why;
    seen_.refuse({device, key});
  }

  const bool constantWeights_;
  std::mutex mutex_;
  size_t limit_;
  std::map<int, Device> devices_;
  Sightings seen_;
  std::string refusal_;
  size_t ranOut_ = 0;  ///< captures that memory did not suffice for
  std::atomic<bool> holding_{false};
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.class_<Runner>("Runner")
      .def(torch::init<bool, int64_t>())
      .def("captures",
           [](const c10::intrusive_ptr<Runner>& self, c10::IValue inputs) { return self->captures(inputs); })
      .def("run", [](const c10::intrusive_ptr<Runner>& self, c10::IValue module,
                     c10::IValue inputs) { return self->run(module, inputs); })
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
