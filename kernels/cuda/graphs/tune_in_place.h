#pragma once
// Second stage of GEMM tuning: chooses among algorithms with similar times inside the captured model. Which one is
// fastest there depends on the neighbouring kernels, whose blocks start on the resources that it leaves free.
//
//   std::vector<TuningProblem> problems;
//   { const RecordedProblems recording(&problems); body(); }      // gemm_choices.h: the GEMMs of a run
//   tuneInPlace(problems, pool, body);
#include <vector>

#include "kernels/cuda/graphs/captured_graph.h"
#include "kernels/cuda/tuning/tuning_budget.h"

namespace graft::cuda {

/// Tries one problem at a time, those that take most of the run first, and captures the whole model with each
/// candidate. While a round changes a choice and a second has not passed, another round begins with the first problem,
/// because the best choice depends on the neighbours' choices. What was learnt is kept when a capture fails, the budget
/// is spent, or the process is interrupted.
void tuneInPlace(std::vector<TuningProblem> problems, Pool& pool, const Body& body);

}  // namespace graft::cuda
