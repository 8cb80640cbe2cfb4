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

/// Norms over a batch write to their running statistics without saying so in their schemas.
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

/// Values that hold tensors where nobody looks.
bool isOpaque(const c10::IValue& v) { return v.isObject() || v.isCapsule() || v.isPyObject() || v.isFuture(); }

}  // namespace

Observer::Observer(c10::DeviceType device, std::function<size_t()> kernels)
    : device_(device), kernels_(std::move(kernels)) {}

Observer::~Observer() { stop(); }

void Observer::start() {
  current = this;
  kernelsThen_ = kernels_();
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
  noteOutside();
}

void Observer::noteOutside() {
  const size_t now = kernels_();
  if (now > kernelsThen_) run_.outside += now - kernelsThen_;  // a capture that has failed has none
  kernelsThen_ = now;
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
  elsewhere_ = false;
  const auto name = fn.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  run_.names.push_back(name ? c10::toString(*name) : fn.name());
  if (!op || op->schema().is_vararg() || op->schema().is_varret())
    step.everything = true;
  else
    noteInputs(fn, op->schema(), step);
  noteOutside();
  begins(run_.steps.size() - 1);
}

void Observer::noteInputs(const at::RecordFunction& fn, const c10::FunctionSchema& schema, RunStep& step) {
  const auto& parameters = schema.arguments();
  returns_ = schema.returns().size();
  auto given = fn.inputs();
  if (given.size() < parameters.size()) {
    step.everything = true;
    return;
  }
  given = given.slice(given.size() - parameters.size());  // a stack may hold more below them
  const bool statistics = writesStatistics(schema, given);
  bool writes = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const c10::AliasInfo* alias = parameters[i].alias_info();
    const bool written = (alias && isWritten(*alias)) || (statistics && isStatistic(parameters[i].name()));
    writes |= written;
    noteInput(given[i], written, step);
  }
  if (schema.is_mutable() && !writes) step.everything = true;
}

void Observer::noteInput(const c10::IValue& v, bool written, RunStep& step) {
  if (isOpaque(v)) step.everything = true;
  everyTensor(v, [&](const at::Tensor& t) {
    if (t.device().type() != device_) {
      elsewhere_ |= written;
    } else if (!t.has_storage()) {
      step.everything = true;
    } else {
      const c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
      const auto [at, fresh] = memory_.try_emplace(storage, Memory{known_, std::nullopt});
      known_ += fresh;
      inputs_.push_back({storage, at->second.maker});
      (written ? step.writes : step.reads).push_back(at->second.number);
    }
    return true;
  });
}

void Observer::end(const at::RecordFunction& fn) {
  const size_t i = run_.steps.size() - 1;
  RunStep& step = run_.steps[i];
  const size_t before = std::exchange(kernelsThen_, kernels_());
  step.kernels = static_cast<uint32_t>(kernelsThen_ - before);
  noteOutputs(fn, step);
  // What lies elsewhere has not been looked at; it matters where the device's kernels write to it.
  if (elsewhere_ && step.kernels > 0) step.everything = true;
  ends(i);
}

void Observer::noteOutputs(const at::RecordFunction& fn, RunStep& step) {
  const auto& all = fn.outputs();
  if (all.size() < returns_) {
    step.everything = true;
    return;
  }
  for (size_t k = all.size() - returns_; k < all.size(); ++k) {
    if (isOpaque(all[k])) step.everything = true;
    everyTensor(all[k], [&](const at::Tensor& t) {
      if (t.device().type() != device_) {
        elsewhere_ = true;
        return true;
      }
      if (!t.has_storage()) {
        step.everything = true;
        return true;
      }
      const c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
      const bool given =
          std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) { return input.storage == storage; });
      if (given) return true;
      const auto [at, fresh] = memory_.try_emplace(storage);
      // Several outputs may share what is new.
      if (fresh || at->second.maker != run_.steps.size() - 1) {
        at->second = {known_++, run_.steps.size() - 1};
        step.writes.push_back(at->second.number);
      }
      return true;
    });
  }
}

}  // namespace graft
