// Comparing tensors, proving rewrites, timing, and making inputs.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "core/formats/export.h"
#include "core/text/text.h"
#include "core/torch/bench.h"
#include "core/torch/executor.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"
#include "core/torch/values/values.h"
#include "core/torch/verification.h"
#include "core/torch/verify/within.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using test::graphOf;

namespace {

/// One tensor from a specification.
TensorSet make(const std::string& spec, uint64_t seed = 1) {
  const Graph g = graphOf("graph g {\n input %x : tensor\n return %x\n}");
  auto made = makeInputs(g, {spec}, seed);
  REQUIRE_RESULT(made);
  return *made;
}

Difference difference(const TensorSet& expected, const TensorSet& actual, const TensorSet* reference = nullptr) {
  const auto all = compareTensors(expected, actual, reference);
  REQUIRE(all.size() == 1);
  return all[0];
}

}  // namespace

TEST_CASE("equal tensors have no difference, in any dtype") {
  for (const char* spec : {"f32[3,5]:randn", "f16[7]:randn", "bf16[2,2]:randn", "i64[4]:randint(0,9)", "b8[3]:ones",
                           "f32[0,4]", "f64[]:full(2)"}) {
    const Difference d = difference(make(spec), make(spec));
    INFO(spec << " " << d.why);
    CHECK(d.passed);
    CHECK(d.maxAbs == 0);
    CHECK(d.cosine == 1);
    CHECK(d.ulpHistogram.size() <= 1);
  }
}

TEST_CASE("differences are measured and the worst place is named") {
  const Difference d = difference(make("f32[2,2]:full(2)"), make("f32[2,2]:full(3)"));
  CHECK_FALSE(d.passed);
  CHECK(d.maxAbs == 1);
  CHECK(d.maxRel == 0.5);
  CHECK(d.rmse == 1);
  CHECK(d.elements == 4);
  CHECK_THAT(d.why, ContainsSubstring("4 of 4 elements") && ContainsSubstring("the worst at [0,0]: 3, expected 2"));
  // 2 and 3 are 2^22 floats apart: bucket 23 counts [2^22, 2^23).
  REQUIRE(d.ulpHistogram.size() == 24);
  CHECK(d.ulpHistogram[23] == 4);
}

TEST_CASE("units in the last place are counted across zero") {
  const Graph g = graphOf("graph g {\n input %x : f32[1]\n %y = aten.neg.default(%x)\n return %y\n}");
  auto p = Program::build(g);
  REQUIRE(p);
  const TensorSet zero = make("f32[1]:zeros");
  const Difference d = difference(zero, *p->run(zero));
  CHECK(d.passed);
  CHECK(d.ulpHistogram == std::vector<uint64_t>{1});  // -0 and 0 are the same number
}

TEST_CASE("a NaN where there was a number does not pass") {
  const Graph g = graphOf("graph g {\n input %x : f32[2]\n %y = aten.div.Tensor(%x, %x)\n return %y\n}");
  auto p = Program::build(g);
  REQUIRE(p);
  const Difference d = difference(make("f32[2]:ones"), *p->run(make("f32[2]:zeros")));
  CHECK_FALSE(d.passed);
  CHECK_FALSE(d.sameNonFinite);
  CHECK_THAT(d.why, ContainsSubstring("at [0] it is nan, expected 1"));
  CHECK(difference(*p->run(make("f32[2]:zeros")), *p->run(make("f32[2]:zeros"))).passed);
}

TEST_CASE("with a reference, what counts is who is nearer to it") {
  const TensorSet exact = *convert(make("f32[64]:randn"), "cpu", DType::Float64);
  const TensorSet good = make("f32[64]:randn"),
                  rounded = *convert(*convert(good, "cpu", DType::BFloat16), "cpu", DType::Float32);
  const Difference d = difference(rounded, good, &exact);
  CHECK(d.passed);
  CHECK(*d.rmseRatio == 0);
  const Difference worse = difference(good, make("f32[64]:randn", 2), &exact);
  CHECK_FALSE(worse.passed);
  CHECK_THAT(worse.why, ContainsSubstring("RMSE to the fp64 reference"));
}

