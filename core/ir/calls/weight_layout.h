// WeightLayout: what weights' data are, too, where they know how they lie in memory.
//
//   if (const auto* laid = dynamic_cast<const WeightLayout*>(value.data.get())) use(laid->strides());
#pragma once

#include <cstdint>
#include <vector>

namespace graft {

class WeightLayout {
 public:
  virtual ~WeightLayout() = default;
  /// In elements, one for each dimension.
  virtual std::vector<int64_t> strides() const = 0;
};

}  // namespace graft
