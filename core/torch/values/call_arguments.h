// What a model is called with, as a file of torch.save holds it, as the values of the graph's inputs.
//
//   auto bound = boundInputs(graph, loaded);      // ({"x": …}, …) or {"batch": …}; **bound in the order of the inputs
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

/// Nothing where the value does not look like a call and has as many entries as the graph has inputs, or where the
/// graph's inputs say all that is known of calls: its entries are the inputs then, or what is wrong shows when they
/// run.
Result<std::optional<TensorSet>> boundInputs(const Graph&, const c10::IValue&);

/// Of a tensor with one element the number, where the model takes a number; any other value as it is.
c10::IValue asNumber(c10::IValue, const Type& wanted);

/// What the input is where a caller leaves it out, as its type wants it; nothing where callers have to give it.
std::optional<c10::IValue> findDefaultValue(const Graph&, ValueId input);

}  // namespace graft
