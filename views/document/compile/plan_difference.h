// PlanDifference: what differs between two plans of one graph. Kernels are numbered as they come, so their names say
// nothing: a group is the same where it computes the same nodes, and the one that shares the most nodes with it is what
// became of it. Views count for nothing: they follow what reads them. Plain values.
//
//   PlanDifference d = planDifference(before, now);
//   show(d.text());                                    // "3 groups differ, 5 nodes moved"
//   if (const GroupDifference* g = d.ofNow(kernel.name)) mark(kernel, g->sign(), g->word());
#pragma once

#include <QHash>
#include <QStringList>
#include <vector>

#include "views/document/compile/compile_plan.h"

namespace graft {

/// A generated kernel that is not the same in both plans.
struct GroupDifference {
  enum class Kind : uint8_t { OnlyBefore, OnlyNow, Nodes, Code } kind = Kind::Nodes;
  QString before{}, now{};       ///< the kernel's name in each plan; empty where it has none
  QStringList nodes;             ///< that it computes now, or before where it is gone
  QStringList joined{}, left{};  ///< of Nodes: what it computes only now, and only before
  QString how{};                 ///< of Code: "edited by hand", "another schedule"

  /// "−", "+" or "~", as drawings mark what was removed, added and changed.
  QString sign() const;
  /// What is different at it: a node that joined or left, or its first one.
  QString place() const;
  /// "only in this plan", "only in the other plan", "other nodes: + gelu − add", "edited by hand".
  QString word() const;
};

/// A node that another group computes now.
struct MovedNode {
  QString node;
  QString from, to;  ///< labels of the kernels: "div · softmax"; empty: it ran, or runs, by itself
};

struct PlanDifference {
  std::vector<GroupDifference> groups;  ///< in the order of the graph
  std::vector<MovedNode> moved;         ///< in the order of the graph
  QHash<QString, QString> same;         ///< the name now of each kernel of the plan before that is the same

  bool isEmpty() const { return groups.empty() && moved.empty(); }
  const GroupDifference* ofNow(const QString& kernel) const;
  const GroupDifference* ofBefore(const QString& kernel) const;
  const MovedNode* ofNode(const QString& node) const;
  /// "3 groups differ, 5 nodes moved", or "the same groups".
  QString text() const;
};

/// Both are of one graph.
PlanDifference planDifference(const CompilePlan& before, const CompilePlan& now);

}  // namespace graft
