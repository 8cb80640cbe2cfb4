// What holds for every graph and every shipped rule: generated graphs, a thousand for each property. A graph is built
// from a list of numbers, each of which adds an operator or a piece that some rule may match; so a failing one shrinks
// to a short list. RC_PARAMS="seed=…" repeats a run.
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "case_model.h"
#include "core/ir/verify.h"
#include "core/text/text.h"
#include "matcher/lang/rule_file.h"
#include "matcher/rewrite/rewrite.h"
#include "tests/support/catch.h"

using namespace graft;
using test::semantics;
using test::take;

namespace {

using Choices = std::vector<uint16_t>;

[[maybe_unused]] const int configured = setenv("RC_PARAMS", "max_success=1000 max_size=24", 0);

/// Every rule that comes with the program.
const std::vector<Rule>& shippedRules() {
  static const std::vector<Rule> rules = [] {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(GRAFT_SOURCE_DIR "/resources/rules"))
      if (entry.path().extension() == ".py") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<Rule> out;
    for (const auto& file : files)
      for (Rule& r : take(loadRuleFile(file.string(), semantics().operators())).rules) out.push_back(std::move(r));
    return out;
  }();
  return rules;
}

/// Values are f32[2,3,4,4] throughout, so that any operator takes any of them.
class Builder {
 public:
  Builder() {
    const Type square = type({2, 3, 4, 4});
    for (const char* name : {"x", "y", "z"}) values_.push_back(graph_.addInput(name, square));
    matrix_ = graph_.addWeight("layer.weight", type({4, 4}), nullptr);
    vector_ = graph_.addWeight("layer.bias", type({4}), nullptr);
  }

  Graph build(const Choices& choices) {
    for (uint16_t c : choices) step(c % 20, c / 20);
    // Some inner values are outputs too.
    std::vector<Argument> returns{Argument(values_.back())};
    for (uint16_t c : choices)
      if (c % 7 == 3) returns.emplace_back(values_[c % values_.size()]);
    graph_.setReturns(graph_.root(), std::move(returns));
    return std::move(graph_);
  }

 private:
  static Type type(std::initializer_list<int64_t> sizes) {
    TensorInfo info;
    info.dtype = DType::Float32;
    info.device = "cpu";
    info.shape.emplace();
    for (int64_t s : sizes) info.shape->push_back(Dim(s));
    return Type::tensor(std::move(info));
  }

  Argument call(const char* op, std::vector<Argument> args) {
    static std::map<std::string, OperatorRef> known;
    OperatorRef& ref = known[op];
    if (!ref) ref = semantics().operators().find(op);
    while (args.size() < ref->parameters.size())
      args.push_back(ref->parameters[args.size()].defaultValue.value_or(Argument()));
    const NodeId n = graph_.append(graph_.root(), ref, std::move(args));
    graph_.setType(graph_.output(n), type({2, 3, 4, 4}));
    return Argument(graph_.output(n));
  }
  Argument pick(uint16_t seed) const {
    return Argument(values_[values_.size() - 1 - seed % std::min<size_t>(values_.size(), 5)]);
  }
  static Argument number(double d) { return Argument(d); }
  static Argument integer(int64_t i) { return Argument(i); }
  void keep(const Argument& a) { values_.push_back(a.valueId()); }

  Argument linear(const Argument& x) { return call("aten.linear.default", {x, Argument(matrix_), Argument(vector_)}); }

