#include "core/torch/executor.h"

#include <ATen/ops/ones.h>

#include "core/text/text.h"
#include "core/torch/graph_in_dtype.h"
#include "core/torch/semantics.h"
#include "core/torch/values/values.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"

using namespace graft;
using test::graphOf;

namespace {

TensorSet inputsFor(const Graph& g, std::vector<std::string> specs = {}) {
  auto inputs = makeInputs(g, specs, 7);
  REQUIRE_RESULT(inputs);
  return *inputs;
}

TensorSet runGraph(const Graph& g, const TensorSet& inputs, RunOptions options = {}) {
  auto program = Program::build(g, options);
  REQUIRE_RESULT(program);
  auto out = program->run(inputs);
  REQUIRE_RESULT(out);
  return *out;
}

/// Both graphs compute the same from the same inputs.
void requireSame(std::string_view a, std::string_view b, std::vector<std::string> specs = {}) {
  const Graph ga = graphOf(a), gb = graphOf(b);
  const TensorSet inputs = inputsFor(ga, specs);
  for (const Difference& d : compareTensors(runGraph(ga, inputs), runGraph(gb, inputs))) {
    INFO(d.name << " " << d.type << ": " << d.why);
    REQUIRE(d.passed);
  }
}

/// All places masked, by float32's largest number, and a cast that is spelled out.
constexpr std::string_view maskedScores = R"(graph g {
    input %x : f32[4]
    %m = aten.mul.Tensor(%x, -3.4028234663852886e+38)
    %s = aten.softmax.int(%m, -1, torch.float32)
    return %s
  })";

std::string failure(const Graph& g, const TensorSet& inputs) {
  auto program = Program::build(g);
  if (!program) return program.error().message;
  auto out = program->run(inputs);
  REQUIRE_FALSE(out);
  CHECK(out.error().kind == ErrorKind::BadInput);
  return out.error().message;
}

}  // namespace

TEST_CASE("a program computes what its graph says") {
  const Graph g = graphOf(R"(graph g {
    input %x : f32[2,3]
    %a = aten.add.Tensor(%x, 1)
    %r = aten.relu.default(%a)
    %s = aten.sub.Tensor(%r, %a)
    return %s, [%r, %x], 3
  })");
  const TensorSet out = runGraph(g, inputsFor(g, {"f32[2,3]:full(-3)"}));
  REQUIRE(out.describe() == std::vector<std::string>{"f32[2,3]", "[f32[2,3], f32[2,3]]", "3"});
}

TEST_CASE("a number given to a tensor parameter does not promote half precision") {
  const Graph g = graphOf("graph g {\n input %x : f16[4]\n %y = aten.div.Tensor(%x, 8.0)\n return %y\n}");
  REQUIRE(runGraph(g, inputsFor(g)).describe() == std::vector<std::string>{"f16[4]"});
}

TEST_CASE("values used twice by one node, and again later, arrive whole") {
  requireSame(R"(graph g {
    input %x : f32[4]
    %a = aten.tanh.default(%x)
    %b = aten.mul.Tensor(%a, %a)
    %c = aten.cat.default([%b, %a, %b], dim=0)
    %d = aten.cat.default([%c, %b], dim=0)
    return %d
  })",
              R"(graph g {
    input %x : f32[4]
    %a = aten.tanh.default(%x)
    %b = aten.mul.Tensor(%a, %a)
    %d = aten.cat.default([%b, %a, %b, %b], dim=0)
    return %d
  })");
}

TEST_CASE("elements of lists are taken by index") {
  requireSame(R"(graph g {
    input %x : f32[6]
    %parts = aten.chunk.default(%x, 3)
    %a = prim.getitem(%parts, 0)
    %b = prim.getitem(%parts, -1)
    %c = aten.sub.Tensor(%a, %b)
    return %c
  })",
              R"(graph g {
    input %x : f32[6]
    %parts = aten.chunk.default(%x, 3)
    %b = prim.getitem(%parts, 2)
    %a = prim.getitem(%parts, 0)
    %c = aten.sub.Tensor(%a, %b)
    return %c
  })");
}

