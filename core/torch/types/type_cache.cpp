#include "core/torch/types/type_cache.h"

namespace graft {
namespace {

constexpr size_t kEntries = 16;  // for each operator: more kinds of calls than a model's layer has

}  // namespace

bool equalBesideValues(const Argument& a, const Argument& b) {
  if (a.isValue() || b.isValue()) return a.isValue() && b.isValue();
  const auto *x = a.items(), *y = b.items();
  if (!x || !y) return a == b;
  if (a.data.index() != b.data.index() || x->size() != y->size()) return false;
  for (size_t i = 0; i < x->size(); ++i)
    if (!equalBesideValues((*x)[i], (*y)[i])) return false;
  return true;
}

bool TypeCache::matches(const Entry& e, const Graph& g, const Node& n) {
  if (e.args.size() != n.args.size() || e.outputs.size() != n.outputs.size()) return false;
  for (size_t i = 0; i < n.args.size(); ++i)
    if (!equalBesideValues(e.args[i], n.args[i])) return false;
  size_t at = 0;
  bool same = true;
  for (const Argument& a : n.args)
    a.forEachValue([&](ValueId v) { same = same && at < e.values.size() && g.value(v).type == e.values[at++]; });
  return same && at == e.values.size();
}

std::optional<std::vector<Type>> TypeCache::find(const Graph& g, const Node& n) {
  const std::lock_guard lock(mutex_);
  const auto it = operators_.find(n.op->name);
  if (it == operators_.end()) return std::nullopt;
  for (const Entry& e : it->second.entries)
    if (matches(e, g, n)) return e.outputs;
  return std::nullopt;
}

void TypeCache::remember(const Graph& g, const Node& n, const std::vector<Type>& outputs) {
  Entry e{n.args, {}, outputs};
  bool plain = true;
  for (const Argument& a : n.args)
    a.forEachValue([&](ValueId v) {
      const Type& t = g.value(v).type;
      plain = plain && t.isTensor() && t.tensorInfo.dtype && t.tensorInfo.shape;
      e.values.push_back(t);
    });
  if (!plain) return;
  const std::lock_guard lock(mutex_);
  Operator& of = operators_[n.op->name];
  if (of.entries.size() < kEntries)
    of.entries.push_back(std::move(e));
  else
    of.entries[of.next++ % kEntries] = std::move(e);
}

}  // namespace graft
