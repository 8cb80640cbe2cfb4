// The memory format that a call asks for its result by: contiguous(memory_format=torch.channels_last).
#pragma once

#include <algorithm>
#include <string_view>

#include "core/ir/graph.h"

namespace graft {

/// "torch.channels_last" or "torch.channels_last_3d", where one of its arguments says so; otherwise "".
inline std::string_view askedChannelsLast(const Node& n) {
  std::string_view asked;
  const auto look = [&](const Argument& a) {
    const Named* format = a.as<Named>();
    if (format && (format->name == "torch.channels_last" || format->name == "torch.channels_last_3d"))
      asked = format->name;
  };
  std::ranges::for_each(n.args, look);
  for (const auto& [name, value] : n.kwargs) look(value);
  return asked;
}

/// Whether its result lies with channels last, whatever the format of what it reads.
inline bool laysChannelsLast(const Node& n) { return !askedChannelsLast(n).empty(); }

}  // namespace graft
