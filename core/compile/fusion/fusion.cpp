// Source of the order of merges: XLA's priority fusion (xla/backends/gpu/transforms/priority_fusion.h).
#include "core/compile/fusion/fusion.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/compile/codegen/product.h"
#include "core/compile/fusion/fusion_nodes.h"
#include "core/compile/fusion/steered_nodes.h"
#include "core/compile/lower/lower.h"

namespace graft {
namespace {

using Role = FusionNode::Role;

/// A group while it grows. Barriers have one each too: a cycle may lead through them.
struct Group {
  std::vector<NodeId> nodes;
  std::set<uint32_t> before, after;  ///< neighbours
  bool isAlive = true, computes = false;
  uint32_t version = 0;
  int64_t first = 0, last = 0;  ///< places in the block
  size_t epoch = 0;
  double elements = 0;    ///< the largest of its nodes
  double operations = 0;  ///< of all nodes, for each element
  bool hasRows = false;
  double rows = 0;
  std::vector<int64_t> rowKey;
  NodeId product;  ///< the matrix product among them
  Sides sides;     ///< of what is to stay apart
};

struct Judgement {
  bool isLegal = false;
  std::string why;
  double apart = 0, together = 0;
  double saved() const { return apart - together; }
};

class Planner {
 public:
  /// `before`: the plan without the steering's moves, where it has some.
  Planner(const Graph& g, const FusionOptions& options, const FusionPlan* before)
      : g_(g),
        options_(options),
        nodes_(fusionNodes(g, options)),
        steered_(steeredNodes(g, nodes_, options.steering, before)),
        groupOf_(g.nodeBound(), none),
        readers_(g.valueBound()) {}

  FusionPlan plan() {
    makeGroups();
    for (const SteeredNodes::Merge& wanted : steered_.merges) mergeAsked(wanted);
    if (options_.steering.automatic) {
      // Kernels with products come last: what a library's product leaves behind is then as good as it can be.
      mergeAll(false);
      mergeAll(true);
      mergeSiblings();
    }
    FusionPlan plan;
    plan.unapplied = std::move(steered_.problems);
    plan.decisions = std::move(decisions_);
    explainEdges(plan);
    collect(plan);
    return plan;
  }

 private:
  static constexpr uint32_t none = UINT32_MAX;

  void makeGroups() {
    for (const NodeId id : g_.order(g_.root())) {
      const FusionNode& f = nodes_[id.index];
      if (f.role == Role::View) continue;
      groupOf_[id.index] = static_cast<uint32_t>(groups_.size());
      Group& made = groups_.emplace_back();
      made.nodes = {id};
      made.first = made.last = static_cast<int64_t>(groups_.size());
      made.computes = f.role == Role::Compute;
      made.epoch = f.epoch;
      made.elements = f.elements;
      made.operations = f.operations;
      made.hasRows = f.hasRows;
      made.rows = f.rows;
      made.rowKey = f.rowKey;
      if (f.isProduct) made.product = id;
      made.sides = steered_.sides[id.index];
    }
    for (uint32_t b = 0; b < groups_.size(); ++b) {
      for (const FusionRead& read : nodes_[groups_[b].nodes.front().index].reads) {
        readers_[read.base.index].push_back(groups_[b].nodes.front());
        const NodeId producer = g_.value(read.base).producer;
        const uint32_t a = producer ? groupOf_[producer.index] : none;
        if (a == none || a == b) continue;
        groups_[a].after.insert(b);
        groups_[b].before.insert(a);
      }
    }
  }

  /// Base values that a makes and b reads.
  std::vector<ValueId> shared(uint32_t a, uint32_t b, bool& mayInline) const {
    std::vector<ValueId> values;
    mayInline = true;
    for (const NodeId consumer : groups_[b].nodes)
      for (const FusionRead& r : nodes_[consumer.index].reads) {
        const NodeId producer = g_.value(r.base).producer;
        if (!producer || groupOf_[producer.index] != a) continue;
        mayInline = mayInline && r.mayInline;
        if (std::find(values.begin(), values.end(), r.base) == values.end()) values.push_back(r.base);
      }
    return values;
  }

