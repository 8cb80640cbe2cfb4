// What rules cost on real model files, as a user's command pays it: reading a rule file, matching, rewriting with types
// inferred by LibTorch, explaining, and giving up on a pattern without end. Run by peers_match.py beside torch.fx's and
// TorchScript's matchers on the same models.
//
//   build/bin/bench/bench_rules --rules rules.py --model m.pt in.pt [--model …] [Google Benchmark's options]
//   build/bin/bench/bench_rules --benchmark_filter=readRuleFile   # also as the first file that a process reads
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/formats/model.h"
#include "core/text/text.h"
#include "core/torch/executor.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"
#include "matcher/lang/rule_file.h"
#include "matcher/rewrite/rewrite.h"

namespace {

using namespace graft;

template <class T>
T take(Result<T> r) {
  if (r) return std::move(*r);
  std::fprintf(stderr, "%s\n", r.error().format().c_str());
  std::exit(1);
}

const Semantics& semantics() {
  static const std::unique_ptr<Semantics> s = [] {
    if (Status loaded = loadOperatorLibrary(); !loaded) std::fprintf(stderr, "%s\n", loaded.error().format().c_str());
    return makeTorchSemantics();
  }();
  return *s;
}

const char* shippedRules = GRAFT_SOURCE_DIR "/resources/rules/transformer.py";

// The shipped file up to its `count`th rule, without its recipes.
std::string firstRules(size_t count) {
  std::ifstream in(shippedRules);
  std::ostringstream all;
  all << in.rdbuf();
  std::string text = all.str();
  size_t at = 0;
  for (size_t i = 0; i <= count && at != std::string::npos; ++i) at = text.find("\nclass ", at + 1);
  if (at != std::string::npos) text.resize(at + 1);
  return text;
}

double milliseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

double readOnce(const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  const RuleFile file = take(parseRuleText(text, shippedRules, semantics().operators()));
  benchmark::DoNotOptimize(file.rules.data());
  return milliseconds(std::chrono::steady_clock::now() - begin);
}

void readRuleFile(benchmark::State& state) {
  const std::string text = firstRules(static_cast<size_t>(state.range(0)));
  double least = 1e9;
  for (auto _ : state) {
    const double ms = readOnce(text);
    state.SetIterationTime(ms / 1000);
    least = std::min(least, ms);
  }
  state.counters["least"] = least;
}

// The first file that a process reads: tables are made, and code that has not run yet is paged in. Each time in a
// process of its own.
void readRuleFileFirst(benchmark::State& state) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  double least = 1e9;
  for (auto _ : state) {
    FILE* child = popen((program + " --first " + std::to_string(state.range(0))).c_str(), "r");
    double ms = 0;
    if (!child || std::fscanf(child, "%lf", &ms) != 1) state.SkipWithError("the other process said nothing");
    if (child) pclose(child);
    state.SetIterationTime(ms / 1000);
    least = std::min(least, ms);
  }
  state.counters["least"] = least;
}

void matchOne(benchmark::State& state, const Graph& g, const Rule& rule) {
  size_t matches = 0;
  for (auto _ : state) matches = Matcher(g).findAll(rule).matches.size();
  state.counters["matches"] = static_cast<double>(matches);
  state.counters["nodes"] = static_cast<double>(g.nodeCount());
}

void matchShipped(benchmark::State& state, const Graph& g, const RuleFile& file) {
  size_t matches = 0;
  uint64_t steps = 0, looked = 0;
  for (auto _ : state) {
    const Matcher m(g);
    matches = steps = looked = 0;
    for (const Rule& r : file.rules) {
      const SearchResult found = m.findAll(r);
      matches += found.matches.size();
      steps += found.steps;
      looked += found.looked;
    }
  }
  state.counters["steps per node"] = static_cast<double>(steps) / static_cast<double>(g.nodeCount());
  state.counters["looked at per node"] = static_cast<double>(looked) / static_cast<double>(g.nodeCount());
  state.counters["matches"] = static_cast<double>(matches);
  state.counters["rules"] = static_cast<double>(file.rules.size());
}

