#include "core/torch/verification.h"

#include <fmt/format.h>

#include <chrono>

#include "core/torch/values/values.h"
#include "core/torch/verify/check_inputs.h"
#include "core/torch/verify/program_set.h"

namespace graft {
namespace {

constexpr double enoughForInputs =
    20;  // sets beyond the given one and one more stop here: fp64 runs of large models are slow

}  // namespace

Result<Verification> verifyRewrite(const Graph& original, const Graph& rewritten, const TensorSet& inputs,
                                   const Job& job) {
  auto programs = buildVerificationPrograms(original, rewritten, inputs);
  if (!programs) return programs.error();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<InputSet> sets = furtherInputs(inputs);
  sets.insert(sets.begin(), InputSet{"the given inputs", [&inputs] { return inputs; }});
  std::vector<InputSet> others = otherSizes(inputs, sizesOfInputs(original, inputs), original.symbols());
  for (InputSet& set : otherNumbersFor(inputs, plainIntegers(original, rewritten, inputs)))
    others.push_back(std::move(set));
  for (InputSet& set : otherIntegerInputs(inputs)) others.push_back(std::move(set));
  sets.insert(sets.begin() + 2, std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  Verification verification;
  for (size_t i = 0; i < sets.size(); ++i) {
    const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin;
    if (i > 1 && used.count() > enoughForInputs) break;
    job.report("verifying", i, sets.size());
    TensorSet set;
    try {
      set = sets[i].make();
    } catch (const std::exception& e) {
      return internalError(fmt::format("cannot make {}: {}", sets[i].what, shortMessage(e)));
    }
    auto expected = runSeeded(programs->original, set, job);
    if (!expected) {
      // Inputs that the original refuses (a table index, a shape that depends on the data) show nothing either way.
      if (i == 0 || expected.error().kind == ErrorKind::Cancelled) return expected.error();
      continue;
    }
    auto actual = runSeeded(programs->rewritten, set, job);
    if (!actual) {
      if (actual.error().kind == ErrorKind::Cancelled) return actual.error();
      verification.why = fmt::format("on {}, the original runs and the rewritten model does not: {}", sets[i].what,
                                     actual.error().message);
      ++verification.inputSets;
      return verification;
    }
    const auto reference = runReference(*programs, set, job);
    auto differences = compareTensors(*expected, *actual, reference ? &*reference : nullptr);
    ++verification.inputSets;
    for (const Difference& d : differences) {
      if (d.passed) continue;
      verification.why = fmt::format("on {}, output {} ({}): {}", sets[i].what, d.name, d.type, d.why);
      verification.outputs = std::move(differences);
      return verification;
    }
    if (i == 0) verification.outputs = std::move(differences);
  }
  verification.passed = true;
  return verification;
}

}  // namespace graft