  bool isReadOutside(ValueId v, uint32_t a, uint32_t b) const {
    for (const NodeId reader : readers_[v.index])
      if (const uint32_t g = groupOf_[reader.index]; g != a && g != b) return true;
    return isReturned(v);
  }
  /// By the block, itself or through views.
  bool isReturned(ValueId v) const {
    if (g_.value(v).returnUses > 0) return true;
    for (const NodeId user : g_.value(v).users) {
      if (nodes_[user.index].role != Role::View) continue;
      for (const ValueId out : g_.node(user).outputs)
        if (isReturned(out)) return true;
    }
    return false;
  }

  static std::string rowsDiffer(const Group& a, const Group& b) {
    return "the rows differ: " + std::to_string(static_cast<int64_t>(a.rows)) + " and " +
           std::to_string(static_cast<int64_t>(b.hasRows ? b.rows : b.elements));
  }

  /// Whether both can be one kernel, as far as what they go over tells.
  std::string domainObstacle(const Group& a, const Group& b, bool isReadElsewhere) const {
    if (a.product || b.product) {
      if (a.product && b.product) return "each computes a matrix product";
      if (a.hasRows || b.hasRows) return "a tile of a matrix product holds no whole rows";
      if (a.product && a.elements != b.elements) return "the matrix product has another number of elements";
    }
    if (a.hasRows && b.hasRows) return a.rowKey == b.rowKey ? "" : rowsDiffer(a, b);
    if (a.hasRows) {
      const bool fits = b.elements == a.elements || b.elements == a.rows;
      return fits ? "" : rowsDiffer(a, b);
    }
    if (isReadElsewhere && a.elements != b.elements)
      return "the value is read elsewhere too, and they go over different numbers of elements";
    return "";
  }

  Judgement judge(uint32_t ai, uint32_t bi) const {
    const Group &a = groups_[ai], &b = groups_[bi];
    Judgement j;
    if (!a.computes || !b.computes) {
      j.why = "one of them has no generated kernel";
      return j;
    }
    bool mayInline = true;
    const std::vector<ValueId> values = shared(ai, bi, mayInline);
    const Prices& p = options_.prices;
    double bytes = 0;
    bool isReadElsewhere = false;
    for (const ValueId v : values) {
      bytes += bytesOf(g_.value(v).type);
      isReadElsewhere = isReadElsewhere || isReadOutside(v, ai, bi);
    }
    const double kept = isReadElsewhere ? bytes : 0;
    // A producer that is smaller than what reads it is computed again for each reader.
    const double again = a.hasRows || a.elements >= b.elements ? 0 : (b.elements - a.elements) * a.operations;
    j.apart = 2 * p.call + microsecondsOfBytes(p, 2 * bytes);
    j.together = p.call + microsecondsOfBytes(p, kept) + microsecondsOfOperations(p, again);
    if (const auto entry = conflictOf(a.sides, b.sides))
      j.why = "they are to stay apart (" + steered_.apartEntries[*entry] + ")";
    else if (a.epoch != b.epoch)
      j.why = "an operator that writes or has effects lies between them";
    else if (!mayInline)
      j.why = "the consumer reads elements many times, or at places that other values say";
    else if (a.nodes.size() + b.nodes.size() > options_.maxNodes)
      j.why = "the group would have more than " + std::to_string(options_.maxNodes) + " nodes";
    else if (tensorsOf(ai, bi) > options_.maxInputs)
      j.why = "the group would read and write more than " + std::to_string(options_.maxInputs) + " tensors";
    else
      j.why = domainObstacle(a, b, isReadElsewhere);
    if (j.why.empty() && isCycle(ai, bi)) j.why = "an operator between them reads the one and is read by the other";
    if (j.why.empty() && (a.product || b.product) && !isEpilogue(ai, bi))
      j.why = "elements of the matrix product are read at other places than their own";
    j.isLegal = j.why.empty();
    return j;
  }

  /// Whether the loops of both, which hold a matrix product, are one nest.
  bool isEpilogue(uint32_t ai, uint32_t bi) const {
    const Result<loops::Program> program = lower::lower(groupGraph(g_, describe(ai, bi)));
    return program && codegen::isProductWithEpilogue(*program);
  }

