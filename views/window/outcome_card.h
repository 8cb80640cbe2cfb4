// OutcomeCard: one line over the upper edge of the drawing that says what became of the rewrites that were just
// applied. It lies over the canvas and takes none of its room. "Go there" visits the places one after another.
//
//   auto* card = new OutcomeCard(document, *canvas);   connect(card, &OutcomeCard::nodeAsked, canvas, &Canvas::reveal);
#pragma once

#include <QFrame>
#include <QLabel>
#include <QPushButton>

#include "views/document/document.h"
#include "views/document/outcome.h"

namespace graft {

class OutcomeCard : public QFrame {
  Q_OBJECT

 public:
  /// Belongs to `over` and stays at its upper edge.
  OutcomeCard(Document& document, QWidget& over);
  void refreshTheme();
  QString text() const { return outcome_.text; }

 Q_SIGNALS:
  void nodeAsked(const QString& node);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void hideEvent(QHideEvent*) override;
  void paintEvent(QPaintEvent*) override;

 private:
  void showOutcome(Outcome outcome);
  void goOn();
  void place();

  Document& document_;
  QWidget& over_;
  QLabel* text_;
  QPushButton *go_, *dismiss_;
  Outcome outcome_;
  qsizetype next_ = 0;
  int step_ = -1;
};

}  // namespace graft
