// Matching and rewriting an encoder's attentions: Graft's matcher beside TorchScript's SubgraphRewriter on the same
// graph, from 12 layers to 100,000 nodes.
//
//   build/bin/bench/bench_matcher --benchmark_counters_tabular=true
#include <benchmark/benchmark.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/passes/subgraph_rewrite.h>

#include "core/text/text.h"
#include "matcher/rewrite/rewrite.h"
#include "tests/support/operators.h"

namespace {

using namespace graft;

/// One encoder of `layers` layers, 25 nodes each, in the canonical text.
std::string encoderText(int layers) {
  std::string t =
      "graph Encoder {\n  weight %w \"w\" : f32[64,64]\n  weight %b \"b\" : f32[64]\n  weight %up \"up\" : "
      "f32[256,64]\n"
      "  weight %ub \"ub\" : f32[256]\n  weight %down \"down\" : f32[64,256]\n  weight %g \"g\" : f32[64]\n"
      "  input %x0 : f32[1,8,64]\n  input %mask : f32[1,1,1,8]\n";
  for (int l = 0; l < layers; ++l) {
    const std::string n = std::to_string(l), x = "%x" + n;
    for (const char* p : {"q", "k", "v"}) {
      const std::string s = p + n;
      t += "  %l" + s + " = aten.linear.default(" + x + ", %w, %b) : f32[1,8,64]\n";
      t += "  %s" + s + " = aten.view.default(%l" + s + ", [1, 8, 4, 16]) : f32[1,8,4,16]\n";
      t += "  %h" + s + " = aten.permute.default(%s" + s + ", [0, 2, 1, 3]) : f32[1,4,8,16]\n";
    }
    t += "  %t" + n + " = aten.transpose.int(%hk" + n + ", -1, -2) : f32[1,4,16,8]\n";
    t += "  %a" + n + " = aten.matmul.default(%hq" + n + ", %t" + n + ") : f32[1,4,8,8]\n";
    t += "  %d" + n + " = aten.div.Tensor(%a" + n + ", 8.0) : f32[1,4,8,8]\n";
    t += "  %m" + n + " = aten.add.Tensor(%d" + n + ", %mask) : f32[1,4,8,8]\n";
    t += "  %p" + n + " = aten.softmax.int(%m" + n + ", -1) : f32[1,4,8,8]\n";
    t += "  %c" + n + " = aten.matmul.default(%p" + n + ", %hv" + n + ") : f32[1,4,8,16]\n";
    t += "  %e" + n + " = aten.permute.default(%c" + n + ", [0, 2, 1, 3]) : f32[1,8,4,16]\n";
    t += "  %f" + n + " = aten.view.default(%e" + n + ", [1, 8, 64]) : f32[1,8,64]\n";
    t += "  %o" + n + " = aten.linear.default(%f" + n + ", %w, %b) : f32[1,8,64]\n";
    t += "  %r" + n + " = aten.add.Tensor(%o" + n + ", " + x + ") : f32[1,8,64]\n";
    t += "  %y" + n + " = aten.layer_norm.default(%r" + n + ", [64], %g, %b) : f32[1,8,64]\n";
    t += "  %u" + n + " = aten.linear.default(%y" + n + ", %up, %ub) : f32[1,8,256]\n";
    t += "  %i" + n + " = aten.gelu.default(%u" + n + ") : f32[1,8,256]\n";
    t += "  %j" + n + " = aten.linear.default(%i" + n + ", %down, %b) : f32[1,8,64]\n";
    t += "  %z" + n + " = aten.add.Tensor(%j" + n + ", %y" + n + ") : f32[1,8,64]\n";
    t += "  %x" + std::to_string(l + 1) + " = aten.layer_norm.default(%z" + n + ", [64], %g, %b) : f32[1,8,64]\n";
  }
  return t + "  return %x" + std::to_string(layers) + "\n}\n";
}

Graph encoder(int layers) { return *parseText(encoderText(layers), testOperators()); }

Graph side(std::string_view body) { return *parseText("graph r {\n" + std::string(body) + "\n}", testOperators()); }

Rule rule(std::string_view pattern, std::string_view replacement) {
  Rule r;
  r.name = "R";
  r.pattern = side(pattern);
  r.replacement = side(replacement);
  for (ValueId v : r.pattern.inputs()) {
    PatternParameter p;
    p.name = r.pattern.value(v).name;
    p.kind = r.pattern.value(v).type.kind == Type::Kind::Float ? PatternParameter::Kind::Float
             : p.name[0] == 'w'                                ? PatternParameter::Kind::Weight
                                                               : PatternParameter::Kind::Value;
    r.parameters.push_back(p);
  }
  return r;
}

const Rule& attention() {
  static const Rule r = rule(
      "input %q : tensor\ninput %k : tensor\ninput %v : tensor\ninput %mask : tensor\ninput %scale : float\n"
      "%t = aten.transpose.int(%k, -1, -2)\n%a = aten.matmul.default(%q, %t)\n%d = aten.div.Tensor(%a, %scale)\n"
      "%m = aten.add.Tensor(%d, %mask)\n%p = aten.softmax.int(%m, -1)\n%c = aten.matmul.default(%p, %v)\nreturn %c",
      "input %q : tensor\ninput %k : tensor\ninput %v : tensor\ninput %mask : tensor\ninput %scale : float\n"
      "%c = graft.attention.default(%q, %k, %v, %mask)\nreturn %c");
  return r;
}

/// Rules like the shipped ones: attention, GELU linear, residual and LayerNorm, three projections, and others that
/// match nowhere.
const std::vector<Rule>& allRules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> out;
    out.push_back(attention());
    out.push_back(
        rule("input %x : tensor\ninput %w : tensor\ninput %b : tensor\n%l = aten.linear.default(%x, %w, %b)\n%g = "
             "aten.gelu.default(%l)\nreturn %g",
             "input %x : tensor\ninput %w : tensor\ninput %b : tensor\n%g = graft.linear.default(%x, %w, %b, "
             "activation=\"gelu\")\nreturn %g"));
    out.push_back(
        rule("input %x : tensor\ninput %r : tensor\ninput %w : tensor\ninput %wb : tensor\n%s = aten.add.Tensor(%x, "
             "%r)\n%n = aten.layer_norm.default(%s, <_>, %w, %wb, <_>)\nreturn %n",
             "input %x : tensor\ninput %r : tensor\ninput %w : tensor\ninput %wb : tensor\n%s = aten.mul.Tensor(%x, "
             "%r)\nreturn %s"));
    out.push_back(
        rule("input %x : tensor\ninput %w1 : tensor\ninput %w2 : tensor\ninput %w3 : tensor\ninput %b : tensor\n%q = "
             "aten.linear.default(%x, %w1, <_>)\n%k = aten.linear.default(%x, %w2, <_>)\n%v = aten.linear.default(%x, "
             "%w3, <_>)\nreturn %q, %k, %v",
             "input %x : tensor\ninput %w1 : tensor\ninput %w2 : tensor\ninput %w3 : tensor\ninput %b : tensor\n%q = "
             "aten.linear.default(%x, %w1, None)\nreturn %q, %q, %q"));
    for (const char* op : {"relu", "tanh", "neg"})
      out.push_back(rule(
          "input %x : tensor\ninput %w : tensor\ninput %b : tensor\n%l = aten.linear.default(%x, %w, %b)\n%g = aten." +
              std::string(op) + ".default(%l)\nreturn %g",
          "input %x : tensor\ninput %w : tensor\ninput %b : tensor\n%g = aten.linear.default(%x, %w, %b)\nreturn %g"));
    return out;
  }();
  return rules;
}

