#include "kernels/cpu/packed_linear.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "kernels/cpu/support.h"
#include "kernels/operator.h"

namespace graft::ops {
namespace {

struct Place {
  const c10::StorageImpl* storage;
  int64_t offset, rows, columns, rowStride, columnStride;
  at::ScalarType type;
  bool operator==(const Place&) const = default;
};

struct PlaceHash {
  size_t operator()(const Place& place) const {
    return std::hash<const void*>()(place.storage) * 31 + static_cast<size_t>(place.offset) * 7 +
           static_cast<size_t>(place.rows);
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

class PackedWeights {
 public:
  // The packed weight, or an undefined tensor where this weight is not to be packed.
  at::Tensor of(const at::Tensor& weight) {
    const c10::StorageImpl* storage = weight.storage().unsafeGetStorageImpl();
    const Place place{storage,          weight.storage_offset(), weight.size(0),      weight.size(1),
                      weight.stride(0), weight.stride(1),        weight.scalar_type()};
    const uint32_t version = weight._version();
    const uint64_t values = spotCheck(weight);
    {
      std::lock_guard lock(mutex_);
      const auto found = entries_.find(place);
      if (found != entries_.end() && found->second.version == version && found->second.values == values &&
          found->second.data == weight.const_data_ptr()) {
        return found->second.packed;
      }
    }
    return pack(weight, place, version, values);
  }

  void clear() {
    std::lock_guard lock(mutex_);
    entries_.clear();
    bytes_ = 0;
  }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const void* data;
    uint32_t version;
    uint64_t values;
    int64_t bytes;
    at::Tensor packed;
  };

  static int64_t limit() {
    static const int64_t bytes = [] {
      const char* text = std::getenv("GRAFT_OPS_PACKED_MB");
      return (text ? std::atoll(text) : 4096) * 1024 * 1024;
    }();
    return bytes;
  }

  void dropFreed() {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (entry->second.storage.expired()) {
        bytes_ -= entry->second.bytes;
        entry = entries_.erase(entry);
      } else {
        ++entry;
      }
    }
  }

  at::Tensor pack(const at::Tensor& weight, const Place& place, uint32_t version, uint64_t values) {
    static const auto reorder = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                                    .typed<at::Tensor(const at::Tensor&, std::optional<c10::SymInt>)>();
    const int64_t bytes = weight.numel() * 4;
    {
      std::lock_guard lock(mutex_);
      dropFreed();
      if (const auto old = entries_.find(place); old != entries_.end()) {
        bytes_ -= old->second.bytes;
        entries_.erase(old);
      }
      if (bytes_ + bytes > limit()) return {};
    }
    // The layout for 128 rows serves all numbers of rows within a few percent (but a single one).
    const at::Tensor packed = reorder.call(dense(weight.to(at::kFloat)), 128);
    std::lock_guard lock(mutex_);
    const auto inserted = entries_.insert_or_assign(
        place, Entry{weight.storage().getWeakStorageImpl(), weight.const_data_ptr(),
                     version, values, bytes, packed});
    if (inserted.second) bytes_ += bytes;
    return packed;
  }

  std::mutex mutex_;
  std::unordered_map<Place, Entry, PlaceHash> entries_;
  int64_t bytes_ = 0;
};

// Never destroyed: at exit, LibTorch's own statics may be gone first.
PackedWeights& packedWeights() {
  static PackedWeights& weights = *new PackedWeights;
  return weights;
}

at::Tensor throughOneDnn(const at::Tensor& x, const at::Tensor& packed, const OptionalTensor& bias) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, std::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto pointwise =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  static const c10::List<std::optional<at::Scalar>>& none = *new c10::List<std::optional<at::Scalar>>;
  return pointwise.call(x, packed, bias, "none", none, "");
}

}  // namespace

at::Tensor linearInFloats(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias, Activation activation) {
  const bool wide = x.scalar_type() == at::kFloat;
  const at::Tensor input = dense(wide ? x : x.to(at::kFloat));
  OptionalTensor addend;
  if (given(bias)) addend = floats(bias);
  at::Tensor out;
  if (x.numel() > 0 && weight.numel() > 0 && at::globalContext().userEnabledMkldnn() && !weight.is_inference() &&
      weight.is_non_overlapping_and_dense()) {
    const at::Tensor packed = packedWeights().of(weight);
    if (packed.defined()) out = throughOneDnn(input, packed, addend);
  }
  if (!out.defined()) out = dense(at::linear(input, wide ? weight : weight.to(at::kFloat), addend));
  // oneDNN could apply the activation too, but its ReLU turns NaN into 0 and its GELU turns -Inf into 0 where PyTorch gives NaN.
  if (activation == Activation::None || out.numel() == 0) return out;
  const int64_t columns = out.size(-1);
  at::parallel_for(0, out.numel() / columns, grain(columns), [&](int64_t begin, int64_t end) {
    loops().epilogue(Scalar::F32, activation, out.const_data_ptr<float>(), nullptr, nullptr, out.mutable_data_ptr(), columns,
                     begin, end);
  });
  return out;
}

}  // namespace graft::ops

void graft_ops_forget_weights() { graft::ops::packedWeights().clear(); }
