#include "core/torch/verification.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "core/torch/run/patient_threads.h"
#include "core/torch/values/values.h"
#include "core/torch/verify/check_inputs.h"
#include "core/torch/verify/index_guard.h"
#include "core/torch/verify/overflow.h"
#include "core/torch/verify/program_set.h"

namespace graft {
namespace {

/// Both sides and their reference. Where the model does not run on what is made up for missing operators (an index out
/// of range, say), what follows from these is left out.
Result<VerificationPrograms> programsFor(const Graph& original, const Graph& rewritten, const TensorSet& inputs,
                                         const Job& job) {
  auto programs = buildVerificationPrograms(original, rewritten, inputs, Missing::MadeUp);
  if (!programs || programs->original.leftOut().madeUp.empty()) return programs;
  if (auto out = runSeeded(programs->original, inputs, job); out || out.error().kind == ErrorKind::Cancelled)
    return programs;
  return buildVerificationPrograms(original, rewritten, inputs, Missing::LeftOut);
}

/// How comparisons call the values that a graph returns: "0", "1.logits".
void nameValues(const Argument& a, const std::string& name, std::vector<std::string>& names) {
  if (a.isValue()) return names.push_back(name);
  if (const std::vector<Argument>* items = a.items())
    for (size_t i = 0; i < items->size(); ++i) nameValues((*items)[i], fmt::format("{}.{}", name, i), names);
  if (const auto* dict = a.as<Argument::Dict>())
    for (const auto& [key, value] : dict->items) {
      const auto* text = key.as<std::string>();
      nameValues(value, fmt::format("{}.{}", name, text ? *text : "?"), names);
    }
}

std::vector<std::string> namesOf(const Graph& g) {
  std::vector<std::string> names;
  for (size_t i = 0; i < g.returns().size(); ++i) nameValues(g.returns()[i], std::to_string(i), names);
  return names;
}

std::string numbered(const std::vector<size_t>& outputs, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const size_t at : outputs) out.push_back(names.at(at));
  return fmt::format("output{} {}", outputs.size() == 1 ? "" : "s", fmt::join(out, ", "));
}

std::vector<std::string> notVerified(const LeftOut& left, const std::vector<std::string>& names) {
  if (!left.any()) return {};
  const std::string operators = leftOutText(left);
  std::vector<std::string> out;
  if (!left.absent.empty())
    out.push_back(fmt::format("{} {} not compared: {} from {}", numbered(left.absent, names),
                              left.absent.size() == 1 ? "was" : "were",
                              left.absent.size() == 1 ? "it follows" : "they follow", operators));
  if (!left.dependent.empty())
    out.push_back(fmt::format("{} {} compared on made-up values of {}", numbered(left.dependent, names),
                              left.dependent.size() == 1 ? "was" : "were", operators));
  if (out.empty()) out.push_back("no output depends on " + operators);
  return out;
}

/// Differences of the outputs that were computed, and of what missing operators read, by names that say so.
std::vector<Difference> computed(std::vector<Difference> all, const LeftOut& left, const Graph& original,
                                 const std::vector<std::string>& names) {
  if (!left.any()) return all;
  std::erase_if(all, [&](const Difference& d) {
    return std::any_of(left.absent.begin(), left.absent.end(), [&](size_t at) { return names.at(at) == d.name; });
  });
  const size_t outputs = original.returns().size();
  for (Difference& d : all) {
    const size_t at = std::strtoul(d.name.c_str(), nullptr, 10);
    if (at >= outputs && at - outputs < left.reads.size()) d.name = left.reads[at - outputs];
  }
  return all;
}

bool allPassed(const std::vector<Difference>& differences) {
  return std::all_of(differences.begin(), differences.end(), [](const Difference& d) { return d.passed; });
}

/// The given inputs in fewer rows, where both sides take these and agree; else the given ones. Sets made from them take
/// less time. Of a traced model nobody knows which sizes may differ, so nothing is held against a model that refuses.
TensorSet inFewRows(VerificationPrograms& programs, const Graph& original, const TensorSet& inputs, IndexGuard& guard,
                    const Job& job) {
  for (const DimNames& names : {sizesOfInputs(original, inputs), sizesByValue(inputs)})
    for (const InputSet& set : otherSizes(inputs, names, original.symbols())) {
      if (!set.fewRows) continue;
      try {
        TensorSet few = set.make();
        if (2 * elementsOf(few) > elementsOf(inputs) || guard.refuses(few, job)) continue;
        const auto expected = runProbe(programs.original, few, job);
        if (!expected) continue;
        const auto actual = runProbe(programs.rewritten, few, job);
        if (!actual) continue;
        const auto reference = runReference(programs, few, job);
        if (allPassed(compareTensors(*expected, *actual, reference ? &*reference : nullptr))) return few;
      } catch (const std::exception&) {
        continue;
      }
    }
  return inputs;
}

}  // namespace

