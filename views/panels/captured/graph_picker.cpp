#include "views/panels/captured/graph_picker.h"

namespace graft {

GraphPicker::GraphPicker(PanelContext& context, Capture& capture, QWidget* parent)
    : QToolButton(parent), context_(context), capture_(capture) {
  setObjectName(QStringLiteral("graphPicker"));
  setAutoRaise(true);
  setPopupMode(QToolButton::InstantPopup);
  setMenu(&menu_);
  setAccessibleName(tr("Graph of the capture"));
  menu_.setToolTipsVisible(true);
  connect(&menu_, &QMenu::aboutToShow, this, &GraphPicker::fill);
  connect(&capture_, &Capture::changed, this, &GraphPicker::refresh);
  connect(&context_.document(), &Document::opened, this, &GraphPicker::refresh);
  refresh();
}

void GraphPicker::refresh() {
  const Document& document = context_.document();
  setVisible(document.isOpen() && !document.capturedGraphs().isEmpty());
  setText(document.method());
  const auto count = document.capturedGraphs().size();
  setToolTip(count > 1 ? tr("The graph of the capture that is shown, one of %1. Click to choose another one").arg(count)
                       : tr("The only graph of the capture. Click for its guards"));
}

void GraphPicker::fill() {
  menu_.clear();
  Document& document = context_.document();
  int part = 0;
  QString file;
  QList<QPair<QString, QString>> others;
  for (const QString& name : document.capturedGraphs()) {
    const CapturedGraphInfo* g = capture_.find(name);
    if (g && g->folderEntry() != file) {
      menu_.addSection(g->folderEntry() + QLatin1String(".fx"));
      file = g->folderEntry();
      part = 0;
    }
    if (g && g->part() != part) menu_.addSeparator(), part = g->part();
    const QString text = g ? tr("%1 · %2").arg(name, g->nodesText()) : name;
    QAction* a = menu_.addAction(text, this, [this, name] { Q_EMIT context_.graphAsked(name); });
    a->setToolTip(CapturedGraphInfo::nodesTip());
    a->setCheckable(true);
    a->setChecked(name == document.method());
    if (name != document.method()) others << qMakePair(name, text);
  }
  menu_.addSeparator();
  QMenu* compare = menu_.addMenu(tr("Compare with"));
  for (const auto& [name, text] : others)
    compare->addAction(text, this,
                       [this, name = name] { context_.document().compareWith(context_.document().path(), name); });
  compare->setEnabled(!others.isEmpty());
  if (document.isJoint())
    menu_.addAction(tr("Training step"), this, [this] { Q_EMIT context_.actionAsked(QStringLiteral("training")); });
  menu_.addAction(tr("Guards"), this, [this] { Q_EMIT context_.panelAsked(QStringLiteral("guards")); });
}

}  // namespace graft
