// Which nodes become one kernel, and why others stay apart.
#include "core/compile/fusion/fusion.h"

#include "core/compile/fusion/product_split.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/support/graphs.h"
#include "tests/support/growth.h"

using namespace graft;
using namespace graft::test;

namespace {

using Names = std::vector<std::string>;

std::vector<Names> groupsOf(const Graph& g, const FusionPlan& plan) {
  std::vector<Names> out;
  for (const FusionGroup& group : plan.groups) {
    Names& names = out.emplace_back();
    for (const NodeId n : group.nodes) names.push_back(g.node(n).name);
  }
  return out;
}
std::vector<Names> groupsOf(const Graph& g, const FusionOptions& options = {}) {
  return groupsOf(g, planFusion(g, options));
}

const FusionDecision* findDecision(const FusionPlan& plan, std::string_view producer, std::string_view consumer) {
  for (const FusionDecision& d : plan.decisions)
    if (d.producer == producer && d.consumer == consumer) return &d;
  return nullptr;
}

constexpr const char* chain = R"(graph chain {
  input %x : f32[64,256]
  %a = aten.relu.default(%x) : f32[64,256]
  %b = aten.tanh.default(%a) : f32[64,256]
  %c = aten.mul.Tensor(%b, %x) : f32[64,256]
  return %c
})";

struct OperatorsOf : OperatorSet {
  explicit OperatorsOf(std::initializer_list<const char*> schemas) {
    for (const char* s : schemas) add(*parseSchema(s));
  }
};

}  // namespace

TEST_CASE("a loss may spread its first operand over more dimensions") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[256]
  input %y : f32[64,256]
  %a = aten.tanh.default(%x) : f32[256]
  %l = aten.mse_loss.default(%a, %y, 1) : f32[]
  return %l
})");
  CHECK(groupsOf(g, planFusion(g)).size() <= 1);
}

TEST_CASE("a chain of pointwise operators is one group") {
  const Graph g = graphOf(chain);
  const FusionPlan plan = planFusion(g);
  REQUIRE(groupsOf(g, plan) == std::vector<Names>{{"a", "b", "c"}});
  const FusionGroup& group = plan.groups.front();
  CHECK(group.name == "relu_tanh_mul");
  REQUIRE(group.inputs.size() == 1);
  CHECK(g.value(group.inputs[0]).name == "x");
  REQUIRE(group.outputs.size() == 1);
  CHECK(g.value(group.outputs[0]).name == "c");
  CHECK(group.bytes == 2 * 64 * 256 * 4);
  CHECK(group.bytesApart == 7 * 64 * 256 * 4);
  CHECK(group.savedMicroseconds > 0);
  const FusionDecision* d = findDecision(plan, "a", "b");
  REQUIRE(d);
  CHECK(d->isMerged);
  CHECK(d->apart > d->together);
}

TEST_CASE("on a CPU, positions join what they index, and functions the tensor that their results make") {
  static OperatorsOf operators(
      {"aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor",
       "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
       "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
       "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
       "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
       "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
       "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", "aten::sin(Tensor self) -> Tensor",
       "aten::cos(Tensor self) -> Tensor", "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"});
  const Graph positions = graphOf(R"(graph g {
    input %x : f32[12,64,64]
    input %table : f32[127,12]
    %r = aten.arange.default(64, dtype=None, layout=None, device=None, pin_memory=None) : i64[64]
    %i = aten.unsqueeze.default(%r, 1) : i64[64,1]
    %d = aten.sub.Tensor(%i, %r, alpha=1) : i64[64,64]
    %p = aten.add.Tensor(%d, 63, alpha=1) : i64[64,64]
    %e = aten.index.Tensor(%table, [%p]) : f32[64,64,12]
    %t = aten.permute.default(%e, [2, 0, 1]) : f32[12,64,64]
    %y = aten.add.Tensor(%x, %t, alpha=1) : f32[12,64,64]
    return %y
  })",
                                  operators);
  CHECK(groupsOf(positions) == std::vector<Names>{{"r", "i", "d", "p", "e", "t", "y"}});
  const Graph joined = graphOf(R"(graph g {
    input %x : f32[512,64]
    %a = aten.mul.Tensor(%x, 3.0) : f32[512,64]
    %s = aten.sin.default(%a) : f32[512,64]
    %c = aten.cos.default(%a) : f32[512,64]
    %y = aten.cat.default([%s, %c], 1) : f32[512,128]
    return %y
  })",
                               operators);
  CHECK(groupsOf(joined) == std::vector<Names>{{"a", "s", "c", "y"}});
  // Named twice, its elements would be computed twice.
  const Graph twice = graphOf(R"(graph g {
    input %x : f32[512,64]
    %a = aten.mul.Tensor(%x, 3.0) : f32[512,64]
    %s = aten.sin.default(%a) : f32[512,64]
    %y = aten.cat.default([%s, %s], 1) : f32[512,128]
    return %y
  })",
                              operators);
  const FusionPlan plan = planFusion(twice);
  const FusionDecision* d = findDecision(plan, "s", "y");
  REQUIRE(d);
  CHECK(d->together > 10);
}

TEST_CASE("an operator without a kernel separates groups, and is named") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,64]
  %a = aten.relu.default(%x) : f32[64,64]
  %b = aten.tanh.default(%a) : f32[64,64]
  %m = aten.matmul.default(%b, %b) : f32[64,64]
  %c = aten.relu.default(%m) : f32[64,64]
  %d = aten.tanh.default(%c) : f32[64,64]
  return %d
})");
  const FusionPlan plan = planFusion(g);
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a", "b"}, {"c", "d"}});
  const auto m =
      std::find_if(plan.notFused.begin(), plan.notFused.end(), [](const NotFused& n) { return n.node == "m"; });
  REQUIRE(m != plan.notFused.end());
  CHECK_FALSE(m->why.empty());
}

