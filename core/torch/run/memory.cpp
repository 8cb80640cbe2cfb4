#include "core/torch/memory.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "core/torch/gpu_state.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

/// How many GPUs CUDA_VISIBLE_DEVICES leaves, and which; all where it is not set.
std::vector<int> visibleGpus() {
  std::vector<int> all;
  for (int i = 0; i < 64 && gpuOfMachine(i); ++i) all.push_back(i);
  const char* wanted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!wanted) return all;
  std::vector<int> out;
  for (std::string_view rest(wanted); !rest.empty();) {
    const std::string word(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    char* end = nullptr;
    const long index = std::strtol(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0') return all;  // by UUID: the driver would have to be asked for those
    if (index < 0 || index >= static_cast<long>(all.size())) break;  // CUDA stops at the first that is not there, too
    out.push_back(static_cast<int>(index));
  }
  return out;
}

void forEachTensor(const c10::IValue& v, const std::function<void(const at::Tensor&)>& f) {
  if (v.isTensor()) {
    if (v.toTensor().defined() && v.toTensor().has_storage()) f(v.toTensor());
  } else if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector()) forEachTensor(t, f);
  } else if (v.isTuple()) {
    for (const c10::IValue& e : v.toTupleRef().elements()) forEachTensor(e, f);
  } else if (v.isList()) {
    for (const c10::IValue& e : v.toListRef()) forEachTensor(e, f);
  }
}

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// Bytes of memory, by address: of a kernel's outputs each may have a storage of its own over parts of one block.
using Span = std::pair<uintptr_t, uintptr_t>;

size_t bytesOf(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  size_t sum = 0;
  uintptr_t counted = 0;
  for (const auto& [begin, end] : spans) {
    if (end <= counted) continue;
    sum += end - std::max(begin, counted);
    counted = end;
  }
  return sum;
}

Span spanOf(const c10::StorageImpl& s) {
  const auto begin = reinterpret_cast<uintptr_t>(s.data());
  return {begin, begin + s.nbytes()};
}

/// Storages that a run makes, without keeping any alive.
class StorageWatch {
 public:
  /// While a node runs, what it reads is alive beside what it makes; when its values are shown, what nobody else reads
  /// has gone already. So what was alive after the node before counts, and what this one has made.
  void see(NodeId by, ValueId id, const c10::IValue& value) {
    if (by != node_ || shown_.contains(id)) {  // the next node, or a loop's next round
      node_ = by;
      shown_.clear();
      during_ = alive_;
    }
    shown_.insert(id);
    forEachTensor(value, [&](const at::Tensor& t) {
      c10::StorageImpl* impl = t.storage().unsafeGetStorageImpl();
      if (ignored.contains(impl)) return;
      const auto known = live_.find(impl);
      if (known != live_.end() && !known->second.expired()) return;
      live_.insert_or_assign(impl, t.storage().getWeakStorageImpl());
      during_.push_back(spanOf(*impl));
    });
    most = std::max(most, bytesOf(during_));
    alive_.clear();
    for (auto it = live_.begin(); it != live_.end();) {
      if (const auto strong = it->second.lock()) {
        alive_.push_back(spanOf(*strong));
        ++it;
      } else {
        it = live_.erase(it);
      }
    }
  }
  std::vector<c10::StorageImpl*> alive() const {
    std::vector<c10::StorageImpl*> out;
    for (const auto& [impl, weak] : live_)
      if (!weak.expired()) out.push_back(impl);
    return out;
  }

  std::unordered_set<c10::StorageImpl*> ignored;
  size_t most = 0;

 private:
  std::unordered_map<c10::StorageImpl*, WeakStorage> live_;
  NodeId node_;                        ///< whose values are being shown
  std::unordered_set<ValueId> shown_;  ///< of them
  std::vector<Span> during_, alive_;   ///< what is alive while it runs; now
};

}  // namespace

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> out{{"cpu", fmt::format("{} threads", at::get_num_threads())}};
  int index = 0;
  for (const int gpu : visibleGpus()) out.push_back({fmt::format("cuda:{}", index++), gpuOfMachine(gpu)->name});
  return out;
}

Result<MemoryUse> memoryUse(const Graph& g, const Program& program, const TensorSet& inputs) {
  MemoryUse use;
  const auto& dtype = program.options().dtype;
  for (const ValueId w : g.weights()) {
    const Value& v = g.value(w);
    if (v.users.empty() && v.returnUses == 0) continue;
    const TensorInfo& t = v.type.tensorInfo;
    if (!t.shape) continue;
    const DType stored = t.dtype.value_or(DType::Float32);
    size_t bytes = dtypeSize(dtype && isFloatingPoint(stored) ? *dtype : stored);
    for (const Dim& d : *t.shape) bytes *= static_cast<size_t>(std::max<int64_t>(0, d.size));
    use.weights += bytes;
  }
  // What outlives the first run is not of a run: weights as the program keeps them. The second run is watched without.
  StorageWatch first, second;
  for (const c10::IValue& v : valuesOf(inputs))
    forEachTensor(v, [&](const at::Tensor& t) { first.ignored.insert(t.storage().unsafeGetStorageImpl()); });
  {
    auto run = program.observe(inputs, [&](ValueId id, const TensorSet& v) {
      for (const c10::IValue& i : valuesOf(v)) first.see(g.value(id).producer, id, i);
    });
    if (!run) return run.error();
  }
  second.ignored = first.ignored;
  for (c10::StorageImpl* kept : first.alive()) second.ignored.insert(kept);
  auto run = program.observe(inputs, [&](ValueId id, const TensorSet& v) {
    for (const c10::IValue& i : valuesOf(v)) second.see(g.value(id).producer, id, i);
  });
  if (!run) return run.error();
  use.intermediates = second.most;
  return use;
}

}  // namespace graft
