#include <fmt/format.h>

#include "core/compile/codegen/cuda/cuda_product.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"

namespace graft::codegen {

// Source: PTX ISA, "cp.async", "ldmatrix" and "Matrix Fragments for mma.m16n8k16".
std::string_view cudaProductMachine() {
  return R"(
DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// So many bytes to shared memory, those behind `valid` as zeros.
template <i32 bytes>
DEVICE void copy_async(void* to, const void* from, i32 valid) {
  const u32 place = shared_address(to);
  const u64 source = __cvta_generic_to_global(from);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(place), "l"(source), "r"(valid) : "memory");
  else if constexpr (bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(place), "l"(source), "r"(valid) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place), "l"(source), "r"(valid) : "memory");
}
DEVICE void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of copies but the last n.
template <i32 n>
DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}
// Four squares of 8 by 8 halves: each lane gives the address of a row, eight lanes a square.
DEVICE void load_squares(u32 (&x)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(shared_address(row)) : "memory");
}
DEVICE void load_squares_transposed(u32 (&x)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(shared_address(row)) : "memory");
}
// d[16, 8] += a[16, 16] b[16, 8].
DEVICE void multiply_add(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void multiply_add(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
)";
}

// Sources: PTX ISA, "wgmma.mma_async" and "Matrix Descriptor Format": 128-byte swizzle; a square of 8 lines takes 1024
// bytes, the next panel of 64 lines begins 8192 bytes behind.
std::string cudaGroupMachine(int columns, DType dtype, bool isLeftInnerFast, bool isRightInnerFast) {
  std::string registers, outputs;
  for (int i = 0; i < columns / 2; ++i) {
    registers += fmt::format("{}%{}", i > 0 ? ", " : "", i);
    outputs += fmt::format("{}\"+f\"(d[{}][{}])", i > 0 ? ", " : "", i / 4, i % 4);
  }
  const std::string name = dtype == DType::BFloat16 ? "bf16" : "f16";
  return fmt::format(R"(
DEVICE u64 descriptor_of(const void* p) {{
  return (u64)((shared_address(p) & 0x3ffff) >> 4) | (u64)512 << 16 | (u64)64 << 32 | (u64)1 << 62;
}}
DEVICE void groups_begin() {{ asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }}
DEVICE void groups_end() {{ asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }}
template <i32 n>
DEVICE void wait_groups() {{
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}}
// What threads wrote to shared memory is there for what multiplies next.
DEVICE void publish_copies() {{ asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }}
// d[64, {columns}] += left[64, 16] right[16, {columns}], from this row and this depth of the slices on.
template <class Left, class Right>
DEVICE void multiply_group(f32 (&d)[{quarters}][4], unsigned char* left, unsigned char* right, i32 row, i32 inner) {{
  const u64 a = descriptor_of(left + ({left} ? row * 128 + inner * 2 : row / 64 * 8192 + inner * 128));
  const u64 b = descriptor_of(right + ({right} ? inner * 2 : inner * 128));
  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{name}.{name} {{{registers}}}, %{a}, %{b}, 1, 1, 1, {turnLeft}, {turnRight};"
               : {outputs}
               : "l"(a), "l"(b));
}}
)",
                     fmt::arg("columns", columns), fmt::arg("quarters", columns / 8), fmt::arg("left", isLeftInnerFast),
                     fmt::arg("right", isRightInnerFast), fmt::arg("name", name), fmt::arg("registers", registers),
                     fmt::arg("a", columns / 2), fmt::arg("b", columns / 2 + 1),
                     fmt::arg("turnLeft", isLeftInnerFast ? 0 : 1), fmt::arg("turnRight", isRightInnerFast ? 0 : 1),
                     fmt::arg("outputs", outputs));
}

