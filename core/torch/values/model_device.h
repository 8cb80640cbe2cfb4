// Where a model is. A model that was traced on one device names that device in its operators ("make the mask on cpu"),
// though its author wrote "where the input is". Such a name is read as "where the model is".
//
// What runs a model elsewhere and what writes it for elsewhere read the names by this alone.
//
//   const std::string model = modelDevice(graph);       // "cpu"
//   meansModel(DeviceName{"cpu"}, model);               // true: the written code asks the module where it is
//   placed(DeviceName{"cpu"}, model, "cuda:0").name;    // "cuda:0": where the program runs
#pragma once

#include <string>

#include "core/ir/graph.h"

namespace graft {

/// The device that the graph's operators name; where they name several, the one of its weights and inputs. Empty where
/// they name none, or where that leaves it open: then each name means what it says.
std::string modelDevice(const Graph&);
/// Whether this name in an argument means the model's place, wherever that is moved. `model` is what modelDevice gave.
bool meansModel(const DeviceName&, const std::string& model);
/// The name in a program that runs on `device`. What a model on a GPU names "cpu" stays there: a table that is looked
/// up on the CPU. A GPU that is not the model's place has no part in a program of one device: its name is `device` too.
DeviceName placed(const DeviceName&, const std::string& model, const std::string& device);

}  // namespace graft