  size_t tensorsOf(uint32_t ai, uint32_t bi) const {
    std::unordered_set<ValueId> seen;
    for (const uint32_t i : {ai, bi}) {
      for (const NodeId n : groups_[i].nodes) {
        for (const FusionRead& r : nodes_[n.index].reads) {
          const NodeId producer = g_.value(r.base).producer;
          const uint32_t from = producer ? groupOf_[producer.index] : none;
          if (g_.value(r.base).type.isTensor() && (from == none || (from != ai && from != bi))) seen.insert(r.base);
        }
        for (const ValueId v : g_.node(n).outputs)
          if (isReadOutside(v, ai, bi)) seen.insert(v);
      }
    }
    return seen.size();
  }

  /// Whether some path leads from a to b through a third.
  bool isCycle(uint32_t a, uint32_t b) const {
    const int64_t end = groups_[b].last;
    std::vector<uint32_t> todo;
    std::unordered_set<uint32_t> seen;
    const auto push = [&](uint32_t from, bool fromProducer) {
      for (const uint32_t next : groups_[from].after) {
        if (fromProducer && next == b) continue;
        if (groups_[next].first <= end && seen.insert(next).second) todo.push_back(next);
      }
    };
    push(a, true);
    while (!todo.empty()) {
      const uint32_t g = todo.back();
      todo.pop_back();
      if (g == b) return true;
      push(g, false);
    }
    return false;
  }

  using Entry = std::tuple<double, uint32_t, uint32_t, uint32_t, uint32_t>;  // -saved, producer, consumer, versions

  void consider(std::set<Entry>& queue, uint32_t a, uint32_t b) const {
    const Judgement j = judge(a, b);
    if (j.isLegal && j.saved() > 0) queue.emplace(-j.saved(), a, b, groups_[a].version, groups_[b].version);
  }

  /// `withProducts`: pairs with a matrix product alone, or those without.
  void mergeAll(bool withProducts) {
    std::set<Entry> queue;
    const auto consider = [&](uint32_t a, uint32_t b) {
      const bool hasProduct = groups_[a].product || groups_[b].product;
      if (hasProduct == withProducts) this->consider(queue, a, b);
    };
    for (uint32_t a = 0; a < groups_.size(); ++a)
      for (const uint32_t b : groups_[a].after) consider(a, b);
    while (!queue.empty()) {
      const auto [saved, a, b, versionA, versionB] = *queue.begin();
      queue.erase(queue.begin());
      if (!groups_[a].isAlive || !groups_[b].isAlive || groups_[a].version != versionA ||
          groups_[b].version != versionB)
        continue;
      const Judgement j = judge(a, b);  // merges elsewhere may have closed a cycle
      if (!j.isLegal || j.saved() <= 0) continue;
      note(a, b, j, false);
      merge(a, b);
      for (const uint32_t before : groups_[b].before) consider(before, b);
      for (const uint32_t after : groups_[b].after) consider(b, after);
    }
  }

  /// Whatever it costs, as far as it is legal. The order of merges may decide that: each pair is tried until none goes.
  void mergeAsked(const SteeredNodes::Merge& wanted) {
    const auto groups = [&] {
      std::set<uint32_t> out;
      for (const NodeId n : wanted.nodes) out.insert(groupOf_[n.index]);
      return out;
    };
    std::string why;
    for (bool isMerged = true; isMerged;) {
      isMerged = false;
      why.clear();
      const std::set<uint32_t> left = groups();
      for (const uint32_t a : left)
        for (const uint32_t b : std::set<uint32_t>(groups_[a].after)) {
          if (isMerged || !left.contains(b)) continue;
          const Judgement j = judge(a, b);
          if (j.isLegal) {
            note(a, b, j, true);
            merge(a, b);
            isMerged = true;
          } else if (why.empty()) {
            why = pairOf(a, b) + ": " + j.why;
          }
        }
      if (!isMerged) isMerged = mergeAskedSiblings(left);
    }
    const std::set<uint32_t> left = groups();
    if (left.size() < 2) return;
    const auto nameIn = [&](uint32_t group) {
      const auto n = std::find_if(wanted.nodes.begin(), wanted.nodes.end(),
                                  [&](NodeId id) { return groupOf_[id.index] == group; });
      return "%" + g_.node(*n).name;
    };
    if (why.empty())
      why = nameIn(*left.begin()) + " and " + nameIn(*std::next(left.begin())) + ": no value passes between them";
    steered_.problems.push_back({wanted.entry, why});
  }