TEST_CASE("two that a third separates are not merged: it would have to run in between") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,64]
  %a = aten.relu.default(%x) : f32[64,64]
  %m = aten.matmul.default(%a, %x) : f32[64,64]
  %c = aten.add.Tensor(%a, %m, alpha=1) : f32[64,64]
  return %c
})");
  const FusionPlan plan = planFusion(g);
  CHECK(plan.groups.empty());
  const FusionDecision* d = findDecision(plan, "a", "c");
  REQUIRE(d);
  CHECK_FALSE(d->isLegal);
  CHECK(d->why.find("between them") != std::string::npos);
}

TEST_CASE("an item of a list of several tensors is a view of its own operand, and the group waits for all of them") {
  OperatorSet operators;
  for (const char* name : {"aten.relu.default", "aten.tanh.default", "aten.matmul.default", "aten.view.default"})
    operators.add(testOperators().find(name));
  operators.add(*parseSchema("aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"));
  auto item = std::make_shared<Operator>(**parseSchema("prim::getitem(Tensor[] list, int index) -> Tensor"));
  item->name = "prim.getitem";  // the language's own has no overload
  operators.add(std::move(item));
  const char* text = R"(graph g {{
  input %x : f32[64]
  input %y : f32[32]
  %a = aten.relu.default(%x) : f32[64]
  %m = aten.matmul.default(%a, %x) : f32[]
  %r = aten.view.default(%m, [1]) : f32[1]
  %l = aten.meshgrid.indexing([%a, {}], indexing="ij") : list[tensor]
  %i = prim.getitem(%l, 0) : f32[64,{}]
  %e = aten.tanh.default(%i) : f32[64,{}]
  return %e, %r
}})";
  const Graph apart = graphOf(fmt::format(fmt::runtime(text), "%y", 32, 32), operators);
  FusionPlan plan = planFusion(apart);
  REQUIRE(findDecision(plan, "a", "e"));
  CHECK(findDecision(plan, "a", "e")->why.find("read elsewhere too") != std::string::npos);
  // The other operand follows from the first node through a product: the group cannot wait for itself.
  const Graph through = graphOf(fmt::format(fmt::runtime(text), "%r", 1, 1), operators);
  plan = planFusion(through);
  CHECK(plan.groups.empty());
  REQUIRE(findDecision(plan, "a", "e"));
  CHECK(findDecision(plan, "a", "e")->why.find("between them") != std::string::npos);
  // Read by nobody else, it is merged.
  const Graph alone = graphOf(R"(graph g {
  input %x : f32[64]
  input %y : f32[32]
  %a = aten.relu.default(%x) : f32[64]
  %l = aten.meshgrid.indexing([%a, %y], indexing="ij") : list[tensor]
  %i = prim.getitem(%l, 0) : f32[64,32]
  %e = aten.tanh.default(%i) : f32[64,32]
  return %e
})",
                              operators);
  CHECK(groupsOf(alone) == std::vector<Names>{{"a", "l", "i", "e"}});
}

TEST_CASE("views between two operators become part of the kernel, and those behind it stay") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,32]
  %a = aten.relu.default(%x) : f32[64,32]
  %t = aten.transpose.int(%a, 0, 1) : f32[32,64]
  %b = aten.tanh.default(%t) : f32[32,64]
  %u = aten.transpose.int(%b, 0, 1) : f32[64,32]
  %m = aten.matmul.default(%u, %u) : f32[64,64]
  return %m
})");
  CHECK(groupsOf(g) == std::vector<Names>{{"a", "t", "b"}});
}

TEST_CASE("a size that a view takes is computed before the group") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,32]
  input %y : f32[64,32]
  %a = aten.relu.default(%x) : f32[64,32]
  %n = aten.size.int(%a, 0) : int
  %v = aten.view.default(%y, [%n, 32]) : f32[64,32]
  %b = aten.add.Tensor(%a, %v, alpha=1) : f32[64,32]
  %c = aten.tanh.default(%b) : f32[64,32]
  return %c
})");
  const FusionPlan plan = planFusion(g);
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"v", "b", "c"}});
  REQUIRE(plan.groups[0].inputs.size() == 3);
  CHECK(g.value(plan.groups[0].inputs.back()).name == "n");
}

TEST_CASE("a value that others read too becomes an output") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,64]
  %a = aten.relu.default(%x) : f32[64,64]
  %b = aten.tanh.default(%a) : f32[64,64]
  %m = aten.matmul.default(%a, %b) : f32[64,64]
  return %m
})");
  const FusionPlan plan = planFusion(g);
  REQUIRE(plan.groups.size() == 1);
  CHECK(plan.groups[0].outputs.size() == 2);
}

TEST_CASE("nothing moves across an operator that writes") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,64]
  input %y : f32[64,64]
  %a = aten.relu.default(%x) : f32[64,64]
  %w = aten.copy_.default(%y, %x, False) : f32[64,64]
  %b = aten.add.Tensor(%a, %y, alpha=1) : f32[64,64]
  return %b
})");
  const FusionPlan plan = planFusion(g);
  CHECK(plan.groups.empty());
  const FusionDecision* d = findDecision(plan, "a", "b");
  REQUIRE(d);
  CHECK(d->why.find("writes") != std::string::npos);
}

