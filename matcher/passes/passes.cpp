#include "matcher/passes/passes.h"

#include <algorithm>
#include <array>

#include "core/compile/fusion/fusion.h"
#include "matcher/passes/pass.h"

namespace graft {

// pass_list.inc is written by matcher/CMakeLists.txt: GRAFT_LISTED_PASS(NAME) for each matcher/passes/NAME.cpp.
#define GRAFT_LISTED_PASS(name) extern const Pass pass_##name;
#include "pass_list.inc"
#undef GRAFT_LISTED_PASS

std::span<const Pass> passes() {
  static const std::vector<Pass> all{
#define GRAFT_LISTED_PASS(name) pass_##name,
#include "pass_list.inc"
#undef GRAFT_LISTED_PASS
  };
  return all;
}

const Pass* findPass(std::string_view name) {
  const auto all = passes();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Pass& p) { return p.name == name; });
  return at == all.end() ? nullptr : &*at;
}

bool takesKeyword(const Pass& pass, std::string_view keyword) {
  return (" " + std::string(pass.arguments)).find(" " + std::string(keyword) + "=") != std::string::npos;
}

const std::vector<Dim>* shapeOf(const Graph& g, ValueId v) {
  const Type& type = g.value(v).type;
  return type.isTensor() && type.tensorInfo.shape ? &*type.tensorInfo.shape : nullptr;
}

std::optional<DType> dtypeOf(const Graph& g, const Argument& a) {
  return a.isValue() ? g.value(a.valueId()).type.tensorInfo.dtype : std::nullopt;
}

bool isComputed(const Graph& g, ValueId v) {
  const NodeId producer = g.value(v).producer;
  return producer && !g.node(producer).op->is(OperatorFact::View) && !g.node(producer).op->writes();
}

bool isForGpu(const Graph& g, const Step& step) {
  const std::optional<bool> said = switchOf(step, "gpu");
  return said ? *said : isOnGpu(g);
}

bool passesCheck(GraphEditor& editor, std::string_view pass, NodeId last, const std::vector<NodeId>& before,
                 const std::vector<std::pair<ValueId, ValueId>>& outputs, const std::string& blamed) {
  if (!editor.check()) return true;
  const Graph& g = editor.graph();
  RewriteVerification v = editor.check()->check({g, pass, false, before, editor.record().added, outputs, {}});
  if (v.verdict != RewriteVerification::Verdict::Failed) {
    editor.record().verification = std::move(v);
    return true;
  }
  v.why = blamed + v.why;
  RolledBack back{g.node(last).name, std::string(g.scopeOf(last)), {}, std::move(v)};
  for (const NodeId n : before) back.nodes.push_back(g.node(n).name);
  editor.cancel();
  editor.noteRolledBack(std::move(back));
  return false;
}

std::optional<bool> switchOf(const Step& step, std::string_view name) {
  for (const auto& [key, value] : step.kwargs)
    if (key == name && value.as<bool>()) return *value.as<bool>();
  return {};
}

std::optional<size_t> convolutionOperand(const Node& n, std::string_view parameter) {
  constexpr std::array convolutions{"conv1d",           "conv2d",           "conv3d",      "conv_transpose1d",
                                    "conv_transpose2d", "conv_transpose3d", "convolution", "_convolution"};
  if (std::ranges::find(convolutions, n.op->baseName()) == convolutions.end() || n.outputs.size() != 1) return {};
  const std::optional<size_t> place = n.op->findParameter(parameter);
  return place && *place < n.args.size() && n.args[*place].isValue() ? place : std::nullopt;
}

std::string nameArgument(const Step& step, size_t index) {
  if (index >= step.args.size()) return "";
  const Argument& a = step.args[index];
  std::string text;
  if (const auto* n = a.as<Named>()) text = n->name;
  if (const auto* s = a.as<std::string>()) text = *s;
  const size_t dot = text.rfind('.');
  return dot == std::string::npos ? text : text.substr(dot + 1);
}

}  // namespace graft
