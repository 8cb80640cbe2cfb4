// graft profile: time per operator and per module. graft kernels: what the operator library offers.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "core/base/atomic_file.h"
#include "core/torch/executor.h"

namespace graft::cli {
namespace {

using nlohmann::json;

struct Options : Common {
  std::string model, trace;
  int repetitions = 20;
  int depth = 3;
};

/// "encoder.layer.0" of "encoder.layer.0.attention.self" at depth 3.
std::string shorten(std::string_view path, int depth) {
  size_t at = 0;
  for (int i = 0; i < depth && at != std::string_view::npos; ++i) at = path.find('.', i == 0 ? 0 : at + 1);
  return std::string(path.substr(0, at));
}

std::vector<std::vector<std::string>> timeRows(const char* what,
                                               const std::map<std::string, std::pair<double, size_t>>& sums,
                                               double total) {
  std::vector<std::pair<std::string, std::pair<double, size_t>>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::vector<std::vector<std::string>> rows{{what, "calls", "us", "share"}};
  for (const auto& [name, sum] : sorted)
    rows.push_back({name, std::to_string(sum.second), fmt::format("{:.1f}", sum.first),
                    fmt::format("{:.1f} %", 100 * sum.first / total)});
  return rows;
}

Status profile(const Options& o) {
  const Console console(o);
  const Job job = console.job();
  auto m = importModel(o.model, semantics(), {}, job);
  if (!m) return m.error();
  auto inputs = commandInputs(m->graph, o);
  if (!inputs) return inputs.error();
  auto program = Program::build(m->graph, {o.device, *checkDevice(o), o.jobs});
  if (!program) return program.error();
  const Graph& g = m->graph;
  std::vector<std::vector<double>> samples(g.nodeBound());
  for (int i = 0; i < o.repetitions + 2; ++i) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted", {}};
    job.report("profiling", static_cast<size_t>(i), static_cast<size_t>(o.repetitions + 1));
    std::vector<NodeTime> times;
    auto out = program->profile(*inputs, times);
    if (!out) return out.error();
    if (i < 2) continue;  // the first runs pay for lazy initialisation
    for (const NodeTime& t : times) samples[t.node.index].push_back(t.microseconds);
  }
  double total = 0;
  std::map<std::string, std::pair<double, size_t>> byOperator, byModule;
  json nodes = json::array(), events = json::array();
  for (NodeId n : g.order()) {
    auto& s = samples[n.index];
    if (s.empty()) continue;
    std::nth_element(s.begin(), s.begin() + static_cast<long>(s.size() / 2), s.end());
    const double us = s[s.size() / 2];
    const std::string scope(g.scopeOf(n));
    events.push_back({{"name", g.node(n).name},
                      {"cat", g.node(n).op->name},
                      {"ph", "X"},
                      {"ts", total},
                      {"dur", us},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", {{"module", scope}}}});
    total += us;
    auto add = [&](auto& map, const std::string& key) {
      map[key].first += us;
      ++map[key].second;
    };
    add(byOperator, g.node(n).op->name);
    add(byModule, scope.empty() ? "(model)" : shorten(scope, o.depth));
    nodes.push_back({{"node", g.node(n).name}, {"op", g.node(n).op->name}, {"module", scope}, {"us", us}});
  }
  console.print(fmt::format("{} operators ran in {:.1f} us (sum of medians of {} runs, timed one by one on {})\n",
                            nodes.size(), total, o.repetitions, o.device));
  console.print(table(timeRows("operator", byOperator, total)));
  console.print(table(timeRows("module", byModule, total)));
  if (!o.trace.empty()) {
    if (Status s = writeFileAtomically(o.trace, json{{"traceEvents", events}}.dump()); !s) return s;
    console.print("trace   " + o.trace + " (open it in chrome://tracing or Perfetto)");
  }
  console.document(
      {{"model", o.model}, {"device", o.device}, {"operators", nodes.size()}, {"us", total}, {"nodes", nodes}});
  return done();
}

Status kernels(const Common& o) {
  const Console console(o);
  if (Status s = loadOperatorLibrary(); !s) return s;
  using Describe = const char* (*)();
  const auto describe = reinterpret_cast<Describe>(dlsym(RTLD_DEFAULT, "graft_ops_describe"));
  if (!describe) return internalError("the operator library does not describe itself");
  const json doc = json::parse(describe(), nullptr, false);
  if (doc.is_discarded()) return internalError("the operator library describes itself in broken JSON");
  console.document(doc);
  const json& list = doc.is_array() ? doc : doc.at("operators");
  for (const json& op : list) {
    console.print(console.bold(op.value("name", "?")));
    console.print("  " + op.value("schema", ""));
    for (const char* key : {"doc", "runs_on", "needs"})
      if (op.contains(key))
        console.print("  " + std::string(key) + ": " +
                      (op[key].is_string() ? op[key].get<std::string>() : op[key].dump()));
  }
  return done();
}

}  // namespace

void addProfile(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("profile", "Time per operator and per module; --trace writes a Chrome trace");
  auto o = std::make_shared<Options>();
  c->add_option("model", o->model, "The model")->required()->type_name("MODEL");
  c->add_option("--trace", o->trace, "Write a Chrome trace")->type_name("T.json");
  c->add_option("--depth", o->depth, "How deep modules are told apart")->capture_default_str();
  c->add_option("--repetitions", o->repetitions, "How many runs the medians are of")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return profile(*o); }; });
}

void addKernels(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("kernels", "The graft:: operators, where they run and what they need");
  auto o = std::make_shared<Common>();
  addCommon(*c, *o, false);
  c->callback([&run, o] { run = [o] { return kernels(*o); }; });
}

}  // namespace graft::cli
