// Types by running operators on meta tensors, which have shapes and no data. Symbolic dimensions are given two
// different numbers in two runs; what a result's dimension makes of them says which expression it is.
//
//   MetaInference meta(graph);
//   meta.set(input, Type::tensor(DType::Int64, {Dim("batch"), Dim("length")}));
//   Result<std::vector<Type>> types = meta.run(node);
//
// Includes LibTorch: for core/torch alone.
#pragma once

#include <ATen/core/ivalue.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

class MetaInference {
 public:
  explicit MetaInference(const Graph& g) : g_(g) {}

  /// What the value is, instead of what the graph's type says.
  void set(ValueId, const Type&);
  /// The types of the node's outputs; Type::tensor() without details where they cannot be known beforehand. An error
  /// says why the operator refuses its arguments. What was found is remembered for the nodes that follow.
  Result<std::vector<Type>> run(NodeId);
  /// Whether the node that ran last refused what symbols stand for (other sizes may do).
  bool refused() const { return refused_; }
  /// Whether the node that ran last gave results, for every symbol's stand-ins.
  bool known() const { return known_; }

 private:
  using Pair = std::array<std::optional<c10::IValue>, 2>;  // one for each run
  enum class Outcome { Known, Unknown, Refused };

  const c10::IValue* lookup(ValueId, size_t which, int depth);
  Outcome runOnce(const Node&, size_t which, int depth, std::vector<c10::IValue>& results, std::string& why);
  std::optional<c10::IValue> make(const Type&, size_t which);
  std::optional<int64_t> evaluate(std::string_view expression, size_t which);
  Dim dimOf(int64_t first, int64_t second) const;
  Type typeOf(const c10::IValue& first, const c10::IValue* second, const std::string& device) const;
  std::string deviceOf(const Node&) const;

  const Graph& g_;
  std::unordered_map<ValueId, Pair> values_;
  std::array<std::unordered_set<ValueId>, 2> absent_;  // asked for in that run, and not to be known
  std::vector<std::string> symbols_;
  bool refused_ = false, known_ = false;
};

}  // namespace graft
