// What of a float32 model stays in float32 in half precision, and that each operator gets operands of one dtype.
#include "core/torch/run/float32_parts.h"

#include <ATen/ops/linspace.h>

#include <memory>
#include <set>

#include "core/torch/executor.h"
#include "core/torch/graph_in_dtype.h"
#include "core/torch/semantics.h"
#include "core/torch/values/weight.h"
#include "tests/support/graphs.h"

using namespace graft;

namespace {

const Semantics& torchSemantics() {
  static const auto semantics = makeTorchSemantics();
  return *semantics;
}

Graph typed(const std::string& body) {
  Graph g = test::graphOf("graph g {\n" + body + "\n}", torchSemantics().operators());
  std::vector<Type> inputs;
  for (ValueId v : g.inputs()) inputs.push_back(g.value(v).type);
  const Status inferred = inferAllTypes(g, inputs);
  REQUIRE_RESULT(inferred);
  return g;
}

/// The names of the original's nodes that stay in float32.
std::set<std::string> kept(const Graph& g, DType to = DType::BFloat16) {
  std::set<std::string> out;
  const auto parts = keepFloat32(g, {modelDType(g), to});
  REQUIRE(parts);
  for (NodeId id : g.order())
    if (parts->keeps(id)) out.insert(g.node(id).name);
  return out;
}

using Names = std::set<std::string>;

TensorSet made(const Graph& g, std::vector<std::string> specs) {
  auto inputs = makeInputs(g, specs, 3);
  REQUIRE_RESULT(inputs);
  return *inputs;
}

TensorSet runIn(const Graph& g, const TensorSet& inputs, std::optional<DType> dtype) {
  RunOptions options;
  options.dtype = dtype;
  const auto program = Program::build(g, options);
  REQUIRE_RESULT(program);
  const auto there = convert(inputs, "cpu", dtype);
  REQUIRE_RESULT(there);
  auto out = program->run(*there);
  REQUIRE_RESULT(out);
  return *out;
}

/// How far the dtype's result is from float32's, at most.
double off(const Graph& g, const TensorSet& inputs, DType dtype) {
  const auto wide = convert(runIn(g, inputs, dtype), "cpu", DType::Float32);
  REQUIRE_RESULT(wide);
  const auto d = compareTensors(runIn(g, inputs, std::nullopt), *wide);
  CHECK(d[0].sameNonFinite);
  return d[0].maxAbs;
}

/// The root mean square of each row divides the row.
const std::string norm =
    " %s = aten.pow.Tensor_Scalar(%x, 2)\n %m = aten.mean.dim(%s, [-1], True)\n"
    " %e = aten.add.Tensor(%m, 1e-6)\n %r = aten.rsqrt.default(%e)\n %n = aten.mul.Tensor(%x, %r)\n";

const std::string rotary =
    " input %x : f32[1,300,4]\n %p = aten.arange.default(300, dtype=torch.float32)\n"
    " %u = aten.unsqueeze.default(%p, 1)\n %a = aten.mul.Tensor(%u, 0.7)\n %c = aten.cos.default(%a)\n"
    " %y = aten.mul.Tensor(%x, %c)\n return %y";

}  // namespace

