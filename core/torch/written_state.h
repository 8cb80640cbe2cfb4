// What a model leaves behind besides its outputs: buffers and inputs that it writes. Two models that give the same
// outputs and leave other buffers are not the same, and a run for a comparison must change nothing for the next one.
//
//   const WrittenState state({&a, &b});
//   auto x = state.run(a, inputs, job), y = state.run(b, inputs, job);
//   auto differences = state.named(compareTensors(*x, *y), *x);    // "0", "1", "buffer mean", "input 1"
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/torch/executor.h"
#include "core/torch/tensors.h"

namespace graft {

/// "output 0", or the name where it says what it is ("buffer mean").
std::string titleOf(const Difference&);

class WrittenState {
 public:
  WrittenState() = default;
  /// The buffers that all of these programs may write, by path, and the inputs that any may.
  explicit WrittenState(std::initializer_list<const Program*>);

  /// A run that changes neither the inputs nor the program's buffers. Random operators draw the same numbers in every
  /// program: the rewriter keeps their order. What the state consists of follows the outputs, as one more value.
  Result<TensorSet> run(const Program&, const TensorSet& inputs, const Job&) const;
  /// Differences of what `run` gave, with the state's parts named for what they are.
  std::vector<Difference> named(std::vector<Difference>, const TensorSet& ran) const;

 private:
  bool any() const { return !buffers_.empty() || !inputs_.empty(); }

  std::set<std::string> buffers_;
  std::set<size_t> inputs_;
};

}  // namespace graft