class NoTypes : public Semantics {
 public:
  const OperatorSet& operators() const override { return testOperators(); }
  Result<std::vector<Type>> inferTypes(const Graph& g, NodeId n) const override {
    return std::vector<Type>(g.node(n).outputs.size(), Type::tensor());
  }
  Result<std::vector<Constant>> evaluate(const Graph&, NodeId) const override { return badInput("no data"); }
};

void matchAttention(benchmark::State& state) {
  const Graph g = encoder(static_cast<int>(state.range(0)));
  size_t matches = 0;
  for (auto _ : state) {
    const Matcher m(g);
    matches = m.findAll(attention()).matches.size();
  }
  state.counters["matches"] = static_cast<double>(matches);
  state.counters["nodes"] = static_cast<double>(g.nodeCount());
}
BENCHMARK(matchAttention)->Arg(12)->Arg(48)->Arg(120)->Arg(500)->Arg(4000)->Unit(benchmark::kMillisecond);

void matchAllRules(benchmark::State& state) {
  const Graph g = encoder(static_cast<int>(state.range(0)));
  size_t matches = 0;
  for (auto _ : state) {
    const Matcher m(g);
    matches = 0;
    for (const Rule& r : allRules()) matches += m.findAll(r).matches.size();
  }
  state.counters["matches"] = static_cast<double>(matches);
}
BENCHMARK(matchAllRules)->Arg(12)->Arg(48)->Arg(500)->Unit(benchmark::kMillisecond);

