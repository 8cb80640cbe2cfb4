// Where a model is. A model that was traced on one device names that device in its operators ("make the mask on cpu"),
// though its author wrote "where the input is". Such a name is read as "where the model is".
//
//   modelDevice(graph)   // "cpu": this name in an argument means the model's place, wherever that is moved
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace graft {

/// The device that the graph's operators name; where they name several, the one of its weights and inputs. Empty where
/// they name none, or where that leaves it open: then each name means what it says.
std::string modelDevice(const Graph&);

}  // namespace graft
