// The window's two canvases: what they show, what decorates them, and how they move together.
#include <QComboBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QSplitter>
#include <QStackedWidget>
#include <QStatusBar>

#include "views/canvas/canvas.h"
#include "views/document/graph_decode.h"
#include "views/document/model_files.h"
#include "views/panels/diff_view.h"
#include "views/panels/explorer.h"
#include "views/window/main_window.h"

namespace graft {

void MainWindow::refreshCanvases() {
  const bool preview = document_->isPreviewing(), both = comparing_ || preview;
  const bool appears = both && !before_->isVisibleTo(canvases_);
  following_ = true;  // both change: the one that is set first must not lead the other
  if (!before_->scene()) before_->setViewOptions(canvas_->viewOptions());
  before_->setGraph(!both ? nullptr : preview ? document_->graph() : document_->original());
  canvas_->setGraph(preview ? document_->previewGraph() : document_->graph());
  following_ = false;
  const QString other = document_->otherPath();
  const QString name = QFileInfo(document_->path()).fileName();
  canvas_->setTitle(preview           ? tr("preview: not applied yet")
                    : !comparing_     ? QString()
                    : other.isEmpty() ? tr("now")
                                      : name);
  before_->setTitle(preview || other.isEmpty() ? tr("before") : QFileInfo(other).fileName());
  before_->setVisible(both);
  if (appears) canvases_->setSizes({canvases_->width() / 2, canvases_->width() / 2});
  if (both) QTimer::singleShot(0, this, [this] { followView(canvas_, before_); });
  explorer_->setGraph(document_->graph());
  changeAt_ = -1;
  refreshSelection();
  refreshDecorations();
  refreshStatus();
}

void MainWindow::refreshSelection() {
  const QStringList keys = document_->selection();
  canvas_->setSelection(keys);
  QStringList others;
  for (const QString& key : keys) others << counterpart(key, false);
  before_->setSelection(others);
  explorer_->setSelection(keys);
  refreshBreadcrumb();
}

void MainWindow::refreshDecorations() {
  Decorations after, before;
  const bool preview = document_->isPreviewing();
  if (comparing_ || preview) {
    for (const RecordInfo& r : preview ? document_->previewRecords() : document_->recordsToHere()) {
      for (const QString& name : r.removed) before.changes.insert(name, Change::Removed);
      for (const QString& name : r.added) after.changes.insert(name, Change::Added);
    }
    before.fades = after.fades = !(before.changes.isEmpty() && after.changes.isEmpty());
  }
  if (overlay_ != Overlay::Kind) before.fades = after.fades = false;
  if (overlay_ == Overlay::Time) {
    const QJsonObject times = document_->lastRun().value(QLatin1String("nodeTimes")).toObject();
    for (const auto& [side, d] : {std::pair{"original", &before}, std::pair{"rewritten", &after}}) {
      const QJsonObject list = times.value(QLatin1String(side)).toObject();
      for (auto it = list.begin(); it != list.end(); ++it) d->heat.insert(it.key(), it.value().toDouble());
      d->changes.clear();
      d->heatTitle = tr("time in each node");
      d->heatUnit = QStringLiteral("µs");
    }
  } else if (overlay_ == Overlay::Error) {
    addErrors(after, before);
  } else if (overlay_ == Overlay::Weights && document_->graph()) {
    // One colour says one thing: what changed is not told at the same time.
    for (const auto& [canvas, d] : {std::pair{canvas_, &after}, std::pair{before_, &before}}) {
      d->changes.clear();
      if (canvas->scene()) addWeights(*d, *canvas->scene()->graph);
    }
  } else if (const RuleInfo* rule = document_->rule(document_->currentRule()); rule && !comparing_ && !preview) {
    after.stale = document_->ruleError().any();
    int number = 0;
    for (const MatchInfo& m : rule->matches) {
      for (auto it = m.map.begin(); it != m.map.end(); ++it) {
        after.pattern.insert(it.value(),
                             static_cast<int>(std::max<qsizetype>(0, rule->patternOrder.indexOf(it.key()))));
        after.match.insert(it.value(), number);
      }
      for (const QString& node : m.nodes)
        if (!after.pattern.contains(node)) after.pattern.insert(node, 0), after.match.insert(node, number);
      ++number;
    }
  }
  canvas_->setDecorations(after);
  before_->setDecorations(before);
  if (after.heat.isEmpty() || before.heat.isEmpty() || !before_->scene()) return;
  // One scale for both: the same colour is the same time.
  after.heatMost = before.heatMost = std::max(canvas_->boxDecorations().most, before_->boxDecorations().most);
  canvas_->setDecorations(after);
  before_->setDecorations(before);
}

/// How far each value inside is from the original's: the RMSE against it, of modules the largest in them. On both sides
/// alike: one looks for the place where one reads.
void MainWindow::addErrors(Decorations& after, Decorations& before) const {
  for (const QJsonValue v : document_->lastRun().value(QLatin1String("layers")).toArray()) {
    const QJsonObject layer = v.toObject();
    const QJsonValue value = layer.value(QLatin1String("rmse"));
    const double rmse = value.isString() ? value.toString().toDouble() : value.toDouble();
    after.heat.insert(layer.value(QLatin1String("rewritten")).toString(), rmse);
    before.heat.insert(layer.value(QLatin1String("original")).toString(), rmse);
  }
  for (Decorations* d : {&after, &before}) {
    d->changes.clear();
    d->heatAdds = false;
    d->heatTitle = tr("RMSE against the original");
  }
}

/// What each node's weights take, modules the sum of theirs.
void MainWindow::addWeights(Decorations& d, const Graph& g) {
  for (const NodeId id : g.order()) {
    double bytes = 0;
    for (const Argument& a : g.node(id).args)
      a.forEachValue([&](ValueId v) {
        const Type& t = g.value(v).type;
        if (!g.isWeight(v) || !t.tensorInfo.shape) return;
        double n = t.tensorInfo.dtype ? static_cast<double>(dtypeSize(*t.tensorInfo.dtype)) : 4;
        for (const Dim& d : *t.tensorInfo.shape) n *= static_cast<double>(std::max<int64_t>(1, d.size));
        bytes += n;
      });
    if (bytes > 0) d.heat.insert(toQt(g.node(id).name), bytes);
  }
  d.heatTitle = tr("weights");
  d.heatUnit = QStringLiteral("B");
}

/// The name that stands for `key` in the other snapshot, by the rewriter's records.
QString MainWindow::counterpart(const QString& key, bool toAfter) const {
  const GraphRef there = toAfter ? document_->graph() : document_->original();
  if (!there || key.startsWith(QLatin1Char('@')) || key.startsWith(QLatin1Char('<')) ||
      key.startsWith(QLatin1Char('>')))
    return key;
  // The records first: what a rewrite added may bear the name of something else that went.
  if (document_->otherPath().isEmpty())
    for (const RecordInfo& r : document_->recordsToHere()) {
      const QStringList& own = toAfter ? r.removed : r.added;
      const QStringList& others = toAfter ? r.added : r.removed;
      if (own.contains(key) && !others.isEmpty()) return others.last();
    }
  return key;
}

/// Both canvases keep the same thing at the same height.
void MainWindow::followView(Canvas* from, Canvas* to) {
  // Where nobody is at work in the other one, it only fitted itself: the main one leads.
  if (from == before_ && !before_->underMouse() && !before_->hasFocus()) std::swap(from, to);
  if (following_ || !to->isVisible() || !from->scene() || !to->scene()) return;
  following_ = true;
  const QPointF middle = from->rect().center();
  const SceneRef a = from->scene(), b = to->scene();
  const QPointF at = from->toScene(middle);
  int nearest = -1;
  double best = 1e18;
  for (size_t i = 0; i < a->view.boxes.size(); ++i) {
    if (a->view.boxes[i].open) continue;
    const QPointF c = a->rect(static_cast<int>(i)).center();
    const double d = std::abs(c.y() - at.y()) * 3 + std::abs(c.x() - at.x());
    if (d >= best) continue;
    const QString key = counterpart(selectionKey(*a->graph, a->view.boxes[i]), from == before_);
    if (b->boxOf(key) >= 0) best = d, nearest = static_cast<int>(i);
  }
  if (nearest >= 0) {
    const QString key =
        counterpart(selectionKey(*a->graph, a->view.boxes[static_cast<size_t>(nearest)]), from == before_);
    const QPointF offset = from->toWidget(a->rect(nearest).center()) - middle;
    to->setView(b->rect(b->boxOf(key)).center() - (offset + QPointF(to->rect().center())) / from->scale(),
                from->scale());
  } else {
    to->setView(from->origin(), from->scale());
  }
  following_ = false;
}

void MainWindow::followOptions(Canvas* from, Canvas* to) {
  if (following_ || !to->scene() || !from->scene()) return;
  following_ = true;
  to->adoptViewOptions(from->viewOptions());
  following_ = false;
  followView(from, to);
}

void MainWindow::nextChange(int step) {
  QStringList names;
  for (const RecordInfo& r : document_->recordsToHere()) names << (r.added.isEmpty() ? QString() : r.added.first());
  names.removeAll(QString());
  if (names.isEmpty()) return statusBar()->showMessage(tr("Nothing has been changed"), 4000);
  changeAt_ = changeAt_ < 0 ? (step > 0 ? 0 : static_cast<int>(names.size()) - 1)
                            : static_cast<int>((changeAt_ + step + names.size()) % names.size());
  canvas_->reveal(names[changeAt_]);
}

void MainWindow::setCompare(bool on) {
  comparing_ = on;
  action(QStringLiteral("compare"))->setChecked(on);
  refreshCanvases();
}

void MainWindow::setTextDiff(bool on) {
  action(QStringLiteral("textDiff"))->setChecked(on);
  if (document_->isOpen()) pages_->setCurrentWidget(on ? static_cast<QWidget*>(diff_) : canvases_);
}

void MainWindow::compareWith(const QString& path) { document_->compareWith(path); }

void MainWindow::chooseOther() {
  if (!document_->isOpen()) return;
  const QString path =
      QFileDialog::getOpenFileName(this, tr("Compare with"), QFileInfo(document_->path()).path(), openFilter());
  if (!path.isEmpty()) compareWith(path);
}

}  // namespace graft