TEST_CASE("operators without kernels in half precision run in float32, with all complex numbers") {
  const Graph g = typed(
      " input %x : f32[2,6]\n input %w : f32[2]\n %a = aten.sin.default(%x)\n"
      " %f = aten.fft_rfft.default(%a)\n %s = aten.mul.Tensor(%f, %f)\n %b = aten.fft_irfft.default(%s, 6)\n"
      " %d = aten.cdist.default(%b, %a)\n %c = aten.mul.Tensor(%d, %w)\n return %c");
  CHECK(kept(g, DType::Float16) == Names{"f", "s", "b", "d"});
  CHECK(off(g, made(g, {"f32[2,6]:ones", "f32[2]:ones"}), DType::Float16) < 0.1);
  // A traced file says no types: what is real again joins the model in its dtype.
  const Graph open = test::graphOf(
      "graph g {\n input %x : f32[2,6]\n %f = aten.fft_fftn.default(%x, None, [0, 1])\n %s = aten.mul.Tensor(%f, %f)\n"
      " %r = aten.real.default(%s)\n %o = aten.add.Tensor(%x, %r)\n %t = aten.relu.default(%o)\n return %t\n}",
      torchSemantics().operators());
  CHECK(kept(open, DType::Float16) == Names{"f", "s", "r"});
  CHECK(runIn(open, made(open, {"f32[2,6]:ones"}), DType::Float16).describe() == std::vector<std::string>{"f16[2,6]"});
  // Nor does any table say what these give.
  for (const char* call :
       {"aten.linalg_pinv.default(%x, 1e-15, False)", "aten.cholesky_solve.default(%x, %x, False)"}) {
    INFO(call);
    const Graph solved =
        test::graphOf(std::string("graph g {\n input %x : f32[3,3]\n %p = ") + call +
                          "\n %s = aten.mul.Tensor(%p, 2)\n %y = aten.matmul.default(%x, %s)\n return %y\n}",
                      torchSemantics().operators());
    CHECK(kept(solved, DType::BFloat16) == Names{"p", "s"});
    CHECK(runIn(solved, made(solved, {"f32[3,3]:ones"}), DType::BFloat16).describe() ==
          std::vector<std::string>{"bf16[3,3]"});
  }
}

TEST_CASE("operators without kernels in double precision run in float32, also of a model in half precision") {
  for (const std::string dtype : {"f32", "bf16"}) {
    INFO(dtype);
    const Graph g =
        test::graphOf("graph g {\n input %x : " + dtype + "[8,16]\n input %o : i32[2]\n weight %w \"w\" : " + dtype +
                          "[2,16,16]\n"
                          " %a = aten.sin.default(%x)\n"
                          " %p = aten._grouped_mm.default(%a, %w, %o, None, None)\n"
                          " %y = aten.add.Tensor(%p, %x)\n return %y\n}",
                      torchSemantics().operators());
    CHECK(kept(g, DType::Float64) == Names{"p"});
    const auto parts = keepFloat32(g, {modelDType(g), DType::Float64});
    REQUIRE(parts);
    const auto operand = [&](const char* name, size_t i) {
      const Node& n = parts->graph.node(parts->graph.findNode(name));
      return parts->graph.value(n.args[i].valueId()).type.tensorInfo.dtype;
    };
    CHECK(operand("p", 0) == DType::Float32);
    CHECK(operand("p", 1) == DType::Float32);
    CHECK(operand("y", 0) == DType::Float64);
  }
  // Experts that a pass has folded are buffers beside parameters.
  const Graph folded = typed(
      " input %x : bf16[8,16]\n input %o : i32[2]\n weight %v \"v\" : bf16[16]\n buffer %w \"w\" : bf16[2,16,16]\n"
      " %a = aten.mul.Tensor(%x, %v)\n %p = aten._grouped_mm.default(%a, %w, %o, None, None)\n return %p");
  const auto parts = keepFloat32(folded, {modelDType(folded), DType::Float64});
  REQUIRE(parts);
  CHECK_FALSE(parts->keepsWeight(folded.findWeight("w")));
}

TEST_CASE("nodes that a caller names stay in float32, and the others get casts") {
  const Graph g = typed(
      " input %x : f32[2,8]\n input %w : f32[8]\n %a = aten.mul.Tensor(%x, %w)\n %b = aten.exp.default(%a)\n"
      " %c = aten.mul.Tensor(%b, %w)\n return %c");
  const auto parts = keepFloat32(g, {DType::Float32, DType::Float16}, {g.findNode("b")});
  REQUIRE(parts);
  for (const char* name : {"a", "c"}) CHECK_FALSE(parts->keeps(g.findNode(name)));
  CHECK(parts->keeps(g.findNode("b")));
  CHECK(off(g, made(g, {}), DType::Float16) < 0.05);
}

