// Loops for lowered tensors: which nests there are, what runs over their outer ranges, and which tensors get a buffer.
//
// Private to core/compile/lower.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/compile/lower/lowering.h"

namespace graft::lower {

struct ScheduledResult {
  TensorId tensor;
  std::string name;
  std::vector<int64_t> strides = {};  ///< as the call makes it; empty: not known
};

/// Adds the nests that compute the tensors, and an output buffer for each, in this order.
void schedule(Lowering&, const std::vector<ScheduledResult>& results);

/// Nests of the same few iterations that store single elements become one, which is a kernel less to wait for and reads
/// what both read once: on a GPU also where the later one reads what the same iteration of the earlier one stores, and
/// where other nests stand between them whose results it does not read.
void joinStatistics(Lowering&);

/// On a GPU, elements are stored by the nest that reduces them, rather than by a later one of their own, where less
/// memory is read then.
void moveStores(Lowering&);

/// On a GPU, nests that store results made of the same elements, over loops of their own, become one.
void joinElements(Lowering&);

/// Rows and columns that nests reduce of the same tensors, each in nests of its own.
std::set<RowsAndColumns> rowsBesideColumns(const Lowering&);

/// The program with what its outputs need, alone: inputs and sizes as they are, everything else numbered anew.
loops::Program tidied(const loops::Program&);

}  // namespace graft::lower
