#include "app/workbench/compile/generated_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/suggest.h"
#include "core/compile/codegen/cpp/cpp_code.h"
#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/fusion/fusion_nodes.h"
#include "core/compile/fusion/group_text.h"
#include "core/compile/fusion/product_split.h"
#include "core/compile/loops/marks.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "core/compile/nvrtc/nvrtc.h"

namespace graft::workbench {
namespace {

constexpr std::array<std::string_view, 5> forms{"groups", "loops", "cpp", "cuda", "ptx"};
/// PTX is for GPUs from this compute capability on.
constexpr int kPtxCapability = 80;
/// Of a size that varies, where code is for given sizes.
constexpr int64_t kGuess = 128;

/// Sets the text or the problem. What stands in front of all kernels is left out of CUDA C++.
void writeCuda(GeneratedKernel& kernel, loops::Program program, CodeForm form) {
  codegen::CudaOptions options;
  std::string given;
  for (const loops::Size& s : program.sizes) {
    options.sizes.push_back(std::clamp(kGuess, s.min, s.max ? std::max(*s.max, s.min) : INT64_MAX));
    given += fmt::format("{}{} = {}", given.empty() ? "// where " : ", ", s.name, options.sizes.back());
  }
  const Result<codegen::CudaCode> code = codegen::makeCudaCode(std::move(program), options);
  if (!code) {
    kernel.problem = code.error().message;
    return;
  }
  if (form == CodeForm::Cuda) {
    kernel.text = (given.empty() ? "" : given + "\n") + code->source.substr(code->preludeBytes);
    return;
  }
  const Nvrtc* nvrtc = findNvrtc();
  if (!nvrtc) {
    kernel.problem = "no PTX is made: " + nvrtcStatus();
    return;
  }
  Result<std::string> ptx = nvrtc->compile(code->source, kPtxCapability, Nvrtc::Form::Ptx);
  if (ptx)
    kernel.text = std::move(*ptx);
  else
    kernel.problem = ptx.error().message;
}

/// Sets the text or the problem.
void write(GeneratedKernel& kernel, const Graph& group, CodeForm form) {
  const KernelChoice& choice = kernel.choice;
  if (form == CodeForm::Groups) {
    kernel.text = groupText(group, choice);
    return;
  }
  if (form == CodeForm::Cpp && !choice.source.empty()) {
    kernel.text = choice.source;
    return;
  }
  Result<loops::Program> program = lower::lower(group);
  if (program && !choice.loops.empty()) program = editedLoops(choice.loops, *program);
  if (!program) {
    kernel.problem = program.error().message;
    return;
  }
  if (const Status s = loops::verify(*program); !s) {
    kernel.problem = s.error().message;
    return;
  }
  if (form == CodeForm::Cuda || form == CodeForm::Ptx) {
    writeCuda(kernel, std::move(*program), form);
    return;
  }
  loops::MarkedText marked = loops::withoutMarks(
      form == CodeForm::Loops ? loops::printProgram(*program, true)
                              : codegen::makeCppCode(*program, {.schedule = choice.schedule}, true));
  kernel.text = std::move(marked.text);
  if (!choice.loops.empty()) return;  // what a person wrote was made for no node
  for (const loops::OriginSpan& s : marked.spans)
    kernel.spans.push_back({group.node(NodeId(s.origin - 1)).name, s.begin, s.end});
}

GeneratedKernel describe(const Graph& g, const FusionGroup& group) {
  GeneratedKernel out;
  out.name = group.name;
  for (const NodeId n : group.nodes) {
    out.nodes.push_back(g.node(n).name);
    const std::string scope(g.scopeOf(n));
    if (std::find(out.modules.begin(), out.modules.end(), scope) == out.modules.end()) out.modules.push_back(scope);
  }
  for (const NodeId n : group.computing) out.computing.push_back(g.node(n).name);
  if (group.product) out.product = g.node(group.product).name;
  for (const ValueId v : group.inputs) out.inputs.push_back(g.value(v).name);
  for (const ValueId v : group.outputs) out.outputs.push_back(g.value(v).name);
  out.bytes = group.bytes;
  out.bytesWritten = group.bytesWritten;
  out.microseconds = group.microseconds;
  out.bytesApart = group.bytesApart;
  out.savedMicroseconds = group.savedMicroseconds;
  out.choice = group.choice;
  return out;
}

/// One that the model calls already.
Result<std::pair<GeneratedKernel, Graph>> read(const Graph& g, const Node& node, const OperatorSet& operators) {
  const auto* program = node.args.at(1).as<std::string>();
  if (!program) return badInput("%" + node.name + ": its program is no literal");
  Result<Graph> group = parseGroup(*program, operators);
  if (!group) return group.error();
  Result<KernelChoice> choice = parseChoice(*program);
  if (!choice) return choice.error();
  GeneratedKernel kernel;
  kernel.choice = std::move(*choice);
  kernel.name = group->name;
  kernel.isInFile = true;
  kernel.call = node.name;
  kernel.modules.emplace_back(g.scopeOf(node.id));
  if (const NodeId product = productOf(*group)) kernel.product = group->node(product).name;
  for (const NodeId n : group->order()) kernel.nodes.push_back(group->node(n).name);
  for (const ValueId v : group->inputs()) {
    kernel.inputs.push_back(group->value(v).name);
    if (group->value(v).type.isTensor()) kernel.bytes += static_cast<size_t>(bytesOf(group->value(v).type));
  }
  for (const Argument& r : group->returns()) {
    kernel.outputs.push_back(group->value(r.valueId()).name);
    kernel.bytesWritten += static_cast<size_t>(bytesOf(group->value(r.valueId()).type));
  }
  kernel.bytes += kernel.bytesWritten;
  return std::pair(std::move(kernel), std::move(*group));
}

CallOrigin originOf(const Operator& op) {
  if (op.name.starts_with("graft.")) return CallOrigin::HandWritten;
  if (!op.name.starts_with("aten.")) return CallOrigin::User;
  const OperatorFamily family = op.facts->family;
  const bool isLibrarys = family == OperatorFamily::Product || family == OperatorFamily::Convolution;
  return isLibrarys ? CallOrigin::Library : CallOrigin::Aten;
}

/// Whether the node does more than look at a value, hand it on, or say something of it.
bool computes(const Graph& g, const Node& n, const FusionNode& f) {
  if (f.role == FusionNode::Role::View || !n.op->hasSchema || n.op->name == kGeneratedOperator) return false;
  if (n.op->is(OperatorFact::Structural | OperatorFact::MetadataOnly | OperatorFact::Guard | OperatorFact::View |
               OperatorFact::Identity))
    return false;
  const Argument* training = n.findArgument("train");
  if (n.op->is(OperatorFact::Dropout) && training && training->as<bool>() && !*training->as<bool>()) return false;
  return std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return g.value(v).type.isTensor(); });
}

