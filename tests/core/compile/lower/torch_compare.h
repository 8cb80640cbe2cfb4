// Runs a group of operators twice, as LibTorch computes it and as the interpreter runs its loops, and compares.
//
//   const std::string wrong = compareWithTorch(graph, inputs, {{"s0", 3}});    // empty: they agree
//
// Where the environment has GRAFT_TEST_COMPILED, the loops run as machine code, too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/compile/lower/lower.h"
#include "core/ir/graph.h"
#include "core/ir/semantics.h"
#include "core/torch/tensors.h"

namespace graft::test {

/// LibTorch's, made once.
const Semantics& semantics();

/// A random tensor: dtype, sizes, and between what its numbers lie. `special`: NaN, infinities and zeros among them.
struct Random {
  DType dtype = DType::Float32;
  std::vector<int64_t> sizes;
  std::optional<double> least, greatest;
  bool special = false;
  bool strided = false;  ///< in memory in another order than its dimensions
  bool image = false;    ///< likewise: the second dimension's neighbours side by side, of four dimensions and more
};
TensorSet randomInputs(const std::vector<Random>&, uint64_t seed);

/// What f64 gives on the CPU; nothing where the graph cannot run in it.
std::optional<TensorSet> referenceOf(const Graph&, const TensorSet& inputs);
/// LibTorch has no meta kernels for a few operators: a run says what types they give.
Status completeTypes(Graph&, const TensorSet& inputs);

/// A CPU that takes small rows and columns apart, and a GPU that does
inline constexpr lower::Machine kCpuOfSmall{.rowElements = 2};
inline constexpr lower::Machine kGpuOfSmall{.rowElements = 128,
                                            .channelsTogether = 8,
                                            .columns = {.least = 2, .partLength = 2, .elements = 0},
                                            .statistics = {.fewRows = 64, .elements = 16},
                                            .isGpu = true};
/// What differs, with the program; empty where both agree. The graph's types are known; `sizes` says what its symbols
/// are for these inputs. Floating results may be as far from what f64 gives as LibTorch's are, times a few.
std::string compareWithTorch(const Graph&, const TensorSet& inputs, const std::map<std::string, int64_t>& sizes);

/// What a graph of fixed sizes gives by each way to run its loops, and last by LibTorch.
struct LoweredRun {
  std::string by;
  TensorSet outputs;
};
Result<std::vector<LoweredRun>> runLowered(const Graph&, const TensorSet& inputs);

}  // namespace graft::test
