// Runs the CUDA C++ of programs on the CPU: a C++ compiler compiles it, with functions of its own in the place of the
// machine's, and the threads of a block take turns. It finds mistakes in what code computes, not races: between two
// barriers the threads run one after another.
//
//   CudaEmulator e;
//   size_t n = e.add(program, options);
//   e.compile(folder);                               // all at once
//   bool failed = e.run(n, {x.data(), y.data()});
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/codegen/cuda/cuda_spelling.h"
#include "tests/support/temp_dir.h"

namespace graft::test {

inline constexpr const char* kEmulatedMachine = R"(
#undef _FORTIFY_SOURCE  // whose longjmp() knows no other stacks
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>
#include <setjmp.h>
#include <ucontext.h>
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef int i32; typedef unsigned u32;
typedef long long i64; typedef unsigned long long u64; typedef float f32; typedef double f64;
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
struct uint4 { unsigned x, y, z, w; };
struct uint2 { unsigned x, y; };
#define DEVICE inline
#define __restrict__ __restrict
#define __grid_constant__
static f32 bits_f32(u32 u) { f32 f; std::memcpy(&f, &u, 4); return f; }
static u32 f32_bits(f32 f) { u32 u; std::memcpy(&u, &f, 4); return u; }
static f32 to_f32(f16 x) { _Float16 h; std::memcpy(&h, &x, 2); return (f32)h; }
static f32 to_f32(bf16 x) { return bits_f32((u32)x.bits << 16); }
static f16 to_f16(f32 x) { _Float16 h = (_Float16)x; f16 y; std::memcpy(&y, &h, 2); return y; }
static bf16 to_bf16(f32 x) {
  const u32 u = f32_bits(x);
  return {(unsigned short)(std::isnan(x) ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
static f32 inf_f32() { return INFINITY; }
static f32 nan_f32() { return NAN; }
static f64 inf_f64() { return INFINITY; }
static f64 nan_f64() { return NAN; }
static f32 minimum_f32(f32 a, f32 b) { return a != a ? a : b != b ? b : a < b ? a : b; }
static f32 maximum_f32(f32 a, f32 b) { return a != a ? a : b != b ? b : a > b ? a : b; }
static f32 quotient(f32 a, f32 b) { return a / b; }
static struct { unsigned x; } threadIdx, blockIdx;
// A thread's context begins it; from then on it jumps, for each swapcontext() is a system call.
struct Thread { ucontext_t start; jmp_buf at; bool begun; };
static jmp_buf scheduler;
static Thread* current;
static unsigned here;             // of the threads of all blocks that run together
static unsigned first, each = 1;  // the first of these blocks; threads of a block
static int failed;
struct alignas(1024) Memory { unsigned char bytes[1 << 18]; };
static std::vector<Memory> memories(1);
#define shared (memories[here / each].bytes)
static unsigned char exchanged[8192][16];
static void enter(unsigned thread) {
  here = thread;
  threadIdx.x = thread % each;
  blockIdx.x = first + thread / each;
}
static void pause() {
  const unsigned me = here;
  if (_setjmp(current->at) == 0) _longjmp(scheduler, 1);
  enter(me);
}
static void join_warp() { pause(); }
static void join_block() { pause(); }
static void arrive_blocks() {}
static void await_blocks() { pause(); }
static void meet_blocks() { pause(); }
template <class T> static T* in_block(T* p, unsigned block) {
  return (T*)(memories[block].bytes + ((unsigned char*)p - shared));
}
template <class T> static T exchange(T x, i32 mask, u32) {
  const unsigned me = here;
  std::memcpy(exchanged[me], &x, sizeof x);
  pause();
  std::memcpy(&x, exchanged[me ^ mask], sizeof x);
  pause();
  return x;
}
template <i32 bytes> static void copy_async(void* to, const void* from, i32 valid) {
  std::memcpy(to, from, valid);
  std::memset((char*)to + valid, 0, bytes - valid);
}
static void copies_end() {}
template <i32 n> static void wait_copies() {}
// What each thread of the block gives the others of its warp.
static unsigned char given[8192][64];
template <class T> static void give(const T& x) {
  static_assert(sizeof x <= 64);
  std::memcpy(given[here], &x, sizeof x);
  pause();
}
template <class T> static T taken(unsigned lane) {
  T x;
  std::memcpy(&x, given[here / 32 * 32 + lane], sizeof x);
  return x;
}
static unsigned short half_at(const void* row, int i) {
  unsigned short h;
  std::memcpy(&h, (const char*)row + 2 * i, 2);
  return h;
}
static void load_squares(u32 (&x)[4], const void* row) {
  const int lane = here % 32;
  give(row);
  for (int s = 0; s < 4; ++s) {
    const void* from = taken<const void*>(s * 8 + lane / 4);
    x[s] = half_at(from, lane % 4 * 2) | (u32)half_at(from, lane % 4 * 2 + 1) << 16;
  }
  pause();
}
static void load_squares_transposed(u32 (&x)[4], const void* row) {
  const int lane = here % 32;
  give(row);
  for (int s = 0; s < 4; ++s) {
    const void *low = taken<const void*>(s * 8 + lane % 4 * 2), *high = taken<const void*>(s * 8 + lane % 4 * 2 + 1);
    x[s] = half_at(low, lane / 4) | (u32)half_at(high, lane / 4) << 16;
  }
  pause();
}
template <class T> static f32 half_of(u32 pair, int i) { return to_f32(T{(unsigned short)(pair >> (16 * i))}); }
template <class T> static void multiply_add(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, T) {
  struct Fragments { u32 a[4], b[2]; } own{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const int lane = here % 32;
  give(own);
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (int k = 0; k < 16; ++k) {
      const Fragments left = taken<Fragments>(row % 8 * 4 + k % 8 / 2), right = taken<Fragments>(column * 4 + k % 8 / 2);
      d[e] += half_of<T>(left.a[row / 8 + k / 8 * 2], k % 2) * half_of<T>(right.b[k / 8], k % 2);
    }
  }
  pause();
}
static void groups_begin() {}
static void groups_end() {}
template <i32 n> static void wait_groups() {}
static void publish_copies() {}
// From the places of the elements, where the machine has descriptors.
template <class Operand, class T> static f32 element_of(unsigned char* slice, i32 row, i32 k, T) {
  const i32 line = Operand::isAlong ? row : row / 64 * 64 + k, along = Operand::isAlong ? k : row % 64;
  return to_f32(T{half_at(Operand::place(slice, line, along / 8), along % 8)});
}
template <class Left, class Right, int n> static void multiply_group(f32 (&d)[n][4], unsigned char* left, unsigned char* right, i32 row, i32 inner) {
  using T = typename Left::element;
  const int lane = here % 32, first = row + here % 128 / 32 * 16 + lane / 4;
  for (int c = 0; c < n; ++c)
    for (int e = 0; e < 4; ++e)
      for (int k = inner; k < inner + 16; ++k)
        d[c][e] += element_of<Left>(left, first + e / 2 * 8, k, T{}) * element_of<Right>(right, c * 8 + lane % 4 * 2 + e % 2, k, T{});
}
static void fail(const char*) { failed = 1; }
static void overlap() {}
static std::function<void()> body;
static std::vector<bool> ended;
static void thread_main() {
  body();
  ended[here] = true;
  _longjmp(scheduler, 1);
}
static void resume(Thread* thread) {
  current = thread;
  if (_setjmp(scheduler) != 0) return;
  if (thread->begun) _longjmp(thread->at, 1);
  thread->begun = true;
  setcontext(&thread->start);
}
static void launch(i64 blocks, int threads, int together, std::function<void()> kernel) {
  static std::vector<std::vector<char>> stacks;
  body = std::move(kernel);
  each = threads;
  if (memories.size() < (size_t)together) memories.resize(together);
  const int all = threads * together;
  while (stacks.size() < (size_t)all) stacks.emplace_back(1 << 16);
  for (i64 b = 0; b < blocks; b += together) {
    first = (unsigned)b;
    for (int k = 0; k < together; ++k) std::memset(memories[k].bytes, 0xee, sizeof(Memory));
    std::vector<Thread> runs(all);
    ended.assign(all, false);
    for (int t = 0; t < all; ++t) {
      ucontext_t& start = runs[t].start;
      getcontext(&start);
      start.uc_stack.ss_sp = stacks[t].data();
      start.uc_stack.ss_size = stacks[t].size();
      start.uc_link = nullptr;
      makecontext(&start, thread_main, 0);
    }
    for (bool running = true; running;) {
      running = false;
      for (int t = 0; t < all; ++t) {
        if (ended[t]) continue;
        running = true;
        enter((unsigned)t);
        resume(&runs[t]);
      }
    }
  }
}
)";

class CudaEmulator {
 public:
  /// The source of one more program. Throws where it has none.
  size_t add(loops::Program program, const codegen::CudaOptions& options) {
    Result<codegen::CudaCode> code = codegen::makeCudaCode(std::move(program), options);
    if (!code) throw std::runtime_error(code.error().format());
    codes_.push_back(std::move(*code));
    return codes_.size() - 1;
  }
  const codegen::CudaCode& code(size_t n) const { return codes_.at(n); }
  /// What comes behind the preludes.
  static std::string kernelsOf(const codegen::CudaCode& code) { return code.source.substr(code.preludeBytes); }

  void compile(const std::filesystem::path& folder) {
    std::string source = std::string(kEmulatedMachine) + std::string(codegen::cudaHelpers()) +
                         std::string(codegen::cudaProductHelpers()) + std::string(codegen::cudaGroupHelpers());
    for (size_t n = 0; n < codes_.size(); ++n) {
      std::string text = kernelsOf(codes_[n]);
      const std::string head = "extern \"C\" __global__ void ", bounds = "__launch_bounds__(";
      for (size_t at = text.find(head); at != std::string::npos; at = text.find(head))
        text.replace(at, text.find(')', text.find(bounds, at)) + 1 - at, "static void");
      const std::string memory = "  extern __shared__ __align__(1024) unsigned char shared[];\n";
      for (size_t at = text.find(memory); at != std::string::npos; at = text.find(memory))
        text.erase(at, memory.size());
      const bool isInParts = codes_[n].kernels.size() == 1 && codes_[n].kernels[0].table.parts > 0;
      if (isInParts) text = codes_[n].kernels[0].helpers + text;
      source += "namespace p" + std::to_string(n) + " {\n" + text + "}\nextern \"C\" int run" + std::to_string(n) +
                "(void** b) {\n  failed = 0;\n";
      for (const codegen::CudaKernel& k : codes_[n].kernels) {
        std::string arguments;
        for (const int slot : k.buffers)
          arguments += (arguments.empty() ? "" : ", ") + ("Any{b[" + std::to_string(slot) + "]}");
        if (isInParts)  // b: its table, and the number of blocks
          arguments = "*(const p" + std::to_string(n) + "::Parts*)b[0]";
        source += "  launch(" + (isInParts ? "*(const i64*)b[1]" : std::to_string(k.blocks)) + ", " +
                  std::to_string(k.threads) + ", " + std::to_string(k.cluster) + ", [=] { p" + std::to_string(n) +
                  "::" + k.function + "(" + arguments + "); });\n";
      }
      source += "  return failed;\n}\n";
    }
    const std::string any =
        "struct Any {\n  void* p;\n  template <class T>\n  operator T*() const {\n    return (T*)p;\n  }\n};\n";
    writeFile(folder / "all.cpp", any + source);
    const std::string command = "g++ -std=c++20 -O1 -fno-strict-aliasing -ffp-contract=off -w -shared -fPIC -o " +
                                (folder / "all.so").string() + " " + (folder / "all.cpp").string() + " 2> " +
                                (folder / "errors").string();
    if (std::system(command.c_str()) != 0) throw std::runtime_error(readFile(folder / "errors").substr(0, 4000));
    library_ = dlopen((folder / "all.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) throw std::runtime_error(dlerror());
  }

  /// Whether a check failed.
  bool run(size_t n, std::vector<void*> buffers) const {
    std::vector<std::vector<char>> memory;
    for (const int64_t bytes : codes_.at(n).temporaryBytes) {
      memory.emplace_back(static_cast<size_t>(bytes) + 64, '\xee');
      const auto at = reinterpret_cast<uintptr_t>(memory.back().data());
      buffers.push_back(reinterpret_cast<void*>((at + 15) / 16 * 16));
    }
    const auto function = reinterpret_cast<int (*)(void**)>(dlsym(library_, ("run" + std::to_string(n)).c_str()));
    if (!function) throw std::runtime_error("there is no run" + std::to_string(n));
    return function(buffers.data()) != 0;
  }

 private:
  std::vector<codegen::CudaCode> codes_;
  void* library_ = nullptr;  // stays open: its stacks may be in use until the process ends
};

}  // namespace graft::test
