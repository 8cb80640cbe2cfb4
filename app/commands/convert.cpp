// graft convert: a model in another format, as it is.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/commands/models.h"
#include "app/commands/options.h"
#include "app/json/documents_json.h"
#include "app/workbench/export.h"

namespace graft::cli {
namespace {

struct ConvertFlags : Common {
  std::string model, output;
};

Status convert(const ConvertFlags& o) {
  const Console console(o.printing);
  if (Status s = checkModelOutput(o.output); !s) return s;
  std::error_code e;
  if (std::filesystem::equivalent(o.model, o.output, e))
    return Error{ErrorKind::Usage, fmt::format("-o {}: the model itself would be overwritten", o.output), {}};
  auto inputs = inputRequest(o);
  if (!inputs) return inputs.error();
  auto converted =
      workbench::convert({{o.model, methodOf(o), inputs->dtype}, *inputs, o.output}, semantics(), console.job());
  if (!converted) return converted.error();
  for (const std::string& note : converted->settled) console.note(note);
  console.document(workbench::document(toJson(*converted)));
  console.print(
      fmt::format("{}, {} nodes, written as {}", converted->format->name, converted->nodes, converted->output));
  return done();
}

}  // namespace

void addConvert(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("convert", "Write a model in another format, as it is: TorchScript or torch.export");
  auto o = std::make_shared<ConvertFlags>();
  c->add_option("model", o->model, modelHelp())->required()->type_name("MODEL");
  c->add_option("-o,--output", o->output, "Where the model goes: TorchScript for *.pt, torch.export for *.pt2")
      ->required()
      ->type_name("OUT.pt|OUT.pt2");
  addMethodOption(*c, *o);
  addCommon(*c, *o, true);
  c->footer(
      "--inputs fixes all sizes at those of the inputs. For torch.export it also fixes inputs that are neither tensors "
      "nor whole numbers. Give it only where the file does not say these.\n"
      "A TorchScript file can be moved to another device: it makes its masks where the module is, even if the model "
      "was "
      "traced on the CPU. For torch.export files PyTorch has move_to_device_pass.\n"
      "Operators that this machine does not have are written as they were read.");
  c->callback([&run, o] { run = [o] { return convert(*o); }; });
}

}  // namespace graft::cli