TEST_CASE("what half precision cannot hold stays in float32 where outputs would be NaN") {
  const auto inRange = [](const Graph& g, const TensorSet& inputs) {
    const auto narrow = inDType(g, DType::Float16);
    REQUIRE_RESULT(narrow);
    const auto there = convert(inputs, "cpu", DType::Float16);
    REQUIRE_RESULT(there);
    CHECK_FALSE(givesFiniteOutputs(narrow->graph, *there));
    auto found = inDTypeWithinRange(g, DType::Float16, *there);
    if (found) {
      CHECK(givesFiniteOutputs(found->graph, *there));
      const auto wide = convert(runIn(found->graph, *there, std::nullopt), "cpu", DType::Float32);
      REQUIRE_RESULT(wide);
      const auto d = compareTensors(runIn(g, inputs, std::nullopt), *wide);
      CHECK(d[0].maxAbs < 0.01);
    }
    return found;
  };
  // A million divided by a million.
  const Graph large = typed(
      " input %x : f32[2,8]\n %a = aten.mul.Scalar(%x, 1000)\n %b = aten.mul.Scalar(%a, 1000)\n"
      " %m = aten.mean.dim(%b, [-1], True)\n %o = aten.div.Tensor(%b, %m)\n %p = aten.mul.Scalar(%o, 2)\n return %p");
  auto found = inRange(large, made(large, {"f32[2,8]:ones"}));
  REQUIRE(found);
  CHECK(found->nodes == std::vector<std::string>{"b", "m", "o"});
  // Operands that were rounded to zero before they are divided.
  const Graph small = typed(
      " input %x : f32[2,8]\n %a = aten.mul.Scalar(%x, 1e-5)\n %b = aten.mul.Tensor(%a, %a)\n"
      " %c = aten.abs.default(%b)\n %o = aten.div.Tensor(%c, %b)\n return %o");
  found = inRange(small, made(small, {"f32[2,8]:ones"}));
  REQUIRE(found);
  CHECK(found->nodes == std::vector<std::string>{"b", "c", "o"});
  // The output itself is too large.
  const Graph hopeless = typed(" input %x : f32[2,8]\n %o = aten.mul.Scalar(%x, 1000000)\n return %o");
  CHECK_FALSE(inRange(hopeless, made(hopeless, {"f32[2,8]:ones"})));
  CHECK(givesFiniteOutputs(hopeless, made(hopeless, {"f32[2,8]:ones"})));
}

TEST_CASE("what comes from whole numbers alone stays in float32 until it meets the model") {
  const Graph g = typed(rotary);
  CHECK(kept(g) == Names{"p", "u", "a", "c"});
  // bfloat16 has no 257: angles would be off by whole turns.
  CHECK(off(g, made(g, {"f32[1,300,4]:ones"}), DType::BFloat16) < 0.01);
  CHECK(runIn(g, made(g, {}), DType::BFloat16).describe() == std::vector<std::string>{"bf16[1,300,4]"});
}

TEST_CASE("what is looked up by whole numbers in a parameter is the model's") {
  const Graph g = typed(
      " input %i : i64[3]\n weight %w \"w\" : f32[9,4]\n %e = aten.embedding.default(%w, %i)\n"
      " %t = aten.tanh.default(%e)\n return %t");
  CHECK(kept(g).empty());
}

TEST_CASE("squares that are summed up do not overflow, and the model goes on in its own dtype") {
  const Graph g =
      typed(" input %x : f32[2,8]\n weight %w \"w\" : f32[8]\n" + norm + " %o = aten.mul.Tensor(%n, %w)\n return %o");
  CHECK(kept(g, DType::Float16) == Names{"s", "m", "e", "r", "n"});
  const Graph alone = typed(" input %x : f32[2,8]\n" + norm + " return %n");
  const auto rows = convert(made(alone, {"f32[2,8]:ones"}), "cpu", std::nullopt);
  REQUIRE_RESULT(rows);
  const Graph large = typed(" input %y : f32[2,8]\n %x = aten.mul.Tensor(%y, 1000)\n" + norm + " return %n");
  CHECK(off(large, *rows, DType::Float16) < 1e-3);
}

