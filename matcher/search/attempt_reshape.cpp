// Attempt, part six: a reshape of the pattern at another reshape of the graph. Both say what shape results, each in its
// own way; the sizes at the match decide whether it is the same one.
#include <algorithm>

#include "matcher/rule/expression_calls.h"
#include "matcher/search/attempt.h"
#include "matcher/search/reshapes.h"

namespace graft {
namespace {

// The dimension that a literal names, of so many.
std::optional<size_t> dimension(const Argument& a, size_t rank) {
  const auto* d = a.as<int64_t>();
  if (!d) return std::nullopt;
  const int64_t at = *d < 0 ? *d + static_cast<int64_t>(rank) : *d;
  return at >= 0 && at < static_cast<int64_t>(rank) ? std::optional(static_cast<size_t>(at)) : std::nullopt;
}

}  // namespace

bool Attempt::tryReshape(const Node& pn, const Node& gn, size_t i) {
  if (saysWholeShape(pn.op->name) && saysWholeShape(gn.op->name)) return unifyArguments(pn, gn, false) && solve(i + 1);
  const auto in = sizesOf(graph_, gn.args[0]), out = sizesOf(graph_, Argument(gn.outputs[0]));
  const auto notKnown = [&] {
    return fail(Reason::Rank, pn.id, gn.id, [&](Miss& miss) {
      miss.detail = "the shapes at `" + gn.name + "` are not known, so " + std::string(pn.op->baseName()) + " and " +
                    std::string(gn.op->baseName()) + " cannot be compared";
      miss.mapped = true;
    });
  };
  const auto otherShape = [&](const std::string& wanted) {
    return fail(Reason::Literal, pn.id, gn.id, [&](Miss& miss) {
      miss.parameter = "the shape of `" + gn.name + "`";
      miss.expected = wanted;
      miss.actual = out ? argumentText(listOf(*out)) : "not known";
      miss.mapped = true;
    });
  };
  const Context shape{pn.id, gn.id, -1, false}, operand{pn.id, gn.id, 0, false};
  bool fits = false;
  if (!in || !out) {
    fits = notKnown();
  } else if (saysWholeShape(pn.op->name)) {
    fits = unify(pn.args[1], *make(listOf(*out)), shape);
  } else if (!saysWholeShape(gn.op->name)) {
    fits = otherShape("what " + std::string(pn.op->baseName()) + " gives");
  } else if (pn.op->baseName() == "flatten") {
    const auto first = dimension(pn.args[1], in->size()), last = dimension(pn.args[2], in->size());
    std::vector<Polynomial> wanted;
    for (size_t k = 0; first && last && k < in->size(); ++k) {
      if (k > *first && k <= *last)
        wanted.back() = wanted.back() * (*in)[k];
      else
        wanted.push_back((*in)[k]);
    }
    fits = (first && last && wanted == *out) ||
           otherShape(first && last ? argumentText(listOf(wanted)) : "what flatten gives");
  } else {  // unflatten
    const auto at = dimension(pn.args[1], in->size());
    const size_t parts = out->size() + 1 - std::min(in->size(), out->size() + 1);
    bool others = at && parts > 0;
    for (size_t k = 0; others && k < in->size(); ++k)
      others = k == *at || (*in)[k] == (*out)[k < *at ? k : k + parts - 1];
    fits = others ? unify(pn.args[2], *make(listOf(std::span(*out).subspan(*at, parts))), shape)
                  : otherShape("one that differs from " + argumentText(listOf(*in)) + " in one dimension");
  }
  return fits && unify(pn.args[0], gn.args[0], operand) && solve(i + 1);
}

// A view never copies, a reshape may: where the memory is written to afterwards, one shows it and the other may not.
bool Attempt::checkCopies(uint32_t first) {
  if (!plan_.findsAllReshapes) return true;
  for (uint32_t p = 0; p < nodeAt_.size(); ++p) {
    const NodeId g = nodeAt_[p];
    if (!g || !isReshape(graph_.node(g).op->name) || !isReshape(pattern_.node(NodeId(p)).op->name)) continue;
    const std::string_view wanted = pattern_.node(NodeId(p)).op->name, has = graph_.node(g).op->name;
    if (alwaysViews(wanted) == alwaysViews(has)) continue;
    const uint32_t memory = index_.memoryOf(graph_.node(g).outputs[0]);
    if (!index_.isWritten(memory)) continue;
    for (NodeId w : index_.writers) {
      if (index_.position[w.index] < first && graph_.node(w).parent == graph_.root()) continue;
      for (ValueId v : index_.writtenValues(graph_.node(w)))
        if (index_.memoryOf(v) == memory && !fail(Reason::Alias, NodeId(p), g, [&](Miss& miss) {
              const std::string here = "`" + graph_.node(g).name + "` (" +
                                       std::string(graph_.node(g).op->packetName()) + ")",
                                there = std::string(pattern_.node(NodeId(p)).op->packetName());
              miss.detail = (alwaysViews(wanted) ? here + " may copy, the rule's " + there + " never does"
                                                 : here + " never copies, the rule's " + there + " may") +
                            ", and `" + graph_.node(w).name + "` writes to that memory";
              miss.mapped = true;
            }))
          return false;
    }
  }
  return true;
}

}  // namespace graft