TEST_CASE("an in-place operator writes to the tensor it is given") {
  const Graph g = graphOf(R"(graph g {
    input %x : f32[2]
    %t = aten.tanh.default(%x)
    %n = aten.neg.default(%t)
    %w = aten.copy_.default(%t, %n)
    %d = aten.sub.Tensor(%t, %n)
    return %d
  })");
  const Graph zero = graphOf("graph g {\n input %x : f32[2]\n %d = aten.sub.Tensor(%x, %x)\n return %d\n}");
  const TensorSet inputs = inputsFor(g);
  REQUIRE(compareTensors(runGraph(zero, inputs), runGraph(g, inputs))[0].passed);
}

TEST_CASE("a condition takes one branch") {
  const char* text = R"(graph g {
    input %x : f32[3]
    input %c : bool
    %if = prim.If(%c) : tensor {
      %a = aten.relu.default(%x) : tensor
      return %a
    } {
      %b = aten.neg.default(%x) : tensor
      %b2 = aten.neg.default(%b) : tensor
      return %b2
    }
    %y = aten.sub.Tensor(%if, %x)
    return %y
  })";
  const Graph g = graphOf(text);
  const Graph zeros =
      graphOf("graph g {\n input %x : f32[3]\n input %c : bool\n %y = aten.sub.Tensor(%x, %x)\n return %y\n}");
  const TensorSet no = inputsFor(g, {"f32[3]:full(-1)", "b8[]:zeros"}),
                  yes = inputsFor(g, {"f32[3]:full(-1)", "b8[]:ones"});
  REQUIRE(compareTensors(runGraph(zeros, no), runGraph(g, no))[0].passed);
  REQUIRE(compareTensors(runGraph(zeros, no), runGraph(g, yes))[0].maxAbs == 1.0);
}

TEST_CASE("a loop carries values around and sees those outside") {
  const Graph g = graphOf(R"(graph g {
    input %x : f32[2]
    %one = aten.tanh.default(%x)
    %loop, %n = prim.Loop(5, True, %x, 0) : tensor, int {
      %i : int; %v : tensor; %k : int;
      %w = aten.add.Tensor(%v, %one) : tensor
      %w2 = aten.add.Tensor(%w, %i) : tensor
      return True, %w2, %i
    }
    return %loop, %n, %one
  })");
  const Graph flat = graphOf(R"(graph g {
    input %x : f32[2]
    %one = aten.tanh.default(%x)
    %five = aten.mul.Tensor(%one, 5)
    %y = aten.add.Tensor(%x, %five)
    %z = aten.add.Tensor(%y, 10)
    return %z, 4, %one
  })");
  const TensorSet inputs = inputsFor(g);
  for (const Difference& d : compareTensors(runGraph(flat, inputs), runGraph(g, inputs))) {
    INFO(d.name << " " << d.why);
    REQUIRE(d.passed);
  }
}

TEST_CASE("a list that begins empty does so in each turn and in each run") {
  const Graph g = graphOf(R"(graph g {
    input %x : f32[2]
    %all = prim.ListConstruct() : list[tensor]
    %lists = prim.ListConstruct([]) : list[list[tensor]]
    %inner = prim.getitem(%lists, 0) : list[tensor]
    !Loop = prim.Loop(3, True) {
      %i : int;
      %row = prim.ListConstruct() : list[tensor]
      %more = aten.append.t(%row, %x) : list[tensor]
      %y = aten.stack.default(%row) : tensor
      %grown = aten.append.t(%all, %y) : list[tensor]
      %deep = aten.append.t(%inner, %y) : list[tensor]
      return True
    }
    %n = aten.len.t(%all) : int
    %k = aten.len.t(%inner) : int
    %out = aten.cat.default(%all) : tensor
    return %out, %n, %k
  })");
  auto program = Program::build(g);
  REQUIRE_RESULT(program);
  for (int run = 0; run < 2; ++run) {
    auto out = program->run(inputsFor(g));
    REQUIRE_RESULT(out);
    CHECK(out->describe() == std::vector<std::string>{"f32[3,2]", "3", "3"});
  }
}

