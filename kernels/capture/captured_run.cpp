#include "kernels/capture/captured_run.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <array>
#include <exception>
#include <string>
#include <utility>

#include "kernels/capture/capture_error.h"
#include "kernels/capture/pytree.h"

namespace graft {
namespace {

/// The number of runs without a capture, which GraftCudaGraphs::capture makes first.
constexpr int kRunsBeforeCapture = 2;

std::vector<c10::IValue> cloned(const std::vector<c10::IValue>& values) {
  std::vector<c10::IValue> out;
  for (const c10::IValue& v : values) out.push_back(mapTensors(v, [](const at::Tensor& t) { return t.clone(); }));
  return out;
}

void setConstantWeights(bool constant) {
  const auto op = c10::Dispatcher::singleton().findSchema({"graft::cuda_options", ""});
  if (!op) return;
  torch::jit::Stack stack{c10::IValue(), constant, c10::IValue()};
  op->callBoxed(&stack);
}

/// graft::cuda_options(constant_weights=True) while it lives, if `on`.
class ConstantWeights {
 public:
  explicit ConstantWeights(bool on) : on_(on) {
    if (on_) setConstantWeights(true);
  }
  ~ConstantWeights() {
    if (on_) setConstantWeights(false);
  }
  ConstantWeights(const ConstantWeights&) = delete;
  ConstantWeights& operator=(const ConstantWeights&) = delete;

 private:
  const bool on_;
};

/// Neither inference mode nor gradients. Memory that outlives a call must not be inference tensors, which may not be
/// written to outside of inference mode; and nothing in a graph is recorded for gradients.
struct PlainMode {
  c10::InferenceMode inference{false};
  at::AutoGradMode gradients{false};
};

/// Whether a tensor can be copied as a block of bytes: on a GPU, without gaps, and without a conjugation or negation to
/// apply when it is read.
bool isBlock(const at::Tensor& t) {
  return t.is_cuda() && t.layout() == at::kStrided && t.is_non_overlapping_and_dense() && !t.is_conj() && !t.is_neg();
}

std::string messageOf(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

CapturedRun::CapturedRun(const GraftCudaGraphs& cuda, void* pool, const Values& inputs, const Body& body,
                         bool constantWeights)
    : cuda_(cuda), graph_(nullptr, FreeGraph{&cuda}) {
  const PlainMode mode;
  inputs_ = cloned(inputs);
  inputTensors_ = flattenTensors(inputs_);
  graph_.reset(capture(pool, body, constantWeights));
  addCopies();
}

void* CapturedRun::capture(void* pool, const Body& body, bool constantWeights) {
  struct Call {
    CapturedRun& self;
    const Body& body;
    std::exception_ptr thrown;
    int runs = 0;
  } call{*this, body, nullptr};
  const auto run = [](void* p) -> int {
    auto* c = static_cast<Call*>(p);
    ++c->runs;
    c->self.outputs_.clear();  // so that they take no memory beside the outputs of this run
    c->thrown = nullptr;       // an error of an earlier try does not count if a later one succeeds
    try {
      auto outputs = c->body(c->self.inputs_);
      if (c->self.cuda_.isCapturing()) c->self.outputs_ = std::move(outputs);
      return 1;
    } catch (...) {
      c->thrown = std::current_exception();
      return 0;
    }
  };
  const ConstantWeights promise(constantWeights);
  std::array<char, 1024> error{};
  if (void* graph = cuda_.capture(pool, run, &call, error.data(), error.size())) return graph;
  if (call.thrown && call.runs <= kRunsBeforeCapture) std::rethrow_exception(call.thrown);
  std::string why = error.data();
  if (call.thrown) why += " (" + messageOf(call.thrown) + ")";
  throw CaptureError(why);
}

void CapturedRun::addCopies() {
  std::vector<void*> into, outOf;
  std::vector<size_t> inputBytes, outputBytes;
  const auto sort = [](const std::vector<at::Tensor>& tensors, std::vector<bool>& isCopied, std::vector<void*>& blocks,
                       std::vector<size_t>& bytes) {
    for (const at::Tensor& t : tensors) {
      isCopied.push_back(isBlock(t));
      if (!isCopied.back()) continue;
      blocks.push_back(const_cast<void*>(t.const_data_ptr()));
      bytes.push_back(t.nbytes());
    }
  };
  sort(inputTensors_, inputIsCopied_, into, inputBytes);
  sort(flattenTensors(outputs_), outputIsCopied_, outOf, outputBytes);
  checkCuda("", [&](char* e, size_t n) {
    return cuda_.addCopies(graph_.get(), into.size(), into.data(), inputBytes.data(), outOf.size(), outOf.data(),
                           outputBytes.data(), e, n);
  });
}

/// Notes the addresses of the inputs that the graph copies, and copies the others now. The key ensures that dtypes,
/// sizes and strides are those of the capture.
void CapturedRun::copyIn(const Values& inputs) {
  from_.clear();
  std::vector<at::Tensor> othersTo, othersFrom;
  size_t i = 0;
  for (const c10::IValue& v : inputs) {
    forEachTensor(v, [&](const at::Tensor& t) {
      const at::Tensor& own = inputTensors_[i];
      const bool byGraph = inputIsCopied_[i++], sameLayout = byGraph && isBlock(t) && t.strides() == own.strides();
      if (byGraph) from_.push_back((sameLayout ? t : own).const_data_ptr());
      if (!sameLayout) othersTo.push_back(own), othersFrom.push_back(t);
    });
  }
  if (othersTo.empty()) return;
  const PlainMode mode;
  at::_foreach_copy_(othersTo, othersFrom, /*non_blocking=*/true);
}

/// New tensors of the caller's for the outputs that the graph copies.
std::vector<at::Tensor> CapturedRun::allocateOutputs() {
  std::vector<at::Tensor> copied;
  to_.clear();
  size_t i = 0;
  for (const c10::IValue& v : outputs_) {
    forEachTensor(v, [&](const at::Tensor& t) {
      if (outputIsCopied_[i++]) to_.push_back(copied.emplace_back(at::empty_like(t)).mutable_data_ptr());
    });
  }
  return copied;
}

/// The outputs as tensors of the caller's: `copied` by the graph, or cloned now.
CapturedRun::Values CapturedRun::copyOut(std::vector<at::Tensor> copied) const {
  Values out;
  out.reserve(outputs_.size());
  size_t i = 0, next = 0;
  for (const c10::IValue& v : outputs_) {
    out.push_back(mapTensors(
        v, [&](const at::Tensor& t) { return outputIsCopied_[i++] ? std::move(copied[next++]) : t.clone(); }));
  }
  return out;
}

CapturedRun::Values CapturedRun::replay(const Values& inputs) {
  copyIn(inputs);
  std::vector<at::Tensor> copied = allocateOutputs();
  checkCuda("replay failed: ",
            [&](char* e, size_t n) { return cuda_.replay(graph_.get(), from_.data(), to_.data(), e, n); });
  return copyOut(std::move(copied));
}

CapturedRun::Timing CapturedRun::time(bool flushed) {
  Timing t;
  checkCuda("replay failed: ", [&](char* e, size_t n) {
    t.milliseconds = cuda_.replayTimed(graph_.get(), flushed, e, n);
    return t.milliseconds >= 0;
  });
  t.kernels = cuda_.kernelCount(graph_.get());
  t.streams = streams();
  return t;
}

}  // namespace graft
