// FailureBar: what went wrong, in a bar above the canvas. It stays until it is read or overcome, and stops nobody. It
// also tells what becomes of an engine that went away.
#pragma once

#include <QLabel>
#include <QWidget>

#include "views/document/document.h"

namespace graft {

class FailureBar : public QWidget {
  Q_OBJECT

 public:
  FailureBar(Document& document, EngineClient& engine, QWidget* parent = nullptr);
  /// `what` did not work, because of `why`. "Copy details" has both whole.
  void showFailure(const QString& what, const QString& why);
  void refreshTheme();

 private:
  void followEngine(EngineClient& engine);

  Document& document_;
  QLabel* text_;
  QString details_;     ///< of what is shown
  QString engineLoss_;  ///< the details of an engine that went away, until the next one has the document
};

}  // namespace graft
