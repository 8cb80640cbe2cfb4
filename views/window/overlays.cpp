#include "views/window/overlays.h"

#include <QCoreApplication>
#include <QJsonArray>
#include <algorithm>
#include <limits>
#include <utility>

#include "views/document/graph_decode.h"

namespace graft {
namespace {

QString overlayText(const char* text) { return QCoreApplication::translate("Overlays", text); }

}  // namespace

void addChanges(DecorationPair& d, const std::vector<RecordInfo>& records) {
  for (const RecordInfo& r : records) {
    for (const QString& name : r.removed) d.before.changes.insert(name, Change::Removed);
    for (const QString& name : r.added) d.after.changes.insert(name, Change::Added);
  }
  d.before.fades = d.after.fades = !(d.before.changes.isEmpty() && d.after.changes.isEmpty());
}

void addPlanDifference(DecorationPair& d, const PlanDifference& difference, const ContainerNames& before) {
  using Kind = GroupDifference::Kind;
  const auto key = [](const std::string& container) { return QLatin1Char('@') + QString::fromStdString(container); };
  for (const GroupDifference& g : difference.groups) {
    if (!g.before.isEmpty())
      d.before.changes.insert(key(before.value(g.before)),
                              g.kind == Kind::OnlyBefore ? Change::Removed : Change::Changed);
    if (!g.now.isEmpty())
      d.after.changes.insert(key(containerOf(g.now)), g.kind == Kind::OnlyNow ? Change::Added : Change::Changed);
  }
  for (Decorations* one : {&d.before, &d.after}) {
    for (const MovedNode& m : difference.moved) one->changes.insert(m.node, Change::Moved);
    one->fades = !difference.isEmpty();
    one->changeWords = {{Change::Removed, overlayText("− only in the other plan")},
                        {Change::Added, overlayText("+ only in this plan")},
                        {Change::Changed, overlayText("~ other nodes or code")},
                        {Change::Moved, overlayText("→ in another group")}};
  }
}

void addMatches(Decorations& d, const RuleInfo& rule) {
  int number = 0;
  for (const MatchInfo& m : rule.matches) {
    for (auto it = m.map.begin(); it != m.map.end(); ++it) {
      d.pattern.insert(it.value(), static_cast<int>(std::max<qsizetype>(0, rule.patternOrder.indexOf(it.key()))));
      d.match.insert(it.value(), number);
    }
    for (const QString& node : m.nodes)
      if (!d.pattern.contains(node)) d.pattern.insert(node, 0), d.match.insert(node, number);
    ++number;
  }
}

void addKernel(Decorations& d, const KernelInfo& kernel) {
  const QStringList& nodes = kernel.isInPlace || kernel.coloured.isEmpty() ? kernel.nodes : kernel.coloured;
  for (qsizetype i = 0; i < nodes.size(); ++i) d.pattern.insert(nodes[i], static_cast<int>(i));
  d.countsMatches = false;
}

void addTimes(DecorationPair& d, const QJsonObject& run) {
  const QJsonObject times = run.value(QLatin1String("nodeTimes")).toObject();
  for (const auto& [side, one] : {std::pair{"original", &d.before}, std::pair{"rewritten", &d.after}}) {
    const QJsonObject list = times.value(QLatin1String(side)).toObject();
    for (auto it = list.begin(); it != list.end(); ++it) one->heat.insert(it.key(), it.value().toDouble());
    one->heatTitle = overlayText("time in each node");
    one->heatUnit = QStringLiteral("µs");
  }
}

void addErrors(DecorationPair& d, const QJsonObject& run) {
  for (const QJsonValue v : run.value(QLatin1String("layers")).toArray()) {
    const QJsonObject layer = v.toObject();
    const QJsonValue value = layer.value(QLatin1String("rmse"));
    const double rmse = value.isString() ? value.toString().toDouble() : value.toDouble();
    d.after.heat.insert(layer.value(QLatin1String("rewritten")).toString(), rmse);
    d.before.heat.insert(layer.value(QLatin1String("original")).toString(), rmse);
  }
  for (Decorations* one : {&d.after, &d.before}) {
    one->heatAdds = false;
    one->heatTitle = overlayText("RMSE against the original");
  }
}

void addWeights(Decorations& d, const Graph& g) {
  for (const NodeId id : g.order()) {
    double bytes = 0;
    for (const Argument& a : g.node(id).args)
      a.forEachValue([&](ValueId v) {
        const Type& t = g.value(v).type;
        if (!g.isWeight(v) || !t.tensorInfo.shape) return;
        double n = t.tensorInfo.dtype ? static_cast<double>(dtypeSize(*t.tensorInfo.dtype)) : 4;
        for (const Dim& dim : *t.tensorInfo.shape) n *= static_cast<double>(std::max<int64_t>(1, dim.size));
        bytes += n;
      });
    if (bytes > 0) d.heat.insert(toQt(g.node(id).name), bytes);
  }
  d.changes.clear();  // a colour says one thing: not what changed, too
  d.heatTitle = overlayText("weights");
  d.heatUnit = QStringLiteral("B");
}

void addNumbers(Decorations& d, const NodeNumbers& numbers) {
  for (const auto& [name, value] : numbers.values) d.heat.insert(toQt(name), value);
  d.changes.clear();
  d.heatAdds = numbers.adds;
  d.heatLeast = std::numeric_limits<double>::infinity();  // they may all be far from 0, or below
  d.heatMost = -d.heatLeast;
  d.heatTitle = toQt(numbers.title);
  d.heatUnit = toQt(numbers.unit);
}

}  // namespace graft