void explainAttention(benchmark::State& state) {
  const Graph g = encoder(static_cast<int>(state.range(0)));
  Rule r = attention();
  SearchOptions options;
  options.explain = true;
  for (auto _ : state) {
    const Matcher m(g);
    benchmark::DoNotOptimize(m.findAll(r, options));
  }
}
BENCHMARK(explainAttention)->Arg(12)->Arg(48)->Unit(benchmark::kMillisecond);

/// Neither side pays for copying the graph or taking it down. `room`: the copy has space for what is added, as the
/// graph has for every rule of a recipe but the first.
void rewrite(benchmark::State& state, bool room) {
  const Graph original = encoder(static_cast<int>(state.range(0)));
  const NoTypes semantics;
  size_t rewrites = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto g = std::make_unique<Graph>(original);
    if (room) g->reserve(g->nodeBound() + g->nodeBound() / 4);
    state.ResumeTiming();
    rewrites = applyRule(*g, attention(), semantics)->records.size();
    state.PauseTiming();
    g.reset();
    state.ResumeTiming();
  }
  state.counters["rewrites"] = static_cast<double>(rewrites);
}
void rewriteAttention(benchmark::State& state) { rewrite(state, false); }
void rewriteAttentionWithRoom(benchmark::State& state) { rewrite(state, true); }
BENCHMARK(rewriteAttention)->Arg(12)->Arg(48)->Arg(120)->Arg(500)->Arg(4000)->Unit(benchmark::kMillisecond);
BENCHMARK(rewriteAttentionWithRoom)->Arg(12)->Arg(48)->Arg(120)->Arg(500)->Arg(4000)->Unit(benchmark::kMillisecond);

