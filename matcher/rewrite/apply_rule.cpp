#include <algorithm>
#include <unordered_set>

#include "core/ir/normal_form.h"
#include "matcher/rewrite/rewrite.h"
#include "matcher/search/reshapes.h"

namespace graft {
namespace {

// The operators that the pattern may match. A rewrite that makes none of these makes no new match.
class PatternOperators {
 public:
  explicit PatternOperators(const Rule& rule) : exact_(rule.exact), anyReshape_(findsAllReshapes(rule)) {
    for (NodeId n : rule.pattern.order()) {
      names_.push_back(canonicalOperator(rule.pattern.node(n).op->name));
      any_ = any_ || rule.pattern.node(n).op->name.starts_with("pattern.call_");
    }
  }
  bool contain(const Operator& op) const {
    const std::string_view name = canonicalOperator(op.name);
    if (any_ || has(name)) return true;
    if (anyReshape_ && isReshape(name) && std::any_of(names_.begin(), names_.end(), isReshape)) return true;
    if (exact_) return false;
    return (name == "aten.mul.Tensor" && has("aten.div.Tensor")) ||
           (name == "aten.div.Tensor" && has("aten.mul.Tensor"));
  }

 private:
  bool has(std::string_view name) const { return std::find(names_.begin(), names_.end(), name) != names_.end(); }
  std::vector<std::string_view> names_;  // of the rule's operators or of the table of canonical ones
  bool any_ = false, exact_ = false, anyReshape_ = false;
};

}  // namespace

// What the rule has made so far, which decides where it may rewrite again. A match that holds a node of the model
// itself takes that node away or marks it, and there are only so many. A match that lies wholly in what the rule made
// may be its own replacement once more (relu(x) in relu(x), x * 0.5 for x / 2): it is rewritten only where that leaves
// fewer nodes. So every rule comes to an end, whatever its replacement contains.
class OwnNodes {
 public:
  explicit OwnNodes(const Rule& rule) {
    for (NodeId n : rule.replacement->order()) {
      const std::string& op = rule.replacement->node(n).op->name;
      mayGrow_ = mayGrow_ || op == "pattern.call_module";  // what is kept of the match does not go
      if (!op.starts_with("pattern.")) ++makes_;
    }
  }
  /// Whether the match is to be passed over.
  bool forbid(const Match& m) const { return isWhollyOwn(m) && (mayGrow_ || makes_ >= m.nodes.size()); }
  bool isWhollyOwn(const Match& m) const {
    return std::all_of(m.nodes.begin(), m.nodes.end(), [&](NodeId n) { return own_.contains(n); });
  }
  void add(const std::vector<NodeId>& nodes) { own_.insert(nodes.begin(), nodes.end()); }
  /// A rewrite in what the rule made left as many nodes as before, or more: sizes that the replacement asks for.
  void grew() { mayGrow_ = true; }

 private:
  std::unordered_set<NodeId> own_;
  size_t makes_ = 0;  // nodes, at most, but for those that ask for sizes
  bool mayGrow_ = false;
};

Result<RuleRun> applyRule(Graph& graph, const Rule& rule, const Semantics& semantics, const RewriteOptions& options) {
  RuleRun run;
  GraphEditor editor(graph, semantics, rule.name, options.listener);
  if (!rule.replacement) return badInput("the rule " + rule.name + " only finds: it has no replacement");
  OwnNodes own(rule);
  std::unordered_set<NodeId> refusedAt;
  const PatternOperators wanted(rule);
  bool again = true;
  while (again) {
    again = false;
    SearchResult found;
    {
      SearchOptions search;
      search.passOver = [&own](const Match& m) { return own.forbid(m); };
      found = Matcher(graph).findAll(rule, search);
    }
    if (!found.problem.empty()) return badInput("the rule " + rule.name + ": " + found.problem);
    run.budgetExceeded = run.budgetExceeded || found.budgetExceeded;
    Rewriter rewriter(editor, options.check);
    const auto tried = [&](const Match& m) { return refusedAt.contains(m.anchor); };
    if (options.check && !std::all_of(found.matches.begin(), found.matches.end(), tried))
      rewriter.prepare(found.matches);
    editor.reserveRecords(found.matches.size());
    for (Match& next : found.matches) {
      Match match = std::move(next);  // reused by the next record
      if (refusedAt.contains(match.anchor)) continue;
      const NodeId anchor = match.anchor;
      const bool whollyOwn = own.isWhollyOwn(match);
      const size_t nodesBefore = graph.nodeCount();
      if (const Status s = rewriter.rewrite(rule, match); !s) {
        refusedAt.insert(anchor);
        if (s.error().kind == ErrorKind::Verification) {
          if (options.strict)
            return Error{ErrorKind::Verification, "the rule " + rule.name + " " + toString(rewriter.rolledBack()), {}};
          run.rolledBack.push_back(rewriter.rolledBack());
          continue;
        }
        run.refused.push_back((anchor ? "at `" + (graph.isAlive(anchor) ? graph.node(anchor).name : "?") + "`: " : "") +
                              s.error().message);
        continue;
      }
      const Record& record = editor.records().back();
      own.add(record.added);
      own.add(rewriter.kept());
      if (whollyOwn && graph.nodeCount() >= nodesBefore) own.grew();
      // Worth another look: new nodes that the pattern wants, or values that lost a user and may now be inside a match.
      again = again || rewriter.loosened() || std::any_of(record.added.begin(), record.added.end(), [&](NodeId n) {
                return wanted.contain(*graph.node(n).op);
              });
    }
  }
  run.records = editor.takeRecords();
  return run;
}

}  // namespace graft