TEST_CASE("a number beside tensors is judged as a tensor of float32 is") {
  const auto number = [](double n) { return tensorSet({c10::IValue(n)}); };
  const auto nan = number(std::numeric_limits<double>::quiet_NaN());
  CHECK(difference(number(42.0436478F), number(42.0436516F)).passed);
  CHECK_FALSE(difference(number(42.0436478F), number(42.2F)).passed);
  // float32 holds no such number: it was one of float64.
  CHECK_FALSE(difference(number(0.1), number(0.100001)).passed);
  CHECK(difference(nan, nan).passed);
  CHECK_FALSE(difference(number(1), nan).passed);
  // The original's own error is what counts where fp64 says more.
  const TensorSet exact = number(1000.5);
  CHECK(difference(number(1000), number(1001), &exact).passed);
  CHECK_FALSE(difference(number(1000.4999), number(1001), &exact).passed);
  CHECK_FALSE(difference(tensorSet({c10::IValue(int64_t{3})}), tensorSet({c10::IValue(int64_t{4})})).passed);
}

TEST_CASE("where the original happens to be exact, one rounding is allowed, and not two") {
  const auto filled = [](double value, at::ScalarType type) {
    return tensorSet({at::full({3}, value, at::TensorOptions(type))});
  };
  for (const auto& [type, unit] :
       {std::pair{at::kBFloat16, 1.0 / 32}, {at::kHalf, 1.0 / 256}, {at::kFloat, std::ldexp(1.0, -21)}}) {
    const TensorSet original = filled(7, type), exact = filled(7, at::kDouble);
    for (const bool ofElements : {false, true}) {
      const auto judged = [&](double value) {
        const TensorSet actual = filled(value, type);
        return (ofElements ? compareElements(original, actual, &exact) : compareTensors(original, actual, &exact))[0];
      };
      CHECK(judged(7 + unit).passed);
      CHECK(judged(7 - unit).passed);
      if (type != at::kFloat) CHECK_FALSE(judged(7 + 2 * unit).passed);
    }
  }
  const TensorSet far = filled(300, at::kFloat), exact = filled(300, at::kDouble);
  CHECK_FALSE(compareTensors(far, filled(300.001, at::kFloat), &exact)[0].passed);
}

TEST_CASE("a number where the original overflowed passes if fp64 computes it") {
  const Graph g = graphOf(R"(graph g {
    input %x : f16[4]
    %big = aten.mul.Scalar(%x, other=60000.0)
    %bigger = aten.mul.Scalar(%big, other=2.0)
    %y = aten.sub.Tensor(%bigger, %bigger, alpha=1)
    return %y
  })");
  auto p = Program::build(g);
  REQUIRE(p);
  const TensorSet nan = *p->run(make("f16[4]:ones")), exact = make("f64[4]:zeros");
  const Difference d = difference(nan, make("f16[4]:zeros"), &exact);
  CHECK(d.passed);
  CHECK_THAT(d.why, ContainsSubstring("4 of 4 elements, not finite in the original, are what fp64 computes"));
  const Difference both = difference(nan, nan, &exact);
  CHECK(both.passed);
  CHECK(both.overflowed == 4);
  CHECK(both.nothingCompared);
  CHECK_FALSE(both.measured);
  CHECK(both.why == "nothing was compared: all 4 elements are NaN, as in the original, where fp64 computes numbers");
  const Difference wrong = difference(nan, make("f16[4]:ones"), &exact);
  CHECK_FALSE(wrong.passed);
  CHECK_THAT(wrong.why, ContainsSubstring("4 elements are not finite in the original; the RMSE"));
  CHECK_FALSE(difference(nan, make("f16[4]:zeros")).passed);  // nobody says what is right
}

