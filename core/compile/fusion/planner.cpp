// Which pairs of groups become one, and in which order.
#include "core/compile/fusion/planner.h"

#include <algorithm>
#include <iterator>

#include "core/compile/codegen/product.h"
#include "core/compile/lower/lower.h"

namespace graft {
namespace {

using Role = FusionNode::Role;

constexpr double kLoad = 2;           ///< operations that the load of an element takes as long as
constexpr double kCheapPosition = 4;  ///< at most, of what belongs to an address

}  // namespace

FusionPlanner::FusionPlanner(const Graph& g, const FusionOptions& options, const FusionPlan* before)
    : g_(g),
      options_(options),
      nodes_(fusionNodes(g, options)),
      steered_(steeredNodes(g, nodes_, options.steering, before)),
      groupOf_(g.nodeBound(), none),
      readers_(g.valueBound()) {}

FusionPlan FusionPlanner::plan() {
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

void FusionPlanner::makeGroups() {
  for (const NodeId id : g_.order()) {
    const FusionNode& f = nodes_[id.index];
    if (f.role == Role::View) continue;
    groupOf_[id.index] = static_cast<uint32_t>(groups_.size());
    GrowingGroup& made = groups_.emplace_back();
    made.nodes = {id};
    made.block = g_.node(id).parent;
    made.first = made.last = static_cast<int64_t>(groups_.size());
    made.computes = f.role == Role::Compute;
    made.epoch = f.epoch;
    made.elements = f.elements;
    made.operations = f.operations;
    made.hasWindows = f.isWindow;
    made.hasRows = f.hasRows;
    made.rows = f.rows;
    made.rowKey = f.rowKey;
    made.isOfColumns = f.isOfColumns;
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
  order_.emplace(groups_.size());
}

std::vector<ValueId> FusionPlanner::shared(uint32_t a, uint32_t b, bool& mayInline) const {
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

bool FusionPlanner::isReadOutside(ValueId v, uint32_t a, uint32_t b) const {
  for (const NodeId reader : readers_[v.index])
    if (const uint32_t g = groupOf_[reader.index]; g != a && g != b) return true;
  return isReturned(v);
}

bool FusionPlanner::isReturned(ValueId v) const {
  if (g_.value(v).returnUses > 0) return true;
  for (const NodeId user : g_.value(v).users) {
    if (nodes_[user.index].role != Role::View) continue;
    for (const ValueId out : g_.node(user).outputs)
      if (isReturned(out)) return true;
  }
  return false;
}

std::optional<double> FusionPlanner::picks(uint32_t a, uint32_t b) const {
  std::optional<double> most;
  for (const NodeId consumer : groups_[b].nodes)
    for (const FusionRead& r : nodes_[consumer.index].reads) {
      const NodeId producer = g_.value(r.base).producer;
      if (!producer || groupOf_[producer.index] != a) continue;
      const auto picked = picksBehind(consumer, r.base, b);
      if (!picked) return {};
      most = std::max(most.value_or(0), *picked);
    }
  return most;
}

std::optional<double> FusionPlanner::picksBehind(NodeId reader, ValueId read, uint32_t b) const {
  const FusionNode& f = nodes_[reader.index];
  if (f.picksFrom == read) return f.picks;
  if (f.hasRows || f.isProduct) return {};
  std::optional<double> most;  // a cast, of which others pick
  for (const ValueId v : g_.node(reader).outputs) {
    if (isReadOutside(v, b, b)) return {};
    for (const NodeId next : readers_[v.index]) {
      const auto picked = picksBehind(next, v, b);
      if (!picked) return {};
      most = std::max(most.value_or(0), *picked);
    }
  }
  return most;
}

std::string FusionPlanner::rowsDiffer(const GrowingGroup& a, const GrowingGroup& b) {
  return "the rows differ: " + std::to_string(static_cast<int64_t>(a.rows)) + " and " +
         std::to_string(static_cast<int64_t>(b.hasRows ? b.rows : b.elements));
}

bool FusionPlanner::areRowsAndColumns(const GrowingGroup& a, const GrowingGroup& b) const {
  return options_.hasProducts && a.hasRows && b.hasRows && b.isOfColumns && a.rowKey.size() == 1 &&
         a.rows * b.rows == a.elements && a.elements == b.elements && a.rows > 1 && b.rows > 1 &&
         a.elements >= static_cast<double>(lower::kColumnsOfGpu.elements) &&
         b.rows <= static_cast<double>(lower::kMostColumnsWithRows);
}

std::string FusionPlanner::domainObstacle(uint32_t ai, uint32_t bi, bool isReadElsewhere) const {
  const GrowingGroup &a = groups_[ai], &b = groups_[bi];
  if (a.product || b.product) {
    if (a.product && b.product) return "each computes a matrix product";
    if (a.hasRows || b.hasRows) return "a tile of a matrix product holds no whole rows";
    if (a.product && a.elements != b.elements) return "the matrix product has another number of elements";
  }
  // Threads of a GPU go over such rows, which lie apart in memory, once for the sums and once for the results.
  if (options_.hasProducts && a.hasWindows && b.hasRows && b.rowKey.size() > 1)
    return "the windows would be gone over in each pass over the rows";
  if (a.hasRows && picks(ai, bi) == a.rows) return "";
  if (a.hasRows && b.hasRows) return a.rowKey == b.rowKey || areRowsAndColumns(a, b) ? "" : rowsDiffer(a, b);
  if (a.hasRows) {
    const bool fits = b.elements == a.elements || b.elements == a.rows || b.elements == a.columns;
    return fits ? "" : rowsDiffer(a, b);
  }
  if (isReadElsewhere && a.elements != b.elements)
    return "the value is read elsewhere too, and they go over different numbers of elements";
  return "";
}

MergeJudgement FusionPlanner::judge(uint32_t ai, uint32_t bi, bool isThorough) const {
  const GrowingGroup &a = groups_[ai], &b = groups_[bi];
  MergeJudgement j;
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
  const double again = operationsAgain(ai, bi, values);
  j.apart = 2 * p.call + microsecondsOfBytes(p, 2 * bytes);
  j.together = p.call + microsecondsOfBytes(p, kept) + microsecondsOfOperations(p, again);
  if (const auto entry = conflictOf(a.sides, b.sides))
    j.why = "they are to stay apart (" + steered_.apartEntries[*entry] + ")";
  else if (a.block != b.block)
    j.why = "one of them is in a branch or a loop that the other is not in";
  else if (a.epoch != b.epoch)
    j.why = "an operator that writes or has effects lies between them";
  else if (!mayInline)
    j.why = "the consumer reads elements many times, or at places that other values say";
  else if (a.nodes.size() + b.nodes.size() > options_.maxNodes)
    j.why = "the group would have more than " + std::to_string(options_.maxNodes) + " nodes";
  else if (isThorough && tensorsOf(ai, bi) > options_.maxInputs)
    j.why = "the group would read and write more than " + std::to_string(options_.maxInputs) + " tensors";
  else
    j.why = domainObstacle(ai, bi, isReadElsewhere);
  if (j.why.empty() && isThorough && isCycle(ai, bi))
    j.why = "an operator between them reads the one and is read by the other";
  if (j.why.empty() && (a.product || b.product) && !isEpilogue(ai, bi))
    j.why = "elements of the matrix product are read at other places than their own";
  j.isLegal = j.why.empty();
  return j;
}

bool FusionPlanner::isEpilogue(uint32_t ai, uint32_t bi) const {
  const Result<loops::Program> program = lower::lower(groupGraph(g_, describe(ai, bi)));
  return program && codegen::isProductWithEpilogue(*program);
}

double FusionPlanner::operationsAgain(uint32_t ai, uint32_t bi, const std::vector<ValueId>& values) const {
  const GrowingGroup &a = groups_[ai], &b = groups_[bi];
  if (a.hasRows || a.elements >= b.elements) return 0;
  double each = a.operations, again = b.elements - a.elements;
  if (options_.hasProducts) return again * each;
  // On a CPU, positions and what is computed of them are known outside of the loops, or are part of an address. All
  // else that reads no tensor saves its readers a load.
  const auto readsNothing = [&](NodeId n) {
    return std::ranges::all_of(nodes_[n.index].reads, [&](const FusionRead& r) {
      const NodeId producer = g_.value(r.base).producer;
      return !g_.value(r.base).type.isTensor() || (producer && groupOf_[producer.index] == ai);
    });
  };
  if (std::ranges::all_of(a.nodes, readsNothing)) {
    each = -kLoad * static_cast<double>(values.size());
    for (const NodeId n : a.nodes) {
      const auto& dtype = g_.value(g_.node(n).outputs.front()).type.tensorInfo.dtype;
      const bool isPosition = nodes_[n.index].operations <= kCheapPosition && dtype && !isFloatingPoint(*dtype);
      if (!isPosition) each += nodes_[n.index].operations;
    }
  }
  // What joins tensors reads each element as often as it names the tensor.
  const bool isJoined = std::ranges::all_of(groups_[bi].nodes, [&](NodeId n) {
    const FusionNode& f = nodes_[n.index];
    return f.isJoin || std::ranges::none_of(f.reads, [&](const FusionRead& r) {
             return std::ranges::find(values, r.base) != values.end();
           });
  });
  if (isJoined) {
    again = 0;
    for (const ValueId v : values) {
      double times = -1;
      for (const NodeId n : groups_[bi].nodes)
        if (nodes_[n.index].isJoin)
          g_.node(n).args.front().forEachValue([&](ValueId o) { times += baseOf(g_, nodes_, o, b.block) == v; });
      again += std::max(0.0, times) * elementsOf(g_.value(v).type);
    }
  }
  return again * std::max(0.0, each);
}

size_t FusionPlanner::tensorsOf(uint32_t ai, uint32_t bi) const {
  std::vector<ValueId> read;
  size_t written = 0;
  for (const uint32_t i : {ai, bi}) {
    for (const NodeId n : groups_[i].nodes) {
      for (const FusionRead& r : nodes_[n.index].reads) {
        const NodeId producer = g_.value(r.base).producer;
        const uint32_t from = producer ? groupOf_[producer.index] : none;
        if (g_.value(r.base).type.isTensor() && (from == none || (from != ai && from != bi))) read.push_back(r.base);
      }
      for (const ValueId v : g_.node(n).outputs) written += isReadOutside(v, ai, bi) ? 1 : 0;
    }
  }
  std::sort(read.begin(), read.end());
  return written + static_cast<size_t>(std::unique(read.begin(), read.end()) - read.begin());
}

bool FusionPlanner::isCycle(uint32_t a, uint32_t b) const { return order_->hasPath(a, b, neighbours_); }

void FusionPlanner::consider(std::set<Entry>& queue, uint32_t a, uint32_t b) const {
  const MergeJudgement j = judge(a, b, false);  // most pairs change before their turn comes
  // Of those that save as much, what goes over windows comes last: what is behind them may belong to rows.
  if (j.isLegal && j.saved() > 0)
    queue.emplace(-j.saved(), groups_[a].hasWindows, a, b, groups_[a].version, groups_[b].version);
}

void FusionPlanner::mergeAll(bool withProducts) {
  std::set<Entry> queue;
  const auto consider = [&](uint32_t a, uint32_t b) {
    const bool hasProduct = groups_[a].product || groups_[b].product;
    if (hasProduct == withProducts) this->consider(queue, a, b);
  };
  for (uint32_t a = 0; a < groups_.size(); ++a)
    for (const uint32_t b : groups_[a].after) consider(a, b);
  while (!queue.empty()) {
    const auto [saved, hasWindows, a, b, versionA, versionB] = *queue.begin();
    queue.erase(queue.begin());
    if (!groups_[a].isAlive || !groups_[b].isAlive || groups_[a].version != versionA || groups_[b].version != versionB)
      continue;
    const MergeJudgement j = judge(a, b);
    if (!j.isLegal || j.saved() <= 0) continue;
    note(a, b, j, false);
    merge(a, b);
    for (const uint32_t before : groups_[b].before) consider(before, b);
    for (const uint32_t after : groups_[b].after) consider(b, after);
  }
}

void FusionPlanner::mergeAsked(const SteeredNodes::Merge& wanted) {
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
        const MergeJudgement j = judge(a, b);
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
    const auto n =
        std::find_if(wanted.nodes.begin(), wanted.nodes.end(), [&](NodeId id) { return groupOf_[id.index] == group; });
    return "%" + g_.node(*n).name;
  };
  if (why.empty())
    why = nameIn(*left.begin()) + " and " + nameIn(*std::next(left.begin())) + ": no value passes between them";
  steered_.problems.push_back({wanted.entry, why});
}

bool FusionPlanner::mergeAskedSiblings(const std::set<uint32_t>& groups) {
  for (const uint32_t a : groups)
    for (const uint32_t b : groups) {
      if (a >= b || !groups_[a].computes || !groups_[b].computes) continue;
      const MergeJudgement j = judgeSiblings(a, b);
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

std::string FusionPlanner::pairOf(uint32_t a, uint32_t b) const {
  bool ignored = false;
  const ValueId v = shared(a, b, ignored).front();
  for (const NodeId n : groups_[b].nodes)
    for (const FusionRead& r : nodes_[n.index].reads)
      if (r.base == v) return "%" + g_.node(g_.value(v).producer).name + " and %" + g_.node(n).name;
  return "%" + g_.value(v).name;
}

void FusionPlanner::note(uint32_t a, uint32_t b, const MergeJudgement& j, bool isAsked) {
  bool ignored = false;
  const ValueId v = shared(a, b, ignored).front();
  NodeId consumer;
  for (const NodeId reader : readers_[v.index])
    if (groupOf_[reader.index] == b) consumer = reader;
  decisions_.push_back({g_.node(g_.value(v).producer).name, g_.node(consumer).name, g_.value(v).name, true, true,
                        isAsked, false, "", j.apart, j.together});
}

void FusionPlanner::merge(uint32_t ai, uint32_t bi) {
  order_->merge(ai, bi, neighbours_);
  GrowingGroup &a = groups_[ai], &b = groups_[bi];
  for (const NodeId n : a.nodes) groupOf_[n.index] = bi;
  b.nodes.insert(b.nodes.begin(), a.nodes.begin(), a.nodes.end());
  b.first = std::min(a.first, b.first);
  b.last = std::max(a.last, b.last);
  b.elements = std::max(a.elements, b.elements);
  b.operations += a.operations;
  b.hasWindows = b.hasWindows || a.hasWindows;
  b.sides = joined(a.sides, b.sides);
  if (a.product) b.product = a.product;
  if (a.hasRows && b.hasRows && a.isOfColumns != b.isOfColumns) b.columns = a.isOfColumns ? a.rows : b.rows;
  if (a.hasRows && (!b.hasRows || b.isOfColumns)) {
    b.hasRows = true;
    b.rows = a.rows;
    b.rowKey = a.rowKey;
    b.isOfColumns = a.isOfColumns;
  }
  b.columns = std::max(a.columns, b.columns);
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

}  // namespace graft
