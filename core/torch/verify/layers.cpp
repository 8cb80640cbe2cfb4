// compareLayers: where inside two graphs their numbers part.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/torch/run/patient_threads.h"
#include "core/torch/values/values.h"
#include "core/torch/verification.h"
#include "core/torch/verify/program_set.h"

namespace graft {
namespace {

/// Values nearer than this part of their size count as the same quantity, however each side computed it.
constexpr double sameQuantity = 0.1;

struct Seen {
  ValueId id;
  TensorSet value;  ///< a copy: a later node may write to the tensor
  at::Tensor tensor;
  double mean = 0, size = 0;  ///< size: the root of the mean square
};

/// Every tensor that the program computes, in order; of a value in a loop the last.
Result<std::vector<Seen>> observeAll(const Program& program, const TensorSet& inputs) {
  std::vector<Seen> out;
  std::map<ValueId, size_t> place;
  at::manual_seed(verificationSeed);
  auto run = program.observe(copyOf(inputs), [&](ValueId id, const TensorSet& value) {
    const auto& values = valuesOf(value);
    if (values.size() != 1 || !values[0].isTensor() || !values[0].toTensor().defined()) return;
    Seen s;
    s.id = id;
    s.value = copyOf(value);
    s.tensor = valuesOf(s.value)[0].toTensor();
    const auto [it, fresh] = place.try_emplace(id, out.size());
    if (fresh)
      out.push_back(std::move(s));
    else
      out[it->second] = std::move(s);
  });
  if (!run) return run.error();
  return out;
}

/// Numbers that say something: a mask or a single element is like many others.
bool isTelling(Seen& s) {
  if (!c10::isFloatingType(s.tensor.scalar_type()) || s.tensor.numel() < 16) return false;
  const at::Tensor x = s.tensor.to(at::kDouble);
  s.mean = x.mean().item<double>();
  s.size = x.square().mean().sqrt().item<double>();
  return std::isfinite(s.size) && s.size > 0;
}

double distance(const Seen& a, const Seen& b) {
  return a.tensor.to(at::kDouble).sub(b.tensor.to(at::kDouble)).square().mean().sqrt().item<double>() / a.size;
}

/// Pairs of places in the two sequences that hold the same quantity, told by their numbers: names of separate files do
/// not correspond. Each value is taken once, the nearest in numbers first come first served.
std::map<size_t, size_t> pairByNumbers(std::vector<Seen>& a, std::vector<Seen>& b, const Job& job) {
  std::vector<bool> telling(b.size());
  for (size_t j = 0; j < b.size(); ++j) telling[j] = isTelling(b[j]);
  std::map<size_t, size_t> pairs;
  std::set<size_t> taken;
  for (size_t i = 0; i < a.size() && !job.cancelled(); ++i) {
    job.report("comparing layers", i, a.size());
    if (!isTelling(a[i])) continue;
    double best = sameQuantity;
    size_t at = b.size();
    for (size_t j = 0; j < b.size(); ++j) {
      // Mean and size first: they rule out nearly all without looking at the elements.
      if (!telling[j] || taken.contains(j) || a[i].tensor.sizes() != b[j].tensor.sizes() ||
          std::abs(a[i].size - b[j].size) > best * a[i].size || std::abs(a[i].mean - b[j].mean) > best * a[i].size)
        continue;
      if (const double d = distance(a[i], b[j]); d < best) {
        best = d;
        at = j;
        if (d == 0) break;
      }
    }
    if (at == b.size()) continue;
    taken.insert(at);
    pairs[i] = at;
  }
  return pairs;
}

std::map<size_t, size_t> pairByName(const Graph& original, const Graph& rewritten, const std::vector<Seen>& a,
                                    const std::vector<Seen>& b,
                                    const std::vector<std::pair<std::string, std::string>>& renamed) {
  std::map<ValueId, size_t> places;
  for (size_t j = 0; j < b.size(); ++j) places[b[j].id] = j;
  std::map<std::string, std::string> partner;
  for (const Seen& s : a) partner[original.value(s.id).name] = original.value(s.id).name;
  for (const auto& [before, after] : renamed) partner[before] = after;
  std::map<size_t, size_t> pairs;
  for (size_t i = 0; i < a.size(); ++i) {
    const ValueId w = rewritten.findValue(partner.at(original.value(a[i].id).name));
    if (const auto at = w ? places.find(w) : places.end(); at != places.end()) pairs[i] = at->second;
  }
  return pairs;
}

}  // namespace

Result<std::vector<LayerDifference>> compareLayers(const Graph& original, const Graph& rewritten,
                                                   const TensorSet& inputs,
                                                   const std::vector<std::pair<std::string, std::string>>& renamed,
                                                   const Job& job) {
  const PatientThreads patient;
  auto programs = buildVerificationPrograms(original, rewritten, inputs);
  if (!programs) return programs.error();
  auto a = observeAll(programs->original, inputs);
  if (!a) return a.error();
  auto b = observeAll(programs->rewritten, inputs);
  if (!b) return b.error();
  std::map<ValueId, TensorSet> wide;
  if (auto r = programs->reference.run(inputs, observeAll))
    for (Seen& s : *r) wide[s.id] = std::move(s.value);
  try {
    const auto pairs = renamed.empty() ? pairByNumbers(*a, *b, job) : pairByName(original, rewritten, *a, *b, renamed);
    std::vector<LayerDifference> out;
    for (const auto& [i, j] : pairs) {
      if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
      const Seen &x = (*a)[i], &y = (*b)[j];
      const auto r = wide.find(x.id);
      auto differences = compareTensors(x.value, y.value, r == wide.end() ? nullptr : &r->second);
      differences[0].name = original.value(x.id).name;
      out.push_back({original.value(x.id).name, rewritten.value(y.id).name, std::move(differences[0])});
    }
    return out;
  } catch (const std::exception& e) {
    return internalError(fmt::format("layers cannot be compared: {}", shortMessage(e)));
  }
}

}  // namespace graft
