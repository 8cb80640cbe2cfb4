// graft-raster IN.svg OUT.png|OUT.pdf [SCALE]: draws an SVG with Qt. A program of its own, so that `graft` needs no Qt.
#include <QFile>
#include <QFileInfo>
#include <QGuiApplication>
#include <cstdio>
#include <cstdlib>

#include "views/picture/picture.h"

/// Without a desktop, Qt warns about folders that a picture does not need.
static void tell(QtMsgType, const QMessageLogContext&, const QString& message) {
  if (!message.startsWith(QStringLiteral("QStandardPaths:"))) std::fprintf(stderr, "%s\n", qPrintable(message));
}

int main(int argc, char** argv) {
  qInstallMessageHandler(tell);
  if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QGuiApplication app(argc, argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: graft-raster IN.svg OUT.png|OUT.pdf [SCALE]\n");
    return 2;
  }
  QFile in(QString::fromLocal8Bit(argv[1])), out(QString::fromLocal8Bit(argv[2]));
  const auto fail = [](const char* path, const QString& why) {
    std::fprintf(stderr, "graft-raster: %s: %s\n", path, qPrintable(why));
    return 3;
  };
  if (!in.open(QIODevice::ReadOnly)) return fail(argv[1], in.errorString());
  QString why;
  const QByteArray picture =
      graft::pictureOf(in.readAll(), QFileInfo(out.fileName()).suffix(), argc > 3 ? std::atof(argv[3]) : 1, why);
  if (!why.isEmpty()) return fail(argv[1], why);
  if (!out.open(QIODevice::WriteOnly) || out.write(picture) != picture.size()) return fail(argv[2], out.errorString());
  return 0;
}