std::vector<SingleCall> singleCalls(const Graph& g, const FusionPlan& plan, const FusionOptions& options) {
  std::vector<char> isInGroup(g.nodeBound());
  for (const FusionGroup& group : plan.groups)
    for (const NodeId n : group.computing) isInGroup[n.index] = 1;
  const std::vector<FusionNode> nodes = fusionNodes(g, options);
  std::vector<SingleCall> calls;
  for (const NodeId id : g.order()) {
    const Node& n = g.node(id);
    if (isInGroup[id.index] || !computes(g, n, nodes[id.index])) continue;
    SingleCall call{.node = n.name, .op = n.op->name, .module = std::string(g.scopeOf(id)), .origin = originOf(*n.op)};
    std::vector<ValueId> seen;
    const auto read = [&](ValueId v) {
      const Type& type = g.value(v).type;
      if (!type.isTensor() || std::find(seen.begin(), seen.end(), v) != seen.end()) return;
      seen.push_back(v);
      call.bytesRead += static_cast<size_t>(bytesOf(type));
    };
    for (const Argument& a : n.args) a.forEachValue(read);
    for (const auto& [name, a] : n.kwargs) a.forEachValue(read);
    for (const ValueId v : n.outputs)
      if (g.value(v).type.isTensor()) call.bytesWritten += static_cast<size_t>(bytesOf(g.value(v).type));
    calls.push_back(std::move(call));
  }
  return calls;
}

void makeUnique(std::vector<GeneratedKernel>& kernels) {
  std::map<std::string, size_t> seen;
  for (GeneratedKernel& k : kernels)
    if (const size_t n = seen[k.name]++; n > 0) k.name += fmt::format("_{}", n);
}

}  // namespace

std::string_view originName(CallOrigin origin) {
  constexpr std::array<std::string_view, 4> names{"hand-written", "library", "aten", "user"};
  return names[static_cast<size_t>(origin)];
}

std::string_view formName(CodeForm form) { return forms[static_cast<size_t>(form)]; }

std::optional<CodeForm> findForm(std::string_view name) {
  const auto found = std::find(forms.begin(), forms.end(), name);
  if (found == forms.end()) return std::nullopt;
  return static_cast<CodeForm>(found - forms.begin());
}

Result<CodeReport> generatedCode(const Graph& g, const CodeRequest& request, const OperatorSet& operators,
                                 const Job& job) {
  CodeReport report;
  report.form = request.form;
  std::vector<Graph> groups;
  for (const NodeId id : g.order()) {
    if (g.node(id).op->name != kGeneratedOperator) continue;
    auto read = workbench::read(g, g.node(id), operators);
    if (!read) return read.error();
    report.kernels.push_back(std::move(read->first));
    groups.push_back(std::move(read->second));
  }
  FusionOptions options = request.fusion;
  report.isForGpu = request.isForGpu || isOnGpu(g) || request.form == CodeForm::Cuda || request.form == CodeForm::Ptx;
  if (report.isForGpu) planForGpu(options);
  FusionPlan plan = planFusion(g, options);
  for (const FusionGroup& group : plan.groups) {
    report.kernels.push_back(describe(g, group));
    groups.push_back(groupGraph(g, group));
  }
  report.calls = singleCalls(g, plan, options);
  report.steering = steeringFor(g, plan);
  report.decisions = std::move(plan.decisions);
  report.unapplied = std::move(plan.unapplied);
  report.notFused = std::move(plan.notFused);
  makeUnique(report.kernels);
  std::vector<std::string> names;
  bool isFound = request.kernel.empty();
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    GeneratedKernel& kernel = report.kernels[i];
    names.push_back(kernel.name);
    const bool isAsked = request.kernel.empty() || request.kernel == kernel.name || request.kernel == std::to_string(i);
    if (!isAsked) continue;
    isFound = true;
    job.report("lowering", i, groups.size());
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted", {}};
    write(kernel, groups[i], request.form);
  }
  job.report("lowering", groups.size(), groups.size());
  if (!isFound) {
    const auto nearest = nearestName(request.kernel, names);
    return badInput(
        fmt::format("there is no kernel {}{}", request.kernel, nearest ? "; did you mean " + *nearest + "?" : ""));
  }
  if (!request.kernel.empty())
    std::erase_if(report.kernels, [](const GeneratedKernel& k) { return k.text.empty() && k.problem.empty(); });
  return report;
}

}  // namespace graft::workbench
