// What TorchScript archives hold: pickles (first byte 'p'), records of source lines ('d') and source text (any other),
// as the pre-check walks them.
#include <cstdint>

#include "core/archive/archive_check.h"
#include "core/archive/debug_records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'p')
    (void)graft::checkPickle(bytes, "data.pkl", [](std::string_view key) -> std::optional<size_t> {
      return key.size() < 3 ? std::optional<size_t>(64) : std::nullopt;
    });
  else if (data[0] == 'd')
    (void)graft::isSoundDebugRecord(bytes);
  else
    (void)graft::checkCode(bytes, "code/__torch__.py");
  return 0;
}
