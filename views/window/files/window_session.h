// WindowSession: what a window stands on, saved every two seconds, so that one that is killed is followed by one that
// has it all: the model and its steps, the rules, the panels, and where one looked. A window that closes leaves the
// same to the next one.
#pragma once

#include <QJsonObject>
#include <QObject>
#include <QTimer>

#include "views/window/files/session_file.h"

namespace graft {

class Comparison;
class Document;
class PanelDocks;
class TrainingCut;
class WindowFiles;

class WindowSession : public QObject {
  Q_OBJECT

 public:
  WindowSession(Document& document, TrainingCut& cut, Comparison& comparison, PanelDocks& docks, WindowFiles& files,
                QObject* parent);
  /// Everything that a new window needs to stand where this one does.
  QJsonObject state() const;
  /// Takes up what a killed window had, or with `files` what the last one closed with. Returns what it found.
  QJsonObject restore(bool files);
  /// The window closes: nothing is left to recover.
  void close();
  /// The model has been opened: opens in it what was open, and compares it with what it was compared with.
  void resumeOptions();

 Q_SIGNALS:
  void message(const QString& text);
  void failed(const QString& what, const QString& why);
  void trainingAsked();  ///< the training step was shown

 private:
  QJsonObject viewState() const;
  QJsonObject measuredState() const;
  void resumeMeasured();
  void resumeView();
  void autosave();

  Document& document_;
  TrainingCut& cut_;
  Comparison& comparison_;
  PanelDocks& docks_;
  WindowFiles& files_;
  SessionFile file_;
  QTimer timer_;
  QJsonObject resumed_;   ///< what one looked at in the session before, until it is drawn
  QJsonObject measured_;  ///< what panels measured in the session before, until its steps are done again
  bool saidNotSaved_ = false;
};

}  // namespace graft
