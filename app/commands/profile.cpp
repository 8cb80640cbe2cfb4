// graft profile: time per operator and per module. graft kernels: what the operator library offers.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "core/base/atomic_file.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/executor.h"
#include "core/torch/gpu_state.h"
#include "core/torch/operator_library.h"

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

/// The module that a node belongs to; of models without modules (exported ones are one function) the one whose weights
/// it takes.
std::string moduleOf(const Graph& g, NodeId id) {
  std::string scope(g.scopeOf(id));
  if (!scope.empty()) return scope;
  for (const Argument& a : g.node(id).args)
    a.forEachValue([&](ValueId v) {
      const std::string& path = g.value(v).path;
      const size_t dot = path.rfind('.');
      if (scope.empty() && g.isWeight(v) && !g.value(v).isConstant && dot != path.npos) scope = path.substr(0, dot);
    });
  return scope;
}

/// One node's time, however it was taken.
struct Row {
  NodeId node;
  double microseconds = 0;
  std::vector<std::string> kernels;
};
struct Measured {
  std::vector<Row> rows;  ///< in the order they run
  std::string how;
  json facts;
};

/// Each operator timed by itself: on the CPU by the clock, on a GPU by events around its launches.
Result<Measured> oneByOne(const Program& program, const TensorSet& inputs, const Options& o, const Job& job) {
  std::map<NodeId, std::vector<double>> samples;
  std::vector<NodeId> order;
  constexpr int warmUp = 2;  // the first runs pay for lazy initialisation
  for (int i = 0; i < o.repetitions + warmUp; ++i) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted", {}};
    job.report("profiling", static_cast<size_t>(i), static_cast<size_t>(o.repetitions + warmUp - 1));
    std::vector<NodeTime> times;
    auto out = program.profile(inputs, times);
    if (!out) return out.error();
    if (i < warmUp) continue;
    std::map<NodeId, double> sums;  // a node in a loop runs more than once
    for (const NodeTime& t : times) {
      if (!sums.contains(t.node) && !samples.contains(t.node)) order.push_back(t.node);
      sums[t.node] += t.microseconds;
    }
    for (const auto& [node, us] : sums) samples[node].push_back(us);
  }
  Measured m;
  for (NodeId n : order) {
    auto& s = samples[n];
    std::nth_element(s.begin(), s.begin() + static_cast<long>(s.size() / 2), s.end());
    m.rows.push_back({n, s[s.size() / 2], {}});
  }
  m.how = fmt::format("sum of medians of {} runs, timed one by one on {}", o.repetitions, o.device);
  return m;
}

/// Replays of a captured graph with a mark before each operator.
Result<Measured> captured(const Program& program, const TensorSet& inputs, const Options& o, const Job& job) {
  auto runner = CudaRunner::make(program);
  if (!runner) return runner.error();
  auto profile = runner->profile(inputs, o.repetitions, job);
  if (!profile) return profile.error();
  Measured m;
  for (CudaRunner::NodeProfile& n : profile->nodes) m.rows.push_back({n.node, n.microseconds, std::move(n.kernels)});
  const std::string state = gpuStateText(o.device);
  const size_t peak = peakGpuMemory(o.device);
  m.how = fmt::format(
      "medians of {} replays of a CUDA graph with a mark before each operator, {:.1f} us; without marks the whole "
      "takes "
      "{:.1f} us, {} kernels; {} MiB of GPU memory held at most; {}",
      o.repetitions, profile->labelledMs * 1000, profile->milliseconds * 1000, profile->kernels, peak >> 20, state);
  m.facts = {{"captured", true},
             {"whole_us", profile->milliseconds * 1000},
             {"labelled_us", profile->labelledMs * 1000},
             {"kernels", profile->kernels},
             {"peak_bytes", peak},
             {"gpu", state}};
  return m;
}

Result<Measured> measure(const Program& program, const TensorSet& inputs, const Options& o, const Console& console,
                         const Job& job) {
  if (o.device == "cpu") return oneByOne(program, inputs, o, job);
  auto m = captured(program, inputs, o, job);
  if (m || m.error().kind == ErrorKind::Cancelled) return m;
  console.note("not captured: " + m.error().message);
  return oneByOne(program, inputs, o, job);
}

Status profile(const Options& o) {
  const Console console(o);
  const Job job = console.job();
  auto options = runOptions(o);
  if (!options) return options.error();
  if (!o.trace.empty())
    if (auto probe = AtomicFile::beside(o.trace); !probe) return probe.error();
  auto m = importModel(o.model, semantics(), {}, job);
  if (!m) return m.error();
  auto inputs = commandInputs(m->graph, o);
  if (!inputs) return inputs.error();
  auto program = Program::build(m->graph, *options);
  if (!program) return program.error();
  auto measured = measure(*program, *inputs, o, console, job);
  if (!measured) return measured.error();
  const Graph& g = m->graph;
  double total = 0;
  std::map<std::string, std::pair<double, size_t>> byOperator, byModule;
  json nodes = json::array(), events = json::array();
  for (const Row& row : measured->rows) {
    const Node& n = g.node(row.node);
    const std::string scope = moduleOf(g, row.node);
    json arguments{{"module", scope}};
    if (!row.kernels.empty()) arguments["kernels"] = row.kernels;
    events.push_back({{"name", n.name},
                      {"cat", n.op->name},
                      {"ph", "X"},
                      {"ts", total},
                      {"dur", row.microseconds},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", std::move(arguments)}});
    total += row.microseconds;
    auto add = [&](auto& map, const std::string& key) {
      map[key].first += row.microseconds;
      ++map[key].second;
    };
    add(byOperator, n.op->name);
    add(byModule, scope.empty() ? "(model)" : shorten(scope, o.depth));
    json node{{"node", n.name}, {"op", n.op->name}, {"module", scope}, {"us", row.microseconds}};
    if (!row.kernels.empty()) node["kernels"] = row.kernels;
    nodes.push_back(std::move(node));
  }
  console.print(fmt::format("{} operators ran in {:.1f} us ({})\n", nodes.size(), total, measured->how));
  console.print(table(timeRows("operator", byOperator, total)));
  console.print(table(timeRows("module", byModule, total)));
  if (!o.trace.empty()) {
    if (Status s = writeFileAtomically(o.trace, json{{"traceEvents", events}}.dump()); !s) return s;
    console.print("trace   " + o.trace + " (open it in chrome://tracing or Perfetto)");
  }
  json doc{{"model", o.model}, {"device", o.device}, {"operators", nodes.size()}, {"us", total}, {"nodes", nodes}};
  doc.update(measured->facts.is_null() ? json::object() : measured->facts);
  console.document(doc);
  return done();
}

Status kernels(const Common& o) {
  const Console console(o);
  if (Status s = loadOperatorLibrary(); !s) return s;
  const char* described = describeOperatorLibrary();
  if (!described) return internalError("the operator library does not describe itself");
  const json doc = json::parse(described, nullptr, false);
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
