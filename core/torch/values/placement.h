// Where a model is. A model that was traced on one device names that device in its operators ("make the mask on cpu"),
// though its author wrote "where the input is". Such a name is read as "where the model is".
//
// A copy to the host that the author meant (`logits.cpu()`) has the same name in a trace. The flow of data tells them
// apart. Operators want their tensors on one device, so the graph falls into groups of values that lie together, and
// only operators that name a device stand between two groups. What lies with a weight or an input is where the model
// is, whatever a name says. A group apart that gets data from there, and that the model returns or reads on the host
// (`.item()`), is on the host: a trace of `.to(x.device)` at the very end is taken for it, too. Groups apart that only
// feed the model again, and those that come from sizes alone, are where the model is.
//
// What runs a model elsewhere and what writes it for elsewhere read the names by this alone.
//
//   const Placement place(graph);
//   place.model();                                  // "cpu"
//   place.follows(node, DeviceName{"cpu"});         // true: the written code asks the module where it is
//   place.placed(node, DeviceName{"cpu"}, "cuda:0").name;    // "cuda:0": where the program runs
#pragma once

#include <string>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

class Placement {
 public:
  explicit Placement(const Graph&);

  /// The device that the graph's operators name; where they name several, the one of its weights and inputs. Empty
  /// where they name none, or where that leaves it open: then each name means what it says.
  const std::string& model() const { return model_; }
  /// Whether this name in the node's arguments means the model's place, wherever that is moved.
  bool follows(const Node&, const DeviceName&) const;
  /// The name in a program that runs on `device`. What stays on the host is "cpu" there. A GPU that is not the model's
  /// place has no part in a program of one device: its name is `device` too.
  DeviceName placed(const Node&, const DeviceName&, const std::string& device) const;
  /// Whether the node computes on the host, wherever the model is.
  bool onHost(const Node&) const;
  /// The copies to the host, in the graph's order.
  const std::vector<NodeId>& copiesToHost() const { return copies_; }

 private:
  std::string model_;
  std::vector<char> host_;  ///< by ValueId
  std::vector<NodeId> copies_;
};

/// Where the file has the model: the device that operators name, else the one that all weights are on; empty where
/// neither says. The graph's types speak of that device, also after a run elsewhere.
std::string homeDevice(const Graph&);

}  // namespace graft
