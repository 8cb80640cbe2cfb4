#include "app/workbench/history.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

namespace graft::workbench {

void SubSteps::add(size_t rewrites, const Graph& now) {
  ++count_;
  rewrites_ += rewrites;
  if (rewrites > 0) {
    changed_ = count_;
    nodes_ += now.nodeCount();
    isFull_ = isFull_ || nodes_ > mostNodes_;
    if (!isFull_) parts_.push_back({count_, rewrites_, now});
  }
  if (!isFull_) kept_ = count_;
}

void SubSteps::finish() {
  if (!parts_.empty() && parts_.back().steps == changed_) parts_.pop_back();
}

const SubSteps::Part* SubSteps::part(size_t steps) const {
  const Part* found = nullptr;
  for (const Part& p : parts_)
    if (p.steps <= steps) found = &p;
  return found;
}

const Graph* SubSteps::graph(size_t steps) const {
  const Part* p = part(steps);
  return p ? &p->graph : nullptr;
}

size_t SubSteps::rewrites(size_t steps) const {
  const Part* p = part(steps);
  return p ? p->rewrites : 0;
}

void SubSteps::cut(size_t steps) {
  const Part* last = part(steps);
  count_ = kept_ = steps;
  changed_ = last ? last->steps : 0;
  std::erase_if(parts_, [&](const Part& p) { return p.steps >= changed_; });
}

History::History(Graph opened) { steps_.push_back({std::move(opened), "opened"}); }

const Graph& History::graphAt(const Place& place) const {
  assert(place.step < steps_.size());
  const Step& step = steps_[place.step];
  if (!place.subStep) return step.graph;
  const Graph* inside = step.subSteps.graph(*place.subStep);
  return inside ? *inside : steps_[place.step - 1].graph;
}

std::span<const Record> History::records(size_t step) const {
  const std::span<const Record> all = steps_[step].records;
  if (step != place_.step || !place_.subStep) return all;
  return all.first(steps_[step].subSteps.rewrites(*place_.subStep));
}

Result<History::Place> History::find(size_t step, std::optional<size_t> subStep) const {
  if (step >= steps_.size())
    return Error{ErrorKind::Usage, fmt::format("there is no step {}; the last one is {}", step, steps_.size() - 1), {}};
  if (!subStep) return Place{step};
  const SubSteps& inside = steps_[step].subSteps;
  if (*subStep < 1 || *subStep > inside.count())
    return Error{ErrorKind::Usage,
                 fmt::format("step {} is a recipe of {} steps and has no sub-step {}", step, inside.count(), *subStep),
                 {}};
  if (*subStep >= inside.changed()) return Place{step};
  if (!inside.keeps(*subStep))
    return badInput("the graphs inside this recipe were too large to be kept: only its result can be shown");
  return Place{step, subStep};
}

void History::show(const Place& place) {
  assert(place.step < steps_.size());
  place_ = place;
  ++revision_;
}

void History::forgetWhatFollows() {
  steps_.resize(place_.step + 1, {Graph(), ""});
  if (!place_.subStep) return;
  Graph shown = graph();
  Step& step = steps_[place_.step];
  step.records.resize(step.subSteps.rewrites(*place_.subStep));
  step.subSteps.cut(*place_.subStep);
  step.graph = std::move(shown);
  place_.subStep.reset();
}

void History::add(Step step) {
  forgetWhatFollows();
  steps_.push_back(std::move(step));
  ++place_.step;
  ++revision_;
}

}  // namespace graft::workbench
