// Where Graft keeps what it can make again: tuned choices, machine code.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace graft {

/// $GRAFT_CACHE_DIR, else $XDG_CACHE_HOME/graft, else ~/.cache/graft. Empty where none of them is known.
inline std::filesystem::path cacheFolder() {
  if (const char* given = std::getenv("GRAFT_CACHE_DIR"); given && *given) return given;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::filesystem::path(xdg) / "graft";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "graft";
  return {};
}

}  // namespace graft
