// The window's files: models, rules, drawings, reports, the session.
#include <QCloseEvent>
#include <QCoreApplication>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QMenu>
#include <QMessageBox>
#include <QMimeData>
#include <QScreen>
#include <QSettings>
#include <QStatusBar>
#include <QTimer>

#include "views/canvas.h"
#include "views/drawing/drawing.h"
#include "views/main_window.h"
#include "views/picture/picture.h"
#include "views/rule_editor.h"
#include "views/run_inputs.h"
#include "views/run_panel.h"
#include "views/theme.h"
#include "views/welcome.h"

namespace graft {
void MainWindow::openModel(const QString& path, const QString& inputs) {
  if (path.endsWith(QLatin1String(".py")) && !QFileInfo(path).isDir()) return openRules(path);
  QSettings settings;
  const QString key =
      QStringLiteral("inputs/") + QString::fromLatin1(QFileInfo(path).absoluteFilePath().toUtf8().toPercentEncoding());
  QString known = inputs.isEmpty() ? settings.value(key).toString() : QFileInfo(inputs).absoluteFilePath();
  if (!QFileInfo::exists(known)) known.clear();
  if (!inputs.isEmpty()) settings.setValue(key, known);
  if (!known.isEmpty()) runPanel_->setInputs(known);
  document_->open(path, known);
}

void MainWindow::chooseInputs() {
  if (!document_->isOpen()) return;
  const QString path = QFileDialog::getOpenFileName(this, tr("Example inputs"), QFileInfo(document_->path()).path(),
                                                    tr("Tensors saved by torch.save (*.pt);;All files (*)"));
  if (!path.isEmpty()) openModel(document_->path(), path);
}

void MainWindow::openRules(const QString& path) {
  if (!mayDiscardRules()) return;
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return showFailure(tr("%1 was not opened").arg(path), file.errorString());
  editor_->setFile(QFileInfo(path).absoluteFilePath());
  editor_->setText(QString::fromUtf8(file.readAll()));
  if (arrangement_ != Arrangement::Rewrite && isVisible()) arrange(Arrangement::Rewrite);
}

void MainWindow::chooseModel() {
  const QString path =
      QFileDialog::getOpenFileName(this, tr("Open model"), QFileInfo(document_->path()).path(),
                                   tr("Models (*.pt *.pt2 *.pth *.ts *.fx *.json *.txt);;All files (*)"));
  if (!path.isEmpty()) openModel(path);
}

void MainWindow::chooseRules() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Open rules"), QFileInfo(editor_->file()).path(),
                                                    tr("Rule files (*.py);;All files (*)"));
  if (!path.isEmpty()) openRules(path);
}

bool MainWindow::mayDiscardRules() {
  if (!editor_->isModified() || editor_->text().trimmed().isEmpty()) return true;
  const auto answer = QMessageBox::question(this, tr("Rules"), tr("The rules have been changed. Save them?"),
                                            QMessageBox::Save | QMessageBox::Discard | QMessageBox::Cancel);
  if (answer == QMessageBox::Save) saveRules(false);
  return answer == QMessageBox::Discard || (answer == QMessageBox::Save && !editor_->isModified());
}

void MainWindow::saveRules(bool as) {
  QString path = editor_->file();
  if (as || path.isEmpty())
    path = QFileDialog::getSaveFileName(this, tr("Save rules"), path.isEmpty() ? QStringLiteral("rules.py") : path,
                                        tr("Rule files (*.py)"));
  if (path.isEmpty()) return;
  if (QFileInfo(path).suffix().isEmpty()) path += QStringLiteral(".py");
  QString why;
  if (!writeWhole(path, editor_->text().toUtf8(), why)) return showFailure(tr("%1 was not written").arg(path), why);
  editor_->setFile(path);
  editor_->setSaved();
  statusBar()->showMessage(tr("Written: %1").arg(path), 4000);
}

void MainWindow::exportModel() {
  if (!document_->isOpen()) return;
  const QFileInfo source(document_->path());
  const bool isExport = document_->format() == QLatin1String("torch.export");
  const QString script = tr("TorchScript (*.pt)"), exported = tr("torch.export (*.pt2)");
  QString kind = isExport ? exported : script;
  QString path = QFileDialog::getSaveFileName(this, tr("Export rewritten model, as the ending says"),
                                              source.path() + QLatin1Char('/') + source.completeBaseName() +
                                                  QStringLiteral("_fast.") +
                                                  (isExport ? QStringLiteral("pt2") : QStringLiteral("pt")),
                                              script + QStringLiteral(";;") + exported, &kind);
  if (path.isEmpty()) return;
  // Some dialogs leave the ending to the program.
  if (QFileInfo(path).suffix().isEmpty()) path += kind == exported ? QStringLiteral(".pt2") : QStringLiteral(".pt");
  document_->exportTo(path);
}

QString MainWindow::besideModel(const QString& ending) const {
  const QFileInfo model(document_->path());
  const QString name = model.completeBaseName() + ending;
  return model.dir().exists() ? model.dir().filePath(name) : name;  // it may lie on the engine's machine
}

