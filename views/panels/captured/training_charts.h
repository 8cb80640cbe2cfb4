// The charts of a training step: the memory that is alive while it runs, and what other budgets would give. Both can be
// copied and saved as all plots can.
#pragma once

#include "views/panels/captured/joint_view.h"
#include "views/panels/run/plot.h"

namespace graft {

/// Bytes of activations over the nodes of both halves, with what is saved below; a click goes to a node.
class LiveMemoryPlot : public Plot {
  Q_OBJECT

 public:
  explicit LiveMemoryPlot(TrainingCut& cut, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {300, 170}; }
  /// The node at that place of the widget; empty: none.
  QString nodeAt(QPointF p) const;
  /// The nodes of both halves.
  int stopCount() const override;
  QString stopText(int) const override;

 Q_SIGNALS:
  void chosen(const QString& node);

 protected:
  void draw(QPainter&) override;
  QRectF stopRect(int) const override;
  void chooseStop(int) override;
  void mousePressEvent(QMouseEvent*) override;
  bool event(QEvent*) override;

 private:
  QRectF area() const;
  int stepAt(QPointF p) const;
  const LiveNodeInfo& nodeOf(int step) const;

  TrainingCut& cut_;
};

/// A point for each budget: what is saved, and the time that computing again takes. A click takes that budget.
class BudgetPlot : public Plot {
  Q_OBJECT

 public:
  explicit BudgetPlot(TrainingCut& cut, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {300, 170}; }
  /// Where the point of that number stands.
  QPointF placeOf(size_t point) const;
  int stopCount() const override;
  QString stopText(int) const override;

 protected:
  void draw(QPainter&) override;
  QRectF stopRect(int) const override;
  void chooseStop(int) override;
  void mousePressEvent(QMouseEvent*) override;
  bool event(QEvent*) override;

 private:
  QRectF area() const;
  QPointF place(qint64 bytes, double microseconds) const;
  int pointAt(QPointF p) const;

  TrainingCut& cut_;
};

}  // namespace graft
