// The CUDA C++ of programs computes what the interpreter does. A C++ compiler stands in for the GPU.
#include <fmt/format.h>

#include <cstring>
#include <random>

#include "tests/core/compile/codegen/cases.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_emulator.h"
#include "tests/support/program_comparison.h"
#include "tests/support/random_program.h"

using namespace graft;
using graft::test::Comparison;
using graft::test::CudaEmulator;

namespace {

bool hasCompiler() { return std::system("command -v g++ >/dev/null") == 0; }

codegen::CudaOptions optionsFor(loops::Program& program, const std::vector<int64_t>& sizes,
                                const std::vector<std::vector<int64_t>>& strides, int64_t alignment = 16) {
  codegen::CudaOptions o;
  o.sizes = sizes;
  for (const std::vector<int64_t>& s : strides) {
    o.layouts.push_back(codegen::constantLayout(program, s));
    o.alignments.push_back(alignment);
  }
  // Few multiprocessors: small programs are then run as large ones are.
  o.limits.multiprocessors = 1;
  return o;
}

/// A GPU with clusters of blocks, and with more multiprocessors than small programs keep busy.
codegen::CudaOptions withClusters(codegen::CudaOptions o, uint64_t seed) {
  o.limits.capability = 90;
  o.limits.sharedBytes = 227 * 1024;
  o.limits.multiprocessors = seed % 2 ? 132 : 6;
  o.limits.blockElements = 8;
  return o;
}

}  // namespace

TEST_CASE("programs as CUDA compute what the interpreter does") {
  if (!hasCompiler()) return;
  struct Call {
    std::string name;
    loops::Program program;
    Comparison how;
    size_t code;
  };
  std::vector<Call> calls;
  CudaEmulator emulator;
  for (const char* file : {"codegen/programs.txt", "cuda/programs.txt"})
    for (const test::ProgramCase& c : test::readCases(std::string(GRAFT_SOURCE_DIR "/tests/core/compile/") + file)) {
      const auto program = loops::parseProgram(c.text);
      REQUIRE(program);
      for (size_t i = 0; i < c.sizes.size(); ++i) {
        // The first and the last sizes, one of them in other places.
        if (i != 0 && i + 1 != c.sizes.size()) continue;
        Comparison how;
        how.sizes = c.sizes[i];
        how.seed = calls.size();
        how.hasSpecial = i != 0;
        how.places = i == 0 && c.sizes.size() > 1 ? Comparison::Places::Turned : Comparison::Places::Dense;
        loops::Program copy = *program;
        std::vector<std::vector<int64_t>> strides;
        for (const loops::BufferId b : program->inputs())
          strides.push_back(test::detail::makeSpace(*program, b, how).strides);
        for (const loops::BufferId b : program->outputs())
          strides.push_back(test::detail::makeSpace(*program, b, how).strides);
        const codegen::CudaOptions o = optionsFor(copy, how.sizes, strides);
        calls.push_back({c.name, *program, how, emulator.add(loops::Program(copy), o)});
        calls.push_back({c.name, *program, how, emulator.add(std::move(copy), withClusters(o, calls.size()))});
      }
    }
  const test::TempDir dir;
  emulator.compile(dir / "");
  for (const Call& c : calls) {
    const std::string difference = test::compareRun(
        c.program, c.how, [&](const std::vector<void*>& buffers) { return emulator.run(c.code, buffers); });
    // A divisor of 0 goes unreported on a GPU, in PyTorch's kernels too.
    const bool isUnreported = difference == "a check holds that failed" &&
                              loops::printProgram(c.program).find("checked_divisor") != std::string::npos;
    INFO(c.name << ": " << difference << "\n" << CudaEmulator::kernelsOf(emulator.code(c.code)));
    CHECK((difference.empty() || isUnreported));
  }
}

namespace {

/// A product of halves with something behind it, of odd sizes and either order of each operand.
std::string randomProduct(std::mt19937_64& random) {
  const auto upTo = [&](size_t n) { return static_cast<int64_t>(random() % n) + 1; };
  const auto oneOf = [&](const std::vector<int64_t>& sizes) { return sizes[random() % sizes.size()]; };
  const int64_t batches = random() % 3 == 0 ? upTo(3) : 1;
  const int64_t m = random() % 2 ? oneOf({16, 40, 64, 128}) : upTo(70),
                n = random() % 2 ? oneOf({8, 64, 72, 136}) : upTo(70),
                k = random() % 2 ? oneOf({16, 64, 96, 136}) : 1 + upTo(140);
  const bool isLeftTurned = random() % 2, isRightTurned = random() % 2, isBroadcast = random() % 3 == 0;
  const char* half = random() % 2 ? "f16" : "bf16";
  const std::string left =
      isLeftTurned ? fmt::format("{}, {}, {}", batches, k, m) : fmt::format("{}, {}, {}", batches, m, k);
  const std::string right = isRightTurned ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n);
  std::string text = fmt::format("loops 1\ninput x: {0}[{1}]\ninput w: {0}[{2}{3}]\ninput b: {0}[{4}]\n", half, left,
                                 isBroadcast ? "" : fmt::format("{}, ", batches), right, n);
  text += fmt::format("input r: f32[{0}, {1}, {2}]\noutput y: {3}[{0}, {1}, {2}]\noutput z: f32[{1}, {0}, {2}]\n",
                      batches, m, n, half);
  text += fmt::format("nest a < {}, i < {}, j < {}\n  local s: f32[]\n", batches, m, n);
  text += fmt::format("  s[] = sum(c < {}: f32(x[a, {}]) * f32(w[{}{}]))\n", k, isLeftTurned ? "c, i" : "i, c",
                      isBroadcast ? "" : "a, ", isRightTurned ? "j, c" : "c, j");
  const std::vector<std::string> behind{"s[]", "maximum(s[] + f32(b[j]), 0.0)", "tanh(s[] * 0.25) * r[a, i, j]",
                                        "select(r[a, i, j] < 0.5, s[], f32(b[j]) * 2.0)"};
  text += fmt::format("  y[a, i, j] = {}({})\n", half, behind[random() % behind.size()]);
  return text + "  z[i, a, j] = s[] + r[a, i, j]\n";
}

}  // namespace

