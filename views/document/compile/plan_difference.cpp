#include "views/document/compile/plan_difference.h"

#include <QCoreApplication>
#include <QSet>
#include <algorithm>
#include <tuple>

#include "views/document/run_figures.h"

namespace graft {
namespace {

QString differenceText(const char* text) { return QCoreApplication::translate("PlanDifference", text); }

/// The generated kernels of a plan: their numbers in it, and which of them computes a node.
struct Groups {
  explicit Groups(const CompilePlan& p) : plan(p), match(p.kernels.size(), -1) {
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      const KernelInfo& k = plan.kernels[i];
      if (!k.isGenerated() || k.isInPlace) continue;
      all.push_back(static_cast<int>(i));
      for (const QString& node : k.coloured)
        if (!of.contains(node)) of.insert(node, static_cast<int>(i));
    }
  }
  const KernelInfo& kernel(int i) const { return plan.kernels[static_cast<size_t>(i)]; }
  QSet<QString> nodes(int i) const { return {kernel(i).coloured.begin(), kernel(i).coloured.end()}; }
  QString label(int i) const { return i < 0 ? QString() : kernel(i).label; }

  const CompilePlan& plan;
  std::vector<int> all;    ///< into the plan's kernels
  QHash<QString, int> of;  ///< by node
  std::vector<int> match;  ///< by kernel: what it is in the other plan; -1: nothing
};

/// Each group with the one that shares the most nodes with it, as far as that is free.
void matchGroups(Groups& before, Groups& now) {
  QHash<std::pair<int, int>, int> shared;
  for (auto it = now.of.begin(); it != now.of.end(); ++it)
    if (const int was = before.of.value(it.key(), -1); was >= 0) ++shared[{was, it.value()}];
  struct Candidate {
    int apart = 0, shared = 0, before = 0, now = 0;
  };
  std::vector<Candidate> candidates;
  for (auto it = shared.begin(); it != shared.end(); ++it) {
    const auto [was, is] = it.key();
    const auto all = before.kernel(was).coloured.size() + now.kernel(is).coloured.size();
    candidates.push_back({static_cast<int>(all) - 2 * it.value(), it.value(), was, is});
  }
  // The same nodes first, whatever larger ones there are.
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.apart != 0, -a.shared, a.apart, a.now, a.before) <
           std::tuple(b.apart != 0, -b.shared, b.apart, b.now, b.before);
  });
  for (const Candidate& c : candidates) {
    int &forward = before.match[static_cast<size_t>(c.before)], &back = now.match[static_cast<size_t>(c.now)];
    if (forward >= 0 || back >= 0) continue;
    forward = c.now;
    back = c.before;
  }
}

/// What else differs of a kernel that computes the same: "" for nothing.
QString howCodeDiffers(const KernelInfo& before, const KernelInfo& now) {
  if (before.edited != now.edited)
    return now.edited.isEmpty() ? differenceText("no longer edited by hand") : differenceText("edited by hand");
  return before.schedule != now.schedule ? differenceText("another schedule") : QString();
}

QStringList only(const KernelInfo& k, const QSet<QString>& other) {
  QStringList out;
  for (const QString& node : k.coloured)
    if (!other.contains(node)) out << node;
  return out;
}

void compareGroups(PlanDifference& out, const Groups& before, const Groups& now) {
  using Kind = GroupDifference::Kind;
  for (const int i : now.all) {
    const KernelInfo& k = now.kernel(i);
    const int was = now.match[static_cast<size_t>(i)];
    if (was < 0) {
      out.groups.push_back({.kind = Kind::OnlyNow, .now = k.name, .nodes = k.coloured});
      continue;
    }
    const KernelInfo& b = before.kernel(was);
    GroupDifference g{.kind = Kind::Nodes, .before = b.name, .now = k.name, .nodes = k.coloured};
    g.joined = only(k, before.nodes(was));
    g.left = only(b, now.nodes(i));
    if (g.joined.isEmpty() && g.left.isEmpty()) {
      g.kind = Kind::Code;
      g.how = howCodeDiffers(b, k);
      if (g.how.isEmpty()) {
        out.same.insert(b.name, k.name);
        continue;
      }
    }
    out.groups.push_back(std::move(g));
  }
  for (const int i : before.all)
    if (before.match[static_cast<size_t>(i)] < 0)
      out.groups.push_back(
          {.kind = Kind::OnlyBefore, .before = before.kernel(i).name, .nodes = before.kernel(i).coloured});
}

