// What verifications and comparisons of layers share: the original, the rewritten and the reference program. A run of
// one changes neither its inputs nor the random numbers that another draws.
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "core/torch/executor.h"
#include "core/torch/values/tensor_sets.h"
#include "core/torch/written_state.h"

namespace graft {

constexpr uint64_t verificationSeed = 20260117;

/// A graph in double precision: on the device that the inputs are on, which is faster where that is a GPU; on the CPU
/// where that device has no room or no operators for it.
class Reference {
 public:
  /// The graph must outlive it.
  Reference(const Graph& g, std::string device, Missing missing)
      : g_(&g), device_(std::move(device)), missing_(missing) {}

  /// f(program, inputs in fp64), a Result; nothing where it fails on both.
  template <class F>
  auto run(const TensorSet& inputs, const F& f)
      -> std::optional<std::decay_t<decltype(*f(std::declval<const Program&>(), inputs))>> {
    for (; !device_.empty(); program_.reset(), device_ = device_ == "cpu" ? "" : "cpu") {
      if (!build()) continue;
      const auto wide = convert(inputs, device_, DType::Float64);
      if (!wide) continue;
      if (auto out = f(*program_, *wide)) return std::move(*out);
      if (device_ == "cpu") return std::nullopt;  // other inputs may do better
    }
    return std::nullopt;
  }

 private:
  bool build();

  const Graph* g_;
  std::string device_;  ///< to try next; empty once there is none
  Missing missing_;
  std::optional<Program> program_;
};

struct VerificationPrograms {
  Program original, rewritten;
  Reference reference;  ///< of the original
};
/// On the device that the inputs are on.
Result<VerificationPrograms> buildVerificationPrograms(const Graph& original, const Graph& rewritten,
                                                       const TensorSet& inputs, Missing missing = Missing::Refused);

/// "my.fused.default, which this machine does not have".
std::string leftOutText(const LeftOut&);
/// Whether two programs leave out the same, so that what they compute corresponds.
bool leaveOutTheSame(const LeftOut&, const LeftOut&);

/// While it lives, what PyTorch warns of on this thread is not printed: it would be about inputs that the user did not
/// choose, such as the variance of one element, or say again what a run of the whole model has said. Graft's own
/// warnings are printed.
class QuietPyTorch {
  struct OwnWarnings : c10::WarningHandler {
    void process(const c10::Warning&) override;
  };
  OwnWarnings handler_;
  const c10::WarningUtils::WarningHandlerGuard guard_{&handler_};
};

/// Random operators draw the same numbers in every program: the rewriter keeps their order. Weights that the program
/// writes are put back afterwards, so each run begins with what the file holds.
Result<TensorSet> runSeeded(const Program&, const TensorSet& inputs, const Job&);
/// The same for inputs that were made up, without PyTorch's warnings of them. Where some are empty, another process
/// runs the program first, and a signal that ends it is an error: LibTorch does not check all sizes that it divides by.
Result<TensorSet> runProbe(const Program&, const TensorSet& inputs, const Job&);
/// And with what the program leaves in buffers and inputs, behind its outputs.
Result<TensorSet> probeState(const Program&, const TensorSet& inputs, const Job&, const WrittenState&);
/// That of runProbe alone.
Status sendAhead(const Program&, const TensorSet& inputs, const Job&);
/// Whether runProbe sends these inputs ahead.
bool isSentAhead(const Program&, const TensorSet& inputs);
/// The original in double precision; nothing where it does not run so (the dtypes' tolerances judge then).
std::optional<TensorSet> runReference(VerificationPrograms&, const TensorSet& inputs, const Job&,
                                      const WrittenState& = {});

}  // namespace graft