TEST_CASE("random matrix products in all tiles compute what the interpreter does") {
  if (!hasCompiler()) return;
  uint64_t first = 1, count = 30;
  if (const char* given = std::getenv("GRAFT_SEEDS")) {
    first = std::strtoull(given, nullptr, 10);
    const char* colon = std::strchr(given, ':');
    count = colon ? std::strtoull(colon + 1, nullptr, 10) : 1;
  }
  const std::vector<codegen::ProductTile> tiles = codegen::productTiles({1, 64, 64, 64}, {1, 227 * 1024, 90});
  struct Call {
    loops::Program program;
    Comparison how;
    std::string tile;
  };
  std::vector<Call> calls;
  CudaEmulator emulator;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    const std::string text = randomProduct(random);
    INFO("GRAFT_SEEDS=" << seed << "\n" << text);
    auto program = loops::parseProgram(text);
    REQUIRE(program);
    Comparison how;
    how.seed = seed;
    how.places = static_cast<Comparison::Places>(random() % 3);
    how.tolerance = 1e-3;
    std::vector<std::vector<int64_t>> strides;
    for (const loops::BufferId b : program->inputs())
      strides.push_back(test::detail::makeSpace(*program, b, how).strides);
    for (const loops::BufferId b : program->outputs())
      strides.push_back(test::detail::makeSpace(*program, b, how).strides);
    loops::Program copy = *program;
    codegen::CudaOptions o = optionsFor(copy, {}, strides, int64_t{2} << random() % 4);
    o.tile = tiles[seed % tiles.size()];
    emulator.add(std::move(copy), o);
    REQUIRE(emulator.code(calls.size()).kernels.front().product);
    calls.push_back({std::move(*program), how, o.tile->describe()});
  }
  const test::TempDir dir;
  emulator.compile(dir / "");
  for (size_t n = 0; n < calls.size(); ++n) {
    const std::string difference = test::compareRun(
        calls[n].program, calls[n].how, [&](const std::vector<void*>& buffers) { return emulator.run(n, buffers); });
    INFO("GRAFT_SEEDS=" << first + n << ", " << calls[n].tile << ": " << difference << "\n"
                        << loops::printProgram(calls[n].program) << CudaEmulator::kernelsOf(emulator.code(n)));
    CHECK(difference.empty());
  }
}

TEST_CASE("random programs as CUDA compute what the interpreter does") {
  if (!hasCompiler()) return;
  uint64_t first = 1, count = 60;
  if (const char* given = std::getenv("GRAFT_SEEDS")) {
    first = std::strtoull(given, nullptr, 10);
    const char* colon = std::strchr(given, ':');
    count = colon ? std::strtoull(colon + 1, nullptr, 10) : 1;
  }
  std::vector<loops::RandomCall> calls;
  CudaEmulator emulator;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    loops::RandomCall call = loops::randomCall(seed, {.isExact = true});
    loops::Program copy = call.program;
    std::vector<std::vector<int64_t>> strides;
    int64_t alignment = 16;
    for (const loops::Memory& m : call.buffers) {
      strides.push_back(m.strides);
      while (alignment > 1 && reinterpret_cast<uintptr_t>(m.data) % static_cast<uintptr_t>(alignment) != 0)
        alignment /= 2;
    }
    INFO("GRAFT_SEEDS=" << seed << "\n" << loops::printProgram(call.program));
    codegen::CudaOptions o = optionsFor(copy, call.sizes, strides, alignment);
    if (seed % 3 != 0) o = withClusters(std::move(o), seed);
    emulator.add(copy, o);
    calls.push_back(std::move(call));
  }
  const test::TempDir dir;
  emulator.compile(dir / "");
  for (size_t n = 0; n < calls.size(); ++n) {
    loops::RandomCall& call = calls[n];
    call.clearOutputs();
    loops::interpret(call.program, call.sizes, call.buffers);
    const std::vector<std::byte> wanted = call.outputBytes();
    call.clearOutputs();
    std::vector<void*> pointers;
    for (const loops::Memory& m : call.buffers) pointers.push_back(m.data);
    emulator.run(n, pointers);
    const std::vector<std::byte> got = call.outputBytes();
    std::string wrong;
    size_t at = 0;
    for (const loops::BufferId id : call.program.outputs()) {
      const loops::Buffer& b = call.program.buffer(id);
      size_t elements = 1;
      for (const int64_t size : call.program.shape(id, call.sizes)) elements *= static_cast<size_t>(size);
      for (size_t i = 0; i < elements; ++i, at += dtypeSize(b.dtype)) {
        const double x = test::detail::numberOf(&got[at], b.dtype), y = test::detail::numberOf(&wanted[at], b.dtype);
        if (x == y || (std::isnan(x) && std::isnan(y)) || !wrong.empty()) continue;
        wrong = b.name + " element " + std::to_string(i) + " is " + std::to_string(x) + ", not " + std::to_string(y);
      }
    }
    INFO("GRAFT_SEEDS=" << first + n << ": " << wrong << "\n"
                        << loops::printProgram(call.program) << CudaEmulator::kernelsOf(emulator.code(n)));
    CHECK(wrong.empty());
  }
}
