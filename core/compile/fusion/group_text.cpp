#include "core/compile/fusion/group_text.h"

#include <charconv>

#include "core/text/text.h"

namespace graft {
namespace {

constexpr std::string_view keyword = "generated ";
constexpr size_t longest = 1'000'000;
constexpr std::string_view itemOperator = "prim.getitem";

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

std::string groupText(const Graph& group) {
  return std::string(keyword) + std::to_string(kGroupVersion) + "\n" +
         toText(group, {.sources = false, .modules = false});
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
  Result<Graph> graph = parseText(text.substr(end), operators);  // the lines keep their numbers
  if (!graph) return graph;
  if (const Status s = checkGroup(*graph); !s) return s.error();
  return graph;
}

}  // namespace graft
