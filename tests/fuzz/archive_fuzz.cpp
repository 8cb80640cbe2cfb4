// Archives: any bytes give a directory whose records lie within them, or a reason; then TorchScript's pre-check.
#include <cstdint>
#include <cstdlib>

#include "core/archive/archive_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto zip = graft::ZipDirectory::read(file, "f.pt");
  if (!zip) return 0;
  for (const graft::ZipRecord& r : zip->records()) {
    if (r.unpacked ? r.unpacked->size() != r.size : r.offset > size || r.size > size - r.offset) std::abort();
    if (zip->find(r.name) != &r || r.name == ".." || r.name.starts_with("../") || r.name.starts_with('/')) std::abort();
  }
  (void)graft::checkTorchScript(*zip, "f.pt");
  return 0;
}