TEST_CASE("a loop's body has groups of its own, and what it reads of outside stays outside") {
  const Graph g = graphOf(R"(graph g {
    input %x : f32[64,256]
    input %w : f32[256,64]
    %a = aten.relu.default(%x) : f32[64,256]
    %b = aten.tanh.default(%a) : f32[64,256]
    %t = aten.transpose.int(%w, 0, 1) : f32[64,256]
    %y = prim.Loop(3, True, %b) : f32[64,256] {
      %i : int; %h : f32[64,256];
      %c = aten.mul.Tensor(%h, %t) : f32[64,256]
      %d = aten.tanh.default(%c) : f32[64,256]
      return True, %d
    }
    %e = aten.relu.default(%y) : f32[64,256]
    %f = aten.mul.Tensor(%e, %b) : f32[64,256]
    return %f
  })");
  const FusionPlan plan = planFusion(g);
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a", "b"}, {"c", "d"}, {"e", "f"}});
  REQUIRE(plan.groups.size() == 3);
  Names inputs;
  for (const ValueId v : plan.groups[1].inputs) inputs.push_back(g.value(v).name);
  CHECK(inputs == Names{"h", "t"});
  const Graph body = groupGraph(g, plan.groups[1]);
  CHECK(body.nodeCount() == 2);
}

TEST_CASE("two branches that read one value are no siblings, and a merge across blocks is refused with a reason") {
  const Graph g = graphOf(R"(graph g {
    input %x : f32[64,256]
    input %c : bool
    %y = prim.If(%c) : f32[64,256] {
      %a = aten.relu.default(%x) : f32[64,256]
      %b = aten.tanh.default(%a) : f32[64,256]
      return %b
    } {
      %d = aten.tanh.default(%x) : f32[64,256]
      %e = aten.relu.default(%d) : f32[64,256]
      return %e
    }
    %f = aten.relu.default(%y) : f32[64,256]
    return %f
  })");
  CHECK(groupsOf(g) == std::vector<Names>{{"a", "b"}, {"d", "e"}});
  FusionOptions asked;
  asked.steering.merge = {{"b", "d"}};
  const FusionPlan plan = planFusion(g, asked);
  REQUIRE(plan.unapplied.size() == 1);
  INFO(plan.unapplied.front().why);
  CHECK(plan.unapplied.front().why.find("%b and %d") == 0);
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a", "b"}, {"d", "e"}});
}

TEST_CASE("only, apart and max_nodes steer") {
  const Graph g = graphOf(chain);
  CHECK(groupsOf(g, {.only = {"aten.relu", "b"}}) == std::vector<Names>{{"a", "b"}});
  CHECK(groupsOf(g, {.apart = {"tanh"}}).empty());
  CHECK(groupsOf(g, {.maxNodes = 2}).size() == 1);
  CHECK(groupsOf(g, {.maxNodes = 2})[0].size() == 2);
}

TEST_CASE("a row kernel takes in what is read by the row and what reads it") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[8,128,768]
  %a = aten.gelu.default(%x, approximate="none") : f32[8,128,768]
  %n = aten.layer_norm.default(%a, [768], weight=None, bias=None, eps=1e-05, cudnn_enable=True) : f32[8,128,768]
  %b = aten.tanh.default(%n) : f32[8,128,768]
  %s = aten.softmax.int(%b, -1, dtype=None) : f32[8,128,768]
  return %s
})");
  CHECK(groupsOf(g) == std::vector<Names>{{"a", "n", "b", "s"}});
}

TEST_CASE("what PyTorch computes slowly is a kernel without a neighbour") {
  const auto groups = [](const std::string& call, const std::string& shape, bool isForGpu = false) {
    const std::string type = " : f32" + shape + "\n";
    const Graph g = graphOf("graph g {\n  input %x" + type + "  %y = aten." + call + type + "  return %y\n}");
    FusionOptions options;
    if (isForGpu) planForGpu(options);
    return groupsOf(g, planFusion(g, options)).size();
  };
  const std::string softmax = "softmax.int(%x, -1, dtype=None)", tanh = "tanh.default(%x)", relu = "relu.default(%x)";
  // On a CPU: functions of each element, and rows; not what memory limits, and not what a call costs more than.
  CHECK(groups(tanh, "[64,1024]") == 1);
  CHECK(groups(softmax, "[64,1024]") == 1);
  CHECK(groups(relu, "[64,1024]") == 0);
  CHECK(groups(tanh, "[64]") == 0);
  CHECK(groups(softmax, "[2,1000]") == 0);
  // On a GPU: few long rows, each of which PyTorch gives to one block.
  CHECK(groups(softmax, "[2,100000]", true) == 1);
  CHECK(groups(softmax, "[64,100000]", true) == 0);
  CHECK(groups(tanh, "[64,1024]", true) == 0);
  // And short rows; not what a launch costs more than.
  CHECK(groups(softmax, "[640,1000]", true) == 1);
  CHECK(groups(softmax, "[2,1000]", true) == 0);
  CHECK(groups("mul.Tensor(%x, %x)", "[2,8,64,64]", true) == 0);
}

TEST_CASE("on a GPU, an operator alone that repeats an operand is a kernel") {
  const Graph g = graphOf(R"(graph g {
  input %x : f16[2,64,32,32]
  input %gate : f16[2,64,1,1]
  %y = aten.mul.Tensor(%x, %gate) : f16[2,64,32,32]
  return %y
})");
  FusionOptions gpu;
  planForGpu(gpu);
  CHECK(groupsOf(g, planFusion(g, gpu)) == std::vector<Names>{{"y"}});
  CHECK(groupsOf(g).empty());
}

TEST_CASE("on a CPU, the places of equal whole numbers are left to ATen's sort, which has an order of its own") {
  const OperatorsOf operators{
      "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
      "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor "
      "indices)",
      "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"};
  const auto isLeft = [&](const std::string& sort, const std::string& dtype, const std::string& read, bool isGpu) {
    const std::string type = dtype + "[64,8]";
    const Graph g = graphOf("graph g {\n  input %x : " + type + "\n  %values, %places = aten.sort." + sort + " : " +
                                type + ", i64[64,8]\n  %m = aten.mul.Tensor(%" + read +
                                ", 2) : " + (read == "places" ? "i64[64,8]" : type) + "\n  return %m\n}",
                            operators);
    FusionOptions options;
    if (isGpu) planForGpu(options);
    const FusionPlan plan = planFusion(g, options);
    return std::ranges::any_of(plan.notFused,
                               [](const NotFused& n) { return n.why.find("an order of its own") != n.why.npos; });
  };
  const std::string plain = "default(%x, dim=-1, descending=False)",
                    stable = "stable(%x, stable=True, dim=-1, descending=False)";
  CHECK(isLeft(plain, "i64", "places", false));
  CHECK_FALSE(isLeft(plain, "i64", "values", false));
  CHECK_FALSE(isLeft(plain, "f32", "places", false));
  CHECK_FALSE(isLeft(stable, "i64", "places", false));
  CHECK_FALSE(isLeft(plain, "i64", "places", true));
}

