#include "core/formats/torchscript/call_segments.h"

#include <algorithm>
#include <utility>

namespace graft {

CallSegments::CallSegments(const Graph& g, const Holds& holds, const CapturePieces* pieces)
    : g_(g), positions_(g.nodeBound(), -1), segmentOf_(g.nodeBound(), none), parts_(g.moduleCalls().size(), 0) {
  std::vector<bool> hasNodes(g.moduleCalls().size(), false);
  for (NodeId n : g.order())
    for (ModuleCallId m = g.node(n).module; m && !hasNodes[m.index]; m = g.moduleCall(m).parent)
      hasNodes[m.index] = true;
  for (const ModuleCall& m : g.moduleCalls())
    if (!hasNodes[m.id.index] && !m.path.empty()) empty_[m.parent.index].push_back(m.id);
  cut(g.root(), {}, none);
  if (pieces) blocks_[g.root().index] = withPieces(std::exchange(blocks_[g.root().index], {}), none, *pieces, holds);
  findFlows(holds);
}

const std::string& CallSegments::pathOf(uint32_t segment) const {
  static const std::string root;
  const ModuleCallId call = segment == none ? ModuleCallId() : segments_[segment].call;
  return call ? g_.moduleCall(call).path : root;
}

/// Positions of its first node, and behind its last one.
std::pair<size_t, size_t> CallSegments::extentOf(const Item& item) const {
  if (item.segment != none) return {segments_[item.segment].begin, segments_[item.segment].end};
  const auto begin = static_cast<size_t>(positions_[item.node.index]);
  size_t end = begin + 1;
  for (BlockId b : g_.node(item.node).blocks)
    for (const Item& inside : items(b)) end = std::max(end, extentOf(inside).second);
  return {begin, end};
}

bool CallSegments::holdsWeights(const Node& n, const std::string& path, const Holds& holds) const {
  bool all = true;
  const auto look = [&](ValueId v) { all = all && (!g_.isWeight(v) || holds(v, path)); };
  for (const Argument& a : n.args) a.forEachValue(look);
  for (const auto& [key, a] : n.kwargs) a.forEachValue(look);
  for (BlockId b : n.blocks) {
    for (const Argument& a : g_.block(b).returns) a.forEachValue(look);
    for (NodeId inside : g_.order(b)) all = all && holdsWeights(g_.node(inside), path, holds);
  }
  return all;
}

/// A piece copies what it is given in each run, which must not be weights: those it reads from its module.
bool CallSegments::fitsPiece(const Item& item, const std::string& path, const CapturePieces& pieces,
                             const Holds& holds) const {
  if (item.segment == none) return !pieces.apart[item.node.index] && holdsWeights(g_.node(item.node), path, holds);
  const auto& inside = segments_[item.segment].items;
  return std::all_of(inside.begin(), inside.end(), [&](const Item& i) { return fitsPiece(i, path, pieces, holds); });
}

size_t CallSegments::workOf(const Item& item, const CapturePieces& pieces) const {
  size_t n = 0;
  if (item.segment != none) {
    for (const Item& i : segments_[item.segment].items) n += workOf(i, pieces);
    return n;
  }
  for (BlockId b : g_.node(item.node).blocks)
    for (const Item& i : items(b)) n += workOf(i, pieces);
  return n + (pieces.work[item.node.index] ? 1 : 0);
}

void CallSegments::moveInto(uint32_t segment, const Item& item) {
  if (item.segment != none) {
    segments_[item.segment].parent = segment;
    return;
  }
  segmentOf_[item.node.index] = segment;
  for (BlockId b : g_.node(item.node).blocks)
    for (const Item& inside : items(b)) moveInto(segment, inside);
}

std::vector<CallSegments::Item> CallSegments::withPieces(std::vector<Item>&& given, uint32_t around,
                                                         const CapturePieces& pieces, const Holds& holds) {
  std::vector<Item> out, run;
  const auto close = [&] {
    size_t work = 0;
    for (const Item& i : run) work += workOf(i, pieces);
    if (work < kLeastWork) {
      out.insert(out.end(), run.begin(), run.end());
    } else {
      Segment s;
      s.call = around == none ? ModuleCallId() : segments_[around].call;
      s.parent = around;
      s.piece = ++pieceCount_;
      s.begin = extentOf(run.front()).first;
      s.end = extentOf(run.back()).second;
      s.items = run;
      const auto made = static_cast<uint32_t>(segments_.size());
      segments_.push_back(std::move(s));
      for (const Item& i : run) moveInto(made, i);
      out.push_back({{}, made});
    }
    run.clear();
  };
  for (const Item& item : given) {
    if (fitsPiece(item, pathOf(around), pieces, holds)) {
      run.push_back(item);
      continue;
    }
    close();
    if (item.segment != none) {
      std::vector<Item> inside =
          withPieces(std::exchange(segments_[item.segment].items, {}), item.segment, pieces, holds);
      segments_[item.segment].items = std::move(inside);
    } else {
      for (BlockId b : g_.node(item.node).blocks)
        blocks_[b.index] = withPieces(std::exchange(blocks_[b.index], {}), around, pieces, holds);
    }
    out.push_back(item);
  }
  close();
  return out;
}

// The calls from `base` down to `from`, without calls that only repeat their parent's path. Nothing where `from` is not
// within `base`: such a node belongs to the segment around it.
std::vector<ModuleCallId> CallSegments::chain(ModuleCallId from, ModuleCallId base) const {
  std::vector<ModuleCallId> out;
  if (!g_.isWithin(from, base)) return out;
  for (ModuleCallId m = from; m && m != base; m = g_.moduleCall(m).parent) {
    const ModuleCall& call = g_.moduleCall(m);
    const bool repeats = call.path.empty() || (call.parent && g_.moduleCall(call.parent).path == call.path);
    if (!repeats) out.push_back(m);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

uint32_t CallSegments::open(ModuleCallId call, uint32_t parent) {
  Segment s;
  s.call = call;
  s.parent = parent;
  s.part = parts_[call.index]++;
  s.begin = s.end = next_;
  segments_.push_back(std::move(s));
  return static_cast<uint32_t>(segments_.size() - 1);
}

// A call that owns no nodes (a dropout that is switched off) keeps its place: before the call that followed it.
void CallSegments::addEmptyCalls(ModuleCallId parent, uint32_t before, std::vector<Item>& items, uint32_t segment) {
  const auto found = empty_.find(parent.index);
  if (found == empty_.end()) return;
  auto& waiting = found->second;
  size_t taken = 0;
  while (taken < waiting.size() && waiting[taken].index < before) {
    const uint32_t made = open(waiting[taken], segment);
    std::vector<Item> inside;
    addEmptyCalls(waiting[taken], UINT32_MAX, inside, made);
    segments_[made].items = std::move(inside);
    items.push_back({{}, made});
    ++taken;
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(taken));
}

void CallSegments::cut(BlockId block, ModuleCallId base, uint32_t outer) {
  std::vector<Item> here;
  std::vector<Open> open_{{base, outer}};
  const auto add = [&](size_t level, Item item) {
    (level == 0 ? here : segments_[open_[level].segment].items).push_back(item);
  };
  const auto addEmpty = [&](size_t level, uint32_t before) {
    if (level == 0 && block != g_.root()) return;
    std::vector<Item> items;
    addEmptyCalls(open_[level].call, before, items, level == 0 ? none : open_[level].segment);
    for (const Item& i : items) add(level, i);
  };
  const auto close = [&](uint32_t before) {
    addEmpty(open_.size() - 1, before);
    segments_[open_.back().segment].end = next_;
    open_.pop_back();
  };
  for (NodeId n = g_.block(block).first; n; n = g_.node(n).next) {
    const std::vector<ModuleCallId> wanted = chain(g_.node(n).module, base);
    size_t common = 0;
    while (common < wanted.size() && common + 1 < open_.size() && open_[common + 1].call == wanted[common]) ++common;
    while (open_.size() > common + 1) close(common < wanted.size() ? wanted[common].index : UINT32_MAX);
    for (; common < wanted.size(); ++common) {
      addEmpty(open_.size() - 1, wanted[common].index);
      const uint32_t made = open(wanted[common], open_.back().segment);
      add(open_.size() - 1, {{}, made});
      open_.push_back({wanted[common], made});
    }
    add(open_.size() - 1, {n, none});
    positions_[n.index] = static_cast<int64_t>(next_++);
    segmentOf_[n.index] = open_.back().segment;
    const ModuleCallId owner = wanted.empty() ? base : wanted.back();
    const uint32_t around = open_.back().segment;
    for (BlockId b : g_.node(n).blocks) cut(b, owner, around);
  }
  while (open_.size() > 1) close(UINT32_MAX);
  addEmpty(0, UINT32_MAX);
  blocks_[block.index] = std::move(here);
}

bool CallSegments::contains(uint32_t s, int64_t position) const {
  return static_cast<int64_t>(segments_[s].begin) <= position && position < static_cast<int64_t>(segments_[s].end);
}

void CallSegments::findFlows(const Holds& holds) {
  std::unordered_set<uint64_t> in, out;
  const auto once = [](std::unordered_set<uint64_t>& seen, uint32_t segment, ValueId v) {
    return seen.insert((uint64_t{segment} << 32) | v.index).second;
  };
  // A use of v at that position, inside of the segment `at`.
  const auto use = [&](ValueId v, int64_t position, uint32_t at) {
    const Value& value = g_.value(v);
    if (value.kind == Value::Kind::Weight) {
      for (uint32_t s = at; s != none && !holds(v, pathOf(s)); s = segments_[s].parent)
        if (once(in, s, v)) segments_[s].inputs.push_back(v);
      return;
    }
    const NodeId maker = value.kind == Value::Kind::Output ? value.producer : g_.block(value.block).owner;
    const int64_t made = maker ? positions_[maker.index] : -1;
    for (uint32_t s = at; s != none && !contains(s, made); s = segments_[s].parent)
      if (once(in, s, v)) segments_[s].inputs.push_back(v);
    if (value.kind != Value::Kind::Output) return;
    for (uint32_t s = segmentOf_[maker.index]; s != none && !contains(s, position); s = segments_[s].parent)
      if (once(out, s, v)) segments_[s].outputs.push_back(v);
  };
  for (NodeId id : g_.order()) {
    const Node& n = g_.node(id);
    const auto here = [&](ValueId v) { use(v, positions_[id.index], segmentOf_[id.index]); };
    for (const Argument& a : n.args) a.forEachValue(here);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(here);
    // The node that owns a block uses what the block returns.
    for (BlockId b : n.blocks)
      for (const Argument& a : g_.block(b).returns) a.forEachValue(here);
  }
  for (const Argument& a : g_.returns()) a.forEachValue([&](ValueId v) { use(v, static_cast<int64_t>(next_), none); });
  for (Segment& s : segments_)
    std::sort(s.outputs.begin(), s.outputs.end(), [&](ValueId a, ValueId b) {
      const int64_t x = positions_[g_.value(a).producer.index], y = positions_[g_.value(b).producer.index];
      return x != y ? x < y : a < b;
    });
}

}  // namespace graft
