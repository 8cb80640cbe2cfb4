// A drawing's SVG (views/drawing) as PNG or PDF. In a PDF the text is text: it can be searched and copied. Needs Qt Gui
// and Svg, no widgets: `graft-raster` and the window share it.
//
//   QString why;  QByteArray pdf = pictureOf(svg, "pdf", 1, why);   // empty where `why` says why not
#pragma once

#include <QByteArray>
#include <QString>

namespace graft {

/// `format`: "png" or "pdf". `scale`: pixels of a PNG for each unit of the SVG; less where the picture would have more
/// than 28,000 on a side or 10^8 in all. A page of a PDF is 3/4 point for each unit, and 14,400 points at most, as
/// Acrobat has it. `svg` is as `svgOf` writes it: groups are moved, never turned, and text has no parts; it may be
/// narrower.
QByteArray pictureOf(const QByteArray& svg, const QString& format, double scale, QString& why);

}  // namespace graft
