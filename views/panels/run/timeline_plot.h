// TimelinePlot: what runs when, lane by lane: the nodes of two models one after the other, or what the host, its
// threads and the streams of a GPU do in one run. The wheel or + and − zoom, dragging pans, a click or Return chooses.
//
//   plot->setSpans(original, rewritten);            plot->setLanes({{"host", spans, "812 µs"}, …});
#pragma once

#include <vector>

#include "views/layout/node_text.h"
#include "views/panels/run/plot.h"

namespace graft {

class TimelinePlot : public Plot {
  Q_OBJECT

 public:
  struct Span {
    QString node, label;  ///< label: "linear encoder.layer.0.dense"
    BoxKind kind = BoxKind::Arithmetic;
    double start = 0, microseconds = 0;
  };
  struct Lane {
    QString name;
    std::vector<Span> spans;
    QString total;  ///< behind the lane: "812 of 826 µs"; may be empty
  };
  explicit TimelinePlot(QWidget* parent = nullptr);
  /// As long as the longest, or `total`.
  void setLanes(std::vector<Lane> lanes, double total = 0);
  /// Two lanes.
  void setSpans(std::vector<Span> original, std::vector<Span> rewritten);
  /// What stands in front of these; "original" and "rewritten" by default.
  void setNames(const QString& first, const QString& second);
  const std::vector<Lane>& lanes() const { return lanes_; }
  const std::vector<Span>& spans(int lane) const { return lanes_[static_cast<size_t>(lane)].spans; }
  QSize sizeHint() const override { return {420, 130}; }
  /// The bars, lane by lane.
  int stopCount() const override;
  QString stopText(int) const override;

 Q_SIGNALS:
  void chosen(const QString& node);

 protected:
  void draw(QPainter&) override;
  QRectF stopRect(int) const override;
  void chooseStop(int) override;
  int stopBy(int key) const override;
  void keyPressEvent(QKeyEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  bool event(QEvent*) override;

 private:
  QRectF laneRect(size_t lane) const;
  double xOf(double microseconds) const;
  const Span* spanAt(QPointF) const;
  /// Its lane, and its place there.
  std::pair<size_t, size_t> placeOf(int stop) const;
  const Span& spanOf(int stop) const;
  void zoom(double factor, double fixed);
  void clampView();

  QString names_[2];
  std::vector<Lane> lanes_;
  double total_ = 0;             ///< microseconds of the longest lane
  double from_ = 0, shown_ = 0;  ///< the part in view
  double pressX_ = 0, pressFrom_ = 0;
  bool dragged_ = false;
};

}  // namespace graft
