// Options that most commands share, as requests for the workbench; and how each command joins the program.
//
//   struct Options : Common { std::string model; };
//   void addInfo(CLI::App& app, Run& run) {
//     auto* c = app.add_subcommand("info", "What the file is");
//     auto o = std::make_shared<Options>();
//     c->add_option("model", o->model, "The model")->required();
//     addCommon(*c, *o, false);
//     c->callback([&run, o] { run = [o] { return info(*o); }; });
//   }
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "app/console/console.h"
#include "app/workbench/open.h"
#include "core/base/result.h"
#include "core/ir/semantics.h"
#include "core/torch/operator_library.h"

namespace graft::cli {

struct Common {
  Console::Options printing;
  std::string method;              ///< --method; "": forward
  std::string inputs;              ///< --inputs FILE
  std::vector<std::string> specs;  ///< --input "f16[1,128]:randn"
  uint64_t seed = 0;
  std::string device = "cpu";
  std::string dtype;
};
/// Adds the shared options to a command; those of what a model runs on only where it runs.
void addCommon(CLI::App& command, Common& common, bool takesInputs);

/// --method, for commands that read a model.
void addMethodOption(CLI::App& command, Common& common);
/// --method, or "forward" where it is not given.
std::string methodOf(const Common&);

/// --device and --dtype. Usage where they name no device and no floating-point dtype.
Result<RunOptions> runOptions(const Common&);
/// --inputs, --input, --seed, --device and --dtype. Errors: those of runOptions.
Result<workbench::InputRequest> inputRequest(const Common&);
/// The model in a file, brought to --dtype where that is given. Errors: those of runOptions, too.
Result<Model> openModel(const std::string& path, const Common&, const Job&);
/// What the model runs on; says so where random inputs are made up.
Result<TensorSet> modelInputs(const Graph&, const Common&, const Console&);
/// Says what was made up where no inputs were given: Inputs::random.
void noteRandomInputs(const std::vector<std::string>& random, const Console&);
/// Says what came along to another device than the file names, and what stays on the host.
void noteMoved(const MovedAlong&, const std::string& device, const Console&);
/// Where --inputs or --input are given, one run on them records types in the model: formats that carry none leave
/// conditions on dtypes and shapes open.
Status recordGivenTypes(Model&, const Common&, const Console&);

/// --library, which a command may be given several times. The operators of a library are the process's, so all commands
/// share what it collects.
void addLibraryOption(CLI::App& command);
/// Loads what --library named, before the command runs: files may call these operators, and rules name them.
Status loadGivenLibraries();
/// --format text|github, for commands that say what is wrong with files.
void addFormatOption(CLI::App& command, std::string& format);
/// --fusion, for commands that generate kernels.
void addFusionOption(CLI::App& command, std::string& file);
/// Says that the model calls operators that this machine does not have, and what the command does about it.
void noteMissing(const std::string& model, const std::vector<MissingOperator>&, const std::string& what,
                 const Console&);

/// LibTorch's semantics with Graft's operators loaded, made once.
const Semantics& semantics();

/// The exit code of the error's kind, as `graft --help` lists them.
int exitCode(ErrorKind);
/// The kind of error that a process of this program ended with; BadInput for a code that is none of ours.
ErrorKind kindOfExitCode(int code);

/// How a command ended: with an error; or done, which for a model in which there was nothing to do has an exit code of
/// its own.
struct Ending {
  Ending(Status s) : status(std::move(s)) {}
  Ending(Error e) : status(std::move(e)) {}
  static Ending unchanged() { return Ending(done(), true); }
  Status status;
  bool isUnchanged = false;

 private:
  Ending(Status s, bool nothingToDo) : status(std::move(s)), isUnchanged(nothingToDo) {}
};
/// 0, 7 where there was nothing to do, or the code of the error's kind.
int exitCode(const Ending&);

/// Each command adds itself to the application and sets `run` when it is the one that was asked for.
using Run = std::function<Ending()>;
void addInfo(CLI::App&, Run&);
void addReport(CLI::App&, Run&);
void addCode(CLI::App&, Run&);
void addText(CLI::App&, Run&);
void addModules(CLI::App&, Run&);
void addDraw(CLI::App&, Run&);
void addRun(CLI::App&, Run&);
void addMatch(CLI::App&, Run&);
void addExplain(CLI::App&, Run&);
void addApply(CLI::App&, Run&);
void addOptimize(CLI::App&, Run&);
void addConvert(CLI::App&, Run&);
void addCompare(CLI::App&, Run&);
void addBatch(CLI::App&, Run&);
void addBench(CLI::App&, Run&);
void addPartition(CLI::App&, Run&);
void addProfile(CLI::App&, Run&);
void addKernels(CLI::App&, Run&);
void addEngine(CLI::App&, Run&);
void addCheck(CLI::App&, Run&);
void addTest(CLI::App&, Run&);
void addGui(CLI::App&, Run&);
void addCompletion(CLI::App&, Run&);
void addMan(CLI::App&, Run&);

}  // namespace graft::cli
