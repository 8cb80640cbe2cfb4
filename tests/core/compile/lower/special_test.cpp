// Special functions over all of their arguments, beside ATen's in f64, and what they give at the edges.

#include <ATen/ATen.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/torch/semantics.h"
#include "core/torch/tensors.h"
#include "core/torch/values/values.h"
#include "tests/core/compile/lower/torch_compare.h"
#include "tests/support/graphs.h"

using namespace graft;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Run {
  std::string by;
  at::Tensor result;
};

/// Of each way to run `call`, and last of LibTorch. It reads %a, %b, …
std::vector<Run> runsOf(const std::string& call, const std::vector<at::Tensor>& operands, DType dtype) {
  std::string text = "graph g {\n", name = "a";
  std::vector<c10::IValue> values;
  for (const at::Tensor& t : operands) {
    text += "  input %" + name + " : " + std::string(dtypeShort(dtype)) + "[" + std::to_string(t.numel()) + "]\n";
    ++name[0];
    values.emplace_back(t.to(torchDType(dtype)));
  }
  Graph g = test::graphOf(text + "  %result = " + call + "\n  return %result\n}\n", test::semantics().operators());
  std::vector<Type> types;
  for (const ValueId v : g.inputs()) types.push_back(g.value(v).type);
  REQUIRE_RESULT(inferAllTypes(g, types));
  const TensorSet inputs = tensorSet(std::move(values));
  REQUIRE_RESULT(test::completeTypes(g, inputs));
  const auto runs = test::runLowered(g, inputs);
  REQUIRE_RESULT(runs);
  std::vector<Run> out;
  for (const test::LoweredRun& r : *runs) out.push_back({r.by, valuesOf(r.outputs).front().toTensor()});
  return out;
}

/// Evenly from `from` to `to`, and ever closer to each of the places in `towards`, from both sides.
std::vector<double> spread(double from, double to, const std::vector<double>& towards) {
  std::vector<double> x;
  for (int i = 0; i <= 2000; ++i) x.push_back(from + (to - from) * i / 2000);
  for (const double place : towards)
    for (double off = 1; off > 1e-300; off /= 1.7)
      for (const double sign : {1.0, -1.0})
        if (const double v = place + sign * off; v >= from && v <= to) x.push_back(v);
  return x;
}

struct Function {
  std::string call;
  std::vector<double> x;
  double tolerance = 1e-12;  ///< of f64, relative; ATen's own error is part of it
  double least = 0;          ///< smaller results may be off by as much as one of this size: around roots
};

std::vector<Function> functions() {
  return {
      {"aten.digamma.default(%a)", spread(-9.99, 40, {0, 1, 10}), 1e-11, 1},
      {"aten.digamma.default(%a)", spread(1.2, 1.8, {}), 1e-12, 0.001},
      {"aten.digamma.default(%a)", spread(0, 1e6, {0})},
      {"aten.lgamma.default(%a)", spread(0, 40, {0, 1, 2, 3})},
      {"aten.lgamma.default(%a)", spread(-20, 0, {0, -1, -2}), 1e-12, 1},
      {"aten.lgamma.default(%a)", spread(0, 1e30, {0})},
      {"aten.polygamma.default(1, %a)", spread(-4.99, 60, {0.5}), 1e-8},
      {"aten.erfinv.default(%a)", spread(-1, 1, {0, 1, -1})},
      {"aten.special_erfcx.default(%a)", spread(-9.3, 60, {0})},
      {"aten.special_erfcx.default(%a)", spread(0, 1e30, {})},
      {"aten.special_erfcx.default(%a)", spread(-26.6, 0, {})},
      {"aten.special_ndtri.default(%a)", spread(0, 1, {0, 1, 0.5})},
      {"aten.special_log_ndtr.default(%a)", spread(-40, 10, {0, -1})},
      {"aten.special_log_ndtr.default(%a)", spread(-1e6, 0, {})},
      {"aten.i0.default(%a)", spread(-80, 80, {0, 8})},
      {"aten.special_i0e.default(%a)", spread(-300, 300, {0, 8})},
      {"aten.special_i1.default(%a)", spread(-80, 80, {0, 8})},
      {"aten.special_i1e.default(%a)", spread(-300, 300, {0, 8})},
  };
}

}  // namespace

