// Attempt: the backtracking search for one occurrence of a pattern. It pairs pattern values with graph values from a
// root down, trying every order of commutative operands and every alternative, and undoes what it bound when a branch
// fails. Explaining is the same search with one mismatch forgiven: what it then reaches says how far the pattern came
// and what stopped it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "matcher/search/candidates.h"
#include "matcher/search/plan.h"
#include "matcher/search/search.h"

namespace graft {

/// One mismatch, in the words of the rule and of the graph.
struct Miss {
  Reason reason = Reason::Operator;
  NodeId patternNode, at;
  std::string parameter, expected, actual;
  std::string detail;    ///< a sentence where expected and actual do not say it
  bool mapped = false;   ///< the pattern node did find its place; something else about it is wrong
  bool guess = false;    ///< worth telling only if everything else then fits
  bool partial = false;  ///< not everything was compared: what stands in its place takes fewer operands or none
};

/// How far one branch came.
struct Draft {
  size_t matched = 0;
  bool complete = false;  ///< everything else fits
  Miss cause;
  NodeId anchor;
  std::vector<NodeId> patternNodes, graphNodes;
};

struct Budget {
  uint64_t total = 0, used = 0;
  uint64_t anchorLimit = 0, anchorUsed = 0;
  bool exceeded = false;
  bool spend() {
    ++used;
    if (++anchorUsed <= anchorLimit && used <= total) return true;
    exceeded = true;
    return false;
  }
};

class Attempt {
 public:
  /// `taken` marks graph nodes that earlier matches cover, by node.
  Attempt(const Plan& plan, const std::vector<uint8_t>& taken, Budget& budget);

  /// Searches for a match whose first root is `start`.
  bool run(ValueId start);
  /// The match that run() found.
  Match match() const;
  /// The branch that came furthest with one mismatch forgiven; nothing where not even one node fits.
  std::optional<Draft> explain(ValueId start);

 private:
  struct Context {  // whose argument is being compared
    NodeId patternNode, graphNode;
    int parameter = -1;       // index into the graph node's arguments; -1: its shape, or none
    bool reciprocal = false;  // compared after inversion: equal up to rounding
  };
  struct Task {
    ValueId pattern;
    const Argument* graph;
    Context context;
  };
  struct Undo {
    enum Kind : uint8_t { Binding, Node, Cover, Deferred, Miss } kind;
    uint32_t index;
  };
  struct Mark {
    size_t trail, tasks, made;
  };

  // attempt.cpp
  bool solve(size_t task);
  bool matchTask(size_t task);
  bool matchAnyOf(size_t task);
  /// Whether the graph's node is one that the pattern's value may be the result of, by operator alone.
  bool mayBegin(ValueId pattern, NodeId graph) const;
  bool finish(size_t task);
  bool matchRoot(size_t task, ValueId root);
  bool matchRootAt(size_t task, ValueId root, ValueId place);
  /// Something bound to climb up from to the root; none where nothing bound takes part in it.
  ValueId nearestBound(ValueId root) const;
  std::vector<ValueId> placesFor(ValueId root, ValueId from) const;
  /// All places above `from`, kept, where those are many; null where they are few.
  const Places* manyPlaces(ValueId root, ValueId from);
  /// Whether what computes `root` fits there when nothing else is bound. Where it does not, it never does.
  bool standsAlone(ValueId root, ValueId place);
  /// The node that the next place should be near to.
  NodeId lastMatched() const;
  /// Those that no match covers, the nearest to the nodes covered so far first.
  std::vector<ValueId> nearest(std::vector<ValueId> places) const;
  /// Which output of its pattern node the value is.
  size_t outputOf(ValueId pattern) const;

  // attempt_node.cpp
  bool matchNode(size_t task);
  bool matchModule(size_t task);
  bool tryForm(const Node& pn, const Node& gn, int form, size_t task);
  int formsOf(const PlanNode& p, const Node& pn, const Node& gn) const;
  bool plausible(const Argument& p, const Argument& g) const;

