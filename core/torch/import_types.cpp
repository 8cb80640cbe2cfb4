#include "core/torch/internal/importers.h"
#include "core/torch/internal/meta_inference.h"

namespace graft {
namespace {

// `have` with what `found` knows where it says nothing.
Type completed(Type have, const Type& found) {
  if (have.kind == Type::Kind::Any) return found.kind == Type::Kind::None ? have : found;
  if (have.kind != found.kind) return have;
  if (have.isTensor()) {
    TensorInfo& info = have.tensorInfo;
    const TensorInfo& more = found.tensorInfo;
    if (!info.dtype) info.dtype = more.dtype;
    if (info.device.empty()) info.device = more.device;
    if (!info.shape) {
      info.shape = more.shape;
    } else if (more.shape && more.shape->size() == info.shape->size()) {
      for (size_t i = 0; i < info.shape->size(); ++i)
        if (!(*info.shape)[i].isKnown()) (*info.shape)[i] = (*more.shape)[i];
    }
    return have;
  }
  if (have.elements.size() == found.elements.size())
    for (size_t i = 0; i < have.elements.size(); ++i) have.elements[i] = completed(have.elements[i], found.elements[i]);
  return have;
}

}  // namespace

void inferMissingTypes(Graph& g) {
  MetaInference meta(g);
  for (NodeId id : g.order()) {
    const auto types = meta.run(id);
    if (!types) continue;
    for (size_t i = 0; i < types->size(); ++i) {
      const ValueId v = g.node(id).outputs[i];
      g.setType(v, completed(g.value(v).type, (*types)[i]));
    }
  }
}

}  // namespace graft
