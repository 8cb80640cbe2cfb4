// Code in parts runs an elementwise program for many sets of tensors in place. A C++ compiler stands in for the GPU.
#include <algorithm>
#include <cstring>

#include "core/compile/loops/text.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_emulator.h"

using namespace graft;

namespace {

/// Each result lies where an input does that the other one reads, too.
constexpr const char* kCrossed = R"(loops 1
input p: f32[4096]
input g: f16[4096]
input m: f32[4096]
input rate: f32[]
output y: f32[4096]
output z: f32[4096]
nest i < 4096
  y[i] = m[i] - f32(g[i]) * rate[]
  z[i] = p[i] + m[i] * 2.0
)";

loops::Program parsed(const std::string& text) {
  Result<loops::Program> program = loops::parseProgram(text);
  REQUIRE(program);
  return std::move(*program);
}

codegen::CudaOptions inParts(int64_t parts, int64_t alignment) {
  codegen::CudaOptions o;
  o.parts = parts;
  o.limits.multiprocessors = 1;
  for (const int64_t bytes : {4, 2, 4, 4, 4, 4}) o.alignments.push_back(alignment > 0 ? alignment : bytes);
  return o;
}

/// One set of tensors, with a margin in which nothing may be written.
struct Set {
  static constexpr size_t margin = 16;
  explicit Set(int64_t length, float rate) : n(static_cast<size_t>(length)), rate(rate) {
    for (size_t i = 0; i < n + margin; ++i) {
      p.push_back(static_cast<float>(i % 97));
      m.push_back(static_cast<float>(i % 31) - 7);
      g.push_back(i % 2 == 0 ? 0x3c00 : 0xc000);  // 1 and -2
    }
  }
  size_t n;
  float rate;
  std::vector<float> p, m;
  std::vector<uint16_t> g;

  std::vector<char*> buffers() {
    const auto of = [](auto& v) { return reinterpret_cast<char*>(v.data()); };
    return {of(p), of(g), of(m), reinterpret_cast<char*>(&rate), of(p), of(m)};
  }
  /// Where something else is than `before` has become.
  std::string wrong(const Set& before) const {
    for (size_t i = 0; i < n + margin; ++i) {
      const bool isIn = i < n;
      const float grad = i % 2 == 0 ? 1.0F : -2.0F;
      const float y = isIn ? before.m[i] - grad * rate : before.p[i];
      const float z = isIn ? before.p[i] + before.m[i] * 2 : before.m[i];
      if (p[i] != y || m[i] != z) return "element " + std::to_string(i) + " of " + std::to_string(n);
    }
    return "";
  }
};

}  // namespace

TEST_CASE("code in parts writes each set's results where its inputs lie") {
  if (std::system("command -v g++ >/dev/null") != 0) {
    WARN("not run: there is no g++");
    return;
  }
  test::CudaEmulator emulator;
  const size_t wide = emulator.add(parsed(kCrossed), inParts(5, 16)),
               narrow = emulator.add(parsed(kCrossed), inParts(5, 0));
  const test::TempDir dir;
  emulator.compile(dir / "");
  for (const size_t which : {wide, narrow}) {
    const codegen::CudaKernel& kernel = emulator.code(which).kernels.at(0);
    INFO(test::CudaEmulator::kernelsOf(emulator.code(which)));
    CHECK((which == wide) == (kernel.table.vector > 1));
    std::vector<Set> sets;
    float rate = 0.5F;
    for (const int64_t length :
         {int64_t{8}, int64_t{1}, kernel.table.blockElements, kernel.table.blockElements * 3 + 40, int64_t{17}})
      sets.emplace_back(length / kernel.table.vector * kernel.table.vector, rate *= 2);
    const std::vector<Set> before = sets;
    std::vector<codegen::CudaPart> parts;
    for (Set& s : sets) {
      codegen::CudaPart part{{}, static_cast<int64_t>(s.n)};
      for (const int slot : kernel.buffers) part.buffers.push_back(s.buffers().at(static_cast<size_t>(slot)));
      if (s.n > 0) parts.push_back(part);
    }
    codegen::CudaPartLaunch launch(kernel.table, parts);
    CHECK(static_cast<int64_t>(launch.table.size()) == kernel.table.bytes());
    emulator.run(which, {launch.table.data(), &launch.blocks});
    for (size_t i = 0; i < sets.size(); ++i) CHECK(sets[i].wrong(before[i]) == "");
  }
}

TEST_CASE("a table of parts fits a kernel's parameters") {
  for (const int64_t buffers : {1, 9, 40, 2000}) {
    const codegen::CudaPartTable table = codegen::CudaPartTable::of(buffers, 100'000);
    CHECK(table.bytes() <= codegen::CudaPartTable::kMostBytes);
    CHECK(codegen::CudaPartTable::of(buffers, 3).parts == std::min<int64_t>(3, table.parts));
  }
}

TEST_CASE("a program that is not elementwise has no code in parts") {
  for (const char* text : {
           "loops 1\ninput x: f32[64]\noutput y: f32[]\nnest\n  y[] = sum(r < 64: x[r])\n",
           "loops 1\ninput x: f32[64]\noutput y: f32[64]\nnest i < 64\n  y[i] = x[63 - i]\n",
           "loops 1\ninput x: f32[8, 8]\noutput y: f32[8, 8]\nnest i < 8, j < 8\n  y[i, j] = x[j, i]\n",
           "loops 1\ninput x: f32[64]\noutput y: f32[64]\nnest i < 64\n  y[i] = x[i] + f32(i)\n",
           "loops 1\ninput x: f32[64]\ninput v: f32[32]\noutput y: f32[64]\nnest i < 64\n  y[i] = x[i] + v[i // 2]\n",
       }) {
    INFO(text);
    codegen::CudaOptions o;
    o.parts = 4;
    const Result<codegen::CudaCode> code = codegen::makeCudaCode(parsed(text), o);
    REQUIRE(!code);
    CHECK(code.error().message.find("it is not elementwise") == 0);
  }
}
