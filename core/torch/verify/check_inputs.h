// More inputs for a verification, made from given ones: what a model or a part of it may meet beyond one example.
//
// Private to core/torch.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

struct InputSet {
  std::string what;  ///< "random values", for messages
  std::function<TensorSet()> make;
  /// Where the original makes NaN of these, nothing is asked: what an attention that sees nothing computes is open.
  bool whereDefined = false;
  /// A difference on these is told and decides nothing: what a mask hides may be NaN for one side and not the other.
  bool onlyTold = false;
  bool fewRows = false;  ///< fewer than given, but not one, of the size that comes first (the batch)
  bool instead = false;  ///< to be tried where the set before it is refused, and only there
  /// Each element may be what the original makes of these inputs changed by a unit in the last place (nearlyEqual,
  /// isAmong): a recurrence or a cancellation may make any rounding large.
  bool mayBeSensitive = false;
};

/// For a whole model. The given set must outlive the result.
std::vector<InputSet> furtherInputs(const TensorSet& given);
/// For a part of a model, whose inputs may be anything that its operators take: edge values too.
std::vector<InputSet> furtherPartInputs(const TensorSet& given);

/// The same inputs but for a unit in the last place: each floating number as it is, or one up or down. With 0, the same
/// numbers in another layout: images and volumes in channels-last, for which operators add in another order. Masks
/// stay.
TensorSet nearlyEqual(const TensorSet&, uint64_t seed);

/// For each of the given values what its sizes are called that may differ from call to call: of a tensor one name for
/// each dimension, empty where that is always the same; of an int, which is such a size itself, its name alone.
using DimNames = std::vector<std::vector<std::string>>;
/// Of a model's inputs. Sizes of which nothing is known are alike where the given ones are.
DimNames sizesOfInputs(const Graph&, const TensorSet& given);
/// Of inputs of which nothing is known: sizes that are equal here are taken to be one.
DimNames sizesByValue(const TensorSet& given);
/// Of the values that flow into a part of the graph; nothing where some size is not one symbol.
DimNames sizesOfValues(const Graph&, const std::vector<ValueId>& values);
/// The given values with other sizes: 1, few, a larger one and 0 for the first that may differ (the batch), odd and
/// larger ones for the others (with few of the first, which takes less time), 1 for all, as far as the ranges of
/// `symbols` allow. The elements are the given ones, repeated or left out. What refuses such sizes says nothing.
std::vector<InputSet> otherSizes(const TensorSet& given, const DimNames& names, std::span<const Symbol> symbols = {});

/// How many elements all tensors have together.
int64_t elementsOf(const TensorSet&);

/// By input: tensors of integers with which both graphs only calculate, so that any would do: no table is looked up by
/// them. Masks of zeros and ones are none, nor are tensors of fewer than 8 elements.
std::vector<bool> plainIntegers(const Graph& a, const Graph& b, const TensorSet& given);
/// The given values with other numbers in those tensors: of the same signs, with 0 and without, and larger ones.
std::vector<InputSet> otherNumbersFor(const TensorSet& given, const std::vector<bool>& which);
/// Of a model that takes integers: each as 0, 1, an odd number and a larger one.
std::vector<InputSet> otherIntegerInputs(const TensorSet& given);

}  // namespace graft