void MainWindow::exportDrawing() {
  const SceneRef scene = canvas_->scene();
  if (!scene) return;
  QString path = QFileDialog::getSaveFileName(this, tr("Export drawing"), besideModel(QStringLiteral(".svg")),
                                              tr("Drawings (*.svg *.png *.pdf *.dot)"));
  if (path.isEmpty()) return;
  if (QFileInfo(path).suffix().isEmpty()) path += QStringLiteral(".svg");
  const QString ending = QFileInfo(path).suffix().toLower();
  if (!QStringList{QStringLiteral("svg"), QStringLiteral("png"), QStringLiteral("pdf"), QStringLiteral("dot")}.contains(
          ending))
    return showFailure(tr("%1 was not written").arg(path),
                       tr("drawings are .svg, .png, .pdf or .dot, as the name ends"));
  DrawOptions options;
  options.theme = currentTheme();
  options.title = scene->graph->name;
  std::vector<Change> changes;
  if (canvas_->boxDecorations().anyChange) changes = canvas_->boxDecorations().change;
  const QByteArray svg = QByteArray::fromStdString(svgOf(scene->view, scene->layout, options, changes));
  QString why;
  if (ending == QLatin1String("dot")) {
    writeWhole(path, QByteArray::fromStdString(dotOf(scene->view, scene->graph->name, options)), why);
  } else if (ending != QLatin1String("svg")) {
    constexpr double pixelsPerUnit = 2;
    const QByteArray picture = pictureOf(svg, ending, pixelsPerUnit, why);
    if (why.isEmpty()) writeWhole(path, picture, why);
  } else {
    writeWhole(path, svg, why);
  }
  tellWritten(path, why);
}

void MainWindow::tellWritten(const QString& path, const QString& why) {
  if (!why.isEmpty()) return showFailure(tr("%1 was not written").arg(path), why);
  statusBar()->showMessage(tr("Written: %1").arg(path), 6000);
  Q_EMIT written(path);
}

void MainWindow::remember(const QString& path) {
  QSettings settings;
  QStringList recent = settings.value(QStringLiteral("recent")).toStringList();
  recent.removeAll(path);
  recent.prepend(path);
  settings.setValue(QStringLiteral("recent"), recent.mid(0, 12));
  refreshRecent();
}

namespace {

/// Models as people export them: no tensors, nothing that was rewritten, and of two formats of one model the first.
bool isSample(const QFileInfo& file) {
  const QString name = file.completeBaseName();
  for (const char* ending : {"inputs", "expected", "_fast"})
    if (name.endsWith(QLatin1String(ending))) return false;
  if (name == QLatin1String("sentences")) return false;
  return file.suffix() == QLatin1String("pt") ||
         !QFileInfo::exists(file.path() + QLatin1Char('/') + name + QStringLiteral(".pt"));
}

}  // namespace

void MainWindow::refreshRecent() {
  QStringList recent = QSettings().value(QStringLiteral("recent")).toStringList();
  recent.removeIf([](const QString& path) { return !QFileInfo::exists(path); });
  recentMenu_->clear();
  for (const QString& path : recent) recentMenu_->addAction(homeAsTilde(path), this, [this, path] { openModel(path); });
  recentMenu_->setEnabled(!recent.isEmpty());
  QStringList samples;
  for (const char* folder : {"/../samples", "/../samples/models", "/../share/graft/samples"})
    for (const QFileInfo& f :
         QDir(QCoreApplication::applicationDirPath() + QString::fromLatin1(folder))
             .entryInfoList({QStringLiteral("*.pt"), QStringLiteral("*.pt2")}, QDir::Files, QDir::Name))
      if (isSample(f) && !recent.contains(f.absoluteFilePath())) samples << f.absoluteFilePath();
  welcome_->setFiles(recent, samples);
}

QJsonObject MainWindow::sessionState() const {
  QJsonObject state = document_->state();
  state.insert(QStringLiteral("other"), document_->otherPath());
  state.insert(QStringLiteral("rules"), editor_->text());
  state.insert(QStringLiteral("rulesFile"), editor_->file());
  state.insert(QStringLiteral("rulesModified"), editor_->isModified());
  state.insert(QStringLiteral("arrangement"), static_cast<int>(arrangement_));
  state.insert(QStringLiteral("runInputs"), runPanel_->inputsText());
  return state;
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
    document_->restore(state);
    runPanel_->setInputs(text("runInputs"));
    const qsizetype steps = state.value(QLatin1String("steps")).toArray().size();
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

/// A mistake in an imported file may have been mended elsewhere meanwhile.
void MainWindow::changeEvent(QEvent* e) {
  QMainWindow::changeEvent(e);
  if (e->type() == QEvent::ActivationChange && isActiveWindow() && document_->ruleError().any())
    document_->setRules(editor_->text(), editor_->file(), true);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* e) {
  if (e->mimeData()->hasUrls()) e->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* e) {
  for (const QUrl& url : e->mimeData()->urls())
    if (url.isLocalFile()) openModel(url.toLocalFile());
}

}  // namespace graft
