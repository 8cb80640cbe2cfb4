#include "core/torch/joined_sets.h"

#include "core/torch/values/values.h"

namespace graft {

TensorSet joined(const std::vector<TensorSet>& sets) {
  std::vector<c10::IValue> values;
  for (const TensorSet& set : sets) {
    const std::vector<c10::IValue>& more = valuesOf(set);
    values.insert(values.end(), more.begin(), more.end());
  }
  return tensorSet(std::move(values));
}

}  // namespace graft
