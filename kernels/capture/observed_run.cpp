#include "kernels/capture/observed_run.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/capture/pytree.h"

namespace graft {
namespace {

thread_local Observer* current = nullptr;

bool isWritten(const c10::AliasInfo& a) {
  return a.isWrite() || std::any_of(a.containedTypes().begin(), a.containedTypes().end(), isWritten);
}

/// Batch and instance norm write to their running statistics while training, which their schemas do not declare.
bool writesStatistics(const c10::FunctionSchema& schema, c10::ArrayRef<const c10::IValue> given) {
  if (schema.name().find("batch_norm") == std::string::npos && schema.name().find("instance_norm") == std::string::npos)
    return false;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if ((name == "training" || name == "train" || name == "use_input_stats") && given[i].isBool())
      return given[i].toBool();
  }
  return true;
}

bool isStatistic(const std::string& name) { return name == "running_mean" || name == "running_var"; }

/// Values that may hold tensors which cannot be inspected.
bool isOpaque(const c10::IValue& v) { return v.isObject() || v.isCapsule() || v.isPyObject() || v.isFuture(); }

}  // namespace

Observer::Observer(c10::DeviceType device, std::function<size_t()> countKernels)
    : device_(device), countKernels_(std::move(countKernels)) {}

Observer::~Observer() { stop(); }

void Observer::start() {
  current = this;
  kernelsSoFar_ = countKernels_();
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Observer::onBegin, &Observer::onEnd)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

void Observer::stop() {
  if (!handle_) return;
  at::removeCallback(*handle_);
  handle_.reset();
  current = nullptr;
  countKernelsBetween();
}

void Observer::countKernelsBetween() {
  const size_t now = countKernels_();
  if (now > kernelsSoFar_) run_.kernelsBetweenOperators += now - kernelsSoFar_;  // a failed capture counts none
  kernelsSoFar_ = now;
}

std::unique_ptr<at::ObserverContext> Observer::onBegin(const at::RecordFunction& fn) {
  if (current && current->depth_++ == 0) current->begin(fn);
  return nullptr;
}

void Observer::onEnd(const at::RecordFunction& fn, at::ObserverContext*) {
  if (current && --current->depth_ == 0) current->end(fn);
}

void Observer::begin(const at::RecordFunction& fn) {
  RunStep& step = run_.steps.emplace_back();
  inputs_.clear();
  returns_ = 0;
  writesElsewhere_ = false;
  const auto name = fn.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  run_.names.push_back(name ? c10::toString(*name) : fn.name());
  if (!op || op->schema().is_vararg() || op->schema().is_varret())
    step.barrier = true;
  else
    recordInputs(fn, op->schema(), step);
  countKernelsBetween();
  onOperatorBegin(run_.steps.size() - 1);
}

void Observer::recordInputs(const at::RecordFunction& fn, const c10::FunctionSchema& schema, RunStep& step) {
  const auto& parameters = schema.arguments();
  returns_ = schema.returns().size();
  auto given = fn.inputs();
  if (given.size() < parameters.size()) {
    step.barrier = true;
    return;
  }
  given = given.slice(given.size() - parameters.size());  // a boxed stack may hold other values below them
  const bool statistics = writesStatistics(schema, given);
  bool writes = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const c10::AliasInfo* alias = parameters[i].alias_info();
    const bool written = (alias && isWritten(*alias)) || (statistics && isStatistic(parameters[i].name()));
    writes |= written;
    recordInput(given[i], written, step);
  }
  if (schema.is_mutable() && !writes) step.barrier = true;
}

void Observer::recordInput(const c10::IValue& v, bool written, RunStep& step) {
  if (isOpaque(v)) step.barrier = true;
  forEachTensor(v, [&](const at::Tensor& t) {
    if (t.device().type() != device_) {
      writesElsewhere_ |= written;
    } else if (!t.has_storage()) {
      step.barrier = true;
    } else {
      const c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
      const auto [at, fresh] = memory_.try_emplace(storage, Memory{nextNumber_, std::nullopt});
      nextNumber_ += fresh;
      inputs_.push_back({storage, at->second.producer});
      (written ? step.writes : step.reads).push_back(at->second.number);
    }
  });
}

void Observer::end(const at::RecordFunction& fn) {
  const size_t i = run_.steps.size() - 1;
  RunStep& step = run_.steps[i];
  const size_t before = std::exchange(kernelsSoFar_, countKernels_());
  step.kernels = static_cast<uint32_t>(kernelsSoFar_ - before);
  recordOutputs(fn, step);
  // Memory on other devices is not tracked, so kernels that may write to it make the step a barrier.
  if (writesElsewhere_ && step.kernels > 0) step.barrier = true;
  onOperatorEnd(i);
}

void Observer::recordOutputs(const at::RecordFunction& fn, RunStep& step) {
  const auto& all = fn.outputs();
  if (all.size() < returns_) {
    step.barrier = true;
    return;
  }
  for (size_t k = all.size() - returns_; k < all.size(); ++k) {
    if (isOpaque(all[k])) step.barrier = true;
    forEachTensor(all[k], [&](const at::Tensor& t) {
      if (t.device().type() != device_) {
        writesElsewhere_ = true;
        return;
      }
      if (!t.has_storage()) {
        step.barrier = true;
        return;
      }
      const c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
      const bool given =
          std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) { return input.storage == storage; });
      if (given) return;
      const auto [at, fresh] = memory_.try_emplace(storage);
      // Several outputs may share new memory.
      if (fresh || at->second.producer != run_.steps.size() - 1) {
        at->second = {nextNumber_++, run_.steps.size() - 1};
        step.writes.push_back(at->second.number);
      }
    });
  }
}

}  // namespace graft
