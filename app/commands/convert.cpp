// graft convert: a model in another format, as it is.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/models.h"
#include "core/formats/export.h"

namespace graft::cli {
namespace {

struct Options : Common {
  std::string model, output;
  std::string method = "forward";
};

Status convert(const Options& o) {
  const Console console(o);
  if (Status s = checkModelOutput(o.output); !s) return s;
  const Job job = console.job();
  auto model = openModel(o.model, o, {o.method}, job);
  if (!model) return model.error();
  ExportOptions how;
  if (o.givesInputs()) {
    auto inputs = typedInputs(*model, o, OpenSizes::FixedByInputs);
    if (!inputs) return inputs.error();
    how.inputs = std::move(*inputs);
  }
  if (job.cancelled()) return Error{ErrorKind::Cancelled, "interrupted; nothing was written", {}};
  if (Status s = exportModel(model->graph, o.output, how); !s) return s;
  console.document(
      {{"model", o.model}, {"format", model->format->name}, {"output", o.output}, {"nodes", model->graph.nodeCount()}});
  console.print(fmt::format("{}, {} nodes, written as {}", model->format->name, model->graph.nodeCount(), o.output));
  return done();
}

}  // namespace

void addConvert(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("convert", "Write the model in another format, as it is: TorchScript or torch.export");
  auto o = std::make_shared<Options>();
  c->add_option("model", o->model, modelHelp())->required()->type_name("MODEL");
  c->add_option("-o,--output", o->output, "TorchScript where it ends in .pt, torch.export where in .pt2")
      ->required()
      ->type_name("OUT.pt|OUT.pt2");
  c->add_option("--method", o->method, "Which method of a TorchScript module, or which graph of an FX file")
      ->capture_default_str();
  addCommon(*c, *o, true);
  c->footer(
      "--inputs fixes all sizes at those of the inputs, and for torch.export what is neither a tensor nor a whole "
      "number: only where the file does not say them all.\n"
      "TorchScript makes masks where the module is, even where the model was traced on the CPU: it can be moved. For "
      "torch.export PyTorch has move_to_device_pass. Operators that this machine does not have are written as they "
      "were "
      "read.");
  c->callback([&run, o] { run = [o] { return convert(*o); }; });
}

}  // namespace graft::cli
