// Unpacks zip's method 8 (RFC 1951), never to more bytes than announced.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace graft {

/// Nothing where the stream is broken or does not unpack to exactly `size` bytes.
std::optional<std::string> inflate(std::string_view packed, size_t size);

}  // namespace graft
