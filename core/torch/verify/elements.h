// Sums over the elements of two tensors, or of three, in double precision.
//
//   const Sums s = sumsOf(expected, actual, reference, tolerance, Judge::Model);
//   if (s.tooFar > 0) report(s.firstTooFar);
//
// The tensors are contiguous, on the CPU, real, and of the same number of elements; an undefined reference is none.
// The elements are divided into chunks of a fixed size, at::get_num_threads() threads take them one after the other,
// and the sums of the chunks are added in order. So the result does not depend on the number of threads.
//
// Private to core/torch/verify.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace graft {

/// torch.testing.assert_close's defaults, and Dynamo's absolute tolerance for RMSE.
struct Tolerance {
  double relative = 0, absolute = 0, rmse = 0, factor = 2;
  /// What the expected is taken to be off by at least, of its root mean square: where it is in a finer dtype than the
  /// actual, its own error is no measure of what the coarser one can do.
  double assumed = 0;
};

/// Whether a model's outputs are compared, or the values of a rewrite. The latter need no relative difference and no
/// cosine.
enum class Judge { Model, Elements };

/// What one pass over the elements collects.
struct Sums {
  double maxAbs = 0, maxRel = 0, squares = 0, dot = 0, normA = 0, normE = 0, worstExcess = 0;
  double referenceE = 0, referenceA = 0, worstE = 0;  ///< worstE: how far expected is from the reference at most
  int64_t finite = 0, tooFar = 0, worst = -1, firstTooFar = -1, firstNonFinite = -1, referenced = 0;
  /// Elements that are finite in the reference and not in the expected tensor, such as a sum that overflowed: how many,
  /// and the squares of what the reference has there and of how far the actual ones are from that.
  int64_t repaired = 0;
  int64_t overflowed = 0;  ///< finite in the reference alone
  int64_t nonFinite = 0;   ///< of the same kind, NaN or an infinity, in the expected tensor and in the actual one
  int64_t nan = 0;         ///< NaN among them
  double repairedSquares = 0, repairedError = 0;
};
Sums sumsOf(const at::Tensor& expected, const at::Tensor& actual, const at::Tensor& reference, const Tolerance&, Judge);

/// The first element further from the reference than `allowed`, by more than the tolerance; -1 if none is.
int64_t firstBeyond(const at::Tensor& expected, const at::Tensor& actual, const at::Tensor& reference, double allowed,
                    const Tolerance&);

/// Entry i counts the elements that 2^(i-1) to 2^i - 1 representable numbers lie between, entry 0 the equal ones. Empty
/// for dtypes other than float16, bfloat16, float32 and float64. Both tensors have the same dtype.
std::vector<uint64_t> ulpHistogram(const at::Tensor& expected, const at::Tensor& actual);

}  // namespace graft
