// Tensors in and out of files, and how two sets of them differ. Hides LibTorch: a TensorSet is an opaque handle.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

/// A list of values (tensors, numbers, pytrees of them) as a program gets or returns them. Copies share the data.
class TensorSet {
 public:
  struct Impl;  // core/torch/values/values.h
  std::shared_ptr<Impl> impl;
  size_t size() const;
  /// "f32[2,9,384]" of each, nested ones in brackets.
  std::vector<std::string> describe() const;
};

/// What torch.save writes: a tensor, or a list, tuple or dict of them. Classes other than these are refused.
Result<TensorSet> loadTensors(const std::string& path);
/// The same as the graph's inputs, in their order: what the file holds is what the model is called with, nested as it
/// is there. A tuple of the arguments, a dict of them by name, or a tuple of both: (args, kwargs). Literals that were
/// exported in place of an argument are no inputs; BadInput where others are given, or where the arguments do not fit.
Result<TensorSet> loadInputs(const std::string& path, const Graph&);
Status saveTensors(const TensorSet&, const std::string& path);
/// Random inputs for the graph's inputs from specifications like "f16[1,128]:randn", "i64[2,9]:randint(0,30522)",
/// "…:zeros", or "3", "0.5", "true" for numbers; in order, or by the input's name: "n=3". An input without one is made
/// from its type: symbols are `symbolDefault`, or the nearest number in their range, and dimensions what their
/// expressions make of that. Deterministic for a seed.
Result<TensorSet> makeInputs(const Graph&, const std::vector<std::string>& specs, uint64_t seed,
                             int64_t symbolDefault = 2);
/// Moves to "cpu", "cuda", "cuda:1" and casts floating tensors where `dtype` is given.
Result<TensorSet> convert(const TensorSet&, const std::string& device, std::optional<DType> dtype);

/// How far `actual` is from `expected` for one tensor. RMSE and maxima are computed in fp64.
struct Difference {
  std::string name;        ///< "0", "1.logits"
  std::string type;        ///< of expected
  std::string actualType;  ///< where it is another
  /// Whether there were numbers to compare; where shapes differ or none is finite, the figures below say nothing.
  bool measured = false;
  double maxAbs = 0, maxRel = 0, rmse = 0;
  std::optional<double> rmseRatio;  ///< RMSE(actual, fp64) / RMSE(expected, fp64), where a fp64 reference was given
  double cosine = 1;
  std::vector<uint64_t>
      ulpHistogram;  ///< bucket i counts elements off by [2^(i-1), 2^i) units in the last place; 0: equal
  size_t elements = 0;
  bool sameNonFinite = true;  ///< NaN and Inf in the same places
  size_t nonFinite = 0;       ///< elements that are NaN or Inf on both sides: there is no difference to measure
  size_t overflowed = 0;      ///< of these, finite in the fp64 reference
  /// There are elements, and no number was compared: all of them are NaN or Inf on both sides.
  bool nothingCompared = false;
  bool passed = false;
  bool dtypeAlone =
      false;        ///< did not pass, but only for its dtype: the numbers are within the coarser dtype's tolerance
  std::string why;  ///< where it did not pass; where it did, "" or what to know of NaN and Inf
  // The first element that is out of tolerance; empty where none is, or where shapes or dtypes differ.
  std::string element, expected, actual;  ///< "[0,3,1]", "0.25", "nan"
};

/// Whether no output has a number that was compared. What is left in buffers and inputs does not count.
bool nothingCompared(const std::vector<Difference>&);
/// What people are told of outputs of which nothing, or not all, was compared: a sentence each, with what helps.
std::vector<std::string> notCompared(const std::vector<Difference>&);

/// RMSE(actual, ref) <= m RMSE(expected, ref) + tol/10 with m 2, or 3 in half precision, where a fp64 reference is
/// given; assert_close's tolerances otherwise. Where the reference is finite and `expected` is not (a sum overflowed),
/// `actual` may be so too, or is held against the reference. Shapes and dtypes must agree. Of two floating dtypes the
/// coarser one's tolerance holds: `expected` counts as off by its relative part of the root mean square at least.
std::vector<Difference> compareTensors(const TensorSet& expected, const TensorSet& actual,
                                       const TensorSet* reference = nullptr);

/// For a single rewrite, element by element: each within assert_close's tolerance of `expected`, or, given a reference,
/// no further from it than 4 m times the furthest of `expected`, beside the dtype's tolerance, and by RMSE as above.
/// Where `expected` is NaN or infinite and the reference is not so (it overflowed), nothing is asked of `actual`.
std::vector<Difference> compareElements(const TensorSet& expected, const TensorSet& actual,
                                        const TensorSet* reference = nullptr);

}  // namespace graft
