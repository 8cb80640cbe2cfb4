// FusionPlanner: which groups the nodes of a graph become, merge by merge.
//
//   FusionPlan plan = FusionPlanner(graph, options, nullptr).plan();
//
// Private to core/compile/fusion. It refers to the graph and the options, and is used once. planner.cpp judges pairs
// and merges them, siblings.cpp finds groups that read one value, planned_groups.cpp says what has become of all.
// Source of the order of merges: XLA's priority fusion (xla/backends/gpu/transforms/priority_fusion.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/compile/fusion/fusion.h"
#include "core/compile/fusion/fusion_nodes.h"
#include "core/compile/fusion/group_order.h"
#include "core/compile/fusion/steered_nodes.h"

namespace graft {

/// A group while it grows. Barriers have one each too: a cycle may lead through them.
struct GrowingGroup {
  std::vector<NodeId> nodes;
  BlockId block;                     ///< of all of them
  std::set<uint32_t> before, after;  ///< neighbours
  bool isAlive = true, computes = false;
  uint32_t version = 0;
  int64_t first = 0, last = 0;  ///< places among all nodes
  size_t epoch = 0;
  double elements = 0;    ///< the largest of its nodes
  double operations = 0;  ///< of all nodes, for each element
  bool hasWindows = false;
  bool hasRows = false;
  double rows = 0;
  std::vector<int64_t> rowKey;
  bool isOfColumns = false;  ///< what it sums up are columns of other rows
  double columns = 0;        ///< of its rows, that it reduces too; 0: none
  NodeId product;            ///< the matrix product among them
  Sides sides;               ///< of what is to stay apart
};

struct MergeJudgement {
  bool isLegal = false;
  std::string why;
  double apart = 0, together = 0;
  double saved() const { return apart - together; }
};

/// Two nodes that read a value, each for its group.
struct FusionSiblings {
  double saved;
  NodeId first, second;
  ValueId value;
};

class FusionPlanner {
 public:
  /// `before`: the plan without the steering's moves, where it has some.
  FusionPlanner(const Graph&, const FusionOptions&, const FusionPlan* before);
  FusionPlan plan();

 private:
  static constexpr uint32_t none = UINT32_MAX;
  /// -saved, whether there are windows, producer, consumer, versions
  using Entry = std::tuple<double, bool, uint32_t, uint32_t, uint32_t, uint32_t>;

  // Pairs: a producer and a consumer
  void makeGroups();
  /// Base values that a makes and b reads.
  std::vector<ValueId> shared(uint32_t a, uint32_t b, bool& mayInline) const;
  bool isReadOutside(ValueId v, uint32_t a, uint32_t b) const;
  /// How many elements b picks of all that a makes; nothing where it reads whole rows.
  std::optional<double> picks(uint32_t a, uint32_t b) const;
  std::optional<double> picksBehind(NodeId reader, ValueId read, uint32_t b) const;
  /// By the block, itself or through views.
  bool isReturned(ValueId v) const;
  /// Whether b sums up the columns of a's rows: on a GPU, one kernel does both, where they are worth taking apart.
  bool areRowsAndColumns(const GrowingGroup& a, const GrowingGroup& b) const;
  static std::string rowsDiffer(const GrowingGroup& a, const GrowingGroup& b);
  /// Whether both can be one kernel, as far as what they go over tells.
  std::string domainObstacle(uint32_t ai, uint32_t bi, bool isReadElsewhere) const;
  /// Unless `isThorough`, it neither counts tensors nor looks for paths, which take long.
  MergeJudgement judge(uint32_t ai, uint32_t bi, bool isThorough = true) const;
  /// Whether the loops of both, which hold a matrix product, are one nest.
  bool isEpilogue(uint32_t ai, uint32_t bi) const;
  /// What is computed more often where the two become one, in operations.
  double operationsAgain(uint32_t a, uint32_t b, const std::vector<ValueId>& values) const;
  size_t tensorsOf(uint32_t ai, uint32_t bi) const;
  /// Whether some path leads from a to b through a third.
  bool isCycle(uint32_t a, uint32_t b) const;
  void consider(std::set<Entry>& queue, uint32_t a, uint32_t b) const;
  /// `withProducts`: pairs with a matrix product alone, or those without.
  void mergeAll(bool withProducts);
  /// Whatever it costs, as far as it is legal. The order of merges may decide that: each pair is tried until none goes.
  void mergeAsked(const SteeredNodes::Merge& wanted);
  /// Two of the groups that are legal siblings; false where there are none.
  bool mergeAskedSiblings(const std::set<uint32_t>& groups);
  std::string pairOf(uint32_t a, uint32_t b) const;
  void note(uint32_t a, uint32_t b, const MergeJudgement& j, bool isAsked);
  /// a goes into b.
  void merge(uint32_t ai, uint32_t bi);

  // Siblings
  /// Whether siblings may share a kernel for that value: it is as large as what they go over.
  bool isWhole(ValueId v, const GrowingGroup& a) const;
  /// Whether siblings may share a kernel for that value, among others: it is whole, or a GPU saves a launch.
  bool mayShare(ValueId v, const GrowingGroup& a) const;
  /// Of what the last node of the group makes.
  std::optional<std::vector<Dim>> shapeOf(uint32_t a) const;
  /// The values of their own size that both read; without such, of groups of one shape, those that save a launch.
  std::vector<ValueId> readByBoth(uint32_t ai, uint32_t bi) const;
  MergeJudgement judgeSiblings(uint32_t ai, uint32_t bi) const;
  std::vector<FusionSiblings> findSiblings() const;
  void mergeSiblings();

  // What becomes of the groups
  /// The pairs that stay apart, and why.
  void explainEdges(FusionPlan& plan) const;
  void collect(FusionPlan& plan);
  /// The group, or what two of them would be together.
  FusionGroup describe(uint32_t ai, uint32_t bi) const;
  void addViews(ValueId v, BlockId block, std::set<std::pair<int64_t, NodeId>>& members) const;
  std::string nameOf(const FusionGroup& group) const;

  const Graph& g_;
  const FusionOptions& options_;
  std::vector<FusionNode> nodes_;
  SteeredNodes steered_;
  std::vector<GrowingGroup> groups_;
  std::vector<uint32_t> groupOf_;             // by NodeId; none for views
  std::vector<std::vector<NodeId>> readers_;  // by ValueId: nodes that are no views, through views
  std::optional<GroupOrder> order_;           // of groups_
  const GroupOrder::Neighbours neighbours_ = [this](uint32_t group, bool after) -> const std::set<uint32_t>& {
    return after ? groups_[group].after : groups_[group].before;
  };
  std::vector<FusionDecision> decisions_;
};

}  // namespace graft
