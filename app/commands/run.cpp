// graft run: computes a model's outputs, saves or compares them.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/differences.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/executor.h"

namespace graft::cli {
namespace {

using nlohmann::json;

struct Options : Common {
  std::string model, method = "forward", output, expected;
};

/// As it is served: captured in a CUDA graph and replayed; operator by operator, saying why, where that cannot be.
Result<TensorSet> runOnGpu(const Program& program, const TensorSet& inputs, const Console& console, bool& captured) {
  const Job job = console.job();
  auto runner = CudaRunner::make(program);
  auto out = runner ? runner->run(inputs, job) : runner.error();
  captured = bool(out);
  if (out || out.error().kind == ErrorKind::Cancelled) return out;
  console.note(fmt::format("not captured, run operator by operator: {}", out.error().message));
  return program.run(inputs, job);
}

Status runModel(const Options& o) {
  const Console console(o);
  const Job job = console.job();
  auto options = runOptions(o);
  if (!options) return options.error();
  auto m = importModel(o.model, semantics(), {o.method}, job);
  if (!m) return m.error();
  auto inputs = commandInputs(m->graph, o);
  if (!inputs) return inputs.error();
  auto program = Program::build(m->graph, *options);
  if (!program) return program.error();
  bool captured = false;
  auto outputs = o.device == "cpu" ? program->run(*inputs, job) : runOnGpu(*program, *inputs, console, captured);
  if (!outputs) return outputs.error();
  json doc = {{"model", o.model}, {"inputs", inputs->describe()}, {"outputs", outputs->describe()}};
  if (o.device != "cpu") doc["captured"] = captured;
  for (const std::string& d : outputs->describe()) console.print("output  " + d);
  if (!o.output.empty()) {
    if (Status s = saveTensors(*outputs, o.output); !s) return s;
    doc["output"] = o.output;
    console.print("saved   " + o.output);
  }
  Status result = done();
  if (!o.expected.empty()) {
    auto expected = loadTensors(o.expected);
    if (!expected) return expected.error();
    const auto differences = compareTensors(*expected, *outputs);
    doc["differences"] = differencesJson(differences);
    console.print(differencesTable(differences));
    if (!allPassed(differences))
      result = Error{ErrorKind::Verification,
                     fmt::format("the outputs differ from {}: {}", o.expected, firstFailure(differences)),
                     {}};
  }
  console.document(doc);
  return result;
}

}  // namespace

void addRun(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("run", "Run the model and save its outputs; --expect compares them with saved ones");
  auto o = std::make_shared<Options>();
  c->add_option("model", o->model, "The model")->required()->type_name("MODEL");
  c->add_option("--method", o->method, "Which method of a TorchScript module, or which graph of an FX file")
      ->capture_default_str();
  c->add_option("-o,--output", o->output, "Where to save the outputs, as torch.save does")->type_name("OUT.pt");
  c->add_option("--expect", o->expected, "Saved outputs to compare with")->type_name("FILE");
  addCommon(*c, *o, true);
  c->callback([&run, o] { run = [o] { return runModel(*o); }; });
}

}  // namespace graft::cli
