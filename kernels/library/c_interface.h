// The C interface of libgraft_ops.so, for programs that load it with dlopen (declare these functions, or look them up
// with dlsym) and for the library's own sources. Strings belong to the library.
//
//   const auto status = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "graft_ops_cuda_status"));
#pragma once

#include <cstdint>

#define GRAFT_OPS_API extern "C" __attribute__((visibility("default")))

// JSON: [{"name", "schema", "doc", "needs", "runs_on": ["cpu", "meta", "cuda"?]}, ...], sorted by name. Valid until the
// calling thread's next call.
GRAFT_OPS_API const char* graft_ops_describe();
// "" when the CUDA implementations are loaded, otherwise the reason why they are not.
GRAFT_OPS_API const char* graft_ops_cuda_status();
// Frees all packed copies of weights (see cpu/packed_weights.h); the next use of a weight packs it again.
GRAFT_OPS_API void graft_ops_forget_weights();
// The size of those copies in bytes.
GRAFT_OPS_API int64_t graft_ops_packed_bytes();
// Frees the memory that is kept between calls (see library/kept_memory.h).
GRAFT_OPS_API void graft_ops_free_kept_memory();
// The size of that memory in bytes.
GRAFT_OPS_API int64_t graft_ops_kept_bytes();
// The instruction set of the CPU loops: "avx512", "avx2" or "base". GRAFT_OPS_CPU=... in the environment lowers it.
GRAFT_OPS_API const char* graft_ops_cpu_capability();
