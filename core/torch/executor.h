// Executor: runs a graph operator by operator over LibTorch's boxed calls. A Program is planned once and runs many
// times. The plan resolves operators, assigns slots, and frees tensors after their last use. A Program keeps the
// weights it needs alive.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/torch/tensors.h"

namespace graft {

/// What becomes of operators that this machine does not have.
enum class Missing : uint8_t {
  Refused,  ///< the program is not built
  LeftOut,  ///< neither they nor what follows from their outputs is computed
  /// Their outputs are made up where the graph says dtype and sizes: random numbers, the same for a node of that name
  /// in every program. So two graphs that both call them can be compared in the parts between. What they read is
  /// returned behind the graph's own outputs.
  MadeUp,
};

struct RunOptions {
  std::string device = "cpu";
  std::optional<DType> dtype;  ///< floating weights are cast to it
  int threads = 0;             ///< 0: LibTorch's default
  /// Refuse inputs of other sizes than the graph's input types say. Off where the types were recorded from one run of a
  /// model that takes others too; dtype and rank are checked either way.
  bool fixedShapes = true;
  Missing missing = Missing::Refused;
};

/// What a program with missing operators does not compute as the model does.
struct LeftOut {
  std::vector<std::string> operators;  ///< that are missing, each once
  std::vector<std::string> nodes;      ///< that call them, or hold such a call in a branch or a loop
  std::vector<size_t> madeUp;          ///< of `nodes`: whose outputs are made up
  /// Of the values in the graph's returns, counted in their order: which are not computed (they are None) and which
  /// depend on what is made up.
  std::vector<size_t> absent, dependent;
  std::vector<std::string> reads;  ///< what follows the outputs: "the argument x of fused (my.fused.default)"
  bool any() const { return !operators.empty(); }
};

/// What the file names as one device, and the program has on another. Empty where it runs where the file has the model.
struct MovedAlong {
  size_t names = 0;                ///< arguments that named the file's device and now name the program's
  size_t constants = 0;            ///< tensors that stand in the graph as literals
  std::vector<std::string> stays;  ///< copies to the host that the model makes on purpose: "to_3 (aten.to.device) at …"
};

struct CaptureFacts;  // core/torch/run/capture_facts.h

struct NodeTime {
  NodeId node;
  double microseconds = 0;
};

class Program {
 public:
  struct Impl;
  /// Refuses graphs with operators that this machine does not have (all of them are named), but for
  /// RunOptions::missing.
  static Result<Program> build(const Graph&, const RunOptions& = {});
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  /// One tensor or pytree for each return of the graph. Errors name the node, its source line and the shapes it got.
  Result<TensorSet> run(const TensorSet& inputs, const Job& = {}) const;
  /// Same, timing each node (on a GPU by events around it: the sum is more than a run without them takes). A node with
  /// blocks counts what runs in them too.
  Result<TensorSet> profile(const TensorSet& inputs, std::vector<NodeTime>& times) const;
  /// Same, showing the value of every node as it is computed (for types, statistics, per-node differences).
  Result<TensorSet> observe(const TensorSet& inputs, const std::function<void(ValueId, const TensorSet&)>& see) const;
  /// Same, calling `before` ahead of each node, those in blocks too.
  Result<TensorSet> runMarked(const TensorSet& inputs, const std::function<void(NodeId)>& before,
                              const Job& = {}) const;
  /// Runs, and adds the values asked for (null: all), inputs too, to `kept` as they are when computed: no more than
  /// `mostBytes` of tensors, and nothing for what was not computed. They are copied where `copy` says so, for graphs
  /// that write to memory.
  Result<TensorSet> collect(const TensorSet& inputs, const std::unordered_set<ValueId>* wanted, size_t mostBytes,
                            bool copy, std::unordered_map<ValueId, TensorSet>& kept, const Job& = {}) const;
  const RunOptions& options() const;
  /// Nothing where no operator is missing, or RunOptions::missing refuses them.
  const LeftOut& leftOut() const;
  /// How many nodes it has that do something, those in blocks counted once.
  size_t operators() const;
  /// Whether it may run as a CUDA graph.
  const CaptureFacts& capture() const;
  const MovedAlong& moved() const;

 private:
  explicit Program(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

/// Runs once on `inputs` and writes the types seen (dtype, shape, device) into the graph's values. Types speak of the
/// device that the file has the model on, wherever the inputs are: so the graph keeps saying one thing. Shapes that
/// come from inputs stay concrete, but for those that the graph has symbols for, where `keepSymbols` says that these
/// are declared (FileFormat::declaresSizes) and no guesses. For formats that carry no shapes. What follows from
/// operators that this machine does not have stays as it is.
Status recordTypes(Graph&, const TensorSet& inputs, bool keepSymbols = false);

}  // namespace graft