TEST_CASE("NaN and infinities on both sides are no numbers that agree") {
  const auto of = [](std::vector<double> values) { return tensorSet({at::tensor(values).to(at::kFloat)}); };
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const TensorSet allNaN = of({nan, nan, nan}), infinite = of({inf, -inf, inf}), masked = of({1, 2, 3, -inf}),
                  mostly = of({nan, nan, nan, 1}), numbers = of({1, 2, 3, 4});
  Difference d = difference(allNaN, allNaN, &allNaN);
  CHECK(d.passed);
  CHECK(d.nothingCompared);
  CHECK(d.nonFinite == 3);
  CHECK(d.overflowed == 0);
  CHECK(d.why == "nothing was compared: all 3 elements are NaN, as in the original, and in fp64");
  CHECK(difference(allNaN, allNaN).why == "nothing was compared: all 3 elements are NaN, as in the original");
  // An infinity that fp64 computes, too, is a result.
  d = difference(infinite, infinite, &infinite);
  CHECK(d.passed);
  CHECK_FALSE(d.nothingCompared);
  CHECK(difference(infinite, infinite).nothingCompared);
  // A part that is masked is not worth a word, one that leaves little to compare is.
  d = difference(masked, masked, &masked);
  CHECK(d.passed);
  CHECK(d.measured);
  CHECK(d.nonFinite == 1);
  CHECK(d.why == "");
  CHECK(notCompared({d}).empty());
  d = difference(mostly, mostly, &mostly);
  CHECK(d.passed);
  CHECK_FALSE(d.nothingCompared);
  CHECK(d.why == "3 of 4 elements are NaN, as in the original, and in fp64");
  d = difference(mostly, mostly, &numbers);
  CHECK(d.passed);
  CHECK(d.why == "3 of 4 elements are NaN, as in the original, where fp64 computes numbers");
  CHECK(notCompared({d}).size() == 1);
}

TEST_CASE("outputs count as compared where one of them has numbers") {
  const auto output = [](const char* name, bool nothing) {
    Difference d;
    d.name = name;
    d.elements = 4;
    d.passed = true;
    d.nothingCompared = nothing;
    return d;
  };
  CHECK(nothingCompared({output("0", true)}));
  CHECK(nothingCompared({output("0", true), output("1.logits", true)}));
  CHECK(nothingCompared({output("0", true), output("buffer steps", false)}));
  CHECK_FALSE(nothingCompared({output("0", true), output("1", false)}));
  CHECK_FALSE(nothingCompared({}));
}

TEST_CASE("the operator is named that overflows on the way to an output") {
  const auto lines = [](const char* factor) {
    return fmt::format(R"(graph g {{
    input %x : f16[4]
    %mask = aten.mul.Scalar(%x, other=-100000.0)
    %weights = aten.softmax.int(%mask, dim=0, dtype=None)
    %shifted = aten.add.Scalar(%weights, other=1.0, alpha=1)
    %big = aten.mul.Scalar(%shifted, other={})
    %sum = aten.add.Scalar(%big, other=1.0, alpha=1)
    %y = aten.sub.Tensor(%sum, %sum, alpha=1)
    return %y
  }})",
                       factor);
  };
  const TensorSet x = tensorSet({at::tensor({0.0, 0.0, 1.0, 1.0}).to(at::kHalf)});  // the mask hides the last two
  const Graph fits = graphOf(lines("100.0")), overflows = graphOf(lines("1000000.0"));
  CHECK_FALSE(findOverflow(fits, x));
  const auto found = findOverflow(overflows, x);
  REQUIRE(found);
  CHECK(found->node == "big");
  CHECK(found->op == "aten.mul.Scalar");
  CHECK(found->elements == 4);
  CHECK(overflowText(*found) == "the first that overflows is `big` (aten.mul.Scalar)");
  const auto v = verifyRewrite(overflows, overflows, x);
  REQUIRE_RESULT(v);
  CHECK(v->passed);
  CHECK(v->nothingCompared());
  REQUIRE(v->overflow);
  CHECK(v->overflow->node == "big");
  CHECK_THAT(notCompared(v->outputs).at(0), ContainsSubstring("bfloat16 and float32 (--dtype) have a wider range"));
}

TEST_CASE("a half may round to infinity where fp64 computes more than it holds, and nowhere else") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto passes = [](double expected, double actual, double reference) {
    const TensorSet e = tensorSet({at::tensor({1.0, expected}, at::kDouble).to(at::kHalf)}),
                    a = tensorSet({at::tensor({1.0, actual}, at::kDouble).to(at::kHalf)}),
                    r = tensorSet({at::tensor({1.0, reference}, at::kDouble)});
    const auto all = compareElements(e, a, &r);
    REQUIRE(all.size() == 1);
    return all[0].passed;
  };
  CHECK(passes(-65504, -inf, -65521));
  CHECK_FALSE(passes(-65504, -inf, -65504));  // what marks masked places
  CHECK_FALSE(passes(-65504, inf, -65521));
  CHECK_FALSE(passes(1000, inf, 1000));
}

