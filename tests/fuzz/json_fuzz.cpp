// The JSON reader of large files: any bytes are refused, or hold what nlohmann's reader finds in them.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/base/json_document.h"

namespace {

using nlohmann::json;

bool same(graft::JsonValue v, const json& other) {
  if (v.isNull()) return other.is_null();
  if (v.isBoolean()) return other.is_boolean() && other.get<bool>() == v.boolean();
  if (v.isNumber()) {
    if (v.isInteger() && other.is_number_integer() && other.get<int64_t>() != v.integer()) return false;
    return other.is_number() && other.get<double>() == v.number();
  }
  if (v.isText()) return other.is_string() && v.is(other.get_ref<const std::string&>()) && v.text() == other;
  if (v.isArray()) {
    size_t i = 0;
    for (graft::JsonValue e : v)
      if (!other.is_array() || i >= other.size() || !same(e, other[i++])) return false;
    return other.is_array() && i == other.size();
  }
  // Of a key that occurs twice, the last counts.
  for (const auto& [key, value] : v.members())
    if (!other.contains(key) || !same(v.at(key), other.at(key))) return false;
  return other.is_object() && v.size() >= other.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("\xef")) return 0;  // a byte order mark: nlohmann skips it, JSON has none
  const auto doc = graft::JsonDocument::parse(text);
  if (text.find('\0') != text.npos) return 0;  // where nlohmann's text ends
  const json other = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!doc) {
    if (!other.is_discarded() && doc.error().message.find("deep") == std::string::npos) std::abort();
  } else if (other.is_discarded() || !same(doc->root(), other)) {
    std::abort();
  }
  return 0;
}
