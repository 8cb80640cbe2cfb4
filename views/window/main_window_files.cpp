// The window's files: models, rules, drawings.
#include <QCoreApplication>
#include <QDir>
#include <QDropEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QMenu>
#include <QMessageBox>
#include <QMimeData>
#include <QSettings>
#include <QStatusBar>
#include <algorithm>
#include <cmath>

#include "views/canvas/canvas.h"
#include "views/document/document_info.h"
#include "views/document/model_files.h"
#include "views/drawing/drawing.h"
#include "views/panels/rule_editor.h"
#include "views/panels/run/run_inputs.h"
#include "views/panels/run/run_panel.h"
#include "views/picture/picture.h"
#include "views/widgets/theme.h"
#include "views/window/main_window.h"
#include "views/window/welcome.h"

namespace graft {
namespace {

QString countedSteps(const QJsonObject& state) {
  return counted(stepsOf(state), MainWindow::tr("step"), MainWindow::tr("steps"));
}

}  // namespace

void MainWindow::openModel(const QString& path, const QString& inputs) {
  if (path.endsWith(QLatin1String(".py")) && !QFileInfo(path).isDir()) return openRules(path);
  QSettings settings;
  const QString key =
      QStringLiteral("inputs/") + QString::fromLatin1(QFileInfo(path).absoluteFilePath().toUtf8().toPercentEncoding());
  QString known = inputs.isEmpty() ? settings.value(key).toString() : QFileInfo(inputs).absoluteFilePath();
  if (!QFileInfo::exists(known)) known.clear();
  if (!inputs.isEmpty()) settings.setValue(key, known);
  if (!known.isEmpty()) runPanel_->setInputs(known);
  const QString file = placeOf(path);
  keepSteps(file);
  // With other inputs a model keeps its steps; read again as it is, it begins anew.
  QJsonObject left = document_->path() != file ? left_.take(file)
                     : inputs.isEmpty()        ? QJsonObject()
                                               : document_->state();
  if (stepsOf(left) == 0) return document_->open(path, known);
  left.insert(QStringLiteral("inputs"), known);
  document_->restore(left);
  statusBar()->showMessage(tr("%1 of before done again: Undo takes them back").arg(countedSteps(left)), 8000);
}

/// Another model makes way for that of a file, and its steps are not lost with it.
void MainWindow::keepSteps(const QString& file) {
  const QString path = document_->path();
  if (!document_->isOpen() || path == file) return;
  const QJsonObject state = document_->state();
  left_.remove(path);
  if (stepsOf(state) == 0) return;
  left_.insert(path, state);
  statusBar()->showMessage(
      tr("%1 of %2 kept until it is opened again").arg(countedSteps(state), QFileInfo(path).fileName()), 8000);
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
      QFileDialog::getOpenFileName(this, tr("Open model"), QFileInfo(document_->path()).path(), openFilter());
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
  const FileFormat& usual = formatToWrite(document_->format());
  QStringList filters;
  for (const FileFormat* f : writtenFormats()) filters << filterOf(*f);
  QString filter = filterOf(usual);
  QString path = QFileDialog::getSaveFileName(
      this, tr("Export rewritten model, as the ending says"),
      source.path() + QLatin1Char('/') + source.completeBaseName() + QStringLiteral("_fast") + endingOf(usual),
      filters.join(QStringLiteral(";;")), &filter);
  if (path.isEmpty()) return;
  // Some dialogs leave the ending to the program.
  if (QFileInfo(path).suffix().isEmpty()) {
    const FileFormat* chosen = writtenFormats().value(filters.indexOf(filter));
    path += endingOf(chosen ? *chosen : usual);
  }
  document_->exportTo(path);
}

QString MainWindow::besideModel(const QString& ending) const {
  const QFileInfo model(document_->path());
  const QString name = model.completeBaseName() + ending;
  return model.dir().exists() ? model.dir().filePath(name) : name;  // it may lie on the engine's machine
}

namespace {

/// The colours that the canvas has beside those of kinds.
Tints tintsOf(const Canvas& canvas) {
  const BoxDecorations& boxes = canvas.boxDecorations();
  const Decorations& d = canvas.decorations();
  Tints tints;
  if (!d.stale) tints.pattern = boxes.pattern;
  if (!boxes.anyHeat || boxes.most <= 0) return tints;
  tints.title = d.heatTitle.toStdString();
  tints.most = heatText(boxes.most, d.heatUnit).toStdString();
  for (const double heat : boxes.heat) {
    tints.heat.push_back(std::min(heat / boxes.most, 1.0));  // NaN stays NaN
    tints.figures.push_back(std::isnan(heat) ? std::string() : heatText(heat, d.heatUnit).toStdString());
  }
  return tints;
}

}  // namespace

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
  const QByteArray svg =
      QByteArray::fromStdString(svgOf(scene->view, scene->layout, options, changes, tintsOf(*canvas_)));
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
  const QString first = endingOf(*writtenFormats().first());
  return file.fileName().endsWith(first) || !QFileInfo::exists(file.path() + QLatin1Char('/') + name + first);
}

}  // namespace

void MainWindow::refreshRecent() {
  QStringList recent = QSettings().value(QStringLiteral("recent")).toStringList();
  recent.removeIf([](const QString& path) { return !QFileInfo::exists(path); });
  recentMenu_->clear();
  for (const QString& path : recent) {
    QAction* a = recentMenu_->addAction(homeAsTilde(path), this, [this, path] { openModel(path); });
    a->setData(tr("Open %1").arg(a->text()));  // in the palette, which has no menu around it
  }
  recentMenu_->setEnabled(!recent.isEmpty());
  QStringList samples, patterns;
  for (const FileFormat* f : writtenFormats()) patterns << QLatin1Char('*') + endingOf(*f);
  for (const char* folder : {"/../samples", "/../samples/models", "/../share/graft/samples"})
    for (const QFileInfo& f : QDir(QCoreApplication::applicationDirPath() + QString::fromLatin1(folder))
                                  .entryInfoList(patterns, QDir::Files, QDir::Name))
      if (isSample(f) && !recent.contains(f.absoluteFilePath())) samples << f.absoluteFilePath();
  welcome_->setFiles(recent, samples);
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
