// JSON has no NaN and no infinity: they are written as text.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace graft {

/// The number, or "nan", "inf" and "-inf".
nlohmann::json finiteJson(double);

}  // namespace graft