std::string_view cudaProductHelpers() {
  return R"(
// A slice of an operand in shared memory: `rows` rows (of the right operand: columns), 64 deep. It lies there as in
// memory, in lines of 128 bytes: along the depth if isInnerFast, else along the rows, in panels of 64. The 16-byte
// chunks of line l change places, c with c ^ l % 8, so that reading a column of chunks meets each bank once.
// `width`: elements of one access.
template <class T, i32 rows, bool isInnerFast, i32 width, i32 threads>
struct operand {
  static constexpr i32 lines = isInnerFast ? rows : (rows + 63) / 64 * 64;
  static constexpr i32 chunks = isInnerFast || rows >= 64 ? 8 : rows / 8;
  static constexpr i32 bytes = lines * 128;
  static constexpr bool isAlong = isInnerFast;
  typedef T element;

  static DEVICE unsigned char* place(unsigned char* slice, i32 line, i32 chunk) {
    return slice + line * 128 + ((chunk ^ (line & 7)) << 4);
  }
  static DEVICE i32 limited(i32 n, i32 most) { return n < 0 ? 0 : n > most ? most : n; }

  // From row `first` of `count` and depth `inner` of `depth` on; zeros beyond. `at`: where an element lies.
  template <class At>
  static DEVICE void fetch(unsigned char* slice, const T* from, const At& at, i32 first, i32 count, i32 inner, i32 depth) {
#pragma unroll
    for (i32 start = 0; start < lines * chunks; start += threads) {
      const i32 e = start + threadIdx.x;
      if (lines * chunks % threads != 0 && e >= lines * chunks) break;
      const i32 line = e / chunks, chunk = e % chunks;
      const i32 r = isInnerFast ? first + line : first + line / 64 * 64 + chunk * 8;
      const i32 k = isInnerFast ? inner + chunk * 8 : inner + line % 64;
      const i32 valid = isInnerFast ? (r < count ? depth - k : 0) : (k < depth ? count - r : 0);
      unsigned char* to = place(slice, line, chunk);
      if constexpr (width > 1) {
#pragma unroll
        for (i32 i = 0; i < 8; i += width) {
          const i32 n = limited(valid - i, width);
          const T* source = n > 0 ? from + (isInnerFast ? at(r, k + i) : at(r + i, k)) : from;
          copy_async<width * 2>(to + i * 2, source, n * 2);
        }
      } else {
        pack<T, 8> x;
#pragma unroll
        for (i32 i = 0; i < 8; ++i) {
          x.each[i] = T{0};
          if (i < valid) x.each[i] = from[isInnerFast ? at(r, k + i) : at(r + i, k)];
        }
        *(uint4*)to = x.all;
      }
    }
  }

  // 16 rows, 16 deep, as the machine multiplies them.
  template <bool isRight>
  static DEVICE void fragment(u32 (&x)[4], unsigned char* slice, i32 row, i32 inner, i32 lane) {
    const i32 square = lane / 8;
    const i32 r = row + (isRight ? square / 2 : square % 2) * 8, k = inner + (isRight ? square % 2 : square / 2) * 8;
    if constexpr (isInnerFast)
      load_squares(x, place(slice, r + lane % 8, k / 8));
    else
      load_squares_transposed(x, place(slice, r / 64 * 64 + k + lane % 8, r % 64 / 8));
  }
};

// The tile of a block. Warps share it along rows and columns; `parts` of them share the depth of each slice.
template <class T, class Left, class Right, i32 rows, i32 columns, i32 stages, i32 warp_rows, i32 warp_columns, i32 parts>
struct product_tile {
  static constexpr i32 per_row = rows / warp_rows / 16, per_column = columns / warp_columns / 16;
  static constexpr i32 pitch = columns + 8;
  f32 sums[per_row][2 * per_column][4];
  i32 lane, part, row, column;

  template <class LeftAt, class RightAt>
  DEVICE void multiply(unsigned char* ring, const T* left, const LeftAt& left_at, const T* right, const RightAt& right_at,
                       i32 first_row, i32 row_count, i32 first_column, i32 column_count, i32 depth) {
    const i32 warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    part = warp / (warp_rows * warp_columns);
    row = warp / warp_columns % warp_rows * (rows / warp_rows);
    column = warp % warp_columns * (columns / warp_columns);
#pragma unroll
    for (i32 m = 0; m < per_row; ++m)
#pragma unroll
      for (i32 n = 0; n < 2 * per_column; ++n)
#pragma unroll
        for (i32 e = 0; e < 4; ++e) sums[m][n][e] = 0.0f;
    constexpr i32 bytes = Left::bytes + Right::bytes;
    const i32 slices = (depth + 63) / 64;
    const auto fetch = [&](i32 slice) {
      unsigned char* to = ring + slice % stages * bytes;
      Left::fetch(to, left, left_at, first_row, row_count, slice * 64, depth);
      Right::fetch(to + Left::bytes, right, right_at, first_column, column_count, slice * 64, depth);
    };
#pragma unroll
    for (i32 s = 0; s < stages - 1; ++s) {
      if (s < slices) fetch(s);
      copies_end();
    }
#pragma unroll 1
    for (i32 s = 0; s < slices; ++s) {
      wait_copies<stages - 2>();
      join_block();
      if (s + stages - 1 < slices) fetch(s + stages - 1);
      copies_end();
      unsigned char* const x = ring + s % stages * bytes;
#pragma unroll
      for (i32 step = 0; step < 4 / parts; ++step) {
        const i32 k = (step * parts + part) * 16;
        u32 a[per_row][4], b[per_column][4];
#pragma unroll
        for (i32 m = 0; m < per_row; ++m) Left::template fragment<false>(a[m], x, row + m * 16, k, lane);
#pragma unroll
        for (i32 n = 0; n < per_column; ++n)
          Right::template fragment<true>(b[n], x + Left::bytes, column + n * 16, k, lane);
#pragma unroll
        for (i32 m = 0; m < per_row; ++m)
#pragma unroll
          for (i32 n = 0; n < per_column; ++n) {
            multiply_add(sums[m][2 * n], a[m], b[n][0], b[n][1], T{0});
            multiply_add(sums[m][2 * n + 1], a[m], b[n][2], b[n][3], T{0});
          }
      }
    }
    wait_copies<0>();
    join_block();
  }

  // The sums in shared memory, row by row. Parts of the depth are added in their order.
  DEVICE void keep(f32* memory) {
#pragma unroll
    for (i32 p = 0; p < parts; ++p) {
      if (part == p) {
#pragma unroll
        for (i32 m = 0; m < per_row; ++m)
#pragma unroll
          for (i32 n = 0; n < 2 * per_column; ++n)
#pragma unroll
            for (i32 half = 0; half < 2; ++half) {
              f32* to = memory + (row + m * 16 + lane / 4 + half * 8) * pitch + column + n * 8 + lane % 4 * 2;
              to[0] = p == 0 ? sums[m][n][2 * half] : to[0] + sums[m][n][2 * half];
              to[1] = p == 0 ? sums[m][n][2 * half + 1] : to[1] + sums[m][n][2 * half + 1];
            }
      }
      join_block();
    }
  }
};

// The place of a block's tile, and its batch. Tiles of eight rows of tiles follow each other, so that neighbouring
// blocks read the same slices.
DEVICE i64 place_tile(i64 block, i32 tiles_down, i32 tiles_across, i32& down, i32& across) {
  const i64 tile = block % ((i64)tiles_down * tiles_across);
  const i32 per = 8 * tiles_across, first = (i32)(tile / per) * 8, left = (i32)(tile % per);
  const i32 rows = tiles_down - first < 8 ? tiles_down - first : 8;
  down = first + left % rows;
  across = left / rows;
  return block / ((i64)tiles_down * tiles_across);
}
)";
}

