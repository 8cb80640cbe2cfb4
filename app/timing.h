// How fast the rewritten model is against what people run today: for a TorchScript file TorchScript itself, frozen; for
// other formats the original graph in Graft's own executor.
#pragma once

#include "app/cli.h"
#include "core/formats/model.h"
#include "core/torch/bench.h"

namespace graft::cli {

struct AgainstOriginal {
  PairedTiming times;
  std::string original;  ///< what the first side is, in words
};
Result<AgainstOriginal> timeAgainstOriginal(const Model& original, const Graph& rewritten, const TensorSet& inputs,
                                            const RunOptions&, double seconds, const Job&);

}  // namespace graft::cli
