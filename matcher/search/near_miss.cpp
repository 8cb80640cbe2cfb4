#include "matcher/search/near_miss.h"

#include <algorithm>

namespace graft {
namespace {

/// "dropout" for "aten.dropout"; "the operator" where an expression names it.
std::string shortName(const std::string& op) {
  if (op.starts_with("an operator ")) return "the operator";
  const size_t dot = op.rfind('.');
  return dot == std::string::npos ? op : op.substr(dot + 1);
}

std::string sentence(const PartialMatch& d) {
  const Mismatch& m = d.cause;
  if (!m.detail.empty() && m.reason != Reason::Where) return m.detail;
  const std::string which = m.parameter.empty() ? "" : m.parameter + " ";
  switch (m.reason) {
    case Reason::Literal:
      return which + "is " + m.actual + ", but the rule wants " + m.expected;
    case Reason::Operator:
      return "the operator is " + m.actual + ", but the rule wants " + m.expected;
    case Reason::Missing:
      return "the rule wants " + m.expected + " where the graph has " + m.actual;
    case Reason::DType:
    case Reason::Rank:
      return "`" + m.parameter + "` is " + m.actual + ", but the rule wants " + m.expected;
    case Reason::Operand:
      return which + "is " + m.actual + ", but the rule wants " + m.expected;
    case Reason::Escapes:
      return "the rule wants " + m.expected + ", but it is " + m.actual;
    case Reason::Where:
      if (!m.detail.empty()) return "`where` could not be decided: " + m.detail;
      return "`where` requires " + m.expected + ", but " + m.actual;
    case Reason::Scope:
      return "it lies in " + m.actual + ", but the rule's scope is " + m.expected;
    case Reason::Weight:
      if (m.actual == "None") return which + "is None, but the rule wants " + m.expected;
      return m.actual + " is calculated when the model runs, but the rule wants " + m.expected;
    case Reason::ModuleType:
      if (m.actual.starts_with("no ")) return "there is " + m.actual + ", but the rule wants " + m.expected;
      return "the module is " + m.actual + ", but the rule wants " + m.expected;
    case Reason::ModuleName:
      return "the module's name is " + m.actual + ", but the rule wants " + m.expected;
    case Reason::Arity:
      if (m.actual.starts_with("output")) return "it is " + m.actual + ", but the rule wants " + m.expected;
      return (which.empty() ? "it " : which) + "has " + m.actual + ", but the rule wants " + m.expected;
    default:
      return which + "is " + m.actual + ", but the rule wants " + m.expected;
  }
}

// Whether describe() gave something that can be written in a rule: a number, a string, None, or a list of these.
bool isLiteral(const std::string& described) {
  return !described.starts_with("the ") && !described.starts_with("a ") && !described.starts_with("`");
}

void suggest(const Plan& plan, const Mismatch& m, NearMiss& out) {
  switch (m.reason) {
    case Reason::Literal:
      if (m.parameter.empty() || !m.patternNode) return;
      if (isLiteral(m.actual)) {
        const std::string actual = m.actual.substr(0, m.actual.find(" (it multiplies"));
        out.suggestion = "write " + actual + " there, or `_` to accept any " + m.parameter +
                         ", or make it a parameter of the pattern";
      } else {  // a value of the graph where the rule has a literal
        out.suggestion = "make it a parameter of the pattern, or write `_` to accept any " + m.parameter;
      }
      return;
    case Reason::Operator:
      if (m.extraOperator) {
        out.suggestion = "if " + shortName(m.actual) + " may be absent or present, write optional(" +
                         shortName(m.actual) + ", …) around it";
      } else {
        out.suggestion = "if " + shortName(m.actual) + " is meant, write it instead of " + shortName(m.expected) +
                         "; to accept either, write any_of(…) with both";
      }
      return;
    case Reason::Missing:
      out.suggestion =
          "if " + shortName(m.expected) + " may be absent, write optional(" + shortName(m.expected) + ", …)";
      return;
    case Reason::Escapes: {
      const std::string name = m.patternNode ? plan.pattern.node(m.patternNode).name : "";
      out.suggestion = "return " + (name.empty() ? "the value" : "`" + name + "`") +
                       " from the pattern and the replacement, so that its other users keep it";
      return;
    }
    case Reason::ConstantKind:
      if (m.actual == "None")
        out.suggestion = "if the rule holds without it too, let the parameter be absent: `" +
                         std::string(m.expected.starts_with("a number") ? "float" : "Tensor") + " | None`";
      else if (m.expected.starts_with("an integer") && isLiteral(m.actual) &&
               m.actual.find_first_not_of("-+.0123456789e") == std::string::npos)
        out.suggestion = "declare the parameter as `: float`, since the graph has " + m.actual + " there";
      else if (m.expected.starts_with("a value") || m.expected.starts_with("a tensor"))
        out.suggestion =
            "declare the parameter as a constant (`: float`, `: int`), since the graph has " + m.actual + " there";
      else
        out.suggestion = "declare the parameter without a constant's type, since the graph has " + m.actual + " there";
      return;
    case Reason::Operand:
      if (m.expected.starts_with("`"))
        out.suggestion =
            "a name stands for one value wherever it is written: give each its own parameter, if they may differ";
      return;
    case Reason::Weight:
      if (m.actual == "None") {
        out.suggestion = "if the rule holds without it too, let the parameter be absent: `Weight | None`";
        return;
      }
      out.suggestion = "drop `: Weight` if the rule needs no value that is known before running";
      return;
    case Reason::Scope:
      out.suggestion = "widen the rule's scope or drop it";
      return;
    case Reason::ModuleName:
      if (m.actual.size() > 2) out.suggestion = "let the expression match " + m.actual;
      return;
    case Reason::ModuleType:
      out.suggestion = "call the module by the type that the model uses";
      return;
    case Reason::DType:
      out.suggestion =
          "drop the dtype from the declaration of `" + m.parameter + "` if the replacement works for " + m.actual;
      return;
    case Reason::Where:
      out.suggestion = "relax the condition in where, if the replacement works here too";
      return;
    default:
      return;
  }
}

}  // namespace

int reasonRank(Reason r) {
  switch (r) {
    case Reason::Overlap:
      return 3;  // the place belongs to another match: rarely what somebody asks about
    case Reason::Missing:
      return 2;
    case Reason::Operator:
      return 1;
    default:
      return 0;
  }
}

NearMiss toNearMiss(const Plan& plan, const PartialMatch& d) {
  const Graph& g = plan.index.graph;
  const Mismatch& m = d.cause;
  NearMiss out;
  out.matched = d.matched;
  size_t optional = 0;
  for (NodeId p : d.patternNodes) optional += plan.nodes[p.index].required ? 0 : 1;
  out.total = plan.requiredCount + optional;
  out.matched = std::min(out.matched, out.total);
  out.complete = d.complete;
  out.at = m.at;
  out.patternNode = m.patternNode;
  out.anchor = d.anchor;
  out.reason = m.reason;
  out.tooMany = m.extraOperator;
  out.parameter = m.parameter;
  out.expected = m.expected;
  out.actual = m.actual;
  out.message = sentence(d);
  out.matchedPattern = d.patternNodes;
  out.matchedNodes = d.graphNodes;
  const SourceLocation* source = m.patternNode ? plan.pattern.sourceOf(plan.pattern.node(m.patternNode)) : nullptr;
  if (source && source->file != plan.rule.file) source = nullptr;  // a function of another file
  const SourceLocation* where = m.reason == Reason::Where && plan.rule.where ? &plan.rule.where->source : nullptr;
  if (where && where->file != plan.rule.file) where = nullptr;
  out.line = source ? source->line : where ? where->line : plan.rule.line;
  if (out.line == 0) out.line = plan.rule.line;
  suggest(plan, m, out);
  if (const NodeId at = m.at ? m.at : d.anchor; at) out.scope = g.scopeOf(at);
  return out;
}

void rankNearMisses(std::vector<NearMiss>& misses, size_t keep) {
  const auto key = [](const NearMiss& m) {
    return std::tuple(m.total == 0 ? 0.0 : -static_cast<double>(m.matched) / static_cast<double>(m.total), !m.complete,
                      reasonRank(m.reason));
  };
  std::stable_sort(misses.begin(), misses.end(), [&](const NearMiss& a, const NearMiss& b) { return key(a) < key(b); });
  if (misses.size() > keep) misses.resize(keep);
}

}  // namespace graft
