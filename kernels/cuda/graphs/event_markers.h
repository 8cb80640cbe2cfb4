#pragma once
// Marks in a run while it is captured, and the times between them after each replay: the functions of that name in
// kernels/capture/graphs.h.
#include <cstddef>

namespace graft::cuda {

// Set by setMark: the calling thread's capture has marks in it. Who captures clears it before.
inline thread_local bool marked = false;

void* makeMarks();
void freeMarks(void* marks);
bool setMark(void* marks, char* error, size_t size);
bool markTimes(void* marks, double* microseconds, size_t count, char* error, size_t size);
const char* markedKernels(void* marks, size_t i);

}  // namespace graft::cuda