/// The same encoder as TorchScript IR, constants as nodes, as it comes from a file.
std::shared_ptr<torch::jit::Graph> torchEncoder(int layers) {
  const std::string text = encoderText(layers);
  // Operators are rewritten line by line; literals become constants in front.
  std::string out, constants;
  int next = 0;
  const auto constant = [&](const std::string& type, const std::string& value) {
    const std::string name = "%const" + std::to_string(next++);
    constants +=
        "  " + name + " : " + type + " = prim::Constant" + (value.empty() ? "" : "[value=" + value + "]") + "()\n";
    return name;
  };
  const auto list = [&](const std::vector<int>& items) {
    std::string args;
    for (int i : items) args += (args.empty() ? "" : ", ") + constant("int", std::to_string(i));
    const std::string name = "%list" + std::to_string(next++);
    constants += "  " + name + " : int[] = prim::ListConstruct(" + args + ")\n";
    return name;
  };
  const std::string one = constant("int", "1"), none = constant("NoneType", ""), minusOne = constant("int", "-1"),
                    minusTwo = constant("int", "-2"), eight = constant("float", "8."), split = list({1, 8, 4, 16}),
                    turn = list({0, 2, 1, 3}), join = list({1, 8, 64}), normalized = list({64}),
                    eps = constant("float", "1e-05"), yes = constant("bool", "1"), plain = constant("str", "\"none\"");
  for (int l = 0; l < layers; ++l) {
    const std::string n = std::to_string(l), x = "%x" + n;
    const auto line = [&](const std::string& name, const std::string& call) {
      out += "  %" + name + n + " : Tensor = aten::" + call + "\n";
    };
    for (const std::string p : {"q", "k", "v"}) {
      line("l" + p, "linear(" + x + ", %w, %b)");
      line("s" + p, "view(%l" + p + n + ", " + split + ")");
      line("h" + p, "permute(%s" + p + n + ", " + turn + ")");
    }
    line("t", "transpose(%hk" + n + ", " + minusOne + ", " + minusTwo + ")");
    line("a", "matmul(%hq" + n + ", %t" + n + ")");
    line("d", "div(%a" + n + ", " + eight + ")");
    line("m", "add(%d" + n + ", %mask, " + one + ")");
    line("p", "softmax(%m" + n + ", " + minusOne + ", " + none + ")");
    line("c", "matmul(%p" + n + ", %hv" + n + ")");
    line("e", "permute(%c" + n + ", " + turn + ")");
    line("f", "view(%e" + n + ", " + join + ")");
    line("o", "linear(%f" + n + ", %w, %b)");
    line("r", "add(%o" + n + ", " + x + ", " + one + ")");
    line("y", "layer_norm(%r" + n + ", " + normalized + ", %g, %b, " + eps + ", " + yes + ")");
    line("u", "linear(%y" + n + ", %up, %ub)");
    line("i", "gelu(%u" + n + ", " + plain + ")");
    line("j", "linear(%i" + n + ", %down, %b)");
    line("z", "add(%j" + n + ", %y" + n + ", " + one + ")");
    out += "  %x" + std::to_string(l + 1) + " : Tensor = aten::layer_norm(%z" + n + ", " + normalized + ", %g, %b, " +
           eps + ", " + yes + ")\n";
  }
  auto g = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(
      "graph(%x0 : Tensor, %mask : Tensor, %w : Tensor, %b : Tensor, %up : Tensor, %ub : Tensor, %down : Tensor, %g : "
      "Tensor):\n" +
          constants + out + "  return (%x" + std::to_string(layers) + ")\n",
      g.get());
  return g;
}

void torchScriptRewriteAttention(benchmark::State& state) {
  const auto original = torchEncoder(static_cast<int>(state.range(0)));
  torch::jit::SubgraphRewriter rewriter;
  rewriter.RegisterRewritePattern(R"(graph(%q,%k,%v,%mask,%a,%b,%c,%one,%d,%none):
  %kt = aten::transpose(%k,%a,%b)
  %s = aten::matmul(%q,%kt)
  %t = aten::div(%s,%c)
  %u = aten::add(%t,%mask,%one)
  %p = aten::softmax(%u,%d,%none)
  %o = aten::matmul(%p,%v)
  return (%o))",
                                  R"(graph(%q,%k,%v,%mask,%a,%b,%c,%one,%d,%none):
  %z : float = prim::Constant[value=0.]()
  %f : bool = prim::Constant[value=0]()
  %o = aten::scaled_dot_product_attention(%q,%k,%v,%mask,%z,%f,%none,%f)
  return (%o))");
  size_t rewrites = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto g = original->copy();
    state.ResumeTiming();
    rewriter.runOnGraph(g);
    state.PauseTiming();
    rewrites = 0;
    for (const auto* n : g->nodes())
      rewrites += n->kind() == c10::Symbol::fromQualString("aten::scaled_dot_product_attention");
    g.reset();
    state.ResumeTiming();
  }
  state.counters["rewrites"] = static_cast<double>(rewrites);
}
BENCHMARK(torchScriptRewriteAttention)->Arg(12)->Arg(48)->Arg(500)->Unit(benchmark::kMillisecond);

}  // namespace
