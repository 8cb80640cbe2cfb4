#include "kernels/capture/captures.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "kernels/capture/pytree.h"

namespace graft {
namespace {

void appendKey(const c10::IValue& v, int device, CaptureKey& key) {
  enum : int64_t { kTensor = 1, kNone, kBool, kInt, kDouble, kString, kTuple, kList, kDict };
  if (v.isTensor()) {
    const at::Tensor& t = v.toTensor();
    if (!t.defined()) return key.push_back(kNone);
    if (!t.is_cuda() || t.get_device() != device || t.layout() != at::kStrided)
      throw CaptureError("an input is not an ordinary tensor on cuda:" + std::to_string(device));
    key.push_back(kTensor);
    key.push_back(static_cast<int64_t>(t.scalar_type()));
    key.push_back(t.dim());
    key.insert(key.end(), t.sizes().begin(), t.sizes().end());
    key.insert(key.end(), t.strides().begin(), t.strides().end());
  } else if (v.isNone()) {
    key.push_back(kNone);
  } else if (v.isBool()) {
    key.insert(key.end(), {kBool, v.toBool()});
  } else if (v.isInt()) {
    key.insert(key.end(), {kInt, v.toInt()});
  } else if (v.isDouble()) {
    const double d = v.toDouble();
    int64_t bits = 0;
    std::memcpy(&bits, &d, sizeof bits);
    key.insert(key.end(), {kDouble, bits});
  } else if (v.isString()) {
    key.insert(key.end(), {kString, static_cast<int64_t>(v.toStringRef().size())});
    key.insert(key.end(), v.toStringRef().begin(), v.toStringRef().end());
  } else if (v.isTuple()) {
    const auto& members = v.toTupleRef().elements();
    key.insert(key.end(), {kTuple, static_cast<int64_t>(members.size())});
    for (const c10::IValue& m : members) appendKey(m, device, key);
  } else if (v.isList()) {
    const auto members = v.toListRef();
    key.insert(key.end(), {kList, static_cast<int64_t>(members.size())});
    for (const c10::IValue& m : members) appendKey(m, device, key);
  } else if (v.isGenericDict()) {
    const auto dict = v.toGenericDict();
    key.insert(key.end(), {kDict, static_cast<int64_t>(dict.size())});
    for (const auto& e : dict) {
      appendKey(e.key(), device, key);
      appendKey(e.value(), device, key);
    }
  } else {
    throw CaptureError("an input is a " + v.tagKind());
  }
}

std::vector<c10::IValue> copyOf(const std::vector<c10::IValue>& values) {
  std::vector<c10::IValue> out;
  for (const c10::IValue& v : values) out.push_back(mapTensors(v, [](const at::Tensor& t) { return t.clone(); }));
  return out;
}

void collect(const std::vector<c10::IValue>& values, std::vector<at::Tensor>& tensors) {
  for (const c10::IValue& v : values)
    everyTensor(v, [&](const at::Tensor& t) {
      tensors.push_back(t);
      return true;
    });
}

void promiseConstantWeights(bool constant) {
  const auto op = c10::Dispatcher::singleton().findSchema({"graft::cuda_options", ""});
  if (!op) return;
  torch::jit::Stack stack{c10::IValue(), constant, c10::IValue()};
  op->callBoxed(&stack);
}

/// Memory that outlives a call is no inference tensor (those may not be written to outside of inference mode), and
/// nothing in a graph is recorded for gradients.
struct PlainMode {
  c10::InferenceMode inference{false};
  at::AutoGradMode gradients{false};
};

}  // namespace

bool outOfMemory(const std::exception& e) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&e)) return true;
  const std::string_view what = e.what();
  return what.find("out of memory") != what.npos || what.find("_STATUS_ALLOC_FAILED") != what.npos;
}

CaptureKey captureKey(const std::vector<c10::IValue>& inputs, int device) {
  CaptureKey key;
  for (const c10::IValue& v : inputs) appendKey(v, device, key);
  return key;
}

Captures::Captures(const GraftCudaGraphs& cuda, int device, size_t limit, bool constantWeights)
    : cuda_(cuda), device_(device), limit_(std::max<size_t>(limit, 1)), constantWeights_(constantWeights) {}

Captures::~Captures() { clear(); }

template <class F>
void Captures::check(const char* what, const F& call) {
  std::array<char, 1024> error{};
  if (!call(error.data(), error.size())) throw CaptureError(std::string(what) + error.data());
}

void Captures::free(Capture& c) {
  places_.erase(c.key);
  if (c.graph) cuda_.freeGraph(c.graph);  // waits until nothing uses it
  c.graph = nullptr;
}