  // attempt_reshape.cpp
  bool tryReshape(const Node& pn, const Node& gn, size_t task);
  bool checkCopies(uint32_t first);

  // arguments.cpp
  bool unify(const Argument& p, const Argument& g, const Context& c);
  bool unifyArguments(const Node& pn, const Node& gn, bool swapped);
  bool unifyLists(const Argument& p, const Argument& g, const Context& c);
  bool bindParameter(ValueId pattern, const Argument& g, const Context& c);
  bool namesUnbound(const Expression&) const;
  const Argument* accepted(PatternParameter::Kind kind, const Argument& g);
  bool compareLiteral(const Argument& p, const Argument& g, const Context& c);
  bool literalEquals(const Argument& p, const Argument& g, const Context& c) const;
  bool checkDeferred(const Task& t);
  void bindFromShape(const Task& t);
  // Of two arguments, one of them computed by the graph: one value, or integers of one meaning.
  bool sameValue(const Argument& a, const Argument& b, PatternParameter::Kind kind) const;
  bool checkType(ValueId pattern, ValueId graph, const Context& c);

  // conditions.cpp: what is asked of a complete assignment
  bool checkConditions();
  bool checkScope();
  bool checkParts();
  bool checkWhere();
  bool asksForUnbound(const Expression& e) const;
  bool checkEscapes();
  bool checkOrder();
  bool checkMemory();
  ValueId handedOn(ValueId returned) const;
  bool checkHandedOn(ValueId returned, uint32_t first);
  /// What is bound by now; valid until the next call.
  const Environment& environment() const;
  void coverReaders(ValueId v);

  void bind(ValueId pattern, const Argument* arg);
  void map(NodeId pattern, NodeId graph);
  bool cover(NodeId graph);
  const Argument* make(Argument a);
  Mark mark() const { return {trail_.size(), tasks_.size(), madeCount_}; }
  void undo(const Mark& m);

  /// Notes a mismatch. True: it is forgiven, go on as if it fitted. `describe` fills a Miss; only called when
  /// explaining.
  template <class F>
  bool fail(Reason reason, NodeId patternNode, NodeId at, F&& describe) {
    if (!explaining_) return false;
    Miss m;
    m.reason = reason;
    m.patternNode = patternNode;
    m.at = at;
    describe(m);
    return forgive(std::move(m));
  }
  // attempt_explain.cpp
  bool matchOtherwise(size_t task, NodeId g);
  bool forgive(Miss m);
  /// Keeps the branch if it is the furthest so far; `unfit`: a pattern node that has a place but does not fit there.
  void record(bool complete, NodeId unfit = {});
  size_t matchedCount() const;
  std::string describeValue(ValueId v) const;
  std::string describe(const Argument& a) const;
  std::string wantedOperator(NodeId patternNode) const;

  const Plan& plan_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Graph& pattern_;
  const std::vector<uint8_t>& taken_;
  Budget& budget_;
  bool explaining_ = false;

  std::vector<const Argument*> bound_;  // by pattern value
  std::vector<NodeId> nodeAt_;          // by pattern node
  std::vector<ModuleCallId> moduleAt_;  // by pattern node
  std::vector<uint8_t> covered_;        // by graph node
  std::vector<NodeId> coveredNodes_;
  std::vector<Task> tasks_, deferred_;
  std::vector<Undo> trail_;
  std::deque<Argument> made_;  // arguments that no graph holds: reciprocals, floats of ints, values
  size_t madeCount_ = 0;       // so many of them are in use; the others wait for the next attempt
  mutable Environment environment_;
  std::vector<Miss> misses_;
  std::optional<Draft> best_;
  NodeId reversed_;  // explaining: the graph node whose lists are read from their end
  ValueId start_;
  ValueId alone_;                   // the only root to match, where one is asked about by itself
  std::unique_ptr<Attempt> apart_;  // that asks so
  std::map<std::tuple<ValueId, ValueId, ValueId>, Places> places_;  // by root, bound value and what it is bound to
};

}  // namespace graft
