// Compare: two models side by side on the same inputs: their outputs, what corresponds inside, their times.
//
//   Result<Comparison> c = workbench::compare(a, b, inputs, {.seconds = 3, .layers = true}, {}, job);
//   c->outputs[0].maxAbs, c->timing.ratio
//
// A model and its rewritten self, with times of each node and memory as well, are measure()'s.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/workbench/history.h"
#include "app/workbench/open.h"
#include "core/torch/bench.h"
#include "core/torch/memory.h"
#include "core/torch/verification.h"

namespace graft::workbench {

struct CompareRequest {
  RunOptions options;
  double seconds = 3;   ///< how long to time both
  bool layers = false;  ///< compare what is computed inside, too
};
struct Comparison {
  std::string a, b;  ///< the models' files
  size_t nodesA = 0, nodesB = 0;
  std::vector<Difference> outputs;   ///< of B to A
  std::optional<Overflow> overflow;  ///< of A
  std::optional<std::vector<LayerDifference>> layers;
  PairedTiming timing;
  std::optional<Error> failure;  ///< why they are not the same
};
enum class CompareStage { Outputs, Layers, Timed };
using OnCompareStage = std::function<void(CompareStage, const Comparison&)>;
Result<Comparison> compare(const Model& a, const Model& b, const TensorSet& inputs, const CompareRequest&,
                           const OnCompareStage& = {}, const Job& = {});

/// A program and whose it is: errors of its runs begin with that.
struct NamedProgram {
  std::string name;
  Program program;
  static Result<NamedProgram> build(const std::string& name, const Graph&, const RunOptions&);
};
/// What two programs compute on the inputs. The judge computes `original` in double precision, so that neither side's
/// rounding is the measure of the other.
Result<std::vector<Difference>> differencesOf(const Graph& original, const NamedProgram& a, const NamedProgram& b,
                                              const TensorSet& inputs, const RunOptions&, const Job&);
bool allPassed(const std::vector<Difference>&);
/// "output 0: …" of the first that did not pass; "" where all did.
std::string firstFailure(const std::vector<Difference>&);

struct MeasureRequest {
  RunOptions options;
  double seconds = 2;
  bool layers = true;
  /// A TorchScript file that the rewritten model is timed against, frozen; "": the original runs in Graft's executor.
  std::string frozen;
};
/// One side of a measurement.
struct MeasuredSide {
  std::map<std::string, double> nodeMicroseconds;  ///< of each node the median; of nodes in loops all rounds together
  std::map<std::string, size_t> calls;             ///< by operator, in one run
  MemoryUse memory;
};
/// A value of both graphs, by the nodes that compute it.
struct LayerRow {
  std::string original, rewritten;
  Difference difference;
};
struct Measurement {
  Verification verification;
  std::vector<LayerRow> layers;
  PairedTiming timing;  ///< a: the original
  MeasuredSide original, rewritten;
};

/// Values of the shown graph that stand for values of the original one, by the records of its rewrites.
struct Correspondence {
  std::vector<std::pair<std::string, std::string>> renamed;  ///< original, shown
  /// Nodes that rewrites added: one may bear the name of a node that went, and is another node.
  std::vector<std::string> added;
};
Correspondence correspondenceOf(const History&);

/// Two graphs on the same inputs. With `correspondence`, both are of the history that it was made of; without it,
/// values correspond that hold the same numbers.
Result<Measurement> measure(const Graph& original, const Graph& rewritten, const Correspondence* correspondence,
                            const TensorSet& inputs, const MeasureRequest&, const Job& = {});

}  // namespace graft::workbench
