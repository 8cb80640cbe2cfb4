// The run panel's plots, drawn from what the engine's model/run answers.
#pragma once

#include <QJsonArray>
#include <QJsonObject>
#include <vector>

#include "views/panels/run/plot.h"

namespace graft {

/// Both latencies, and those of a pinned run, as dots and a box on one axis in milliseconds.
class LatencyPlot : public Plot {
 public:
  explicit LatencyPlot(QWidget* parent = nullptr);
  void setRun(const QJsonObject& run, const QJsonObject& baseline);
  QSize sizeHint() const override { return {420, 140}; }
  int stopCount() const override { return static_cast<int>(rows_.size()); }
  QString stopText(int) const override;

 protected:
  void draw(QPainter&) override;
  QRectF stopRect(int) const override;

 private:
  struct Row {
    QString name, how;
    QJsonObject side;
  };
  QRectF area() const;

  std::vector<Row> rows_;
};

/// How many elements of an output are how many units in the last place off.
class UlpPlot : public Plot {
 public:
  explicit UlpPlot(QWidget* parent = nullptr);
  /// `counts[i]`: elements off by 2^(i-1) to 2^i; the first is equal ones.
  void setCounts(const QString& title, const QJsonArray& counts);
  QSize sizeHint() const override { return {260, 130}; }
  int stopCount() const override { return static_cast<int>(counts_.size()); }
  QString stopText(int) const override;

 protected:
  void draw(QPainter&) override;
  QRectF stopRect(int) const override;

 private:
  QRectF area() const;
  double barWidth() const;

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
  int stopCount() const override { return static_cast<int>(points_.size()); }
  QString stopText(int) const override;

 protected:
  void draw(QPainter&) override;
  QRectF stopRect(int) const override;

 private:
  QRectF area() const;

  std::vector<Point> points_;
};

}  // namespace graft
