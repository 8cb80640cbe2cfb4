#include "core/torch/values/mapped_tensor.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "core/torch/values/values.h"

namespace graft {

namespace {

/// Memory that lives as long as `owner`.
template <class T>
c10::DataPtr keptBy(void* data, T owner) {
  return {data, new T(std::move(owner)), [](void* k) { delete static_cast<T*>(k); }, c10::Device(c10::kCPU)};
}

}  // namespace

Result<at::Tensor> MappedTensors::tensor(const ZipRecord& record, const TensorLayout& layout, const std::string& name) {
  const size_t begin = record.offset, size = record.size;
  const auto misfit = [&](std::string_view what) {
    return badInput(fmt::format("tensor {} is not valid: {}; save the model again", name, what));
  };
  if (!layout.strides.empty() && layout.strides.size() != layout.sizes.size())
    return misfit("its strides do not fit its shape");
  if (layout.sizes.size() > 64) return misfit("it has more than 64 dimensions");
  // The last element's place, without overflow: everything is bounded by the record's size.
  const auto limit = static_cast<int64_t>(size / c10::elementSize(layout.dtype));
  int64_t last = layout.offset, contiguous = 1, product = 1;
  // What has no elements reads nothing. Its other sizes need only be numbers that can be multiplied.
  const bool empty = std::find(layout.sizes.begin(), layout.sizes.end(), 0) != layout.sizes.end();
  for (const int64_t n : layout.sizes)
    if (n > 0 && empty && __builtin_mul_overflow(product, n, &product)) return misfit("its sizes are too large");
  if (last < 0) return misfit("its offset is negative");
  for (size_t i = layout.sizes.size(); i-- > 0;) {
    const int64_t n = layout.sizes[i], stride = layout.strides.empty() ? contiguous : layout.strides[i];
    if (n < 0 || stride < 0) return misfit("a size or stride is negative");
    if (last > limit) return misfit("it is larger than its record");
    if (empty) continue;
    if (n > 1 && (stride > limit || (n - 1) > limit)) return misfit("it is larger than its record");
    if (n > 1) last += (n - 1) * stride;
    if (last > limit) return misfit("it is larger than its record");
    if (contiguous > limit / n + 1) return misfit("it is larger than its record");
    contiguous *= n;
  }
  if (!empty && last >= limit) return misfit(fmt::format("it is larger than its record of {} bytes", size));
  try {
    const at::TensorOptions options(layout.dtype);
    std::vector<int64_t> strides = layout.strides;
    if (strides.empty()) {
      strides.assign(layout.sizes.size(), 1);
      for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(layout.sizes[i], 1);
    }
    if (empty) return at::empty(layout.sizes, options);
    auto it = storages_.find(begin);
    if (it == storages_.end()) {
      c10::DataPtr pointer;
      if (record.unpacked) {
        // Weights are never written to.
        pointer = keptBy(const_cast<char*>(record.unpacked->data()), record.unpacked);
      } else if (begin % 16 == 0) {
        pointer = keptBy(file_->data() + begin, file_);
      } else {  // vector loads want aligned data
        auto copy = std::make_shared<std::string>(file_->data() + begin, size);
        pointer = keptBy(copy->data(), copy);
      }
      it = storages_
               .emplace(begin, c10::Storage(c10::Storage::use_byte_size_t(), size, std::move(pointer), nullptr, false))
               .first;
    }
    return at::empty({0}, options).set_(it->second, layout.offset, layout.sizes, strides);
  } catch (const std::exception& e) {
    return misfit(shortMessage(e));
  }
}

}  // namespace graft
