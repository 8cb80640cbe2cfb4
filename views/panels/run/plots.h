// The run panel's plots. All are drawn from what the engine's model/run answers, and can be copied or saved as SVG or
// PNG from their context menu.
#pragma once

#include <QJsonArray>
#include <QJsonObject>
#include <QWidget>
#include <vector>

#include "views/layout/node_text.h"

namespace graft {

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

/// The nodes of both models one after the other, as long as they take. The wheel zooms, dragging pans, a click chooses.
class TimelinePlot : public Plot {
  Q_OBJECT

 public:
  struct Span {
    QString node, label;  ///< label: "linear encoder.layer.0.dense"
    BoxKind kind = BoxKind::Arithmetic;
    double start = 0, microseconds = 0;
  };
  explicit TimelinePlot(QWidget* parent = nullptr);
  /// What stands in front of the lanes; "original" and "rewritten" by default.
  void setLanes(const QString& first, const QString& second);
  void setSpans(std::vector<Span> original, std::vector<Span> rewritten);
  const std::vector<Span>& spans(int lane) const { return lanes_[lane]; }
  QSize sizeHint() const override { return {420, 130}; }

 Q_SIGNALS:
  void chosen(const QString& node);

 protected:
  void draw(QPainter&) override;
  void wheelEvent(QWheelEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  bool event(QEvent*) override;

 private:
  QRectF laneRect(int lane) const;
  double xOf(double microseconds) const;
  const Span* spanAt(QPointF) const;
  void clampView();

  QString names_[2];
  std::vector<Span> lanes_[2];
  double total_ = 0;             ///< microseconds of the longer lane
  double from_ = 0, shown_ = 0;  ///< the part in view
  double pressX_ = 0, pressFrom_ = 0;
  bool dragged_ = false;
};

}  // namespace graft
