// Program: one group of fused operators as loops, for the generators of code. It owns its buffers, ranges, sizes and
// expressions. The text of one (text.h) shows all of it:
//
//   loops 1
//   size s0 in 1..512
//   input x: f32[s0, 768]
//   output y: f32[s0, 768]
//   nest i0 < s0
//     local m: f32[]
//     m[] = maximum(r0 < 768: x[i0, r0])
//     y[i0, i1] = exp(x[i0, i1] - m[]) for i1 < 768
//
// The nests run one after another. The iterations of one nest (all values of its outer ranges) are independent: they
// may run at the same time, in any order. In one iteration its stores run in order. A local buffer belongs to one
// iteration: a thread has one copy and uses it again. Buffers are indexed by their logical dimensions; where an
// element lies in memory is not part of a program, but of the call: each input and output comes with its strides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/compile/loops/expression.h"

namespace graft::loops {

/// A size that varies from call to call.
struct Size {
  std::string name;            ///< "s0"
  int64_t min = 0;             ///< inclusive
  std::optional<int64_t> max;  ///< inclusive
  bool operator==(const Size&) const = default;
};

/// A loop variable: 0 <= variable < extent.
struct Range {
  std::string name;  ///< "i0"; unique in the program
  ExprId extent;     ///< i64, of constants and sizes alone
};

struct Buffer {
  enum class Role : uint8_t {
    Input,      ///< only read
    Output,     ///< written by one store or several; no element twice, and all of them in the end
    Temporary,  ///< belongs to the call: one nest writes it, later ones read it
    Local,      ///< belongs to one iteration of one nest
  };
  std::string name;  ///< unique in the program
  DType dtype = DType::Float32;
  std::vector<ExprId> sizes;  ///< i64, of constants and sizes alone
  Role role = Role::Input;
};

/// Writes one element for each value of `ranges`, in an iteration of its nest.
struct Store {
  BufferId buffer;
  std::vector<ExprId> index;    ///< one for each dimension of the buffer
  ExprId value;                 ///< of the buffer's dtype
  std::vector<RangeId> ranges;  ///< the inner loops, the last one fastest; the nest's outer ranges are not among them
  /// A scan: the element is the combination of all values so far along this range, one of `ranges`. Sum, Product,
  /// Minimum or Maximum.
  std::optional<RangeId> scan;
  ReduceKind scanKind = ReduceKind::Sum;
};

struct Nest {
  std::vector<RangeId> outer;
  std::vector<Store> stores;
};

struct Program {
  std::vector<Size> sizes;
  std::vector<Range> ranges;
  std::vector<Buffer> buffers;
  std::vector<Nest> nests;
  ExprPool expressions;

  SizeId addSize(Size);
  RangeId addRange(std::string_view name, ExprId extent);  ///< the name is made unique, likewise of the next
  BufferId addBuffer(std::string_view name, DType, std::vector<ExprId> sizes, Buffer::Role);
  const Range& range(RangeId id) const { return ranges[id.index]; }
  const Buffer& buffer(BufferId id) const { return buffers[id.index]; }
  /// An extent or a size of a buffer with the sizes of one call, in the order of `sizes`. Of one that verify() accepts.
  int64_t evaluate(ExprId extent, std::span<const int64_t> sizes) const;
  std::vector<int64_t> shape(BufferId, std::span<const int64_t> sizes) const;
  /// In the order in which a call gives them: inputs and outputs alone.
  std::vector<BufferId> inputs() const;
  std::vector<BufferId> outputs() const;
};

}  // namespace graft::loops
