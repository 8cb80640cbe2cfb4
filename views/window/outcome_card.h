// OutcomeCard: a few words over the drawing that say what became of the rewrites that were just applied. It takes none
// of the canvas's room, and lies where it covers no boxes, as far as there is such a place. "Go there" visits the
// places one after another.
//
//   auto* card = new OutcomeCard(document, *canvas);   connect(card, &OutcomeCard::nodeAsked, canvas, &Canvas::reveal);
#pragma once

#include <QFrame>
#include <QLabel>
#include <QPushButton>

#include "views/canvas/canvas.h"
#include "views/document/document.h"
#include "views/document/outcome.h"

namespace graft {

class OutcomeCard : public QFrame {
  Q_OBJECT

 public:
  /// Belongs to `over`.
  OutcomeCard(Document& document, Canvas& over);
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
  double hides(const QRect& area) const;

  Document& document_;
  Canvas& over_;
  QLabel* text_;
  QPushButton *go_, *dismiss_;
  Outcome outcome_;
  qsizetype next_ = 0;
  int step_ = -1;
};

}  // namespace graft
