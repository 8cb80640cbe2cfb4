// Random numbers that depend on nothing but their place: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011), with cuRAND's conversion to f32. For the CPU and for CUDA.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define GRAFT_ANYWHERE __host__ __device__
#else
#define GRAFT_ANYWHERE
#endif

namespace graft {

/// Number 0 to 3 of a block of a subsequence, in (0, 1].
GRAFT_ANYWHERE inline float philoxUniform(uint64_t seed, uint64_t subsequence, uint64_t block, unsigned number) {
  auto a = static_cast<uint32_t>(block), b = static_cast<uint32_t>(block >> 32);
  auto c = static_cast<uint32_t>(subsequence), d = static_cast<uint32_t>(subsequence >> 32);
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53U} * a, p1 = uint64_t{0xCD9E8D57U} * c;
    a = static_cast<uint32_t>(p1 >> 32) ^ b ^ key0;
    b = static_cast<uint32_t>(p1);
    c = static_cast<uint32_t>(p0 >> 32) ^ d ^ key1;
    d = static_cast<uint32_t>(p0);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const uint32_t drawn = number < 2 ? (number == 0 ? a : b) : (number == 2 ? c : d);
  return static_cast<float>(drawn) * 0x1p-32F + 0x1p-33F;
}

/// Where PyTorch's dropout on a GPU draws element `e` of a contiguous tensor, which `threads` threads go over in
/// vectors of `vector` (4 or 8) elements. `block`: the first one of the draw.
GRAFT_ANYWHERE inline float dropoutUniform(uint64_t seed, uint64_t block, uint64_t e, uint64_t vector,
                                           uint64_t threads) {
  const uint64_t chunk = e / vector, inside = e % vector;
  return philoxUniform(seed, chunk % threads, block + chunk / threads * (vector / 4) + inside / 4,
                       static_cast<unsigned>(e % 4));
}

}  // namespace graft
