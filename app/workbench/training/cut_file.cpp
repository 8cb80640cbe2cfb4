#include "app/workbench/training/cut_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/base/json_document.h"
#include "core/base/suggest.h"

namespace graft::workbench {
namespace {

std::vector<std::string> names(const JsonValue& list) {
  std::vector<std::string> out;
  if (!list) return out;
  for (const JsonValue name : list) {
    out.push_back(name.text());
    if (out.back().empty()) throw JsonError(name.path() + " is an empty name");
  }
  return out;
}

CutWishes read(const JsonValue& root) {
  const std::vector<std::string> keys{"partition", "memory", "save", "recompute"};
  for (const auto [key, value] : root.members()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const auto nearest = nearestName(key, keys);
    throw JsonError(fmt::format("{} has a key \"{}\", which means nothing{}", root.path(), key,
                                nearest ? "; did you mean \"" + *nearest + "\"?" : ""));
  }
  if (const int64_t version = root.at("partition").integer(); version != kCutFileVersion)
    throw JsonError(fmt::format("its version is {}; this Graft reads {}", version, kCutFileVersion));
  CutWishes out;
  if (const JsonValue memory = root.find("memory")) out.memory = memory.number();
  if (!(out.memory >= 0 && out.memory <= 1))
    throw JsonError(fmt::format("memory is {}; it is a share from 0 to 1", out.memory));
  out.save = names(root.find("save"));
  out.recompute = names(root.find("recompute"));
  return out;
}

}  // namespace

Result<CutWishes> parseCutFile(std::string_view text, const std::string& file) {
  const auto json = JsonDocument::parse(text, file);
  if (!json) return json.error();
  try {
    return read(json->root());
  } catch (const JsonError& e) {
    return badInput(file + ": " + e.what());
  }
}

Result<CutWishes> readCutFile(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  if (!in) return badInput("cannot read " + path + ": " + std::strerror(errno));
  return parseCutFile(std::move(content).str(), path);
}

}  // namespace graft::workbench
