#include "kernels/capture/lasting_writes.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_foreach_copy.h>
#include <c10/core/InferenceMode.h>

#include <exception>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "kernels/capture/pytree.h"

namespace graft {
namespace {

const c10::StorageImpl* storageOf(const at::Tensor& t) {
  return t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

const char* LastingWrites::obstacle(const std::vector<c10::IValue>& given) const {
  std::unordered_set<const c10::StorageImpl*> written;
  for (const at::Tensor& t : buffers) written.insert(storageOf(t));
  std::unordered_map<const c10::StorageImpl*, size_t> tensorsIn;
  for (const c10::IValue& v : given) forEachTensor(v, [&](const at::Tensor& t) { ++tensorsIn[storageOf(t)]; });
  for (const auto& [storage, count] : tensorsIn)
    if (written.contains(storage)) return "an input lies in the memory of a buffer that the model writes";
  const char* why = nullptr;
  for (const size_t i : inputs) {
    if (i >= given.size()) continue;
    forEachTensor(given[i], [&](const at::Tensor& t) {
      if (tensorsIn[storageOf(t)] > 1) why = "an input that the model writes shares its memory with another input";
      if (at::has_internal_overlap(t) == at::MemOverlap::Yes)
        why = "several elements of an input that the model writes lie at the same place";
    });
  }
  return why;
}

SavedTensors::SavedTensors(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  for (const at::Tensor& t : tensors_) copies_.push_back(t.clone());
}

SavedTensors::~SavedTensors() {
  try {
    restore();
  } catch (const std::exception&) {
  }
}

void SavedTensors::restore() const {
  if (tensors_.empty()) return;
  const c10::InferenceMode inference;  // outside of it, tensors that were made inside it may not be written
  at::_foreach_copy_(tensors_, copies_, /*non_blocking=*/true);
}

}  // namespace graft
