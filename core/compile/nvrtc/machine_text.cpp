#include "core/compile/nvrtc/machine_text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace graft {
namespace {

using Place = std::pair<int, int>;  // line and column

std::string_view nextLine(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// The numbers in the text, up to the first word that is none.
std::vector<int> numbersIn(std::string_view text) {
  std::vector<int> out;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    int n = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
    if (read.ec != std::errc()) break;
    out.push_back(n);
    text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  }
  return out;
}

/// Adds a line, and no second empty one.
void add(MachineText& out, std::string_view line, int source) {
  const bool isEmpty = trimmed(line).empty();
  if (isEmpty && (out.text.empty() || out.text.ends_with("\n\n"))) return;
  out.text += isEmpty ? "" : std::string(line.substr(0, line.find_last_not_of(" \t") + 1));
  out.text += '\n';
  out.sourceLines.push_back(isEmpty ? 0 : source);
}

/// Instructions and what belongs to them; directives, labels and braces come from no line.
bool isInstruction(std::string_view line) {
  const std::string_view text = trimmed(line);
  return !text.empty() && text.front() != '.' && text.front() != '{' && text.front() != '}' && text.front() != '/' &&
         !text.ends_with(':');
}

}  // namespace

MachineText readPtx(std::string_view text, const SourceLines& wanted) {
  MachineText out;
  std::map<Place, Place> inlinedAt;
  int source = 0;
  bool isDebugSection = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = nextLine(rest), bare = trimmed(line);
    if (bare.starts_with(".section")) isDebugSection = true;
    if (isDebugSection) {
      if (bare == "}") isDebugSection = false;
      continue;
    }
    if (bare.starts_with(".file") || bare.starts_with("//")) continue;
    if (!bare.starts_with(".loc")) {
      if (bare.starts_with(".visible") || bare.starts_with(".entry") || bare.starts_with(".func")) source = 0;
      add(out, line, isInstruction(line) ? source : 0);
      continue;
    }
    // .loc file line column[, function_name label[+offset], inlined_at file line column]
    const std::vector<int> own = numbersIn(bare.substr(4));
    if (own.size() < 3) continue;
    Place at{own[1], own[2]};
    if (const size_t inlined = bare.find("inlined_at"); inlined != bare.npos) {
      const std::vector<int> caller = numbersIn(bare.substr(inlined + std::string_view("inlined_at").size()));
      if (caller.size() >= 3) inlinedAt[at] = {caller[1], caller[2]};
    } else {
      inlinedAt.erase(at);
    }
    // The function that was inlined may itself have been called by one.
    for (size_t depth = 0; at.first < wanted.first && depth <= inlinedAt.size(); ++depth) {
      const auto caller = inlinedAt.find(at);
      if (caller == inlinedAt.end()) break;
      at = caller->second;
    }
    source = at.first >= wanted.first ? at.first : 0;
  }
  return out;
}

MachineText readSass(std::string_view text, const SourceLines& wanted) {
  MachineText out;
  int source = 0;
  bool isInText = false, wasPlace = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = nextLine(rest), bare = trimmed(line);
    // Both programs head each function; what is before the first one is about the file.
    if (bare.starts_with(".text.") || bare.starts_with("Function :")) {
      isInText = true;
      source = 0;
      add(out, "", 0);
      add(out, bare, 0);
      continue;
    }
    constexpr std::string_view place = "//## File ", number = "\", line ";
    if (bare.starts_with(place)) {
      // The innermost function first, then its callers, a line each.
      if (!std::exchange(wasPlace, true)) source = 0;
      const size_t at = bare.find(number);
      const std::vector<int> found = at == bare.npos ? std::vector<int>() : numbersIn(bare.substr(at + number.size()));
      if (source == 0 && !found.empty() && found.front() >= wanted.first) source = found.front();
      continue;
    }
    wasPlace = false;
    if (bare.starts_with("//-----") || bare.starts_with(".section")) isInText = false;
    const bool isCode = bare.starts_with("/*") && bare.find(';') != bare.npos;
    if (!isInText || (!isCode && !bare.starts_with(".L_"))) continue;
    // "/*0010*/   LDC R1, c[0x0][0x28] ;   /* 0x… */": the encoding, where it is printed, says nothing to people.
    const size_t end = line.rfind(';');
    add(out, isCode ? line.substr(0, end + 1) : bare, isCode ? source : 0);
  }
  return out;
}

}  // namespace graft
