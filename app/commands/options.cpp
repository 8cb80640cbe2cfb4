#include "app/commands/options.h"
#include "core/base/words.h"
#include "core/compile/fusion/kernel_choice.h"
#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <memory>

namespace graft::cli {

namespace {

/// Once for each command.
void addTrustOption(CLI::App& command) {
  if (command.get_option_no_throw("--trust-sources")) return;
  command.add_flag_callback(
      "--trust-sources", [] { setenv(kTrustVariable, "1", 1); },
      "Compile and run the C++ of hand-edited kernels that the model's file or --fusion holds");
}

}  // namespace

void addCommon(CLI::App& command, Common& common, bool takesInputs) {
  command.add_flag("--json", common.printing.json, "Print the result as one JSON document (docs/json describes it)");
  command.add_flag("-q,--quiet", common.printing.quiet, "Leave out progress and notes on stderr");
  addLibraryOption(command);
  if (!takesInputs) return;
  addTrustOption(command);
  command
      .add_option("--inputs", common.inputs,
                  "The model's inputs, as Python's torch.save writes them: a tensor, or a list, tuple or dict of them")
      ->type_name("FILE");
  command
      .add_option(
          "--input", common.specs,
          "Make up one input, like f16[1,128]:randn or i64[2,9]:randint(0,30522), or say a number: 3. Give it once "
          "for each input, in order, or by name: mask=i64[2,9]:ones, n=3")
      ->type_name("SPEC");
  command.add_option("--seed", common.seed, "The seed of random inputs")->capture_default_str();
  command
      .add_option("--device", common.device,
                  "Where to run: cpu, cuda or cuda:N. What the file has on another device moves along")
      ->capture_default_str();
  command.add_option("--dtype", common.dtype, "Cast floating-point weights and inputs to this dtype");
}

Result<RunOptions> runOptions(const Common& common) {
  RunOptions options;
  options.device = common.device;
  if (!common.dtype.empty()) {
    options.dtype = parseDType(common.dtype);
    if (!options.dtype || !isFloatingPoint(*options.dtype))
      return Error{
          ErrorKind::Usage,
          fmt::format("--dtype {}: this is no floating-point dtype; try float16, bfloat16 or float32", common.dtype),
          {}};
  }
  const std::string& d = common.device;
  if (d != "cpu" && d != "cuda" && !d.starts_with("cuda:"))
    return Error{ErrorKind::Usage, fmt::format("--device {}: use cpu, cuda or cuda:N", d), {}};
  return options;
}

Result<workbench::InputRequest> inputRequest(const Common& common) {
  auto options = runOptions(common);
  if (!options) return options.error();
  return workbench::InputRequest{common.inputs, common.specs, common.seed, options->device, options->dtype};
}

void addFormatOption(CLI::App& command, std::string& format) {
  command.add_option("--format", format, "text, or github: annotations that GitHub shows in a pull request")
      ->check(CLI::IsMember({"text", "github"}))
      ->capture_default_str();
}

void addFusionOption(CLI::App& command, std::string& file) {
  command
      .add_option("--fusion", file,
                  "Generate the kernels that this file wants: groups to merge and to keep apart, as graft code "
                  "--write-fusion writes them")
      ->type_name("FILE.json");
  addTrustOption(command);
}

void addMethodOption(CLI::App& command, Common& common) {
  command
      .add_option("--method", common.method,
                  "Which method of a TorchScript module, which graph of an FX file, or which program of an archive of "
                  "torch.export; without it forward")
      ->type_name("NAME");
}

std::string methodOf(const Common& common) { return common.method.empty() ? "forward" : common.method; }

Result<Model> openModel(const std::string& path, const Common& common, const Job& job) {
  auto options = runOptions(common);
  if (!options) return options.error();
  return workbench::open({path, methodOf(common), options->dtype}, semantics(), job);
}

void noteRandomInputs(const std::vector<std::string>& random, const Console& console) {
  if (!random.empty())
    console.note(
        fmt::format("No inputs were given, so the model runs on random ones: {}. Give others with --inputs or "
                    "--input.",
                    fmt::join(random, " ")));
}

void noteMoved(const MovedAlong& moved, const std::string& device, const Console& console) {
  if (moved.names + moved.constants > 0)
    console.note(fmt::format("{} and {} that the file has on another device moved along to {}.",
                             counted(moved.names, "device name"), counted(moved.constants, "constant"), device));
  if (!moved.stays.empty())
    console.note(fmt::format("{} on the host, because the model reads or returns {} there: {}.",
                             moved.stays.size() == 1 ? "This copy stays" : "These copies stay",
                             moved.stays.size() == 1 ? "it" : "them", fmt::join(moved.stays, ", ")));
}

Result<TensorSet> modelInputs(const Graph& graph, const Common& common, const Console& console) {
  auto request = inputRequest(common);
  if (!request) return request.error();
  auto inputs = workbench::inputsFor(graph, *request);
  if (!inputs) return inputs.error();
  noteRandomInputs(inputs->random, console);
  return std::move(inputs->tensors);
}

Status recordGivenTypes(Model& model, const Common& common, const Console& console) {
  if (common.inputs.empty() && common.specs.empty()) return done();
  auto inputs = modelInputs(model.graph, common, console);
  if (!inputs) return inputs.error();
  const size_t noted = model.notes.size();
  const Status recorded = workbench::recordTypes(model, *inputs, semantics().operators());
  for (size_t i = noted; i < model.notes.size(); ++i) console.note(model.notes[i]);
  return recorded;
}

namespace {

std::vector<std::string>& givenLibraries() {
  static std::vector<std::string> paths;
  return paths;
}

}  // namespace

void addLibraryOption(CLI::App& command) {
  command
      .add_option("--library", givenLibraries(),
                  "Load a library of your own operators first: a shared library, or a Python module that defines them; "
                  "give it once for each")
      ->type_name("LIB.so|MODULE.py")
      ->allow_extra_args(false);
}

Status loadGivenLibraries() {
  if (givenLibraries().empty()) return done();
  semantics();  // Graft's own operators come first
  for (const std::string& path : givenLibraries())
    if (auto loaded = loadUserLibrary(path); !loaded) return loaded.error();
  return done();
}

void noteMissing(const std::string& model, const std::vector<MissingOperator>& missing, const std::string& what,
                 const Console& console) {
  if (missing.empty()) return;
  std::vector<std::string> names;
  for (const MissingOperator& m : missing) names.push_back(m.name);
  console.warn(fmt::format("{}: {}. {}", model, missingOperatorsText(names), what));
}

const Semantics& semantics() {
  static const std::unique_ptr<Semantics> one = [] {
    if (Status s = loadOperatorLibrary(); !s) fmt::print(stderr, "graft: {}\n", s.error().format());
    return makeTorchSemantics();
  }();
  return *one;
}

int exitCode(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Internal:
      return 1;
    case ErrorKind::Usage:
      return 2;
    case ErrorKind::BadInput:
      return 3;
    case ErrorKind::Expectation:
      return 4;
    case ErrorKind::Verification:
      return 5;
    case ErrorKind::NoDevice:
      return 6;
    case ErrorKind::Cancelled:
      return 130;
  }
  return 1;
}

ErrorKind kindOfExitCode(int code) {
  for (const ErrorKind kind : {ErrorKind::Internal, ErrorKind::Usage, ErrorKind::BadInput, ErrorKind::Expectation,
                               ErrorKind::Verification, ErrorKind::NoDevice, ErrorKind::Cancelled})
    if (exitCode(kind) == code) return kind;
  return ErrorKind::BadInput;
}

int exitCode(const Ending& ending) {
  constexpr int unchanged = 7;
  if (!ending.status) return exitCode(ending.status.error().kind);
  return ending.isUnchanged ? unchanged : 0;
}

}  // namespace graft::cli