TEST_CASE("special functions are as exact as their dtype") {
  for (const Function& f : functions())
    for (const DType d : {DType::Float32, DType::Float64}) {
      const bool isSingle = d == DType::Float32;
      const at::Tensor x = at::tensor(f.x, at::kDouble).to(torchDType(d));
      const at::Tensor exact = runsOf(f.call, {x}, DType::Float64).back().result;
      const double tolerance = isSingle ? 1e-6 : f.tolerance;
      const double tiny = isSingle ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
      const double huge = isSingle ? std::numeric_limits<float>::max() / 1.01 : kInfinity;
      for (const Run& run : runsOf(f.call, {x}, d)) {
        if (run.by == "LibTorch") continue;
        const at::Tensor got = run.result.to(at::kDouble);
        double worst = 0;
        for (int64_t i = 0; i < x.numel(); ++i) {
          const double e = exact[i].item<double>(), y = got[i].item<double>();
          // Beyond what the dtype has, the edges are compared below.
          if (!std::isfinite(e) || std::abs(e) > huge || std::abs(e) < tiny) continue;
          const double off = std::abs(y - e) / std::max(std::abs(e), f.least);
          worst = std::max(worst, off);
          INFO(f.call << " of " << dtypeShort(d) << " by " << run.by << " at " << x[i].item<double>() << ": " << y
                      << ", not " << e);
          if (!(off <= tolerance)) CHECK(off <= tolerance);
        }
        CHECK(worst <= tolerance);
        if (std::getenv("GRAFT_SHOW_ERRORS")) WARN(f.call << " " << dtypeShort(d) << " " << run.by << " " << worst);
      }
    }
}

TEST_CASE("special functions have PyTorch's infinities, NaN and zeros") {
  const std::vector<double> x{kInfinity, -kInfinity, kNaN,  0.0,       -0.0,       1.0,   -1.0, 2.0,
                              -2.0,      -1.5,       -7.0,  0.5,       -0.5,       89,    -89,  720,
                              -720,      1e6,        -1e6,  1e-30,     -1e-30,     1e-42, 1e17, -30,
                              40,        1.5e38,     -3e38, 1.0000001, 0.99999994, 8,     -8};
  for (const char* name :
       {"digamma.default(%a)", "polygamma.default(1, %a)", "lgamma.default(%a)", "mvlgamma.default(%a, 3)",
        "erfinv.default(%a)", "special_erfcx.default(%a)", "special_ndtri.default(%a)", "special_log_ndtr.default(%a)",
        "i0.default(%a)", "special_i0e.default(%a)", "special_i1.default(%a)", "special_i1e.default(%a)"})
    for (const DType d : {DType::Float32, DType::Float64}) {
      const std::string call = std::string("aten.") + name;
      const std::vector<Run> runs = runsOf(call, {at::tensor(x, at::kDouble)}, d);
      for (const Run& run : runs)
        for (size_t i = 0; i < x.size(); ++i) {
          const auto at = static_cast<int64_t>(i);
          const double y = run.result[at].item<double>(), e = runs.back().result[at].item<double>();
          INFO(call << " of " << dtypeShort(d) << " by " << run.by << " at " << x[i] << ": " << y << ", not " << e);
          const bool isSame = std::isfinite(e) && e != 0 ? std::abs(y - e) <= 2e-5 * std::abs(e)
                              : std::isnan(e)            ? std::isnan(y)
                                                         : y == e && std::signbit(y) == std::signbit(e);
          CHECK(isSame);
        }
    }
}

TEST_CASE("common divisors and neighbours are PyTorch's, of the least and the greatest numbers too") {
  for (const DType d : {DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64}) {
    const int64_t greatest = d == DType::UInt8 ? 255 : INT64_MAX >> (64 - 8 * dtypeSize(d));
    const int64_t least = d == DType::UInt8 ? 0 : -greatest - 1;
    std::vector<int64_t> a, b;
    for (const int64_t x : {least, least + 1, int64_t{-12}, int64_t{0}, int64_t{1}, int64_t{6}, int64_t{100}, greatest})
      // C++ has no quotient of the least number and -1, which PyTorch's lcm may compute.
      for (const int64_t y : {int64_t{0}, int64_t{3}, int64_t{-18}, int64_t{99}, int64_t{64}, least}) {
        a.push_back(x);
        b.push_back(y);
      }
    for (const char* call : {"aten.gcd.default(%a, %b)", "aten.lcm.default(%a, %b)"}) {
      const std::vector<Run> runs = runsOf(call, {at::tensor(a, at::kLong), at::tensor(b, at::kLong)}, d);
      for (const Run& run : runs) {
        INFO(call << " of " << dtypeShort(d) << " by " << run.by << "\n" << run.result << "\n" << runs.back().result);
        CHECK(at::equal(run.result, runs.back().result));
      }
    }
  }
  const std::vector<double> numbers{0.0, -0.0, 1.0, -1.0, kInfinity, -kInfinity, kNaN, 1e-45, 3e38, 1e-30, 2.5};
  std::vector<double> a, b;
  for (const double x : numbers)
    for (const double y : numbers) {
      a.push_back(x);
      b.push_back(y);
    }
  for (const DType d : {DType::Float32, DType::Float64}) {
    const std::vector<Run> runs =
        runsOf("aten.nextafter.default(%a, %b)", {at::tensor(a, at::kDouble), at::tensor(b, at::kDouble)}, d);
    for (const Run& run : runs) CHECK(at::allclose(run.result, runs.back().result, 0, 0, true));
  }
}
