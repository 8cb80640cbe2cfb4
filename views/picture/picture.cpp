#include "views/picture/picture.h"

#include <QBuffer>
#include <QColor>
#include <QFontDatabase>
#include <QFontMetricsF>
#include <QGuiApplication>
#include <QImage>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QRegularExpression>
#include <QSvgRenderer>
#include <QXmlStreamReader>
#include <algorithm>
#include <cmath>
#include <vector>

namespace graft {
namespace {

/// Qt takes a list of families for one name: leaves the first that is installed.
QString familyOf(QString& svg) {
  static const QRegularExpression families(QStringLiteral("font-family=\"([^\"]+)\""));
  const QRegularExpressionMatch list = families.match(svg.left(1000));
  for (QString family : list.captured(1).split(QLatin1Char(','))) {
    family = family.trimmed().remove(QLatin1Char('\''));
    if (family.isEmpty() || !QFontDatabase::hasFamily(family)) continue;
    svg.replace(list.captured(0), QStringLiteral("font-family=\"%1\"").arg(family));
    return family;
  }
  return QGuiApplication::font().family();
}

struct Text {
  QString text, anchor;
  QPointF at;
  double size = 12, stretch = 1;
  int weight = 400;
  QColor color;
};

std::vector<Text> textsOf(const QString& svg) {
  static const QRegularExpression move(QStringLiteral("translate\\(([-0-9.]+),([-0-9.]+)\\)"));
  static const QRegularExpression narrower(QStringLiteral("scale\\(([0-9.]+),1\\)"));
  std::vector<Text> texts;
  std::vector<QPointF> origins{{0, 0}};
  QXmlStreamReader in(svg);
  while (!in.atEnd()) {
    const auto token = in.readNext();
    if (token == QXmlStreamReader::EndElement && in.name() == QLatin1String("g")) origins.pop_back();
    if (token != QXmlStreamReader::StartElement) continue;
    const auto attributes = in.attributes();
    const auto number = [&](const char* name) { return attributes.value(QLatin1String(name)).toDouble(); };
    if (in.name() == QLatin1String("g")) {
      const auto by = move.match(attributes.value(QLatin1String("transform")).toString());
      origins.push_back(origins.back() + QPointF(by.captured(1).toDouble(), by.captured(2).toDouble()));
    } else if (in.name() == QLatin1String("text")) {
      Text t;
      t.anchor = attributes.value(QLatin1String("text-anchor")).toString();
      if (const auto by = narrower.match(attributes.value(QLatin1String("transform")).toString()); by.hasMatch())
        t.stretch = by.captured(1).toDouble();
      t.at = origins.back() + QPointF(number("x") * t.stretch, number("y"));
      t.size = number("font-size");
      t.weight = static_cast<int>(number("font-weight"));
      t.color = QColor(attributes.value(QLatin1String("fill")).toString());
      if (attributes.hasAttribute(QLatin1String("fill-opacity")))
        t.color.setAlphaF(static_cast<float>(number("fill-opacity")));
      t.text = in.readElementText();
      texts.push_back(t);
    }
  }
  return texts;
}

/// At one size and scaled: the PDF holds each weight of the font once, and widths are those of the outlines.
void paint(QPainter& p, const Text& text, const QString& family) {
  constexpr int size = 100;
  QFont font(family);
  font.setPixelSize(size);
  font.setWeight(static_cast<QFont::Weight>(text.weight));
  const double width = text.anchor.isEmpty() ? 0 : QFontMetricsF(font).horizontalAdvance(text.text);
  p.save();
  p.translate(text.at);
  p.scale(text.stretch * text.size / size, text.size / size);
  p.setFont(font);
  p.setPen(text.color);
  p.drawText(QPointF(text.anchor == QLatin1String("middle") ? -width / 2
                     : text.anchor == QLatin1String("end")  ? -width
                                                            : 0,
                     0),
             text.text);
  p.restore();
}

bool writePdf(QIODevice& out, QString svg, QSizeF size) {
  constexpr double pointsPerUnit = 0.75, longest = 14400;
  const QString family = familyOf(svg);
  const std::vector<Text> texts = textsOf(svg);
  // The renderer would draw them as outlines: twenty times the bytes, and nothing to search.
  static const QRegularExpression textElement(QStringLiteral("<text [^>]*>[^<]*</text>\n?"));
  svg.remove(textElement);
  QSvgRenderer renderer(svg.toUtf8());
  QPdfWriter pdf(&out);
  pdf.setCreator(QStringLiteral("Graft"));
  pdf.setPageMargins(QMarginsF());
  const double points = std::min(pointsPerUnit, longest / std::max(size.width(), size.height()));
  pdf.setPageSize(QPageSize(size * points, QPageSize::Point));
  QPainter painter(&pdf);
  if (!painter.isActive()) return false;
  const double scale = points / 72 * pdf.resolution();  // not of the page: it is rounded to whole points
  painter.scale(scale, scale);
  renderer.render(&painter, QRectF(QPointF(), size));
  for (const Text& text : texts) paint(painter, text, family);
  return painter.end();
}

}  // namespace

QByteArray pictureOf(const QByteArray& svg, const QString& format, double scale, QString& why) {
  constexpr double longestSide = 28000, mostPixels = 1e8;  // images beyond 2^15 on a side are refused by many viewers
  QString text = QString::fromUtf8(svg);
  familyOf(text);
  QSvgRenderer renderer(text.toUtf8());
  if (!renderer.isValid()) return why = QStringLiteral("that is no SVG"), QByteArray();
  const QSizeF size = renderer.defaultSize();
  QByteArray bytes;
  QBuffer out(&bytes);
  out.open(QIODevice::WriteOnly);
  if (format == QLatin1String("pdf")) {
    if (!writePdf(out, QString::fromUtf8(svg), size))
      return why = QStringLiteral("the PDF could not be made"), QByteArray();
    return bytes;
  }
  const double most = longestSide / std::max(size.width(), size.height()),
               pixels = std::sqrt(mostPixels / (size.width() * size.height()));
  scale = std::max(0.05, std::min({scale > 0 ? scale : 1, most, pixels}));
  QImage image((size * scale).toSize(), QImage::Format_ARGB32_Premultiplied);
  if (image.isNull()) {
    why = QStringLiteral("there is no memory for %1 × %2 pixels").arg(size.width() * scale).arg(size.height() * scale);
    return {};
  }
  image.fill(Qt::transparent);  // the drawing has a background of its own
  QPainter painter(&image);
  painter.setRenderHint(QPainter::Antialiasing);
  renderer.render(&painter);
  painter.end();
  if (!image.save(&out, "PNG")) why = QStringLiteral("the PNG could not be made"), bytes.clear();
  return bytes;
}

}  // namespace graft