TEST_CASE("an attention that divides products does not overflow") {
  // A column of ones behind the values sums up the keys.
  const std::string attention =
      " %q = aten.relu.default(%x)\n %p = aten.pad.default(%x, [0, 1], \"constant\", 1.0)\n"
      " %t = aten.transpose.int(%q, -1, -2)\n %kv = aten.matmul.default(%t, %p)\n"
      " %qkv = aten.matmul.default(%q, %kv)\n %n = aten.slice.Tensor(%qkv, 2, 0, -1)\n"
      " %d = aten.slice.Tensor(%qkv, 2, -1)\n %e = aten.add.Scalar(%d, 1e-5)\n %o = aten.div.Tensor(%n, %e)\n";
  const Graph g = typed(" input %x : f32[1,64,4]\n" + attention + " return %o");
  CHECK(kept(g, DType::Float16) == Names{"kv", "qkv", "n", "d", "e", "o"});
  const Graph large = typed(" input %y : f32[1,64,4]\n %x = aten.mul.Tensor(%y, 50)\n" + attention + " return %o");
  CHECK(off(large, made(large, {"f32[1,64,4]:ones"}), DType::Float16) < 0.1);
  // By a sum of the keys, and in the model's dtype again at the next weight.
  const Graph two = typed(
      " input %q : f32[1,64,4]\n input %k : f32[1,64,4]\n input %v : f32[1,64,4]\n weight %w \"w\" : f32[4,4]\n"
      " %t = aten.transpose.int(%k, -1, -2)\n %kv = aten.matmul.default(%t, %v)\n"
      " %n = aten.matmul.default(%q, %kv)\n %s = aten.sum.dim_IntList(%k, [1])\n %u = aten.unsqueeze.default(%s, -1)\n"
      " %d = aten.matmul.default(%q, %u)\n %c = aten.clamp_min.default(%d, 1e-6)\n %o = aten.div.Tensor(%n, %c)\n"
      " %l = aten.linear.default(%o, %w)\n return %l");
  CHECK(kept(two, DType::Float16) == Names{"kv", "n", "s", "u", "d", "c", "o"});
}

TEST_CASE("quotients of what has nothing in common, and a softmax written out, are the model's") {
  const Graph g = typed(
      " input %x : f32[4,4]\n input %y : f32[4,4]\n %p = aten.mm.default(%x, %x)\n %r = aten.mm.default(%y, %y)\n"
      " %q = aten.div.Tensor(%p, %r)\n %e = aten.exp.default(%q)\n %s = aten.sum.dim_IntList(%e, [-1], True)\n"
      " %o = aten.div.Tensor(%e, %s)\n return %o");
  CHECK(kept(g, DType::Float16).empty());
}

TEST_CASE("a square that nobody sums is the model's") {
  const Graph g = typed(
      " input %x : f32[2,8]\n weight %w \"w\" : f32[8,8]\n %r = aten.relu.default(%x)\n"
      " %s = aten.pow.Tensor_Scalar(%r, 2)\n %o = aten.mm.default(%s, %w)\n return %o");
  CHECK(kept(g).empty());
}

TEST_CASE("a quotient of whole numbers meets a product in the model's dtype") {
  const Graph g = typed(
      " input %x : f32[2,3]\n input %i : i64[3,3]\n %q = aten.div.Tensor(%i, 4)\n %o = aten.mm.default(%x, %q)\n"
      " return %o");
  CHECK(kept(g) == Names{"q"});
  CHECK(runIn(g, made(g, {"f32[2,3]:randn", "i64[3,3]:randint(0,9)"}), DType::BFloat16).describe() ==
        std::vector<std::string>{"bf16[2,3]"});
}

TEST_CASE("a mask that hides all keys alike weighs them alike, also where half precision has no such number") {
  const Graph g = typed(
      " input %x : f32[2,4]\n input %i : i64[4]\n %h = aten.eq.Scalar(%i, 0)\n"
      " %z = aten.zeros.default([4], dtype=torch.float32)\n"
      " %m = aten.masked_fill.Scalar(%z, %h, -3.4028234663852886e+38)\n %s = aten.add.Tensor(%x, %m)\n"
      " %p = aten.softmax.int(%s, -1)\n return %p");
  CHECK(kept(g, DType::Float16).contains("m"));
  CHECK(off(g, made(g, {"f32[2,4]:zeros", "i64[4]:zeros"}), DType::Float16) == 0);
}

