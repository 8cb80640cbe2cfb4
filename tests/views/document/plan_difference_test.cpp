// What differs between two plans of one graph: groups by their nodes, whatever their names, and nodes that moved.
#include <QTest>

#include "views/document/compile/kernel_graph.h"
#include "views/document/compile/plan_difference.h"

using namespace graft;

namespace {

/// "a b | c d": a generated kernel of a and b, numbered k0, and one of c and d; "(e)" runs by itself.
CompilePlan planOf(const QString& text) {
  CompilePlan plan;
  int number = 0;
  for (const QString& part : text.split(QLatin1Char('|'))) {
    KernelInfo k;
    QString nodes = part.trimmed();
    const bool isAlone = nodes.startsWith(QLatin1Char('('));
    if (isAlone) nodes = nodes.mid(1, nodes.size() - 2);
    k.nodes = k.inside = k.coloured = nodes.split(QLatin1Char(' '));
    k.origin = isAlone ? KernelOrigin::Aten : KernelOrigin::Generated;
    k.name = isAlone ? nodes : QStringLiteral("k%1").arg(number++);
    k.label = k.nodes.join(QStringLiteral(" · "));
    for (const QString& node : k.nodes) plan.byNode.insert(node, plan.kernels.size());
    plan.kernels.push_back(k);
  }
  return plan;
}

/// "~k1: + e; −k0", each group by the name that it has now, or had before.
QString groupsOf(const PlanDifference& d) {
  QStringList out;
  for (const GroupDifference& g : d.groups)
    out << g.sign() + (g.now.isEmpty() ? g.before : g.now) + QStringLiteral(": ") + g.word();
  return out.join(QStringLiteral("; "));
}

QString movedOf(const PlanDifference& d) {
  QStringList out;
  for (const MovedNode& m : d.moved) out << m.node + QLatin1Char(':') + m.from + QStringLiteral("→") + m.to;
  return out.join(QStringLiteral("; "));
}

class PlanDifferenceTest : public QObject {
  Q_OBJECT

  static PlanDifference between(const char* before, const char* now) {
    return planDifference(planOf(QString::fromUtf8(before)), planOf(QString::fromUtf8(now)));
  }

 private Q_SLOTS:
  void equalPlansDifferInNothing() {
    const PlanDifference d = between("a b | (c) | d e", "a b | (c) | d e");
    QVERIFY(d.isEmpty());
    QCOMPARE(d.text(), QStringLiteral("the same groups"));
    QCOMPARE(d.same.value(QStringLiteral("k1")), QStringLiteral("k1"));
  }

  void aGroupIsTheSameWhateverItsNumber() {
    const PlanDifference d = between("a b | c d | e f", "(a) | (b) | c d | e f");
    QCOMPARE(groupsOf(d), QStringLiteral("−k0: only in the other plan"));
    QCOMPARE(movedOf(d), QStringLiteral("a:a · b→; b:a · b→"));
    QCOMPARE(d.same.value(QStringLiteral("k1")), QStringLiteral("k0"));
    QCOMPARE(d.same.value(QStringLiteral("k2")), QStringLiteral("k1"));
    QCOMPARE(d.text(), QStringLiteral("1 group differs, 2 nodes moved"));
    QVERIFY(d.ofBefore(QStringLiteral("k0")) && !d.ofNow(QStringLiteral("k0")) && !d.ofNow(QString()));
  }

  void aNodeThatMovedChangesBothGroups() {
    const PlanDifference d = between("a b c | d e", "a b | c d e");
    QCOMPARE(groupsOf(d), QStringLiteral("~k0: other nodes: − c; ~k1: other nodes: + c"));
    QCOMPARE(movedOf(d), QStringLiteral("c:a b c→c d e").replace(QLatin1Char(' '), QStringLiteral(" · ")));
    QCOMPARE(d.groups[0].place(), QStringLiteral("c"));
    QCOMPARE(d.text(), QStringLiteral("2 groups differ, 1 node moved"));
    QVERIFY(d.ofNode(QStringLiteral("c")) && !d.ofNode(QStringLiteral("a")));
  }

  void aGroupThatIsNewIsOnlyInThisPlan() {
    const PlanDifference d = between("a b | (c) | (d)", "a b | c d");
    QCOMPARE(groupsOf(d), QStringLiteral("+k1: only in this plan"));
    QCOMPARE(movedOf(d), QStringLiteral("c:→c · d; d:→c · d"));
  }

  void groupsThatBecomeOneLeaveTheLargerOne() {
    const PlanDifference d = between("a b | c d e", "a b c d e");
    QCOMPARE(groupsOf(d), QStringLiteral("~k0: other nodes: + a, b; −k0: only in the other plan"));
    QCOMPARE(d.moved.size(), size_t{2});
  }

  void whatIsTheSameIsNoOthersCounterpart() {
    // k0 of two nodes shares more with the larger group, but is there as it was.
    const PlanDifference d = between("a b | c d e f", "c d e f | a b");
    QVERIFY(d.isEmpty());
  }

  void moreNodesThanFitAreCounted() {
    const PlanDifference d = between("a b c d e f", "f g h i j k a b c d e");
    QCOMPARE(d.groups[0].word(), QStringLiteral("other nodes: + g, h, i and 2 more"));
  }

  void codeMayDifferOfTheSameNodes() {
    CompilePlan before = planOf(QStringLiteral("a b | c d")), now = before;
    now.kernels[0].edited = QStringLiteral("loops");
    now.kernels[0].origin = KernelOrigin::Edited;
    now.kernels[1].schedule = QStringLiteral("lanes i1");
    QCOMPARE(groupsOf(planDifference(before, now)), QStringLiteral("~k0: edited by hand; ~k1: another schedule"));
    QCOMPARE(planDifference(now, before).groups[0].word(), QStringLiteral("no longer edited by hand"));
    QVERIFY(planDifference(before, now).moved.empty());
  }

  void viewsCountForNothing() {
    CompilePlan before = planOf(QStringLiteral("a v b | c d")), now = planOf(QStringLiteral("a b | v c d"));
    before.kernels[0].coloured = {QStringLiteral("a"), QStringLiteral("b")};
    now.kernels[1].coloured = {QStringLiteral("c"), QStringLiteral("d")};
    QVERIFY(planDifference(before, now).isEmpty());
  }

  void onlyEqualGroupsShareAContainer() {
    const CompilePlan before = planOf(QStringLiteral("a b | c d | e f"));
    const ContainerNames names =
        containersBeside(planDifference(before, planOf(QStringLiteral("c d | e f g"))), before);
    QCOMPARE(names.value(QStringLiteral("k1")), containerOf(QStringLiteral("k0")));
    for (const char* other : {"k0", "k2"})
      for (const char* now : {"k0", "k1"})
        QVERIFY(names.value(QLatin1String(other)) != containerOf(QLatin1String(now)));
  }
};

}  // namespace

QTEST_GUILESS_MAIN(PlanDifferenceTest)
#include "plan_difference_test.moc"
