#include "views/window/files/window_files.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QMessageBox>
#include <QSettings>
#include <algorithm>

#include "views/canvas/canvas.h"
#include "views/document/model_files.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/run/run_panel.h"
#include "views/window/files/drawing_file.h"
#include "views/window/files/report.h"
#include "views/window/files/session_file.h"

namespace graft {
namespace {

QString countedSteps(const QJsonObject& state) {
  return counted(stepsOf(state), WindowFiles::tr("step"), WindowFiles::tr("steps"));
}

/// A model as people export it: no file of tensors, nothing that was rewritten, and of two formats of one model the
/// first.
bool isSample(const QFileInfo& file) {
  const QString name = file.completeBaseName();
  for (const char* ending : {"inputs", "expected", "_fast"})
    if (name.endsWith(QLatin1String(ending))) return false;
  if (name == QLatin1String("sentences")) return false;
  const QString first = endingOf(*writtenFormats().first());
  return file.fileName().endsWith(first) || !QFileInfo::exists(file.path() + QLatin1Char('/') + name + first);
}

/// The graphs of a capture are models of their own, which share a file.
QString keyOf(const QString& path, const QString& method) {
  return method.isEmpty() || method == QLatin1String("forward") ? path : path + QLatin1Char('#') + method;
}
QString keyOf(const QJsonObject& state) {
  return keyOf(state.value(QLatin1String("model")).toString(), state.value(QLatin1String("method")).toString());
}

/// Some dialogs leave the ending to the program.
QString withEnding(const QString& path, const QString& ending) {
  return QFileInfo(path).suffix().isEmpty() ? path + ending : path;
}

}  // namespace

WindowFiles::WindowFiles(QWidget& window, Document& document, RuleEditor& editor, RunPanel& run)
    : QObject(&window), window_(window), document_(document), editor_(editor), run_(run) {
  connect(&document_, &Document::opened, this, &WindowFiles::remember);
  connect(&document_, &Document::exported, this,
          [this](const QString& path) { Q_EMIT message(tr("Written: %1").arg(path), 8000); });
  connect(&document_, &Document::libraryLoaded, this, &WindowFiles::readAgainWith);
}

void WindowFiles::openModel(const QString& path, const QString& inputs, const QString& graph) {
  if (path.endsWith(QLatin1String(".py")) && !QFileInfo(path).isDir()) return openRules(path);
  // What a killed window had of this file is taken up at the same graph.
  const QJsonObject unrestored = document_.unrestored();
  const bool isSameFile = unrestored.value(QLatin1String("model")).toString() == placeOf(path);
  const QString method = graph.isEmpty() && isSameFile ? unrestored.value(QLatin1String("method")).toString() : graph;
  QSettings settings;
  const QString key =
      QStringLiteral("inputs/") +
      QString::fromLatin1(keyOf(QFileInfo(path).absoluteFilePath(), method).toUtf8().toPercentEncoding());
  QString known = inputs.isEmpty() ? settings.value(key).toString() : QFileInfo(inputs).absoluteFilePath();
  if (!QFileInfo::exists(known)) known.clear();
  if (!inputs.isEmpty()) settings.setValue(key, known);
  if (!known.isEmpty()) run_.setInputs(known);
  const QString file = placeOf(path);
  const QString model = keyOf(file, method);
  keepSteps(model);
  // With other inputs a model keeps its steps. Opened again as it is, it begins anew.
  const bool isRestoring = keyOf(unrestored) == model;
  QJsonObject left = isRestoring                                            ? unrestored
                     : keyOf(document_.path(), document_.method()) != model ? left_.take(model)
                     : inputs.isEmpty()                                     ? QJsonObject()
                                                                            : document_.state();
  const bool hasSteps = stepsOf(left) > 0;
  if (!hasSteps && !isRestoring) return document_.open(path, known, method);
  if (!isRestoring || !known.isEmpty()) left.insert(QStringLiteral("inputs"), known);
  document_.restore(left);  // without steps there may be a plan of kernels, and what was measured
  if (!hasSteps) return;
  Q_EMIT message(tr("%1 of before done again: Undo takes them back").arg(countedSteps(left)), 8000);
}

/// Another model takes the place of the open one, whose steps are not lost with it.
void WindowFiles::keepSteps(const QString& model) {
  keepState(document_.unrestored(), model);
  if (document_.isOpen()) keepState(document_.state(), model);
}

void WindowFiles::keepState(const QJsonObject& state, const QString& model) {
  const QString path = state.value(QLatin1String("model")).toString(), key = keyOf(state);
  if (path.isEmpty() || key == model) return;
  left_.remove(key);
  if (stepsOf(state) == 0) return;
  left_.insert(key, state);
  Q_EMIT message(tr("%1 of %2 kept until it is opened again").arg(countedSteps(state), QFileInfo(path).fileName()),
                 8000);
}

void WindowFiles::chooseInputs() {
  if (!document_.isOpen()) return;
  const QString path = QFileDialog::getOpenFileName(&window_, tr("Example inputs"), QFileInfo(document_.path()).path(),
                                                    tr("Tensors saved by torch.save (*.pt);;All files (*)"));
  if (!path.isEmpty()) openModel(document_.path(), path, document_.method());
}

void WindowFiles::openRules(const QString& path) {
  if (!mayDiscardRules()) return;
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return Q_EMIT failed(tr("%1 was not opened").arg(path), file.errorString());
  editor_.setFile(QFileInfo(path).absoluteFilePath());
  editor_.setText(QString::fromUtf8(file.readAll()));
  Q_EMIT rulesOpened();
}

void WindowFiles::chooseModel() {
  const QString path =
      QFileDialog::getOpenFileName(&window_, tr("Open model"), QFileInfo(document_.path()).path(), openFilter());
  if (!path.isEmpty()) openModel(path);
}

void WindowFiles::chooseFolder() {
  const QString path =
      QFileDialog::getExistingDirectory(&window_, tr("Open a folder of captures"), QFileInfo(document_.path()).path());
  if (!path.isEmpty()) openModel(path);
}

void WindowFiles::chooseOther() {
  if (!document_.isOpen()) return;
  const QString path =
      QFileDialog::getOpenFileName(&window_, tr("Compare with"), QFileInfo(document_.path()).path(), openFilter());
  if (!path.isEmpty()) document_.compareWith(path);
}

void WindowFiles::chooseRules() {
  const QString path = QFileDialog::getOpenFileName(&window_, tr("Open rules"), QFileInfo(editor_.file()).path(),
                                                    tr("Rule files (*.py);;All files (*)"));
  if (!path.isEmpty()) openRules(path);
}

void WindowFiles::chooseLibrary() {
  const QString path = QFileDialog::getOpenFileName(&window_, tr("Load operators"), QFileInfo(document_.path()).path(),
                                                    tr("Libraries of operators (*.so *.py);;All files (*)"));
  if (!path.isEmpty()) loadLibrary(path);
}

void WindowFiles::loadLibrary(const QString& path) { document_.loadLibrary(path); }

/// Nodes of the open model that call these operators were read without them.
void WindowFiles::readAgainWith(const QString& library, const QStringList& operators) {
  Q_EMIT message(tr("Loaded from %1: %2").arg(QFileInfo(library).fileName(), operators.join(QStringLiteral(", "))),
                 8000);
  document_.readRulesAgain();
  if (!document_.isOpen()) return;
  if (const QJsonObject state = document_.state(); stepsOf(state) > 0)
    document_.restore(state);
  else
    document_.open(document_.path(), document_.inputs(), document_.method());
}

bool WindowFiles::mayDiscardRules() {
  if (!editor_.isModified() || editor_.text().trimmed().isEmpty()) return true;
  const auto answer =
      QMessageBox::question(&window_, tr("Rules"), tr("The rules have been changed. Do you want to save them?"),
                            QMessageBox::Save | QMessageBox::Discard | QMessageBox::Cancel);
  if (answer == QMessageBox::Save) saveRules(false);
  return answer == QMessageBox::Discard || (answer == QMessageBox::Save && !editor_.isModified());
}

void WindowFiles::saveRules(bool as) {
  QString path = editor_.file();
  if (as || path.isEmpty())
    path = QFileDialog::getSaveFileName(&window_, tr("Save rules"), path.isEmpty() ? QStringLiteral("rules.py") : path,
                                        tr("Rule files (*.py)"));
  if (path.isEmpty()) return;
  path = withEnding(path, QStringLiteral(".py"));
  QString why;
  if (!writeWhole(path, editor_.text().toUtf8(), why)) return Q_EMIT failed(tr("%1 was not written").arg(path), why);
  editor_.setFile(path);
  editor_.setSaved();
  Q_EMIT message(tr("Written: %1").arg(path), 4000);
}

void WindowFiles::exportModel() {
  if (!document_.isOpen()) return;
  const QFileInfo source(document_.path());
  const FileFormat& usual = formatToWrite(document_.format());
  QStringList filters;
  for (const FileFormat* f : writtenFormats()) filters << filterOf(*f);
  QString filter = filterOf(usual);
  const QString path = QFileDialog::getSaveFileName(
      &window_, tr("Export rewritten model, in the format of the name's ending"),
      source.path() + QLatin1Char('/') + source.completeBaseName() + QStringLiteral("_fast") + endingOf(usual),
      filters.join(QStringLiteral(";;")), &filter);
  if (path.isEmpty()) return;
  const FileFormat* chosen = writtenFormats().value(filters.indexOf(filter));
  document_.exportTo(withEnding(path, endingOf(chosen ? *chosen : usual)));
}

QString WindowFiles::besideModel(const QString& ending) const {
  const QFileInfo model(document_.path());
  const QString name = model.completeBaseName() + ending;
  return model.dir().exists() ? model.dir().filePath(name) : name;  // it may lie on the engine's machine
}

void WindowFiles::exportDrawing(const Canvas& canvas) {
  if (!canvas.scene()) return;
  QString path = QFileDialog::getSaveFileName(&window_, tr("Export drawing"), besideModel(QStringLiteral(".svg")),
                                              tr("Drawings (*.svg *.png *.pdf *.dot)"));
  if (path.isEmpty()) return;
  path = withEnding(path, QStringLiteral(".svg"));
  QString why;
  writeDrawing(canvas, path, why);
  tellWritten(path, why);
}

void WindowFiles::exportPage(const Canvas& canvas, bool comparing) {
  if (!canvas.scene() || !document_.isOpen()) return;
  QString path = QFileDialog::getSaveFileName(&window_, tr("Export interactive page"),
                                              besideModel(QStringLiteral(".html")), tr("HTML (*.html)"));
  if (path.isEmpty()) return;
  path = withEnding(path, QStringLiteral(".html"));
  QString why;
  writePage(canvas, comparing ? document_.original().get() : nullptr, document_.recordsToHere(), path, why);
  tellWritten(path, why);
}

std::optional<NodeNumbers> WindowFiles::chooseNumbers() {
  const QString path =
      QFileDialog::getOpenFileName(&window_, tr("Numbers of nodes"), besideModel(QStringLiteral(".json")),
                                   tr("Numbers by node (*.json);;All files (*)"));
  if (path.isEmpty()) return std::nullopt;
  const QString what = tr("%1 colours nothing").arg(QFileInfo(path).fileName());
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return Q_EMIT failed(what, file.errorString()), std::nullopt;
  Result<NodeNumbers> numbers =
      readNumbers(file.readAll().toStdString(), QFileInfo(path).completeBaseName().toStdString());
  if (!numbers) return Q_EMIT failed(what, QString::fromStdString(numbers.error().message)), std::nullopt;
  const GraphRef graph = document_.graph();
  const bool fits = graph && std::any_of(numbers->values.begin(), numbers->values.end(),
                                         [&](const auto& entry) { return bool(graph->findNode(entry.first)); });
  if (!fits) return Q_EMIT failed(what, tr("it names no node of the open model")), std::nullopt;
  return std::move(*numbers);
}

void WindowFiles::exportReport(const Canvas& canvas) {
  if (!document_.isOpen()) return;
  QString path = QFileDialog::getSaveFileName(&window_, tr("Export report"),
                                              besideModel(QStringLiteral("_report.html")), tr("HTML (*.html)"));
  if (path.isEmpty()) return;
  path = withEnding(path, QStringLiteral(".html"));
  QString why;
  writeWhole(path, reportHtml(document_, run_, canvas.viewOptions().depth).toUtf8(), why);
  tellWritten(path, why);
}

void WindowFiles::tellWritten(const QString& path, const QString& why) {
  if (!why.isEmpty()) return Q_EMIT failed(tr("%1 was not written").arg(path), why);
  Q_EMIT message(tr("Written: %1").arg(path), 6000);
  Q_EMIT written(path);
}

void WindowFiles::remember() {
  QSettings settings;
  QStringList all = settings.value(QStringLiteral("recent")).toStringList();
  all.removeAll(document_.path());
  all.prepend(document_.path());
  settings.setValue(QStringLiteral("recent"), all.mid(0, 12));
  Q_EMIT recentChanged();
}

QStringList WindowFiles::recent() {
  QStringList out = QSettings().value(QStringLiteral("recent")).toStringList();
  out.removeIf([](const QString& path) { return !QFileInfo::exists(path); });
  return out;
}

QStringList WindowFiles::samples(const QStringList& recent) {
  QStringList out, patterns;
  for (const FileFormat* f : writtenFormats()) patterns << QLatin1Char('*') + endingOf(*f);
  for (const char* folder : {"/../samples", "/../samples/models", "/../share/graft/samples"})
    for (const QFileInfo& f : QDir(QCoreApplication::applicationDirPath() + QString::fromLatin1(folder))
                                  .entryInfoList(patterns, QDir::Files, QDir::Name))
      if (isSample(f) && !recent.contains(f.absoluteFilePath())) out << f.absoluteFilePath();
  return out;
}

}  // namespace graft
