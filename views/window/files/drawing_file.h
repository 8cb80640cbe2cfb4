// The canvas's drawing as a file: as it is opened and coloured on the screen, in the theme of the screen.
//
//   QString why;   writeDrawing(canvas, "bert.svg", why);   // `why` stays empty where it was written
#pragma once

#include <QString>
#include <vector>

#include "views/document/document_info.h"

namespace graft {

class Canvas;

/// The format is the path's ending: .svg, .png, .pdf or .dot. The file is complete or as before.
void writeDrawing(const Canvas& canvas, const QString& path, QString& why);

/// The interactive page: modules are open as on the canvas, and nodes have its numbers. With `before`, both are in it,
/// and what `records` removed and added.
void writePage(const Canvas& canvas, const Graph* before, const std::vector<RecordInfo>& records, const QString& path,
               QString& why);

}  // namespace graft
