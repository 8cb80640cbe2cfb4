#include "views/panels/changes_panel.h"

#include <QHeaderView>

#include "views/widgets/empty_hint.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int nodeRole = Qt::UserRole;

}  // namespace

ChangesPanel::ChangesPanel(Document& document, QWidget* parent) : QTreeWidget(parent), document_(document) {
  setAccessibleName(tr("Changes"));
  setHeaderLabels({tr("Where"), tr("Nodes")});
  setUniformRowHeights(true);
  setIndentation(14);
  header()->setStretchLastSection(false);
  header()->setSectionResizeMode(0, QHeaderView::Stretch);
  header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  new EmptyHint(this, tr("Nothing has been changed. What rules rewrite is listed here; F8 goes from one to the next."));
  connect(this, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    if (item && !item->data(0, nodeRole).toString().isEmpty()) Q_EMIT nodeChosen(item->data(0, nodeRole).toString());
  });
  for (auto signal : {&Document::graphChanged, &Document::otherChanged, &Document::opened})
    connect(&document_, signal, this, &ChangesPanel::refresh);
}

void ChangesPanel::showEvent(QShowEvent* e) {
  QTreeWidget::showEvent(e);
  refresh();
}

QTreeWidgetItem* ChangesPanel::groupOf(const QString& title) {
  for (int i = 0; i < topLevelItemCount(); ++i)
    if (topLevelItem(i)->text(0) == title) return topLevelItem(i);
  auto* group = new QTreeWidgetItem(this, {title});
  group->setExpanded(true);
  return group;
}

void ChangesPanel::refresh() {
  if (!isVisible()) return;
  const QSignalBlocker quiet(this);
  clear();
  if (!document_.isOpen()) return;
  const Palette& p = themePalette();
  const auto add = [&](QTreeWidgetItem* group, const QString& text, const QString& numbers, const QString& node,
                       Change change) {
    auto* item = new QTreeWidgetItem(group, {text, numbers});
    item->setTextAlignment(1, Qt::AlignRight | Qt::AlignVCenter);
    item->setData(0, nodeRole, node);
    if (change != Change::None) item->setForeground(0, toQt(p.change(change)));
    return item;
  };
  for (const RecordInfo& r : document_.recordsToHere()) {
    if (r.rule.isEmpty()) {  // of another file: each node by itself
      for (const QString& n : r.removed)
        add(groupOf(tr("Only in the other model")), QStringLiteral("− ") + n, {}, {}, Change::Removed);
      for (const QString& n : r.added)
        add(groupOf(tr("Only in this model")), QStringLiteral("+ ") + n, {}, n, Change::Added);
      continue;
    }
    QTreeWidgetItem* item = add(groupOf(r.rule), r.scope.isEmpty() ? tr("(the model)") : r.scope,
                                tr("%1 → %2").arg(r.removed.size()).arg(r.added.size()),
                                r.added.isEmpty() ? QString() : r.added.last(), Change::None);
    item->setToolTip(
        0, QStringLiteral("− %1\n+ %2").arg(r.removed.join(QStringLiteral(", ")), r.added.join(QStringLiteral(", "))));
  }
  for (int i = 0; i < topLevelItemCount(); ++i) {
    topLevelItem(i)->setText(1, QString::number(topLevelItem(i)->childCount()));
    topLevelItem(i)->setTextAlignment(1, Qt::AlignRight | Qt::AlignVCenter);
  }
}

PanelDescription changesPanel() {
  PanelDescription d;
  d.name = QStringLiteral("changes");
  d.title = ChangesPanel::tr("List of &changes");
  d.help = ChangesPanel::tr("Lists what was removed and added from the original to the model as it is shown");
  d.shortcut = ChangesPanel::tr("Ctrl+F8");
  d.area = Qt::RightDockWidgetArea;
  d.isOnRequest = true;
  d.arrangements = {Arrangement::Explore, Arrangement::Rewrite, Arrangement::Measure};
  d.size = {320, 0};
  d.make = [](PanelContext& context) {
    auto* changes = new ChangesPanel(context.document());
    QObject::connect(changes, &ChangesPanel::nodeChosen, &context, &PanelContext::nodeAsked);
    return changes;
  };
  return d;
}

}  // namespace graft