std::string_view cudaGroupHelpers() {
  return R"(
// The tile of a block, multiplied by groups of four warps, each of 64 rows and all columns. A slice is refilled once no group multiplies it.
template <class T, class Left, class Right, i32 rows, i32 columns, i32 stages>
struct group_tile {
  static constexpr i32 pitch = columns + 8;
  f32 sums[columns / 8][4];

  template <class LeftAt, class RightAt>
  DEVICE void multiply(unsigned char* ring, const T* left, const LeftAt& left_at, const T* right, const RightAt& right_at,
                       i32 first_row, i32 row_count, i32 first_column, i32 column_count, i32 depth) {
#pragma unroll
    for (i32 n = 0; n < columns / 8; ++n)
#pragma unroll
      for (i32 e = 0; e < 4; ++e) sums[n][e] = 0.0f;
    constexpr i32 bytes = Left::bytes + Right::bytes;
    const i32 slices = (depth + 63) / 64, row = threadIdx.x / 128 * 64;
    const auto fetch = [&](i32 slice) {
      unsigned char* to = ring + slice % stages * bytes;
      Left::fetch(to, left, left_at, first_row, row_count, slice * 64, depth);
      Right::fetch(to + Left::bytes, right, right_at, first_column, column_count, slice * 64, depth);
    };
#pragma unroll
    for (i32 s = 0; s < stages - 2; ++s) {
      if (s < slices) fetch(s);
      copies_end();
    }
#pragma unroll 1
    for (i32 s = 0; s < slices; ++s) {
      wait_copies<stages - 3>();
      publish_copies();
      join_block();
      unsigned char* const x = ring + s % stages * bytes;
      groups_begin();
#pragma unroll
      for (i32 k = 0; k < 64; k += 16) multiply_group<Left, Right>(sums, x, x + Left::bytes, row, k);
      groups_end();
      if (s + stages - 2 < slices) fetch(s + stages - 2);
      copies_end();
      wait_groups<1>();
    }
    wait_groups<0>();
    wait_copies<0>();
    join_block();
  }

  DEVICE void keep(f32* memory) {
    const i32 lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (i32 n = 0; n < columns / 8; ++n)
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        f32* to = memory + (row + half * 8) * pitch + n * 8 + lane % 4 * 2;
        to[0] = sums[n][2 * half];
        to[1] = sums[n][2 * half + 1];
      }
    join_block();
  }
};
)";
}

}  // namespace graft::codegen
