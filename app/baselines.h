// PyTorch's own ways of running a model beside the rewritten one: each in a Python process of its own
// (resources/python/graft_baselines.py), asked in turns, so that drift hits all.
//
//   auto result = timeAgainstPeers(rewritten, inputs, options, {.ways = {"eager", "compile"}, .model = "bert.pt"}, 3.0,
//                                  job);
//   console.print(peersTable(*result));
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/bench.h"

namespace graft::cli {

struct PeerRequest {
  std::vector<std::string> ways;  ///< of peerWays()
  std::string model;              ///< the original's file
  const Graph* original;          ///< what was read from it
  std::string python;             ///< what findPython found
};
struct PeerTiming {
  std::string way, what;
  std::string error;        ///< why this way does not run the model; nothing below is filled then
  Timing times;             ///< on a GPU by events around the call, on the CPU by the clock
  Timing host;              ///< by the clock, from the call until the device is done; on the CPU the same as `times`
  double ratio = 0;         ///< its time / the rewritten model's, median of turns
  double readySeconds = 0;  ///< loading, compiling, first runs
  size_t peakBytes = 0;     ///< most GPU memory that its PyTorch held
};
struct PeerComparison {
  Timing rewritten, rewrittenHost;  ///< as PeerTiming's
  bool byEvents = false;            ///< `times` are a GPU's, and `host` says something else
  std::string how;                  ///< how the rewritten model ran
  double readySeconds = 0;
  std::vector<PeerTiming> peers;
  std::string protocol;
};

const std::vector<std::string>& peerWays();
/// "eager,jit" as ways; the error lists them where one is none.
Result<std::vector<std::string>> parseWays(const std::string& list);

/// The Python to ask: the one named, else $GRAFT_PYTHON, the build's own or python3, whichever has torch. Worth a call
/// before anything is timed.
Result<std::string> findPython(const std::string& named, const Job&);

/// A way that does not work is part of the result.
Result<PeerComparison> timeAgainstPeers(const Graph& rewritten, const TensorSet& inputs, const RunOptions&,
                                        const PeerRequest&, double seconds, const Job&);
/// A row for each way; on a GPU with the host's time beside the GPU's.
std::string peersTable(const PeerComparison&);
/// {"rewritten": {side, "host": side, "how", "ready_s"}, "protocol", "peers": [{"way", side, "host": side, "what",
/// "ratio", "ready_s", "peak_bytes"} or {"way", "error"}]}, where a side is sideJson's (app/timing_text.h) fields.
nlohmann::json peersJson(const PeerComparison&);

}  // namespace graft::cli