  /// Two of the groups that are legal siblings; false where there are none.
  bool mergeAskedSiblings(const std::set<uint32_t>& groups) {
    for (const uint32_t a : groups)
      for (const uint32_t b : groups) {
        if (a >= b || !groups_[a].computes || !groups_[b].computes) continue;
        const Judgement j = judgeSiblings(a, b);
        if (!j.isLegal) continue;
        const ValueId v = readByBoth(a, b).front();
        const auto readerIn = [&](uint32_t group) {
          const std::vector<NodeId>& readers = readers_[v.index];
          return *std::find_if(readers.begin(), readers.end(), [&](NodeId n) { return groupOf_[n.index] == group; });
        };
        decisions_.push_back({g_.node(readerIn(a)).name, g_.node(readerIn(b)).name, g_.value(v).name, true, true, true,
                              true, "", j.apart, j.together});
        merge(a, b);
        return true;
      }
    return false;
  }

  std::string pairOf(uint32_t a, uint32_t b) const {
    bool ignored = false;
    const ValueId v = shared(a, b, ignored).front();
    for (const NodeId n : groups_[b].nodes)
      for (const FusionRead& r : nodes_[n.index].reads)
        if (r.base == v) return "%" + g_.node(g_.value(v).producer).name + " and %" + g_.node(n).name;
    return "%" + g_.value(v).name;
  }

  void note(uint32_t a, uint32_t b, const Judgement& j, bool isAsked) {
    bool ignored = false;
    const ValueId v = shared(a, b, ignored).front();
    NodeId consumer;
    for (const NodeId reader : readers_[v.index])
      if (groupOf_[reader.index] == b) consumer = reader;
    decisions_.push_back({g_.node(g_.value(v).producer).name, g_.node(consumer).name, g_.value(v).name, true, true,
                          isAsked, false, "", j.apart, j.together});
  }

  // Siblings
  // -------------------------------------------------------------------------------------------------------------------

  /// What the first makes is kept until the second has run, and paths between them are looked for among so many.
  static constexpr int64_t farApart = 256;
  /// Of the readers of one value, each is looked at beside so many behind it.
  static constexpr size_t nextReaders = 4;
  /// Tensors that a kernel of siblings reads and writes: of more streams than this, caches and prefetchers lose track.
  static constexpr size_t mostStreams = 16;

  /// Whether siblings may share a kernel for that value: it is as large as what they go over.
  bool isWhole(ValueId v, const Group& a) const {
    return g_.value(v).type.isTensor() && elementsOf(g_.value(v).type) == a.elements;
  }

  /// The values of their own size that both read.
  std::vector<ValueId> readByBoth(uint32_t ai, uint32_t bi) const {
    std::unordered_set<ValueId> first;
    for (const NodeId n : groups_[ai].nodes)
      for (const FusionRead& r : nodes_[n.index].reads) first.insert(r.base);
    std::vector<ValueId> both;
    for (const NodeId n : groups_[bi].nodes)
      for (const FusionRead& r : nodes_[n.index].reads)
        if (isWhole(r.base, groups_[ai]) && first.erase(r.base) > 0) both.push_back(r.base);
    return both;
  }

  Judgement judgeSiblings(uint32_t ai, uint32_t bi) const {
    const Group &a = groups_[ai], &b = groups_[bi];
    const Prices& p = options_.prices;
    double bytes = 0;
    for (const ValueId v : readByBoth(ai, bi)) bytes += bytesOf(g_.value(v).type);
    Judgement j;
    j.apart = 2 * p.call + microsecondsOfBytes(p, 2 * bytes);
    j.together = p.call + microsecondsOfBytes(p, bytes);
    if (const auto entry = conflictOf(a.sides, b.sides))
      j.why = "they are to stay apart (" + steered_.apartEntries[*entry] + ")";
    else if (a.product || b.product)
      j.why = "one of them computes a matrix product";
    else if (bytes == 0)
      j.why = "they read no value of their own size together";
    else if (a.elements != b.elements)
      j.why = "they go over different numbers of elements";
    else if (a.hasRows && b.hasRows && a.rowKey != b.rowKey)
      j.why = rowsDiffer(a, b);
    else if (a.epoch != b.epoch)
      j.why = "an operator that writes or has effects lies between them";
    else if (a.nodes.size() + b.nodes.size() > options_.maxNodes)
      j.why = "the group would have more than " + std::to_string(options_.maxNodes) + " nodes";
    else if (tensorsOf(ai, bi) > std::min(options_.maxInputs, mostStreams))
      j.why = "the group would read and write more than " + std::to_string(std::min(options_.maxInputs, mostStreams)) +
              " tensors";
    else if (std::max(a.last, b.last) - std::min(a.first, b.first) > farApart)
      j.why = "they stand far apart, and what the first makes would be kept for long";
    else if (a.after.contains(bi) || b.after.contains(ai) || isCycle(ai, bi) || isCycle(bi, ai))
      j.why = "one of them depends on what the other makes";
    j.isLegal = j.why.empty();
    return j;
  }

