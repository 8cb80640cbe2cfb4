// The window's arrangements: which panels stand where, what the nodes' colours say, and the theme.
#include <QComboBox>
#include <QDockWidget>
#include <QJsonArray>
#include <QSettings>
#include <QStatusBar>
#include <QTabWidget>

#include "views/canvas/canvas.h"
#include "views/panels/diff_view.h"
#include "views/panels/explorer.h"
#include "views/panels/history_panel.h"
#include "views/panels/inspector.h"
#include "views/panels/rules/library_panel.h"
#include "views/panels/rules/rule_editor.h"
#include "views/widgets/theme.h"
#include "views/window/main_window.h"
#include "views/window/tour.h"

namespace graft {

void MainWindow::showRuleTab(int index) {
  if (arrangement_ != Arrangement::Rewrite) arrange(Arrangement::Rewrite);
  ruleTabs_->setCurrentIndex(index);
}

/// Of all three arrangements; what is in them stays.
void MainWindow::resetPanels() {
  QSettings settings;
  for (const Arrangement a : {Arrangement::Explore, Arrangement::Rewrite, Arrangement::Measure})
    settings.remove(QStringLiteral("arrangement%1").arg(static_cast<int>(a)));
  restoreState(firstPanels_, 2);
  arrange(arrangement_);
}

void MainWindow::arrange(Arrangement arrangement) {
  QSettings settings;
  arranging_ = true;
  const auto key = [](Arrangement a) { return QStringLiteral("arrangement%1").arg(static_cast<int>(a)); };
  if (isVisible() && arrangement != arrangement_ && document_->isOpen())
    settings.setValue(key(arrangement_), saveState(2));
  arrangement_ = arrangement;
  const QHash<QString, bool> shown = {{QStringLiteral("explorer"), arrangement == Arrangement::Explore},
                                      {QStringLiteral("rules"), arrangement == Arrangement::Rewrite},
                                      {QStringLiteral("inspector"), arrangement == Arrangement::Explore},
                                      {QStringLiteral("pattern"), arrangement == Arrangement::Rewrite},
                                      {QStringLiteral("history"), arrangement == Arrangement::Rewrite},
                                      {QStringLiteral("run"), arrangement == Arrangement::Measure}};
  if (!settings.contains(key(arrangement)) || !restoreState(settings.value(key(arrangement)).toByteArray(), 2)) {
    QHash<QString, QDockWidget*> d;
    for (QDockWidget* one : docks_) {
      one->setVisible(shown.value(one->objectName()));
      d.insert(one->objectName(), one);
    }
    if (arrangement == Arrangement::Explore)
      resizeDocks({d[QStringLiteral("explorer")], d[QStringLiteral("inspector")]}, {270, 320}, Qt::Horizontal);
    if (arrangement == Arrangement::Rewrite) {
      resizeDocks({d[QStringLiteral("rules")], d[QStringLiteral("pattern")]}, {480, 320}, Qt::Horizontal);
      resizeDocks({d[QStringLiteral("pattern")], d[QStringLiteral("history")]}, {460, historyHeight_}, Qt::Vertical);
    }
    if (arrangement == Arrangement::Measure) resizeDocks({d[QStringLiteral("run")]}, {380}, Qt::Vertical);
  }
  // The welcome page stands alone: panels about a model would be empty.
  if (!document_->isOpen())
    for (QDockWidget* one : docks_)
      if (one->objectName() != QLatin1String("rules")) one->hide();
  arranging_ = false;
  const char* names[] = {"explore", "rewrite", "measure"};
  action(QString::fromLatin1(names[static_cast<int>(arrangement)]))->setChecked(true);
  if (arrangement == Arrangement::Explore) canvas_->setFocus();
  if ((arrangement == Arrangement::Measure) != comparing_) setCompare(arrangement == Arrangement::Measure);
  if (tour_) QTimer::singleShot(0, tour_, &Tour::settle);  // once the panels have their places
}

void MainWindow::setOverlay(Overlay overlay) {
  overlay_ = overlay;
  overlayBox_->setCurrentIndex(static_cast<int>(overlay));
  if ((overlay == Overlay::Time || overlay == Overlay::Error) && document_->lastRun().isEmpty() && document_->isOpen())
    showFailure(tr("There is nothing measured yet"), tr("Run the model once (F5), then nodes are coloured by it"));
  else if (overlay == Overlay::Error && !document_->lastRun().isEmpty() &&
           document_->lastRun().value(QLatin1String("layers")).toArray().isEmpty())
    showFailure(tr("The last run did not look inside"), tr("Tick “Inside” beside Run, and run again (F5)"));
  refreshDecorations();
}

void MainWindow::setTheme(Theme theme) {
  applyTheme(theme);
  for (Canvas* c : {canvas_, before_, patternCanvas_}) c->setTheme(theme);
  inspector_->refreshTheme();
  history_->refreshTheme();
  explorer_->refreshTheme();
  refreshFailure();
  if (tour_) tour_->refreshTheme();
  library_->setTheme();
  editor_->refreshTheme();
  diff_->refreshTheme();
  for (QAction* a : findChildren<QAction*>())
    if (a->property("iconName").isValid()) a->setIcon(icon(a->property("iconName").toString()));
  refreshRecent();
  refreshBreadcrumb();
  Q_EMIT document_->selectionChanged();
  Q_EMIT document_->runChanged();
  Q_EMIT document_->nearMissesChanged();
  Q_EMIT document_->rulesChanged();
}

/// The library's tree and the preview below it want height: the history lends it, and has it back afterwards.
void MainWindow::makeRoomForLibrary(bool isShown) {
  if (arranging_ || !isVisible()) return;
  QDockWidget *above = dockNamed(isShown ? "library" : "pattern"), *history = dockNamed("history");
  constexpr int wide = 320, lent = 140;
  if (isShown && history->isVisible()) historyHeight_ = history->height();
  if (isShown) resizeDocks({above}, {wide}, Qt::Horizontal);
  const int height = isShown ? std::min(lent, historyHeight_) : historyHeight_;
  const int all = statusBar()->y() - centralWidget()->y() - 1;
  resizeDocks({above, history}, {all - height, height}, Qt::Vertical);
}

}  // namespace graft
