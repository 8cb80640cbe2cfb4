#include "views/window/files/drawing_file.h"

#include <QCoreApplication>
#include <QFileInfo>
#include <algorithm>
#include <cmath>

#include "views/canvas/canvas.h"
#include "views/drawing/drawing.h"
#include "views/drawing/page.h"
#include "views/picture/picture.h"
#include "views/widgets/theme.h"
#include "views/window/files/session_file.h"

namespace graft {
namespace {

/// The colours that the canvas has beside those of kinds.
Tints tintsOf(const Canvas& canvas) {
  const BoxDecorations& boxes = canvas.boxDecorations();
  const Decorations& d = canvas.decorations();
  Tints tints;
  if (!d.stale) tints.pattern = boxes.pattern;
  if (!boxes.anyHeat || (boxes.least == 0 && boxes.most == 0)) return tints;
  tints.title = d.heatTitle.toStdString();
  tints.scale = {boxes.least, boxes.most};
  tints.least = heatText(boxes.least, boxes.least == 0 ? QString() : d.heatUnit).toStdString();
  tints.most = heatText(boxes.most, d.heatUnit).toStdString();
  tints.heat = boxes.heat;
  for (const double heat : boxes.heat) {
    tints.figures.push_back(std::isnan(heat) ? std::string() : heatText(heat, d.heatUnit).toStdString());
  }
  return tints;
}

}  // namespace

void writePage(const Canvas& canvas, const Graph* before, const std::vector<RecordInfo>& records, const QString& path,
               QString& why) {
  const SceneRef scene = canvas.scene();
  DrawOptions options;
  options.theme = currentTheme();
  options.title = scene->graph->name;
  options.depth = scene->options.depth;
  options.opened = scene->options.opened;
  options.closed = scene->options.closed;
  options.flow = scene->options.flow;
  options.foldDeadEnds = scene->options.foldDeadEnds;
  GraphDifference difference;
  for (const RecordInfo& r : records) {
    for (const QString& name : r.removed) difference.removed.insert(name.toStdString());
    for (const QString& name : r.added) difference.added.insert(name.toStdString());
  }
  options.before = before;
  options.difference = &difference;
  const Decorations& d = canvas.decorations();
  if (!d.heat.isEmpty()) {
    NodeNumbers& numbers = options.numbers.emplace_back();
    numbers.title = d.heatTitle.toStdString();
    numbers.unit = d.heatUnit.toStdString();
    numbers.adds = d.heatAdds;
    numbers.fromZero = d.heatLeast == 0;
    for (auto it = d.heat.begin(); it != d.heat.end(); ++it) numbers.values[it.key().toStdString()] = it.value();
  }
  const Result<std::string> page = drawPage(*scene->graph, options);
  if (page)
    writeWhole(path, QByteArray::fromStdString(*page), why);
  else
    why = QString::fromStdString(page.error().message);
}

void writeDrawing(const Canvas& canvas, const QString& path, QString& why) {
  const SceneRef scene = canvas.scene();
  const QString ending = QFileInfo(path).suffix().toLower();
  if (!QStringList{QStringLiteral("svg"), QStringLiteral("png"), QStringLiteral("pdf"), QStringLiteral("dot")}.contains(
          ending)) {
    why = QCoreApplication::translate("DrawingFile", "the name of a drawing ends in .svg, .png, .pdf or .dot");
    return;
  }
  DrawOptions options;
  options.theme = currentTheme();
  options.title = scene->graph->name;
  options.flow = scene->options.flow;
  if (ending == QLatin1String("dot")) {
    writeWhole(path, QByteArray::fromStdString(dotOf(scene->view, scene->graph->name, options)), why);
    return;
  }
  std::vector<Change> changes;
  if (canvas.boxDecorations().anyChange) changes = canvas.boxDecorations().change;
  const QByteArray svg =
      QByteArray::fromStdString(svgOf(scene->view, scene->layout, options, changes, tintsOf(canvas)));
  if (ending == QLatin1String("svg")) {
    writeWhole(path, svg, why);
    return;
  }
  constexpr double pixelsPerUnit = 2;
  const QByteArray picture = pictureOf(svg, ending, pixelsPerUnit, why);
  if (why.isEmpty()) writeWhole(path, picture, why);
}

}  // namespace graft
