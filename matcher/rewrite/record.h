// Record: what one change of a graph was, by names, so that it can be read beside the snapshots before and after it.
// The GraphEditor makes one for every change that becomes final and tells a RewriteListener. Differences, undo, reports
// and verification are built from records.
//
//   struct Verifier : RewriteListener {
//     void onRecord(const Record& r, const Graph& g) override { if (Status s = verify(g); !s) fail(r, s); }
//   };
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/rewrite_check.h"

namespace graft {

/// One rewrite of a rule, or one change that a pass made.
struct Record {
  std::string rule;  ///< rule or pass
  std::string scope;
  std::vector<NodeId> removed, added;
  std::vector<std::string> removedNames, addedNames;
  /// Names of values before and after, for what flowed in and out.
  std::vector<std::pair<std::string, std::string>> inputs, outputs;
  std::vector<std::string> newWeights;
  /// Modules of the match that the replacement keeps: path and what the replacement calls it.
  std::vector<std::pair<std::string, std::string>> keptModules;
  bool changesNumbers = false;
  /// Results that have another shape or dtype than before, which such a rule may give them.
  struct Retyped {
    std::string value, before, after;  ///< "relu", "f32[3,4]", "f32[6,4]"
  };
  std::vector<Retyped> retyped;
  RewriteVerification verification;  ///< of a rule's rewrite, where one was asked for
};

/// A change that was taken back because its verification failed: a match that stays as it was, or a whole pass.
struct RolledBack {
  std::string node;  ///< the anchor's name; empty for a pass
  std::string scope;
  std::vector<std::string> nodes;
  RewriteVerification verification;
};
/// "`softmax_3` in encoder.layer.0"
std::string placeOf(const RolledBack&);
/// "at `softmax_3` in encoder.layer.0: on random values, …".
std::string toString(const RolledBack&);

/// Hears of changes as they happen. It may look at the graph, not change it.
class RewriteListener {
 public:
  virtual ~RewriteListener() = default;
  /// The change is in the graph, which is sound again. It is final, unless it belongs to a pass that is rolled back.
  virtual void onRecord(const Record& record, const Graph& graph) = 0;
  /// A match was left as it was, or a pass taken back with all of its records; the graph is as it was before.
  virtual void onRolledBack(const RolledBack&, const Graph&) {}
};

}  // namespace graft
