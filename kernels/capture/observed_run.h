// What the operators of a run read and write, as the dispatcher shows them: of each operator that the calling thread's
// code calls itself, not of those that operators are made of.
//
//   Observer observer(c10::kCUDA, [] { return kernelsSoFar(); });
//   observer.start();
//   model(x);
//   observer.stop();
//   const auto plan = planStreams(observer.run().steps, {});
//
// Memory is told apart by the storage that tensors share: what an operator's output lies in is new unless one of its
// inputs lies there, for the allocator may give a freed storage's address to another.
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
  std::vector<std::string> names;  ///< of the operators, with their overloads
  std::vector<RunStep> steps;      ///< one for each
  size_t outside = 0;              ///< kernels that were launched between operators: what they touch is not known
};

class Observer {
 public:
  /// `kernels` counts what has been launched so far. Memory of other devices than `device` is no matter: what the CPU
  /// does is done when the next operator comes.
  Observer(c10::DeviceType device, std::function<size_t()> kernels);
  virtual ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// On one thread, once, and no other observer meanwhile.
  void start();
  void stop();

  const ObservedRun& run() const { return run_; }

 protected:
  /// Around operator i, with what is known of it by then. They do not throw.
  virtual void begins(size_t i) {}
  virtual void ends(size_t i) {}

  /// The memory of operator i's inputs, each with the number of the operator that made it (nothing: not of this run).
  /// Theirs while begins() runs.
  struct Input {
    const c10::StorageImpl* storage;
    std::optional<size_t> maker;
  };
  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  struct Memory {
    uint32_t number;
    std::optional<size_t> maker;
  };
  static std::unique_ptr<at::ObserverContext> onBegin(const at::RecordFunction&);
  static void onEnd(const at::RecordFunction&, at::ObserverContext*);
  void begin(const at::RecordFunction&);
  void end(const at::RecordFunction&);
  void noteOutside();
  void noteInputs(const at::RecordFunction&, const c10::FunctionSchema&, RunStep&);
  void noteInput(const c10::IValue&, bool written, RunStep&);
  void noteOutputs(const at::RecordFunction&, RunStep&);

  const c10::DeviceType device_;
  const std::function<size_t()> kernels_;
  std::optional<at::CallbackHandle> handle_;
  ObservedRun run_;
  std::unordered_map<const c10::StorageImpl*, Memory> memory_;
  uint32_t known_ = 0;      ///< memory that has a number
  size_t kernelsThen_ = 0;  ///< when an operator began or ended last
  // Of the operator that runs now:
  int depth_ = 0;
  std::vector<Input> inputs_;
  size_t returns_ = 0;
  bool elsewhere_ = false;  ///< writes or makes memory of another device
};

}  // namespace graft
