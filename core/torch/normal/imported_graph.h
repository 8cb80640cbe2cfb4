// What every importer does to the graph that it has read: bring it into the normal form, and fill in what the file does
// not say. Includes no LibTorch, but is for core/torch and core/formats alone.
//
//   if (Status s = normalizeImported(graph, operators); !s) return s.error();
//   inferConstructors(graph);
//   inferMissingTypes(graph);
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

/// Fills in constructor values of torch.nn modules from their weights' shapes and their nodes' arguments.
void inferConstructors(Graph&);

/// The number that a constant without dimensions holds.
std::optional<Argument> numberOfConstant(const Graph&, const Argument&);

/// Fills in what the types of the inputs and weights say about values whose types the file does not give.
void inferMissingTypes(Graph&);
/// The same where all that is known of the inputs is one recorded run. Its dtypes and ranks are facts, its sizes are
/// not: each dimension of an input becomes a symbol, which stands for any size from 2 up, as in torch.export. Where an
/// operator refuses that, symbols whose sizes were equal become one; where it still does, they become the size itself:
/// the code runs with nothing else. What then is not known beforehand has its dtype and rank from the recorded run.
void inferFromExamples(Graph&, const std::vector<Type>& examples);

/// What became of writes in place that normal form turned into functions: `target` was written to, `written` was the
/// write's own result, and whatever read either of them afterwards reads `result`.
struct Functionalised {
  struct Write {
    ValueId target, written, result;
  };
  std::unordered_set<ValueId> keepName;  ///< of these writes the function's result takes the name
  std::vector<Write> writes;             ///< in the graph's order
};

/// Brings a freshly imported graph into the normal form of core/ir/normal_form.h. Linear in the graph's size.
/// `functionalised`, where given, is filled in.
Status normalizeImported(Graph&, const OperatorSet&, Functionalised* functionalised = nullptr);

/// The steps that ask for types, again: for files without types, after these have been inferred.
void normalizeTyped(Graph&, const OperatorSet&);

/// What scripted code asked of its values' ranks and dtypes and has an answer to.
struct SettledBranches {
  size_t branches = 0;  ///< one of the two is left
  size_t loops = 0;     ///< written out
  size_t checks = 0;    ///< of PyTorch's own modules, which raise an error otherwise; left out
};
/// The steps that ask for types, once a run on the user's inputs has recorded them. The graph then is for inputs of
/// these ranks and dtypes, as a traced or exported one is.
SettledBranches normalizeRecorded(Graph&, const OperatorSet&);

}  // namespace graft
