// MetaMemo: what operators made of meta tensors, kept while a graph is inferred: a model's equal layers, and a long
// list of equal statements, run once. A call is found again where the operator, its literals and, in every run, its
// tensors' dtypes, sizes and strides are the same; its results are then the earlier call's own tensors.
//
//   if (const MetaMemo::Call* c = memo.find(node, arguments, device)) use(c->results, c->types);
//   …
//   memo.remember(node, arguments, device, results, types);
//
// Not for graphs that write in place: what changes one call's result would change the other's. Includes LibTorch: for
// core/torch alone.
#pragma once

#include <ATen/core/ivalue.h>

#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/types/size_names.h"

namespace graft {

class MetaMemo {
 public:
  using Runs = std::array<std::optional<c10::IValue>, SizeNames::runs>;
  struct Call {
    std::vector<Argument> args;
    std::vector<Runs> values;  ///< of the values in args, in order
    std::string device;        ///< that the results' types say
    std::vector<Runs> results;
    std::vector<Type> types;
  };

  /// `values`: what the values in the node's arguments are, in order. Null where no such call is known.
  const Call* find(const Node&, std::span<const Runs* const> values, const std::string& device) const;
  /// Ignores what has no place here: results other than tensors, types with sizes that have no name yet.
  void remember(const Node&, std::span<const Runs* const> values, const std::string& device, std::vector<Runs> results,
                const std::vector<Type>& types);

 private:
  struct Operator {
    std::vector<Call> calls;
    size_t next = 0;  ///< which one makes room when there are too many
  };
  std::unordered_map<const graft::Operator*, Operator> operators_;
};

}  // namespace graft
