// JointView: a training step as a drawing: the forward pass runs down the left, the backward pass up the right, and
// both halves of a module stand on one level. The gutter between them is the cut: what is saved for the backward pass
// crosses it as a bundle, as wide as its bytes; what is computed again stops at it. A module opens where it stands. A
// tensor is moved across the cut by Space, a double click or its menu.
//
//   auto* view = new JointView(document, cut);   connect(view, &JointView::chosen, context, &PanelContext::nodeAsked);
#pragma once

#include <QAbstractScrollArea>
#include <QSet>

#include "views/panels/captured/joint_rows.h"

class QMenu;

namespace graft {

class JointView : public QAbstractScrollArea {
  Q_OBJECT

 public:
  JointView(Document& document, TrainingCut& cut, QWidget* parent = nullptr);
  const JointRows& rows() const { return rows_; }
  /// The row that the keyboard stands on; -1: none.
  int current() const { return current_; }
  void setCurrent(int row);
  void toggle(int row);
  /// Moves the tensor of the row to the other side: what is saved is computed again from then on, and the other way.
  void moveAcross(int row);
  /// What can be done with the row.
  void fillMenu(QMenu& menu, int row);
  void openAll(bool open);
  /// Opens what hides the tensor, and stands on it.
  void reveal(const QString& value, const QString& module);
  /// What a module of the backward pass says beside its name; the same as the modules of these names around it say, as
  /// far as those have room for their names.
  static QString wordsOfBackward(const JointRow& row, const QString& name, double room, const QFontMetricsF& metrics,
                                 const QStringList& around = {});

 Q_SIGNALS:
  void chosen(const QString& key);  ///< a node's name, or "@" and a module's path

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;
  bool viewportEvent(QEvent*) override;

 private:
  struct Lanes;
  Lanes lanes() const;
  void refresh();
  void updateScroll();
  QRectF rowRect(int row) const;
  int rowAt(QPointF p) const;
  QString tipOf(int row) const;
  void drawRow(QPainter& p, int row, const Lanes& lanes) const;
  void drawModule(QPainter& p, const JointRow& row, const QRectF& r, const Lanes& lanes, bool isCurrent) const;
  void drawTensor(QPainter& p, const JointRow& row, const QRectF& r, const Lanes& lanes, bool isCurrent) const;
  void drawBand(QPainter& p, const JointRow& row, const QRectF& r, const Lanes& lanes) const;
  void drawHead(QPainter& p, const Lanes& lanes) const;

  Document& document_;
  TrainingCut& cut_;
  JointRows rows_;
  std::vector<double> tops_;  ///< of each row, and the end
  QSet<QString> opened_;
  QString openedOf_;  ///< the graph that `opened_` is about
  int current_ = -1;
};

/// "32.8 kB", "10.5 µs".
QString bytesInWords(qint64 n);
QString timeInWords(double microseconds);
/// The colour of a kind of crossing, and what it means.
QColor crossingColor(Crossing);
QString crossingText(Crossing);

}  // namespace graft