  /// Two nodes that read a value, each for its group.
  struct Siblings {
    double saved;
    NodeId first, second;
    ValueId value;
  };

  std::vector<Siblings> findSiblings() const {
    std::vector<Siblings> found;
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (uint32_t v = 0; v < readers_.size(); ++v) {
      std::vector<std::pair<uint32_t, NodeId>> groups;  // in the order of nodes
      for (const NodeId reader : readers_[v]) {
        const uint32_t group = groupOf_[reader.index];
        const auto isKnown = [&](const auto& known) { return known.first == group; };
        if (groups_[group].computes && isWhole(ValueId(v), groups_[group]) &&
            std::none_of(groups.rbegin(), groups.rbegin() + static_cast<long>(std::min<size_t>(groups.size(), 64)),
                         isKnown))
          groups.emplace_back(group, reader);
      }
      for (size_t i = 0; i < groups.size(); ++i)
        for (size_t k = i + 1; k < std::min(groups.size(), i + 1 + nextReaders); ++k) {
          if (groups[i].first == groups[k].first || !seen.emplace(groups[i].first, groups[k].first).second) continue;
          const Judgement j = judgeSiblings(groups[i].first, groups[k].first);
          found.push_back({j.saved(), groups[i].second, groups[k].second, ValueId(v)});
        }
    }
    // What saves most comes first.
    std::stable_sort(found.begin(), found.end(),
                     [](const Siblings& a, const Siblings& b) { return a.saved > b.saved; });
    return found;
  }

  void mergeSiblings() {
    for (const Siblings& s : findSiblings()) {
      const uint32_t a = groupOf_[s.first.index], b = groupOf_[s.second.index];
      if (a == b) continue;
      const Judgement j = judgeSiblings(a, b);
      const bool isMerged = j.isLegal && j.saved() > 0;
      decisions_.push_back({g_.node(s.first).name, g_.node(s.second).name, g_.value(s.value).name, j.isLegal, isMerged,
                            false, true, j.isLegal && !isMerged ? "it would not be faster" : j.why, j.apart,
                            j.together});
      if (isMerged) merge(a, b);
    }
  }

  /// a goes into b.
  void merge(uint32_t ai, uint32_t bi) {
    Group &a = groups_[ai], &b = groups_[bi];
    for (const NodeId n : a.nodes) groupOf_[n.index] = bi;
    b.nodes.insert(b.nodes.begin(), a.nodes.begin(), a.nodes.end());
    b.first = std::min(a.first, b.first);
    b.last = std::max(a.last, b.last);
    b.elements = std::max(a.elements, b.elements);
    b.operations += a.operations;
    b.sides = joined(a.sides, b.sides);
    if (a.product) b.product = a.product;
    if (a.hasRows && !b.hasRows) {
      b.hasRows = true;
      b.rows = a.rows;
      b.rowKey = a.rowKey;
    }
    for (const uint32_t before : a.before) {
      groups_[before].after.erase(ai);
      if (before == bi) continue;
      groups_[before].after.insert(bi);
      b.before.insert(before);
    }
    for (const uint32_t after : a.after) {
      groups_[after].before.erase(ai);
      if (after == bi) continue;
      groups_[after].before.insert(bi);
      b.after.insert(after);
    }
    b.before.erase(ai);
    b.after.erase(ai);
    a.isAlive = false;
    a.nodes.clear();
    a.before.clear();
    a.after.clear();
    ++b.version;
  }