  void step(int kind, uint16_t seed) {
    const Argument a = pick(seed), b = pick(seed / 5), c = pick(seed / 25);
    switch (kind) {
      case 0:
        return keep(call("aten.relu.default", {a}));
      case 1:
        return keep(call("aten.gelu.default", {a}));
      case 2:
        return keep(call("aten.silu.default", {a}));
      case 3:
        return keep(call("aten.add.Tensor", {a, b}));
      case 4:
        return keep(call("aten.mul.Tensor", {a, b}));
      case 5:
        return keep(call("aten.div.Tensor", {a, number(2.0)}));
      case 6:
        return keep(call("aten.matmul.default", {a, b}));
      case 7:
        return keep(call("aten.transpose.int", {a, integer(-1), integer(-2)}));
      case 8:
        return keep(call("aten.softmax.int", {a, integer(-1)}));
      case 9:
        return keep(linear(a));
      case 10:
        return keep(
            call("aten.layer_norm.default", {a, Argument::list({integer(4)}), Argument(vector_), Argument(vector_)}));
      case 11:
        return keep(call("aten.dropout.default", {a, number(0.1), Argument(seed % 3 == 0)}));
      case 12:
        keep(linear(a));
        return keep(call(seed % 2 ? "aten.gelu.default" : "aten.relu.default", {Argument(values_.back())}));
      case 13: {
        const Argument sum = call("aten.add.Tensor", {a, b});
        if (seed % 3 == 0) keep(sum);
        return keep(
            call("aten.layer_norm.default", {sum, Argument::list({integer(4)}), Argument(vector_), Argument(vector_)}));
      }
      case 14: {
        const Argument gate = call("aten.silu.default", {a});
        if (seed % 4 == 0) keep(gate);
        return keep(call("aten.mul.Tensor", seed % 2 ? std::vector{gate, b} : std::vector{b, gate}));
      }
      case 15:
      case 16: {  // attention: divided or multiplied, with or without a mask
        const Argument t = call("aten.transpose.int", {b, integer(-1), integer(-2)});
        Argument s = call("aten.matmul.default", {a, t});
        if (seed % 3) s = call(seed % 2 ? "aten.div.Tensor" : "aten.mul.Tensor", {s, number(0.5)});
        if (kind == 15) s = call("aten.add.Tensor", seed % 2 ? std::vector{s, c} : std::vector{c, s});
        const Argument p = call("aten.softmax.int", {s, integer(3)});
        if (seed % 5 == 0) keep(p);
        return keep(call("aten.matmul.default", {p, c}));
      }
      case 17: {  // a norm by the root of the mean square
        const Argument square = call("aten.pow.Tensor_Scalar", {a, integer(2)});
        const Argument mean = call("aten.mean.dim", {square, Argument::list({integer(-1)}), Argument(true)});
        const Argument scale = call("aten.rsqrt.default", {call("aten.add.Tensor", {mean, number(1e-6)})});
        const Argument normed = call("aten.mul.Tensor", {a, scale});
        return keep(call("aten.mul.Tensor", {normed, Argument(vector_)}));
      }
      case 18:
        return keep(call("aten.pow.Tensor_Scalar", {a, integer(2)}));
      default: {  // writes to a copy
        const Argument copy = call("aten.clone.default", {a});
        keep(copy);
        return keep(call("aten.relu_.default", {copy}));
      }
    }
  }

  Graph graph_;
  std::vector<ValueId> values_;
  ValueId matrix_, vector_;
};

Graph build(const Choices& choices) { return Builder().build(choices); }

std::set<std::string> nodeNames(const Graph& g) {
  std::set<std::string> out;
  for (NodeId n : g.order()) out.insert(g.node(n).name);
  return out;
}

/// What a match covers, told by what each node's origin is called.
std::set<std::set<std::string>> covered(const Graph& g, const SearchResult& found,
                                        const std::map<std::string, std::string>& names) {
  std::set<std::set<std::string>> out;
  for (const Match& m : found.matches) {
    std::set<std::string> nodes;
    for (NodeId n : m.nodes) nodes.insert(names.empty() ? g.node(n).name : names.at(g.node(n).name));
    out.insert(std::move(nodes));
  }
  return out;
}

bool overlapsAny(const std::set<std::string>& nodes, const std::set<std::set<std::string>>& matches) {
  return std::any_of(matches.begin(), matches.end(), [&](const auto& m) {
    return std::any_of(m.begin(), m.end(), [&](const std::string& n) { return nodes.contains(n); });
  });
}

/// Fails every rewrite, so that each is taken back.
class Refusal : public RewriteCheck {
 public:
  void prepare(const Graph&, const std::vector<std::vector<NodeId>>&) override {}
  RewriteVerification check(const RewriteCandidate&) override { return failed(); }
  RewriteVerification checkWhole(const Graph&, const Graph&, bool) override { return failed(); }

 private:
  static RewriteVerification failed() {
    RewriteVerification out;
    out.verdict = RewriteVerification::Verdict::Failed;
    return out;
  }
};

}  // namespace

