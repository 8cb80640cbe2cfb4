// The memory format that a call asks for its result by: contiguous(memory_format=torch.channels_last).
#pragma once

#include <algorithm>

#include "core/ir/graph.h"

namespace graft {

/// Whether its result lies with channels last, whatever the format of what it reads.
inline bool laysChannelsLast(const Node& n) {
  const auto asks = [](const Argument& a) {
    const Named* format = a.as<Named>();
    return format && (format->name == "torch.channels_last" || format->name == "torch.channels_last_3d");
  };
  return std::ranges::any_of(n.args, asks) ||
         std::ranges::any_of(n.kwargs, [&](const auto& named) { return asks(named.second); });
}

}  // namespace graft