TEST_CASE("an element may be what the original gives for neighbouring inputs, and no other may") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto set = [](const std::vector<double>& elements) { return tensorSet({at::tensor(elements, at::kFloat)}); };
  const std::vector<TensorSet> runs{set({1, 5, 7, inf, 3}), set({1, 6, 7, 2, 3})};
  CHECK(isAmong(runs, set({1, 5.5, 7, inf, 3})));
  CHECK(isAmong(runs, set({1, 6.9, 7, -40, 3})));      // as far out as they lie apart; any number where one is infinite
  CHECK_FALSE(isAmong(runs, set({1, 7.1, 7, 2, 3})));  // farther
  CHECK_FALSE(isAmong(runs, set({1.01, 5, 7, 2, 3})));  // where they agree, the tolerance decides
  CHECK_FALSE(isAmong(runs, set({1, 5, 7, 2, inf})));
  CHECK_FALSE(isAmong(runs, set({1, 5, 7, 2})));
}

TEST_CASE("a comparison says the same on any number of threads") {
  const int before = at::get_num_threads();
  const auto compared = [&](int threads, const at::Tensor& e, const at::Tensor& a, const at::Tensor& r,
                            bool ofElements) {
    at::set_num_threads(threads);
    const TensorSet expected = tensorSet({e}), actual = tensorSet({a}), reference = tensorSet({r});
    const auto all = ofElements ? compareElements(expected, actual, r.defined() ? &reference : nullptr)
                                : compareTensors(expected, actual, r.defined() ? &reference : nullptr);
    REQUIRE(all.size() == 1);
    return all[0];
  };
  constexpr int64_t n = 1'000'003, early = 300'000, late = 900'001;  // a rest, and several parts for each thread
  const at::Tensor exact = at::randn({n}, at::kDouble), noise = at::randn({n}, at::kDouble) * 1e-8;
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble})
    for (const bool ofElements : {false, true})
      for (const bool isReferenced : {false, true})
        for (const double wrong : {0.0, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
          const at::Tensor e = exact.to(type), a = (exact + noise).to(type);
          if (wrong != 0)
            for (const int64_t i : {late, early}) a.select(0, i).fill_(wrong + 100);
          const at::Tensor r = isReferenced ? exact : at::Tensor();
          const Difference one = compared(1, e, a, r, ofElements);
          INFO(at::toString(type) << " elements " << ofElements << " reference " << isReferenced << " wrong " << wrong
                                  << ": " << one.why);
          if (wrong != 0) {
            CHECK_FALSE(one.passed);
            CHECK(one.element == fmt::format("[{}]", early));
          }
          uint64_t counted = 0;
          for (const uint64_t count : one.ulpHistogram) counted += count;
          CHECK(counted == (ofElements ? 0 : n));
          for (const int threads : {2, 5}) {
            const Difference more = compared(threads, e, a, r, ofElements);
            CHECK(more.maxAbs == one.maxAbs);
            CHECK(more.maxRel == one.maxRel);
            CHECK(more.rmse == one.rmse);
            CHECK(more.rmseRatio == one.rmseRatio);
            CHECK(more.cosine == one.cosine);
            CHECK(more.ulpHistogram == one.ulpHistogram);
            CHECK(more.sameNonFinite == one.sameNonFinite);
            CHECK(more.passed == one.passed);
            CHECK(more.element == one.element);
            CHECK(more.expected == one.expected);
            CHECK(more.actual == one.actual);
            CHECK(more.why == one.why);
          }
        }
  at::set_num_threads(before);
}

TEST_CASE("other shapes, dtypes and numbers of outputs do not pass") {
  CHECK_THAT(difference(make("f32[2]"), make("f32[3]")).why, ContainsSubstring("got f32[3], expected f32[2]"));
  CHECK_FALSE(difference(make("f32[2]"), make("f32[3]")).measured);
  CHECK_THAT(difference(make("f32[2]"), make("i64[2]:zeros")).why, ContainsSubstring("got i64[2], expected f32[2]"));
  const auto missing = compareTensors(make("f32[2]"), TensorSet{});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].why == "it is missing");
}

