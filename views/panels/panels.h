// The list of panels. A new panel is its own files, which describe it, and one line in panels.cpp.
#pragma once

#include <vector>

#include "views/panels/panel.h"

namespace graft {

/// In the order of the View menu; of panels in one column, from the top.
const std::vector<PanelDescription>& panels();

}  // namespace graft
