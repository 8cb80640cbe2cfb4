// unfuse(): calls of graft::generated become the operators of their programs again.
//
//   unfuse()                        # all of them
//   unfuse(only=["generated_2"])    # these nodes alone
#include <algorithm>
#include <unordered_map>

#include "core/compile/fusion/group_text.h"
#include "matcher/passes/pass.h"

namespace graft {
namespace {

constexpr const char* restoreUsage = "unfuse takes only=[…], names of nodes";

Result<std::vector<std::string>> namesOf(const Step& step) {
  std::vector<std::string> out;
  for (const auto& [key, value] : step.kwargs) {
    const std::vector<Argument>* items = value.items();
    if (!items) return badInput(restoreUsage);
    for (const Argument& item : *items) {
      const auto* name = item.as<std::string>();
      if (!name) return badInput(restoreUsage);
      out.push_back(*name);
    }
  }
  return out;
}

/// The group's argument with what the call gives for its inputs, and the copies of its nodes for theirs.
Argument inModel(const Argument& a, const std::unordered_map<ValueId, Argument>& now) {
  if (a.isValue()) return now.at(a.valueId());
  const std::vector<Argument>* items = a.items();
  if (!items) return a;
  std::vector<Argument> out;
  for (const Argument& item : *items) out.push_back(inModel(item, now));
  return a.isList() ? Argument::list(std::move(out)) : Argument::tuple(std::move(out));
}

/// Each user of the call's list, and which of its results it takes; nothing where one does something else with it.
std::optional<std::vector<std::pair<NodeId, size_t>>> itemsOf(const Graph& g, const Node& call, size_t results) {
  std::vector<std::pair<NodeId, size_t>> out;
  const Value& list = g.value(call.outputs.front());
  if (list.returnUses > 0) return std::nullopt;
  for (const NodeId user : list.users) {
    const Node& n = g.node(user);
    const auto* index = n.op->name == "prim.getitem" && n.args.size() > 1 ? n.args[1].as<int64_t>() : nullptr;
    if (!index || *index < 0 || *index >= static_cast<int64_t>(results)) return std::nullopt;
    out.emplace_back(user, static_cast<size_t>(*index));
  }
  return out;
}

Status restore(GraphEditor& editor, NodeId id) {
  const Graph& g = editor.graph();
  const Node call = g.node(id);
  const auto* text = call.args.at(1).as<std::string>();
  const std::vector<Argument>*tensors = call.args.at(0).items(), *numbers = call.args.at(2).items();
  if (!text || !tensors || !numbers) return badInput("its program, inputs or sizes are no literals");
  Result<Graph> group = parseGroup(*text, editor.semantics().operators());
  if (!group) return group.error();
  const auto items = itemsOf(g, call, group->returns().size());
  if (!items) return badInput("its results are not taken one by one");
  std::unordered_map<ValueId, Argument> now;
  size_t tensor = 0, number = 0;
  for (const ValueId input : group->inputs()) {
    const bool isNumber = group->value(input).type.kind == Type::Kind::Int;
    if ((isNumber ? number : tensor) >= (isNumber ? numbers : tensors)->size())
      return badInput("it has fewer inputs than its program");
    now.emplace(input, isNumber ? (*numbers)[number++] : (*tensors)[tensor++]);
  }
  editor.begin(id);
  for (const NodeId n : group->order()) {
    const Node& node = group->node(n);
    std::vector<Argument> args;
    for (const Argument& a : node.args) args.push_back(inModel(a, now));
    const NodeId made = editor.insert(call.parent, id, node.op, std::move(args), node.name);
    editor.setModule(made, call.module);
    editor.setSource(made, call.source);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& result = group->value(node.outputs[i]);
      if (i < g.node(made).outputs.size())
        editor.setType(g.node(made).outputs[i], result.type);
      else
        editor.addOutput(made, result.name, result.type);
      now.emplace(node.outputs[i], Argument(g.node(made).outputs[i]));
    }
  }
  for (const auto& [item, index] : *items) {
    editor.replaceValue(g.node(item).outputs.front(), inModel(group->returns()[index], now).valueId());
    editor.erase(item);
  }
  editor.erase(id);
  editor.commit();
  return done();
}

Status unfuse(GraphEditor& editor, const Step& step) {
  const auto only = namesOf(step);
  if (!only) return only.error();
  std::vector<NodeId> calls;
  for (const NodeId n : editor.graph().order()) {
    const Node& node = editor.graph().node(n);
    const bool isWanted = only->empty() || std::find(only->begin(), only->end(), node.name) != only->end();
    if (node.op->name == kGeneratedOperator && isWanted) calls.push_back(n);
  }
  for (const NodeId n : calls)
    if (const Status s = restore(editor, n); !s)
      editor.noteRefused(editor.graph().node(n).name + ": " + s.error().message);
  return done();
}

}  // namespace

GRAFT_PASS(unfuse, "only=[…]", "generated kernels become the operators of their programs again", unfuse)

}  // namespace graft
