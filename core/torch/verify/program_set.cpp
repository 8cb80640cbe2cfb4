#include "core/torch/verify/program_set.h"

#include <ATen/Context.h>
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

Result<TensorSet> runSeeded(const Program& p, const TensorSet& inputs, const Job& job) {
  at::manual_seed(verificationSeed);
  const TensorSet& written = p.capture().writtenTensors;
  if (written.size() == 0) return p.run(copyOf(inputs), job);
  const TensorSet before = copyOf(written);
  auto out = p.run(copyOf(inputs), job);
  if (out) out = copyOf(*out);  // what it returns may lie in what is put back
  const c10::InferenceMode inference;
  for (size_t i = 0; i < written.size(); ++i) valuesOf(written)[i].toTensor().copy_(valuesOf(before)[i].toTensor());
  return out;
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
  return sendAhead([&] { (void)runSeeded(p, inputs, job); });
}

Result<TensorSet> runProbe(const Program& p, const TensorSet& inputs, const Job& job) {
  if (Status s = sendAhead(p, inputs, job); !s) return s.error();
  return runSeeded(p, inputs, job);
}

std::optional<TensorSet> runReference(VerificationPrograms& p, const TensorSet& inputs, const Job& job) {
  return p.reference.run(inputs,
                         [&](const Program& program, const TensorSet& wide) { return runProbe(program, wide, job); });
}

}  // namespace graft