TEST_CASE("on a GPU, few long rows are left to the scan of ATen's that shares them among threads") {
  const auto groups = [](const std::string& size, int dim, bool isGpu) {
    const Graph g = graphOf("graph g {\n  input %x : f32" + size + "\n  %e = aten.exp.default(%x) : f32" + size +
                            "\n  %s = aten.cumsum.default(%e, " + std::to_string(dim) + ", dtype=None) : f32" + size +
                            "\n  return %s\n}");
    FusionOptions options;
    if (isGpu) planForGpu(options);
    const FusionPlan plan = planFusion(g, options);
    for (const NotFused& n : plan.notFused) UNSCOPED_INFO(n.node << ": " << n.why);
    return groupsOf(g, plan);
  };
  const std::vector<Names> together{{"e", "s"}};
  CHECK(groups("[2,4096]", 1, true) != together);
  CHECK(groups("[2,4096]", 1, false) == together);
  CHECK(groups("[8192,512]", 1, true) == together);
  CHECK(groups("[512,8192]", 0, true) == together);
  CHECK(groups("[2,128]", 1, true) == together);
}

TEST_CASE("a write through what may be a view or a copy keeps both out of groups") {
  const auto groups = [](const std::string& view) {
    const Graph g = graphOf(
        "graph g {\n  input %x : f32[64,128]\n  %v = " + view +
        " : f32[64,128]\n  %r = aten.select.int(%v, 0, 0) : f32[128]\n"
        "  %w = aten.add_.Tensor(%r, 1) : f32[128]\n  %a = aten.mul.Tensor(%v, 2) : f32[64,128]\n"
        "  %b = aten.mul.Tensor(%x, 2) : f32[64,128]\n  %c = aten.add.Tensor(%a, %b) : f32[64,128]\n  return %c\n}");
    std::vector<Names> out = groupsOf(g, planFusion(g));
    for (const Names& names : out) CHECK(std::find(names.begin(), names.end(), "v") == names.end());
    return out;
  };
  CHECK(groups("aten.contiguous.default(%x)") == std::vector<Names>{{"a", "b", "c"}});
}

TEST_CASE("a few elements behind each row are stored by the kernel that makes the row") {
  const auto isOneKernel = [](const std::string& pads, const std::string& padded) {
    const Graph g = graphOf(
        "graph g {\n  input %x : f32[64,1001]\n"
        "  %n = aten.softmax.int(%x, -1, dtype=None) : f32[64,1001]\n"
        "  %p = aten.constant_pad_nd.default(%n, " +
        pads + ", 0) : f32" + padded + "\n  return %p\n}");
    const FusionPlan plan = planFusion(g);
    for (const NotFused& n : plan.notFused) UNSCOPED_INFO(n.node << ": " << n.why);
    return groupsOf(g, plan) == std::vector<Names>{{"n", "p"}};
  };
  CHECK(isOneKernel("[0, 7]", "[64,1008]"));
  CHECK(isOneKernel("[0, 7, 0, 0]", "[64,1008]"));
  CHECK_FALSE(isOneKernel("[0, 1001]", "[64,2002]"));
  CHECK_FALSE(isOneKernel("[0, 0, 0, 1]", "[65,1001]"));
  CHECK_FALSE(isOneKernel("[7, 0]", "[64,1008]"));
}

TEST_CASE("reductions over different rows stay apart") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[8,128,768]
  %n = aten.softmax.int(%x, -1, dtype=None) : f32[8,128,768]
  %s = aten.softmax.int(%n, 1, dtype=None) : f32[8,128,768]
  return %s
})");
  const FusionPlan plan = planFusion(g);
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"n"}, {"s"}});
  REQUIRE(plan.decisions.size() == 1);
  CHECK(plan.decisions[0].why.find("rows differ") != std::string::npos);
}

TEST_CASE("the group's graph has weights as inputs and computes the same values") {
  const Graph g = graphOf(R"(graph g {
  weight %w "w" : f32[256]
  input %x : f32[64,256]
  %a = aten.mul.Tensor(%x, %w) : f32[64,256]
  %b = aten.relu.default(%a) : f32[64,256]
  return %b
})");
  const FusionPlan plan = planFusion(g);
  REQUIRE(plan.groups.size() == 1);
  const Graph part = groupGraph(g, plan.groups[0]);
  CHECK(part.weights().empty());
  CHECK(part.inputs().size() == 2);
  CHECK(toText(part, {.sources = false, .modules = false}) == R"(graph mul_relu {
  input %x : f32[64,256]
  input %w : f32[256]
  %a = aten.mul.Tensor(%x, %w) : f32[64,256]
  %b = aten.relu.default(%a) : f32[64,256]
  return %b
}
)");
}

