#include "matcher/rewrite/view_relaxation.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/ir/calls/memory_format.h"

namespace graft {
namespace {

bool hidesLayout(const Node& n) {
  if (n.op->facts->family == OperatorFamily::Convolution)
    return false;  // its result lies as its image and its weight do
  return n.op->is(OperatorFact::RowMajor | OperatorFact::OwnLayout);
}

bool carriesTensors(const Type& t) { return t.isTensor() || t.kind == Type::Kind::List || t.kind == Type::Kind::Any; }

}  // namespace

// One row after the other, for all that the operators say.
bool ViewRelaxation::isRowMajor(ValueId v) {
  for (NodeId maker = graph_.value(v).producer; maker; maker = graph_.value(v).producer) {
    const Node& n = graph_.node(maker);
    if (n.op->is(OperatorFact::RowMajor)) return !laysChannelsLast(n);
    if (!n.op->is(OperatorFact::KeepsLayout) || n.args.empty() || !n.args[0].isValue()) return false;
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
      if (hidesLayout(n)) continue;
      const bool view = n.op->name == "aten.view.default" && n.args[0].isValue() && n.args[0].valueId() == value;
      if (view && !dense && !isWrittenThrough(n.outputs[0])) {
        if (!reshape_) reshape_ = operators_.find("aten.reshape.default");
        if (*reshape_) editor_.setOperator(user, *reshape_);
      }
      for (ValueId out : n.outputs)
        if (carriesTensors(graph_.value(out).type)) work_.emplace_back(out, view && dense);
    }
  }
}

bool ViewRelaxation::readsMemory(const Node& n) {
  const std::string& name = n.op->name;
  if (!n.blocks.empty() || n.parent != graph_.root()) return true;
  if (!name.starts_with("aten.") && !name.starts_with("prim.") && !name.starts_with("graft.")) return true;
  const std::string_view base = n.op->baseName();
  return base == "as_strided" || base == "stride" || base == "view_as_complex" || name == "aten.view.dtype" ||
         (name == "aten.view.default" && isWrittenThrough(n.outputs[0]));
}

/// From the last node back: a value is fixed where a reader is, or what a reader gives in the layout that it reads.
void ViewRelaxation::findFixed() {
  fixed_.emplace(graph_.valueBound(), false);
  const std::vector<NodeId> order = graph_.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id)
    for (const ValueId v : graph_.node(*id).outputs)
      (*fixed_)[v.index] = std::ranges::any_of(graph_.value(v).users, [&](NodeId user) {
        const Node& n = graph_.node(user);
        if (readsMemory(n)) return true;
        return !hidesLayout(n) && std::ranges::any_of(n.outputs, [&](ValueId out) { return (*fixed_)[out.index]; });
      });
}

bool ViewRelaxation::isLayoutFixed(ValueId v) {
  if (!fixed_) findFixed();
  return v.index < fixed_->size() && (*fixed_)[v.index];
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
