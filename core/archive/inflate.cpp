#include "core/archive/inflate.h"

#include <zlib.h>

#include <limits>

namespace graft {

std::optional<std::string> inflate(std::string_view packed, size_t size) {
  constexpr size_t most = std::numeric_limits<uInt>::max() - 1;
  if (packed.size() > most || size > most) return std::nullopt;
  z_stream stream{};
  // Negative: zip's records have no header of zlib's.
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  std::string out(size + 1, '\0');  // one more byte than announced tells a longer stream
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = ::inflate(&stream, Z_FINISH);
  const bool isWhole = status == Z_STREAM_END && stream.total_out == size;
  inflateEnd(&stream);
  if (!isWhole) return std::nullopt;
  out.resize(size);
  return out;
}

}  // namespace graft