TEST_CASE("every graph verifies after every rule, and its records say what changed") {
  size_t rewrites = 0;
  CHECK(rc::check([&](const Choices& choices) {
    Graph g = build(choices);
    RC_ASSERT(verify(g).ok());
    for (const Rule& rule : shippedRules()) {
      const std::set<std::string> before = nodeNames(g);
      auto run = applyRule(g, rule, semantics());
      RC_ASSERT(run.ok());
      const Status sound = verify(g);
      if (!sound) RC_LOG() << rule.name << ": " << sound.error().message << "\n" << toText(g);
      RC_ASSERT(sound.ok());
      std::set<std::string> expected = before;
      for (const Record& r : run->records) {
        ++rewrites;
        expected.insert(r.addedNames.begin(), r.addedNames.end());
        for (const std::string& n : r.removedNames) expected.erase(n);
      }
      RC_ASSERT(nodeNames(g) == expected);
    }
    const std::string text = toText(g);
    const auto again = parseText(text, semantics().operators());
    RC_ASSERT(again.ok());
    RC_ASSERT(toText(*again) == text);
  }));
  CHECK(rewrites > 200);  // or the graphs would show nothing
}

TEST_CASE("matches are disjoint, explaining finds the same ones, and searching changes nothing") {
  CHECK(rc::check([](const Choices& choices) {
    const Graph g = build(choices);
    const std::string text = toText(g);
    const Matcher matcher(g);
    for (const Rule& rule : shippedRules()) {
      const SearchResult found = matcher.findAll(rule);
      std::set<uint32_t> seen;
      for (const Match& m : found.matches)
        for (NodeId n : m.nodes) RC_ASSERT(seen.insert(n.index).second);
      SearchOptions options;
      options.explain = true;
      const SearchResult explained = matcher.findAll(rule, options);
      RC_ASSERT(covered(g, explained, {}) == covered(g, found, {}));
      for (const NearMiss& miss : explained.nearMisses) {
        RC_ASSERT(miss.matched <= miss.total);
        RC_ASSERT_FALSE(miss.message.empty());
        for (const Match& m : explained.matches) RC_ASSERT(miss.anchor != m.anchor);
      }
    }
    RC_ASSERT(toText(g) == text);
  }));
}

TEST_CASE("names do not matter, and order only where matches overlap") {
  CHECK(rc::check([](const Choices& choices, uint32_t seed) {
    const Graph g = build(choices);
    // The same calculation, written in another order that its dependencies allow, under other names.
    Graph other = g;
    std::map<std::string, std::string> original;
    std::vector<NodeId> order = g.order();
    const bool writes = std::any_of(order.begin(), order.end(), [&](NodeId n) { return !g.node(n).op->pure(); });
    for (size_t i = 0; !writes && i + 1 < order.size(); ++i) {
      seed = seed * 1664525u + 1013904223u;
      if (seed >> 31) continue;
      const Node& next = g.node(order[i + 1]);
      bool needs = false;
      for (const Argument& a : next.args)
        a.forEachValue([&](ValueId v) { needs = needs || g.value(v).producer == order[i]; });
      if (needs) continue;
      other.moveBefore(order[i + 1], order[i]);
      std::swap(order[i], order[i + 1]);
    }
    for (NodeId n : g.order()) {
      const std::string name = other.rename(other.node(n).outputs[0], "v" + std::to_string((n.index * 7919u) % 1000u));
      original[other.node(n).name] = g.node(n).name;
      RC_ASSERT(other.node(n).name == name);
    }
    RC_ASSERT(verify(other).ok());
    for (const Rule& rule : shippedRules()) {
      const auto here = covered(g, Matcher(g).findAll(rule), {}),
                 there = covered(other, Matcher(other).findAll(rule), original);
      if (writes) RC_ASSERT(here == there);  // only names differ
      for (const auto& m : here)
        if (!there.contains(m)) RC_ASSERT(overlapsAny(m, there));
      for (const auto& m : there)
        if (!here.contains(m)) RC_ASSERT(overlapsAny(m, here));
    }
  }));
}

TEST_CASE("a rewrite that is taken back leaves the text as it was") {
  size_t back = 0;
  CHECK(rc::check([&](const Choices& choices) {
    Graph g = build(choices);
    const std::string text = toText(g);
    Refusal refusal;
    for (const Rule& rule : shippedRules()) {
      auto run = applyRule(g, rule, semantics(), {&refusal, false});
      RC_ASSERT(run.ok());
      RC_ASSERT(run->records.empty());
      back += run->rolledBack.size();
      RC_ASSERT(toText(g) == text);
    }
  }));
  CHECK(back > 500);
}
