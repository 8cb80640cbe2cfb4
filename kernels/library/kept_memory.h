// Memory between calls. A model frees the tensors of one call and asks for the same sizes in the next. What is freed,
// glibc may give back to the system: always above its mmap threshold, and at the end of its heap above a limit that
// follows from the tensors that the process happened to free before. The next call then takes a page fault for every
// 4 KB, up to a quarter of the time of a convolutional network; whether it does differs from process to process.
//
// So large tensors that convolutions, products and generated kernels make on the CPU take memory that earlier ones
// left, and leave it when they are freed. At most GRAFT_OPS_KEEP_MB (256) lie unused; what was left longest ago goes
// back first. Everything else in the process allocates as before.
//
//   at::Tensor linearForward(...) { const KeptMemory kept; return at::empty(...); }
#pragma once

namespace graft::ops {

// While one exists, tensors that the calling thread makes take kept memory, also those that ATen makes inside.
class KeptMemory {
 public:
  KeptMemory();
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
};

}  // namespace graft::ops
