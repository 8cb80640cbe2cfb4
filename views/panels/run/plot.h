// Plot: a widget whose picture can be taken away. What can be pointed at in it, bars, points, rows, are its stops: the
// arrow keys go through them, each says in words what the picture shows there, to eyes and to screen readers, and
// Return does what a click does.
//
//   class Bars : public Plot { … int stopCount() const override; QString stopText(int) const override; … };
#pragma once

#include <QWidget>

namespace graft {

/// A round number near `raw`, for axes: 1, 2 or 5 times a power of ten.
double roundStep(double raw);

class Plot : public QWidget {
  Q_OBJECT

 public:
  /// `file`: the name that is suggested when it is saved. `name`: for screen readers.
  Plot(const QString& file, const QString& name, QWidget* parent = nullptr);
  /// By the ending: .svg or .png. False where it could not be written.
  bool save(const QString& path);
  /// The picture in that size and in light colours, whatever the window's are.
  QByteArray svg(QSize size);
  /// The stop that the keyboard stands on; -1: none.
  int stop() const { return stop_; }
  /// Shows its words beside it.
  void setStop(int stop);
  virtual int stopCount() const { return 0; }
  /// One fact a line.
  virtual QString stopText(int) const { return {}; }

 protected:
  virtual void draw(QPainter& painter) = 0;
  virtual QRectF stopRect(int) const { return {}; }
  /// Return or Space.
  virtual void chooseStop(int) {}
  /// The stop that an arrow key, Home or End leads to; those of other keys are where one is.
  virtual int stopBy(int key) const;
  /// To be called where the stops are others. The keyboard stays at the stop of the same number.
  void stopsChanged();
  void paintEvent(QPaintEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;

 private:
  void copy();

  QString file_;
  int stop_ = -1;
};

}  // namespace graft
