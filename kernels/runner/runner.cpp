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
// A model that waits for the GPU, where it reads a number or finds out a size, cannot be one graph. It runs as several,
// with single operators between them. Each is a method, a piece, of the model or of one of its modules:
//
//     if (self.graft_runner).captures_piece(self, "forward_piece2", (x, n), ):
//       y = unchecked_cast(Tensor, (self.graft_runner).run_piece(self, 2, "forward_piece2", (x, n), ))
//     else:
//       y = (self).forward_piece2(x, n, )
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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/capture/captures.h"
#include "kernels/capture/pytree.h"
#include "kernels/capture/warm_up_counter.h"
#include "kernels/library/c_interface.h"
#include "kernels/runner/frozen_method.h"
#include "kernels/runner/weight_guard.h"

namespace graft::ops {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kDefaultLimit = 16;
/// Of a piece. Where sizes depend on data, most of them never come again, and a capture would cost more than it saves:
/// from then on a shape must come as often as when all places are taken.
constexpr size_t kEasyCaptures = 4;

/// What a runner calls. Neither forward nor a piece may ask for a graph of its own while it runs as a whole.
enum class Inside { kNothing, kWhole, kPieces };
thread_local Inside inside = Inside::kNothing;

/// Another value of a variable, while it lives.
template <class T>
class Exchanged {
 public:
  Exchanged(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Exchanged() { place_ = before_; }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  T& place_;
  const T before_;
};

/// Whether the pieces of the model that is running may tune algorithms: what was so before it ran.
thread_local bool tunesPieces = true;

/// Whether algorithms may be tuned, while it lives.
class TuningScope {
 public:
  explicit TuningScope(bool on) : before_(graft_ops_cuda_graphs()->setAutotune(on)) {}
  ~TuningScope() { graft_ops_cuda_graphs()->setAutotune(before_); }
  TuningScope(const TuningScope&) = delete;
  TuningScope& operator=(const TuningScope&) = delete;
  bool before() const { return before_; }

