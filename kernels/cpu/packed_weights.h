// The copies of weights in layouts of their own, which products and convolutions read faster than the weights
// themselves. Each copy is made on first use.
//
//   const at::Tensor packed = packedWeight(weight, {PackedFor::Panels}, {}, [&] { return pack(floats(weight)); });
//   if (!packed.defined()) return slowProduct(x, weight);
//
// A copy is kept under the weight's storage, offset, sizes, strides and type, and under what it is packed for. The
// storage is held weakly: the copies of a freed weight are freed too. A weight is packed again when its version has
// changed or a spot check of its values fails. The spot check catches writes that PyTorch does not count as changes,
// through .data or NumPy. All copies together take at most GRAFT_OPS_PACKED_MB megabytes (4096 by default); further
// weights stay unpacked.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace graft::ops {

enum class PackedKind { Panels, OneDnnLinear, OneDnnConv, Depthwise, BatchedPanels };

// What reads the copy: copies for different readers of one weight live side by side.
struct PackedFor {
  PackedKind kind;
  int64_t groups = 1;
  at::ScalarType type = at::kFloat;  // of the copy
  bool operator==(const PackedFor&) const = default;
};

// Whether copies of this weight can be kept: it is dense in memory, and no inference tensor, because these have no
// version to watch.
bool mayPack(const at::Tensor& weight);

// The packed copy of a weight that mayPack(), made by `pack` where there is none. Undefined where no memory is left.
//
// `shape`: what the layout is chosen for, such as the image's sizes. A weight has copies for the first few shapes. A
// further one is served by the copy of the nearest shape, so every copy must give right results for every shape.
at::Tensor packedWeight(const at::Tensor& weight, PackedFor reader, at::IntArrayRef shape,
                        c10::function_ref<at::Tensor()> pack);

}  // namespace graft::ops
