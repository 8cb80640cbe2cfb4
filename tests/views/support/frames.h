// A canvas of ten thousand boxes, and how long its frames take: for the window's tests and its measurements.
#pragma once

#include <QImage>
#include <QTest>
#include <cmath>
#include <ctime>
#include <vector>

#include "tests/support/thread_time.h"
#include "tests/views/support/sample_graphs.h"
#include "views/canvas/canvas.h"

namespace graft::test {

/// Processor time of this process: what other jobs on the machine take is not in it.
inline double processorMs() { return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// How far grey values of two pictures are apart at the mean, of 255; of what one sees from far away.
inline double roughDifference(const QImage& one, const QImage& other) {
  constexpr int across = 60, down = 40;
  const auto rough = [](const QImage& image) {
    return image.scaled(across, down, Qt::IgnoreAspectRatio, Qt::SmoothTransformation);
  };
  const QImage a = rough(one), b = rough(other);
  double sum = 0;
  for (int y = 0; y < down; ++y)
    for (int x = 0; x < across; ++x) sum += std::abs(qGray(a.pixel(x, y)) - qGray(b.pixel(x, y)));
  return sum / (across * down);
}

/// Every module of a large encoder open; false where it is not drawn in time.
inline bool showTenThousandBoxes(Canvas& canvas) {
  canvas.resize(1200, 800);
  canvas.show();
  ViewOptions all;
  all.depth = -1;
  all.foldRepeats = false;
  canvas.setViewOptions(all);
  canvas.setGraph(std::make_shared<Graph>(encoder(340)));
  return QTest::qWaitFor([&] { return canvas.scene() && !canvas.isPartial(); }, 20000);
}

/// Milliseconds of the thread's processor time of each of `count` frames while an arrow key pans.
inline std::vector<double> panningFrames(Canvas& canvas, double scale, int count) {
  canvas.setView(canvas.scene()->bounds().center(), scale);
  canvas.repaint();
  std::vector<double> ms;
  for (int i = 0; i < count; ++i) {
    const double start = threadMs();
    QTest::keyClick(&canvas, i % 2 ? Qt::Key_Left : Qt::Key_Down);
    canvas.repaint();
    ms.push_back(threadMs() - start);
  }
  return ms;
}

}  // namespace graft::test