TEST_CASE("siblings become one kernel with several outputs, unless one depends on the other") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,256]
  input %b : f32[256]
  %a = aten.relu.default(%x) : f32[64,256]
  %m = aten.matmul.default(%a, %a) : f32[64,64]
  %s = aten.tanh.default(%x) : f32[64,256]
  %c = aten.tanh.default(%b) : f32[256]
  %d = aten.relu.default(%b) : f32[256]
  %n = aten.matmul.default(%s, %m) : f32[64,256]
  %t = aten.mul.Tensor(%n, %x) : f32[64,256]
  return %t, %m, %c, %d
})");
  const FusionPlan plan = planFusion(g);
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"a", "s"}, {"c", "d"}});
  const FusionDecision* merged = findDecision(plan, "a", "s");
  REQUIRE(merged);
  CHECK((merged->areSiblings && merged->isMerged && merged->value == "x"));
  CHECK(merged->apart > merged->together);
  const FusionDecision* apart = findDecision(plan, "s", "t");
  REQUIRE(apart);
  CHECK((apart->areSiblings && !apart->isLegal && apart->why == "one of them depends on what the other makes"));
  REQUIRE(plan.groups[0].outputs.size() == 2);
}

TEST_CASE("a value smaller than what its readers go over makes no siblings") {
  const Graph g = graphOf(R"(graph g {
  input %x : f32[64,256]
  input %y : f32[64,256]
  input %b : f32[256]
  %a = aten.add.Tensor(%x, %b, alpha=1) : f32[64,256]
  %c = aten.add.Tensor(%y, %b, alpha=1) : f32[64,256]
  return %a, %c
})");
  CHECK(groupsOf(g, planFusion(g)).empty());
}

TEST_CASE("on a GPU, what reads two small values in common is one kernel where both make tensors of one shape") {
  const auto groups = [](const std::string& second, const std::string& read) {
    const Graph g =
        graphOf("graph g {\ninput %x : f16[64,256]\ninput %y : f16[" + second +
                "]\ninput %a : f16[256]\ninput %b : f16[256]\ninput %c : f16[256]\n"
                "%m = aten.mul.Tensor(%x, %a) : f16[64,256]\n%n = aten.add.Tensor(%m, %b, alpha=1) : f16[64,256]\n"
                "%o = aten.mul.Tensor(%y, %a) : f16[" +
                second + "]\n%p = aten.add.Tensor(%o, %" + read + ", alpha=1) : f16[" + second + "]\nreturn %n, %p\n}");
    FusionOptions options;
    planForGpu(options);
    CHECK(groupsOf(g) == std::vector<Names>{{"m", "n"}, {"o", "p"}});
    return groupsOf(g, options);
  };
  CHECK(groups("64,256", "b") == std::vector<Names>{{"m", "n", "o", "p"}});
  CHECK(groups("64,256", "c") == std::vector<Names>{{"m", "n"}, {"o", "p"}});
  CHECK(groups("2,32,256", "b") == std::vector<Names>{{"m", "n"}, {"o", "p"}});
}

TEST_CASE("on a GPU, what attention gives is copied where it does not lie with heads behind the length") {
  static OperatorsOf operators(
      {"aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
       "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
       "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
       "dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
       "graft::attention(Tensor q, Tensor k, Tensor v, Tensor? mask=None, *, float? scale=None, bool causal=False) -> "
       "Tensor"});
  const auto groups = [](const std::string& attention) {
    const Graph g = graphOf(
        "graph g {\ninput %x : f16[2,64,4,32]\ninput %z : f16[2,4,64,32]\n"
        "%q = aten.transpose.int(%x, 1, 2) : f16[2,4,64,32]\n%y = " +
            attention +
            " : f16[2,4,64,32]\n%t = aten.transpose.int(%y, 1, 2) : f16[2,64,4,32]\n"
            "%c = aten.contiguous.default(%t) : f16[2,64,4,32]\nreturn %c\n}",
        operators);
    FusionOptions options;
    planForGpu(options);
    return groupsOf(g, options);
  };
  CHECK(groups("graft.attention.default(%z, %z, %z)").empty());
  CHECK(groups("aten.scaled_dot_product_attention.default(%q, %z, %z)").empty());
  CHECK(groups("aten.scaled_dot_product_attention.default(%z, %z, %z)") == std::vector<Names>{{"t", "c"}});
}

TEST_CASE("many readers of one value are siblings of their neighbours") {
  const auto readers = [](int count) {
    std::string text = "graph big {\n  input %x : f32[64,256]\n";
    std::string results;
    for (int i = 0; i < count; ++i) {
      text += "  %v" + std::to_string(i) + " = aten.tanh.default(%x) : f32[64,256]\n";
      results += (i ? ", %v" : "%v") + std::to_string(i);
    }
    return graphOf(text + "  return " + results + "\n}\n");
  };
  const Graph some = readers(4'000), many = readers(20'000);
  const FusionPlan plan = planFusion(many);
  CHECK(groupsOf(many, plan) == groupsOf(many, planFusion(many)));
  for (const FusionGroup& group : plan.groups) CHECK(group.inputs.size() + group.outputs.size() <= 48);
  CHECK(growsInStep(processorSeconds([&] { planFusion(some); }), processorSeconds([&] { planFusion(many); })));
}

TEST_CASE("the time of a plan grows in step with the graph, and the plan is the same each time") {
  const auto chainOf = [](int count) {
    std::string text = "graph big {\n  input %x : f32[64,256]\n  %v0 = aten.relu.default(%x) : f32[64,256]\n";
    const auto line = [&](const std::string& s) { text += "  " + s + " : f32[64,256]\n"; };
    for (int i = 1; i < count; ++i) {
      const std::string v = "%v" + std::to_string(i), before = "%v" + std::to_string(i - 1);
      if (i % 9 == 0)
        line(v + " = aten.linear.default(" + before + ", %x, None)");
      else if (i % 5 == 0)
        line(v + " = aten.add.Tensor(" + before + ", %v" + std::to_string(i - i % 9) + ", alpha=1)");
      else
        line(v + " = aten.tanh.default(" + before + ")");
    }
    return graphOf(text + "  return %v" + std::to_string(count - 1) + "\n}\n");
  };
  const Graph some = chainOf(4'000), many = chainOf(20'000);
  const FusionPlan plan = planFusion(many);
  CHECK(plan.groups.size() == 2223);
  CHECK(groupsOf(many, plan) == groupsOf(many, planFusion(many)));
  CHECK(growsInStep(processorSeconds([&] { planFusion(some); }), processorSeconds([&] { planFusion(many); })));
}

