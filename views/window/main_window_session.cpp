// The window's session: what is saved aside while it works, what it closes with, and how the next one takes that up.
#include <QCloseEvent>
#include <QFileInfo>
#include <QJsonArray>
#include <QScreen>
#include <QSettings>
#include <QStatusBar>
#include <QTimer>
#include <cmath>
#include <utility>

#include "views/canvas/canvas.h"
#include "views/document/graph_decode.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/theme.h"
#include "views/window/main_window.h"

namespace graft {

QJsonObject MainWindow::sessionState() const {
  QJsonObject state = document_->state();
  state.insert(QStringLiteral("rules"), editor_->text());
  state.insert(QStringLiteral("rulesFile"), editor_->file());
  state.insert(QStringLiteral("rulesModified"), editor_->isModified());
  state.insert(QStringLiteral("arrangement"), static_cast<int>(arrangement_));
  state.insert(QStringLiteral("runInputs"), runPanel_->inputsText());
  // What is still to be shown again is as good as shown.
  state.insert(QStringLiteral("view"), resumed_.isEmpty() ? viewState() : resumed_);
  return state;
}

QJsonObject MainWindow::viewState() const {
  if (!canvas_->scene() || canvas_->isPartial()) return {};
  const ViewOptions& options = canvas_->viewOptions();
  const auto list = [](const std::set<std::string, std::less<>>& paths) {
    QJsonArray out;
    for (const std::string& path : paths) out << toQt(path);
    return out;
  };
  const QPointF middle = canvas_->visibleSceneRect().center();
  return {{QStringLiteral("model"), document_->path()},
          {QStringLiteral("other"), document_->otherPath()},
          {QStringLiteral("depth"), options.depth},
          {QStringLiteral("opened"), list(options.opened)},
          {QStringLiteral("closed"), list(options.closed)},
          {QStringLiteral("unfolded"), list(options.unfolded)},
          {QStringLiteral("scale"), canvas_->scale()},
          {QStringLiteral("middle"), QJsonArray{std::round(middle.x()), std::round(middle.y())}},
          {QStringLiteral("selection"), QJsonArray::fromStringList(document_->selection())}};
}

/// The model has been opened: what was open in it opens, and what it was compared with.
void MainWindow::resumeOptions() {
  if (resumed_.isEmpty()) return;
  const auto list = [this](const char* key) {
    std::set<std::string, std::less<>> out;
    for (const QJsonValue v : resumed_.value(QLatin1String(key)).toArray()) out.insert(v.toString().toStdString());
    return out;
  };
  if (resumed_.value(QLatin1String("model")).toString() != document_->path()) {
    resumed_ = {};
    return;
  }
  ViewOptions options = canvas_->viewOptions();
  options.depth = resumed_.value(QLatin1String("depth")).toInt(options.depth);
  options.opened = list("opened");
  options.closed = list("closed");
  options.unfolded = list("unfolded");
  canvas_->setViewOptions(options);
  const QString other = resumed_.value(QLatin1String("other")).toString();
  if (!other.isEmpty()) compareWith(other);
}

/// It is drawn: one stands where one stood.
void MainWindow::resumeView() {
  if (resumed_.isEmpty() || !canvas_->scene() || canvas_->isPartial()) return;
  const QJsonObject view = std::exchange(resumed_, {});
  const QJsonArray middle = view.value(QLatin1String("middle")).toArray();
  const double scale = view.value(QLatin1String("scale")).toDouble();
  if (middle.size() == 2 && scale > 0) {
    canvas_->setView(canvas_->origin(), scale);
    canvas_->panTo({middle[0].toDouble(), middle[1].toDouble()});
  }
  QStringList selection;
  for (const QJsonValue v : view.value(QLatin1String("selection")).toArray()) selection << v.toString();
  if (!selection.isEmpty()) document_->setSelection(selection);
}

void MainWindow::autosave() {
  // What is being opened or read is still in the file from before.
  if (document_->isOpening() || (!document_->isOpen() && editor_->text().isEmpty())) return;
  QString why;
  const bool ok = session_.save(sessionState(), why);
  if (!ok && !saidNotSaved_) showFailure(tr("Your work is not saved aside and would be lost in a crash"), why);
  saidNotSaved_ = !ok;
}

/// A first window that would hang over the edge of a small screen fills it instead.
void MainWindow::fitScreen() {
  constexpr int titleBar = 40;
  const QSize room = screen()->availableSize() - QSize(0, titleBar);
  if (room.width() >= width() && room.height() >= height()) return;
  resize(size().boundedTo(room));
  setWindowState(windowState() | Qt::WindowMaximized);
}

void MainWindow::restoreSession(bool files) {
  if (!restoreGeometry(QSettings().value(QStringLiteral("geometry")).toByteArray())) fitScreen();
  const SessionFile::Found found = session_.takeUp();
  const QJsonObject& state = found.state;
  const auto text = [&](const char* key) { return state.value(QLatin1String(key)).toString(); };
  const bool isModified = state.value(QLatin1String("rulesModified")).toBool();
  if (found.wasKilled || files) {
    const QString file = text("rulesFile");
    editor_->setFile(file);
    // Rules that were saved are read again: they may have been edited elsewhere.
    if (!isModified && QFileInfo::exists(file))
      openRules(file);
    else
      editor_->setText(text("rules"), isModified);
    resumed_ = state.value(QLatin1String("view")).toObject();
    document_->restore(state);
    runPanel_->setInputs(text("runInputs"));
    const qsizetype steps = stepsOf(state);
    if (found.wasKilled && (isModified || steps > 0)) {
      const QString what =
          steps == 0 ? tr("The last window was not closed: its rules are here again")
                     : tr("The last window was not closed: its rules are here again, its model is being opened and %1 "
                          "done again")
                           .arg(counted(steps, tr("step"), tr("steps")));
      // Once the bar is shown: it would write over its labels before.
      QTimer::singleShot(0, this, [this, what] { statusBar()->showMessage(what, 20000); });
    }
  }
  arrange(static_cast<Arrangement>(std::clamp(state.value(QLatin1String("arrangement")).toInt(), 0, 2)));
}

void MainWindow::closeEvent(QCloseEvent* e) {
  if (!mayDiscardRules()) return e->ignore();
  autosave_->stop();
  session_.close(sessionState());
  QSettings settings;
  settings.setValue(QStringLiteral("geometry"), saveGeometry());
  if (document_->isOpen())
    settings.setValue(QStringLiteral("arrangement%1").arg(static_cast<int>(arrangement_)), saveState(2));
  e->accept();
}

}  // namespace graft
