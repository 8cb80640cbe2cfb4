// graft partition: what a training step keeps for its backward pass, and what is computed again instead.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/workbench/training/partition.h"
#include "core/base/words.h"

namespace graft::cli {
namespace {

using workbench::PartitionReport;
using workbench::PeakBytes;

struct PartitionFlags : Common {
  std::string model, output, cut;
  std::string memory;
  std::vector<std::string> save, recompute;
  bool noVerify = false, measure = false, curve = false;
};

/// "60%", "60 %" or "0.6".
Result<double> parseMemory(const std::string& text) {
  char* end = nullptr;
  double share = std::strtod(text.c_str(), &end);
  while (*end == ' ') ++end;
  const bool isPercent = *end == '%';
  if (isPercent) share /= 100;
  if (end == text.c_str() || !(std::string_view(end) == (isPercent ? "%" : "")) || !(share >= 0 && share <= 1))
    return Error{ErrorKind::Usage,
                 fmt::format("--memory {}: this is no share of memory; give one from 0% to 100%, or from 0 to 1", text),
                 {}};
  return share;
}

std::string inModule(const std::string& module) { return module.empty() ? "(model)" : module; }

void print(const PartitionReport& r, const Console& console) {
  std::vector<std::vector<std::string>> rows{
      {"saved", "type", "bytes", "made by", "module", "read by", "us", "why it is saved"}};
  for (const workbench::SavedTensor& s : r.saved)
    rows.push_back({s.name, s.type, bytesText(s.bytes), s.producer.empty() ? "(input)" : s.producer, inModule(s.module),
                    firstFew(s.consumers, 2), fmt::format("{:.1f}", s.microseconds), s.reason});
  if (rows.size() > 1) console.print(table(rows));
  rows = {{"computed again", "operator", "bytes", "module", "us", "why"}};
  for (const workbench::RecomputedNode& n : r.recomputed)
    rows.push_back(
        {n.name, n.op, bytesText(n.bytes), inModule(n.module), fmt::format("{:.1f}", n.microseconds), n.reason});
  if (rows.size() > 1) console.print(table(rows));
  const double part =
      r.defaultBytes == 0 ? 100 : 100.0 * static_cast<double>(r.savedBytes) / static_cast<double>(r.defaultBytes);
  console.print(fmt::format(
      "{} for the backward pass: {} ({:.1f} % of the default cut's {}); {} if nothing were "
      "computed again, {} at least",
      counted(r.saved.size(), "value") + (r.saved.size() == 1 ? " is saved" : " are saved"), bytesText(r.savedBytes),
      part, bytesText(r.defaultBytes), bytesText(r.nothingBytes), bytesText(r.leastBytes)));
  console.print(fmt::format("{} computed again in {:.1f} us ({})",
                            counted(r.recomputed.size(), "node") + (r.recomputed.size() == 1 ? " is" : " are"),
                            r.recomputedMicroseconds,
                            r.timesAreMeasured ? "measured" : "estimated; --measure times it"));
  const auto peak = [&](const char* how, const PeakBytes& p) {
    console.print(fmt::format("peak memory of activations, {}: {} (forward {}, backward {})", how, bytesText(p.most()),
                              bytesText(p.forward), bytesText(p.backward)));
  };
  peak("simulated", r.simulated);
  if (r.measured) peak("measured", *r.measured);
  if (!r.curve.empty()) {
    rows = {{"budget", "saved", "computed again us", "peak forward", "peak backward"}};
    for (const workbench::BudgetPoint& p : r.curve)
      rows.push_back({fmt::format("{:.0f}%", 100 * p.memory), bytesText(p.savedBytes),
                      fmt::format("{:.1f}", p.recomputedMicroseconds), bytesText(p.simulated.forward),
                      bytesText(p.simulated.backward)});
    console.print(table(rows));
  }
  if (r.differences) {
    double most = 0;
    for (const Difference& d : *r.differences) most = std::max(most, d.maxAbs);
    console.print(fmt::format("both halves compute what the joint graph does: {} compared, largest difference {:.3g}",
                              counted(r.differences->size(), "value"), most));
  }
  for (const workbench::WrittenHalf* half : {&r.forward, &r.backward})
    if (!half->path.empty())
      console.print(fmt::format("{}: {}, takes {}", half->path, counted(half->nodes, "node"),
                                half->inputs.empty() ? "nothing" : fmt::format("{}", fmt::join(half->inputs, ", "))));
}

Status partition(const PartitionFlags& o) {
  const Console console(o.printing);
  if (!o.output.empty())
    if (Status s = checkModelOutput(o.output); !s) return s;
  workbench::CutWishes wishes;
  if (!o.cut.empty()) {
    auto read = workbench::readCutFile(o.cut);
    if (!read) return read.error();
    wishes = std::move(*read);
  }
  if (!o.memory.empty()) {
    auto memory = parseMemory(o.memory);
    if (!memory) return memory.error();
    wishes.memory = *memory;
  }
  wishes.save.insert(wishes.save.end(), o.save.begin(), o.save.end());
  wishes.recompute.insert(wishes.recompute.end(), o.recompute.begin(), o.recompute.end());
  auto inputs = inputRequest(o);
  if (!inputs) return inputs.error();
  workbench::PartitionRequest request{.model = {o.model, o.method.empty() ? "joint" : o.method, inputs->dtype},
                                      .inputs = *inputs,
                                      .wishes = std::move(wishes),
                                      .verify = !o.noVerify,
                                      .measure = o.measure,
                                      .curve = o.curve,
                                      .output = o.output};
  auto report = workbench::partition(request, semantics(), console.job());
  if (!report) return report.error();
  noteRandomInputs(report->random, console);
  for (const std::string& note : report->notes) console.note(note);
  if (!report->notRun.empty())
    console.warn("the halves were not run beside the joint graph: " + report->notRun +
                 "\nGive inputs with --inputs or --input, or skip this with --no-verify.");
  if (!report->notFinite.empty())
    console.warn(fmt::format("the {} of these inputs {} NaN or infinity, in the joint graph too",
                             firstFew(report->notFinite, 3), report->notFinite.size() == 1 ? "holds" : "hold"));
  console.document(workbench::document(toJson(*report)));
  if (report->failure) return *report->failure;
  print(*report, console);
  return done();
}

}  // namespace

void addPartition(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand(
      "partition", "Part a training step into its forward and backward halves: what is saved, what is computed again");
  auto o = std::make_shared<PartitionFlags>();
  c->add_option("model", o->model, "A file that graft_fx.capture(model, inputs, path, joint=True) wrote")
      ->required()
      ->type_name("MODEL.fx");
  c->add_option("--memory", o->memory,
                "How much may be saved, as a share of what the default cut saves (100%); the rest is computed again")
      ->type_name("SHARE%");
  c->add_option("--save", o->save, "Always save this value; give it once for each")
      ->type_name("VALUE")
      ->allow_extra_args(false);
  c->add_option("--recompute", o->recompute, "Always compute this node, or this module, again; give it once for each")
      ->type_name("NODE|MODULE")
      ->allow_extra_args(false);
  c->add_option("--cut", o->cut,
                "A file with memory, save and recompute, as the window writes it; --memory goes before its memory")
      ->type_name("CUT.json");
  c->add_flag("--curve", o->curve, "Print what other budgets would save, compute again and take at their peak");
  c->add_flag("--measure", o->measure, "Time the joint graph's nodes, and weigh memory against these times");
  c->add_flag("--no-verify", o->noVerify, "Do not run both halves beside the joint graph");
  c->add_option("-o,--output", o->output, "Where the halves go: OUT.forward.pt and OUT.backward.pt")
      ->type_name("OUT.pt|OUT.pt2");
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->footer(
      "Without --method the graph is joint. The forward half returns the model's results, then what is saved; the "
      "backward half takes that and the tangents, and returns the gradients. Views and parameters are never saved: "
      "they are there anyway. Random numbers are never drawn twice.\n"
      "The pass partition() of recipes is something else: it names pieces of a graph for another runtime.");
  c->callback([&run, o] { run = [o] { return partition(*o); }; });
}

}  // namespace graft::cli