void matchAndRewrite(benchmark::State& state, const Graph& g, const Rule& rule) {
  size_t rewrites = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto copy = std::make_unique<Graph>(g);
    state.ResumeTiming();
    rewrites = take(applyRule(*copy, rule, semantics())).records.size();
    state.PauseTiming();
    copy.reset();
    state.ResumeTiming();
  }
  state.counters["rewrites"] = static_cast<double>(rewrites);
}

void explainOne(benchmark::State& state, const Graph& g, const Rule& rule) {
  SearchOptions options;
  options.explain = true;
  size_t misses = 0;
  for (auto _ : state) misses = Matcher(g).findAll(rule, options).nearMisses.size();
  state.counters["near misses"] = static_cast<double>(misses);
}

// A tree of 31 additions whose leaves are alike, but for one that the pattern does not want: every order of every
// addition's operands would have to be tried.
void giveUp(benchmark::State& state) {
  std::string rule = "import torch\ndef pattern(x):\n", graph = "graph g {\n  input %x : f32[8]\n";
  std::vector<std::string> level;
  for (int i = 0; i < 32; ++i) {
    const std::string name = "r" + std::to_string(i);
    rule += "    " + name + " = torch.relu(x)\n";
    graph += "  %" + name + " = aten." + (i == 31 ? "tanh" : "relu") + ".default(%x) : f32[8]\n";
    level.push_back(name);
  }
  for (int next = 0; level.size() > 1;) {
    std::vector<std::string> up;
    for (size_t i = 0; i < level.size(); i += 2) {
      up.push_back("a" + std::to_string(next++));
      rule += "    " + up.back() + " = " + level[i] + " + " + level[i + 1] + "\n";
      graph += "  %" + up.back() + " = aten.add.Tensor(%" + level[i] + ", %" + level[i + 1] + ") : f32[8]\n";
    }
    level = up;
  }
  rule += "    return " + level[0] + "\n";
  graph += "  return %" + level[0] + "\n}\n";
  const RuleFile file = take(parseRuleText(rule, "without_end.py", semantics().operators()));
  const Graph g = take(parseText(graph, semantics().operators()));
  bool exceeded = false;
  for (auto _ : state) exceeded = Matcher(g).findAll(file.rules[0]).budgetExceeded;
  state.counters["budget exceeded"] = exceeded;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--first") {
    semantics();
    std::printf("%f\n", readOnce(firstRules(std::strtoul(argv[2], nullptr, 10))));
    return 0;
  }
  std::string rules;
  std::list<Graph> graphs;  // benchmarks keep references
  std::vector<char*> rest{argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--rules" && i + 1 < argc) {
      rules = argv[++i];
    } else if (option == "--model" && i + 2 < argc) {
      graphs.push_back(take(importModel(argv[i + 1], semantics())).graph);
      if (Status s = recordTypes(graphs.back(), take(loadTensors(argv[i + 2]))); !s) {
        std::fprintf(stderr, "%s\n", s.error().format().c_str());
        return 1;
      }
      i += 2;
    } else {
      rest.push_back(argv[i]);
    }
  }
  const RuleFile shipped = take(loadRuleFile(shippedRules, semantics().operators()));
  RuleFile given;
  if (!rules.empty()) given = take(loadRuleFile(rules, semantics().operators()));
  for (const int count : {10, 20}) {
    benchmark::RegisterBenchmark("readRuleFile", readRuleFile)
        ->Arg(count)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("readRuleFileFirst", readRuleFileFirst)
        ->Arg(count)
        ->UseManualTime()
        ->Iterations(10)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("giveUp", giveUp)->Unit(benchmark::kMillisecond);
  size_t k = 0;
  for (const Graph& g : graphs) {
    const std::string of = "/" + std::to_string(k++);
    const auto add = [&](const std::string& name, auto&& f) {
      benchmark::RegisterBenchmark((name + of).c_str(), f)->Unit(benchmark::kMillisecond);
    };
    add("matchShipped", [&](benchmark::State& s) { matchShipped(s, g, shipped); });
    for (const Rule& r : given.rules) {
      add("match" + r.name, [&](benchmark::State& s) { matchOne(s, g, r); });
      add("rewrite" + r.name, [&](benchmark::State& s) { matchAndRewrite(s, g, r); });
      add("explain" + r.name, [&](benchmark::State& s) { explainOne(s, g, r); });
    }
  }
  int count = static_cast<int>(rest.size());
  benchmark::Initialize(&count, rest.data());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