TEST_CASE("edges from far away do not make a plan quadratic") {
  // One edge in eight comes from anywhere. If more did, small graphs would have too few groups for as many neighbours
  // as large ones have.
  const auto woven = [](uint32_t count) {
    std::string text = "graph woven {\n  input %v0 : f32[8,64]\n";
    uint32_t random = 1;
    const auto below = [&](uint32_t n) { return (random = random * 1664525 + 1013904223) / 65536 % n; };
    for (uint32_t i = 1; i < count; ++i) {
      const std::string near = "%v" + std::to_string(i - 1 - below(std::min(i, 200U))),
                        far = "%v" + std::to_string(i % 8 == 1 ? below(i) : i - 1 - below(std::min(i, 200U)));
      text += "  %v" + std::to_string(i) + " = " +
              (i % 7 == 0 ? "aten.tanh.default(" + near + ")" : "aten.add.Tensor(" + near + ", " + far + ", alpha=1)") +
              " : f32[8,64]\n";
    }
    std::string results = "%v" + std::to_string(count - 1);
    for (uint32_t i = 2; i <= 50; ++i) results += ", %v" + std::to_string(count - i);
    return graphOf(text + "  return " + results + "\n}\n");
  };
  const Graph some = woven(2'000), many = woven(10'000);
  CHECK(groupsOf(many, planFusion(many)) == groupsOf(many, planFusion(many)));
  // In quadratic time it would be 25 times as long.
  const double less = processorSeconds([&] { planFusion(some); }),
               more = processorSeconds([&] { planFusion(many); }, 2);
  std::printf("%.1f ms, with five times as much %.1f ms\n", 1e3 * less, 1e3 * more);
  CHECK(more < 15 * less);
}

namespace {

FusionPlan plannedForGpu(const Graph& g, const std::string& steering = "") {
  FusionOptions options;
  planForGpu(options);
  if (!steering.empty()) options.steering = *parseSteering(steering, "fusion.json");
  return planFusion(g, options);
}

}  // namespace

TEST_CASE("what is behind a matrix product of halves becomes part of its kernel") {
  const Graph g = graphOf(R"(graph g {
  input %x : f16[8,64,256]
  input %w : f16[512,256]
  input %b : f16[512]
  input %r : f16[8,64,512]
  %m = aten.linear.default(%x, %w, %b) : f16[8,64,512]
  %a = aten.gelu.default(%m, approximate="none") : f16[8,64,512]
  %v = aten.view.default(%a, [8,64,8,64]) : f16[8,64,8,64]
  %t = aten.transpose.int(%v, 1, 2) : f16[8,8,64,64]
  %s = aten.mul.Tensor(%t, 0.125) : f16[8,8,64,64]
  %n = aten.linear.default(%x, %w, %b) : f16[8,64,512]
  %u = aten.relu.default(%n) : f16[8,64,512]
  %z = aten.add.Tensor(%n, %r, alpha=1) : f16[8,64,512]
  return %s, %u, %z
})");
  const FusionPlan plan = plannedForGpu(g);
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"m", "a", "v", "t", "s"}, {"n", "u", "z"}});
  REQUIRE(plan.groups.size() == 2);
  REQUIRE(plan.groups[0].product);
  CHECK(g.node(plan.groups[0].product).name == "m");
  const FusionDecision* d = findDecision(plan, "m", "a");
  REQUIRE(d);
  CHECK(d->isMerged);
  // Without a GPU it stays as it was.
  CHECK(groupsOf(g) == std::vector<Names>{{"a", "v", "t", "s"}, {"u", "z"}});
  // A person may keep them apart, and begin from a plan that has it.
  CHECK(groupsOf(g, plannedForGpu(g, R"({"fusion": 1, "apart": [["m", "a"], ["n"]]})")) ==
        std::vector<Names>{{"a", "v", "t", "s"}, {"u", "z"}});
  CHECK(groupsOf(g, plannedForGpu(g, printSteering(steeringFor(g, plan)))) == groupsOf(g, plan));
}

TEST_CASE("a matrix product stays alone where its tiles cannot hold what is behind it") {
  const Graph g = graphOf(R"(graph g {
  input %x : f16[64,256]
  input %w : f16[256,128]
  input %u : f32[64,64]
  input %v : f16[1,256]
  input %r : f16[64,128]
  input %z : f16[128,256]
  %m = aten.matmul.default(%x, %w) : f16[64,128]
  %s = aten.softmax.int(%m, -1) : f16[64,128]
  %n = aten.matmul.default(%v, %w) : f16[1,128]
  %p = aten.mul.Tensor(%n, %r) : f16[64,128]
  %e = aten.tanh.default(%x) : f16[64,256]
  %q = aten.matmul.default(%e, %w) : f16[64,128]
  %f = aten.matmul.default(%u, %u) : f32[64,64]
  %k = aten.relu.default(%f) : f32[64,64]
  %o = aten.matmul.default(%w, %z) : f16[256,256]
  %c = aten.transpose.int(%o, 0, 1) : f16[256,256]
  %d = aten.add.Tensor(%c, %o, alpha=1) : f16[256,256]
  return %s, %p, %q, %k, %d
})");
  const FusionPlan plan = plannedForGpu(g);
  CHECK(plan.groups.empty());
  const auto why = [&](const char* producer, const char* consumer) {
    const FusionDecision* d = findDecision(plan, producer, consumer);
    return d ? d->why : "not looked at";
  };
  CHECK(why("m", "s") == "a tile of a matrix product holds no whole rows");
  CHECK(why("n", "p") == "the matrix product has another number of elements");
  CHECK(why("e", "q") == "the consumer reads elements many times, or at places that other values say");
  CHECK(why("o", "d") == "elements of the matrix product are read at other places than their own");
  const auto f =
      std::find_if(plan.notFused.begin(), plan.notFused.end(), [](const NotFused& n) { return n.node == "f"; });
  REQUIRE(f != plan.notFused.end());
  CHECK(f->why == "matrix products of f32 are left to libraries");
}

