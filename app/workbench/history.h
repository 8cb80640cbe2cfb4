// History: the states that one open model went through, and which of them is shown. The engine's session owns it; the
// window asks for what it shows.
//
//   History history(std::move(model.graph));                  // step 0: the model as it was opened
//   history.add({std::move(rewritten), "Attention", records});
//   history.show(*history.find(0));                           // undo; what follows is kept until something is added
//
// A step that ran a recipe also keeps the graphs inside it. Its sub-step n is the state behind the recipe's first n
// steps: find(step, n) shows it, and add() then continues from there.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "matcher/rewrite/rewrite.h"

namespace graft::workbench {

/// The graphs inside a recipe, recorded while it runs. Only steps that changed something have one, and the last of them
/// has none: its graph is the recipe's result.
class SubSteps {
 public:
  /// Graphs are kept while they hold no more nodes together than this.
  static constexpr size_t mostNodes = 200'000;
  explicit SubSteps(size_t mostNodes = SubSteps::mostNodes) : mostNodes_(mostNodes) {}

  /// Called after each step of the recipe: how many rewrites it made, and the graph behind it.
  void add(size_t rewrites, const Graph& now);
  /// Called after the last one.
  void finish();

  size_t count() const { return count_; }
  /// How many steps there are up to the last one that changed something.
  size_t changed() const { return changed_; }
  /// Whether the graph behind the first `steps` steps is there.
  bool keeps(size_t steps) const { return steps <= kept_; }
  /// The graph behind the first `steps` steps, 1 <= steps < changed(); null where none of them changed anything.
  const Graph* graph(size_t steps) const;
  /// How many rewrites the first `steps` steps made.
  size_t rewrites(size_t steps) const;
  /// From here on there are only so many steps.
  void cut(size_t steps);

 private:
  struct Part {
    size_t steps = 0;     ///< of the recipe, done
    size_t rewrites = 0;  ///< made by then
    Graph graph;
  };
  const Part* part(size_t steps) const;

  std::vector<Part> parts_;
  size_t mostNodes_, nodes_ = 0, rewrites_ = 0;
  size_t count_ = 0, changed_ = 0, kept_ = 0;
  bool isFull_ = false;
};

class History {
 public:
  struct Step {
    Graph graph;
    std::string label;
    std::vector<Record> records = {};
    SubSteps subSteps = SubSteps();  ///< of a recipe; empty for everything else
  };
  /// A state: a step, and of a recipe perhaps a state inside it.
  struct Place {
    size_t step = 0;
    std::optional<size_t> subStep = {};  ///< none: the whole step
    bool operator==(const Place&) const = default;
  };

  explicit History(Graph opened);

  const Graph& original() const { return steps_[0].graph; }
  /// The graph that is shown.
  const Graph& graph() const { return graphAt(place_); }
  const Graph& graphAt(const Place&) const;
  const Place& place() const { return place_; }
  /// Grows with each change of what is shown.
  int revision() const { return revision_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// The rewrites of a step, as far as they are shown: of the shown recipe those up to its shown sub-step.
  std::span<const Record> records(size_t step) const;

  /// The state with these numbers. Sub-steps behind which nothing changes any more are the whole step. Usage where
  /// there is no such state; BadInput where its graph was too large to be kept.
  Result<Place> find(size_t step, std::optional<size_t> subStep = {}) const;
  /// Shows a state that find() returned since the last add().
  void show(const Place&);
  /// Puts a step behind what is shown and shows it. Everything that stood there is forgotten, inside a recipe too.
  void add(Step);

 private:
  void forgetWhatFollows();

  std::vector<Step> steps_;
  Place place_;
  int revision_ = 0;
};

}  // namespace graft::workbench
