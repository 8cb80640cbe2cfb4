#include "app/console/applied_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "app/console/differences_text.h"
#include "app/console/timing_text.h"
#include "app/console/verification_text.h"
#include "core/base/words.h"
#include "matcher/passes/passes.h"

namespace graft::cli {
namespace {

using workbench::ApplyReport;
using Verdict = RewriteVerification::Verdict;

std::string stepsTable(const std::vector<StepRun>& steps, const StepsShown& shown) {
  constexpr size_t kNamed = 4;
  std::vector<std::vector<std::string>> rows{{"step", "rewrites", "verified", "ms", "where"}};
  std::vector<std::string> idle;
  for (const StepRun& s : steps) {
    if (s.isRule && workbench::foundNothing(s) && !(shown.idle && shown.each)) {
      idle.push_back(s.name);
      continue;
    }
    if (!s.isRule && !shown.passes) continue;
    std::string where;
    size_t places = 0;
    for (const Record& r : s.records) {
      if (r.scope.empty() || places == 2) continue;
      where += (places++ ? ", " : "") + r.scope;
    }
    if (s.records.size() > places && places > 0) where += ", …";
    rows.push_back(
        {s.name, std::to_string(s.records.size()), verifiedText(s), fmt::format("{:.2f}", s.milliseconds), where});
  }
  if (idle.empty() || !shown.idle) return table(rows);
  return table(rows) + fmt::format("{} matched nothing: {}{}\n", counted(idle.size(), "rule"), firstFew(idle, kNamed),
                                   idle.size() > kNamed && shown.hints ? " (--verbose lists them)" : "");
}

/// Which rewrites were taken back and which could not be verified: --quiet silences neither.
void tellVerifications(const std::vector<StepRun>& steps, const StepsShown& shown, const Console& console) {
  size_t back = 0;
  for (const StepRun& s : steps) {
    back += s.rolledBack.size();
    for (const std::string& line : takenBackLines(s, shown.each)) console.warn(line);
    std::map<std::string, size_t> unverified, remarks;
    for (const RewriteVerification& v : verificationsOf(s))
      if (v.verdict == Verdict::Unverified)
        ++unverified[v.why];
      else if (v.verdict == Verdict::Verified && !v.why.empty())
        ++remarks[v.why];
    for (const auto& [why, count] : remarks) console.note(fmt::format("{}: {} verified, but {}", s.name, count, why));
    for (const auto& [why, count] : unverified)
      console.warn(fmt::format("{}: {} not verified{}: {}", s.name, s.isRule ? counted(count, "rewrite") : "the step",
                               s.isRule ? " on its own" : "", why));
  }
  if (back == 0) return;
  const std::string more = back == 1 || shown.each ? "." : "; --verbose and --report list each of them.";
  console.warn(fmt::format("{} taken back; the others stay.{}",
                           back == 1 ? "1 rewrite was" : fmt::format("{} rewrites were", back),
                           shown.hints ? " With --strict that is an error" + more : ""));
}

/// A path from the current folder, where it lies below.
std::string fromHere(const std::string& path) {
  std::error_code e;
  const auto near = std::filesystem::proximate(path, e).string();
  return e || near.starts_with("..") ? path : near;
}

/// What a program in Python does about a library of operators before it loads the written file.
std::string howToLoad(const std::string& library) {
  const std::string what =
      library.ends_with(".py")
          ? fmt::format("import {}, of {}", std::filesystem::path(library).stem().string(), fromHere(library))
          : fmt::format("torch.ops.load_library(\"{}\")", fromHere(library));
  return "in Python, before it is loaded: " + what;
}

}  // namespace

void tellRewritten(const ApplyReport& r, const StepsShown& shown, const Console& console) {
  for (const std::string& note : r.settled) console.note(note);
  for (const StepRun& s : r.steps)
    for (const Record& record : s.records)
      for (const Record::Retyped& t : record.retyped)
        console.note(fmt::format("{}: `{}` was {} and is {} now", s.name, t.value, t.before, t.after));
  for (const StepRun& s : r.steps)
    for (const std::string& why : s.refused)
      console.warn(fmt::format("{}: {}{}", s.name, findPass(s.name) ? "" : "a match was left as it was: ", why));
  console.print(stepsTable(r.steps, shown));
  tellVerifications(r.steps, shown, console);
  if (!r.unchanged) console.print(fmt::format("nodes: {} before, {} after\n", r.nodesBefore, r.nodesAfter));
}

void tellBisection(const ApplyReport& r, bool each, const Console& console) {
  const workbench::Bisection& b = *r.bisection;
  console.warn(fmt::format("each of {} passed its check, and the model as a whole did not: {}",
                           counted(b.rewrites, "rewrite"), b.why));
  for (const StepRun& s : r.steps)
    for (const std::string& line : takenBackLines(s, each)) console.warn(line);
  console.warn(fmt::format("{} taken back{}; with the other {} the model passes ({} to find that out)",
                           b.takenBack == 1 ? "1 rewrite was" : fmt::format("{} rewrites were", b.takenBack),
                           b.isComplete ? "" : ", some of them untried, since time was up", b.rewrites - b.takenBack,
                           counted(b.runs, "run")));
  console.print(fmt::format("nodes: {} before, {} after\n", r.nodesBefore, r.nodesAfter));
}

void tellVerified(const ApplyReport& r, const Console& console) {
  if (!r.verification) return console.print("not verified (--no-verify)");
  for (const std::string& why : r.verification->notVerified) console.warn("not verified as a whole: " + why);
  if (r.verification->isEmpty()) return;
  console.print(r.verification->passed
                    ? fmt::format("differences on the {} inputs (fp64 reference), and on {} of inputs{}:",
                                  r.randomInputs.empty() ? "given" : "random",
                                  counted(r.verification->inputSets - 1, "further set"),
                                  r.verification->isOutOfTime ? ", as many as there was time for" : "")
                    : fmt::format("differences where set {} of inputs {} (fp64 reference):", r.verification->inputSets,
                                  r.changedOnPurpose.empty() ? "failed" : "differs"));
  console.print(differencesTable(r.verification->outputs, !r.changedOnPurpose.empty()));
  warnOfNotCompared(r.verification->outputs, r.verification->overflow, console);
  if (!r.changedOnPurpose.empty())
    console.warn(fmt::format("the numbers differ, as {} may change them: {}", r.changedOnPurpose, r.verification->why));
}

void tellTimed(const ApplyReport& r, const Console& console) {
  if (!r.timing->notTimed.empty()) console.warn("the written file itself was not timed: " + r.timing->notTimed);
  console.print(timingText(r.timing->times, r.timing->original, r.timing->rewritten));
}

void tellWritten(const ApplyReport& r, const Console& console) {
  const workbench::WrittenModel& w = *r.output;
  if (r.unchanged && !r.timing) return console.print("written " + w.path + ", the model as it was");
  if (w.sizesAreFixed)
    console.note(fmt::format(
        "{} takes inputs of these sizes only: torch.export has to know how sizes follow from each other, and here "
        "it cannot. TorchScript (-o OUT.pt) takes what the traced model takes.",
        w.path));
  std::string how = "as CUDA graphs, one for each shape";
  if (!w.captureObstacle.empty())
    how = "operator by operator: " + w.captureObstacle;
  else if (!w.waits.empty())
    how = fmt::format(
        "{}: {}, which waits for the GPU",
        w.inPieces ? "as several CUDA graphs, with single operators between them" : "operator by operator", w.waits);
  console.print(fmt::format("written {}\non a GPU it runs {}", w.path, how));
  if (!w.operatorLibrary.empty()) console.print(howToLoad(w.operatorLibrary));
  for (const UserLibrary& l : w.libraries) console.print(howToLoad(l.path));
}

}  // namespace graft::cli
