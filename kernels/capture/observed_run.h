// Observer: records what the operators of a run read and write. It sees each operator that the calling thread's code
// calls through the dispatcher, but not the operators that those call.
//
//   Observer observer(c10::kCUDA, [] { return kernelsSoFar(); });
//   observer.start();
//   model(x);
//   observer.stop();
//   const auto plan = planStreams(observer.run().steps, {});
//
// Tensors that share a storage share memory. An output's storage counts as new unless one of the operator's inputs has
// it, because the allocator may reuse the address of a freed storage.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/DeviceType.h>
#include <c10/core/StorageImpl.h>

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/capture/stream_plan.h"

namespace graft {

struct ObservedRun {
  std::vector<std::string> names;      ///< of the operators, with overloads: "aten::add.Tensor"
  std::vector<RunStep> steps;          ///< one for each operator
  size_t kernelsBetweenOperators = 0;  ///< launched by no operator, so the memory that they access is unknown
};

class Observer {
 public:
  /// `countKernels` returns how many kernels have been launched so far. Memory on devices other than `device` is
  /// ignored: what the CPU does is complete when the next operator begins.
  Observer(c10::DeviceType device, std::function<size_t()> countKernels);
  virtual ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Call start and stop once each, on one thread, with no other observer running on it.
  void start();
  void stop();

  const ObservedRun& run() const { return run_; }

 protected:
  /// Called before and after operator i, with run() filled in as far as it is known then. They must not throw.
  virtual void onOperatorBegin(size_t i) {}
  virtual void onOperatorEnd(size_t i) {}

  /// The memory of the current operator's inputs. Valid within onOperatorBegin().
  struct Input {
    const c10::StorageImpl* storage;
    std::optional<size_t> producer;  ///< the operator that allocated it; nothing where it existed before the run
  };
  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  struct Memory {
    uint32_t number;
    std::optional<size_t> producer;
  };
  static std::unique_ptr<at::ObserverContext> onBegin(const at::RecordFunction&);
  static void onEnd(const at::RecordFunction&, at::ObserverContext*);
  void begin(const at::RecordFunction&);
  void end(const at::RecordFunction&);
  void countKernelsBetween();
  void recordInputs(const at::RecordFunction&, const c10::FunctionSchema&, RunStep&);
  void recordInput(const c10::IValue&, bool written, RunStep&);
  void recordOutputs(const at::RecordFunction&, RunStep&);

  const c10::DeviceType device_;
  const std::function<size_t()> countKernels_;
  std::optional<at::CallbackHandle> handle_;
  ObservedRun run_;
  std::unordered_map<const c10::StorageImpl*, Memory> memory_;
  uint32_t nextNumber_ = 0;  ///< of memory
  size_t kernelsSoFar_ = 0;  ///< when an operator last began or ended
  // The current operator:
  int depth_ = 0;  ///< of calls within it
  std::vector<Input> inputs_;
  size_t returns_ = 0;
  bool writesElsewhere_ = false;  ///< writes or allocates memory on another device
};

}  // namespace graft
