// graft profile: time per operator and per module.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/workbench/profile.h"
#include "core/base/atomic_file.h"
#include "core/base/demangle.h"
#include "core/base/numbers/percent.h"

namespace graft::cli {
namespace {

using nlohmann::json;
using workbench::ProfiledNode;
using workbench::ProfileReport;

struct ProfileFlags : Common {
  std::string model, trace;
  int repetitions = 20;
  int depth = 3;
  bool timeline = false;
};

/// "encoder.layer.0" of "encoder.layer.0.attention.self" at depth 3.
std::string shorten(std::string_view path, int depth) {
  size_t at = 0;
  for (int i = 0; i < depth && at != std::string_view::npos; ++i) at = path.find('.', i == 0 ? 0 : at + 1);
  return std::string(path.substr(0, at));
}

/// As people read it, and no longer than a table bears.
std::string shortKernel(const std::string& mangled) {
  constexpr size_t most = 60;
  const std::string name = demangled(mangled);
  return name.size() > most ? name.substr(0, most - 1) + "…" : name;
}

/// "62 %": the least time for what ran, at the speeds of memory and arithmetic that this machine reaches, as part of
/// the time that it took; "-" where that is not known.
std::string shareOfRoofline(double least, double microseconds) {
  return least > 0 && microseconds > 0 ? percentText(least / microseconds) : "-";
}

/// Microseconds and calls by name, the longest first.
template <class NameOf>
std::string timeTable(const char* heading, const ProfileReport& report, NameOf nameOf) {
  struct Sum {
    double microseconds = 0, least = 0, timeOfLeast = 0;
    size_t calls = 0;
  };
  std::map<std::string, Sum> sums;
  for (const ProfiledNode& n : report.nodes) {
    Sum& sum = sums[nameOf(n)];
    sum.microseconds += n.microseconds;
    ++sum.calls;
    if (!n.least) continue;
    sum.least += *n.least;
    sum.timeOfLeast += n.microseconds;
  }
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.microseconds > b.second.microseconds; });
  std::vector<std::vector<std::string>> rows{{heading, "calls", "us", "share", "of roofline"}};
  for (const auto& [name, sum] : sorted)
    rows.push_back({name, std::to_string(sum.calls), fmt::format("{:.1f}", sum.microseconds),
                    fmt::format("{:.1f} %", 100 * sum.microseconds / report.microseconds),
                    shareOfRoofline(sum.least, sum.timeOfLeast)});
  return table(rows);
}

/// The generated kernels by name and module, the longest first. Empty where there are none.
std::string generatedTable(const ProfileReport& report) {
  std::vector<const ProfiledNode*> kernels;
  for (const ProfiledNode& n : report.nodes)
    if (!n.generated.empty()) kernels.push_back(&n);
  if (kernels.empty()) return "";
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const ProfiledNode* a, const ProfiledNode* b) { return a->microseconds > b->microseconds; });
  std::vector<std::vector<std::string>> rows{
      {"generated kernel", "us", "MB", "GB/s", "Gop/s", "of roofline", "module"}};
  for (const ProfiledNode* n : kernels) {
    const double speed = n->microseconds > 0 ? static_cast<double>(n->bytes) / n->microseconds : 0;
    rows.push_back(
        {n->generated, fmt::format("{:.1f}", n->microseconds),
         n->bytes > 0 ? fmt::format("{:.3f}", static_cast<double>(n->bytes) / 1e6) : "?",
         n->bytes > 0 ? fmt::format("{:.1f}", speed / 1e3) : "?",
         n->operations && n->microseconds > 0 ? fmt::format("{:.1f}", *n->operations / n->microseconds / 1e3) : "-",
         shareOfRoofline(n->least.value_or(0), n->microseconds), n->module.empty() ? "(model)" : n->module});
  }
  return table(rows);
}

/// What "of roofline" counts with.
std::string rooflineLine(const ProfileReport& report) {
  if (!report.bandwidth) return "";
  std::string speeds = fmt::format("{:.1f} GB/s that copying reaches here", *report.bandwidth / 1e3);
  for (const auto& [type, speed] : report.speeds)
    speeds += fmt::format(", {:.1f} Gop/s of a large matrix product of {}", speed / 1e3, dtypeShort(type));
  return "of roofline: the least time for the bytes and the floating-point operations, at " + speeds +
         ", as part of the time; more than 100 % comes from caches\n";
}

/// The kernels of a captured graph, by name and how they are launched: who wrote them, what they take of the GPU.
std::string kernelTable(const ProfileReport& report) {
  struct Row {
    size_t calls = 0, alone = 0;
    double microseconds = 0;
  };
  std::map<std::vector<std::string>, Row> sums;
  for (const ProfiledNode& n : report.nodes)
    for (const CudaRunner::Launch& l : n.launches) {
      const auto known = [](int64_t v) { return v < 0 ? std::string("?") : std::to_string(v); };
      Row& row =
          sums[{shortKernel(l.kernel), n.origin, fmt::format("{} x {}", l.blocks, l.threads), known(l.registers),
                std::to_string(l.sharedBytes), l.occupancy ? percentText(*l.occupancy) : "?", known(l.localBytes)}];
      ++row.calls;
      if (n.launches.size() > 1) continue;
      ++row.alone;
      row.microseconds += n.microseconds;
    }
  if (sums.empty()) return "";
  std::vector<std::pair<std::vector<std::string>, Row>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.microseconds > b.second.microseconds; });
  std::vector<std::vector<std::string>> rows{
      {"kernel", "by", "launch", "registers", "shared B", "occupancy", "local B", "calls", "us"}};
  for (const auto& [cells, row] : sorted) {
    rows.push_back(cells);
    rows.back().push_back(std::to_string(row.calls));
    rows.back().push_back(row.alone < row.calls ? "-" : fmt::format("{:.1f}", row.microseconds));
  }
  return table(rows) +
         "launch: blocks x threads. local B: of a thread, spilled registers and arrays that are none. A dash: an "
         "operator runs several kernels, which are timed together\n";
}

