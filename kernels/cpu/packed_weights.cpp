#include "kernels/cpu/packed_weights.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/library/c_interface.h"

namespace graft::ops {
namespace {

constexpr size_t kShapes = 4;  // copies of one weight for one reader

struct WeightKey {
  const c10::StorageImpl* storage;
  int64_t offset;
  at::ScalarType type;
  PackedFor reader;
  at::DimVector sizes, strides;
  bool operator==(const WeightKey&) const = default;
};

struct WeightKeyHash {
  size_t operator()(const WeightKey& key) const {
    return std::hash<const void*>()(key.storage) * 31 + static_cast<size_t>(key.offset) * 7 +
           static_cast<size_t>(key.reader.kind) * 3 + static_cast<size_t>(key.sizes.front());
  }
};

// A hash of 64 words spread over the weight, which must be dense in memory.
uint64_t spotCheck(const at::Tensor& weight) {
  const int64_t words = weight.numel() * weight.element_size() / 4;
  const char* bytes = static_cast<const char*>(weight.const_data_ptr());
  uint64_t hash = 1469598103934665603u;
  const int64_t step = std::max<int64_t>(1, (words - 1) / 63);
  for (int64_t i = 0; i < words; i += step) {
    uint32_t word;
    std::memcpy(&word, bytes + 4 * i, 4);
    hash = (hash ^ word) * 1099511628211u;
  }
  return hash;
}

int64_t packedBytesLimit() {
  static const int64_t bytes = [] {
    const char* text = std::getenv("GRAFT_OPS_PACKED_MB");
    return (text ? std::atoll(text) : 4096) * 1024 * 1024;
  }();
  return bytes;
}

class PackedWeights {
 public:
  at::Tensor of(const at::Tensor& weight, PackedFor reader, at::IntArrayRef shape,
                c10::function_ref<at::Tensor()> pack) {
    const c10::StorageImpl* storage = weight.storage().unsafeGetStorageImpl();
    const WeightKey key{storage, weight.storage_offset(),       weight.scalar_type(),
                        reader,  at::DimVector(weight.sizes()), at::DimVector(weight.strides())};
    const State state{weight.const_data_ptr(), weight._version(), spotCheck(weight)};
    {
      std::lock_guard lock(mutex_);
      const auto found = entries_.find(key);
      if (found != entries_.end() && found->second.state == state) {
        const std::vector<Copy>& copies = found->second.copies;
        for (const Copy& copy : copies) {
          if (copy.shape == shape) return copy.packed;
        }
        if (copies.size() >= kShapes) return nearest(copies, shape).packed;
      }
    }
    return packNow(weight, key, state, shape, pack);
  }

  void clear() {
    std::lock_guard lock(mutex_);
    entries_.clear();
    bytes_ = 0;
  }

  int64_t bytes() const { return bytes_; }

 private:
  struct State {
    const void* data;
    int64_t version;
    uint64_t values;
    bool operator==(const State&) const = default;
  };
  struct Copy {
    at::DimVector shape;
    int64_t bytes;
    at::Tensor packed;
  };
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    State state;
    std::vector<Copy> copies;
  };

  static const Copy& nearest(const std::vector<Copy>& copies, at::IntArrayRef shape) {
    const auto distance = [&](const Copy& copy) {
      int64_t sum = 0;
      for (size_t d = 0; d < std::min(shape.size(), copy.shape.size()); ++d) sum += std::abs(shape[d] - copy.shape[d]);
      return sum;
    };
    return *std::min_element(copies.begin(), copies.end(),
                             [&](const Copy& a, const Copy& b) { return distance(a) < distance(b); });
  }

  using Entries = std::unordered_map<WeightKey, Entry, WeightKeyHash>;

  at::Tensor packNow(const at::Tensor& weight, const WeightKey& key, const State& state, at::IntArrayRef shape,
                     c10::function_ref<at::Tensor()> pack) {
    const int64_t bytes = weight.numel() * static_cast<int64_t>(c10::elementSize(key.reader.type));
    {
      std::lock_guard lock(mutex_);
      for (auto entry = entries_.begin(); entry != entries_.end();) {
        const bool stale = entry->second.storage.expired() || (entry->first == key && entry->second.state != state);
        entry = stale ? dropped(entry) : std::next(entry);
      }
      if (bytes_ + bytes > packedBytesLimit()) {
        // A copy for another shape serves, if slower.
        const auto found = entries_.find(key);
        return found == entries_.end() ? at::Tensor() : nearest(found->second.copies, shape).packed;
      }
    }
    const at::Tensor packed = pack();
    std::lock_guard lock(mutex_);
    auto found = entries_.find(key);
    // Another thread may have packed a changed weight meanwhile: the newer call's values replace them.
    if (found != entries_.end() && found->second.state != state) {
      dropped(found);
      found = entries_.end();
    }
    if (found == entries_.end())
      found = entries_.emplace(key, Entry{weight.storage().getWeakStorageImpl(), state, {}}).first;
    std::vector<Copy>& copies = found->second.copies;
    // And so may another thread have made this very copy.
    const bool there = std::any_of(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.shape == shape; });
    if (!there && copies.size() < kShapes) {
      copies.push_back({at::DimVector(shape), bytes, packed});
      bytes_ += bytes;
    }
    return packed;
  }

  Entries::iterator dropped(Entries::iterator entry) {
    for (const Copy& copy : entry->second.copies) bytes_ -= copy.bytes;
    return entries_.erase(entry);
  }

  std::mutex mutex_;
  Entries entries_;
  std::atomic<int64_t> bytes_ = 0;
};

// Never destroyed, because LibTorch's own statics may be destroyed first at exit.
PackedWeights& packedWeights() {
  static PackedWeights& weights = *new PackedWeights;
  return weights;
}

}  // namespace

bool mayPack(const at::Tensor& weight) {
  return weight.numel() > 0 && !weight.is_inference() && weight.is_non_overlapping_and_dense();
}

at::Tensor packedWeight(const at::Tensor& weight, PackedFor reader, at::IntArrayRef shape,
                        c10::function_ref<at::Tensor()> pack) {
  return packedWeights().of(weight, reader, shape, pack);
}

}  // namespace graft::ops

void graft_ops_forget_weights() { graft::ops::packedWeights().clear(); }

int64_t graft_ops_packed_bytes() { return graft::ops::packedWeights().bytes(); }
