// SteadyLabel: text of so many lines, whatever it says. What is too long for them is elided and stands whole in the
// tooltip, so that nothing around it moves when it changes.
//
//   auto* sentence = new SteadyLabel(2);      // SteadyLabel(0): as many lines as its place has
//   sentence->say(tr("12 matches in 471 nodes"));
#pragma once

#include <QLabel>

namespace graft {

class SteadyLabel : public QLabel {
  Q_OBJECT

 public:
  explicit SteadyLabel(int lines, QWidget* parent = nullptr);
  void setLines(int lines);
  /// Rich text is shown as it is: its author keeps it short enough.
  void say(const QString& text, Qt::TextFormat format = Qt::PlainText);
  /// The whole text, elided or not.
  QString said() const { return said_; }
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
  QString said_;
  bool elided_ = false;
};

}  // namespace graft
