// A list of anything that has a toJson.
#pragma once

#include <nlohmann/json.hpp>

namespace graft {

template <class Range>
nlohmann::json listJson(const Range& items) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& item : items) out.push_back(toJson(item));
  return out;
}

}  // namespace graft
