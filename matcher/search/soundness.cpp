#include "matcher/search/soundness.h"

#include <algorithm>

#include "matcher/search/reshapes.h"

namespace graft {

// Nodes that read a value's size, and what they feed, go with the match as long as their results stay inside it or do
// not matter.
void Soundness::coverReaders(ValueId v) {
  std::vector<NodeId> chain;
  std::vector<ValueId> work{v};
  for (size_t i = 0; i < work.size() && chain.size() < 64; ++i) {
    for (NodeId u : graph_.value(work[i]).users) {
      if (state_.isCovered(u) || !index_.effective[u.index]) continue;
      const Node& n = graph_.node(u);
      if (state_.isTaken(u) || !n.op->pure() || !n.blocks.empty()) return;
      for (ValueId o : n.outputs) {
        const Type::Kind k = graph_.value(o).type.kind;
        if (k != Type::Kind::Int && k != Type::Kind::Bool && k != Type::Kind::Number) return;
        if (graph_.value(o).returnUses) return;
        work.push_back(o);
      }
      if (std::find(chain.begin(), chain.end(), u) == chain.end()) chain.push_back(u);
    }
  }
  for (NodeId n : chain) state_.cover(n);
}

bool Soundness::nothingEscapes() {
  const auto isReturned = [&](ValueId v) {
    for (uint32_t p = 0; p < state_.bindings().size(); ++p)
      if (plan_.returned[p] && state_.bound(ValueId(p)) && state_.bound(ValueId(p))->isValue() &&
          state_.bound(ValueId(p))->valueId() == v)
        return true;
    return false;
  };
  const size_t matched = state_.coveredNodes().size();  // the loop covers readers of sizes too
  for (size_t i = 0; i < matched; ++i) {
    const NodeId n = state_.coveredNodes()[i];
    for (ValueId v : graph_.node(n).outputs) {
      const Value& value = graph_.value(v);
      if (value.users.empty() && value.returnUses == 0) continue;
      if (isReturned(v)) continue;
      const auto outside = [&] {
        return std::find_if(value.users.begin(), value.users.end(),
                            [&](NodeId u) { return !state_.isCovered(u) && index_.effective[u.index]; });
      };
      auto user = outside();
      if (user != value.users.end()) {
        coverReaders(v);
        user = outside();
      }
      if (value.returnUses == 0 && user == value.users.end()) continue;
      NodeId pattern;
      for (uint32_t p = 0; p < state_.nodeOf().size(); ++p)
        if (state_.nodeOf()[p] == n) pattern = NodeId(p);
      if (!explainer_.fail(Reason::Escapes, pattern, n, [&](Mismatch& miss) {
            miss.expected = "`" + value.name + "` to be used only inside the match";
            miss.actual =
                user != value.users.end() ? "also used by `" + graph_.node(*user).name + "`" : "an output of the graph";
          }))
        return false;
    }
  }
  return true;
}

// Cycles and random operators.
bool Soundness::keepsOrder() {
  if (state_.coveredNodes().empty()) return true;
  // What the replacement reads must not be what it replaces.
  for (ValueId p : plan_.read) {
    if (!state_.bound(p)) continue;
    ValueId inside;
    state_.bound(p)->forEachValue([&](ValueId v) {
      const NodeId producer = graph_.value(v).producer;
      if (producer && state_.isCovered(producer)) inside = v;
    });
    if (inside && !explainer_.fail(Reason::Cycle, {}, graph_.value(inside).producer, [&](Mismatch& miss) {
          miss.detail = "`" + graph_.value(inside).name + "`, which would be the rule's `" + pattern_.value(p).name +
                        "`, is a result of the match itself";
        }))
      return false;
  }
  uint32_t first = UINT32_MAX, last = 0;
  for (NodeId n : state_.coveredNodes()) {
    first = std::min(first, index_.position[n.index]);
    last = std::max(last, index_.position[n.index]);
  }
  if (plan_.roots.size() > 1 && plan_.rule.replacement) {
    // A way from a returned value around the match back into it would become a cycle.
    std::vector<NodeId> work;
    std::vector<uint8_t> seen(last - first + 1, 0);
    const auto follow = [&](NodeId n) {
      for (ValueId v : graph_.node(n).outputs)
        for (NodeId u : graph_.value(v).users) {
          const uint32_t at = index_.position[u.index];
          if (at > last || at < first || seen[at - first]) continue;
          seen[at - first] = 1;
          if (!state_.isCovered(u)) work.push_back(u);
        }
    };
    for (NodeId n : state_.coveredNodes()) follow(n);
    while (!work.empty()) {
      const NodeId n = work.back();
      work.pop_back();
      for (ValueId v : graph_.node(n).outputs)
        for (NodeId u : graph_.value(v).users)
          if (state_.isCovered(u) && !explainer_.fail(Reason::Cycle, {}, n, [&](Mismatch& miss) {
                miss.detail = "`" + graph_.node(n).name +
                              "` lies between parts of the match: it needs one of its results and feeds `" +
                              graph_.node(u).name + "`";
              }))
            return false;
      follow(n);
    }
  }
  const bool drawsItself = std::any_of(state_.coveredNodes().begin(), state_.coveredNodes().end(),
                                       [&](NodeId n) { return index_.isRandom(n); });
  if (!drawsItself || !plan_.rule.replacement) return true;
  size_t drawsHere = 0;
  for (NodeId n : state_.coveredNodes()) drawsHere += index_.isRandom(n);
  size_t drawsAfter = 0;
  for (NodeId n : plan_.rule.replacement->order()) drawsAfter += plan_.rule.replacement->node(n).op->random;
  for (NodeId n : index_.randoms) {
    const uint32_t at = index_.position[n.index];
    if (state_.isCovered(n)) continue;
    const bool between = at > first && at < last;
    const bool shifted = at > first && drawsHere != drawsAfter && !plan_.rule.changesNumbers;
    if (!between && !shifted) continue;
    return explainer_.fail(Reason::Random, {}, n, [&](Mismatch& miss) {
      miss.detail = between ? "`" + graph_.node(n).name + "` draws random numbers between the nodes of the match"
                            : "the replacement draws random numbers another number of times, so `" +
                                  graph_.node(n).name + "` would draw other numbers";
    });
  }
  return true;
}

// The replacement's counterpart of a returned value may be one of its inputs, or a view of one: that input. None where
// it is new.
ValueId Soundness::handedOn(ValueId returned) const {
  const Graph& r = *plan_.rule.replacement;
  size_t at = 0, found = SIZE_MAX;
  for (const Argument& a : pattern_.returns())
    a.forEachValue([&](ValueId v) {
      if (v == returned && found == SIZE_MAX) found = at;
      ++at;
    });
  ValueId v;
  at = 0;
  for (const Argument& a : r.returns())
    a.forEachValue([&](ValueId u) {
      if (at++ == found) v = u;
    });
  while (v && r.value(v).producer) {
    const Node& n = r.node(r.value(v).producer);
    if (!n.op->aliases() || n.args.empty() || !n.args[0].isValue()) return {};
    v = n.args[0].valueId();
  }
  return v;
}

// Where a replacement hands an input on and the pattern made a copy, nothing may write to that memory from then on.
bool Soundness::checkHandedOn(ValueId returned, uint32_t first) {
  const ValueId given = handedOn(returned);
  const ValueId parameter = given ? pattern_.findValue(plan_.rule.replacement->value(given).name) : ValueId();
  const Argument* bound = parameter ? state_.bound(parameter) : nullptr;
  if (!bound || !bound->isValue()) return true;
  const ValueId v = state_.bound(returned)->valueId();
  const uint32_t memory = index_.memoryOf(bound->valueId());
  if (!index_.isWritten(memory) || memory == index_.memoryOf(v)) return true;
  for (NodeId w : index_.writers) {
    const bool before = index_.position[w.index] < first && graph_.node(w).parent == graph_.root();
    if (before || state_.isCovered(w)) continue;
    for (ValueId x : index_.writtenValues(graph_.node(w)))
      if (index_.memoryOf(x) == memory && !explainer_.fail(Reason::Alias, {}, w, [&](Mismatch& miss) {
            miss.detail = "`" + graph_.node(w).name + "` writes to `" + graph_.value(bound->valueId()).name +
                          "`, which the replacement hands on as `" + graph_.value(v).name + "`";
          }))
        return false;
  }
  return true;
}

bool Soundness::keepsMemory() {
  if (index_.writers.empty() || !plan_.rule.replacement) return true;
  uint32_t first = UINT32_MAX, last = 0;
  std::vector<uint32_t> touched;
  const auto touch = [&](ValueId v) { touched.push_back(index_.memoryOf(v)); };
  for (NodeId id : state_.coveredNodes()) {
    const Node& n = graph_.node(id);
    first = std::min(first, index_.position[id.index]);
    last = std::max(last, index_.position[id.index]);
    for (const Argument& a : n.args) a.forEachValue(touch);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(touch);
    for (ValueId v : n.outputs) touch(v);
  }
  if (!checkCopies(first)) return false;
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  const auto touches = [&](uint32_t memory) { return std::binary_search(touched.begin(), touched.end(), memory); };
  // The replacement stands after the producers of what it reads. Where the writer is one of them, and the match reads
  // that memory only afterwards, no read moves across the write.
  const auto readOnlyAfter = [&](NodeId w, uint32_t memory) {
    const auto inputs = pattern_.inputs();
    if (std::none_of(inputs.begin(), inputs.end(), [&](ValueId p) {
          const Argument* a = state_.bound(p);
          if (!a || !a->isValue() || graph_.value(a->valueId()).producer != w) return false;
          const ValueId used = plan_.rule.replacement->findValue(pattern_.value(p).name);
          return used && !plan_.rule.replacement->isUnused(used);
        }))
      return false;
    return std::none_of(state_.coveredNodes().begin(), state_.coveredNodes().end(), [&](NodeId n) {
      if (index_.position[n.index] > index_.position[w.index]) return false;
      bool touchesIt = false;
      const auto look = [&](ValueId v) { touchesIt = touchesIt || index_.memoryOf(v) == memory; };
      for (const Argument& a : graph_.node(n).args) a.forEachValue(look);
      for (const auto& [key, a] : graph_.node(n).kwargs) a.forEachValue(look);
      for (ValueId v : graph_.node(n).outputs) look(v);
      return touchesIt;
    });
  };
  for (NodeId w : index_.writers) {
    const Node& writer = graph_.node(w);
    const uint32_t at = index_.position[w.index];
    for (ValueId v : index_.writtenValues(writer)) {
      const uint32_t memory = index_.memoryOf(v);
      if (!touches(memory)) continue;
      if (!state_.isCovered(w)) {
        if (at > first && at < last && !readOnlyAfter(w, memory) &&
            !explainer_.fail(Reason::Alias, {}, w, [&](Mismatch& miss) {
              miss.detail = "`" + writer.name + "` writes to `" + graph_.value(v).name +
                            "`, which the match reads before and after";
            }))
          return false;
        continue;
      }
      if (!writer.op->writes() && writer.op->hasSchema) continue;  // statistics of a norm: the replacement updates them
      // The match itself writes: only into memory that it makes, or that nobody reads later.
      std::string seen = index_.visibleOutside(memory) ? "an input or weight of the model" : "";
      for (uint32_t u = 0; seen.empty() && u < graph_.valueBound(); ++u) {
        const Value& value = graph_.value(ValueId(u));
        if (!value.alive || index_.memoryOf(value.id) != memory) continue;
        const bool inside = value.producer && state_.isCovered(value.producer);
        if (inside) continue;
        for (NodeId user : value.users)
          if (!state_.isCovered(user) && index_.effective[user.index] && index_.position[user.index] > at)
            seen = "`" + value.name + "`";
        if (value.returnUses) seen = "`" + value.name + "`";
      }
      if (!seen.empty() && !explainer_.fail(Reason::Alias, {}, w, [&](Mismatch& miss) {
            miss.detail = "`" + writer.name + "` writes to memory that is read later as " + seen;
          }))
        return false;
    }
  }
  // Returned values: whoever writes to them later writes to what they share memory with.
  for (uint32_t p = 0; p < state_.bindings().size(); ++p) {
    if (!plan_.returned[p] || !state_.bound(ValueId(p)) || !state_.bound(ValueId(p))->isValue()) continue;
    const ValueId v = state_.bound(ValueId(p))->valueId();
    const uint32_t memory = index_.memoryOf(v);
    if (!checkHandedOn(ValueId(p), first)) return false;
    if (!index_.isWritten(memory)) continue;
    bool writtenOutside = false;
    for (NodeId w : index_.writers)
      if (!state_.isCovered(w))
        for (ValueId x : index_.writtenValues(graph_.node(w)))
          writtenOutside = writtenOutside || index_.memoryOf(x) == memory;
    if (!writtenOutside) continue;
    bool shared = index_.visibleOutside(memory) || handedOn(ValueId(p));
    for (NodeId id : state_.coveredNodes())
      for (const Argument& a : graph_.node(id).args)
        a.forEachValue([&](ValueId u) {
          const NodeId producer = graph_.value(u).producer;
          shared = shared || (index_.memoryOf(u) == memory && !(producer && state_.isCovered(producer)));
        });
    if (shared && !explainer_.fail(Reason::Alias, {}, graph_.value(v).producer, [&](Mismatch& miss) {
          miss.detail =
              "`" + graph_.value(v).name + "` shares memory with what the match reads, and that memory is written to";
        }))
      return false;
  }
  return true;
}

// A view never copies, a reshape may. Where the memory is written to afterwards, only one of them may show the change.
bool Soundness::checkCopies(uint32_t first) {
  if (!plan_.findsAllReshapes) return true;
  for (uint32_t p = 0; p < state_.nodeOf().size(); ++p) {
    const NodeId g = state_.nodeOf()[p];
    if (!g || !isReshape(graph_.node(g).op->name) || !isReshape(pattern_.node(NodeId(p)).op->name)) continue;
    const std::string_view wanted = pattern_.node(NodeId(p)).op->name, has = graph_.node(g).op->name;
    if (alwaysViews(wanted) == alwaysViews(has)) continue;
    const uint32_t memory = index_.memoryOf(graph_.node(g).outputs[0]);
    if (!index_.isWritten(memory)) continue;
    for (NodeId w : index_.writers) {
      if (index_.position[w.index] < first && graph_.node(w).parent == graph_.root()) continue;
      for (ValueId v : index_.writtenValues(graph_.node(w)))
        if (index_.memoryOf(v) == memory && !explainer_.fail(Reason::Alias, NodeId(p), g, [&](Mismatch& miss) {
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
