#include "views/document/history_cache.h"

#include <algorithm>
#include <utility>

namespace graft {

GraphRef HistoryCache::graph() const {
  if (isEmpty()) return nullptr;
  return at_.isWholeStep() ? steps_[static_cast<size_t>(at_.step)].graph : insideGraph_;
}

std::vector<RecordInfo> HistoryCache::records() const {
  std::vector<RecordInfo> out;
  const auto add = [&](const std::vector<RecordInfo>& some) { out.insert(out.end(), some.begin(), some.end()); };
  for (int i = 1; i <= at_.step && i <= lastStep(); ++i) {
    const StepInfo& s = steps_[static_cast<size_t>(i)];
    if (i < at_.step || at_.isWholeStep())
      add(s.records);
    else
      for (int k = 0; k < at_.subStep; ++k) add(s.subSteps[static_cast<size_t>(k)].records);
  }
  return out;
}

QString HistoryCache::undoLabel() const { return canUndo() ? steps_[static_cast<size_t>(at_.step)].label : QString(); }

QString HistoryCache::redoLabel() const {
  return at_.step < lastStep() ? steps_[static_cast<size_t>(at_.step) + 1].label : QString();
}

HistoryPosition HistoryCache::normalized(HistoryPosition p) const {
  const std::vector<SubStepInfo>& all = steps_[static_cast<size_t>(p.step)].subSteps;
  const bool isWhole =
      p.subStep < 1 || p.subStep >= static_cast<int>(all.size()) ||
      std::all_of(all.begin() + p.subStep, all.end(), [](const SubStepInfo& s) { return s.records.empty(); });
  return {p.step, isWhole ? -1 : p.subStep};
}

void HistoryCache::goTo(int step) {
  at_ = {step, -1};
  insideGraph_ = nullptr;
}

std::vector<StepInfo> HistoryCache::opened(StepInfo first) {
  std::vector<StepInfo> before = std::exchange(steps_, {});
  steps_.push_back(std::move(first));
  goTo(0);
  engineAt_ = at_;
  return before;
}

/// Something is applied inside a recipe: its remaining steps are no more.
void HistoryCache::cutInside() {
  if (at_.isWholeStep()) return;
  StepInfo& s = steps_[static_cast<size_t>(at_.step)];
  s.graph = insideGraph_;
  s.subSteps.resize(static_cast<size_t>(at_.subStep));
  s.request.insert(QStringLiteral("upTo"), at_.subStep);
  s.records.clear();
  s.refused.clear();
  s.rolledBack.clear();
  for (const SubStepInfo& one : s.subSteps) {
    s.records.insert(s.records.end(), one.records.begin(), one.records.end());
    s.refused += one.refused;
    s.rolledBack += one.rolledBack;
  }
}

void HistoryCache::applied(StepInfo step) {
  steps_.resize(static_cast<size_t>(at_.step) + 1);
  cutInside();
  steps_.push_back(std::move(step));
  goTo(lastStep());
  engineAt_ = at_;
}

void HistoryCache::wentInside(HistoryPosition at, GraphRef graph) {
  at_ = at;
  insideGraph_ = std::move(graph);
  engineAt_ = at;
}

}  // namespace graft
