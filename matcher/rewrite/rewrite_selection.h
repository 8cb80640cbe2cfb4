// RewriteSelection: makes the rewrites of an earlier run once more, but for some. Where each rewrite passes its check
// and the whole model fails its own, one of them alone is not to blame: small differences add up. keepMost() finds out
// which of them the whole passes with.
//
//   RewriteSelection selection;
//   selection.ask(check.get());                        // of the first run, whose verdicts are kept
//   runRecipe(graph, file, recipe, semantics, {}, {.check = &selection});
//   …                                                  // the whole fails
//   Kept kept = keepMost(selection, why, [&] { run the recipe on the original again; say whether the whole passes });
//
// A rewrite is known again by its rule and by the nodes that it takes away, whatever they are called by then. What a
// rewrite made is named after that rewrite, so a rewrite of what another one made goes with it.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/halving.h"
#include "core/ir/rewrite_check.h"

namespace graft {

class RewriteSelection : public RewriteCheck {
 public:
  struct Made {
    std::string key, rule;
    RewriteVerification verification;
  };

  /// Who verifies the rewrites of the first run. It must outlive that run; null: they are not verified.
  void ask(RewriteCheck* check) { check_ = check; }
  /// From here on, only these of made() are made, with the verdicts that they had; `why` is said of the others.
  void only(const std::vector<size_t>& kept, std::string why);
  /// The rewrites of the first run that were final, in their order. Passes are none of them.
  const std::vector<Made>& made() const { return made_; }

  void prepare(const Graph&, const std::vector<std::vector<NodeId>>& places) override;
  RewriteVerification check(const RewriteCandidate&) override;
  RewriteVerification checkWhole(const Graph& before, const Graph& after, bool changesNumbers) override;

 private:
  std::string keyOf(const RewriteCandidate&) const;
  RewriteVerification again(const std::string& key) const;
  void remember(const RewriteCandidate&, const std::string& key);

  RewriteCheck* check_ = nullptr;
  bool isAgain_ = false;
  std::string why_;
  std::vector<Made> made_;
  std::unordered_map<std::string, size_t> number_;               // in made_, by key
  std::unordered_map<std::string, RewriteVerification> failed_;  // of the first run, by key
  std::unordered_set<size_t> kept_;
  std::unordered_map<NodeId, std::string> madeBy_;  // of this run: which rewrite made a node
  std::vector<RewriteVerification> passes_;         // of the first run, in their order
  size_t nextPass_ = 0;
};

/// Adds the rewrites to the whole in halves (core/base/halving.h), those that differ least on their own first. `passes`
/// runs the recipe with the selection as it then is. Afterwards the selection is what was kept.
Kept keepMost(RewriteSelection&, const std::string& why, double seconds, const std::function<bool()>& passes);

}  // namespace graft
