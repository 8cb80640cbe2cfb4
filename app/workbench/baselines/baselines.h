// Baselines: PyTorch's own modes of running a model beside the rewritten one. Each mode runs in a Python process of its
// own (resources/python/graft_baselines.py). All are asked in turns, so that drift of the machine hits all.
//
//   auto python = workbench::findPython("", job);
//   auto result = timeAgainstBaselines(rewritten, inputs, options,
//                                      {{"eager", "compile"}, "bert.pt", &original, *python}, 3.0, job);
//   result->baselines[0].ratio                            // above 1: the rewritten model is faster
#pragma once

#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/bench.h"

namespace graft::workbench {

struct BaselineRequest {
  std::vector<std::string> modes;  ///< of baselineModes()
  std::string model;               ///< the original's file
  const Graph* original;           ///< what was read from it
  std::string python;              ///< what findPython found
};
struct BaselineTiming {
  std::string mode;
  std::string description;  ///< "TorchScript, frozen"
  std::string error;        ///< why this mode does not run the model; nothing below is filled then
  Timing times;             ///< on a GPU by events around the call, on the CPU by the clock
  Timing host;              ///< by the clock, from the call until the device is done; on the CPU the same as `times`
  double ratio = 0;         ///< its time / the rewritten model's, median of turns
  double readySeconds = 0;  ///< loading, compiling, first runs
  size_t peakBytes = 0;     ///< most GPU memory that its PyTorch held
};
struct BaselineComparison {
  Timing rewritten, rewrittenHost;  ///< as BaselineTiming's
  bool byEvents = false;            ///< `times` are a GPU's, and `host` says something else
  std::string how;                  ///< how the rewritten model ran
  double readySeconds = 0;
  std::vector<BaselineTiming> baselines;
  std::string protocol;  ///< how it was measured, in words
};

/// "eager", "jit", "compile", "compile-max-autotune", "exported" (the rewritten model, in Python).
const std::vector<std::string>& baselineModes();
/// "eager,jit" as modes. Usage, with a list of them, where one is none.
Result<std::vector<std::string>> parseBaselines(const std::string& list,
                                                const std::vector<std::string>& modes = baselineModes());

/// The Python to ask: the one named, else $GRAFT_PYTHON, the build's own or python3, whichever has torch. Worth a call
/// before anything is timed.
Result<std::string> findPython(const std::string& named, const Job&);

/// A model file and the mode of baselineModes() that runs it.
struct PythonFile {
  std::string mode, path;
};
/// Two files in turns, each in a Python process of its own, in the dtype that the files have. An error where one of the
/// two does not run.
Result<PairedTiming> timeInPython(const PythonFile& a, const PythonFile& b, const TensorSet& inputs, const RunOptions&,
                                  const std::string& python, double seconds, const Job&);

/// Steps of training, each mode in a Python process of its own: the loss, its gradients, AdamW. The loss is what the
/// model returns, where that is one number, and the mean of its outputs' squares otherwise.
struct TrainingRequest {
  std::vector<std::string> modes;  ///< of trainingModes()
  std::string model;               ///< a file that PyTorch reads: TorchScript or torch.export
  std::string python;              ///< what findPython found
  std::string graft;               ///< this program, for the mode "graft"
  std::string package;             ///< likewise: the folder of graft_fx, where Python does not know it
  std::string rules, recipe;       ///< for that mode; "": none
  std::string memory = "100%";     ///< likewise
  std::string autocast;            ///< "bfloat16"; "": none
};
struct TrainingTiming {
  BaselineTiming step;         ///< peakBytes: of a step, beside what is there before it, on the CPU too
  std::vector<double> losses;  ///< of the first steps, which all modes begin alike
};
struct TrainingComparison {
  std::vector<TrainingTiming> modes;  ///< ratio: its time / that of the mode "graft", where that runs
  std::string protocol;
};
/// "eager", "compile", "compile-max-autotune", "graft".
const std::vector<std::string>& trainingModes();
/// A mode that does not work is part of the result.
Result<TrainingComparison> timeTraining(const TensorSet& inputs, const RunOptions&, const TrainingRequest&,
                                        double seconds, const Job&);

/// A mode that does not work is part of the result.
Result<BaselineComparison> timeAgainstBaselines(const Graph& rewritten, const TensorSet& inputs, const RunOptions&,
                                                const BaselineRequest&, double seconds, const Job&);

}  // namespace graft::workbench
