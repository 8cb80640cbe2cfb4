#include "views/panels/rules/rule_from_selection.h"

#include <QDialogButtonBox>
#include <QHash>
#include <QLabel>
#include <QPushButton>
#include <QSet>
#include <QVBoxLayout>
#include <algorithm>

#include "views/document/document.h"
#include "views/document/graph_decode.h"
#include "views/layout/node_text.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

std::vector<NodeId> nodesNamed(const Graph& g, const QStringList& names) {
  const QSet<QString> wanted(names.begin(), names.end());
  std::vector<NodeId> out;
  for (const NodeId id : g.order())
    if (wanted.contains(toQt(g.node(id).name))) out.push_back(id);
  return out;
}

/// How a pattern declares a parameter that stands for this literal; "" where none can.
QString kindOf(const Argument& a) {
  if (a.as<bool>()) return QStringLiteral("bool");
  // What is whole here may be a float where else the pattern is to match.
  if (a.as<int64_t>()) return QStringLiteral("Number");
  if (a.as<double>()) return QStringLiteral("float");
  if (a.as<std::string>()) return QStringLiteral("str");
  const auto* items = a.items();
  const bool areInts = a.isList() && items && !items->empty() &&
                       std::all_of(items->begin(), items->end(), [](const Argument& i) { return i.as<int64_t>(); });
  return areInts ? QStringLiteral("list[int]") : QString();
}

/// Arguments that the pattern spells: those that say something the schema's defaults do not.
bool isSpelled(const Node& n, size_t i) {
  if (i < n.op->parameters.size() && n.op->parameters[i].defaultValue == n.args[i]) return false;
  return !(n.args[i].isNone() && i > 0);
}

QString literalKey(const Node& n, size_t i) {
  return toQt(n.name) + QLatin1Char('.') +
         (i < n.op->parameters.size() ? toQt(n.op->parameters[i].name) : QString::number(i));
}

QString identifier(QString name) { return name.replace(QLatin1Char('.'), QLatin1Char('_')); }

}  // namespace

std::vector<SelectedLiteral> literalsOf(const Graph& g, const QStringList& names) {
  std::vector<SelectedLiteral> out;
  for (const NodeId id : nodesNamed(g, names)) {
    const Node& n = g.node(id);
    for (size_t i = 0; i < n.args.size(); ++i)
      if (const QString kind = kindOf(n.args[i]); !kind.isEmpty() && isSpelled(n, i))
        out.push_back({literalKey(n, i), toQt(argumentText(n.args[i], g)), kind});
  }
  return out;
}

QString patternFromNodes(const Graph& g, const QStringList& names, const QStringList& asParameters) {
  const std::vector<NodeId> nodes = nodesNamed(g, names);
  if (nodes.empty()) return {};
  QSet<uint32_t> inside;
  for (const NodeId id : nodes)
    for (ValueId v : g.node(id).outputs) inside.insert(v.index);
  QHash<uint32_t, QString> name;
  QStringList parameters, literals, body, returned;
  auto parameter = [&](ValueId v) {
    if (name.contains(v.index)) return;
    const QString base = identifier(toQt(g.value(v).name));
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
      if (!isSpelled(n, i)) continue;
      QString text = spell(n.args[i]);
      if (const QString key = literalKey(n, i); asParameters.contains(key)) {
        text = identifier(key);
        literals << text + QStringLiteral(": ") + kindOf(n.args[i]);
      }
      args << (known && i > 1 ? toQt(n.op->parameters[i].name) + QLatin1Char('=') : QString()) + text;
    }
    const std::string_view op = n.op->name;
    // kernels.* for our own operators; torch.ops spells any other exactly.
    const QString function = op.starts_with("graft.") ? QStringLiteral("kernels.") + toQt(n.op->baseName())
                                                      : QStringLiteral("torch.ops.") + toQt(n.op->packetName());
    QStringList results;
    for (ValueId v : n.outputs) {
      const QString own = identifier(toQt(g.value(v).name));
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
  const QString head = (parameters + literals).join(QStringLiteral(", "));
  return QStringLiteral(
             "class NewRule(Rule):\n    \"\"\"Made from a selection of %1 nodes.\"\"\"\n\n    def pattern(%2):\n%3\n   "
             "     return %4\n")
      .arg(nodes.size())
      .arg(head, body.join(QLatin1Char('\n')), returned.join(QStringLiteral(", ")));
}

RuleFromSelection::RuleFromSelection(std::shared_ptr<const Graph> graph, QStringList names,
                                     std::function<void(const QString&)> take, QWidget* parent)
    : QDialog(parent), graph_(std::move(graph)), names_(std::move(names)) {
  setWindowTitle(tr("New rule from %1").arg(counted(names_.size(), tr("node"), tr("nodes"))));
  setAttribute(Qt::WA_DeleteOnClose);
  list_ = new QListWidget(this);
  list_->setAccessibleName(tr("Literals that become parameters"));
  for (const SelectedLiteral& l : literalsOf(*graph_, names_)) {
    auto* item = new QListWidgetItem(QStringLiteral("%1 = %2").arg(l.key, l.text), list_);
    item->setData(Qt::UserRole, l.key);
    item->setCheckState(Qt::Unchecked);
    item->setToolTip(tr("Ticked: any %1 matches, and the replacement can use it").arg(l.kind));
  }
  list_->setMaximumHeight(180);
  auto* question = new QLabel(list_->count() > 0 ? tr("Which of these may differ from place to place?")
                                                 : tr("These nodes have no literal arguments."));
  text_ = new QPlainTextEdit(this);
  text_->setAccessibleName(tr("The rule"));
  text_->setReadOnly(true);
  text_->setFont(monospace());
  text_->setLineWrapMode(QPlainTextEdit::NoWrap);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel);
  buttons->button(QDialogButtonBox::Ok)->setText(tr("Make the rule"));
  auto* column = new QVBoxLayout(this);
  column->addWidget(question);
  column->addWidget(list_);
  column->addWidget(text_, 1);
  column->addWidget(buttons);
  list_->setVisible(list_->count() > 0);
  resize(640, 480);
  connect(list_, &QListWidget::itemChanged, this, &RuleFromSelection::refresh);
  connect(buttons, &QDialogButtonBox::accepted, this, [this, take = std::move(take)] {
    take(text());
    accept();
  });
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  refresh();
}

void RuleFromSelection::refresh() {
  QStringList ticked;
  for (int i = 0; i < list_->count(); ++i)
    if (list_->item(i)->checkState() == Qt::Checked) ticked << list_->item(i)->data(Qt::UserRole).toString();
  text_->setPlainText(patternFromNodes(*graph_, names_, ticked));
}

}  // namespace graft