  /// The pairs that stay apart, and why.
  void explainEdges(FusionPlan& plan) const {
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (const NodeId id : g_.order(g_.root())) {
      const uint32_t b = groupOf_[id.index];
      if (b == none || nodes_[id.index].role != Role::Compute) continue;
      for (const FusionRead& r : nodes_[id.index].reads) {
        const NodeId producer = g_.value(r.base).producer;
        const uint32_t a = producer ? groupOf_[producer.index] : none;
        if (a == none || a == b || !groups_[a].computes || !seen.emplace(a, b).second) continue;
        const Judgement j = judge(a, b);
        FusionDecision d{g_.node(producer).name,
                         g_.node(id).name,
                         g_.value(r.base).name,
                         j.isLegal,
                         false,
                         false,
                         false,
                         j.why,
                         j.apart,
                         j.together};
        if (j.isLegal) d.why = options_.steering.automatic ? "it would not be faster" : "only what is listed is merged";
        plan.decisions.push_back(std::move(d));
      }
    }
  }

  // What becomes of the groups
  // -------------------------------------------------------------------------------------------------------------------
  void collect(FusionPlan& plan) {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < groups_.size(); ++i)
      if (groups_[i].isAlive && groups_[i].computes) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return groups_[a].last < groups_[b].last; });
    for (const uint32_t i : order) {
      Group& group = groups_[i];
      if (group.nodes.size() < 2 && !nodes_[group.nodes.front().index].mayBeAlone) {
        const Node& n = g_.node(group.nodes.front());
        plan.notFused.push_back({n.name, n.op->name, "it has no neighbour that it may be fused with"});
        continue;
      }
      plan.groups.push_back(describe(i, i));
    }
    for (const NodeId id : g_.order()) {
      const Node& n = g_.node(id);
      const FusionNode& f = nodes_[id.index];
      if (f.role == Role::Barrier && n.op->hasSchema && !n.op->is(OperatorFact::Structural))
        plan.notFused.push_back({n.name, n.op->name, f.why.empty() ? "it is in a branch or a loop" : f.why});
    }
  }

  /// The group, or what two of them would be together.
  FusionGroup describe(uint32_t ai, uint32_t bi) const {
    FusionGroup out;
    out.product = groups_[ai].product ? groups_[ai].product : groups_[bi].product;
    std::vector<NodeId> nodes = groups_[ai].nodes;
    if (ai != bi) nodes.insert(nodes.end(), groups_[bi].nodes.begin(), groups_[bi].nodes.end());
    std::set<std::pair<int64_t, NodeId>> members;  // with the views that they read through
    for (const NodeId id : nodes) {
      members.emplace(g_.node(id).orderKey, id);
      for (const Argument& a : g_.node(id).args) a.forEachValue([&](ValueId v) { addViews(v, members); });
    }
    for (const auto& [key, id] : members) out.nodes.push_back(id);
    const std::unordered_set<NodeId> inside(out.nodes.begin(), out.nodes.end());
    std::vector<ValueId> numbers;
    std::unordered_set<ValueId> seen;
    double calls = 0;
    for (const NodeId id : out.nodes) {
      const Node& n = g_.node(id);
      for (const Argument& a : n.args)
        a.forEachValue([&](ValueId v) {
          if (inside.contains(g_.value(v).producer) || !seen.insert(v).second) return;
          (g_.value(v).type.isTensor() ? out.inputs : numbers).push_back(v);
          if (g_.value(v).type.isTensor()) out.bytes += static_cast<size_t>(bytesOf(g_.value(v).type));
        });
      if (nodes_[id.index].role == Role::View) continue;
      out.computing.push_back(id);
      ++calls;
      for (const FusionRead& r : nodes_[id.index].reads)
        if (g_.value(r.base).type.isTensor()) out.bytesApart += static_cast<size_t>(bytesOf(g_.value(r.base).type));
      out.bytesApart += static_cast<size_t>(nodes_[id.index].outputBytes);
      for (const ValueId v : n.outputs) {
        if (!isReadOutside(v, ai, bi)) continue;
        out.outputs.push_back(v);
        out.bytesWritten += static_cast<size_t>(bytesOf(g_.value(v).type));
      }
    }
    out.bytes += out.bytesWritten;
    out.microseconds = options_.prices.call + microsecondsOfBytes(options_.prices, static_cast<double>(out.bytes));
    out.inputs.insert(out.inputs.end(), numbers.begin(), numbers.end());
    const double fewer = static_cast<double>(out.bytesApart) - static_cast<double>(out.bytes);
    out.savedMicroseconds = (calls - 1) * options_.prices.call + microsecondsOfBytes(options_.prices, fewer);
    out.name = nameOf(out);
    return out;
  }

  void addViews(ValueId v, std::set<std::pair<int64_t, NodeId>>& members) const {
    const NodeId producer = g_.value(v).producer;
    if (!producer || nodes_[producer.index].role != Role::View) return;
    if (!members.emplace(g_.node(producer).orderKey, producer).second) return;
    for (const Argument& a : g_.node(producer).args) a.forEachValue([&](ValueId w) { addViews(w, members); });
  }

  std::string nameOf(const FusionGroup& group) const {
    constexpr size_t mostWords = 4;
    std::vector<std::string> words;
    for (const NodeId id : group.nodes)
      if (nodes_[id.index].role == Role::Compute) words.emplace_back(g_.node(id).op->baseName());
    std::string name;
    for (size_t i = 0; i < words.size(); ++i) {
      const bool isLeftOut = words.size() > mostWords && i >= mostWords - 1 && i + 1 < words.size();
      if (isLeftOut && i > mostWords - 1) continue;
      name += (i > 0 ? "_" : "") + (isLeftOut ? std::to_string(words.size() - mostWords) + "more" : words[i]);
    }
    return name;
  }

  const Graph& g_;
  const FusionOptions& options_;
  std::vector<FusionNode> nodes_;
  SteeredNodes steered_;
  std::vector<Group> groups_;
  std::vector<uint32_t> groupOf_;             // by NodeId; none for views
  std::vector<std::vector<NodeId>> readers_;  // by ValueId: nodes that are no views, through views
  std::vector<FusionDecision> decisions_;
};

}  // namespace