/// By their first nodes.
void sortByPlace(PlanDifference& out, const CompilePlan& before, const CompilePlan& now) {
  // The kernels of a plan stand in the order of the graph: so do those of both, one by one.
  QHash<QString, size_t> places;
  for (const CompilePlan* plan : {&now, &before})
    for (const KernelInfo& k : plan->kernels)
      for (const QString& node : k.nodes)
        if (!places.contains(node)) places.insert(node, plan->byNode.value(node));
  std::stable_sort(out.groups.begin(), out.groups.end(), [&](const GroupDifference& a, const GroupDifference& b) {
    return places.value(a.nodes.value(0)) < places.value(b.nodes.value(0));
  });
  std::stable_sort(out.moved.begin(), out.moved.end(),
                   [&](const MovedNode& a, const MovedNode& b) { return places.value(a.node) < places.value(b.node); });
}

}  // namespace

QString GroupDifference::sign() const {
  return kind == Kind::OnlyBefore ? QStringLiteral("−")
         : kind == Kind::OnlyNow  ? QStringLiteral("+")
                                  : QStringLiteral("~");
}

QString GroupDifference::place() const {
  return !joined.isEmpty() ? joined.first() : !left.isEmpty() ? left.first() : nodes.value(0);
}

QString GroupDifference::word() const {
  constexpr qsizetype most = 3;
  const auto list = [](const char* sign, const QStringList& names) {
    QString text = QString::fromUtf8(sign) + names.mid(0, most).join(QStringLiteral(", "));
    if (names.size() > most) text += differenceText(" and %1 more").arg(names.size() - most);
    return text;
  };
  switch (kind) {
    case Kind::OnlyBefore:
      return differenceText("only in the other plan");
    case Kind::OnlyNow:
      return differenceText("only in this plan");
    case Kind::Code:
      return how;
    case Kind::Nodes: {
      QStringList parts;
      if (!joined.isEmpty()) parts << list("+ ", joined);
      if (!left.isEmpty()) parts << list("− ", left);
      return differenceText("other nodes: %1").arg(parts.join(QLatin1Char(' ')));
    }
  }
  Q_UNREACHABLE();
}

const GroupDifference* PlanDifference::ofNow(const QString& kernel) const {
  const auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.now == kernel; });
  return kernel.isEmpty() || it == groups.end() ? nullptr : &*it;
}

const GroupDifference* PlanDifference::ofBefore(const QString& kernel) const {
  const auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.before == kernel; });
  return kernel.isEmpty() || it == groups.end() ? nullptr : &*it;
}

const MovedNode* PlanDifference::ofNode(const QString& node) const {
  const auto it = std::find_if(moved.begin(), moved.end(), [&](const auto& m) { return m.node == node; });
  return it == moved.end() ? nullptr : &*it;
}

QString PlanDifference::text() const {
  if (isEmpty()) return differenceText("the same groups");
  const auto count = static_cast<qint64>(groups.size());
  QString text = counted(count, differenceText("group"), differenceText("groups")) + QLatin1Char(' ') +
                 (count == 1 ? differenceText("differs") : differenceText("differ"));
  if (!moved.empty())
    text += differenceText(", %1 moved")
                .arg(counted(static_cast<qint64>(moved.size()), differenceText("node"), differenceText("nodes")));
  return text;
}

PlanDifference planDifference(const CompilePlan& planBefore, const CompilePlan& planNow) {
  Groups before(planBefore), now(planNow);
  matchGroups(before, now);
  PlanDifference out;
  compareGroups(out, before, now);
  QSet<QString> seen;
  for (const Groups* side : {&now, &before})
    for (const int i : side->all)
      for (const QString& node : side->kernel(i).coloured) {
        if (seen.contains(node)) continue;
        seen.insert(node);
        const int from = before.of.value(node, -1), to = now.of.value(node, -1);
        if (from >= 0 && to >= 0 && before.match[static_cast<size_t>(from)] == to) continue;
        out.moved.push_back({node, before.label(from), now.label(to)});
      }
  sortByPlace(out, planBefore, planNow);
  return out;
}

}  // namespace graft
