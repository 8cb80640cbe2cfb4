// The run panel's plots. All are drawn from what the engine's model/run answers, and can be copied or saved as SVG or
// PNG from their context menu.
#pragma once

#include <QJsonArray>
#include <QJsonObject>
#include <QWidget>
#include <vector>

namespace graft {

/// A round number near `raw`, for axes: 1, 2 or 5 times a power of ten.
double roundStep(double raw);

/// A widget whose picture can be taken away: what `draw` paints goes to the screen, to a file, to the clipboard.
class Plot : public QWidget {
  Q_OBJECT

 public:
  /// `name`: of the file that is suggested when it is saved.
  explicit Plot(const QString& name, QWidget* parent = nullptr);
  /// By the ending: .svg or .png. False where it could not be written.
  bool save(const QString& path);
  /// The picture in that size and in light colours, whatever the window's are.
  QByteArray svg(QSize size);

 protected:
  virtual void draw(QPainter& painter) = 0;
  void paintEvent(QPaintEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;

 private:
  QString name_;
};

/// Both latencies, and those of a pinned run, as dots and a box on one axis in milliseconds.
class LatencyPlot : public Plot {
 public:
  explicit LatencyPlot(QWidget* parent = nullptr);
  void setRun(const QJsonObject& run, const QJsonObject& baseline);
  QSize sizeHint() const override { return {420, 140}; }

 protected:
  void draw(QPainter&) override;

 private:
  QJsonObject run_, baseline_;
};

/// How many elements of an output are how many units in the last place off.
class UlpPlot : public Plot {
 public:
  explicit UlpPlot(QWidget* parent = nullptr);
  /// `counts[i]`: elements off by 2^(i-1) to 2^i; the first is equal ones.
  void setCounts(const QString& title, const QJsonArray& counts);
  QSize sizeHint() const override { return {260, 130}; }

 protected:
  void draw(QPainter&) override;

 private:
  QString title_;
  QJsonArray counts_;
};

/// The latency of both over the shapes of a sweep.
class SweepPlot : public Plot {
 public:
  struct Point {
    QString label;
    double original = 0, rewritten = 0;  ///< median milliseconds
  };
  explicit SweepPlot(QWidget* parent = nullptr);
  void setPoints(std::vector<Point> points);
  QSize sizeHint() const override { return {300, 160}; }

 protected:
  void draw(QPainter&) override;

 private:
  std::vector<Point> points_;
};

}  // namespace graft
