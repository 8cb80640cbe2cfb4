#include "matcher/rewrite/view_relaxation.h"

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

constexpr std::array rowMajorNames{"linear"sv,
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
                                   "linear_norm_linear"sv,
                                   "attention_norm_linear"sv,
                                   "embedding_layer_norm"sv};
constexpr std::array keepingNames{"view"sv, "reshape"sv, "gelu"sv,    "relu"sv,
                                  "silu"sv, "tanh"sv,    "sigmoid"sv, "dropout"sv};

bool carriesTensors(const Type& t) { return t.isTensor() || t.kind == Type::Kind::List || t.kind == Type::Kind::Any; }

}  // namespace

const ViewRelaxation::Facts& ViewRelaxation::factsOf(const OperatorRef& op) {
  for (const Facts& known : facts_)
    if (known.op == op) return known;
  Facts f;
  f.op = op;
  f.makesRowMajor = oneOf(op->baseName(), rowMajorNames);
  f.hidesLayout = f.makesRowMajor || op->name.starts_with("graft.");
  f.keepsLayout = oneOf(op->baseName(), keepingNames);
  f.isView = op->name == "aten.view.default";
  return facts_.emplace_back(std::move(f));
}

// One row after the other, for all that the operators say.
bool ViewRelaxation::isRowMajor(ValueId v) {
  for (NodeId maker = graph_.value(v).producer; maker; maker = graph_.value(v).producer) {
    const Node& n = graph_.node(maker);
    const Facts& facts = factsOf(n.op);
    if (facts.makesRowMajor) return true;
    if (!facts.keepsLayout || n.args.empty() || !n.args[0].isValue()) return false;
    v = n.args[0].valueId();
  }
  return false;
}

void ViewRelaxation::below(ValueId before, ValueId result) {
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
      const Facts& facts = factsOf(n.op);
      if (facts.hidesLayout) continue;
      const bool view = facts.isView && n.args[0].isValue() && n.args[0].valueId() == value;
      if (view && !dense && !isWrittenThrough(n.outputs[0])) {
        if (!reshape_) reshape_ = operators_.find("aten.reshape.default");
        if (*reshape_) editor_.setOperator(user, *reshape_);
      }
      for (ValueId out : n.outputs)
        if (carriesTensors(graph_.value(out).type)) work_.emplace_back(out, view && dense);
    }
  }
}

bool ViewRelaxation::isWrittenThrough(ValueId view) {
  std::vector<ValueId>& work = aliases_;
  work.assign(1, view);
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