void Captures::shrink(size_t most) {
  while (captures_.size() > most) {
    free(captures_.back());
    captures_.pop_back();
  }
}

void Captures::dropAll() {
  shrink(0);
  if (pool_) cuda_.freePool(std::exchange(pool_, nullptr));
}

/// A use of the captures. When it fails for want of memory, they go: what they hold may be what the model itself needs.
template <class F>
auto Captures::attempt(const F& f) -> decltype(f()) {
  const std::scoped_lock lock(mutex_);
  try {
    return f();
  } catch (const std::exception& e) {
    const bool full = outOfMemory(e);
    if (full || captures_.empty()) dropAll();  // a pool without graphs takes no more
    if (full) cuda_.emptyCache();
    throw;
  }
}

/// What the current stream does while this lives comes after all earlier uses of the pool, and before all later ones,
/// also where some of it fails.
class Captures::Use {
 public:
  Use(const GraftCudaGraphs& cuda, void* pool) : cuda_(cuda), pool_(pool) {
    check("", [&](char* e, size_t n) { return cuda_.enter(pool_, e, n); });
  }
  ~Use() {
    std::array<char, 1024> error{};
    if (pool_) cuda_.leave(pool_, error.data(), error.size());
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  void end() {
    check("", [&](char* e, size_t n) { return cuda_.leave(std::exchange(pool_, nullptr), e, n); });
  }

 private:
  const GraftCudaGraphs& cuda_;
  void* pool_;
};

Captures::Capture& Captures::find(const Values& inputs, const CaptureKey& key, const Body& body) {
  if (const auto it = places_.find(key); it != places_.end()) {
    captures_.splice(captures_.begin(), captures_, it->second);
    return captures_.front();
  }
  if (!pool_) pool_ = cuda_.makePool(device_);
  const PlainMode mode;
  Capture made;
  made.key = key;
  made.inputs = copyOf(inputs);
  collect(made.inputs, made.tensors);
  struct Call {
    const Body& body;
    const GraftCudaGraphs& cuda;
    Capture& capture;
    std::exception_ptr thrown;
    int runs = 0;
  } call{body, cuda_, made, nullptr};
  const auto run = [](void* p) -> int {
    auto* c = static_cast<Call*>(p);
    ++c->runs;
    c->capture.outputs.clear();  // those of the run before need not lie beside this one's
    c->thrown = nullptr;         // that was a try, and another way may do
    try {
      auto outputs = c->body(c->capture.inputs);
      if (c->cuda.capturing()) c->capture.outputs = std::move(outputs);
      return 1;
    } catch (...) {
      c->thrown = std::current_exception();
      return 0;
    }
  };
  struct Promise {
    explicit Promise(bool on) : on_(on) {
      if (on_) promiseConstantWeights(true);
    }
    ~Promise() {
      if (on_) promiseConstantWeights(false);
    }
    bool on_;
  } promise(constantWeights_);
  std::array<char, 1024> error{};
  made.graph = cuda_.capture(pool_, run, &call, error.data(), error.size());
  if (!made.graph) {
    constexpr int runsAsItIs = 2;
    if (call.thrown && call.runs <= runsAsItIs) std::rethrow_exception(call.thrown);
    std::string why = error.data();
    if (call.thrown) {
      try {
        std::rethrow_exception(call.thrown);
      } catch (const c10::Error& e) {
        why += " (" + std::string(e.what_without_backtrace()) + ")";
      } catch (const std::exception& e) {
        why += " (" + std::string(e.what()) + ")";
      }
    }
    throw CaptureError(why);
  }
  try {
    addCopies(made);
  } catch (...) {
    cuda_.freeGraph(made.graph);
    throw;
  }
  captures_.push_front(std::move(made));
  places_[captures_.front().key] = captures_.begin();
  shrink(limit_);
  return captures_.front();
}

namespace {

/// A tensor on a GPU that is its bytes: without gaps, and nothing to be done to them when they are read.
bool isBytes(const at::Tensor& t) {
  return t.is_cuda() && t.layout() == at::kStrided && t.is_non_overlapping_and_dense() && !t.is_conj() && !t.is_neg();
}

}  // namespace

/// Inputs and outputs that are bytes are copied by the graph itself; the others before and after it.
void Captures::addCopies(Capture& c) {
  std::vector<at::Tensor> results;
  collect(c.outputs, results);
  std::vector<void*> into, outOf;
  std::vector<size_t> inputBytes, outputBytes;
  const auto sort = [](const std::vector<at::Tensor>& tensors, std::vector<bool>& which, std::vector<void*>& places,
                       std::vector<size_t>& bytes) {
    for (const at::Tensor& t : tensors) {
      which.push_back(isBytes(t));
      if (!which.back()) continue;
      places.push_back(const_cast<void*>(t.const_data_ptr()));
      bytes.push_back(t.nbytes());
    }
  };
  sort(c.tensors, c.comes, into, inputBytes);
  sort(results, c.goes, outOf, outputBytes);
  check("", [&](char* e, size_t n) {
    return cuda_.addCopies(c.graph, into.size(), into.data(), inputBytes.data(), outOf.size(), outOf.data(),
                           outputBytes.data(), e, n);
  });
}

/// Notes where the inputs lie that the graph copies, and copies the others. Dtypes, sizes and strides are the key's.
void Captures::bring(Capture& c, const Values& inputs) {
  c.from.clear();
  std::vector<at::Tensor> otherTo, otherFrom;
  size_t i = 0;
  for (const c10::IValue& v : inputs) {
    everyTensor(v, [&](const at::Tensor& t) {
      const at::Tensor& own = c.tensors[i];
      const bool comes = c.comes[i++], alike = comes && isBytes(t) && t.strides() == own.strides();
      if (comes) c.from.push_back((alike ? t : own).const_data_ptr());
      if (!alike) otherTo.push_back(own), otherFrom.push_back(t);
      return true;
    });
  }
  if (otherTo.empty()) return;
  const PlainMode mode;
  at::_foreach_copy_(otherTo, otherFrom, /*non_blocking=*/true);
}

/// The caller's outputs: `own` where the graph has copied, else clones.
Captures::Values Captures::takeOut(const Capture& c, std::vector<at::Tensor> own) {
  Values out;
  out.reserve(c.outputs.size());
  size_t i = 0, next = 0;
  for (const c10::IValue& v : c.outputs)
    out.push_back(mapTensors(v, [&](const at::Tensor& t) { return c.goes[i++] ? std::move(own[next++]) : t.clone(); }));
  return out;
}

Captures::Values Captures::run(const Values& inputs, const CaptureKey& key, const Body& body) {
  return attempt([&] {
    Capture& c = find(inputs, key, body);
    Use use(cuda_, pool_);
    bring(c, inputs);
    std::vector<at::Tensor> own;
    c.to.clear();
    size_t i = 0;
    for (const c10::IValue& v : c.outputs) {
      everyTensor(v, [&](const at::Tensor& t) {
        if (c.goes[i++]) c.to.push_back(own.emplace_back(at::empty_like(t)).mutable_data_ptr());
        return true;
      });
    }
    check("replay failed: ",
          [&](char* e, size_t n) { return cuda_.replay(c.graph, c.from.data(), c.to.data(), e, n); });
    Values out = takeOut(c, std::move(own));
    use.end();
    return out;
  });
}

Captures::Replay Captures::time(const Values& inputs, const Body& body, bool flushed) {
  return attempt([&] {
    Capture& c = find(inputs, captureKey(inputs, device_), body);
    Use use(cuda_, pool_);
    Replay r;
    check("replay failed: ", [&](char* e, size_t n) {
      r.milliseconds = cuda_.replayTimed(c.graph, flushed, e, n);
      return r.milliseconds >= 0;
    });
    r.kernels = cuda_.kernelCount(c.graph);
    r.streams = cuda_.streamCount(c.graph);
    use.end();
    return r;
  });
}

bool Captures::has(const CaptureKey& key) {
  const std::scoped_lock lock(mutex_);
  return places_.contains(key);
}

size_t Captures::size() {
  const std::scoped_lock lock(mutex_);
  return captures_.size();
}

size_t Captures::mostStreams() {
  const std::scoped_lock lock(mutex_);
  size_t most = 1;
  for (const Capture& c : captures_) most = std::max(most, cuda_.streamCount(c.graph));
  return most;
}

void Captures::setLimit(size_t limit) {
  const std::scoped_lock lock(mutex_);
  limit_ = std::max<size_t>(limit, 1);
  shrink(limit_);
}

void Captures::clear() {
  const std::scoped_lock lock(mutex_);
  dropAll();
}

std::vector<CaptureKey> Captures::giveBack() {
  const std::scoped_lock lock(mutex_);
  std::vector<CaptureKey> keys;
  for (const auto& [key, place] : places_) keys.push_back(key);
  dropAll();
  cuda_.emptyCache();
  return keys;
}

}  // namespace graft
