// Ids: small typed indices. Everything in a graph is referred to by id, never by pointer, so a graph can be copied.
//
//   NodeId n{3};  if (n) use(graph.node(n));      // a default-made id is invalid and false
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace graft {

template <class Tag>
struct Id {
  static constexpr uint32_t none = UINT32_MAX;
  uint32_t index = none;

  constexpr Id() = default;
  constexpr explicit Id(uint32_t i) : index(i) {}
  constexpr explicit operator bool() const { return index != none; }
  constexpr auto operator<=>(const Id&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;
using BlockId = Id<struct BlockTag>;
using ModuleCallId = Id<struct ModuleCallTag>;

}  // namespace graft

template <class Tag>
struct std::hash<graft::Id<Tag>> {
  size_t operator()(graft::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.index); }
};
