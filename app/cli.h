// What every command shares: common options, where output goes, and how results become exit codes.
//
//   Status runInfo(const InfoOptions& options, Console& console);
//
// Results go to stdout, progress and diagnostics to stderr. With --json stdout is one JSON document.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/formats/model.h"
#include "core/ir/semantics.h"
#include "core/torch/executor.h"
#include "core/torch/tensors.h"

namespace graft::cli {

/// Options that most commands take.
struct Common {
  bool json = false;
  bool quiet = false;
  std::string inputs;              ///< --inputs FILE
  std::vector<std::string> specs;  ///< --input "f16[1,128]:randn"
  uint64_t seed = 0;
  std::string device = "cpu";
  std::string dtype;
  /// Whether the command line says what to run on; without, inputs are made up from the model's own input types.
  bool givesInputs() const { return !inputs.empty() || !specs.empty(); }
};

class Console {
 public:
  explicit Console(const Common& common);
  /// To stdout, unless --json was given.
  void print(const std::string& text) const;
  /// To stderr, unless --quiet was given.
  void note(const std::string& text) const;
  /// To stderr, always.
  void warn(const std::string& text) const;
  /// The one document of --json.
  void document(const nlohmann::json& doc) const;
  /// Reports progress on a terminal's stderr, in place; is cancelled by Ctrl-C.
  Job job() const;
  bool json() const { return common_.json; }
  bool colour() const { return colour_; }
  std::string bold(const std::string& s) const { return colour_ ? "\033[1m" + s + "\033[0m" : s; }
  std::string dim(const std::string& s) const { return colour_ ? "\033[2m" + s + "\033[0m" : s; }
  std::string good(const std::string& s) const { return colour_ ? "\033[32m" + s + "\033[0m" : s; }
  std::string bad(const std::string& s) const { return colour_ ? "\033[31m" + s + "\033[0m" : s; }

 private:
  const Common& common_;
  bool colour_, progress_;
  CancelToken cancel_;
};

/// Columns padded to the widest cell, two spaces apart; the first row is underlined as a heading.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// The exit code of the error's kind, as `graft --help` lists them.
int exitCode(ErrorKind);

/// LibTorch's semantics with Graft's operators loaded, made once.
const Semantics& semantics();

/// The model in a file, brought to --dtype where that is given: weights, inputs, and what its operators say of dtypes.
Result<Model> openModel(const std::string& path, const Common&, const ImportOptions& = {}, const Job& = {});

/// --device and --dtype as programs take them. Usage where they name no device and no floating-point dtype.
Result<RunOptions> runOptions(const Common&);

/// The command's inputs: --inputs, or --input specifications, or random ones of the model's own input types, which is
/// said; on --device, in --dtype.
Result<TensorSet> commandInputs(const Graph&, const Common&);

/// What becomes of the sizes that a file declares to differ from call to call, once inputs are there.
enum class OpenSizes { Stay, FixedByInputs };
/// The command's inputs, after one run on them that wrote the types it saw into the model's graph: formats that carry
/// no types leave conditions on dtypes and shapes open otherwise. Errors: those of commandInputs, and of the run, where
/// the model does not take the inputs or this machine lacks an operator.
Result<TensorSet> typedInputs(Model&, const Common&, OpenSizes = OpenSizes::Stay);

/// Adds the shared options to a command.
void addCommon(CLI::App& command, Common& common, bool takesInputs);

/// Each command adds itself to the application and sets `run` when it is the one that was asked for.
using Run = std::function<Status()>;
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
void addConvert(CLI::App&, Run&);
void addCompare(CLI::App&, Run&);
void addBench(CLI::App&, Run&);
void addProfile(CLI::App&, Run&);
void addKernels(CLI::App&, Run&);
void addEngine(CLI::App&, Run&);

}  // namespace graft::cli
