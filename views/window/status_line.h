// StatusLine: what stands in the window's status bar: the engine and its devices, the size of the model and what the
// rule matches, and what the engine has been at for longer than a moment, with its progress and a button to stop it.
#pragma once

#include <QLabel>
#include <QProgressBar>
#include <QStatusBar>
#include <QTimer>
#include <QToolButton>

#include "views/canvas/canvas.h"
#include "views/document/document.h"

namespace graft {

class StatusLine : public QObject {
  Q_OBJECT

 public:
  /// Its widgets belong to `bar`.
  StatusLine(QStatusBar& bar, Document& document, EngineClient& engine, const Canvas& canvas);
  QString text() const;
  void refresh();
  /// Says something for so long. What has no room for all of its words loses those in the middle, which then stand in
  /// the tooltip.
  void tell(const QString& text, int milliseconds);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 Q_SIGNALS:
  void failed(const QString& what, const QString& why);  ///< the engine has not come up for long
  void overcome();                                       ///< it has come up after all

 private:
  void connectEngine();
  void refreshJob();
  void warnOfSilence(qint64 milliseconds);

  void cutMessage();

  QStatusBar& bar_;
  Document& document_;
  EngineClient& engine_;
  const Canvas& canvas_;
  QLabel *engineLabel_, *countLabel_, *jobLabel_;
  QProgressBar* jobBar_;
  QToolButton *jobStop_, *engineRetry_;
  QTimer timer_, told_;
  QString message_;   ///< whole
  QString progress_;  ///< what the engine says of its job; empty: by the method's name
  bool warned_ = false;
};

}  // namespace graft
