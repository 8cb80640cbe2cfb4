#include "matcher/internal/loose_views.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace graft {
namespace {

using namespace std::string_view_literals;

template <size_t N>
bool oneOf(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Results lie one row after the other, whatever the operands do.
bool makesRowMajor(const Operator& op) {
  static constexpr std::array names{"linear"sv,
                                    "matmul"sv,
                                    "mm"sv,
                                    "bmm"sv,
                                    "addmm"sv,
                                    "baddbmm"sv,
                                    "layer_norm"sv,
                                    "embedding"sv,
                                    "contiguous"sv,
                                    "native_layer_norm"sv,
                                    "add_layer_norm"sv,
                                    "linear_add_layer_norm"sv,
                                    "embedding_layer_norm"sv};
  return oneOf(op.baseName(), names);
}

/// The layout of its results does not depend on that of its operands.
bool hidesLayout(const Operator& op) { return op.name.starts_with("graft.") || makesRowMajor(op); }

bool carriesTensors(const Type& t) { return t.isTensor() || t.kind == Type::Kind::List || t.kind == Type::Kind::Any; }

/// The layout of the first operand is that of the result.
bool keepsLayout(const Operator& op) {
  static constexpr std::array names{"view"sv, "reshape"sv, "gelu"sv,    "relu"sv,
                                    "silu"sv, "tanh"sv,    "sigmoid"sv, "dropout"sv};
  return oneOf(op.baseName(), names);
}

}  // namespace

// One row after the other, for all that the operators say.
bool LooseViews::isRowMajor(ValueId v) const {
  for (NodeId maker = graph_.value(v).producer; maker; maker = graph_.value(v).producer) {
    const Node& n = graph_.node(maker);
    if (makesRowMajor(*n.op)) return true;
    if (!keepsLayout(*n.op) || n.args.empty() || !n.args[0].isValue()) return false;
    v = n.args[0].valueId();
  }
  return false;
}

void LooseViews::below(ValueId before, ValueId result) {
  const bool rowMajor = isRowMajor(result);
  if (rowMajor && isRowMajor(before)) return;  // then everything below lies as it did
  work_.assign(1, {result, rowMajor});
  for (size_t i = 0; i < work_.size(); ++i) {
    const auto [value, dense] = work_[i];
    if (value.index >= seen_.size()) seen_.resize(graph_.valueBound(), false);
    if (seen_[value.index]) continue;
    seen_[value.index] = true;
    for (size_t k = 0; k < graph_.value(value).users.size(); ++k) {  // which operator a user has changes none of them
      const NodeId user = graph_.value(value).users[k];
      const Node& n = graph_.node(user);
      if (hidesLayout(*n.op)) continue;
      const bool view = n.op->name == "aten.view.default" && n.args[0] == Argument(value);
      if (view && !dense && !isWrittenThrough(n.outputs[0]))
        if (const OperatorRef reshape = operators_.find("aten.reshape.default")) graph_.setOperator(user, reshape);
      for (ValueId out : n.outputs)
        if (carriesTensors(graph_.value(out).type)) work_.emplace_back(out, view && dense);
    }
  }
}

bool LooseViews::isWrittenThrough(ValueId view) const {
  std::vector<ValueId> work{view};
  for (size_t i = 0; i < work.size(); ++i)
    for (NodeId user : graph_.value(work[i]).users) {
      const Node& n = graph_.node(user);
      if (!n.op->hasSchema || n.op->writes()) return true;
      if (!n.op->aliases()) continue;
      for (ValueId out : n.outputs)
        if (std::find(work.begin(), work.end(), out) == work.end()) work.push_back(out);
    }
  return false;
}

}  // namespace graft