bool isOnGpu(const Graph& g) {
  return std::any_of(g.inputs().begin(), g.inputs().end(),
                     [&](ValueId v) { return g.value(v).type.tensorInfo.device.starts_with("cuda"); });
}

void planForGpu(FusionOptions& options) {
  options.prices = kGpuPrices;
  options.hasProducts = true;
}

FusionPlan planFusion(const Graph& g, const FusionOptions& options) {
  std::optional<FusionPlan> before;
  if (!options.steering.move.empty()) {
    FusionOptions without = options;
    without.steering.move.clear();
    before = Planner(g, without, nullptr).plan();
  }
  FusionPlan plan = Planner(g, options, before ? &*before : nullptr).plan();
  chooseKernels(g, options.steering, plan);
  return plan;
}

Steering steeringFor(const Graph& g, const FusionPlan& plan) {
  Steering out;
  out.automatic = false;
  for (const FusionGroup& group : plan.groups) {
    std::vector<std::string>& names = out.merge.emplace_back();
    for (const NodeId n : group.computing) names.push_back(g.node(n).name);
    if (!group.choice.isEmpty()) out.kernels.push_back({names, group.choice, {}, {}});
  }
  return out;
}

Graph groupGraph(const Graph& g, const FusionGroup& group) {
  Graph out;
  out.name = group.name;
  for (const Symbol& s : g.symbols()) out.setSymbol(s);
  std::unordered_map<ValueId, ValueId> now;
  // Where it runs is the call's affair.
  const auto typeOf = [&](ValueId v) {
    Type type = g.value(v).type;
    type.tensorInfo.device.clear();
    return type;
  };
  for (const ValueId v : group.inputs) now.emplace(v, out.addInput(g.value(v).name, typeOf(v)));
  for (const NodeId id : group.nodes) {
    const Node& n = g.node(id);
    std::vector<Argument> args = n.args;
    for (Argument& a : args) a.forEachValueMutable([&](ValueId& v) { v = now.at(v); });
    const NodeId made = out.append(out.root(), n.op, std::move(args), n.name);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (i >= out.node(made).outputs.size()) out.addOutput(made, g.value(n.outputs[i]).name, Type());
      const ValueId v = out.node(made).outputs[i];
      out.setType(v, typeOf(n.outputs[i]));
      now.emplace(n.outputs[i], v);
    }
  }
  std::vector<Argument> returns;
  for (const ValueId v : group.outputs) returns.emplace_back(now.at(v));
  out.setReturns(out.root(), std::move(returns));
  return out;
}

}  // namespace graft
