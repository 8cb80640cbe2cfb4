#include <algorithm>
#include <unordered_set>

#include "core/ir/normal_form.h"
#include "matcher/rewrite/rewrite.h"
#include "matcher/search/reshapes.h"

namespace graft {
namespace {

// Whether the replacement holds every operator that the pattern needs: then the rule may match what it made, for ever.
bool mayContainPattern(const Rule& rule) {
  const bool anyReshape = findsAllReshapes(rule);
  std::vector<std::string_view> has;
  for (NodeId n : rule.replacement->order()) has.push_back(canonicalOperator(rule.replacement->node(n).op->name));
  for (NodeId n : rule.pattern.order()) {
    const std::string_view op = canonicalOperator(rule.pattern.node(n).op->name);
    if (op.starts_with("pattern.")) {
      if (op.starts_with("pattern.call_")) return true;  // what it matches is known only at the match
      continue;
    }
    const auto it = std::find_if(has.begin(), has.end(), [&](std::string_view h) {
      return h == op || (anyReshape && isReshape(h) && isReshape(op));
    });
    if (it == has.end()) return false;
    has.erase(it);
  }
  return true;
}

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

Result<RuleRun> applyRule(Graph& graph, const Rule& rule, const Semantics& semantics, const RewriteOptions& options) {
  RuleRun run;
  GraphEditor editor(graph, semantics, rule.name, options.listener);
  if (!rule.replacement) return badInput("the rule " + rule.name + " only finds: it has no replacement");
  const bool oncePerPlace = mayContainPattern(rule);
  std::unordered_set<NodeId> own, refusedAt;
  const size_t limit = graph.nodeCount() * 8 + 1000;
  const PatternOperators wanted(rule);
  bool again = true;
  while (again) {
    again = false;
    SearchResult found;
    {
      const Matcher matcher(graph);
      found = matcher.findAll(rule);
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
      if (oncePerPlace &&
          std::any_of(match.nodes.begin(), match.nodes.end(), [&](NodeId n) { return own.contains(n); }))
        continue;
      if (refusedAt.contains(match.anchor)) continue;
      const NodeId anchor = match.anchor;
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
      if (oncePerPlace) own.insert(record.added.begin(), record.added.end());
      // Worth another look: new nodes that the pattern wants, or values that lost a user and may now be inside a match.
      again = again || rewriter.loosened() ||
              (!oncePerPlace && std::any_of(record.added.begin(), record.added.end(),
                                            [&](NodeId n) { return wanted.contain(*graph.node(n).op); }));
    }
    if (editor.records().size() > limit || graph.nodeCount() > limit) {
      return badInput("the rule " + rule.name +
                      " keeps matching what it makes: its replacement must not contain its pattern");
    }
  }
  run.records = editor.takeRecords();
  return run;
}

}  // namespace graft