Result<Verification> verifyRewrite(const Graph& original, const Graph& rewritten, const TensorSet& inputs,
                                   const Job& job, const FurtherInputs& further) {
  const PatientThreads patient;
  auto programs = programsFor(original, rewritten, inputs, job);
  if (!programs) return programs.error();
  Verification verification;
  const LeftOut &left = programs->original.leftOut(), &leftAfter = programs->rewritten.leftOut();
  const std::vector<std::string> names = namesOf(original);
  verification.notVerified = notVerified(left, names);
  if (!leaveOutTheSame(left, leftAfter)) {
    verification.passed = true;
    verification.notVerified = {"the whole was not compared: the rewrites changed calls of " +
                                leftOutText(left.any() ? left : leftAfter)};
    return verification;
  }
  const WrittenState state({&programs->original, &programs->rewritten});
  IndexGuard guard(original, programs->original.options().device);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<InputSet> sets{InputSet{"the given inputs", [&inputs] { return inputs; }}, furtherInputs(inputs).front()};
  std::vector<InputSet> others = otherSizes(inputs, sizesOfInputs(original, inputs), original.symbols());
  for (InputSet& set : otherNumbersFor(inputs, plainIntegers(original, rewritten, inputs)))
    others.push_back(std::move(set));
  for (InputSet& set : otherIntegerInputs(inputs)) others.push_back(std::move(set));
  sets.insert(sets.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  // fp64 runs of large models are slow.
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const size_t atLeast = further.oneAtLeast ? 2 : 1;
  double ofLast = 0, lastBegin = 0;  // of the sets that both sides ran on
  TensorSet few;
  bool wasTaken = false;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (i >= atLeast && seconds() + ofLast > further.seconds) {
      verification.isOutOfTime = true;
      break;
    }
    lastBegin = seconds();
    if (i == 1) {  // the given inputs passed
      few = inFewRows(*programs, original, inputs, guard, job);
      const std::vector<InputSet> more = furtherInputs(few);
      sets.insert(sets.end(), more.begin() + 1, more.end());
    }
    if (sets[i].instead && wasTaken) continue;
    wasTaken = false;
    job.report("verifying", i, sets.size());
    TensorSet set;
    try {
      set = sets[i].make();
    } catch (const std::exception& e) {
      return internalError(fmt::format("cannot make {}: {}", sets[i].what, shortMessage(e)));
    }
    if (i > 0 && guard.refuses(set, job)) continue;
    const auto runs = [&](const Program& p, const TensorSet& with) {
      return i == 0 ? state.run(p, with, job) : probeState(p, with, job, state);
    };
    auto expected = runs(programs->original, set);
    if (!expected) {
      // Inputs that the original refuses (a table index, a shape that depends on the data) show nothing either way.
      if (i == 0 || expected.error().kind == ErrorKind::Cancelled) return expected.error();
      continue;
    }
    auto actual = runs(programs->rewritten, set);
    if (!actual) {
      if (actual.error().kind == ErrorKind::Cancelled) return actual.error();
      verification.why = fmt::format("on {}, the original runs and the rewritten model does not: {}", sets[i].what,
                                     actual.error().message);
      ++verification.inputSets;
      return verification;
    }
    const auto reference = runReference(*programs, set, job, state);
    const auto compared = [&](const TensorSet& with) {
      auto all = compareTensors(with, *actual, reference ? &*reference : nullptr);
      return computed(state.named(std::move(all), with), left, original, names);
    };
    auto differences = compared(*expected);
    // On made-up inputs a model may be so sensitive that its own error is a matter of luck. Then the result may be as
    // far off as the original is on the same inputs in another layout, or on inputs that differ from these by a unit in
    // the last place.
    constexpr uint64_t neighbours = 4;
    for (uint64_t n = 0; i > 0 && reference && n < neighbours && !allPassed(differences); ++n) {
      if (auto near = runs(programs->original, nearlyEqual(set, n)))
        if (auto again = compared(*near); allPassed(again)) differences = std::move(again);
    }
    ++verification.inputSets;
    for (const Difference& d : differences) {
      if (d.passed) continue;
      verification.why = fmt::format("on {}, {} ({}): {}", sets[i].what, titleOf(d), d.type, d.why);
      verification.outputs = std::move(differences);
      return verification;
    }
    if (i == 0) verification.outputs = std::move(differences);
    wasTaken = true;
    ofLast = seconds() - lastBegin;
  }
  // Last, because its runs leave other states behind in the original's buffers than in the rewritten model's.
  if (std::ranges::any_of(verification.outputs, [](const Difference& d) { return d.overflowed > 0; }))
    verification.overflow = findOverflow(original, *programs, sets[0].make());
  verification.passed = true;
  return verification;
}

}  // namespace graft
