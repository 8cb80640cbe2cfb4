// FixedHeightLabel: a label that keeps its height, so many lines, whatever it says: nothing around it moves. Longer
// text is elided, and stands whole in the tooltip.
//
//   auto* sentence = new FixedHeightLabel(2);      // FixedHeightLabel(0): as many lines as its place has
//   sentence->showText(tr("12 matches in 471 nodes"));
#pragma once

#include <QLabel>

namespace graft {

class FixedHeightLabel : public QLabel {
  Q_OBJECT

 public:
  explicit FixedHeightLabel(int lines, QWidget* parent = nullptr);
  void setLines(int lines);
  /// Rich text is shown as it is: its author keeps it short enough.
  void showText(const QString& text, Qt::TextFormat format = Qt::PlainText);
  /// The whole text, elided or not.
  QString fullText() const { return fullText_; }
  /// Not all of it is seen.
  bool isElided() const { return elided_; }

  QSize sizeHint() const override { return minimumSizeHint(); }
  QSize minimumSizeHint() const override;
  int heightForWidth(int) const override { return minimumSizeHint().height(); }

 protected:
  void resizeEvent(QResizeEvent*) override;
  void changeEvent(QEvent*) override;

 private:
  void lay();

  int lines_;
  QString fullText_;
  bool elided_ = false;
};

}  // namespace graft
