#include "core/compile/fusion/steering.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <utility>

#include "core/base/json_document.h"
#include "core/base/suggest.h"

namespace graft {
namespace {

constexpr size_t mostBytes = size_t{16} << 20;

using Names = std::vector<std::string>;

/// Throws where the object has another key.
void allow(const JsonValue& object, const Names& keys) {
  for (const auto [key, value] : object.members()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const auto nearest = nearestName(key, keys);
    throw JsonError(object.path() + " has a key \"" + key + "\", which means nothing" +
                    (nearest ? "; did you mean \"" + *nearest + "\"?" : ""));
  }
}

std::string nameOf(const JsonValue& v) {
  std::string name = v.text();
  if (name.empty()) throw JsonError(v.path() + " is an empty name");
  return name;
}

/// A range's name.
std::string wordOf(const JsonValue& v) {
  std::string name = nameOf(v);
  const auto isPart = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); };
  if (!std::all_of(name.begin(), name.end(), isPart)) throw JsonError(v.path() + " is no name of a range");
  return name;
}

std::vector<Names> readLists(const JsonValue& lists, size_t least) {
  std::vector<Names> out;
  if (!lists) return out;
  for (const JsonValue list : lists) {
    Names& names = out.emplace_back();
    for (const JsonValue name : list) names.push_back(nameOf(name));
    if (names.size() < least)
      throw JsonError(list.path() + (least > 1 ? " needs at least two names" : " needs at least one name"));
  }
  return out;
}

codegen::LoopSchedule readSchedule(const JsonValue& v) {
  allow(v, {"lanes", "order", "registers", "block", "threads", "transpose"});
  codegen::LoopSchedule s;
  const auto number = [&](const char* key, int64_t most) -> int64_t {
    const JsonValue given = v.find(key);
    if (!given) return 0;
    const int64_t n = given.integer();
    if (n < 1 || n > most)
      throw JsonError(given.path() + " is " + std::to_string(n) + "; it may be 1 to " + std::to_string(most));
    return n;
  };
  if (const JsonValue lanes = v.find("lanes")) s.lanes = wordOf(lanes);
  if (const JsonValue order = v.find("order"))
    for (const JsonValue range : order) s.order.push_back(wordOf(range));
  s.registers = static_cast<int>(number("registers", 4));
  if (s.registers == 3) throw JsonError(v.at("registers").path() + " is 3; it may be 1, 2 or 4");
  s.block = number("block", int64_t{1} << 30);
  s.threads = static_cast<int>(number("threads", 4096));
  if (const JsonValue transpose = v.find("transpose")) s.transposes = transpose.boolean();
  return s;
}

Steering::Kernel readKernel(const JsonValue& v) {
  allow(v, {"nodes", "schedule", "loops", "loopsFile", "source", "sourceFile"});
  Steering::Kernel k;
  for (const JsonValue name : v.at("nodes")) k.nodes.push_back(nameOf(name));
  if (k.nodes.empty()) throw JsonError(v.at("nodes").path() + " names no node");
  if (const JsonValue schedule = v.find("schedule")) k.choice.schedule = readSchedule(schedule);
  const auto text = [&](const char* key, std::string& into) {
    if (const JsonValue given = v.find(key)) into = nameOf(given);
  };
  text("loops", k.choice.loops);
  text("loopsFile", k.loopsFile);
  text("source", k.choice.source);
  text("sourceFile", k.sourceFile);
  const bool isLoops = !k.choice.loops.empty() || !k.loopsFile.empty();
  const bool isSource = !k.choice.source.empty() || !k.sourceFile.empty();
  if ((!k.choice.loops.empty() && !k.loopsFile.empty()) || (!k.choice.source.empty() && !k.sourceFile.empty()))
    throw JsonError(v.path() + " gives a text and a file; it has either of them");
  if (isSource && (isLoops || !k.choice.schedule.isDefault()))
    throw JsonError(v.path() + " has a C++ source, which no schedule and no loops go with");
  return k;
}

Steering read(const JsonValue& root) {
  allow(root, {"fusion", "automatic", "merge", "apart", "move", "kernels"});
  const int64_t version = root.at("fusion").integer();
  if (version < 1) throw JsonError("fusion is the version of the file, which is 1");
  if (version > kSteeringVersion)
    throw JsonError("its version is " + std::to_string(version) + "; this Graft reads " +
                    std::to_string(kSteeringVersion) + ": a later Graft wrote it");
  Steering s;
  if (const JsonValue automatic = root.find("automatic")) s.automatic = automatic.boolean();
  s.merge = readLists(root.find("merge"), 1);
  s.apart = readLists(root.find("apart"), 1);
  if (const JsonValue moves = root.find("move"))
    for (const JsonValue move : moves) {
      allow(move, {"node", "to"});
      s.move.push_back({nameOf(move.at("node")), nameOf(move.at("to"))});
    }
  if (const JsonValue kernels = root.find("kernels"))
    for (const JsonValue kernel : kernels) s.kernels.push_back(readKernel(kernel));
  return s;
}

// ---- Printing ----

