#include "app/workbench/compile/generated_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "app/workbench/compile/gpu_code.h"
#include "core/base/suggest.h"
#include "core/compile/codegen/cpp/cpp_code.h"
#include "core/compile/fusion/fusion_nodes.h"
#include "core/compile/fusion/group_text.h"
#include "core/compile/fusion/product_split.h"
#include "core/compile/loops/marks.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"
#include "core/compile/lower/lower.h"
#include "core/compile/nvrtc/kernel_usage.h"

namespace graft::workbench {
namespace {

constexpr std::array<std::string_view, 6> forms{"groups", "loops", "cpp", "cuda", "ptx", "sass"};
/// Of the GPU that code is for, where none is named and this machine has none.
constexpr int kUsualCapability = 90;

bool isOfGpu(CodeForm form) { return form >= CodeForm::Cuda; }

int capabilityFor(const CodeRequest& request) {
  if (request.capability > 0) return request.capability;
  return gpuCapability() > 0 ? gpuCapability() : kUsualCapability;
}

/// Sets the text or the problem.
void write(GeneratedKernel& kernel, const Graph& group, const CodeRequest& request, int capability, const Job& job) {
  const KernelChoice& choice = kernel.choice;
  const CodeForm form = request.form;
  if (form == CodeForm::Groups) {
    kernel.text = groupText(group, choice, kernel.isAnyLayout);
    return;
  }
  if (form == CodeForm::Cpp && !choice.source.empty()) {
    kernel.text = choice.source;
    return;
  }
  // C++ is for the processor, whatever the groups are planned for.
  const bool isForGpu = capability > 0 && form != CodeForm::Cpp;
  Result<loops::Program> program = lower::lower(group, {}, isForGpu ? lower::kGpu : lower::Machine());
  if (program && !choice.loops.empty()) program = editedLoops(choice.loops, *program);
  if (!program) {
    kernel.problem = program.error().message;
    return;
  }
  if (const Status s = loops::verify(*program); !s) {
    kernel.problem = s.error().message;
    return;
  }
  const auto nameOf = [&](uint32_t origin) { return group.node(NodeId(origin - 1)).name; };
  if (isOfGpu(form)) {
    auto code = gpuCode(std::move(*program), {form, capability, request.hasUsage}, job);
    if (!code) {
      kernel.problem = code.error().message;
      return;
    }
    kernel.text = std::move(code->text);
    kernel.launches = std::move(code->launches);
    if (!choice.loops.empty()) return;
    for (const loops::OriginSpan& s : code->spans) kernel.spans.push_back({nameOf(s.origin), s.begin, s.end});
    return;
  }
  loops::MarkedText marked = loops::withoutMarks(
      form == CodeForm::Loops ? loops::printProgram(*program, true)
                              : codegen::makeCppCode(*program, {.schedule = choice.schedule}, true));
  kernel.text = std::move(marked.text);
  if (!choice.loops.empty()) return;  // what a person wrote was made for no node
  for (const loops::OriginSpan& s : marked.spans) kernel.spans.push_back({nameOf(s.origin), s.begin, s.end});
}

/// Those that NVRTC compiles side by side: it takes 0.1 to 0.3 s for each.
void writeAll(const std::vector<size_t>& asked, std::vector<GeneratedKernel>& kernels, const std::vector<Graph>& groups,
              const CodeRequest& request, int capability, const Job& job) {
  constexpr size_t most = 8;
  const bool isCompiled = isOfGpu(request.form) && (request.form != CodeForm::Cuda || request.hasUsage);
  const size_t count = isCompiled ? std::min({most, asked.size(), size_t{std::thread::hardware_concurrency()}}) : 1;
  std::atomic<size_t> next = 0;
  const auto work = [&](bool reports) {
    for (size_t i = next++; i < asked.size() && !job.cancelled(); i = next++) {
      if (reports) job.report(isCompiled ? "compiling kernels" : "lowering", i, asked.size());
      write(kernels[asked[i]], groups[asked[i]], request, capability, job);
    }
  };
  std::vector<std::jthread> others;
  for (size_t i = 1; i < count; ++i) others.emplace_back(work, false);
  work(true);
  others.clear();  // waits
  if (!job.cancelled()) job.report(isCompiled ? "compiling kernels" : "lowering", asked.size(), asked.size());
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
  kernel.isAnyLayout = allowsAnyLayout(*program);
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
  report.isForGpu = request.isForGpu.value_or(isOnGpu(g) || isOfGpu(request.form));
  if (report.isForGpu || isOfGpu(request.form)) report.capability = capabilityFor(request);
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
  std::vector<size_t> asked;
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    names.push_back(report.kernels[i].name);
    if (request.kernel.empty() || request.kernel == names.back() || request.kernel == std::to_string(i))
      asked.push_back(i);
  }
  writeAll(asked, report.kernels, groups, request, report.capability, job);
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted", {}};
  if (asked.empty() && !request.kernel.empty()) {
    const auto nearest = nearestName(request.kernel, names);
    return badInput(
        fmt::format("there is no kernel {}{}", request.kernel, nearest ? "; did you mean " + *nearest + "?" : ""));
  }
  if (!request.kernel.empty())
    std::erase_if(report.kernels, [](const GeneratedKernel& k) { return k.text.empty() && k.problem.empty(); });
  return report;
}

}  // namespace graft::workbench
