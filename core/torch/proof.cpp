#include "core/torch/proof.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <fmt/format.h>

#include <chrono>
#include <map>

#include "core/torch/executor.h"
#include "core/torch/internal/values.h"

namespace graft {
namespace {

constexpr uint64_t seed = 20260117;
constexpr double enoughSeconds =
    20;  // sets beyond the given one and one more stop here: fp64 runs of large models are slow

c10::IValue mapTensors(const c10::IValue& v, const std::function<at::Tensor(const at::Tensor&)>& f) {
  auto mapAll = [&](const auto& items) {
    std::vector<c10::IValue> out;
    for (const c10::IValue& i : items) out.push_back(mapTensors(i, f));
    return out;
  };
  if (v.isTensor() && v.toTensor().defined()) return f(v.toTensor());
  if (v.isTuple()) return c10::ivalue::Tuple::create(mapAll(v.toTupleRef().elements()));
  if (v.isList()) {
    const auto list = v.toList();
    c10::impl::GenericList out(list.elementType());
    for (c10::IValue& i : mapAll(std::vector<c10::IValue>(list.begin(), list.end()))) out.push_back(std::move(i));
    return out;
  }
  if (v.isGenericDict()) {
    const auto dict = v.toGenericDict();
    c10::impl::GenericDict out(dict.keyType(), dict.valueType());
    for (const auto& e : dict) out.insert(e.key(), mapTensors(e.value(), f));
    return out;
  }
  return v;
}

TensorSet mapSet(const TensorSet& set, const std::function<at::Tensor(const at::Tensor&)>& f) {
  std::vector<c10::IValue> out;
  for (const c10::IValue& v : valuesOf(set)) out.push_back(mapTensors(v, f));
  TensorSet result = tensorSet(std::move(out));
  if (set.impl) result.impl->names = set.impl->names;
  return result;
}

/// A model may write to its inputs: every run gets its own.
TensorSet copyOf(const TensorSet& set) {
  return mapSet(set, [](const at::Tensor& t) { return t.clone(); });
}

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
    auto generator = at::detail::createCPUGenerator(seed + offset);
    return mapSet(given, [&](const at::Tensor& t) {
      if (isMask(t)) return t.clone();
      if (!c10::isFloatingType(t.scalar_type())) return shuffled(t, generator);
      return gaussianLike(t, generator).mul(factor).to(t.scalar_type());
    });
  };
  auto hasMask = [&given] {
    bool found = false;
    mapSet(given, [&](const at::Tensor& t) {
      found = found || isMask(t);
      return t;
    });
    return found;
  };
  auto hasFloats = [&given] {
    bool found = false;
    mapSet(given, [&](const at::Tensor& t) {
      found = found || c10::isFloatingType(t.scalar_type());
      return t;
    });
    return found;
  };
  std::vector<InputSet> out;
  out.push_back({"random inputs of the same ranges", [=] { return random(0, 1); }});
  if (hasMask())
    out.push_back({"half of every mask row zero", [&given] {
                     return mapSet(given, [](const at::Tensor& t) {
                       if (!isMask(t) || t.size(-1) < 2) return t.clone();
                       at::Tensor m = t.clone();
                       m.narrow(-1, t.size(-1) / 2, t.size(-1) - t.size(-1) / 2).zero_();
                       return m;
                     });
                   }});
  if (hasFloats()) {
    out.push_back({"random inputs ten times as large", [=] { return random(1, 10); }});
    out.push_back({"inputs of zeros", [&given] {
                     return mapSet(given, [](const at::Tensor& t) {
                       return c10::isFloatingType(t.scalar_type()) ? t.clone().zero_() : t.clone();
                     });
                   }});
  }
  out.push_back({"other random inputs", [=] { return random(2, 1); }});
  return out;
}

struct Programs {
  Program original, rewritten;
  std::optional<Program> reference;
};

std::string deviceOf(const TensorSet& inputs) {
  std::string device = "cpu";
  mapSet(inputs, [&](const at::Tensor& t) {
    if (!t.device().is_cpu()) device = t.device().str();
    return t;
  });
  return device;
}