TEST_CASE("inputs of the wrong number, dtype or shape are refused with what is wanted") {
  const Graph g = graphOf(
      "graph g {\n input %input_ids : i64[2,9]\n input %m : f32[s0]\n %y = aten.neg.default(%m)\n return %y\n}");
  REQUIRE_THAT(failure(g, inputsFor(g, {"f32[2,9]", "f32[3]"})),
               ContainsSubstring("input 0 'input_ids' wants i64[2,9], got f32[2,9]"));
  REQUIRE_THAT(failure(g, inputsFor(g, {"i64[2,8]", "f32[3]"})),
               ContainsSubstring("input 0 'input_ids' wants i64[2,9], got i64[2,8]"));
  REQUIRE_THAT(failure(g, TensorSet{}), ContainsSubstring("takes 2 inputs ('input_ids' i64[2,9], 'm' f32[s0]), got 0"));
  RunOptions any;
  any.fixedShapes = false;
  runGraph(g, inputsFor(g, {"i64[2,8]", "f32[3]"}), any);
}

TEST_CASE("a failing operator is named with its source line and what it got") {
  const Graph g = graphOf(R"(graph g {
    input %x : f32[2,3]
    input %w : f32[4,5]
    %mm = aten.matmul.default(%x, %w) : tensor "model.py":12
    return %mm
  })");
  const std::string message = failure(g, inputsFor(g));
  REQUIRE_THAT(message, ContainsSubstring("mm (aten.matmul.default) at model.py:12 failed:"));
  REQUIRE_THAT(message, ContainsSubstring("it got (f32[2,3], f32[4,5])"));
}

TEST_CASE("an operator of one tensor that fails says what it got, and one that is called again gives a new tensor") {
  const Graph g = graphOf("graph g {\n input %x : f32[3]\n %t = aten.trace.default(%x)\n return %t\n}");
  const std::string message = failure(g, inputsFor(g));
  REQUIRE_THAT(message, ContainsSubstring("t (aten.trace.default) failed:"));
  REQUIRE_THAT(message, ContainsSubstring("it got (f32[3])"));
  requireSame(
      "graph g {\n input %x : f32[4]\n %a = aten.neg.default(%x)\n %b = aten.neg.default(%a)\n %c = "
      "aten.exp.default(%b)\n return %x, %a, %b, %c\n}",
      "graph g {\n input %x : f32[4]\n %a = aten.mul.Tensor(%x, -1.0)\n %b = aten.add.Tensor(%x, 0.0)\n %c = "
      "aten.exp.default(%x)\n return %x, %a, %b, %c\n}");
}

TEST_CASE("operators that this machine does not have are all named") {
  const Graph g = graphOf(
      "graph g {\n input %x : f32[2]\n %a = my.one.default(%x) : tensor\n %b = my.two.default(%a) : tensor\n return "
      "%b\n}");
  REQUIRE_THAT(failure(g, inputsFor(g)), ContainsSubstring("operators my.one.default, my.two.default"));
}

TEST_CASE("types seen in a run are written into the graph") {
  Graph g = graphOf(R"(graph g {
    input %x : tensor
    %h = aten.transpose.int(%x, 0, 1)
    %values, %indices = aten.max.dim(%h, dim=1)
    return %values
  })");
  const TensorSet inputs = inputsFor(g, {"f16[2,5]:randn"});
  REQUIRE(recordTypes(g, inputs));
  CHECK(toString(g.value(g.findValue("h")).type) == "f16[5,2]@cpu");
  CHECK(toString(g.value(g.findValue("indices")).type) == "i64[5]@cpu");
  CHECK(toString(g.value(g.findValue("x")).type) == "f16[2,5]@cpu");
}

