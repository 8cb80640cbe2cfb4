// graft-raster IN.svg OUT.png|OUT.pdf [SCALE]: draws an SVG with Qt. A program of its own, so that `graft` needs no Qt.
#include <QFile>
#include <QFontDatabase>
#include <QGuiApplication>
#include <QImage>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QRegularExpression>
#include <QSvgRenderer>
#include <algorithm>
#include <cmath>
#include <cstdio>

int main(int argc, char** argv) {
  if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QGuiApplication app(argc, argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: graft-raster IN.svg OUT.png|OUT.pdf [SCALE]\n");
    return 2;
  }
  QFile file(QString::fromLocal8Bit(argv[1]));
  if (!file.open(QIODevice::ReadOnly)) {
    std::fprintf(stderr, "graft-raster: cannot read %s\n", argv[1]);
    return 3;
  }
  QByteArray svg = file.readAll();
  // Qt takes a list of families for one name: leave the first that is installed.
  static const QRegularExpression families(QStringLiteral("font-family=\"([^\"]+)\""));
  QRegularExpressionMatch list = families.match(QString::fromUtf8(svg.left(1000)));
  const QStringList wanted = list.captured(1).split(QLatin1Char(','));
  for (QString family : wanted) {
    family = family.trimmed().remove(QLatin1Char('\''));
    if (!QFontDatabase::hasFamily(family)) continue;
    svg.replace(list.captured(0).toUtf8(), "font-family=\"" + family.toUtf8() + "\"");
    break;
  }
  QSvgRenderer renderer(svg);
  if (!renderer.isValid()) {
    std::fprintf(stderr, "graft-raster: %s is no SVG\n", argv[1]);
    return 3;
  }
  QString out = QString::fromLocal8Bit(argv[2]);
  QSizeF size = renderer.defaultSize();
  if (out.endsWith(QLatin1String(".pdf"))) {
    QPdfWriter pdf(out);
    pdf.setPageMargins(QMarginsF(0, 0, 0, 0));
    pdf.setPageSize(QPageSize(size * 0.75, QPageSize::Point));  // a CSS pixel is 3/4 of a point
    QPainter painter(&pdf);
    if (!painter.isActive()) return 3;
    renderer.render(&painter);
    return painter.end() ? 0 : 3;
  }
  double scale = argc > 3 ? std::atof(argv[3]) : 1;
  double most = 28000 / std::max(size.width(), size.height());  // images beyond 2^15 pixels are refused by many viewers
  double pixels = std::sqrt(2.0e8 / (size.width() * size.height()));
  scale = std::max(0.05, std::min({scale > 0 ? scale : 1, most, pixels}));
  QImage image((size * scale).toSize(), QImage::Format_ARGB32_Premultiplied);
  if (image.isNull()) {
    std::fprintf(stderr, "graft-raster: no memory for %d x %d pixels\n", image.width(), image.height());
    return 3;
  }
  image.fill(Qt::white);
  QPainter painter(&image);
  painter.setRenderHint(QPainter::Antialiasing);
  renderer.render(&painter);
  painter.end();
  return image.save(out) ? 0 : 3;
}