/// What each lane does, and what is left of the run.
std::string laneTable(const Timeline& t) {
  std::vector<std::vector<std::string>> rows{{"lane", "spans", "busy us", "idle us", "share"}};
  for (const TimelineLane& lane : t.lanes)
    rows.push_back({lane.name, std::to_string(lane.spans.size()), fmt::format("{:.1f}", lane.busy()),
                    fmt::format("{:.1f}", t.idle(lane)), fmt::format("{:.1f} %", 100 * lane.busy() / t.microseconds)});
  return fmt::format("one run took {:.1f} us ({})\n", t.microseconds, t.how) + table(rows);
}

/// A lane is a thread of the trace, as chrome://tracing and Perfetto have them.
json chromeTrace(const Timeline& t) {
  json events = json::array();
  for (size_t lane = 0; lane < t.lanes.size(); ++lane) {
    const size_t thread = lane + 1;
    events.push_back(
        {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", thread}, {"args", {{"name", t.lanes[lane].name}}}});
    for (const TimelineSpan& s : t.lanes[lane].spans)
      events.push_back({{"name", s.node.empty() ? s.what : s.node},
                        {"cat", s.what},
                        {"ph", "X"},
                        {"ts", s.start},
                        {"dur", s.microseconds},
                        {"pid", 1},
                        {"tid", thread},
                        {"args", {{"node", s.node}}}});
  }
  return {{"traceEvents", std::move(events)}};
}

/// The nodes one after the other, in the format that chrome://tracing and Perfetto read.
json chromeTrace(const ProfileReport& report) {
  json events = json::array();
  double at = 0;
  for (const ProfiledNode& n : report.nodes) {
    json arguments{{"module", n.module}};
    for (const CudaRunner::Launch& l : n.launches) arguments["kernels"].push_back(l.kernel);
    events.push_back({{"name", n.name},
                      {"cat", n.op},
                      {"ph", "X"},
                      {"ts", at},
                      {"dur", n.microseconds},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", std::move(arguments)}});
    at += n.microseconds;
  }
  return {{"traceEvents", std::move(events)}};
}

Status profile(const ProfileFlags& o) {
  const Console console(o.printing);
  const Job job = console.job();
  auto options = runOptions(o);
  if (!options) return options.error();
  if (!o.trace.empty())
    if (auto probe = AtomicFile::beside(o.trace); !probe) return probe.error();
  auto model = workbench::open({o.model, methodOf(o)}, semantics(), job);
  if (!model) return model.error();
  auto inputs = modelInputs(model->graph, o, console);
  if (!inputs) return inputs.error();
  auto report =
      workbench::profile(*model, *inputs, {*options, o.repetitions, o.timeline, &semantics().operators()}, job);
  if (!report) return report.error();
  if (!report->notCaptured.empty())
    console.note("The model ran operator by operator, not as a CUDA graph: " + report->notCaptured);
  console.print(
      fmt::format("{} operators ran in {:.1f} us ({})\n", report->nodes.size(), report->microseconds, report->how));
  console.print(timeTable("operator", *report, [](const ProfiledNode& n) { return n.op; }));
  console.print(timeTable("module", *report, [&](const ProfiledNode& n) {
    return n.module.empty() ? "(model)" : shorten(n.module, o.depth);
  }));
  if (const std::string generated = generatedTable(*report); !generated.empty()) console.print(generated);
  if (const std::string speeds = rooflineLine(*report); !speeds.empty()) console.print(speeds);
  if (const std::string kernels = kernelTable(*report); !kernels.empty()) console.print(kernels);
  if (report->timeline) console.print(laneTable(*report->timeline));
  if (!o.trace.empty()) {
    const json trace = report->timeline ? chromeTrace(*report->timeline) : chromeTrace(*report);
    if (Status s = writeFileAtomically(o.trace, trace.dump()); !s) return s;
    console.print("trace   " + o.trace + " (open it in chrome://tracing or Perfetto)");
  }
  console.document(workbench::document(toJson(*report)));
  return done();
}

}  // namespace

void addProfile(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("profile",
                               "Time each operator and each module, beside the least time that this machine allows; "
                               "with --trace, write a Chrome trace");
  auto o = std::make_shared<ProfileFlags>();
  c->add_option("model", o->model, "The model")->required()->type_name("MODEL");
  c->add_option("--trace", o->trace, "Where to write a Chrome trace")->type_name("T.json");
  c->add_flag("--timeline", o->timeline,
              "Say what the host, its threads and each stream of a GPU do in one run; --trace then has a row for each");
  c->add_option("--depth", o->depth, "How deep nested modules are listed on their own")->capture_default_str();
  c->add_option("--repetitions", o->repetitions, "How many runs each median is of")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return profile(*o); }; });
}

}  // namespace graft::cli
