#include "views/rule_from_selection.h"

#include <QHash>
#include <QSet>

#include "views/graph_decode.h"
#include "views/layout/node_text.h"

namespace graft {

QString patternFromNodes(const Graph& g, const QStringList& names) {
  std::vector<NodeId> nodes;
  for (const NodeId id : g.order())
    if (names.contains(toQt(g.node(id).name))) nodes.push_back(id);
  if (nodes.empty()) return {};
  QSet<uint32_t> inside;
  for (const NodeId id : nodes)
    for (ValueId v : g.node(id).outputs) inside.insert(v.index);
  QHash<uint32_t, QString> name;
  QStringList parameters, body, returned;
  auto parameter = [&](ValueId v) {
    if (name.contains(v.index)) return;
    const QString base = toQt(g.value(v).name).replace(QLatin1Char('.'), QLatin1Char('_'));
    const bool weight = g.isWeight(v);
    QString own = weight              ? QStringLiteral("w%1").arg(parameters.size())
                  : base.size() <= 12 ? base
                                      : QStringLiteral("x%1").arg(parameters.size());
    name.insert(v.index, own);
    parameters << (weight ? own + QStringLiteral(": Weight") : own);
  };
  for (const NodeId id : nodes) {
    const Node& n = g.node(id);
    for (const Argument& a : n.args)
      a.forEachValue([&](ValueId v) {
        if (!inside.contains(v.index)) parameter(v);
      });
  }
  std::function<QString(const Argument&)> spell = [&](const Argument& a) -> QString {
    if (a.isValue()) return name.value(a.valueId().index, QStringLiteral("_"));
    if (const auto* items = a.items()) {
      QStringList parts;
      for (const Argument& i : *items) parts << spell(i);
      return a.isList() ? QLatin1Char('[') + parts.join(QStringLiteral(", ")) + QLatin1Char(']')
                        : QLatin1Char('(') + parts.join(QStringLiteral(", ")) + QStringLiteral(",)");
    }
    return toQt(argumentText(a, g));
  };
  for (const NodeId id : nodes) {
    const Node& n = g.node(id);
    QStringList args;
    for (size_t i = 0; i < n.args.size(); ++i) {
      const bool known = i < n.op->parameters.size();
      if (known && n.op->parameters[i].defaultValue == n.args[i]) continue;
      if (n.args[i].isNone() && i > 0) continue;
      args << (known && i > 1 ? toQt(n.op->parameters[i].name) + QLatin1Char('=') : QString()) + spell(n.args[i]);
    }
    const std::string_view op = n.op->name;
    // kernels.* for our own operators; torch.ops spells any other exactly.
    const QString function = op.starts_with("graft.") ? QStringLiteral("kernels.") + toQt(n.op->baseName())
                                                      : QStringLiteral("torch.ops.") + toQt(n.op->packetName());
    QStringList results;
    for (ValueId v : n.outputs) {
      const QString own = toQt(g.value(v).name).replace(QLatin1Char('.'), QLatin1Char('_'));
      name.insert(v.index, own);
      results << own;
      bool leaves = g.value(v).returnUses > 0 || g.value(v).users.empty();
      for (NodeId user : g.value(v).users)
        leaves = leaves || std::find(nodes.begin(), nodes.end(), user) == nodes.end();
      if (leaves) returned << own;
    }
    body << QStringLiteral("        %1 = %2(%3)")
                .arg(results.join(QStringLiteral(", ")), function, args.join(QStringLiteral(", ")));
  }
  const QString head = parameters.join(QStringLiteral(", "));
  return QStringLiteral(
             "class NewRule(Rule):\n    \"\"\"Made from a selection of %1 nodes.\"\"\"\n\n    def pattern(%2):\n%3\n   "
             "     return %4\n")
      .arg(nodes.size())
      .arg(head, body.join(QLatin1Char('\n')), returned.join(QStringLiteral(", ")));
}

}  // namespace graft
