#include "kernels/cpu/packed_linear.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "kernels/cpu/support.h"
#include "kernels/library/c_interface.h"

namespace graft::ops {
namespace {

struct WeightKey {
  const c10::StorageImpl* storage;
  int64_t offset, rows, columns, rowStride, columnStride;
  at::ScalarType type;
  bool operator==(const WeightKey&) const = default;
};

struct WeightKeyHash {
  size_t operator()(const WeightKey& key) const {
    return std::hash<const void*>()(key.storage) * 31 + static_cast<size_t>(key.offset) * 7 +
           static_cast<size_t>(key.rows);
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

std::atomic<int64_t> packedBytes = 0;  // of all caches together

int64_t packedBytesLimit() {
  static const int64_t bytes = [] {
    const char* text = std::getenv("GRAFT_OPS_PACKED_MB");
    return (text ? std::atoll(text) : 4096) * 1024 * 1024;
  }();
  return bytes;
}

// Drops the copies of freed weights, in every cache.
void dropFreedWeights();

// A cache of copies that `packer` makes of contiguous fp32 weights.
class PackedWeights {
 public:
  using Packer = at::Tensor (*)(const at::Tensor&);
  explicit PackedWeights(Packer packer) : packer_(packer) {}

  // The packed weight, or an undefined tensor where there is no memory left for it (GRAFT_OPS_PACKED_MB).
  at::Tensor of(const at::Tensor& weight) {
    const c10::StorageImpl* storage = weight.storage().unsafeGetStorageImpl();
    const WeightKey key{storage,          weight.storage_offset(), weight.size(0),      weight.size(1),
                        weight.stride(0), weight.stride(1),        weight.scalar_type()};
    const uint32_t version = weight._version();
    const uint64_t values = spotCheck(weight);
    {
      std::lock_guard lock(mutex_);
      const auto found = entries_.find(key);
      if (found != entries_.end() && found->second.version == version && found->second.values == values &&
          found->second.data == weight.const_data_ptr()) {
        return found->second.packed;
      }
    }
    return pack(weight, key, version, values);
  }

  void clear() {
    std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) packedBytes -= entry.bytes;
    entries_.clear();
  }

  void dropFreed() {
    std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (entry->second.storage.expired()) {
        packedBytes -= entry->second.bytes;
        entry = entries_.erase(entry);
      } else {
        ++entry;
      }
    }
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

  at::Tensor pack(const at::Tensor& weight, const WeightKey& key, uint32_t version, uint64_t values) {
    const int64_t bytes = weight.numel() * 4;
    dropFreedWeights();
    {
      std::lock_guard lock(mutex_);
      if (const auto old = entries_.find(key); old != entries_.end()) {
        packedBytes -= old->second.bytes;
        entries_.erase(old);
      }
      if (packedBytes + bytes > packedBytesLimit()) return {};
    }
    const at::Tensor packed = packer_(dense(weight.to(at::kFloat)));
    std::lock_guard lock(mutex_);
    const auto inserted = entries_.insert_or_assign(
        key, Entry{weight.storage().getWeakStorageImpl(), weight.const_data_ptr(), version, values, bytes, packed});
    if (inserted.second) packedBytes += bytes;
    return packed;
  }

  Packer packer_;
  std::mutex mutex_;
  std::unordered_map<WeightKey, Entry, WeightKeyHash> entries_;
};

// The caches are never destroyed, because LibTorch's own statics may be destroyed first at exit.
PackedWeights& oneDnnWeights() {
  static PackedWeights& weights = *new PackedWeights([](const at::Tensor& weight) {
    static const auto reorder = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                                    .typed<at::Tensor(const at::Tensor&, std::optional<c10::SymInt>)>();
    // The layout for 128 rows serves all larger numbers of rows within a few percent.
    return reorder.call(weight, 128);
  });
  return weights;
}

PackedWeights& panelWeights() {
  static PackedWeights& weights = *new PackedWeights([](const at::Tensor& weight) {
    at::Tensor packed = at::empty({loops().packedWeightSize(weight.size(0), weight.size(1))}, weight.options());
    loops().packWeight(weight.const_data_ptr<float>(), weight.size(0), weight.size(1),
                       packed.mutable_data_ptr<float>());
    return packed;
  });
  return weights;
}

void dropFreedWeights() {
  oneDnnWeights().dropFreed();
  panelWeights().dropFreed();
}

at::Tensor linearByOneDnn(const at::Tensor& x, const at::Tensor& packed, const OptionalTensor& bias) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, std::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto pointwise =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<Signature>();
  static const c10::List<std::optional<at::Scalar>>& none = *new c10::List<std::optional<at::Scalar>>;
  return pointwise.call(x, packed, bias, "none", none, "");
}

constexpr int64_t kFewRows = 24;

bool mayPack(const at::Tensor& weight) {
  return weight.numel() > 0 && !weight.is_inference() && weight.is_non_overlapping_and_dense();
}

void linearByLoops(LinearArgs args, const at::Tensor& packed) {
  args.packed = packed.const_data_ptr<float>();
  const int64_t panels = (args.outputs + loops().weightPanel - 1) / loops().weightPanel;
  // A thread should get at least about 100,000 weights.
  const int64_t panelWork = loops().weightPanel * args.depth * std::max<int64_t>(1, args.rows / 4);
  at::parallel_for(0, panels, std::max<int64_t>(1, 100000 / panelWork),
                   [&](int64_t begin, int64_t end) { loops().linear(args, begin, end); });
}

}  // namespace

at::Tensor linearForward(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                         Activation activation, const OptionalTensor& residual) {
  const bool wide = x.scalar_type() == at::kFloat;
  const at::Tensor input = dense(wide ? x : x.to(at::kFloat));
  at::DimVector shape(x.sizes());
  shape.back() = weight.size(0);
  LinearArgs args;
  args.scalar = scalarOf(x);
  args.activation = activation;
  args.outputs = weight.size(0);
  args.depth = weight.size(1);
  const at::Tensor b = floats(bias);
  args.bias = floatsOf(b);
  at::Tensor added;
  if (given(residual)) {
    added = residual->sizes() == at::IntArrayRef(shape) ? dense(*residual) : dense(residual->expand(shape));
    args.residual = added.const_data_ptr();
  }
  const bool packs = x.numel() > 0 && mayPack(weight);
  args.rows = packs ? x.numel() / args.depth : 0;
  if (packs && args.rows <= kFewRows) {
    const at::Tensor packed = panelWeights().of(weight);
    if (packed.defined()) {
      const at::Tensor out = at::empty(shape, x.options());
      args.x = input.const_data_ptr<float>();
      args.out = out.mutable_data_ptr();
      linearByLoops(args, packed);
      return out;
    }
  }
  at::Tensor product;
  if (packs && at::globalContext().userEnabledMkldnn()) {
    const at::Tensor packed = oneDnnWeights().of(weight);
    if (packed.defined()) product = linearByOneDnn(input, packed, b);
  }
  if (!product.defined()) product = dense(at::linear(input, wide ? weight : weight.to(at::kFloat), b));
  // oneDNN could apply the activation too. But its ReLU turns NaN into 0, and its GELU turns -Inf into 0 where PyTorch
  // gives NaN.
  if ((wide && activation == Activation::None && !args.residual) || product.numel() == 0)
    return product.to(x.scalar_type());
  const at::Tensor out = wide ? product : at::empty(shape, x.options());
  at::parallel_for(0, out.numel() / args.outputs, grain(args.outputs), [&](int64_t begin, int64_t end) {
    loops().epilogue(args.scalar, activation, product.const_data_ptr<float>(), nullptr, args.residual,
                     out.mutable_data_ptr(), args.outputs, begin, end);
  });
  return out;
}

}  // namespace graft::ops

void graft_ops_forget_weights() {
  graft::ops::oneDnnWeights().clear();
  graft::ops::panelWeights().clear();
}

int64_t graft_ops_packed_bytes() { return graft::ops::packedBytes; }
