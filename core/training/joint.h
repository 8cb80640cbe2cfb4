// JointGraph: the forward and the backward pass of a model in one graph, and what a cut between them has to know: which
// nodes the results need, which the gradients need, what a value takes of memory and what computing it again costs.
//
//   auto joint = JointGraph::make(model.graph, *model.signature, {});
//   for (NodeId n : joint->order())
//     if (joint->isForward(n)) …     // it depends on no tangent, so either half can compute it
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/training/signature.h"

namespace graft {

/// What computing a node again is like.
enum class Recomputing : uint8_t {
  Free,       ///< a view: its result lies in its argument's memory
  Cheap,      ///< element by element, copies, casts, sums, softmax, lookups: it can run inside another kernel
  Moderate,   ///< a kernel of its own that reads its operands once or twice: norms, pooling
  Expensive,  ///< products of matrices, convolutions, attention
  Never,      ///< it draws random numbers or has effects: a second run would give something else
};

/// Why a node is never computed twice; empty where it may be.
std::string whyNeverAgain(const Node&);

class JointGraph {
 public:
  /// The graph must outlive the result. `sizeOf` gives symbols' values (null: their least, or 2). BadInput, with the
  /// node and its line, where the graph has no tangents, writes in place or has a value of unknown size.
  static Result<JointGraph> make(const Graph&, const TrainingSignature&,
                                 const std::function<std::optional<int64_t>(std::string_view)>& sizeOf = nullptr);

  const Graph& graph() const { return *graph_; }
  const TrainingSignature& signature() const { return *signature_; }
  const std::vector<NodeId>& order() const { return order_; }
  size_t place(NodeId n) const { return place_[n.index]; }  ///< in `order`

  /// Depends on no tangent.
  bool isForward(NodeId n) const { return !afterTangents_[n.index]; }
  bool isForward(ValueId v) const;
  /// The model's results or the buffers' new values need it.
  bool isRequired(NodeId n) const { return required_[n.index]; }
  /// A gradient needs it.
  bool isWanted(NodeId n) const { return wanted_[n.index]; }

  struct Returned {
    ReturnedRole role;
    Argument value;  ///< None for the gradient of what takes none
  };
  const std::vector<Returned>& results() const { return results_; }      ///< outputs and mutations
  const std::vector<Returned>& gradients() const { return gradients_; }  ///< in the graph's order

  Recomputing recomputing(NodeId n) const { return recomputing_[n.index]; }
  /// Steps from the value to the backward pass; `far` where no path leads there.
  int distance(ValueId v) const { return distance_[v.index]; }
  static constexpr int far = 1'000'000;
  /// Of a tensor's elements, 8 of a number; 0 of what takes no memory of its own.
  size_t bytes(ValueId v) const { return bytes_[v.index]; }
  /// A view's bytes are those of the tensor that it looks into.
  ValueId storageOf(ValueId v) const { return storage_[v.index]; }
  /// A weight, or an input that is a parameter: it is there in the backward pass anyway.
  bool isFree(ValueId v) const { return free_[v.index]; }
  /// The forward pass ends by overwriting it.
  bool isMutated(ValueId v) const { return mutated_[v.index]; }
  /// A tensor or a number: something that one half can hand to the other.
  bool canBeSaved(ValueId v) const;

  /// An estimate of a node's time in microseconds: 100 GFLOP/s, or 10 GB/s where memory is what it waits for.
  double microseconds(NodeId n) const { return microseconds_[n.index]; }
  /// Times that were measured take the place of estimates.
  void setMicroseconds(NodeId n, double t) { microseconds_[n.index] = t; }
  std::vector<ValueId> operands(NodeId n) const;

 private:
  explicit JointGraph(const Graph& g, const TrainingSignature& s) : graph_(&g), signature_(&s) {}
  Status findRoles();
  Status measure(const std::function<std::optional<int64_t>(std::string_view)>& sizeOf);
  void findNeeds();
  void findDistances();
  void estimate(NodeId);

  const Graph* graph_;
  const TrainingSignature* signature_;
  std::vector<NodeId> order_;
  std::vector<size_t> place_;
  std::vector<char> afterTangents_, required_, wanted_;  // by node
  std::vector<Recomputing> recomputing_;
  std::vector<double> microseconds_;
  std::vector<char> free_, mutated_, tangent_;  // by value
  std::vector<size_t> bytes_;
  std::vector<ValueId> storage_;
  std::vector<int> distance_;
  std::vector<Returned> results_, gradients_;
};

/// Every leaf of what the graph returns, in order.
std::vector<Argument> returnedLeaves(const Graph&);

}  // namespace graft
