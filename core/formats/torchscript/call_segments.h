// CallSegments: cuts a graph's nodes into runs that belong to one call of a module, nested as the calls are. A call
// whose nodes stand together is one segment. Where a rewrite moved other nodes in between, each run is a segment of its
// own, so that the order of all nodes stays the same. What flows in and out of a segment follows from its nodes.
//
// Of a model that runs as several CUDA graphs, what stands between two nodes that wait for the GPU becomes a segment
// too: a piece. A piece lies within one call, or outside of all of them, and takes in whole calls. It may lie in a
// loop.
//
//   CallSegments cut(graph, [&](ValueId weight, const std::string& module) { return …; });
//   for (const CallSegments::Item& item : cut.items(graph.root())) …
//
// Needs no LibTorch.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/run/capture_facts.h"

namespace graft {

class CallSegments {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  /// A node, or a whole segment.
  struct Item {
    NodeId node;
    uint32_t segment = none;
  };
  struct Segment {
    ModuleCallId call;  ///< of a piece: the one that it lies in; none outside of all calls
    uint32_t parent = none;
    size_t part = 0;   ///< 0 where the call begins; 1, 2, ... where it goes on
    size_t piece = 0;  ///< of a piece: its number, from 1
    std::vector<Item> items;
    std::vector<ValueId> inputs;   ///< in the order of use; also weights that the module does not hold
    std::vector<ValueId> outputs;  ///< in the order of their nodes
    size_t begin = 0, end = 0;     ///< positions in Graph::order()
  };

  /// Fewer nodes than this that launch kernels are no piece: asking for its graph would take as long as launching them.
  static constexpr size_t kLeastWork = 4;

  /// `holds`: whether the weight lies in the module of that path or below it. `pieces`: null for a model that runs as
  /// one CUDA graph, or as none.
  CallSegments(const Graph&, const std::function<bool(ValueId weight, const std::string& path)>& holds,
               const CapturePieces* pieces = nullptr);

  const std::vector<Item>& items(BlockId b) const { return blocks_.at(b.index); }
  const Segment& segment(uint32_t i) const { return segments_[i]; }
  size_t size() const { return segments_.size(); }
  size_t pieces() const { return pieceCount_; }

 private:
  using Holds = std::function<bool(ValueId, const std::string&)>;
  struct Open {
    ModuleCallId call;
    uint32_t segment;
  };
  void cut(BlockId, ModuleCallId base, uint32_t outer);
  uint32_t open(ModuleCallId, uint32_t parent);
  void addEmptyCalls(ModuleCallId parent, uint32_t before, std::vector<Item>&, uint32_t segment);
  std::vector<ModuleCallId> chain(ModuleCallId from, ModuleCallId base) const;
  std::vector<Item> withPieces(std::vector<Item>&&, uint32_t around, const CapturePieces&, const Holds&);
  bool fitsPiece(const Item&, const std::string& path, const CapturePieces&, const Holds&) const;
  bool holdsWeights(const Node&, const std::string& path, const Holds&) const;
  size_t workOf(const Item&, const CapturePieces&) const;
  std::pair<size_t, size_t> extentOf(const Item&) const;
  void moveInto(uint32_t segment, const Item&);
  const std::string& pathOf(uint32_t segment) const;
  void findFlows(const Holds& holds);
  bool contains(uint32_t segment, int64_t position) const;

  const Graph& g_;
  std::vector<Segment> segments_;
  std::unordered_map<uint32_t, std::vector<Item>> blocks_;
  std::vector<int64_t> positions_;                                 // by node
  std::vector<uint32_t> segmentOf_;                                // by node
  std::vector<uint32_t> parts_;                                    // by call: how many segments it has
  std::unordered_map<uint32_t, std::vector<ModuleCallId>> empty_;  // by parent (none: UINT32_MAX): calls without nodes
  size_t next_ = 0, pieceCount_ = 0;
};

}  // namespace graft
