// graft code: a model as Python, and what Graft would compile of it, stage by stage.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/show.h"
#include "app/json/documents_json.h"
#include "app/workbench/compile/generated_code.h"
#include "app/workbench/compile/measured_kernels.h"
#include "core/base/atomic_file.h"
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
  bool measure = false, gpu = false;
};

std::string bytesText(size_t bytes) {
  return bytes < 10'000 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} MB", static_cast<double>(bytes) / 1e6);
}

std::string heading(size_t index, const GeneratedKernel& k, workbench::CodeForm form) {
  std::string out = fmt::format("{} kernel {}, {}: {}", form == workbench::CodeForm::Cpp ? "//" : "#", index, k.name,
                                counted(k.nodes.size(), "node"));
  if (!k.isInFile)
    out += fmt::format(", {} instead of {}, {:.3g} us less predicted", bytesText(k.bytes), bytesText(k.bytesApart),
                       k.savedMicroseconds);
  if (!k.product.empty()) out += fmt::format(", behind the product %{}", k.product);
  if (k.measured && k.isInFile) out += fmt::format(", {:.3g} us", k.measured->kernel);
  if (k.measured && !k.isInFile) {
    out += fmt::format(", {:.3g} us instead of {:.3g} us", k.measured->kernel, k.measured->operators);
    if (k.measured->generated) out += fmt::format(" ({:.3g} us as generated)", *k.measured->generated);
  }
  if (!k.choice.isEmpty())
    out += !k.choice.isEdited() ? ", scheduled by hand" : k.choice.source.empty() ? ", edited loops" : ", edited C++";
  const std::string scope = k.modules.empty() ? "" : k.modules.front();
  if (!scope.empty()) out += fmt::format("; in {}{}", scope, k.modules.size() > 1 ? ", …" : "");
  return out + "\n";
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
    out += heading(index++, k, report.form);
    out += k.problem.empty() ? k.text : fmt::format("# runs as ATen operators: {}\n", k.problem);
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
        ErrorKind::Usage, "--as takes python, groups, loops, cpp, cuda or ptx; " + o.as + " is none of them", {}};
  const bool isSteered = !o.only.empty() || !o.apart.empty() || !o.fusion.empty() || !o.writeFusion.empty() || o.gpu;
  if (!form && (!o.kernel.empty() || isSteered || o.measure))
    return Error{
        ErrorKind::Usage,
        "--kernel, --only, --apart, --gpu, --fusion, --write-fusion and --measure go with --as groups, loops, cpp, "
        "cuda or ptx",
        {}};
  workbench::CodeRequest request{.form = form.value_or(workbench::CodeForm::Groups),
                                 .kernel = o.kernel,
                                 .fusion = {.only = o.only, .apart = o.apart},
                                 .isForGpu = o.gpu};
  if (!o.fusion.empty()) {
    auto read = readSteering(o.fusion);
    if (!read) return read.error();
    request.fusion.steering = std::move(*read);
  }
  auto shown = loadShown(o, console);
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
    if (Status s =
            workbench::measureKernels(shown->graph, request.fusion, *inputs, semantics(), *report, console.job());
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
                "kernel's loops; cpp: the same as C++; cuda: as CUDA C++; ptx: as a GPU's assembly text")
      ->type_name("FORM")
      ->capture_default_str();
  c->add_option("--kernel", o->kernel, "This kernel alone: its name or number")->type_name("NAME");
  c->add_option("--only", o->only, "Fuse these module paths, operators or nodes alone")->type_name("NAME");
  c->add_option("--apart", o->apart, "Do not fuse these module paths, operators or nodes")->type_name("NAME");
  c->add_flag("--gpu", o->gpu,
              "Plan as for a model on a GPU, where a kernel may hold a matrix product; --as cuda and ptx always do");
  addFusionOption(*c, o->fusion);
  c->add_option("--write-fusion", o->writeFusion,
                "Write the groups to this file: changed by hand, it is what --fusion takes")
      ->type_name("FILE.json");
  c->add_flag("--measure", o->measure,
              "Time each kernel beside its operators, in runs of the model; nothing is verified");
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return code(*o); }; });
}

}  // namespace graft::cli
