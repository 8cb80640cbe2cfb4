// The functions that vector code computes itself, beside the C library's in long double: at most 2.5 units in the last
// place, for numbers of every size, and C's results for special ones.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/compiled_program.h"

using namespace graft;
using namespace graft::codegen;
using graft::test::CompiledProgram;

namespace {

struct Function {
  const char* name;
  std::function<long double(long double)> exact;
  const char* argument = "x[i]";
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"exp", [](long double x) { return std::exp(x); }},
      {"exp_nonpositive", [](long double x) { return std::exp(-std::abs(x)); }, "-absolute(x[i])"},
      {"exp2", [](long double x) { return std::exp2(x); }},
      {"expm1", [](long double x) { return std::expm1(x); }},
      {"log", [](long double x) { return std::log(x); }},
      {"log2", [](long double x) { return std::log2(x); }},
      {"log10", [](long double x) { return std::log10(x); }},
      {"log1p", [](long double x) { return std::log1p(x); }},
      {"tanh", [](long double x) { return std::tanh(x); }},
      {"sigmoid", [](long double x) { return 1 / (1 + std::exp(-x)); }},
      {"erf", [](long double x) { return std::erf(x); }},
      {"sin", [](long double x) { return std::sin(x); }},
      {"cos", [](long double x) { return std::cos(x); }},
      {"tan", [](long double x) { return std::tan(x); }},
      {"asin", [](long double x) { return std::asin(x); }},
      {"acos", [](long double x) { return std::acos(x); }},
      {"atan", [](long double x) { return std::atan(x); }},
      {"sinh", [](long double x) { return std::sinh(x); }},
      {"cosh", [](long double x) { return std::cosh(x); }},
      {"asinh", [](long double x) { return std::asinh(x); }},
      {"acosh", [](long double x) { return std::acosh(x); }},
      {"atanh", [](long double x) { return std::atanh(x); }},
      {"sqrt", [](long double x) { return std::sqrt(x); }},
  };
  return all;
}

/// Every sign, every exponent, and several mantissas of each; denser where functions bend; and what is special.
std::vector<float> arguments() {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x7f800000U; bits += 104729) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-x.back());
  }
  for (int i = 0; i <= 200000; ++i) x.push_back(-110.0F + 0.0011F * static_cast<float>(i));
  for (int i = 0; i <= 20000; ++i) x.push_back(-1.5F + 0.00015F * static_cast<float>(i));
  using Limits = std::numeric_limits<float>;
  for (const float special : {0.0F,
                              1.0F,
                              88.72283F,
                              88.72284F,
                              103.97F,
                              104.1F,
                              87.33655F,
                              126.0F,
                              127.9999F,
                              128.0F,
                              149.0F,
                              150.5F,
                              0.625F,
                              0.92773F,
                              1.5707964F,
                              3.1415927F,
                              9999.9F,
                              10000.1F,
                              1e10F,
                              3e38F,
                              Limits::infinity(),
                              Limits::quiet_NaN(),
                              Limits::denorm_min(),
                              Limits::min(),
                              Limits::max()}) {
    x.push_back(special);
    x.push_back(-special);
  }
  // NaN with something in its last bits
  for (const uint32_t bits : {0x7fc00001U, 0x7fc00002U, 0x7fc00100U, 0x7fc001ffU, 0xffc00155U})
    x.push_back(std::bit_cast<float>(bits));
  return x;
}

/// How far apart, in units in the last place of the exact result as a float.
double distance(float got, long double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) == std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got) return 0;
    // The greatest float beside infinity is one unit away.
    const float other = std::isinf(got) ? rounded : got;
    return std::abs(other) == std::numeric_limits<float>::max() && std::signbit(rounded) == std::signbit(got)
               ? 1
               : INFINITY;
  }
  if (got == 0 && rounded == 0) return std::signbit(got) == std::signbit(rounded) ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(rounded, &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent - 24, -149));
  return static_cast<double>(std::abs(static_cast<long double>(got) - exact) / unit);
}

}  // namespace