TEST_CASE("on a GPU, what a library does in several kernels is a kernel without a neighbour") {
  const Graph g = graphOf(R"(graph g {
    input %q : f16[2,4,32,64]
    input %k : f16[2,4,64,32]
    input %w : f16[64,32]
    %m = aten.matmul.default(%q, %k) : f16[2,4,32,32]
    %p = aten.matmul.default(%q, %w) : f16[2,4,32,32]
    return %m, %p
  })");
  CHECK(groupsOf(g).empty());
  FusionOptions options;
  planForGpu(options);
  CHECK(groupsOf(g, options) == std::vector<Names>{{"m"}});
}

TEST_CASE("on a GPU, a kernel lays the caller's image out with channels last") {
  static OperatorsOf operators(
      {"aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
       "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)"});
  const Graph g = graphOf(R"(graph g {
    input %x : f16[1,64,32,32]
    input %t : f16[1,32,32,64]
    input %z : f16[1,64,32,32]
    %a = aten.contiguous.default(%x, memory_format=<torch.channels_last>) : f16[1,64,32,32]
    %p = aten.permute.default(%t, [0, 3, 1, 2]) : f16[1,64,32,32]
    %b = aten.contiguous.default(%p, memory_format=<torch.channels_last>) : f16[1,64,32,32]
    %c = other.images.default(%z) : f16[1,64,32,32]
    %d = aten.contiguous.default(%c, memory_format=<torch.channels_last>) : f16[1,64,32,32]
    %r = aten.contiguous.default(%z) : f16[1,64,32,32]
    return %a, %b, %d, %r
  })",
                          operators);
  FusionOptions options;
  planForGpu(options);
  // What lies so already is not copied, nor are rows that stay rows.
  CHECK(groupsOf(g, options) == std::vector<Names>{{"a"}});
  CHECK(groupsOf(g).empty());
}

TEST_CASE(
    "on a GPU, a reshape below a permutation is a kernel where it joins dimensions, and none where it parts them") {
  static OperatorsOf operators({"aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
                                "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"});
  const auto groups = [&](const std::string& shape, const std::string& type) {
    FusionOptions options;
    planForGpu(options);
    return groupsOf(graphOf("graph g {\n input %x : f16[2,3136,96]\n"
                            " %t = aten.transpose.int(%x, 1, 2) : f16[2,96,3136]\n %y = aten.reshape.default(%t, " +
                                shape + ") : f16" + type + "\n return %y\n}",
                            operators),
                    options);
  };
  CHECK(groups("[2, 96, 56, 56]", "[2,96,56,56]").empty());
  CHECK(groups("[2, 1, 4, 24, -1, 1]", "[2,1,4,24,3136,1]").empty());
  CHECK(groups("[192, 3136]", "[192,3136]") == std::vector<Names>{{"t", "y"}});
  CHECK(groups("[2, 56, 56, 96]", "[2,56,56,96]") == std::vector<Names>{{"t", "y"}});
}

TEST_CASE("on a GPU, pooling with places is a kernel, with what is behind it") {
  const std::string forward = R"(graph g {
    input %x : f16[2,64,32,32]
    %v, %i = aten.max_pool2d_with_indices.default(%x, [3,3], [2,2], [1,1], [1,1], False) : f16[2,64,16,16], i64[2,64,16,16]
    return %v, %i
  })";
  const std::string backward = R"(graph g {
    input %x : f16[2,64,32,32]
    input %g : f16[2,64,16,16]
    input %i : i64[2,64,16,16]
    %s = aten.neg.default(%g) : f16[2,64,16,16]
    %d = aten.max_pool2d_with_indices_backward.default(%s, %x, [3,3], [2,2], [1,1], [1,1], False, %i) : f16[2,64,32,32]
    %r = aten.threshold_backward.default(%d, %x, 0) : f16[2,64,32,32]
    return %r
  })";
  FusionOptions options;
  planForGpu(options);
  const Graph f = graphOf(forward), b = graphOf(backward);
  CHECK(groupsOf(f, options) == std::vector<Names>{{f.node(f.order().front()).name}});
  CHECK(groupsOf(b, options) == std::vector<Names>{{"d", "r"}});
  CHECK(groupsOf(b).empty());

  // Two passes over rows would each compute the gradient, or read it in single precision.
  const Graph norm = graphOf(R"(graph g {
    input %x : f16[2,64,32,32]
    input %g : f16[2,64,16,16]
    input %i : i64[2,64,16,16]
    input %m : f32[64]
    input %s : f32[64]
    %d = aten.max_pool2d_with_indices_backward.default(%g, %x, [3,3], [2,2], [1,1], [1,1], False, %i) : f16[2,64,32,32]
    %r = aten.threshold_backward.default(%d, %x, 0) : f16[2,64,32,32]
    %a, %b, %c = aten.native_batch_norm_backward.default(%r, %x, None, None, None, %m, %s, True, 0.00001, [True, True, True]) : f16[2,64,32,32], f32[64], f32[64]
    return %a, %b, %c
  })");
  REQUIRE(groupsOf(norm, options).size() == 2);
  CHECK(groupsOf(norm, options)[0] == Names{"d"});
  CHECK(groupsOf(norm, options)[1].front() == "r");
}

