#include "core/torch/verify/program_set.h"

#include <ATen/Context.h>
#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/torch/run/capture_facts.h"
#include "core/torch/values/values.h"
#include "core/torch/verify/scout.h"

namespace graft {

Result<VerificationPrograms> buildVerificationPrograms(const Graph& original, const Graph& rewritten,
                                                       const TensorSet& inputs, Missing missing) {
  RunOptions options;
  options.missing = missing;
  options.device = deviceOf(inputs);
  options.fixedShapes = false;
  auto a = Program::build(original, options);
  if (!a) return a.error();
  auto b = Program::build(rewritten, options);
  if (!b) return b.error();
  return VerificationPrograms{std::move(*a), std::move(*b), Reference(original, options.device, missing)};
}

bool Reference::build() {
  if (program_) return true;
  RunOptions wide;
  wide.missing = missing_;
  wide.fixedShapes = false;
  wide.device = device_;
  wide.dtype = DType::Float64;
  if (auto made = Program::build(*g_, wide)) program_ = std::move(*made);
  return program_.has_value();
}

std::string leftOutText(const LeftOut& left) {
  return fmt::format("{}, which this machine does not have", fmt::join(left.operators, ", "));
}

bool leaveOutTheSame(const LeftOut& a, const LeftOut& b) {
  return a.nodes == b.nodes && a.absent == b.absent && a.reads.size() == b.reads.size();
}

std::string titleOf(const Difference& d) {
  const bool isNumbered = !d.name.empty() && d.name[0] >= '0' && d.name[0] <= '9';
  return isNumbered ? "output " + d.name : d.name;
}

WrittenState::WrittenState(std::initializer_list<const Program*> programs) {
  for (const Program* p : programs) {
    const CaptureFacts& facts = p->capture();
    const std::set<std::string> own(facts.writtenNames.begin(), facts.writtenNames.end());
    if (p == *programs.begin())
      buffers_ = own;
    else
      std::erase_if(buffers_, [&](const std::string& name) { return !own.contains(name); });
    inputs_.insert(facts.writtenInputs.begin(), facts.writtenInputs.end());
  }
}

Result<TensorSet> WrittenState::run(const Program& p, const TensorSet& inputs, const Job& job) const {
  at::manual_seed(verificationSeed);
  const CaptureFacts& facts = p.capture();
  const TensorSet& written = facts.writtenTensors;
  const TensorSet given = copyOf(inputs);
  if (written.size() == 0 && !any()) return p.run(given, job);
  const TensorSet before = copyOf(written);
  auto out = p.run(given, job);
  if (out) out = copyOf(*out);  // what it returns may lie in what is put back
  if (out && any()) {
    c10::impl::GenericDict state(c10::StringType::get(), c10::AnyType::get());
    // In one order for all programs, whichever buffer each writes first.
    for (const std::string& name : buffers_) {
      const auto at = std::ranges::find(facts.writtenNames, name) - facts.writtenNames.begin();
      state.insert("buffer " + name, valuesOf(written)[static_cast<size_t>(at)].toTensor().clone());
    }
    // Inputs by name come in an order of their own.
    if (given.impl && given.impl->names.empty())
      for (const size_t i : inputs_)
        if (i < given.size()) state.insert(fmt::format("input {}", i), valuesOf(given)[i]);
    std::vector<c10::IValue> values = valuesOf(*out);
    values.emplace_back(std::move(state));
    out = tensorSet(std::move(values));
  }
  const c10::InferenceMode inference;
  for (size_t i = 0; i < written.size(); ++i) valuesOf(written)[i].toTensor().copy_(valuesOf(before)[i].toTensor());
  return out;
}

std::vector<Difference> WrittenState::named(std::vector<Difference> all, const TensorSet& ran) const {
  if (!any() || ran.size() == 0) return all;
  const std::string prefix = fmt::format("{}.", ran.size() - 1);
  for (Difference& d : all)
    if (d.name.starts_with(prefix)) d.name.erase(0, prefix.size());
  return all;
}

Result<TensorSet> runSeeded(const Program& p, const TensorSet& inputs, const Job& job) {
  return WrittenState().run(p, inputs, job);
}

bool isSentAhead(const Program& p, const TensorSet& inputs) {
  bool isEmpty = false, isOnCpu = true;
  for (const c10::IValue& v : valuesOf(inputs)) isEmpty = isEmpty || (v.isInt() && v.toInt() == 0);
  mapTensors(inputs, [&](const at::Tensor& t) {
    isEmpty = isEmpty || t.numel() == 0;
    isOnCpu = isOnCpu && t.device().is_cpu();
    return t;
  });
  return isEmpty && isOnCpu && p.options().device == "cpu";
}

Status sendAhead(const Program& p, const TensorSet& inputs, const Job& job) {
  if (!isSentAhead(p, inputs)) return done();
  const QuietPyTorch quiet;
  return sendAhead([&] { (void)runSeeded(p, inputs, job); });
}

Result<TensorSet> runProbe(const Program& p, const TensorSet& inputs, const Job& job) {
  return probeState(p, inputs, job, {});
}

void QuietPyTorch::OwnWarnings::process(const c10::Warning& warning) {
  if (warning.msg().starts_with("graft")) c10::WarningHandler::process(warning);
}

Result<TensorSet> probeState(const Program& p, const TensorSet& inputs, const Job& job, const WrittenState& state) {
  const QuietPyTorch quiet;
  if (Status s = sendAhead(p, inputs, job); !s) return s.error();
  return state.run(p, inputs, job);
}

std::optional<TensorSet> runReference(VerificationPrograms& p, const TensorSet& inputs, const Job& job,
                                      const WrittenState& state) {
  return p.reference.run(
      inputs, [&](const Program& program, const TensorSet& wide) { return probeState(program, wide, job, state); });
}

}  // namespace graft
