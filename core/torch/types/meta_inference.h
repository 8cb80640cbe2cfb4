// Types by running operators on meta tensors, which have shapes and no data. Symbolic dimensions are other numbers in
// each of several runs; what a result's dimension makes of them says which expression it is (size_names.h).
//
//   MetaInference meta(graph);
//   Result<std::vector<Type>> types = meta.run(node);
//
// Includes LibTorch: for core/torch alone.
#pragma once

#include <ATen/core/ivalue.h>

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/result.h"
#include "core/ir/calls/written_sources.h"
#include "core/ir/graph.h"
#include "core/ir/size_expression.h"
#include "core/torch/types/meta_memo.h"
#include "core/torch/types/size_names.h"

namespace graft {

class MetaInference {
 public:
  explicit MetaInference(const Graph& g) : g_(g) {}

  /// Sizes that are no expression of the symbols get names of their own. For whoever asks for all nodes of the graph in
  /// order: another MetaInference would give the same names to other sizes.
  void nameUnknownSizes();
  /// Equal calls run once, unless the graph writes in place. For whoever asks for all nodes, as above.
  void rememberCalls();
  /// Which numbers stand for symbols. Before anything is run.
  void use(SizeNames::Scale s, std::map<std::string, int64_t, std::less<>> examples = {}) {
    names_.use(s, std::move(examples));
  }
  /// The types of the node's outputs; Type::tensor() without details where they cannot be known beforehand. An error
  /// says why the operator refuses its arguments. What was found is remembered for the nodes that follow.
  Result<std::vector<Type>> run(NodeId);
  /// Whether the node that ran last refused what symbols stand for (other sizes may do).
  bool refused() const { return refused_; }
  /// Whether the node that ran last gave results, for every symbol's stand-ins.
  bool known() const { return known_; }

 private:
  static constexpr size_t runs = SizeNames::runs;
  using Runs = MetaMemo::Runs;
  enum class Outcome { Known, Unknown, Refused };

  /// What the values in the node's arguments are, into `arguments_`; false where some are not known, or calls are not
  /// remembered.
  bool gatherArguments(const Node&);
  const c10::IValue* lookup(ValueId, size_t run, int depth);
  Outcome runOnce(const Node&, size_t run, int depth, std::vector<c10::IValue>& results, std::string& why);
  /// Nothing where a symbol has no number.
  std::optional<int64_t> sizeIn(const SizeExpression&, size_t run);
  /// What is computed of the size is told by `text`, its expression: runs would not find (s0 - 1)//2 + 1 again.
  void declareSize(const SizeExpression&, const std::string& text);
  std::optional<c10::IValue> make(const Type&, size_t run);
  /// The results of all runs from those of the first, where no symbol can have had a part in them.
  bool isSameInAllRuns(const Node&, const std::vector<c10::IValue>& results) const;
  /// False where sizes that differ from run to run all leave one and the same: the symbols' stand-ins are too small.
  bool declareWindows(const Node&);
  Type typeOf(const Runs&, const std::string& device);
  std::string deviceOf(const Node&) const;
  /// Whether a number does not stay what it is. The first call goes over the whole graph.
  bool isWritten(ValueId);

  const Graph& g_;
  std::optional<std::unordered_set<ValueId>> written_;  ///< what writtenSources() says, once it is asked for
  SizeNames names_;
  std::unordered_map<ValueId, Runs> values_;
  MetaMemo memo_;
  bool remembers_ = false;
  std::vector<const Runs*> arguments_;                    // of the node that runs
  std::array<std::unordered_set<ValueId>, runs> absent_;  // asked for in that run, and not to be known
  bool refused_ = false, known_ = false;
};

}  // namespace graft
