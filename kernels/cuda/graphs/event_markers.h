#pragma once
// Event markers in a run while it is captured, and the times between them after each replay: the functions of the same
// names in kernels/capture/cuda_graphs.h.
#include <cstddef>

namespace graft::cuda {

// Set by recordMarker: the calling thread's current capture has markers in it. Whoever captures clears it first.
inline thread_local bool hasMarkers = false;

void* makeMarkers();
void freeMarkers(void* markers);
bool recordMarker(void* markers, char* error, size_t size);
bool markerTimes(void* markers, double* microseconds, size_t count, char* error, size_t size);
const char* kernelsAfterMarker(void* markers, size_t i);

}  // namespace graft::cuda