TEST_CASE("of another floating-point dtype the numbers are compared by the coarser one's tolerance, and do not pass") {
  const TensorSet wide = make("f32[64]:randn"), half = *convert(wide, "cpu", DType::Float16),
                  exact = *convert(wide, "cpu", DType::Float64);
  for (const TensorSet* reference : {static_cast<const TensorSet*>(nullptr), &exact})
    for (const auto& [expected, actual] : {std::pair(&wide, &half), std::pair(&half, &wide)}) {
      const Difference d = difference(*expected, *actual, reference);
      INFO(d.why);
      CHECK_FALSE(d.passed);
      CHECK(d.dtypeAlone);
      CHECK(d.measured);
      CHECK(d.maxAbs > 1e-5);
      CHECK(d.maxAbs < 1e-2);
      CHECK(d.ulpHistogram.empty());
      CHECK(d.actualType == actual->describe()[0]);
      CHECK_THAT(d.why,
                 StartsWith("got " + d.actualType + ", expected " + d.type + "; as numbers they agree by f16's"));
    }
  const Difference other = difference(wide, *convert(make("f32[64]:randn", 2), "cpu", DType::Float16), &exact);
  CHECK_FALSE(other.dtypeAlone);
  CHECK_THAT(other.why, ContainsSubstring("as numbers they differ too by f16's tolerance: RMSE to the fp64 reference"));
}

TEST_CASE("inputs are made from specifications, the same for a seed") {
  CHECK(make("f16[2,3]:rand").describe()[0] == "f16[2,3]");
  CHECK(difference(make("f32[9]:randn", 5), make("f32[9]:randn", 5)).passed);
  CHECK_FALSE(difference(make("f32[9]:randn", 5), make("f32[9]:randn", 6)).passed);
  const Graph g = graphOf("graph g {\n input %x : tensor\n return %x\n}");
  CHECK_THAT(makeInputs(g, {"f32[2]:gauss"}, 1).error().message, ContainsSubstring("'gauss' is no way to fill"));
  CHECK_THAT(makeInputs(g, {"[2]"}, 1).error().message, ContainsSubstring("write it like"));
  CHECK_THAT(makeInputs(g, {"f32[2]", "f32[2]"}, 1).error().message,
             ContainsSubstring("2 input specifications for a model that takes 1"));
  CHECK_THAT(makeInputs(g, {}, 1).error().message,
             ContainsSubstring("input 0 'x' is tensor: its dtype and shape are not known"));
}

TEST_CASE("sizes that a file leaves open are made up within its ranges, and agree with each other") {
  const Graph g = graphOf(
      "graph g {\n symbol s0 [5, inf]\n symbol s1 [0, 1]\n input %x : f32[s0,s1,s2]\n input %y : f32[s0 - 2,2*s2]\n"
      " input %s0 : int\n input %n : int\n return %x\n}");
  const auto inputs = makeInputs(g, {}, 1);
  REQUIRE_RESULT(inputs);
  CHECK(fmt::format("{}", fmt::join(inputs->describe(), " ")) == "f32[5,1,2] f32[3,4] 5 2");
}

TEST_CASE("a specification stands in its place or names its input, and numbers are numbers") {
  const Graph g = graphOf(
      "graph g {\n input %x : f32[2]\n input %n : int\n input %p : float\n input %b : bool\n input %o : "
      "optional[int]\n return "
      "%x\n}");
  const auto made = [&](const std::vector<std::string>& specs) {
    auto inputs = makeInputs(g, specs, 1);
    REQUIRE_RESULT(inputs);
    return fmt::format("{}", fmt::join(inputs->describe(), " "));
  };
  CHECK(made({"f32[3]", "7", "2", "false", "None"}) == "f32[3] 7 2 False None");
  CHECK(made({"n=7"}) == "f32[2] 7 1 True 2");
  CHECK(made({"o=4", "x=f32[5]:zeros"}) == "f32[5] 2 1 True 4");
  CHECK(made({"p=0.5", "f32[3]", "9"}) == "f32[3] 9 0.5 True 2");
  const auto refusal = [&](const std::vector<std::string>& specs) {
    const auto inputs = makeInputs(g, specs, 1);
    return inputs ? "" : inputs.error().message;
  };
  CHECK_THAT(refusal({"m=3"}), ContainsSubstring("no input 'm'; it has x, n, p, b, o"));
  CHECK_THAT(refusal({"n=3", "n=4"}), ContainsSubstring("given twice"));
  CHECK_THAT(refusal({"n=0.5"}), ContainsSubstring("'n' is int, not 0.5"));
  CHECK_THAT(refusal({"x=3"}), ContainsSubstring("'x' is f32[2], not 3"));
  CHECK_THAT(refusal({"b=1"}), ContainsSubstring("'b' is bool, not 1"));
  CHECK_THAT(refusal({"n=None"}), ContainsSubstring("not None"));
  CHECK_THAT(refusal({"1", "2"}), ContainsSubstring("2 input specifications for a model that takes 5"));
}