TEST_CASE("a group that reads no tensor stays operators, which follow the model to its device") {
  static OperatorsOf operators(
      {"aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor",
       "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "aten::neg(Tensor self) -> Tensor"});
  const Graph g = graphOf(R"(graph g {
    input %x : i64[4096]
    %r = aten.arange.default(4096, dtype=None, layout=None, device=None, pin_memory=None) : i64[4096]
    %a = aten.neg.default(%r) : i64[4096]
    %s = aten.arange.default(4096, dtype=None, layout=None, device=None, pin_memory=None) : i64[4096]
    %b = aten.add.Tensor(%x, %s, alpha=1) : i64[4096]
    return %a, %b
  })",
                          operators);
  const FusionPlan plan = planFusion(g);
  CHECK(groupsOf(g, plan) == std::vector<Names>{{"s", "b"}});
  REQUIRE(plan.notFused.size() == 2);
  CHECK(plan.notFused[0].why.find("reads no tensor") != std::string::npos);
}

TEST_CASE("numbers do not say where a group runs: they may stay on the CPU when the model moves") {
  static OperatorsOf operators(
      {"aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor",
       "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", "aten::neg(Tensor self) -> Tensor"});
  const auto planned = [&](std::string text, std::string_view device) {
    for (size_t at; (at = text.find("DEVICE")) != text.npos;) text.replace(at, 6, device);
    return planFusion(graphOf(text, operators));
  };
  const std::string text = R"(graph g {
    input %n : i64[]
    %r = aten.arange.default(4096, dtype=None, layout=None, device=device("DEVICE"), pin_memory=None) : i64[4096]@DEVICE
    %a = aten.mul.Tensor(%r, %n) : i64[4096]@DEVICE
    %b = aten.neg.default(%a) : i64[4096]@DEVICE
    return %b
  })";
  CHECK(planned(text, "cuda:0").groups.empty());
  CHECK(planned(text, "cpu").groups.empty());
  const auto withRow = [&] {
    std::string row = text;
    row.replace(row.find("%n : i64[]"), 10, "%n : i64[1]");
    return row;
  };
  CHECK(planned(withRow(), "cuda:0").groups.size() == 1);
}

TEST_CASE("on a GPU, a large tensor's rows and its columns are reduced by one kernel") {
  const auto text = [](int rows) {
    return fmt::format(R"(graph g {{
    input %x : f32[{0},1024]
    input %y : f32[{0},1024]
    %s = aten.softmax.int(%x, -1, dtype=None) : f32[{0},1024]
    %m = aten.mul.Tensor(%s, %y) : f32[{0},1024]
    %b = aten.sum.dim_IntList(%m, dim=[0], keepdim=True, dtype=None) : f32[1,1024]
    %h = aten.neg.default(%b) : f32[1,1024]
    return %m, %h
  }})",
                       rows);
  };
  static OperatorsOf operators(
      {"aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
       "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", "aten::neg(Tensor self) -> Tensor",
       "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"});
  const auto graph = [&](int rows) { return graphOf(text(rows), operators); };
  FusionOptions gpu;
  planForGpu(gpu);
  CHECK(groupsOf(graph(4096), gpu) == std::vector<Names>{{"s", "m", "b", "h"}});
  const std::vector<Names> apart{{"s", "m"}, {"b", "h"}};
  CHECK(groupsOf(graph(64), gpu) == apart);  // too small to be taken apart
  CHECK(groupsOf(graph(4096)) == apart);
}

TEST_CASE("a gated product takes one of two, and pointwise groups come first") {
  const Graph g = graphOf(R"(graph g {
  input %x : f16[64,256]
  input %w : f16[512,256]
  input %u : f16[512,256]
  input %r : f16[64,512]
  %a = aten.linear.default(%x, %w, None) : f16[64,512]
  %s = aten.gelu.default(%a) : f16[64,512]
  %b = aten.linear.default(%x, %u, None) : f16[64,512]
  %m = aten.mul.Tensor(%s, %b) : f16[64,512]
  %c = aten.linear.default(%x, %w, None) : f16[64,512]
  %d = aten.add.Tensor(%c, %r, alpha=1) : f16[64,512]
  %n = aten.layer_norm.default(%d, [512], None, None, 1e-05, True) : f16[64,512]
  return %m, %n
})");
  const FusionPlan plan = plannedForGpu(g);
  const std::vector<Names> groups = groupsOf(g, plan);
  REQUIRE(groups.size() == 2);
  CAPTURE(groups[0]);
  CHECK((groups[0] == Names{"a", "s", "m"} || groups[0] == Names{"s", "b", "m"}));
  CHECK(groups[1] == Names{"d", "n"});
}

TEST_CASE("a group with a product is split into the product and the rest") {
  const Graph g = graphOf(R"(graph g {
  input %x : f16[64,256]
  input %w : f16[512,256]
  input %r : f16[64,512]
  %t = aten.transpose.int(%w, 0, 1) : f16[256,512]
  %m = aten.matmul.default(%x, %t) : f16[64,512]
  %a = aten.relu.default(%m) : f16[64,512]
  %z = aten.add.Tensor(%a, %r, alpha=1) : f16[64,512]
  return %z, %m
})");
  REQUIRE(productOf(g));
  const auto split = splitProduct(g);
  REQUIRE(split);
  CHECK(toText(split->product).find("aten.matmul.default") != std::string::npos);
  CHECK(toText(split->product).find("aten.relu.default") == std::string::npos);
  CHECK(toText(split->rest).find("aten.matmul.default") == std::string::npos);
  REQUIRE(split->productInputs.size() == 2);
  REQUIRE(split->restInputs.size() == 2);
  CHECK(split->restInputs[0].input == 2);
  CHECK(split->restInputs[1].isProduct);
  CHECK(split->results == std::vector<std::optional<size_t>>{0, std::nullopt});
  CHECK_FALSE(
      splitProduct(graphOf("graph g {\n input %x : f16[4,4]\n %y = aten.relu.default(%x) : f16[4,4]\n return %y\n}")));
}