TEST_CASE("scores stay in float32 from where distances are added to them to the softmax, as PyTorch promotes them") {
  const std::string head =
      " input %x : f32[1,2,4,4]\n input %v : f32[1,2,4,8]\n weight %w \"w\" : f32[4,4]\n"
      " %q = aten.matmul.default(%x, %w)\n %n = aten.arange.default(4)\n";
  const std::string distances = " %d = aten.mul.Tensor(%n, -0.3)\n %h = aten.ge.Scalar(%n, 3)\n";
  const std::string tail = " %p = aten.softmax.int(%m, -1)\n %y = aten.matmul.default(%p, %v)\n return %y";
  const Graph alibi =
      typed(head + distances + " %s = aten.add.Tensor(%q, %d)\n %m = aten.masked_fill.Scalar(%s, %h, -1e9)\n" + tail);
  CHECK(kept(alibi) == Names{"n", "d", "h", "s", "m", "p"});
  // A mask holds two numbers alone, which half precision has.
  const Graph masked = typed(head +
                             " %h = aten.ge.Scalar(%n, 3)\n %z = aten.zeros_like.default(%n, dtype=torch.float32)\n"
                             " %d = aten.masked_fill.Scalar(%z, %h, -1e9)\n %m = aten.add.Tensor(%q, %d)\n" +
                             tail);
  CHECK(kept(masked) == Names{"n", "h", "z", "d"});
  // Positions that are added to what the model computes with: the model goes on in its own dtype.
  const Graph positions = typed(head + distances +
                                " %m = aten.add.Tensor(%q, %d)\n %p = aten.softmax.int(%m, -1)\n"
                                " %e = aten.add.Tensor(%p, %m)\n %y = aten.matmul.default(%e, %v)\n return %y");
  CHECK(kept(positions) == Names{"n", "d", "h"});
}

TEST_CASE("a buffer serves the parts that stay and the model, each in its dtype") {
  const Graph g = typed(
      " input %x : f32[2,4]\n weight %w \"w\" : f32[4]\n buffer %b \"b\" : f32[4]\n %c = aten.cos.default(%b)\n"
      " %y = aten.mul.Tensor(%x, %c)\n %z = aten.mul.Tensor(%y, %b)\n %v = aten.mul.Tensor(%z, %w)\n return %v");
  const auto parts = keepFloat32(g, {modelDType(g), DType::Float16});
  REQUIRE(parts);
  CHECK(kept(g, DType::Float16) == Names{"c"});
  CHECK(parts->keepsWeight(g.findWeight("b")));
  CHECK_FALSE(parts->keepsWeight(g.findWeight("w")));
  // `z` reads a cast of it, `c` the buffer itself.
  const auto operand = [&](const char* node, size_t i) {
    return parts->graph.node(parts->graph.findNode(node)).args[i].valueId();
  };
  CHECK(operand("c", 0) == g.findWeight("b"));
  CHECK(operand("z", 1) != g.findWeight("b"));
}

TEST_CASE("dtypes that a file leaves open are those that the operators make") {
  const Graph g = test::graphOf(
      "graph g {\n input %x : f32[4,8]\n input %n : number\n weight %w \"w\" : f32[8,8]\n"
      " %a = aten.arange.default(%n, dtype=torch.int64) : tensor\n %f = aten.to.dtype(%a, torch.float32) : tensor\n"
      " %s = aten.sin.default(%f) : tensor\n %u = aten.unsqueeze.default(%s, 1) : tensor\n"
      " %y = aten.mul.Tensor(%u, %x) : tensor\n %z = aten.matmul.default(%y, %w) : tensor\n return %z\n}",
      torchSemantics().operators());
  CHECK(kept(g) == Names{"a", "f", "s", "u"});
  const auto parts = keepFloat32(g, {modelDType(g), DType::Float16});
  REQUIRE(parts);
  const Node& y = parts->graph.node(parts->graph.findNode("y"));
  CHECK(parts->graph.value(y.args[0].valueId()).type.tensorInfo.dtype == DType::Float16);
}

TEST_CASE("a frozen model, whose weights are all constants, is brought to the dtype whole") {
  const Graph g = typed(
      " input %i : i64[3]\n buffer %w \"w\" : f32[9,4]\n %e = aten.embedding.default(%w, %i)\n"
      " %t = aten.tanh.default(%e)\n return %t");
  const auto parts = keepFloat32(g, {modelDType(g), DType::Float16});
  REQUIRE(parts);
  CHECK_FALSE(parts->keepsWeight(g.findWeight("w")));
  CHECK(kept(g).empty());
}

