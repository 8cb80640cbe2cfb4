// What an operator made of arguments of some types, kept: the equal layers of a model are inferred once. Only nodes
// whose values are all tensors of known dtype and shape are remembered, because for those nothing else of the graph
// matters.
//
//   if (auto types = cache.find(graph, node)) return *types;
//   …
//   cache.remember(graph, node, types);
//
// Safe to use from several threads.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// Equal, whichever values of the graph they hold.
bool equalBesideValues(const Argument&, const Argument&);

class TypeCache {
 public:
  std::optional<std::vector<Type>> find(const Graph&, const Node&);
  void remember(const Graph&, const Node&, const std::vector<Type>& outputs);

 private:
  struct Entry {
    std::vector<Argument> args;
    std::vector<Type> values;  ///< of the values in args, in order
    std::vector<Type> outputs;
  };
  struct Operator {
    std::vector<Entry> entries;
    size_t next = 0;  ///< which one makes room when there are too many
  };
  static bool matches(const Entry&, const Graph&, const Node&);

  std::mutex mutex_;
  std::unordered_map<std::string, Operator> operators_;
};

}  // namespace graft
