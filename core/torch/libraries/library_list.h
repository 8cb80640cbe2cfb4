// The user's libraries that this process has loaded. Importers ask it, so it knows nothing of how one is loaded.
#pragma once

#include <optional>

#include "core/torch/operator_library.h"

namespace graft {

/// The path without links and dots; as it is where no such file exists.
std::string canonicalPath(const std::string& path);
void addUserLibrary(UserLibrary);
/// The loaded library of that file.
std::optional<UserLibrary> findUserLibrary(const std::string& path);

}  // namespace graft
