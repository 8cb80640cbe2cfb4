#include "core/json/finite.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace graft {

nlohmann::json finiteJson(double d) {
  return std::isfinite(d) ? nlohmann::json(d) : nlohmann::json(fmt::format("{}", d));
}

}  // namespace graft