 private:
  const bool before_;
};

/// A method that runs as CUDA graphs.
struct Captured {
  c10::intrusive_ptr<c10::ivalue::Object> module;
  std::string method = "forward";
  int64_t piece = 0;  ///< its number, from 1; 0: the whole model
  LastingWrites writes = {};
};

/// Whether the environment does not switch it off.
bool isOn(const char* variable) {
  const char* value = std::getenv(variable);
  return !value || std::string_view(value) != "0";
}

bool isEnabled() {
  static const bool on = isOn("GRAFT_CAPTURE");
  return on;
}

/// Whether a model that waits for the GPU runs in pieces.
bool arePiecesOn() {
  static const bool on = isOn("GRAFT_PIECES");
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

/// Whether the module or one of its submodules has a piece. What torch.jit.freeze makes of a written model has none.
bool hasPieces(const c10::ivalue::Object& module) {
  for (const torch::jit::Function* method : module.type()->methods())
    if (method->name().starts_with("forward_piece")) return true;
  for (const c10::IValue& v : module.slots())
    if (v.isObject() && v.toObjectRef().type()->is_module() && hasPieces(v.toObjectRef())) return true;
  return false;
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
  Runner(bool constantWeights, int64_t limit, int64_t pieces)
      : constantWeights_(constantWeights),
        pieces_(pieces > 0 ? static_cast<size_t>(pieces) : 0),
        limit_(limit > 0 ? static_cast<size_t>(limit) : kDefaultLimit) {}

  /// Whether to call run() rather than the operators one by one. Every call of the model asks this, so it is cheap.
  bool captures(const c10::IValue& inputs) {
    if (inside != Inside::kNothing) return false;
    if (!arePlain(inputs)) {
      // A model that was moved to the CPU needs no captures. Any other may be called with the earlier inputs again.
      if (hasCaptures_.load(std::memory_order_relaxed) && hasLeftGpu(inputs)) clear();
      return false;
    }
    return isFree();
  }
  /// Whether to call run_piece(): only while the model runs in pieces, and where the module has the method. A module
  /// that torch.jit.freeze has made has none but forward.
  static bool capturesPiece(const c10::IValue& self, const std::string& method, const c10::IValue& inputs) {
    return inside == Inside::kPieces && self.isObject() && self.toObjectRef().type()->findMethod(method) &&
           arePlain(inputs) && isFree();
  }

  c10::IValue run(const c10::IValue& self, const c10::IValue& inputs) { return runWriting(self, inputs, {}); }

  c10::IValue runWriting(const c10::IValue& self, const c10::IValue& inputs, const LastingWrites& writes) {
    TORCH_CHECK(self.isObject() && inputs.isTuple(), "graft.Runner.run takes a module and a tuple");
    return runCaptured({self.toObject(), "forward", 0, writes}, inputs.toTupleRef());
  }

  c10::IValue runPiece(const c10::IValue& self, int64_t number, std::string method, const c10::IValue& inputs) {
    TORCH_CHECK(self.isObject() && inputs.isTuple() && number > 0 && number <= static_cast<int64_t>(pieces_),
                "graft.Runner.run_piece takes a module, the number of one of its ", pieces_,
                " pieces, a method, and a tuple");
    return runCaptured({self.toObject(), std::move(method), number, {}}, inputs.toTupleRef());
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
      if (d.captures) d.captures->setLimit(mostCaptures());
  }

  std::string status() {
    const std::scoped_lock lock(mutex_);
    std::string out;
    for (auto& [index, d] : devices_) {
      if (!d.captures) continue;
      out += "cuda:" + std::to_string(index) + ": " + std::to_string(d.captures->size()) + " of at most " +
             std::to_string(mostCaptures()) +
             (inPieces_ ? " shapes of " + std::to_string(pieces_) + " pieces" : " shapes") + " captured";
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
    if (!whyInPieces_.empty()) out += "not captured as a whole: " + whyInPieces_ + "\n";
    if (!whyNotCaptured_.empty())
      out += (inPieces_ ? "a piece is not captured: " : "not captured: ") + whyNotCaptured_ + "\n";
    if (outOfMemory_ > 0)
      out += "captures freed or not made for lack of memory: " + std::to_string(outOfMemory_) + "\n";
    return out;
  }

  std::vector<int64_t> state() {
    const std::scoped_lock lock(mutex_);
    return {kVersion, constantWeights_, static_cast<int64_t>(limit_), static_cast<int64_t>(pieces_)};
  }

 private:
  struct Guard {
    WeightGuard weights;  ///< of the module that was captured
    c10::weak_intrusive_ptr<c10::ivalue::Object> module;
  };
  struct Device {
    std::shared_ptr<Captures> captures;  ///< null until a shape is to be captured
    std::map<int64_t, Guard> guards;     ///< by piece
    std::map<int64_t, size_t> made;      ///< captures, by piece
  };

  /// Whether all tensors, one at least, are plain ones on a GPU of which nobody wants gradients.
  static bool arePlain(const c10::IValue& inputs) {
    bool any = false;
    const bool gradients = at::GradMode::is_enabled();
    const bool plain = allTensors(inputs, [&](const at::Tensor& t) {
      any = true;
      return isPlainCuda(t) && !(gradients && t.requires_grad());
    });
    return any && plain;
  }

  static bool isFree() {
    const GraftCudaGraphs* cuda = graft_ops_cuda_graphs();
    return cuda && !isIntercepted() && !cuda->isCapturing();
  }

  /// The caller holds the lock, or nobody else knows this object yet.
  size_t mostCaptures() const { return limit_ * (inPieces_ ? pieces_ : 1); }

  c10::IValue runCaptured(const Captured& what, const c10::ivalue::Tuple& inputs) {
    const bool asPieces = inPieces_ && what.piece == 0;  // for this call, whatever other threads find out meanwhile
    const auto runMethod = [&](const std::vector<c10::IValue>& in, bool mayThrow) {
      const Exchanged scope(inside, asPieces ? Inside::kPieces : Inside::kWhole);
      // Without TorchScript's optimiser, which would profile the first runs, and from then on compile fused kernels for
      // the module: those are not needed here, and for a long chain of concatenations that takes hours.
      const torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
      const torch::jit::Method called = torch::jit::Module(what.module).get_method(what.method);
      if (const auto frozen = mayThrow ? executorOfFrozen(called) : nullptr)
        return runExecutor(*frozen, what.module, in);
      return called(in);
    };
    const auto method = [&](const std::vector<c10::IValue>& in) { return runMethod(in, false); };
    const std::vector<c10::IValue> given(inputs.elements().begin(), inputs.elements().end());
    if (!isEnabled() || !graft_ops_cuda_graphs()) return method(given);
    const int device = deviceOf(given);
    if (asPieces) return runWithoutTuning(method, given, device);
    const std::optional<CaptureKey> key = keyOf(given, device, what);
    const std::shared_ptr<Captures> captures = key ? capturesFor(what, device, *key) : nullptr;
    if (!captures) return runWithoutTuning(method, given, device);
    std::string error;
    try {
      // What has to wait for the GPU throws inside of the method.
      const auto body = [&](const std::vector<c10::IValue>& in) {
        return std::vector<c10::IValue>{runMethod(in, what.piece == 0)};
      };
      std::optional<TuningScope> tuning;
      if (what.piece > 0) tuning.emplace(tunesPieces);
      return captures->run(given, *key, body)[0];
    } catch (const std::exception& e) {
      if (isOutOfMemory(e))
        backOff(device, *key);
      else if (dynamic_cast<const CaptureError*>(&e))
        exclude(what, device, *key, e.what());
      else
        error = briefMessage(e);
    }
    // If the error is the model's own, the run without a capture throws it again in its usual form.
    c10::IValue out = runWithoutTuning(method, given, device);
    if (!error.empty()) exclude(what, device, *key, error);
    return out;
  }

  bool hasLeftGpu(const c10::IValue& inputs) {
    if (!allTensors(inputs, [](const at::Tensor& t) { return !t.is_cuda(); })) return false;
    const std::scoped_lock lock(mutex_);
    for (const auto& [index, d] : devices_)
      for (const auto& [piece, guard] : d.guards) {
        const auto module = guard.module.lock();
        if (module && isOnGpu(*module)) return false;
      }
    return true;
  }

  /// Runs operator by operator, but for pieces that are captured. A shape that was used once may never be used again,
  /// so no algorithms are tuned for it. Where captures of other shapes hold the memory that it needs, they are freed.
  template <class Run>
  c10::IValue runWithoutTuning(const Run& run, const std::vector<c10::IValue>& inputs, int device) {
    const TuningScope noTuning(false);
    const Exchanged pieces(tunesPieces, noTuning.before());
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
  std::optional<CaptureKey> keyOf(const std::vector<c10::IValue>& inputs, int device, const Captured& what) {
    try {
      if (const char* why = what.writes.any() ? what.writes.obstacle(inputs) : nullptr) throw CaptureError(why);
      CaptureKey key = captureKey(inputs, device);
      if (what.piece > 0) key.push_back(what.piece);
      return key;
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
  std::shared_ptr<Captures> capturesFor(const Captured& what, int device, const CaptureKey& key) {
    const bool gradients = at::GradMode::is_enabled();
    const std::scoped_lock lock(mutex_);
    Device& d = devices_[device];
    auto known = d.guards.find(what.piece);
    if (known == d.guards.end() || !known->second.weights.holds(*what.module, gradients)) {
      auto weights = WeightGuard::make(*what.module, device, gradients);
      if (!weights) {
        whyNotCaptured_ = whyNoGuard(*what.module, device, gradients);
        return nullptr;
      }
      if (known != d.guards.end()) {
        d = Device();
        warmUp_.reset();
      }
      Guard fresh{std::move(*weights), c10::weak_intrusive_ptr<c10::ivalue::Object>(what.module)};
      d.guards.insert_or_assign(what.piece, std::move(fresh));
    }
    if (d.captures && d.captures->has(key)) return d.captures;
    size_t& made = d.made[what.piece];
    const bool isFull = d.captures && d.captures->size() >= mostCaptures();
    if (!warmUp_.countCall({device, key}, isFull || (what.piece > 0 && made >= kEasyCaptures))) return nullptr;
    ++made;
    if (!d.captures)
      d.captures = std::make_shared<Captures>(*graft_ops_cuda_graphs(), device, mostCaptures(),
                                              BodyFacts{constantWeights_, what.writes});
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

  /// The key cannot be captured. A whole model that has pieces runs in them from now on.
  void exclude(const Captured& what, int device, const CaptureKey& key, const std::string& why) {
    const std::scoped_lock lock(mutex_);
    if (what.piece == 0 && pieces_ > 0 && arePiecesOn() && hasPieces(*what.module)) {
      if (!inPieces_) {
        TORCH_WARN("graft: this model runs as up to ", pieces_,
                   " CUDA graphs, with single operators between them: ", why,
                   ". One graph can hold nothing that waits for the GPU: .item(), .cpu(), sizes that depend on data");
      }
      whyInPieces_ = why;
      devices_.clear();
      inPieces_ = true;
      return;
    }
    if (whyNotCaptured_ != why)
      TORCH_WARN(what.piece > 0 ? "graft: a piece of this model" : "graft: this model",
                 " runs operator by operator, not as a CUDA graph: ", why,
                 ". A graph can hold nothing that waits for the GPU: .item(), .cpu(), sizes that depend on data. "
                 "GRAFT_CAPTURE=0 stops further tries");
    whyNotCaptured_ = why;
    warmUp_.exclude({device, key});
  }

  const bool constantWeights_;
  const size_t pieces_;  ///< how many methods may be captured where the model cannot be as a whole
  /// Whether a capture of the whole has failed and its pieces are captured.
  std::atomic<bool> inPieces_{false};
  std::mutex mutex_;
  size_t limit_;
  std::map<int, Device> devices_;
  WarmUpCounter warmUp_;
  std::string whyInPieces_;     ///< why the model was not captured as a whole
  std::string whyNotCaptured_;  ///< of it, or of one of its pieces
  size_t outOfMemory_ = 0;      ///< captures that memory did not suffice for
  std::atomic<bool> hasCaptures_{false};
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(graft, m) {
  m.class_<Runner>("Runner")
      .def(torch::init<bool, int64_t, int64_t>(), "",
           {torch::arg("constant_weights"), torch::arg("limit"), torch::arg("pieces") = 0})
      .def("captures",
           [](const c10::intrusive_ptr<Runner>& self, c10::IValue inputs) { return self->captures(inputs); })
      .def("run", [](const c10::intrusive_ptr<Runner>& self, c10::IValue module,
                     c10::IValue inputs) { return self->run(module, inputs); })
      .def("run_writing",
           [](const c10::intrusive_ptr<Runner>& self, c10::IValue module, c10::IValue inputs,
              std::vector<at::Tensor> buffers, const std::vector<int64_t>& written) {
             return self->runWriting(module, inputs, {std::move(buffers), {written.begin(), written.end()}});
           })
      .def("captures_piece", [](const c10::intrusive_ptr<Runner>&, c10::IValue module, const std::string& method,
                                c10::IValue inputs) { return Runner::capturesPiece(module, method, inputs); })
      .def("run_piece",
           [](const c10::intrusive_ptr<Runner>& self, c10::IValue module, int64_t number, std::string method,
              c10::IValue inputs) { return self->runPiece(module, number, std::move(method), inputs); })
      .def("clear", [](const c10::intrusive_ptr<Runner>& self) { self->clear(); })
      .def("set_limit", [](const c10::intrusive_ptr<Runner>& self, int64_t limit) { self->setLimit(limit); })
      .def("status", [](const c10::intrusive_ptr<Runner>& self) { return self->status(); })
      .def_pickle([](const c10::intrusive_ptr<Runner>& self) { return self->state(); },
                  [](std::vector<int64_t> state) {
                    TORCH_CHECK(state.size() >= 3 && state[0] == kVersion,
                                "this model was written by another version of Graft: load its libgraft_ops.so");
                    return c10::make_intrusive<Runner>(state[1] != 0, state[2], state.size() > 3 ? state[3] : 0);
                  });
}

}  // namespace graft::ops