TEST_CASE("functions of f32 are within 2.5 units of the right result") {
  std::vector<float> x = arguments();
  const std::string n = std::to_string(x.size());
  for (const Function& f : functions()) {
    std::vector<long double> exact;
    for (const float v : x) exact.push_back(f.exact(v));
    const std::string text = "loops 1\ninput x: f32[" + n + "]\noutput y: f32[" + n + "]\nnest i < " + n +
                             "\n  y[i] = " + f.name + "(" + f.argument + ")\n";
    for (const CpuLevel level : test::levels()) {
      const CompiledProgram compiled = CompiledProgram::make(text, level);
      std::vector<float> y(x.size(), 777.0F);
      REQUIRE(compiled.run({x.data(), y.data()}, {}) == 0);
      double worst = 0;
      size_t at = 0;
      for (size_t i = 0; i < x.size(); ++i)
        if (const double d = distance(y[i], exact[i]); d > worst) {
          worst = d;
          at = i;
        }
      INFO(f.name << " at level " << static_cast<int>(level) << ": " << x[at] << " gives " << y[at] << ", not "
                  << static_cast<float>(exact[at]) << "; apart by " << worst);
      if (std::getenv("GRAFT_SHOW_ERRORS"))
        WARN(f.name << " " << static_cast<int>(level) << " " << worst << " at " << x[at]);
      CHECK(worst <= 2.5);
    }
  }
}

TEST_CASE("powers of f32 are within 2.5 units of the right result") {
  using Limits = std::numeric_limits<float>;
  std::vector<float> bases, exponents, x, y;
  for (uint32_t bits = 0; bits < 0x7f800000U; bits += 10472993) bases.push_back(std::bit_cast<float>(bits));
  for (int i = 0; i <= 200; ++i) bases.push_back(0.5F + 0.0101F * static_cast<float>(i));
  for (const float special : {0.0F, 1.0F, 2.0F, 3.0F, Limits::denorm_min(), Limits::max(), Limits::infinity(),
                              Limits::quiet_NaN(), 1 + Limits::epsilon(), 1 - Limits::epsilon() / 2})
    bases.push_back(special);
  for (const float e : {0.0F, 1.7F, 0.3F, 2.2F, 4.0F, 5.0F, 0.1F, 33.0F, 100.5F, 16777216.0F, 1e9F, 1e30F, 1e-30F,
                        Limits::infinity(), Limits::quiet_NaN(), 3.4e38F})
    for (const float sign : {1.0F, -1.0F}) exponents.push_back(sign * e);
  for (const float b : bases)
    for (const float e : exponents)
      for (const float sign : {1.0F, -1.0F}) {
        x.push_back(sign * b);
        y.push_back(e);
      }
  const std::string n = std::to_string(x.size());
  std::vector<long double> exact;
  for (size_t i = 0; i < x.size(); ++i)
    exact.push_back(std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i])));
  for (const CpuLevel level : test::levels()) {
    const CompiledProgram compiled =
        CompiledProgram::make("loops 1\ninput x: f32[" + n + "]\ninput e: f32[" + n + "]\noutput y: f32[" + n +
                                  "]\nnest i < " + n + "\n  y[i] = power(x[i], e[i])\n",
                              level);
    std::vector<float> got(x.size(), 777.0F);
    REQUIRE(compiled.run({x.data(), y.data(), got.data()}, {}) == 0);
    for (size_t i = 0; i < x.size(); ++i) {
      const double apart = distance(got[i], exact[i]);
      if (apart <= 2.5) continue;
      CAPTURE(level, x[i], y[i], got[i], static_cast<float>(exact[i]), apart);
      FAIL_CHECK("another power");
    }
    // Constant exponents, whose kind is known
    for (const char* e : {"1.7", "-1.5", "5.0", "4.0", "-3.0"}) {
      const CompiledProgram constant =
          CompiledProgram::make("loops 1\ninput x: f32[" + n + "]\noutput y: f32[" + n + "]\nnest i < " + n +
                                    "\n  y[i] = power(x[i], " + e + ")\n",
                                level);
      REQUIRE(constant.run({x.data(), got.data()}, {}) == 0);
      for (size_t i = 0; i < x.size(); ++i) {
        const auto power = static_cast<long double>(static_cast<float>(std::atof(e)));
        const double apart = distance(got[i], std::pow(static_cast<long double>(x[i]), power));
        if (apart <= 2.5) continue;
        CAPTURE(level, x[i], e, got[i], apart);
        FAIL_CHECK("another power");
      }
    }
  }
}

TEST_CASE("large angles alone call the C library") {
  auto program = loops::parseProgram("loops 1\ninput x: f32[64]\noutput y: f32[64]\nnest i < 64\n  y[i] = sin(x[i])\n");
  REQUIRE(program);
  const auto code = makeCpuCode(std::move(*program), {});
  REQUIRE(code);
  // The calls stand in a loop of their own, which runs no iteration where no angle is large.
  const size_t vectors = code->ir.find("\nbody0:"), rare = code->ir.find("\nbody1:"),
               call = code->ir.find("@sinf(float %");
  REQUIRE(rare != std::string::npos);
  CHECK(vectors < rare);
  CHECK(rare < call);
  CHECK(call != std::string::npos);
}
