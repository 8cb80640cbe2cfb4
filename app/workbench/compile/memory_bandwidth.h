// How fast this machine's memory is: what kernels that only move data are measured by.
#pragma once

namespace graft::workbench {

/// Bytes read and written in a microsecond while `threads` threads (0: as many as there are processors) copy more than
/// caches hold. Takes about 50 ms.
double memoryBandwidth(int threads);

}  // namespace graft::workbench
