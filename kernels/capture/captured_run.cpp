#include "kernels/capture/captured_run.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <utility>

#include "kernels/capture/capture_error.h"
#include "kernels/capture/pytree.h"

namespace graft {
namespace {

/// A copy with the same strides, so that views of it correspond to views of the tensor.
at::Tensor cloneWithGaps(const at::Tensor& t) {
  at::Tensor copy = at::empty_strided(t.sizes(), t.strides(), t.options());
  copy.copy_(t, /*non_blocking=*/true);
  return copy;
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
  } catch (const std::exception& e) {
    return briefMessage(e);
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

CapturedRun::CapturedRun(const GraftCudaGraphs& cuda, void* pool, const Values& inputs, const Body& body,
                         BodyFacts facts)
    : cuda_(cuda), facts_(std::move(facts)), graph_(nullptr, FreeGraph{&cuda}) {
  const PlainMode mode;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool written =
        std::find(facts_.writes.inputs.begin(), facts_.writes.inputs.end(), i) != facts_.writes.inputs.end();
    inputs_.push_back(
        mapTensors(inputs[i], [&](const at::Tensor& t) { return written ? cloneWithGaps(t) : t.clone(); }));
    forEachTensor(inputs_[i], [&](const at::Tensor& t) {
      inputTensors_.push_back(t);
      inputIsWritten_.push_back(written);
    });
  }
  graph_.reset(capture(pool, body));
  findOutputs();
  addCopies();
}

/// What a run writes that outlives it: the buffers, and this capture's own copies of the inputs.
std::vector<at::Tensor> CapturedRun::writtenTensors() const {
  std::vector<at::Tensor> written = facts_.writes.buffers;
  for (size_t i = 0; i < inputTensors_.size(); ++i)
    if (inputIsWritten_[i]) written.push_back(inputTensors_[i]);
  return written;
}

void* CapturedRun::capture(void* pool, const Body& body) {
  struct Call {
    CapturedRun& self;
    const Body& body;
    const SavedTensors saved;
    std::exception_ptr thrown;
    bool capturing = false;
  } call{*this, body, SavedTensors(writtenTensors()), nullptr};
  const auto run = [](void* p) -> int {
    auto* c = static_cast<Call*>(p);
    c->capturing = c->self.cuda_.isCapturing();
    c->self.outputs_.clear();  // so that they take no memory beside the outputs of this run
    c->thrown = nullptr;       // an error of an earlier try does not count if a later one succeeds
    try {
      auto outputs = c->body(c->self.inputs_);
      if (c->capturing) c->self.outputs_ = std::move(outputs);
      return 1;
    } catch (...) {
      c->thrown = std::current_exception();
      return 0;
    }
  };
  const auto reset = [](void* p) -> int {
    try {
      static_cast<Call*>(p)->saved.restore();
      return 1;
    } catch (...) {
      return 0;
    }
  };
  const ConstantWeights promise(facts_.constantWeights);
  std::array<char, 1024> error{};
  if (void* graph = facts_.writes.any() ? cuda_.captureWriting(pool, run, reset, &call, error.data(), error.size())
                                        : cuda_.capture(pool, run, &call, error.data(), error.size()))
    return graph;
  if (call.thrown && !call.capturing) std::rethrow_exception(call.thrown);  // the model's own error
  std::string why = error.data();
  if (call.thrown) why += " (" + messageOf(call.thrown) + ")";
  throw CaptureError(why);
}

/// Sorts the outputs: those that lie in what the body writes are handed out as they are, because whoever calls the
/// model sees later writes through them.
void CapturedRun::findOutputs() {
  for (const at::Tensor& t : flattenTensors(outputs_)) {
    Output& kind = outputKinds_.emplace_back();
    const auto sharesWith = [&](const at::Tensor& other) { return t.has_storage() && t.is_alias_of(other); };
    kind.isBuffer = std::any_of(facts_.writes.buffers.begin(), facts_.writes.buffers.end(), sharesWith);
    for (size_t i = 0; i < inputTensors_.size(); ++i)
      if (inputIsWritten_[i] && sharesWith(inputTensors_[i])) kind.ofInput = i;
    kind.isCopied = !kind.isBuffer && !kind.ofInput && isBlock(t);
  }
}

void CapturedRun::addCopies() {
  std::vector<void*> into, outOf;
  std::vector<size_t> inputBytes, outputBytes;
  const auto add = [](const at::Tensor& t, std::vector<void*>& blocks, std::vector<size_t>& bytes) {
    blocks.push_back(const_cast<void*>(t.const_data_ptr()));
    bytes.push_back(t.nbytes());
  };
  for (const at::Tensor& t : inputTensors_) {
    inputIsCopied_.push_back(isBlock(t));
    if (inputIsCopied_.back()) add(t, into, inputBytes);
  }
  const std::vector<at::Tensor> outputs = flattenTensors(outputs_);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputKinds_[i].isCopied) add(outputs[i], outOf, outputBytes);
  for (size_t i = 0; i < inputTensors_.size(); ++i)
    if (inputIsWritten_[i] && inputIsCopied_[i]) add(inputTensors_[i], outOf, outputBytes);
  checkCuda("", [&](char* e, size_t n) {
    return cuda_.addCopies(graph_.get(), into.size(), into.data(), inputBytes.data(), outOf.size(), outOf.data(),
                           outputBytes.data(), e, n);
  });
}

/// Notes the addresses of the inputs that the graph copies, and copies the others now. The key ensures that dtypes,
/// sizes and strides are those of the capture. Call it after allocateOutputs.
void CapturedRun::copyIn(const Values& inputs) {
  from_.clear();
  std::vector<at::Tensor> othersTo, othersFrom;
  size_t i = 0;
  for (const c10::IValue& v : inputs) {
    forEachTensor(v, [&](const at::Tensor& t) {
      const at::Tensor& own = inputTensors_[i];
      const bool byGraph = inputIsCopied_[i], sameLayout = byGraph && isBlock(t) && t.strides() == own.strides();
      if (byGraph) from_.push_back((sameLayout ? t : own).const_data_ptr());
      if (byGraph && inputIsWritten_[i]) to_.push_back(const_cast<void*>((sameLayout ? t : own).const_data_ptr()));
      if (!sameLayout) othersTo.push_back(own), othersFrom.push_back(t);
      ++i;
    });
  }
  if (othersTo.empty()) return;
  const PlainMode mode;
  at::_foreach_copy_(othersTo, othersFrom, /*non_blocking=*/true);
}

/// Writes the inputs that the body writes back into the caller's tensors, as far as the graph has not done so, and
/// counts the writes as PyTorch does.
void CapturedRun::copyBack(const Values& inputs) {
  if (!facts_.writes.any()) return;
  std::vector<at::Tensor> to, from;
  const auto countWrite = [](const at::Tensor& t) {
    if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
  };
  size_t i = 0;
  for (const c10::IValue& v : inputs) {
    forEachTensor(v, [&](const at::Tensor& t) {
      const at::Tensor& own = inputTensors_[i];
      if (inputIsWritten_[i]) {
        countWrite(t);
        if (!(inputIsCopied_[i] && isBlock(t) && t.strides() == own.strides())) to.push_back(t), from.push_back(own);
      }
      ++i;
    });
  }
  for (const at::Tensor& t : facts_.writes.buffers) countWrite(t);
  if (to.empty()) return;
  const c10::InferenceMode inference;  // the caller's tensors may have been made inside it
  at::_foreach_copy_(to, from, /*non_blocking=*/true);
}

/// New tensors of the caller's for the outputs. Before the graph runs, because where memory runs out nothing may have
/// been written yet.
std::vector<at::Tensor> CapturedRun::allocateOutputs() {
  std::vector<at::Tensor> own;
  to_.clear();
  size_t i = 0;
  for (const c10::IValue& v : outputs_) {
    forEachTensor(v, [&](const at::Tensor& t) {
      const Output& kind = outputKinds_[i++];
      if (kind.isBuffer || kind.ofInput) return;
      own.push_back(at::empty_like(t));
      if (kind.isCopied) to_.push_back(own.back().mutable_data_ptr());
    });
  }
  return own;
}

/// The outputs as tensors of the caller's: `own`, which the graph has filled or which are filled now, or what lies in
/// memory that the body writes.
CapturedRun::Values CapturedRun::copyOut(const std::vector<at::Tensor>& own, const Values& inputs) const {
  std::vector<at::Tensor> given;
  if (!facts_.writes.inputs.empty()) given = flattenTensors(inputs);
  Values out;
  out.reserve(outputs_.size());
  size_t i = 0, next = 0;
  for (const c10::IValue& v : outputs_) {
    out.push_back(mapTensors(v, [&](const at::Tensor& t) -> at::Tensor {
      const Output& kind = outputKinds_[i++];
      if (kind.isBuffer) return t;
      if (kind.ofInput) {
        const at::Tensor &caller = given[*kind.ofInput], &mine = inputTensors_[*kind.ofInput];
        if (t.is_same(mine)) return caller;
        return caller.as_strided(t.sizes(), t.strides(),
                                 caller.storage_offset() + t.storage_offset() - mine.storage_offset());
      }
      const at::Tensor& result = own[next++];
      if (!kind.isCopied) const_cast<at::Tensor&>(result).copy_(t, /*non_blocking=*/true);
      return result;
    }));
  }
  return out;
}

CapturedRun::Values CapturedRun::replay(const Values& inputs) {
  const std::vector<at::Tensor> own = allocateOutputs();
  copyIn(inputs);
  checkCuda("replay failed: ",
            [&](char* e, size_t n) { return cuda_.replay(graph_.get(), from_.data(), to_.data(), e, n); });
  copyBack(inputs);
  return copyOut(own, inputs);
}

CapturedRun::Timing CapturedRun::time(bool flushed) {
  const PlainMode mode;
  const SavedTensors saved(writtenTensors());
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
