// Group trials: each generated kernel of a model beside the operators that it replaces, on the values that the model
// has there. Those that are slower become operators again.
//
//   KnownGroups known;                     // of graphs of one model
//   auto tried = tryGroups(graph, inputs, options, 10.0, known, semantics, job);
//   tried->front().why                     // "slower in place: 12.1 µs beside 9.8 µs"
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/workbench/optimize/optimize.h"
#include "core/torch/executor.h"

namespace graft::workbench {

/// What was timed, by program without its names and the types of its inputs.
using KnownGroups = std::map<std::string, TriedGroup>;

/// A row for each call of graft::generated, in order, and the graph with those that are kept. Kernels whose programs
/// differ in names alone are timed once for inputs of equal types, and those that are known not again. Takes about
/// `seconds`, however many there are; what is left untried then stays. Errors are for a model that does not run, and
/// for being cancelled.
Result<std::vector<TriedGroup>> tryGroups(Graph&, const TensorSet& inputs, const RunOptions&, double seconds,
                                          KnownGroups&, const Semantics&, const Job&);

/// These calls of graft::generated become the operators that they stand for.
Status restoreOperators(Graph&, const std::vector<std::string>& calls, const Semantics&);

}  // namespace graft::workbench
