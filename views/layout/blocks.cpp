#include "views/layout/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "views/layout/node_text.h"

namespace graft {
namespace {

using Words = std::vector<uint32_t>;

/// What tells more of what a block does has a lower rank.
int rankOf(BoxKind kind) {
  switch (kind) {
    case BoxKind::Product:
    case BoxKind::Kernel:
      return 0;
    case BoxKind::Normalization:
      return 1;
    case BoxKind::Activation:
    case BoxKind::Lookup:
    case BoxKind::Control:
      return 2;
    case BoxKind::Arithmetic:
      return 3;
    default:
      return 4;
  }
}

/// Copies of `period` operators each, one after another.
struct Run {
  size_t first = 0, period = 0, count = 0;
  size_t end() const { return first + period * count; }
};

class Finder {
 public:
  explicit Finder(Graph& graph) : graph_(graph), order_(graph.order(graph.root())) {
    std::unordered_map<std::string_view, uint32_t> known;
    std::vector<size_t> position(graph.nodeBound());
    for (size_t i = 0; i < order_.size(); ++i) {
      const std::string_view name = graph.node(order_[i]).op->name;
      words_.push_back(known.try_emplace(name, static_cast<uint32_t>(known.size())).first->second);
      position[order_[i].index] = i;
    }
    // How many values are made before each place and used behind it.
    std::vector<int> steps(order_.size() + 1);
    for (size_t i = 0; i < order_.size(); ++i)
      for (ValueId v : graph.node(order_[i]).outputs) {
        size_t last = i;
        for (NodeId user : graph.value(v).users) last = std::max(last, position[outermost(user).index]);
        if (graph.value(v).returnUses > 0) last = order_.size();
        if (last == i) continue;
        ++steps[i + 1];
        if (last < order_.size()) --steps[last + 1];
      }
    crossing_.resize(order_.size() + 1);
    readers_.resize(order_.size() + 1);
    for (size_t i = 1; i < crossing_.size(); ++i) {
      crossing_[i] = crossing_[i - 1] + steps[i];
      for (ValueId v : graph.node(order_[i - 1]).outputs)
        readers_[i] += static_cast<int64_t>(graph.value(v).users.size());
    }
  }

  size_t size() const { return order_.size(); }

  /// The blocks between two places, and the parts of each; `parent` holds them.
  void find(size_t begin, size_t end, ModuleCallId parent) {
    const std::vector<Run> runs = best(begin, end);
    size_t at = begin;
    for (const Run& run : runs) {
      if (run.first > at) find(at, run.first, parent);
      for (size_t k = 0; k < run.count; ++k) {
        const size_t from = run.first + k * run.period;
        // Numbers of parts begin with those of what they are parts of: no two have one name.
        const std::string number = numberOf(parent) + std::to_string(numbers_[parent.index]++);
        std::string path = parent ? graph_.moduleCall(parent).path + ".part_" + number : "block." + number;
        const ModuleCallId call = graph_.addModuleCall(parent, std::move(path), mainOperators(from, run.period));
        for (size_t i = from; i < from + run.period; ++i) assign(order_[i], call);
        find(from, from + run.period, call);
      }
      at = run.end();
    }
    if (at > begin && at < end) find(at, end, parent);
  }

 private:
  static constexpr size_t shortest = 4;  ///< operators in a block

  /// The node of the root block that it is, or lies in.
  NodeId outermost(NodeId id) const {
    for (NodeId owner; (owner = graph_.block(graph_.node(id).parent).owner);) id = owner;
    return id;
  }

  /// "3_" of "block.3", "3_0_" of "block.3.part_3_0".
  std::string numberOf(ModuleCallId call) const {
    if (!call) return {};
    const std::string_view name = graph_.moduleCall(call).lastName();
    return std::string(name.substr(name.starts_with("part_") ? 5 : 0)) + "_";
  }

  void assign(NodeId id, ModuleCallId call) {
    graph_.setModule(id, call);
    for (BlockId b : graph_.node(id).blocks)
      for (NodeId inner : graph_.order(b)) assign(inner, call);
  }

