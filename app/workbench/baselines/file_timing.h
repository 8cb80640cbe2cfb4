// File timing: a written model file beside the original, each as PyTorch runs it. What Graft's own executor does with
// the rewritten graph says little about the file that a user loads.
//
//   auto t = workbench::timeWrittenFile({model, model.graph, rewritten, "fast.pt", inputs, {}, 3.0}, job);
//   speedText(t->times.ratio, ratioRange(…))              // of the file that was written
#pragma once

#include <string>

#include "core/formats/model.h"
#include "core/torch/bench.h"

namespace graft::workbench {

struct AgainstOriginal {
  PairedTiming times;     ///< a: the original, b: the rewritten model
  std::string original;   ///< what the original ran as, in words: "original (frozen TorchScript)"
  std::string rewritten;  ///< what the rewritten model ran as: "written file (TorchScript)"
  std::string notTimed;   ///< why the written file itself was not timed, and its graph was instead; "": it was
};

struct NamedRun;

struct FileTimingRequest {
  const Model& original;       ///< its file
  const Graph& originalGraph;  ///< what was read from it, in the dtype of the run
  const Graph& rewritten;      ///< what the written file holds
  std::string written;         ///< *.pt: TorchScript; *.pt2: torch.export, which needs a Python with PyTorch
  const TensorSet& inputs;
  RunOptions options;
  double seconds = 3;
  const NamedRun* originalRun = nullptr;  ///< runOfOriginal of the same, where there is one already
  /// Three pairs are timed where the usual five would take longer than this; 0: five always.
  double mostSeconds = 0;
};

/// The original as PyTorch runs it, and what it is, in words. On the CPU frozen TorchScript: its own file where PyTorch
/// runs that, or what Graft read from it written as TorchScript. On a GPU a captured graph. Keeps a reference to the
/// inputs.
struct NamedRun {
  Runnable run;
  std::string name;
};
Result<NamedRun> runOfOriginal(const Model&, const Graph& inDType, const TensorSet& inputs, const RunOptions&,
                               const Job& = {});

/// The written file as torch.jit.load or torch.export.load gives it. On the CPU the original runs as frozen
/// TorchScript, which is what PyTorch itself makes of it, also where its file is in another format. On a GPU it is
/// captured.
Result<AgainstOriginal> timeWrittenFile(const FileTimingRequest&, const Job& = {});

}  // namespace graft::workbench
