#include "core/torch/proof.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <fmt/format.h>

#include <chrono>

#include "core/torch/internal/proof_programs.h"
#include "core/torch/internal/values.h"

namespace graft {
namespace {

constexpr double enoughSeconds =
    20;  // sets beyond the given one and one more stop here: fp64 runs of large models are slow

/// Zeros and ones only, as attention masks are.
bool isMask(const at::Tensor& t) {
  if (t.numel() == 0 || c10::isFloatingType(t.scalar_type()) || t.is_complex()) return false;
  const at::Tensor c = t.cpu().to(at::kLong);
  return t.dim() >= 2 && c.min().item<int64_t>() >= 0 && c.max().item<int64_t>() == 1;
}

/// The same elements in another order: stays within what the model was given, embedding tables are not overrun.
at::Tensor shuffled(const at::Tensor& t, at::Generator& g) {
  if (t.numel() < 2) return t.clone();
  return t.cpu().reshape({-1}).index({at::randperm(t.numel(), g, at::kLong)}).reshape(t.sizes()).to(t.device());
}

/// Normal numbers of both signs, as large as the given ones.
at::Tensor gaussianLike(const at::Tensor& t, at::Generator& g) {
  if (t.numel() == 0) return t.clone();
  const at::Tensor x = t.cpu().to(at::kDouble);
  const double size = x.isfinite().all().item<bool>() ? x.square().mean().sqrt().item<double>() : 1.0;
  return at::randn(t.sizes(), g, at::kDouble).mul(size > 0 ? size : 1.0).to(t.scalar_type()).to(t.device());
}

struct InputSet {
  std::string what;
  std::function<TensorSet()> make;
};

std::vector<InputSet> furtherInputs(const TensorSet& given) {
  auto random = [&given](uint64_t offset, double factor) {
    auto generator = at::detail::createCPUGenerator(proofSeed + offset);
    return mapTensors(given, [&](const at::Tensor& t) {
      if (isMask(t)) return t.clone();
      if (!c10::isFloatingType(t.scalar_type())) return shuffled(t, generator);
      return gaussianLike(t, generator).mul(factor).to(t.scalar_type());
    });
  };
  auto hasMask = [&given] {
    bool found = false;
    mapTensors(given, [&](const at::Tensor& t) {
      found = found || isMask(t);
      return t;
    });
    return found;
  };
  auto hasFloats = [&given] {
    bool found = false;
    mapTensors(given, [&](const at::Tensor& t) {
      found = found || c10::isFloatingType(t.scalar_type());
      return t;
    });
    return found;
  };
  std::vector<InputSet> out;
  out.push_back({"random inputs of the same ranges", [=] { return random(0, 1); }});
  if (hasMask())
    out.push_back({"half of every mask row zero", [&given] {
                     return mapTensors(given, [](const at::Tensor& t) {
                       if (!isMask(t) || t.size(-1) < 2) return t.clone();
                       at::Tensor m = t.clone();
                       m.narrow(-1, t.size(-1) / 2, t.size(-1) - t.size(-1) / 2).zero_();
                       return m;
                     });
                   }});
  if (hasFloats()) {
    out.push_back({"random inputs ten times as large", [=] { return random(1, 10); }});
    out.push_back({"inputs of zeros", [&given] {
                     return mapTensors(given, [](const at::Tensor& t) {
                       return c10::isFloatingType(t.scalar_type()) ? t.clone().zero_() : t.clone();
                     });
                   }});
  }
  out.push_back({"other random inputs", [=] { return random(2, 1); }});
  return out;
}

}  // namespace

Result<Proof> proveRewrite(const Graph& original, const Graph& rewritten, const TensorSet& inputs, const Job& job) {
  auto programs = buildProofPrograms(original, rewritten, inputs);
  if (!programs) return programs.error();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<InputSet> sets = furtherInputs(inputs);
  sets.insert(sets.begin(), InputSet{"the given inputs", [&inputs] { return inputs; }});
  Proof proof;
  for (size_t i = 0; i < sets.size(); ++i) {
    const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin;
    if (i > 1 && used.count() > enoughSeconds) break;
    job.report("verifying", i, sets.size());
    TensorSet set;
    try {
      set = sets[i].make();
    } catch (const std::exception& e) {
      return internalError(fmt::format("cannot make {}: {}", sets[i].what, shortMessage(e)));
    }
    auto expected = runSeeded(programs->original, set, job);
    if (!expected) {
      // What the original refuses (a table index, a shape that depends on the data) proves nothing either way.
      if (i == 0 || expected.error().kind == ErrorKind::Cancelled) return expected.error();
      continue;
    }
    auto actual = runSeeded(programs->rewritten, set, job);
    if (!actual) {
      if (actual.error().kind == ErrorKind::Cancelled) return actual.error();
      proof.why = fmt::format("on {}, the original runs and the rewritten model does not: {}", sets[i].what,
                              actual.error().message);
      ++proof.inputSets;
      return proof;
    }
    const auto reference = runReference(*programs, set, job);
    auto differences = compareTensors(*expected, *actual, reference ? &*reference : nullptr);
    ++proof.inputSets;
    for (const Difference& d : differences) {
      if (d.passed) continue;
      proof.why = fmt::format("on {}, output {} ({}): {}", sets[i].what, d.name, d.type, d.why);
      proof.outputs = std::move(differences);
      return proof;
    }
    if (i == 0) proof.outputs = std::move(differences);
  }
  proof.passed = true;
  return proof;
}

}  // namespace graft
