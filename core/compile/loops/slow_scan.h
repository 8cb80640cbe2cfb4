// Scans that are better left to a library.
#pragma once

namespace graft::loops {

/// Whether a GPU, on which one thread goes over each row, takes longer for a scan of so many rows than a kernel whose
/// threads share rows. `length`: elements of a row.
inline bool isSlowScan(double length, double rows) { return length > 256 && rows < 4096; }

}  // namespace graft::loops
