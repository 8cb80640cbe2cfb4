// The drawing's colours as Qt's.
#pragma once

#include <QColor>

#include "views/layout/palette.h"

namespace graft {

inline QColor toQt(Color c) { return {c.r, c.g, c.b}; }

}  // namespace graft
