// Verification by numbers: whether a rewritten graph computes what the original does. Both run on the given inputs and
// on others made from them (random ones of the same ranges, scaled, edge values). The original in fp64 is the
// reference.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/progress.h"
#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

/// The first node, on the way to an output, that gives NaN or Inf where a run in fp64 gives numbers.
struct Overflow {
  std::string node, op, scope;
  size_t elements = 0;  ///< of its outputs
};
/// Runs the graph on the inputs, as they are and in fp64, and looks at every value. Nothing where no output overflows,
/// or where a run fails.
std::optional<Overflow> findOverflow(const Graph&, const TensorSet& inputs);
/// "the first that overflows is `exp` (aten.exp.default) in layers.0.mixer"
std::string overflowText(const Overflow&);

struct Verification {
  /// Nothing differed. Where nothingCompared() says so, this means nothing.
  bool passed = false;
  size_t inputSets = 0;             ///< how many sets of inputs were tried, the given one first
  std::vector<Difference> outputs;  ///< on the given inputs; where a later set failed, on that set
  std::string why;                  ///< the first failure: which inputs, which output, how far off
  bool isOutOfTime = false;         ///< it passed, and further sets of inputs were left out for want of time
  /// What was compared in part or not at all, because this machine does not have an operator: a sentence each.
  std::vector<std::string> notVerified;
  /// Nothing could be compared.
  bool isEmpty() const { return passed && outputs.empty() && !notVerified.empty(); }
  /// Of outputs that have numbers in fp64 alone.
  std::optional<Overflow> overflow;
  /// It passed, and no output had a number that could be compared.
  bool nothingCompared() const { return passed && graft::nothingCompared(outputs); }
};

/// How long a verification tries inputs beyond the given ones.
struct FurtherInputs {
  double seconds = 20;  ///< from its begin: none is tried that would take longer, as far as the last ones tell
  bool oneAtLeast = true;
};

/// An error says that a graph cannot run. Numbers that differ are no error: the verification has not passed. Where an
/// operator is missing, the parts around it are compared: what it reads, and what is computed from made-up outputs of
/// it.
Result<Verification> verifyRewrite(const Graph& original, const Graph& rewritten, const TensorSet& inputs,
                                   const Job& = {}, const FurtherInputs& = {});

/// How far two corresponding values inside the graphs are apart.
struct LayerDifference {
  std::string original, rewritten;  ///< the values' names
  Difference difference;
};
/// Runs both and compares the values inside that correspond, in the order the original computes them: the first that
/// has not passed is where they part. With `renamed` (pairs of value names, from the rewrites' records) those and
/// values of the same name correspond; without it, for graphs from separate files, values that hold the same numbers up
/// to a tenth of their size.
Result<std::vector<LayerDifference>> compareLayers(const Graph& original, const Graph& rewritten,
                                                   const TensorSet& inputs,
                                                   const std::vector<std::pair<std::string, std::string>>& renamed = {},
                                                   const Job& = {});

}  // namespace graft