TEST_CASE("where the original's own error is a matter of luck, its neighbours say what is allowed") {
  // The fractions of large numbers: exact as they are, and far apart for inputs that are a unit in the last place
  // apart. The given inputs are too small for that, those ten times as large are not.
  const auto model = [](const std::string& x, const std::string& last) {
    return "graph g {\n input %x : f32[64,64]\n" + x +
           " %size = aten.abs.default(%z)\n %large = aten.gt.Scalar(%size, 3.5)\n %one = aten.ones_like.default(%z)\n"
           " %many = aten.mul.Tensor(%one, 1048576.0)\n %factor = aten.where.self(%large, %many, %one)\n"
           " %scaled = aten.mul.Tensor(%z, %factor)\n %y = aten.frac.default(%scaled)\n" +
           last + "}";
  };
  const std::string same = " %z = aten.mul.Tensor(%x, 1.0)\n", near = " %z = aten.mul.Tensor(%x, 1.00000012)\n";
  const Graph before = graphOf(model(same, " return %y\n"));
  const TensorSet inputs = make("f32[64,64]:rand");
  auto sensitive = verifyRewrite(before, graphOf(model(near, " return %y\n")), inputs);
  REQUIRE(sensitive);
  INFO(sensitive->why);
  CHECK(sensitive->passed);
  // What is off by more than that is still refused.
  const std::string wrong = " %f = aten.to.dtype(%large, torch.float32)\n %w = aten.add.Tensor(%y, %f, alpha=8)\n";
  auto bad = verifyRewrite(before, graphOf(model(near, wrong + " return %w\n")), inputs);
  REQUIRE(bad);
  CHECK_FALSE(bad->passed);
  CHECK(bad->why.starts_with("on random inputs ten times as large"));
}

TEST_CASE("a sound rewrite is verified, another is refused with the input that shows it") {
  const char* before =
      "graph g {\n input %x : f32[4,4]\n %a = aten.add.Tensor(%x, %x)\n %r = aten.relu.default(%a)\n return %r\n}";
  const char* same =
      "graph g {\n input %x : f32[4,4]\n %a = aten.mul.Tensor(%x, 2)\n %r = aten.relu.default(%a)\n return %r\n}";
  const char* wrong = "graph g {\n input %x : f32[4,4]\n %a = aten.add.Tensor(%x, %x)\n return %a\n}";
  auto good = verifyRewrite(graphOf(before), graphOf(same), make("f32[4,4]:randn"));
  REQUIRE(good);
  INFO(good->why);
  CHECK(good->passed);
  CHECK(good->inputSets >= 4);
  const auto inTime = [&](bool oneAtLeast) {
    return verifyRewrite(graphOf(before), graphOf(same), make("f32[4,4]:randn"), {}, {0, oneAtLeast});
  };
  for (const bool oneAtLeast : {true, false}) {  // the given inputs are always tried
    auto few = inTime(oneAtLeast);
    REQUIRE(few);
    CHECK(few->passed);
    CHECK(few->isOutOfTime);
    CHECK(few->inputSets == (oneAtLeast ? 2 : 1));
  }
  CHECK_FALSE(good->isOutOfTime);
  // On positive inputs relu does nothing: only the further inputs tell.
  auto bad = verifyRewrite(graphOf(before), graphOf(wrong), make("f32[4,4]:rand"));
  REQUIRE(bad);
  CHECK_FALSE(bad->passed);
  CHECK_THAT(bad->why, ContainsSubstring("output 0"));
}

TEST_CASE("corresponding values are compared and the first that diverges is found") {
  const Graph a =
      graphOf("graph g {\n input %x : f32[8]\n %h = aten.tanh.default(%x)\n %n = aten.neg.default(%h)\n return %n\n}");
  const Graph b =
      graphOf("graph g {\n input %x : f32[8]\n %h = aten.tanh.default(%x)\n %m = aten.relu.default(%h)\n return %m\n}");
  auto layers = compareLayers(a, b, make("f32[8]:randn"), {{"n", "m"}});
  REQUIRE(layers);
  REQUIRE(layers->size() == 2);
  CHECK((*layers)[0].difference.passed);
  CHECK((*layers)[1].original == "n");
  CHECK((*layers)[1].rewritten == "m");
  CHECK_FALSE((*layers)[1].difference.passed);
}

