// graft code: a model as Python, and what Graft would compile of it, stage by stage.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/show.h"
#include "app/json/documents_json.h"
#include "app/workbench/compile/generated_code.h"
#include "app/workbench/compile/measured_kernels.h"
#include "core/base/atomic_file.h"
#include "core/base/numbers/percent.h"
#include "core/base/words.h"
#include "core/text/python_code.h"
#include "core/torch/literal.h"

namespace graft::cli {
namespace {

using workbench::CodeReport;
using workbench::GeneratedKernel;

struct CodeFlags : ShowFlags {
  std::string as = "python";
  std::string kernel, fusion, writeFusion;
  std::vector<std::string> only, apart;
  bool measure = false, trySchedules = false, gpu = false, usage = false;
  std::string capability;
};

std::string bytesText(size_t bytes) {
  return bytes < 10'000 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} MB", static_cast<double>(bytes) / 1e6);
}

std::string heading(size_t index, const GeneratedKernel& k, workbench::CodeForm form) {
  std::string out = fmt::format("{} kernel {}, {}: {}", form >= workbench::CodeForm::Cpp ? "//" : "#", index, k.name,
                                counted(k.nodes.size(), "node"));
  if (!k.isInFile && k.nodes.size() == 1)
    out += fmt::format(", {}, by itself", bytesText(k.bytes));
  else if (!k.isInFile)
    out += fmt::format(", {} instead of {}, {:.3g} us less predicted", bytesText(k.bytes), bytesText(k.bytesApart),
                       k.savedMicroseconds);
  if (!k.product.empty()) out += fmt::format(", behind the product %{}", k.product);
  if (k.measured && k.isInFile) out += fmt::format(", {:.3g} us", k.measured->kernel);
  if (k.measured && !k.isInFile) {
    out += fmt::format(", {:.3g} us instead of {:.3g} us", k.measured->kernel, k.measured->operators);
    if (k.measured->generated) out += fmt::format(" ({:.3g} us as generated)", *k.measured->generated);
  }
  if (k.measured && k.measured->least)
    out += fmt::format(", {} of the roofline", percentText(*k.measured->least / k.measured->kernel));
  if (!k.choice.isEmpty())
    out += !k.choice.isEdited() ? ", scheduled by hand" : k.choice.source.empty() ? ", edited loops" : ", edited C++";
  const std::string scope = k.modules.empty() ? "" : k.modules.front();
  if (!scope.empty()) out += fmt::format("; in {}{}", scope, k.modules.size() > 1 ? ", …" : "");
  return out + "\n";
}

/// "//   kernel_0: 64 blocks of 256 threads, 40 registers, …" of each launch.
std::string launchLines(const GeneratedKernel& k, workbench::CodeForm form) {
  std::string out;
  for (const workbench::KernelLaunch& l : k.launches) {
    if (!l.usage) continue;
    const auto& u = *l.usage;
    out += fmt::format("{}   {}: {}; {} of {} threads, {}, {} B of shared memory, {}",
                       form >= workbench::CodeForm::Cpp ? "//" : "#", l.function, l.schedule,
                       counted(static_cast<size_t>(l.blocks), "block"), l.threads,
                       counted(static_cast<size_t>(u.registers), "register"), l.sharedBytes,
                       u.spillBytes > 0 ? fmt::format("{} B spilled", u.spillBytes) : "nothing spilled");
    if (u.occupancy > 0)
      out += fmt::format(", occupancy {} ({} at a time, limited by {})", percentText(u.occupancy),
                         counted(static_cast<size_t>(u.blocks), "block"), u.limit);
    out += '\n';
  }
  return out;
}

/// "#   tried: lanes i1: 3.2 us" of each schedule.
std::string triedLines(const GeneratedKernel& k, workbench::CodeForm form) {
  std::string out;
  for (const workbench::TriedSchedule& t : k.tried) {
    std::string choices = codegen::printSchedule(t.schedule);
    std::replace(choices.begin(), choices.end(), '\n', ',');
    choices.pop_back();
    out += fmt::format("{}   tried: {}: {:.3g} us\n", form >= workbench::CodeForm::Cpp ? "//" : "#", choices,
                       t.microseconds);
  }
  return out;
}

/// 90 of "9.0" or "90"; 0 of what is none that the generated code runs on.
int capabilityOf(const std::string& text) {
  const std::string digits =
      text.size() > 2 && text[text.size() - 2] == '.' ? text.substr(0, text.size() - 2) + text.back() : text;
  int n = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return read.ec == std::errc() && read.ptr == digits.data() + digits.size() && n >= 80 && n < 200 ? n : 0;
}

/// "aten.linear.default: …" once for each operator and reason, with how often.
std::string whatStays(const CodeReport& report) {
  std::map<std::pair<std::string, std::string>, size_t> reasons;
  for (const NotFused& n : report.notFused) ++reasons[{n.op, n.why}];
  if (reasons.empty()) return "";
  std::string out = fmt::format("# {} not fused:\n", counted(report.notFused.size(), "node"));
  for (const auto& [reason, count] : reasons)
    out += fmt::format("#   {} x {}: {}\n", count, reason.first, reason.second);
  return out;
}

std::string pairsApart(const CodeReport& report) {
  std::map<std::string, size_t> reasons;
  for (const FusionDecision& d : report.decisions)
    if (!d.isMerged) ++reasons[d.why];
  std::string out;
  for (const auto& [why, count] : reasons) out += fmt::format("#   {} x {}\n", count, why);
  return out.empty() ? out : "# pairs of operators that stay apart:\n" + out;
}

std::string textOf(const CodeReport& report, bool isWhole) {
  std::string out;
  size_t index = 0;
  for (const GeneratedKernel& k : report.kernels) {
    out += heading(index++, k, report.form) + launchLines(k, report.form) + triedLines(k, report.form);
    // That there is no compiler or disassembler here says nothing of how the kernel runs.
    const char* none = report.form >= workbench::CodeForm::Ptx ? "// no text" : "# runs as ATen operators";
    out += k.problem.empty() ? k.text : fmt::format("{}: {}\n", none, k.problem);
    if (!out.ends_with('\n')) out += '\n';
    out += '\n';
  }
  if (isWhole) out += pairsApart(report) + whatStays(report);
  return out;
}

Status code(const CodeFlags& o) {
  const Console console(o.printing);
  const auto form = workbench::findForm(o.as);
  if (!form && o.as != "python")
    return Error{
        ErrorKind::Usage, "--as takes python, groups, loops, cpp, cuda, ptx or sass; " + o.as + " is none of them", {}};
  const bool isSteered = !o.only.empty() || !o.apart.empty() || !o.fusion.empty() || !o.writeFusion.empty() || o.gpu ||
                         o.usage || !o.capability.empty();
  if (!form && (!o.kernel.empty() || isSteered || o.measure))
    return Error{
        ErrorKind::Usage,
        "--kernel, --only, --apart, --gpu, --capability, --usage, --fusion, --write-fusion and --measure go with --as "
        "groups, loops, cpp, cuda, ptx or sass",
        {}};
  if (o.trySchedules && !o.measure) return Error{ErrorKind::Usage, "--try-schedules goes with --measure", {}};
  const bool isOfGpu = form >= workbench::CodeForm::Cuda;
  if (o.usage && !isOfGpu)
    return Error{ErrorKind::Usage, "--usage is of kernels on a GPU: it goes with --as cuda, ptx or sass", {}};
  const int capability = o.capability.empty() ? 0 : capabilityOf(o.capability);
  if (!o.capability.empty() && capability == 0)
    return Error{
        ErrorKind::Usage,
        "--capability takes a compute capability of 8.0 or later, such as 8.0, 8.9 or 9.0, not " + o.capability,
        {}};
  workbench::CodeRequest request{.form = form.value_or(workbench::CodeForm::Groups),
                                 .kernel = o.kernel,
                                 .fusion = {.only = o.only, .apart = o.apart},
                                 .isForGpu = o.gpu ? std::optional(true) : std::nullopt,
                                 .capability = capability,
                                 .hasUsage = o.usage || form == workbench::CodeForm::Sass};
  if (!o.fusion.empty()) {
    auto read = readSteering(o.fusion);
    if (!read) return read.error();
    request.fusion.steering = std::move(*read);
  }
  auto shown = loadShown(o, console, o.gpu || isOfGpu);
  if (!shown) return shown.error();
  if (!form)
    return printShown(*shown, console,
                      [](const workbench::ShownModel& s) { return pythonCode(s.graph, tensorLiteral); });
  auto report = workbench::generatedCode(shown->graph, request, semantics().operators(), console.job());
  if (!report) return report.error();
  for (const SteeringProblem& p : report->unapplied) console.warn(fmt::format("{}: {}: {}", o.fusion, p.entry, p.why));
  if (o.measure) {
    auto inputs = modelInputs(shown->graph, o, console);
    if (!inputs) return inputs.error();
    if (Status s = workbench::measureKernels(shown->graph, request.fusion, *inputs, semantics(), *report, console.job(),
                                             o.trySchedules);
        !s)
      return s;
  }
  if (!o.writeFusion.empty()) {
    if (Status s = writeFileAtomically(o.writeFusion, printSteering(report->steering)); !s) return s;
    console.note("fusion  " + o.writeFusion);
  }
  if (console.json()) {
    console.document(workbench::document(toJson(*report)));
    return done();
  }
  if (report->kernels.empty()) console.note("no group of operators becomes a kernel");
  console.print(textOf(*report, o.kernel.empty()));
  return done();
}

}  // namespace

void addCode(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("code", "Print the graph as Python; with --as, the kernels that Graft would generate");
  auto o = std::make_shared<CodeFlags>();
  addShowOptions(*c, *o);
  c->add_option("--as", o->as,
                "python: as torch.fx shows it; groups: the operators of each kernel, and why others stay; loops: each "
                "kernel's loops; cpp: the same as C++; cuda: as CUDA C++; ptx: as a GPU's assembly text; sass: as the "
                "instructions of one GPU, where nvdisasm or cuobjdump is installed")
      ->type_name("FORM")
      ->capture_default_str();
  c->add_option("--kernel", o->kernel, "This kernel alone: its name or number")->type_name("NAME");
  c->add_option("--only", o->only, "Fuse these module paths, operators or nodes alone")->type_name("NAME");
  c->add_option("--apart", o->apart, "Do not fuse these module paths, operators or nodes")->type_name("NAME");
  c->add_flag(
      "--gpu", o->gpu,
      "Plan as for a model on a GPU, where a kernel may hold a matrix product, and so do the passes of --recipe; --as "
      "cuda, ptx and sass always do");
  c->add_option("--capability", o->capability,
                "The compute capability of the GPU that cuda, ptx and sass are for, such as 8.0; without it this "
                "machine's, else 9.0")
      ->type_name("N.N");
  c->add_flag("--usage", o->usage,
              "With --as cuda, ptx or sass: say what each kernel takes of a GPU: threads, registers, shared memory, "
              "occupancy, spills");
  addFusionOption(*c, o->fusion);
  c->add_option("--write-fusion", o->writeFusion,
                "Write the groups to this file: changed by hand, it is what --fusion takes")
      ->type_name("FILE.json");
  c->add_flag("--measure", o->measure,
              "Time each kernel beside its operators, in runs of the model, and beside the least time that this "
              "machine's memory and arithmetic allow; nothing is verified");
  c->add_flag("--try-schedules", o->trySchedules,
              "With --measure: time other schedules of each kernel, too, for a plan (--fusion)");
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return code(*o); }; });
}

}  // namespace graft::cli
