#include "core/torch/types/meta_memo.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "core/torch/types/type_cache.h"

namespace graft {
namespace {

constexpr size_t mostCalls = 16;  // of each operator: more kinds than a model's layer has

bool isStridedMeta(const std::optional<c10::IValue>& v) {
  return v && v->isTensor() && v->toTensor().defined() && v->toTensor().is_meta() &&
         v->toTensor().layout() == c10::kStrided;
}

bool areStridedMeta(const MetaMemo::Runs& runs) { return std::all_of(runs.begin(), runs.end(), isStridedMeta); }

// Whatever an operator can ask of a meta tensor. Both are strided meta tensors.
bool isAlike(const at::Tensor& a, const at::Tensor& b) {
  const c10::TensorImpl *x = a.unsafeGetTensorImpl(), *y = b.unsafeGetTensorImpl();
  return x == y || (x->dtype() == y->dtype() && x->sizes() == y->sizes() && x->strides() == y->strides() &&
                    x->storage_offset() == y->storage_offset() && x->is_wrapped_number() == y->is_wrapped_number() &&
                    x->key_set() == y->key_set() && a.storage().nbytes() == b.storage().nbytes());
}

bool isSized(const Type& t) {
  return t.isTensor() && t.tensorInfo.shape &&
         std::all_of(t.tensorInfo.shape->begin(), t.tensorInfo.shape->end(), [](const Dim& d) { return d.isKnown(); });
}

}  // namespace

const MetaMemo::Call* MetaMemo::find(const Node& n, std::span<const Runs* const> values,
                                     const std::string& device) const {
  const auto it = operators_.find(n.op.get());
  if (it == operators_.end()) return nullptr;
  for (const Call& c : it->second.calls) {
    bool same = c.args.size() == n.args.size() && c.values.size() == values.size() &&
                c.results.size() == n.outputs.size() && c.device == device;
    for (size_t i = 0; same && i < c.args.size(); ++i) same = equalBesideValues(c.args[i], n.args[i]);
    for (size_t i = 0; same && i < values.size(); ++i)
      for (size_t r = 0; same && r < values[i]->size(); ++r) {
        const std::optional<c10::IValue>& v = (*values[i])[r];
        same = isStridedMeta(v) && isAlike(v->toTensor(), c.values[i][r]->toTensor());
      }
    if (same) return &c;
  }
  return nullptr;
}

void MetaMemo::remember(const Node& n, std::span<const Runs* const> values, const std::string& device,
                        std::vector<Runs> results, const std::vector<Type>& types) {
  const bool plain = std::all_of(values.begin(), values.end(), [](const Runs* v) { return areStridedMeta(*v); }) &&
                     std::all_of(results.begin(), results.end(), areStridedMeta) &&
                     std::all_of(types.begin(), types.end(), isSized);
  if (!plain) return;
  Call c{n.args, {}, device, std::move(results), types};
  for (const Runs* v : values) c.values.push_back(*v);
  Operator& of = operators_[n.op.get()];
  if (of.calls.size() < mostCalls)
    of.calls.push_back(std::move(c));
  else
    of.calls[of.next++ % mostCalls] = std::move(c);
}

}  // namespace graft
