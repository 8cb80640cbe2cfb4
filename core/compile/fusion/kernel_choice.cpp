#include "core/compile/fusion/kernel_choice.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/compile/codegen/cpp_compile.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"

namespace graft {
namespace {

/// "f32[s0, 768]": with the names of sizes, which both programs have in common where they fit.
std::string typeOf(const loops::Program& p, loops::BufferId id) {
  std::string out = std::string(dtypeShort(p.buffer(id).dtype)) + "[";
  for (size_t i = 0; i < p.buffer(id).sizes.size(); ++i)
    out += (i > 0 ? ", " : "") + loops::printExpression(p, p.buffer(id).sizes[i]);
  return out + "]";
}

Status sameBuffers(const loops::Program& edited, const std::vector<loops::BufferId>& ofEdited,
                   const loops::Program& lowered, const std::vector<loops::BufferId>& ofLowered, const char* what) {
  if (ofEdited.size() != ofLowered.size())
    return badInput("the edited loops have " + std::to_string(ofEdited.size()) + " " + what + "s, the group has " +
                    std::to_string(ofLowered.size()));
  for (size_t i = 0; i < ofEdited.size(); ++i) {
    const std::string now = typeOf(edited, ofEdited[i]), wanted = typeOf(lowered, ofLowered[i]);
    if (now != wanted)
      return badInput("the " + std::string(what) + " " + edited.buffer(ofEdited[i]).name + " of the edited loops is " +
                      now + ", the group's is " + wanted);
  }
  return done();
}

/// A size's value in a call: a number of that name, or a dimension of an input that is this size.
std::optional<int64_t> sizeIn(const loops::Program& p, loops::SizeId id, const KernelCall& call) {
  for (const auto& [name, value] : call.numbers)
    if (name == p.sizes[id.index].name) return value;
  const std::vector<loops::BufferId> inputs = p.inputs();
  for (size_t i = 0; i < std::min(inputs.size(), call.inputs.size()); ++i) {
    const std::vector<loops::ExprId>& dimensions = p.buffer(inputs[i]).sizes;
    for (size_t d = 0; d < std::min(dimensions.size(), call.inputs[i].sizes.size()); ++d) {
      const loops::Expr& e = p.expressions[dimensions[d]];
      if (e.op == loops::Op::Size && e.size() == id) return call.inputs[i].sizes[d];
    }
  }
  return std::nullopt;
}

}  // namespace

bool areSourcesTrusted() {
  const char* given = std::getenv(kTrustVariable);
  return given && std::string_view(given) == "1";
}

bool areEditedKernelsRequired() {
  const char* given = std::getenv(kEditedVariable);
  return given && std::string_view(given) == "required";
}

void requireEditedKernels() { setenv(kEditedVariable, "required", 1); }

bool hasFixedSizes(const Graph& group) {
  return std::all_of(group.inputs().begin(), group.inputs().end(), [&](ValueId v) {
    const Type& type = group.value(v).type;
    return type.isTensor() && type.tensorInfo.shape &&
           std::all_of(type.tensorInfo.shape->begin(), type.tensorInfo.shape->end(),
                       [](const Dim& d) { return d.isStatic(); });
  });
}

Result<loops::Program> editedLoops(std::string_view text, const loops::Program& lowered) {
  Result<loops::Program> edited = loops::parseProgram(text);
  if (!edited) return edited;
  if (edited->sizes.size() != lowered.sizes.size())
    return badInput("the edited loops have " + std::to_string(edited->sizes.size()) + " sizes, the group has " +
                    std::to_string(lowered.sizes.size()));
  if (Status s = sameBuffers(*edited, edited->inputs(), lowered, lowered.inputs(), "input"); !s) return s.error();
  if (Status s = sameBuffers(*edited, edited->outputs(), lowered, lowered.outputs(), "output"); !s) return s.error();
  return edited;
}

Result<FittedLoops> fittedLoops(std::string_view text, const KernelCall& call) {
  Result<loops::Program> program = loops::parseProgram(text);
  if (!program) return program.error();
  FittedLoops out{std::move(*program), {}};
  const loops::Program& p = out.program;
  for (uint32_t i = 0; i < p.sizes.size(); ++i) {
    const std::optional<int64_t> value = sizeIn(p, loops::SizeId(i), call);
    if (!value) return badInput("nothing in the call is the size " + p.sizes[i].name + " of the edited loops");
    out.sizes.push_back(*value);
  }
  if (const Status s = loops::checkSizes(p, out.sizes); !s) return s.error();
  const auto fit = [&](const std::vector<loops::BufferId>& buffers, const std::vector<KernelCall::Tensor>& tensors) {
    return std::equal(buffers.begin(), buffers.end(), tensors.begin(), tensors.end(),
                      [&](loops::BufferId b, const KernelCall::Tensor& t) {
                        return p.buffer(b).dtype == t.dtype && p.shape(b, out.sizes) == t.sizes;
                      });
  };
  if (!fit(p.inputs(), call.inputs) || !fit(p.outputs(), call.outputs))
    return badInput("the edited loops are for other dtypes or sizes");
  return out;
}

Status checkChoice(const Graph& group, const KernelChoice& choice) {
  const Result<loops::Program> lowered = lower::lower(group);
  if (!lowered) return badInput("the group runs as ATen operators: " + lowered.error().message);
  if (!choice.source.empty()) {
    if (!areSourcesTrusted())
      return badInput("its C++ is not compiled, because nobody says that it is trusted (--trust-sources, " +
                      std::string(kTrustVariable) + "=1)");
    if (!hasFixedSizes(group)) return badInput("its sizes vary, and C++ is for fixed ones");
    const auto compiled = codegen::compileCpp(codegen::callableCpp(*lowered, choice.source));
    return compiled ? done() : compiled.error();
  }
  if (choice.loops.empty()) return codegen::checkSchedule(*lowered, choice.schedule);
  const Result<loops::Program> edited = editedLoops(choice.loops, *lowered);
  return edited ? codegen::checkSchedule(*edited, choice.schedule) : edited.error();
}

}  // namespace graft
