#include "matcher/rewrite/rewrite_selection.h"

#include <algorithm>
#include <numeric>

namespace graft {

using Verdict = RewriteVerification::Verdict;

void RewriteSelection::only(const std::vector<size_t>& kept, std::string why) {
  isAgain_ = true;
  why_ = std::move(why);
  kept_ = {kept.begin(), kept.end()};
  madeBy_.clear();
  nextPass_ = 0;
}

void RewriteSelection::prepare(const Graph& graph, const std::vector<std::vector<NodeId>>& places) {
  if (!isAgain_ && check_) check_->prepare(graph, places);
}

std::string RewriteSelection::keyOf(const RewriteCandidate& c) const {
  std::string key(c.rule);
  for (NodeId n : c.before) {
    const auto by = madeBy_.find(n);
    key += by == madeBy_.end() ? " " + c.graph.node(n).name : " (" + by->second + ")";
  }
  return key;
}

void RewriteSelection::remember(const RewriteCandidate& c, const std::string& key) {
  const std::string name = std::to_string(number_.at(key));
  for (size_t i = 0; i < c.after.size(); ++i)
    if (std::find(c.before.begin(), c.before.end(), c.after[i]) == c.before.end())
      madeBy_[c.after[i]] = name + "." + std::to_string(i);
}

RewriteVerification RewriteSelection::again(const std::string& key) const {
  RewriteVerification back;
  back.verdict = Verdict::Failed;
  if (const auto failed = failed_.find(key); failed != failed_.end()) return failed->second;
  const auto number = number_.find(key);
  if (number == number_.end()) {
    back.why = "it came up only after others had been taken back, and was not tried";
    return back;
  }
  const RewriteVerification& before = made_[number->second].verification;
  if (kept_.contains(number->second)) return before;
  back.inputSets = before.inputSets;
  back.maxAbs = before.maxAbs;
  back.why = why_;
  return back;
}

RewriteVerification RewriteSelection::check(const RewriteCandidate& c) {
  const std::string key = keyOf(c);
  if (isAgain_) {
    RewriteVerification verification = again(key);
    if (verification.verdict != Verdict::Failed) remember(c, key);
    return verification;
  }
  RewriteVerification verification = check_ ? check_->check(c) : RewriteVerification();
  if (verification.verdict == Verdict::Failed) {
    failed_.emplace(key, verification);
    return verification;
  }
  if (number_.emplace(key, made_.size()).second) made_.push_back({key, std::string(c.rule), verification});
  remember(c, key);
  return verification;
}

RewriteVerification RewriteSelection::checkWhole(const Graph& before, const Graph& after, bool changesNumbers) {
  if (isAgain_) return nextPass_ < passes_.size() ? passes_[nextPass_++] : RewriteVerification();
  passes_.push_back(check_ ? check_->checkWhole(before, after, changesNumbers) : RewriteVerification());
  return passes_.back();
}

Kept keepMost(RewriteSelection& selection, const std::string& why, double seconds,
              const std::function<bool()>& passes) {
  const auto& made = selection.made();
  std::vector<size_t> order(made.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return made[a].verification.maxAbs < made[b].verification.maxAbs; });
  Kept kept = keptInHalves(order, seconds, [&](const std::vector<size_t>& with) {
    selection.only(with, why);
    return passes();
  });
  selection.only(kept.numbers, why);
  return kept;
}

}  // namespace graft
