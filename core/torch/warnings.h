// PyTorch's warnings. A model that is timed would print each of them in each of its runs.
#pragma once

namespace graft {

/// From now on, this thread prints each warning of PyTorch once in the process.
void printWarningsOnce();

}  // namespace graft