TEST_CASE("a dict from Python's file, which does not say what it holds, leaves the graph's type") {
  Graph g = graphOf(R"(graph g {
    input %d : dict[str, tensor]
    %x = prim.getitem(%d, "x") : tensor
    %y = aten.relu.default(%x)
    return %y
  })");
  c10::impl::GenericDict untyped(c10::AnyType::get(), c10::AnyType::get());
  untyped.insert("x", at::ones({2}));
  const TensorSet inputs = tensorSet({untyped});
  REQUIRE_RESULT(recordTypes(g, inputs));
  CHECK(toString(g.value(g.findValue("d")).type) == "dict[str, tensor]");
  CHECK(toString(g.value(g.findValue("x")).type) == "f32[2]@cpu");
}

TEST_CASE("a tensor of one element that is given for a number is written down as the number") {
  Graph g = graphOf("graph g {\n input %x : tensor\n input %n : int\n %y = aten.mul.Scalar(%x, %n)\n return %y\n}");
  Graph tensors = graphOf("graph g {\n input %x : tensor\n input %n : tensor\n return %x, %n\n}");
  const TensorSet made = inputsFor(tensors, {"f32[2]:ones", "i64[]:full(3)"});
  REQUIRE(made.describe()[1] == "i64[]");
  REQUIRE_RESULT(recordTypes(g, made));
  CHECK(toString(g.value(g.findValue("n")).type) == "int");
  CHECK(inputsFor(g, {"f32[2]:ones", "i64[]:full(3)"}).describe()[1] == "3");
}

TEST_CASE("a program in another dtype follows with its casts and its mask numbers") {
  const Graph g = graphOf(maskedScores);
  RunOptions half, wide;
  half.dtype = DType::Float16;
  wide.dtype = DType::Float64;
  const TensorSet ones = inputsFor(g, {"f32[4]:ones"});
  REQUIRE(runGraph(g, *convert(ones, "cpu", DType::Float16), half).describe() == std::vector<std::string>{"f16[4]"});
  const TensorSet out = runGraph(g, *convert(ones, "cpu", DType::Float64), wide);
  REQUIRE(out.describe() == std::vector<std::string>{"f64[4]"});
  // All places masked alike: a quarter each, in half precision as well. Infinities would have given NaN.
  const auto d =
      compareTensors(*convert(out, "cpu", DType::Float16), runGraph(g, *convert(ones, "cpu", DType::Float16), half));
  REQUIRE(d[0].passed);
}

TEST_CASE("a graph written out in another dtype is what a program in that dtype runs") {
  const Graph g = graphOf(maskedScores);
  RunOptions half;
  half.dtype = DType::Float16;
  const auto written = inDType(g, DType::Float16);
  REQUIRE_RESULT(written);
  CHECK(written->rewroteArguments);
  const TensorSet ones = *convert(inputsFor(g, {"f32[4]:ones"}), "cpu", DType::Float16);
  const TensorSet a = runGraph(written->graph, ones), b = runGraph(g, ones, half);
  CHECK(a.describe() == std::vector<std::string>{"f16[4]"});
  CHECK(b.describe() == std::vector<std::string>{"f16[4]"});
  const auto d = compareTensors(a, b);
  CHECK(d[0].maxAbs == 0);
  const Graph plain = graphOf("graph g {\n input %x : f32[2]\n %a = aten.neg.default(%x)\n return %a\n}");
  CHECK_FALSE(inDType(plain, DType::Float16)->rewroteArguments);
}

TEST_CASE("what a graph says of values in between is of the dtype it is brought to") {
  const auto written = inDType(graphOf(R"(graph g {
    input %x : f32[4]
    input %n : i64[4]
    %a = aten.neg.default(%x) : f32[4]
    %parts = aten.chunk.default(%a, 2) : list[f32[2]]
    %wide = aten._to_copy.default(%a, dtype=torch.float64) : f64[4]
    %quotient = aten.div.Tensor(%n, 2) : f32[4]
    %same = aten.eq.Tensor(%a, %x) : b8[4]
    %own = my.one.default(%a) : f32[4]
    %behind = aten.neg.default(%own) : f32[4]
    %loop = prim.Loop(5, True, %x) : f32[4] {
      %i : int; %v : f32[4];
      %w = aten.add.Tensor(%v, %a) : f32[4]
      return True, %w
    }
    return %parts, %wide, %quotient, %same, %behind, %loop
  })"),
                               DType::Float16);
  REQUIRE_RESULT(written);
  const Graph& g = written->graph;
  const auto type = [&](std::string_view name) { return toString(g.value(g.findValue(name)).type); };
  for (std::string_view follows : {"x", "a", "own", "behind", "loop", "v", "w"}) {
    INFO(follows);
    CHECK(type(follows) == "f16[4]");
  }
  CHECK(type("parts") == "list[f16[2]]");
  CHECK(type("wide") == "f64[4]");
  CHECK(type("same") == "b8[4]");
  // What is made of whole numbers is in PyTorch's default dtype, whatever the model computes in.
  CHECK(type("quotient") == "f32[4]");
}

