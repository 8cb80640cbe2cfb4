// libgraft_ops_llvm.so through its table of functions: compiling, loading again, and what is refused.
#include "kernels/jit/jit.h"

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/compiled_program.h"

using graft::test::jit;

namespace {

constexpr const char* kTwice = R"(
define i32 @twice(i32 %x) {
  %y = add i32 %x, %x
  ret i32 %y
}
define float @power(float %x) {
  %y = call float @powf(float %x, float 3.0)
  ret float %y
}
declare float @powf(float, float)
)";

struct Bytes : GraftJitBytes {
  Bytes() : GraftJitBytes{nullptr, 0} {}
  ~Bytes() { jit().release(this); }
  std::string text() const { return {reinterpret_cast<const char*>(data), size}; }
};

int compile(const std::string& ir, int level, Bytes& object, Bytes& error) {
  return jit().compile(ir.data(), ir.size(), level, &object, &error);
}

}  // namespace

TEST_CASE("an object runs, also from a copy of its bytes") {
  CHECK(jit().version == graftJitVersion);
  CHECK_THAT(std::string(jit().compiler), StartsWith("LLVM "));
  for (int level = 0; level <= jit().host_level(); ++level) {
    Bytes object, error;
    REQUIRE(compile(kTwice, level, object, error) == 0);
    const std::vector<unsigned char> copy(object.data, object.data + object.size);
    GraftJitModule* module = jit().load(copy.data(), copy.size(), &error);
    REQUIRE(module);
    const auto twice = reinterpret_cast<int (*)(int)>(jit().find(module, "twice"));
    const auto power = reinterpret_cast<float (*)(float)>(jit().find(module, "power"));
    REQUIRE(twice);
    REQUIRE(power);
    CHECK(twice(21) == 42);
    CHECK(power(2.5F) == std::pow(2.5F, 3.0F));
    CHECK_FALSE(jit().find(module, "thrice"));
    jit().unload(module);
  }
}

TEST_CASE("functions that LLVM calls in place of others are found") {
  constexpr const char* kMerged = R"(
define double @both(double %x) {
  %s = call double @sin(double %x) nounwind readnone willreturn
  %c = call double @cos(double %x) nounwind readnone willreturn
  %y = fdiv double %s, %c
  ret double %y
}
define float @both32(float %x) {
  %s = call float @sinf(float %x) nounwind readnone willreturn
  %c = call float @cosf(float %x) nounwind readnone willreturn
  %y = fdiv float %s, %c
  ret float %y
}
define double @of_two(i32 %n) {
  %x = sitofp i32 %n to double
  %y = call double @pow(double 2.0, double %x) nounwind readnone willreturn
  ret double %y
}
define float @of_two32(i32 %n) {
  %x = sitofp i32 %n to float
  %y = call float @powf(float 2.0, float %x) nounwind readnone willreturn
  ret float %y
}
define double @of_ten(double %x) {
  %y = call double @pow(double 10.0, double %x) nounwind readnone willreturn
  ret double %y
}
declare double @sin(double)
declare double @cos(double)
declare float @sinf(float)
declare float @cosf(float)
declare double @pow(double, double)
declare float @powf(float, float)
)";
  for (int level = 0; level <= jit().host_level(); ++level) {
    Bytes object, error;
    REQUIRE(compile(kMerged, level, object, error) == 0);
    GraftJitModule* module = jit().load(object.data, object.size, &error);
    INFO(error.text());
    REQUIRE(module);
    const auto find = [&](const char* name) { return jit().find(module, name); };
    CHECK(reinterpret_cast<double (*)(double)>(find("both"))(0.7) == Approx(std::tan(0.7)));
    CHECK(reinterpret_cast<float (*)(float)>(find("both32"))(0.7F) == Approx(std::tan(0.7F)));
    CHECK(reinterpret_cast<double (*)(int)>(find("of_two"))(-3) == 0.125);
    CHECK(reinterpret_cast<float (*)(int)>(find("of_two32"))(5) == 32);
    CHECK(reinterpret_cast<double (*)(double)>(find("of_ten"))(2) == Approx(100));
    jit().unload(module);
  }
}

TEST_CASE("equal text gives equal objects") {
  Bytes first, second, error;
  REQUIRE(compile(kTwice, 0, first, error) == 0);
  REQUIRE(compile(kTwice, 0, second, error) == 0);
  CHECK(first.text() == second.text());
}

TEST_CASE("what is no code is refused with a sentence") {
  Bytes object, error;
  CHECK(compile("define i32 @f() {\n  ret i32 %x\n}\n", 0, object, error) == 1);
  CHECK_THAT(error.text(), ContainsSubstring("2:11: error") && ContainsSubstring("%x"));
  Bytes broken;
  CHECK(compile("define i32 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %v = add i32 1, 2\n  br label %b\nb:\n"
                "  ret i32 %v\n}\n",
                0, object, broken) == 1);
  CHECK_THAT(broken.text(), ContainsSubstring("does not dominate"));
  Bytes level;
  CHECK(compile(kTwice, 7, object, level) == 1);
  CHECK_THAT(level.text(), ContainsSubstring("instructions"));
}

TEST_CASE("what is no object is refused") {
  Bytes error, object, missing;
  CHECK_FALSE(jit().load(reinterpret_cast<const unsigned char*>("rubbish"), 7, &error));
  CHECK(error.size > 0);
  REQUIRE(compile("declare i32 @system(ptr)\ndefine i32 @f() {\n  %r = call i32 @system(ptr null)\n  ret i32 %r\n}\n",
                  0, object, error) == 0);
  CHECK_FALSE(jit().load(object.data, object.size, &missing));
  CHECK_THAT(missing.text(), ContainsSubstring("system"));
}

TEST_CASE("threads compile, load and unload at the same time") {
  std::vector<std::thread> threads;
  std::vector<int> results(4, 0);
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        Bytes object, error;
        if (compile(kTwice, 0, object, error) != 0) return;
        GraftJitModule* module = jit().load(object.data, object.size, &error);
        if (!module) return;
        results[t] += reinterpret_cast<int (*)(int)>(jit().find(module, "twice"))(i);
        jit().unload(module);
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(results == std::vector<int>(4, 20));
}
