// The CUDA C++ of programs computes what the interpreter does. A C++ compiler stands in for the GPU.
#include <cstring>

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
  o.multiprocessors = 1;
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
        calls.push_back({c.name, *program, how, emulator.add(std::move(copy), o)});
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
    emulator.add(copy, optionsFor(copy, call.sizes, strides, alignment));
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