TEST_CASE("nothing stays in a model that is not in float32, and on the way to more precision") {
  const Graph g = typed(rotary);
  CHECK_FALSE(keepFloat32(g, {DType::Float32, DType::Float64}));
  CHECK_FALSE(keepFloat32(g, {DType::BFloat16, DType::Float16}));
  CHECK_FALSE(keepFloat32(g, {DType::Float32, std::nullopt}));
}

TEST_CASE("a graph written out has the casts that a program in that dtype runs, and its nodes keep their ids") {
  const Graph g = typed(rotary);
  const auto written = inDType(g, DType::BFloat16);
  REQUIRE_RESULT(written);
  CHECK(written->rewroteArguments);
  for (NodeId id : g.order()) CHECK(written->graph.node(id).name == g.node(id).name);
  const TensorSet inputs = made(g, {});
  const auto there = convert(inputs, "cpu", DType::BFloat16);
  REQUIRE_RESULT(there);
  CHECK(compareTensors(runIn(g, inputs, DType::BFloat16), runIn(written->graph, *there, std::nullopt))[0].maxAbs == 0);
  CHECK(toString(written->graph.value(written->graph.findValue("c")).type) == "f32[300,1]");
  CHECK(toString(written->graph.value(written->graph.findValue("y")).type) == "bf16[1,300,4]");
}

TEST_CASE("a model that computes in the dtype already stays as it is, with what it keeps in float32") {
  Graph g = typed(
      " input %x : f32[300,64]\n weight %w \"w\" : f32[4,64]\n buffer %inv \"inv\" : f32[4,1]\n"
      " %p = aten.arange.default(300, dtype=torch.float32)\n %u = aten.unsqueeze.default(%p, 0)\n"
      " %a = aten.matmul.default(%inv, %u)\n %c = aten.cos.default(%a)\n %t = aten.t.default(%c)\n"
      " %h = aten.linear.default(%x, %w)\n %y = aten.mul.Tensor(%h, %t)\n return %y");
  for (ValueId w : g.weights())
    g.mutableWeight(w).data = std::make_shared<TensorWeight>(
        at::linspace(0.1, 1, 4).unsqueeze(1).repeat({1, g.value(w).name == "w" ? 64 : 1}));
  const auto once = inDType(g, DType::Float16);
  REQUIRE_RESULT(once);
  const auto twice = inDType(once->graph, DType::Float16);
  REQUIRE_RESULT(twice);
  CHECK(toText(twice->graph) == toText(once->graph));
  CHECK(once->rewroteArguments);
  CHECK(twice->rewroteArguments);  // casting all weights would cast the buffer
  const auto inputs = convert(made(g, {}), "cpu", DType::Float16);
  REQUIRE_RESULT(inputs);
  const TensorSet plain = runIn(once->graph, *inputs, std::nullopt);
  CHECK(compareTensors(plain, runIn(once->graph, *inputs, DType::Float16))[0].maxAbs == 0);
  CHECK(compareTensors(plain, runIn(g, *inputs, DType::Float16))[0].maxAbs == 0);
}

TEST_CASE("whoever watches a run sees the graph's own values and nodes") {
  const Graph g = typed(rotary);
  RunOptions half;
  half.dtype = DType::Float16;
  const auto program = Program::build(g, half);
  REQUIRE_RESULT(program);
  const auto inputs = convert(made(g, {}), "cpu", DType::Float16);
  REQUIRE_RESULT(inputs);
  Names seen;
  const auto out = program->observe(*inputs, [&](ValueId v, const TensorSet&) {
    REQUIRE(v.index < g.valueBound());
    seen.insert(g.value(v).name);
  });
  REQUIRE_RESULT(out);
  CHECK(seen == Names{"p", "u", "a", "c", "y"});
  std::vector<NodeTime> times;
  const auto timed = program->profile(*inputs, times);
  REQUIRE_RESULT(timed);
  for (const NodeTime& t : times) CHECK(t.node.index < g.nodeBound());
}
