// ExportWriter: writes our graph as torch.export's program (torch/_export/serde/schema.py), in the training dialect:
// operators as they are, writes in place included. Where the format cannot hold something, the refusal names the node
// and the reason.
//
//   ExportWriter writer(graph);
//   writer.run();                       // then program, weights, constants, data and archiveMetadata are filled
//
// export.cpp writes the program and the archive, writer_values.cpp inputs, types and arguments, writer_nodes.cpp nodes,
// writer_known.cpp what needs no node, writer_blocks.cpp branches and loops.
// Includes LibTorch: for this folder alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/formats/metadata.h"
#include "core/ir/graph.h"

namespace graft {

struct Pt2Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ExportWriter {
 public:
  /// `fixed`: by input, the constant value of an input that torch.export cannot take (truth values, floats, None,
  /// texts). run() refuses such an input without a value.
  explicit ExportWriter(const Graph& g, std::unordered_map<uint32_t, Argument> fixed = {})
      : g_(g), literals_(std::move(fixed)) {}

  /// Throws Pt2Refusal.
  void run();

  nlohmann::json program;
  nlohmann::json weights = nlohmann::json::object(), constants = nlohmann::json::object();  // the two config files
  std::vector<std::pair<std::string, at::Tensor>> data;                                     // record, contiguous tensor
  ArchiveMetadata archiveMetadata;

 private:
  using json = nlohmann::json;

  /// One graph of the file: the model's, or a branch's.
  struct Body {
    json inputs = json::array(), outputs = json::array(), nodes = json::array();
    json tensors = json::object(), ints = json::object(), bools = json::object();
    json whole() const;
  };

  // export.cpp
  CallingConvention convention();
  void result(const Argument&, int depth);
  void stacks();
  void facts();

  // writer_values.cpp
  std::string fresh(std::string_view wish);
  const std::string& name(ValueId);
  std::pair<std::string, int64_t> sympy(const std::string& expression);
  json symbolic(const std::string& expression);
  json size(const Dim&);
  json meta(const Type&, bool gradient = false);
  void weight(ValueId);
  void input(ValueId);
  void constantInput(const std::string& name, const Argument&);
  json reference(ValueId);
  /// The literal where the value is known to be one; otherwise the argument itself.
  const Argument& known(const Argument&) const;
  json list(const std::vector<Argument>&, const Type* wanted);
  json argument(const Argument&, const Type* wanted);

  // writer_nodes.cpp
  void nodes(BlockId);
  void node(const Node&);
  bool ofNumbersAlone(const Node&) const;
  json numberAsTensor(const Node&);
  bool readsContent(const Argument&, std::unordered_set<uint32_t>& seen) const;
  /// Throws where the node reads a number out of a tensor that is not known before a run.
  void refuseContent(const Node&) const;
  json metadata(const Node&);
  std::string expression(const Argument&) const;
  void sizeValue(const Node&);
  /// Whether the node compares two sizes; then what it says of them is entered.
  bool comparedSizes(const Node&);
  json listOutput(ValueId list);

  // writer_known.cpp
  std::optional<Argument> knownOfTensor(const Node&, const TensorInfo&) const;
  /// True where the node need not be written, because its result is known before it runs. The result is a literal then.
  bool settle(const Node&);
  Argument whole(const Argument&) const;
  std::optional<Argument> computed(const Node&);

  // writer_blocks.cpp
  /// What stands for a value in the file: a name, for a size also an expression, the elements of a list, or a literal.
  struct Bound {
    std::optional<Argument> literal;
    std::string name, expression;
    std::vector<std::string> elements;
  };
  /// The nodes that compute a loop's condition, before the loop and in a turn, in the same order.
  struct Condition {
    std::vector<NodeId> before, after;
    std::unordered_map<uint32_t, size_t>
        leaves;  ///< the values that it is computed from, and their places among the carried ones
  };
  bool isOnlyCondition(const Node&) const;
  std::vector<ValueId> captured(const Node&) const;
  json tensorNames(const std::vector<ValueId>&, const char* who);
  void higherOrder(const Node&, const char* target, json inputs);
  void graphInputs(const std::vector<ValueId>&);
  void refuseWrites(BlockId, const char* who) const;
  void conditional(const Node&);
  json branch(BlockId, const std::vector<ValueId>& operands);
  void loop(const Node&);
  void unrolled(const Node&, int64_t turns);
  void forget(BlockId);
  Bound boundTo(const Argument&);
  void setBound(ValueId, Bound);
  void bind(ValueId, const Argument&);
  void findCondition(const Node& loop);
  bool sameComputation(const Node& loop, const Argument& before, const Argument& after, int depth, Condition&) const;
  void whileLoop(const Node&);
  json conditionGraph(const Node&, const Condition&, const std::vector<ValueId>& parameters,
                      const std::vector<ValueId>& more);
  json turnGraph(const Block&, const std::vector<ValueId>& parameters, const std::vector<ValueId>& more);

  const Graph& g_;
  Body body_;
  std::unordered_map<uint32_t, std::string> names_;
  std::unordered_set<std::string> taken_;
  std::set<std::string> symbols_, inputSymbols_;  // all that occur in sizes; those that are inputs
  std::vector<std::string> stacks_;
  std::unordered_map<uint32_t, std::string> expressions_;                      // of sizes that nodes compute
  std::unordered_map<uint32_t, std::vector<std::string>> elements_;            // of lists, by value
  std::unordered_map<uint32_t, Argument> literals_;                            // values that are known to be literals
  std::unordered_map<uint32_t, std::shared_ptr<const WeightData>> constants_;  // 0-dim tensors of known numbers
  std::unordered_set<uint32_t> deferrable_;                                    // those that numbers alone make
  std::unordered_map<uint32_t, NodeId> deferred_;       // makers of these that are not written until one is used
  std::unordered_map<uint32_t, Condition> conditions_;  // by loop
  std::unordered_set<uint32_t> asked_;                  // nodes that only the conditions of loops need
  json inputSpecs_ = json::array(), outputSpecs_ = json::array();
};

}  // namespace graft
