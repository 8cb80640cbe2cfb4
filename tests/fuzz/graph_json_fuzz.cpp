// The window's decoder of the engine's graphs: any bytes give a graph or a reason. What was read can be written, and
// what was written reads back as itself. A line that begins with # ends a part.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/json/graph_json.h"
#include "core/json/graph_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  graft::GraphReader reader;
  while (!rest.empty()) {
    const size_t end = rest.find("\n#");
    if (!reader.read(rest.substr(0, end)) && reader.why().empty()) std::abort();
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 2);
  }
  const auto graph = reader.take();
  const std::string text = jsonText(*graph, graft::JsonForm::Compact);
  graft::GraphReader again;
  if (!again.read(text)) std::abort();
  const std::string second = jsonText(*again.take(), graft::JsonForm::Compact);
  graft::GraphReader third;
  if (!third.read(second) || jsonText(*third.take(), graft::JsonForm::Compact) != second) std::abort();
  return 0;
}
