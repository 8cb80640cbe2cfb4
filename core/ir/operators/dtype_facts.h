// DTypeFacts: what follows from operators about dtypes where a file carries none. Only what holds for every input is
// said.
//
//   DTypeFacts facts(graph);
//   if (facts.of(x) == DType::Float) …
#pragma once

#include <optional>
#include <unordered_map>

#include "core/ir/graph.h"

namespace graft {

/// Whether its numbers have a real and an imaginary part.
bool isComplex(DType);

/// It refers to the graph, and remembers what it has answered: it lives no longer than the dtypes stay.
class DTypeFacts {
 public:
  explicit DTypeFacts(const Graph& g) : g_(g) {}

  std::optional<DType> of(ValueId v) { return of(v, 0); }

 private:
  std::optional<DType> of(ValueId, int depth);
  std::optional<DType> fromProducer(const Node&, int depth);
  template <class OfTensor>
  std::optional<DType> promoted(const Node&, OfTensor&& tensor) const;
  std::optional<DType> common(const Node&, int depth);

  const Graph& g_;
  std::unordered_map<ValueId, std::optional<DType>> known_;
};

}  // namespace graft
