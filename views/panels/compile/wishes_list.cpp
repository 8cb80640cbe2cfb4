#include "views/panels/compile/wishes_list.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QJsonArray>
#include <QJsonDocument>
#include <QVBoxLayout>

#include "views/document/document_replies.h"
#include "views/widgets/empty_hint.h"

namespace graft {
namespace {

constexpr int entryRole = Qt::UserRole, wishedRole = Qt::UserRole + 1;

struct Entry {
  QString wish;
  QStringList nodes;
};

Entry readEntry(const QString& kind, const QJsonValue& v) {
  const QJsonObject o = v.toObject();
  if (kind == QLatin1String("merge")) return {WishesList::tr("Fuse"), strings(v)};
  if (kind == QLatin1String("apart")) return {WishesList::tr("Keep apart"), strings(v)};
  if (kind == QLatin1String("move"))
    return {WishesList::tr("Move"), {at(o, "node").toString(), at(o, "to").toString()}};
  const QString what = o.contains(QLatin1String("source"))  ? WishesList::tr("C++ edited by hand")
                       : o.contains(QLatin1String("loops")) ? WishesList::tr("Loops edited by hand")
                                                            : WishesList::tr("Schedule");
  return {what, strings(at(o, "nodes"))};
}

}  // namespace

WishesList::WishesList(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  tree_ = new QTreeWidget(this);
  tree_->setAccessibleName(tr("Overrides"));
  tree_->setHeaderLabels({tr("Override"), tr("Nodes"), tr("Why it cannot be applied")});
  tree_->setRootIsDecorated(false);
  tree_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
  tree_->header()->setStretchLastSection(true);
  new EmptyHint(
      tree_,
      tr("You have changed nothing in this plan. What you fuse, keep apart, move, schedule or edit is listed here. "
         "Save writes it as fusion.json, for “graft optimize --fusion”."));
  remove_ = new QPushButton(tr("Remove"), this);
  remove_->setToolTip(tr("The plan is made without this override"));
  auto* open = new QPushButton(tr("&Open…"), this);
  auto* save = new QPushButton(tr("&Save…"), this);
  auto* across = new QHBoxLayout;
  across->addStretch(1);
  for (QPushButton* b : {remove_, open, save}) across->addWidget(b);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 6, 0, 0);
  column->addLayout(across);
  column->addWidget(tree_, 1);
  connect(open, &QPushButton::clicked, this, [this] { Q_EMIT actionAsked(QStringLiteral("openPlan")); });
  connect(save, &QPushButton::clicked, this, [this] { Q_EMIT actionAsked(QStringLiteral("savePlan")); });
  connect(remove_, &QPushButton::clicked, this, [this] {
    if (const QTreeWidgetItem* row = tree_->currentItem())
      document_.compilation().removeEntry(row->data(Wish, entryRole).toString());
  });
  connect(tree_, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* row) {
    remove_->setEnabled(row != nullptr);
    if (row) Q_EMIT chosen(row->data(Wish, wishedRole).toStringList());
  });
  connect(&document_.compilation(), &Compilation::changed, this, &WishesList::refresh);
  remove_->setEnabled(false);
}

void WishesList::refresh() {
  const CompilePlan& plan = document_.compilation().plan();
  QHash<QString, QString> why;
  for (const UnappliedEntry& u : plan.unapplied) why.insert(u.entry, u.why);
  tree_->clear();
  remove_->setEnabled(false);
  const QJsonObject steering = QJsonDocument::fromJson(document_.compilation().steering().toUtf8()).object();
  for (const char* kind : {"merge", "apart", "move", "kernels"}) {
    const QJsonArray list = at(steering, kind).toArray();
    for (qsizetype i = 0; i < list.size(); ++i) {
      const QString key = QLatin1String(kind);
      const Entry entry = readEntry(key, list[i]);
      const QString name = QStringLiteral("%1[%2]").arg(key).arg(i);
      auto* row = new QTreeWidgetItem(tree_, {entry.wish, entry.nodes.join(QStringLiteral(", ")), why.value(name)});
      row->setData(Wish, entryRole, name);
      row->setData(Wish, wishedRole, entry.nodes);
      row->setToolTip(Nodes, row->text(Nodes));
      row->setToolTip(Why, row->text(Why));
      if (why.contains(name)) row->setIcon(Wish, icon(QStringLiteral("warning")));
    }
  }
}

}  // namespace graft