TEST_CASE("of a graph whose operators refuse the dtype it is brought to no types are known in between") {
  const auto semantics = makeTorchSemantics();
  const auto written = inDType(graphOf(R"(graph g {
    input %x : f32[2,2]
    %wide = aten._to_copy.default(%x, dtype=torch.float64) : f64[2,2]
    %product = aten.addmm.default(%x, %wide, %x) : f32[2,2]
    return %product
  })",
                                       semantics->operators()),
                               DType::Float16);
  REQUIRE_RESULT(written);
  const Graph& g = written->graph;
  CHECK(toString(g.value(g.findValue("x")).type) == "f16[2,2]");
  CHECK(toString(g.value(g.findValue("product")).type) == "tensor");
}

TEST_CASE("profiling times every node, observing shows every value") {
  const Graph g =
      graphOf("graph g {\n input %x : f32[2]\n %a = aten.neg.default(%x)\n %b = aten.tanh.default(%a)\n return %b\n}");
  auto program = Program::build(g);
  REQUIRE(program);
  std::vector<NodeTime> times;
  REQUIRE(program->profile(inputsFor(g), times));
  REQUIRE(times.size() == 2);
  CHECK(times[0].node == g.findNode("a"));
  CHECK(times[0].microseconds > 0);
  std::vector<std::string> seen;
  REQUIRE(program->observe(
      inputsFor(g), [&](ValueId v, const TensorSet& t) { seen.push_back(g.value(v).name + " " + t.describe()[0]); }));
  REQUIRE(seen == std::vector<std::string>{"a f32[2]", "b f32[2]"});
}

TEST_CASE("tensors that are more than their numbers are left to the dispatcher") {
  // Conjugated and negated views, sparse and quantized tensors: their kernels are not those of ordinary tensors.
  requireSame(R"(graph g {
    input %x : c64[4]
    %c = aten._conj.default(%x)
    %n = aten._neg_view.default(%c)
    %sum = aten.add.Tensor(%c, %x)
    %both = aten.mul.Tensor(%n, %c)
    %real = aten.view_as_real.default(%both)
    return %sum, %real
  })",
              R"(graph g {
    input %x : c64[4]
    %c = aten.conj_physical.default(%x)
    %n = aten.neg.default(%c)
    %sum = aten.add.Tensor(%x, %c)
    %both = aten.mul.Tensor(%c, %n)
    %real = aten.view_as_real.default(%both)
    return %sum, %real
  })");
  requireSame(R"(graph g {
    input %x : f32[3,3]
    %s = aten.to_sparse.default(%x)
    %d = aten.add.Tensor(%s, %s)
    %y = aten.to_dense.default(%d)
    return %y
  })",
              R"(graph g {
    input %x : f32[3,3]
    %y = aten.add.Tensor(%x, %x)
    return %y
  })");
  requireSame(R"(graph g {
    input %x : f32[4]
    %q = aten.quantize_per_tensor.default(%x, 0.5, 0, torch.quint8)
    %r = aten.relu.default(%q)
    %y = aten.dequantize.self(%r)
    return %y
  })",
              R"(graph g {
    input %x : f32[4]
    %q = aten.quantize_per_tensor.default(%x, 0.5, 0, torch.quint8)
    %y = aten.dequantize.self(%q)
    return %y
  })",
              {"f32[4]:full(3)"});
}
