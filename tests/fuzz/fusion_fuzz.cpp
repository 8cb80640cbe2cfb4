// Steerings of fusion, and what programs in files say of their kernels: whatever parses must print, and parse again as
// it was.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/compile/fusion/group_text.h"
#include "core/compile/fusion/steering.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto steering = graft::parseSteering(text, "f")) {
    const auto again = graft::parseSteering(graft::printSteering(*steering), "f");
    if (!again || !(*again == *steering)) std::abort();
  }
  const auto choice = graft::parseChoice(text);
  if (!choice) return 0;
  graft::Graph g;
  const auto again = graft::parseChoice(graft::groupText(g, *choice));
  if (!again || !(again->schedule == choice->schedule) || again->source != choice->source) std::abort();
  return 0;
}
