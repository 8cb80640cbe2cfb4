// Whether a window is alive and what it holds: how long its event loop did not turn, its memory, its open files.
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

/// How long the window did not answer at worst, in milliseconds: a clock that ticks in its event loop.
class Heartbeat {
 public:
  Heartbeat() {
    timer_.setTimerType(Qt::PreciseTimer);
    timer_.setInterval(5);
    QObject::connect(&timer_, &QTimer::timeout, &timer_, [this] { worst = std::max(worst, clock_.restart()); });
    clock_.start();
    timer_.start();
  }
  qint64 worst = 0;

 private:
  QTimer timer_;
  QElapsedTimer clock_;
};

}  // namespace graft::test
