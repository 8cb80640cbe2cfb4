// The engine's framing: any bytes, in pieces, give messages or a reason, and never more bytes than came in.
#include <cstdint>
#include <cstdlib>

#include "core/base/framing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  graft::FrameReader frames;
  size_t got = 0;
  for (size_t at = 0; at < size; at += 7) {
    frames.feed({reinterpret_cast<const char*>(data) + at, std::min<size_t>(7, size - at)});
    while (auto m = frames.next()) got += m->size();
  }
  if (got > size) std::abort();
  return 0;
}
