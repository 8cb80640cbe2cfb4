// Whether a window is alive and what it holds: how often its event loop turned, its memory, its open files.
#pragma once

#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QTimer>
#include <algorithm>

namespace graft::test {

inline qint64 residentBytes() {
  QFile file(QStringLiteral("/proc/self/statm"));
  return file.open(QIODevice::ReadOnly) ? file.readAll().split(' ').value(1).toLongLong() * 4096 : 0;
}

inline qsizetype openFiles() {
  return QDir(QStringLiteral("/proc/self/fd")).entryList(QDir::NoDotAndDotDot | QDir::AllEntries).size();
}

/// A clock that ticks in the window's event loop. A window that waits for something in one piece ticks once for it,
/// one that goes on answering ticks all the while: `beats` is what a test may depend on, milliseconds are for people.
class Heartbeat {
 public:
  Heartbeat() {
    timer_.setTimerType(Qt::PreciseTimer);
    timer_.setInterval(5);
    QObject::connect(&timer_, &QTimer::timeout, &timer_, [this] {
      worst = std::max(worst, clock_.restart());
      ++beats;
    });
    clock_.start();
    timer_.start();
  }
  qint64 worst = 0;  ///< the longest silence in milliseconds
  int beats = 0;

 private:
  QTimer timer_;
  QElapsedTimer clock_;
};

}  // namespace graft::test