TEST_CASE("without names, values correspond by their numbers") {
  const Graph a = graphOf(
      "graph g {\n input %x : f32[32]\n %p = aten.tanh.default(%x)\n %q = aten.neg.default(%p)\n"
      " %r = aten.add.Tensor(%q, 2)\n return %r\n}");
  const Graph b = graphOf(
      "graph g {\n input %x : f32[32]\n %q = aten.tanh.default(%x)\n %u = aten.mul.Tensor(%q, -1.001)\n"
      " %r = aten.add.Tensor(%u, 2)\n return %r\n}");
  auto layers = compareLayers(a, b, make("f32[32]:randn"));
  REQUIRE(layers);
  REQUIRE(layers->size() == 3);
  CHECK((*layers)[0].original == "p");
  CHECK((*layers)[0].rewritten == "q");
  CHECK((*layers)[0].difference.passed);
  CHECK((*layers)[1].original == "q");
  CHECK((*layers)[1].rewritten == "u");
  CHECK_FALSE((*layers)[1].difference.passed);
}

TEST_CASE("pairs of programs are timed alternately") {
  const Graph fast = graphOf("graph g {\n input %x : f32[8]\n %h = aten.tanh.default(%x)\n return %h\n}");
  const Graph slow = graphOf(
      "graph g {\n input %x : f32[8]\n %a = aten.cat.default([%x, %x])\n %b = aten.cat.default([%a, %a])\n"
      " %c = aten.cat.default([%b, %b])\n %d = aten.cat.default([%c, %c])\n %e = aten.tanh.default(%d)\n return %e\n}");
  auto a = Program::build(slow), b = Program::build(fast);
  REQUIRE((a && b));
  const TensorSet inputs = make("f32[8]:randn");
  for (const int fewest : {3, usualPairs}) {
    auto few = timePaired(runnable(*a, inputs), runnable(*b, inputs), 0, {}, "", fewest);
    REQUIRE(few);
    CHECK(few->repetitions == fewest);
  }
  auto t = timePaired(*a, *b, inputs, 0.05);
  REQUIRE(t);
  CHECK(t->repetitions >= 5);
  CHECK(t->a.samplesMs.size() == t->b.samplesMs.size());
  CHECK(t->ratio > 1);
  CHECK(t->a.p10Ms <= t->a.medianMs);
  CHECK_THAT(t->protocol, ContainsSubstring("alternating pairs"));
  CHECK_FALSE(t->flushed);  // that is a GPU's cache
}

TEST_CASE("a timing is told by median and percentiles, and keeps its samples in their order") {
  const Timing t = timingOf({5, 1, 4, 2, 3});
  CHECK(t.medianMs == 3);
  CHECK(t.p10Ms == Approx(1.4));
  CHECK(t.p90Ms == Approx(4.6));
  CHECK(t.samplesMs == std::vector<double>{5, 1, 4, 2, 3});
}

TEST_CASE("a model with packed weights is timed by TorchScript as it runs elsewhere: packed") {
  REQUIRE(loadOperatorLibrary());
  const auto semantics = makeTorchSemantics();
  const auto ones = parseText("graph g {\n %w = aten.ones.default([64, 64])\n return %w\n}", semantics->operators());
  REQUIRE(ones);
  const auto weight = semantics->evaluate(*ones, ones->order().front());
  REQUIRE_RESULT(weight);
  Graph g = graphOf("graph g {\n input %x : f32[4,64]\n %y = graft.linear.default(%x, %x)\n return %y\n}");
  g.setArgument(g.order().front(), 1, Argument(g.addWeight("w", weight->front().type, weight->front().data)));
  test::TempDir dir;
  REQUIRE(exportModel(g, dir / "m.pt"));
  const auto function = [](const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    REQUIRE(found);
    return found;
  };
  reinterpret_cast<void (*)()>(function("graft_ops_forget_weights"))();
  const auto packedBytes = reinterpret_cast<int64_t (*)()>(function("graft_ops_packed_bytes"));
  REQUIRE(packedBytes() == 0);
  const auto run = frozenTorchScript(dir / "m.pt", make("f32[4,64]:randn"), {});
  REQUIRE_RESULT(run);
  REQUIRE((*run)());
  CHECK(packedBytes() >= 64 * 64 * 4);
}
