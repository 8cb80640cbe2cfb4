// What screen readers are told of a drawing: its boxes, those that an open module holds below it, and its edges. Each
// has a name, what it is and where it stands, and can be selected, opened and closed there.
//
//   installCanvasAccessibility();      // once, before there are canvases
//   tellSelection(canvas);             // the box that is selected has the keyboard now
#pragma once

namespace graft {

class Canvas;

void installCanvasAccessibility();
void tellSelection(Canvas& canvas);
/// Its boxes are others now.
void tellDrawing(Canvas& canvas);

}  // namespace graft
