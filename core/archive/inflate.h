// Inflate: what zip's method 8 packed, unpacked (RFC 1951), never to more than the size that was announced.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace graft {

/// Nothing where the stream is broken or does not give exactly `size` bytes.
std::optional<std::string> inflate(std::string_view packed, size_t size);

}  // namespace graft
