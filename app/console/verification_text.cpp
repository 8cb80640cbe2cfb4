#include "app/console/verification_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/base/words.h"

namespace graft::cli {
namespace {

using Verdict = RewriteVerification::Verdict;

/// What rewrites that failed in the same way have in common. Figures differ from place to place.
std::string reasonOf(const RewriteVerification& p) {
  if (p.output.empty()) return "what replaces them does not run on " + p.inputs;
  if (p.element.empty()) return "they give values of another type on " + p.inputs;
  return "they compute something else on " + p.inputs;
}

std::string withInputs(const std::string& why, const RewriteVerification& p) {
  return why + (p.inputShapes.empty() ? "" : fmt::format("; inputs: {}", fmt::join(p.inputShapes, ", ")));
}

}  // namespace

std::vector<RewriteVerification> verificationsOf(const StepRun& s) {
  std::vector<RewriteVerification> out;
  if (s.verification.verdict != Verdict::Unchecked) out.push_back(s.verification);
  for (const Record& r : s.records)
    if (r.verification.verdict != Verdict::Unchecked) out.push_back(r.verification);
  return out;
}

std::string verifiedText(const StepRun& s) {
  size_t verified = 0, measured = 0, within = 0, retyped = 0;
  double most = 0, mostRmse = 0;
  const auto verifications = verificationsOf(s);
  for (const RewriteVerification& p : verifications) {
    verified += p.verdict == Verdict::Verified;
    measured += p.verdict == Verdict::Measured;
    if (p.verdict != Verdict::Measured) continue;
    most = std::max(most, p.maxAbs);
    mostRmse = std::max(mostRmse, p.relativeRmse);
    within += !p.tolerance.empty();
    retyped += p.element.empty() && p.maxAbs == 0;
  }
  if (!s.isRule && !s.rolledBack.empty()) return "taken back";
  if (verifications.empty() && s.rolledBack.empty()) return "-";
  std::string out;
  if (!s.isRule)
    out = verified ? "yes" : measured ? "" : "no";
  else if (verified || !measured)
    out = fmt::format("{} of {}", verified, verifications.size() + s.rolledBack.size());
  if (within == measured && within > 0)
    out += fmt::format("{}{} within tolerance, RMSE up to {:.2g} %", out.empty() ? "" : ", ", within, 100 * mostRmse);
  else if (measured && retyped == measured)
    out += fmt::format("{}measured, of another type", out.empty() ? "" : ", ");
  else if (measured)
    out += fmt::format("{}measured, off by up to {:.2g}", out.empty() ? "" : ", ", most);
  if (!s.rolledBack.empty()) out += fmt::format(", {} taken back", s.rolledBack.size());
  return out;
}

std::vector<std::string> takenBackLines(const StepRun& s, bool each) {
  std::vector<std::vector<const RolledBack*>> groups;  // in the order in which reasons first appear
  std::map<std::string, size_t> groupOf;
  for (const RolledBack& r : s.rolledBack) {
    const auto [at, isNew] = groupOf.emplace(reasonOf(r.verification), groups.size());
    if (isNew || each) groups.emplace_back();
    (each ? groups.back() : groups[at->second]).push_back(&r);
  }
  std::vector<std::string> out;
  for (const auto& group : groups) {
    const RolledBack& first = *group[0];
    if (group.size() == 1) {
      out.push_back(fmt::format("{}: taken back {}", s.name, withInputs(toString(first), first.verification)));
      continue;
    }
    std::vector<std::string> places;
    double most = 0;
    for (const RolledBack* r : group) {
      places.push_back(placeOf(*r));
      most = std::max(most, r->verification.maxAbs);
    }
    out.push_back(fmt::format("{}: {} taken back: {}{}; at {}; the first: {}", s.name, counted(group.size(), "rewrite"),
                              reasonOf(first.verification), most > 0 ? fmt::format(", off by up to {:.2g}", most) : "",
                              firstFew(places, 3), withInputs(first.verification.why, first.verification)));
  }
  return out;
}

}  // namespace graft::cli
