// RewriteCheck: whether a rewrite computes what it replaces. The rewriter asks before it makes a rewrite final, a
// tensor library answers by numbers (core/torch/rewrite_verification.h): like Semantics, a question that graphs alone
// cannot answer. A rewrite that fails is taken back, with what is known about the failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// How far a rewrite may be off on purpose from what it replaces. What is not given is not asked for.
struct RewriteTolerance {
  std::optional<double> rmse;        ///< the root mean square of the difference, by that of the original's result
  std::optional<double> rtol, atol;  ///< each element, as torch.allclose asks
  bool isGiven() const { return rmse || rtol || atol; }
  bool operator==(const RewriteTolerance&) const = default;
};
/// "an RMSE of 2 % of the result's", "0.001 + 0.01 of the expected at each element".
std::string toString(const RewriteTolerance&);

/// What is known about one rewrite, in words and numbers for a report.
struct RewriteVerification {
  enum class Verdict : uint8_t {
    Unchecked,   ///< nobody asked
    Verified,    ///< computes the same on every set of inputs that was tried
    Measured,    ///< computes something else, as its rule announces; the numbers say how far
    Unverified,  ///< could not be tried, or not fully; `why` says why
    Failed,      ///< computes something else: taken back
  };
  Verdict verdict = Verdict::Unchecked;
  size_t inputSets = 0;  ///< how many sets of inputs were tried on this rewrite or on one of the same structure
  std::string why;       ///< one sentence; empty where it is verified
  // Failed and Measured: where it shows.
  std::string inputs;                    ///< the kind: "the model's own values", "random values", …
  std::vector<std::string> inputShapes;  ///< "x f32[2,9,384]"
  std::string output;                    ///< the value's name in the original
  std::string element;                   ///< the first one that differs: "[0,3,1]"; empty where the types differ
  std::string expected, actual;          ///< that element, or the types
  double maxAbs = 0;
  // Where its rule declares a tolerance: Measured keeps to it, Failed does not.
  std::string tolerance;    ///< in words
  double relativeRmse = 0;  ///< the root mean square of the differences, by that of the original's result
};
std::string_view verdictName(RewriteVerification::Verdict);

/// A rewrite that is not final yet: the graph holds both sides.
struct RewriteCandidate {
  const Graph& graph;
  std::string_view rule;
  bool changesNumbers = false;
  std::vector<NodeId> before, after;
  std::vector<std::pair<ValueId, ValueId>> outputs;  ///< of before → of after
  RewriteTolerance tolerance = {};                   ///< of its rule
};

class RewriteCheck {
 public:
  virtual ~RewriteCheck() = default;
  /// Called before the places of one search are rewritten one after the other: each place's nodes.
  virtual void prepare(const Graph& graph, const std::vector<std::vector<NodeId>>& places) = 0;
  /// What does not fail is made final by the caller.
  virtual RewriteVerification check(const RewriteCandidate& candidate) = 0;
  /// For steps that change a graph as a whole (passes): both graphs, on the model's own inputs alone.
  virtual RewriteVerification checkWhole(const Graph& before, const Graph& after, bool changesNumbers) = 0;
};

}  // namespace graft