Result<Programs> buildAll(const Graph& original, const Graph& rewritten, const TensorSet& inputs) {
  RunOptions options;
  options.device = deviceOf(inputs);
  options.fixedShapes = false;
  auto a = Program::build(original, options);
  if (!a) return a.error();
  auto b = Program::build(rewritten, options);
  if (!b) return b.error();
  Programs out{std::move(*a), std::move(*b), std::nullopt};
  options.device = "cpu";
  options.dtype = DType::Float64;
  if (auto r = Program::build(original, options)) out.reference = std::move(*r);
  return out;
}

/// Random operators draw the same numbers in both: the rewriter keeps their order.
Result<TensorSet> runSeeded(const Program& p, const TensorSet& inputs, const Job& job) {
  at::manual_seed(seed);
  return p.run(copyOf(inputs), job);
}

/// The original in double precision; nothing where an operator has no fp64 version (dtype tolerances judge then).
std::optional<TensorSet> runReference(const Programs& p, const TensorSet& inputs, const Job& job) {
  if (!p.reference) return std::nullopt;
  auto wide = convert(inputs, "cpu", DType::Float64);
  if (!wide) return std::nullopt;
  auto out = runSeeded(*p.reference, *wide, job);
  return out ? std::optional(std::move(*out)) : std::nullopt;
}

}  // namespace

Result<Proof> proveRewrite(const Graph& original, const Graph& rewritten, const TensorSet& inputs, const Job& job) {
  auto programs = buildAll(original, rewritten, inputs);
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

Result<std::vector<LayerDifference>> compareLayers(const Graph& original, const Graph& rewritten,
                                                   const TensorSet& inputs,
                                                   const std::vector<std::pair<std::string, std::string>>& renamed,
                                                   const Job& job) {
  auto programs = buildAll(original, rewritten, inputs);
  if (!programs) return programs.error();
  std::map<ValueId, ValueId> partner;  // original → rewritten
  for (NodeId id : original.order())
    for (ValueId v : original.node(id).outputs)
      if (ValueId w = rewritten.findValue(original.value(v).name); w && !rewritten.isWeight(w)) partner[v] = w;
  for (const auto& [before, after] : renamed)
    if (ValueId v = original.findValue(before), w = rewritten.findValue(after); v && w) partner[v] = w;
  std::map<ValueId, bool> wanted;
  for (const auto& [v, w] : partner) wanted[w] = true;

  // Kept as copies: a later node may write to the tensor.
  std::vector<ValueId> sequence;
  std::map<ValueId, TensorSet> before, after, wide;
  at::manual_seed(seed);
  auto a = programs->original.observe(copyOf(inputs), [&](ValueId v, const TensorSet& t) {
    if (!partner.contains(v)) return;
    if (!before.contains(v)) sequence.push_back(v);
    before[v] = copyOf(t);
  });
  if (!a) return a.error();
  at::manual_seed(seed);
  auto b = programs->rewritten.observe(copyOf(inputs), [&](ValueId v, const TensorSet& t) {
    if (wanted.contains(v)) after[v] = copyOf(t);
  });
  if (!b) return b.error();
  if (auto in64 = convert(inputs, "cpu", DType::Float64); in64 && programs->reference) {
    at::manual_seed(seed);
    auto r = programs->reference->observe(copyOf(*in64), [&](ValueId v, const TensorSet& t) {
      if (partner.contains(v)) wide[v] = copyOf(t);
    });
    if (!r) wide.clear();
  }
  std::vector<LayerDifference> out;
  for (ValueId v : sequence) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
    const auto w = after.find(partner.at(v));
    if (w == after.end()) continue;
    const auto r = wide.find(v);
    for (Difference& d : compareTensors(before.at(v), w->second, r == wide.end() ? nullptr : &r->second)) {
      d.name = original.value(v).name + d.name.substr(1);  // "0" is the value itself, "0.1" an element of it
      out.push_back({original.value(v).name, rewritten.value(w->first).name, std::move(d)});
    }
  }
  return out;
}

}  // namespace graft