std::string quotedJson(std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += digits[c >> 4];
      out += digits[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string listed(std::span<const std::string> items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return "[" + out + "]";
}

std::string quotedNames(const Names& names) {
  Names quoted;
  for (const std::string& name : names) quoted.push_back(quotedJson(name));
  return listed(quoted);
}

std::string scheduleText(const codegen::LoopSchedule& s) {
  std::string out;
  const auto add = [&](const char* key, const std::string& value) {
    out += (out.empty() ? "" : ", ") + quotedJson(key) + ": " + value;
  };
  if (!s.lanes.empty()) add("lanes", quotedJson(s.lanes));
  if (!s.order.empty()) add("order", quotedNames(s.order));
  if (s.registers > 0) add("registers", std::to_string(s.registers));
  if (s.block > 0) add("block", std::to_string(s.block));
  if (s.threads > 0) add("threads", std::to_string(s.threads));
  if (!s.transposes) add("transpose", "false");
  return "{" + out + "}";
}

std::string kernelText(const Steering::Kernel& k) {
  std::string out = "{\"nodes\": " + quotedNames(k.nodes);
  if (!k.choice.schedule.isDefault()) out += ", \"schedule\": " + scheduleText(k.choice.schedule);
  const auto add = [&](const char* key, const std::string& text, const std::string& file) {
    if (!file.empty()) out += std::string(", \"") + key + "File\": " + quotedJson(file);
    if (file.empty() && !text.empty()) out += std::string(", \"") + key + "\": " + quotedJson(text);
  };
  add("loops", k.choice.loops, k.loopsFile);
  add("source", k.choice.source, k.sourceFile);
  return out + "}";
}

/// One line for each entry.
void addList(std::string& out, std::string_view key, const Names& entries) {
  if (entries.empty()) return;
  out += ",\n  \"" + std::string(key) + "\": [";
  for (size_t i = 0; i < entries.size(); ++i) out += (i > 0 ? ",\n    " : "\n    ") + entries[i];
  out += "\n  ]";
}

}  // namespace

namespace {

Result<std::string> fileText(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  if (!in) return badInput("cannot read " + path + ": " + std::strerror(errno));
  return std::move(content).str();
}

/// The kernels' texts, from the files that they name. `path`: of the steering's own.
Result<Steering> withFiles(Result<Steering> steering, const std::string& path) {
  if (!steering) return steering;
  for (size_t i = 0; i < steering->kernels.size(); ++i) {
    Steering::Kernel& k = steering->kernels[i];
    for (const auto& [file, into] : {std::pair(&k.loopsFile, &k.choice.loops), {&k.sourceFile, &k.choice.source}}) {
      if (file->empty()) continue;
      auto text = fileText((std::filesystem::path(path).parent_path() / *file).lexically_normal().string());
      if (!text) return badInput("kernels[" + std::to_string(i) + "]: " + text.error().message);
      *into = std::move(*text);
    }
  }
  return steering;
}

}  // namespace

Result<Steering> parseSteering(std::string_view text, const std::string& file) {
  if (text.size() > mostBytes) return badInput(file + ": more than 16 MB are no steering of a fusion");
  const auto json = JsonDocument::parse(text, file);
  if (!json) return json.error();
  try {
    return read(json->root());
  } catch (const JsonError& e) {
    return badInput(file + ": " + e.what());
  }
}

Result<Steering> readSteering(const std::string& path) {
  auto text = fileText(path);
  if (!text) return text.error();
  return withFiles(parseSteering(*text, path), path);
}

Result<Steering> steeringOf(const std::string& plan) {
  return plan.starts_with('{') ? withFiles(parseSteering(plan, "the plan"), "") : readSteering(plan);
}

void addEntries(Steering& s, const Steering& more) {
  s.automatic = more.automatic;
  s.merge.insert(s.merge.end(), more.merge.begin(), more.merge.end());
  s.apart.insert(s.apart.end(), more.apart.begin(), more.apart.end());
  s.move.insert(s.move.end(), more.move.begin(), more.move.end());
  for (const Steering::Kernel& k : more.kernels) {
    std::erase_if(s.kernels, [&](const Steering::Kernel& known) { return known.nodes == k.nodes; });
    s.kernels.push_back(k);
  }
}

Status removeEntry(Steering& s, std::string_view entry) {
  const size_t open = entry.find('[');
  const std::string_view list = entry.substr(0, open);
  size_t index = 0;
  const char* const end = entry.data() + entry.size();
  const auto read = open == std::string_view::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                   : std::from_chars(entry.data() + open + 1, end, index);
  const auto erase = [&](auto& items) {
    if (index >= items.size()) return false;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(index));
    return true;
  };
  const bool isEntry = read.ec == std::errc() && std::string_view(read.ptr, end) == "]";
  const bool isRemoved = isEntry && (list == "merge"     ? erase(s.merge)
                                     : list == "apart"   ? erase(s.apart)
                                     : list == "move"    ? erase(s.move)
                                     : list == "kernels" ? erase(s.kernels)
                                                         : false);
  if (isRemoved) return done();
  return badInput("the plan has no entry " + std::string(entry) +
                  "; entries are merge[0], apart[0], move[0], kernels[0]");
}

std::string printSteering(const Steering& s) {
  std::string out = "{\n  \"fusion\": " + std::to_string(kSteeringVersion);
  if (!s.automatic) out += ",\n  \"automatic\": false";
  const auto lists = [&](const std::vector<Names>& all) {
    Names entries;
    for (const Names& names : all) entries.push_back(quotedNames(names));
    return entries;
  };
  addList(out, "merge", lists(s.merge));
  addList(out, "apart", lists(s.apart));
  Names moves;
  for (const Steering::Move& m : s.move)
    moves.push_back("{\"node\": " + quotedJson(m.node) + ", \"to\": " + quotedJson(m.to) + "}");
  addList(out, "move", moves);
  Names kernels;
  for (const Steering::Kernel& k : s.kernels) kernels.push_back(kernelText(k));
  addList(out, "kernels", kernels);
  return out + "\n}\n";
}

}  // namespace graft
