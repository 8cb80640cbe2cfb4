// Goes from one part of the window to the next by the keyboard: the panels that show, the parts of those that are
// split, and the page in the middle. An editor keeps the Tab key for itself, so that Tab alone would end there.
//
//   focusNextPart(window, centre, 1);    // F6; -1: Shift+F6
#pragma once

#include <QMainWindow>

namespace graft {

/// Parts come from the left to the right, and from the top to the bottom. In each, the keyboard goes where it was last.
void focusNextPart(QMainWindow& window, QWidget& centre, int step);

}  // namespace graft
