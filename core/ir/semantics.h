// Semantics: the two questions about operators that only a tensor library can answer. The matcher asks through this
// interface, LibTorch answers behind it (core/torch/types/semantics.cpp), tests answer with fakes.
#pragma once

#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

class Semantics {
 public:
  virtual ~Semantics() = default;
  virtual const OperatorSet& operators() const = 0;
  /// The types of the node's outputs from its arguments' types (shapes, dtypes; run on meta tensors). An error says why
  /// the operator refuses them; an output whose type cannot be known is Type::tensor() without details.
  virtual Result<std::vector<Type>> inferTypes(const Graph&, NodeId) const = 0;
  /// Runs the node on its weights and literals, none of its arguments may depend on inputs: one new weight's type and
  /// data for each output, or a literal for each output that is a number.
  struct Constant {
    Type type;
    std::shared_ptr<const WeightData> data;  ///< null where `literal` holds it
    Argument literal;
  };
  virtual Result<std::vector<Constant>> evaluate(const Graph&, NodeId) const = 0;
};

}  // namespace graft
