#include "core/compile/fusion/group_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>

#include "core/compile/loops/text.h"
#include "core/text/text.h"

namespace graft {
namespace {

constexpr std::string_view keyword = "generated ";
constexpr std::string_view anyLayout = "generated 3\n";
constexpr int versionOfSections = 2;
constexpr size_t longest = 1'000'000;
constexpr std::string_view itemOperator = "prim.getitem";
constexpr std::string_view sectionMark = "\n--- ";
constexpr std::string_view scheduleSection = "schedule\n";
constexpr std::string_view loopsSection = "loops\n";
constexpr std::string_view sourceSection = "source: C++, compiled only where the file is trusted\n";

Status checkGroup(const Graph& g) {
  if (!g.weights().empty()) return badInput("a generated group has no weights of its own: they are inputs");
  for (const ValueId input : g.inputs()) {
    const Type::Kind kind = g.value(input).type.kind;
    if (kind != Type::Kind::Tensor && kind != Type::Kind::Int)
      return badInput("%" + g.value(input).name + ": a generated group takes tensors and sizes");
  }
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (n.op->name == itemOperator) {
      if (n.args.size() != 2 || !n.args[0].isValue() || !n.args[1].as<int64_t>())
        return badInput("%" + n.name + ": a generated group takes items of lists by number");
      continue;
    }
    if (!n.op->hasSchema) return badInput("%" + n.name + ": this machine has no operator " + n.op->name);
    if (!n.op->pure() || !n.blocks.empty())
      return badInput("%" + n.name + ": a generated group may not call " + n.op->name);
  }
  if (g.returns().empty()) return badInput("a generated group returns at least one tensor");
  for (const Argument& r : g.returns())
    if (!r.isValue() || !g.value(r.valueId()).type.isTensor()) return badInput("a generated group returns tensors");
  return done();
}

}  // namespace

std::string groupText(const Graph& group, const KernelChoice& choice, bool isAnyLayout) {
  // An older library reads what needs no later version.
  std::string out = isAnyLayout
                        ? std::string(anyLayout)
                        : std::string(keyword) + std::to_string(choice.isEmpty() ? 1 : versionOfSections) + "\n";
  out += toText(group, {.sources = false, .modules = false});
  const auto add = [&](std::string_view section, const std::string& text) {
    if (text.empty()) return;
    if (!out.ends_with('\n')) out += '\n';
    out += sectionMark.substr(1);
    out += section;
    out += text;
  };
  add(scheduleSection, codegen::printSchedule(choice.schedule));
  add(loopsSection, choice.loops);
  add(sourceSection, choice.source);
  return out;
}

bool allowsAnyLayout(std::string_view text) { return text.starts_with(anyLayout); }

bool mayBeImage(const Type& type) {
  const auto& shape = type.tensorInfo.shape;
  return type.isTensor() && shape && (shape->size() == 4 || shape->size() == 5);
}

std::string withoutNames(std::string_view text) {
  const auto isPartOfName = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  std::unordered_map<std::string_view, size_t> numbers;
  std::string out;
  out.reserve(text.size());
  const std::string_view name = groupName(text);
  if (const size_t at = text.find("graph " + std::string(name) + " {"); at != std::string_view::npos) {
    out = std::string(text.substr(0, at)) + "graph g";
    text.remove_prefix(at + 6 + name.size());
  }
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '%') {
      out += text[i++];
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() && isPartOfName(text[end])) ++end;
    out += "%" + std::to_string(numbers.emplace(text.substr(i, end - i), numbers.size()).first->second);
    i = end;
  }
  return out;
}

Result<KernelChoice> parseChoice(std::string_view text) {
  KernelChoice choice;
  size_t at = text.find(sectionMark);
  // A source goes on to the end, whatever stands in it.
  while (at != std::string_view::npos && choice.source.empty()) {
    text.remove_prefix(at + sectionMark.size());
    at = text.find(sectionMark);
    const std::string_view section = text.substr(0, at == std::string_view::npos ? at : at + 1);
    if (text.starts_with(sourceSection)) {
      choice.source = text.substr(sourceSection.size());
    } else if (section.starts_with(scheduleSection) && choice.schedule.isDefault() && choice.loops.empty()) {
      auto schedule = codegen::parseSchedule(section.substr(scheduleSection.size()));
      if (!schedule) return schedule.error();
      choice.schedule = std::move(*schedule);
    } else if (section.starts_with(loopsSection) && choice.loops.empty()) {
      choice.loops = section.substr(loopsSection.size());
      if (const auto loops = loops::parseProgram(choice.loops); !loops) return loops.error();
    } else {
      return badInput("the program of a generated group has no section \"" +
                      std::string(section.substr(0, std::min<size_t>(section.find('\n'), 40))) + "\" here");
    }
  }
  return choice;
}

std::string_view groupName(std::string_view text) {
  constexpr std::string_view word = "\ngraph ";
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return "?";
  text.remove_prefix(at + word.size());
  return text.substr(0, text.find(" {"));
}

Result<Graph> parseGroup(std::string_view text, const OperatorSet& operators) {
  if (text.size() > longest) return badInput("a generated group of more than a million characters");
  const size_t end = text.find('\n');
  const std::string_view first = text.substr(0, end);
  int version = 0;
  const char* const last = first.data() + first.size();
  const bool begins = end != std::string_view::npos && first.starts_with(keyword);
  const auto read = begins ? std::from_chars(first.data() + keyword.size(), last, version) : std::from_chars_result{};
  if (!begins || read.ec != std::errc() || read.ptr != last || version < 1)
    return badInput("the program of a generated group begins with the line 'generated 1'");
  if (version > kGroupVersion)
    return badInput("the program of a generated group has version " + std::to_string(version) + "; this Graft reads " +
                    std::to_string(kGroupVersion) + ": a later Graft wrote it");
  if (version > 1) {
    if (const auto choice = parseChoice(text); !choice) return choice.error();
    const size_t sections = text.find(sectionMark);
    if (sections != std::string_view::npos) text = text.substr(0, sections + 1);
  }
  Result<Graph> graph = parseText(text.substr(end), operators);  // the lines keep their numbers
  if (!graph) return graph;
  if (const Status s = checkGroup(*graph); !s) return s.error();
  return graph;
}

}  // namespace graft