  /// How far apart equal pieces of a few lengths follow each other: the most frequent distances.
  std::vector<size_t> periods(size_t begin, size_t end) const {
    constexpr size_t most = 24;
    std::vector<size_t> out;
    for (const size_t length : {size_t{3}, size_t{8}, size_t{24}, size_t{80}}) {
      if (end - begin < 2 * length) break;
      std::unordered_map<size_t, size_t> last;
      std::map<size_t, size_t> count;
      for (size_t i = begin; i + length <= end; ++i) {
        size_t hash = 0;
        for (size_t k = 0; k < length; ++k) hash = hash * 0x9E3779B97F4A7C15ull + words_[i + k] + 1;
        const auto [known, isNew] = last.try_emplace(hash, i);
        if (!isNew) ++count[i - known->second], known->second = i;
      }
      std::vector<std::pair<size_t, size_t>> found;
      for (const auto& [distance, n] : count)
        if (distance >= shortest) found.emplace_back(n, distance);
      std::sort(found.rbegin(), found.rend());
      for (size_t i = 0; i < std::min(most, found.size()); ++i) out.push_back(found[i].second);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  bool isUniform(size_t begin, size_t length) const {
    return std::all_of(words_.begin() + static_cast<ptrdiff_t>(begin),
                       words_.begin() + static_cast<ptrdiff_t>(begin + length),
                       [&](uint32_t w) { return w == words_[begin]; });
  }

  std::vector<Run> runsOf(size_t period, size_t begin, size_t end) const {
    std::vector<Run> out;
    for (size_t i = begin; i + period < end;) {
      size_t same = 0;
      while (i + same + period < end && words_[i + same] == words_[i + same + period]) ++same;
      if (same >= period && !isUniform(i, period)) {
        out.push_back(cut(i, i + same + period, period));
        i = out.back().end();
      } else {
        i += same + 1;
      }
    }
    return out;
  }

  /// Of the places where copies may begin, the one where the fewest values cross from copy to copy, and of these one
  /// whose value is read most, as by a block and by what leads past it. Else that with the most copies, the latest.
  Run cut(size_t begin, size_t end, size_t period) const {
    Run best;
    std::array<int64_t, 3> least{};
    for (size_t first = begin; first < begin + period; ++first) {
      const size_t count = (end - first) / period;
      if (count < 2) break;
      const size_t at = first + period;
      const std::array<int64_t, 3> cost{crossing_[at], -readers_[at], -static_cast<int64_t>(count)};
      if (best.count != 0 && cost > least) continue;
      best = {first, period, count};
      least = cost;
    }
    return best;
  }

  /// The runs after which there is least to read: one copy of each, and what is in none.
  std::vector<Run> best(size_t begin, size_t end) const {
    constexpr double worthwhile = 0.8;
    std::vector<Run> out;
    if (end - begin < 2 * shortest) return out;
    auto least = static_cast<size_t>(worthwhile * static_cast<double>(end - begin));
    for (const size_t period : periods(begin, end)) {
      std::vector<Run> runs = runsOf(period, begin, end);
      size_t toRead = end - begin;
      for (const Run& run : runs) toRead = toRead - run.period * run.count + run.period + 1;
      if (runs.empty() || toRead >= least) continue;
      least = toRead;
      out = std::move(runs);
    }
    return out;
  }

  std::string mainOperators(size_t begin, size_t length) const {
    constexpr size_t most = 3;
    struct Found {
      std::string name;
      int rank = 0;
    };
    std::vector<Found> found;  // in order
    for (size_t i = begin; i < begin + length; ++i) {
      const Node& node = graph_.node(order_[i]);
      std::string name = describeNode(graph_, node).title;
      if (std::none_of(found.begin(), found.end(), [&](const Found& f) { return f.name == name; }))
        found.push_back({std::move(name), rankOf(kindOfOperator(node.op->name))});
    }
    std::vector<int> ranks;
    for (const Found& f : found) ranks.push_back(f.rank);
    std::sort(ranks.begin(), ranks.end());
    const int worst = ranks[std::min(most, ranks.size()) - 1];
    auto left = static_cast<size_t>(std::count(ranks.begin(), ranks.begin() + std::min(most, ranks.size()), worst));
    std::string out;
    for (const Found& f : found) {
      if (f.rank > worst || (f.rank == worst && left-- == 0)) continue;
      out += (out.empty() ? "" : ", ") + f.name;
    }
    std::replace(out.begin(), out.end(), '.', ' ');  // of types, what is behind the last dot is shown
    return found.size() > most ? out + ", …" : out;
  }

  Graph& graph_;
  std::vector<NodeId> order_;     ///< of the root block
  Words words_;                   ///< which operator each is
  std::vector<int> crossing_;     ///< before each place: values that are used behind it
  std::vector<int64_t> readers_;  ///< before each place: of what was made last
  std::unordered_map<uint32_t, size_t> numbers_;
};

}  // namespace

void addBlocks(Graph& graph) {
  constexpr size_t small = 24;
  if (!graph.moduleCalls().empty() || graph.nodeCount() < small) return;
  Finder finder(graph);
  finder.find(0, finder.size(), {});
}

}  // namespace graft
