// The C++ of programs: its text for a small one, and, where there is a compiler, what it computes.
#include "core/compile/codegen/cpp/cpp_code.h"

#include <dlfcn.h>

#include <filesystem>

#include "tests/core/compile/codegen/cases.h"
#include "tests/support/catch.h"
#include "tests/support/program_comparison.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using graft::test::Comparison;

namespace {

std::string body(const std::string& text) { return text.substr(text.find("int run(")); }

std::string pointerTo(const std::string& type, size_t i) { return "(" + type + "*)b[" + std::to_string(i) + "]"; }

std::string typeName(DType dtype) {
  const char* names[] = {"uint8_t", "int8_t", "int16_t", "int32_t", "int64_t"};
  if (dtype == DType::Bool) return "bool";
  if (dtype == DType::Float16) return "_Float16";
  if (dtype == DType::BFloat16) return "bf16";
  if (dtype == DType::Float32) return "float";
  if (dtype == DType::Float64) return "double";
  return names[static_cast<size_t>(dtype)];
}

}  // namespace

TEST_CASE("a tensor may be named like a word of C++ or like a function that the code calls") {
  const auto program = loops::parseProgram(R"(loops 1
size n in 1..
input long: f32[n]
input sigmoid: f32[n]
input register: f32[n]
output long_: f32[n]
nest i < n
  long_[i] = sigmoid(long[i]) + register[i] * sigmoid[i]
)");
  REQUIRE(program);
  CHECK(body(codegen::makeCppCode(*program, {codegen::CpuLevel::Avx512, {}, {}}))
            .starts_with("int run(const float* long__, const float* sigmoid_, const float* register_, float* long_, "
                         "int64_t n) {"));
}

TEST_CASE("rows become loops that people can read") {
  const auto program = loops::parseProgram(R"(loops 1
size n in 1..
input x: f32[n, 64]
output y: f32[n, 2, 32]
nest i < n
  local m: f32[]
  m[] = maximum(r < 64: x[i, r])
  y[i, h, d] = exp(x[i, h * 32 + d] - m[]) for h < 2, d < 32
)");
  REQUIRE(program);
  CHECK(body(codegen::makeCppCode(*program, {codegen::CpuLevel::Avx512, {}, {}})) ==
        R"(int run(const float* x, float* y, int64_t n) {
  int failed = 0;

  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    float m;
    float maximum0 = -std::numeric_limits<float>::infinity();
    for (int64_t r = 0; r < 64; ++r) {  // 32 lanes
      maximum0 = maximum(maximum0, x[i * 64 + r]);
    }
    m = maximum0;
    for (int64_t d = 0; d < 64; ++d) {  // 32 lanes
      y[i * 64 + d] = std::exp(x[i * 64 + d] - m);
    }
  }
  return failed;
}
)");
}

TEST_CASE("sums of lanes may be added side by side, others are left in their order") {
  const auto text = [](const std::string& value) {
    const auto program =
        loops::parseProgram("loops 1\ninput x: f32[8, 64]\noutput y: f32[8]\nnest i < 8\n  y[i] = " + value + "\n");
    INFO((program ? "" : program.error().message));
    REQUIRE(program);
    return body(codegen::makeCppCode(*program, {codegen::CpuLevel::Avx512, {}, {}}));
  };
  // A value that all steps share stands before the pragma, not between it and its loop.
  CHECK_THAT(text("sum(r < 64: absolute(x[i, r] - exp(x[i, 0])))"),
             ContainsSubstring("    #pragma omp simd reduction(+:sum0)\n    for (int64_t r = 0; r < 64; ++r) {"));
  CHECK_THAT(text("product(r < 64: x[i, r])"), ContainsSubstring("reduction(*:product0)"));
  CHECK_THAT(text("maximum(r < 64: x[i, r])"), !ContainsSubstring("simd"));  // NaN wins, which no reduction says
}

TEST_CASE("a compiler's code of the C++ computes what the interpreter does") {
  if (std::system("command -v g++ >/dev/null") != 0) return;
  const std::vector<test::ProgramCase> cases =
      test::readCases(GRAFT_SOURCE_DIR "/tests/core/compile/codegen/programs.txt");
  test::TempDir dir;
  std::string source;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto program = loops::parseProgram(cases[i].text);
    REQUIRE(program);
    const std::string text = codegen::makeCppCode(*program, {});
    if (i == 0) source = text.substr(0, text.find("int run("));
    const std::string n = std::to_string(i);
    source += "namespace p" + n + " {\n" + body(text) + "}\nextern \"C\" int run" + n +
              "(void** b, const int64_t* s) {\n  return p" + n + "::run(";
    size_t count = 0;
    std::string arguments;
    const auto add = [&](const std::string& a) { arguments += (arguments.empty() ? "" : ", ") + a; };
    for (const loops::BufferId b : program->inputs()) add(pointerTo(typeName(program->buffer(b).dtype), count++));
    for (const loops::BufferId b : program->outputs()) add(pointerTo(typeName(program->buffer(b).dtype), count++));
    for (size_t k = 0; k < program->sizes.size(); ++k) add("s[" + std::to_string(k) + "]");
    source += arguments + ");\n}\n";
  }
  test::writeFile(dir / "all.cpp", source);
  const std::string command = "g++ -std=c++20 -O1 -fwrapv -fopenmp-simd -w -shared -fPIC -o " +
                              (dir / "all.so").string() + " " + (dir / "all.cpp").string() + " 2> " +
                              (dir / "errors").string();
  const int status = std::system(command.c_str());
  INFO(test::readFile(dir / "errors").substr(0, 3000));
  REQUIRE(status == 0);
  void* library = dlopen((dir / "all.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto function =
        reinterpret_cast<int (*)(void* const*, const int64_t*)>(dlsym(library, ("run" + std::to_string(i)).c_str()));
    REQUIRE(function);
    for (const std::vector<int64_t>& sizes : cases[i].sizes) {
      Comparison how;
      how.sizes = sizes;
      how.seed = i;
      const auto program = loops::parseProgram(cases[i].text);
      const std::string difference = test::compareRun(
          *program, how, [&](const std::vector<void*>& buffers) { return function(buffers.data(), sizes.data()); });
      INFO(cases[i].name << ": " << difference);
      CHECK(difference.empty());
    }
  }
}
