// WindowFiles: what the window opens, saves and remembers. Models with their example inputs, rule files, drawings and
// reports. Asks for names, and says what came of each file. A model that makes way for another keeps its steps here.
//
//   files.openModel("bert.pt", "inputs.pt");   files.saveRules(false);   files.exportDrawing(*canvas);
#pragma once

#include <QHash>
#include <QJsonObject>
#include <QObject>
#include <QStringList>
#include <QWidget>
#include <optional>

#include "views/document/document.h"
#include "views/drawing/drawing.h"

namespace graft {

class Canvas;
class RuleEditor;
class RunPanel;

class WindowFiles : public QObject {
  Q_OBJECT

 public:
  /// Dialogs belong to `window`.
  WindowFiles(QWidget& window, Document& document, RuleEditor& editor, RunPanel& run);

  /// Example inputs give shapes; empty: those given for this model last time. `method`: which graph of a capture;
  /// empty: its first.
  void openModel(const QString& path, const QString& inputs = {}, const QString& method = {});
  void openRules(const QString& path);
  void chooseModel();
  void chooseFolder();
  void chooseInputs();
  void chooseRules();
  /// A library of operators of the user's own: the open model and the rules are read again with it.
  void chooseLibrary();
  void loadLibrary(const QString& path);
  /// The file that the model is compared with.
  void chooseOther();
  /// `as`: under a name that is asked for.
  void saveRules(bool as);
  /// False where the user would rather keep rules that are not saved.
  bool mayDiscardRules();
  void exportModel();
  void exportDrawing(const Canvas& canvas);
  /// `comparing`: with what the model is compared with beside it.
  void exportPage(const Canvas& canvas, bool comparing);
  void exportReport(const Canvas& canvas);
  /// Asks for a file of numbers by node; nothing where none was chosen, or none fits.
  std::optional<NodeNumbers> chooseNumbers();

  /// A name to write to: beside the model where its folder is on this machine.
  QString besideModel(const QString& ending) const;
  /// Models that were open lately and are still there, the last one first.
  static QStringList recent();
  /// The sample models that are installed or built, without those in `recent`.
  static QStringList samples(const QStringList& recent);

 Q_SIGNALS:
  void rulesOpened();
  void recentChanged();
  void written(const QString& path);  ///< a drawing or a report
  void message(const QString& text, int milliseconds);
  void failed(const QString& what, const QString& why);

 private:
  void keepSteps(const QString& model);
  void keepState(const QJsonObject& state, const QString& model);
  void readAgainWith(const QString& library, const QStringList& operators);
  void remember();
  /// `why` is empty where the file was written.
  void tellWritten(const QString& path, const QString& why);

  QWidget& window_;
  Document& document_;
  RuleEditor& editor_;
  RunPanel& run_;
  QHash<QString, QJsonObject> left_;  ///< by keyOf(): models that made way for others, with their steps
};

}  // namespace graft
