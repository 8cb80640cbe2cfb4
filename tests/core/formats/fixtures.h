// The models that make_fixtures.py made, imported.
#pragma once

#include <string>

#include "core/formats/model.h"
#include "core/torch/semantics.h"
#include "tests/support/catch.h"

namespace graft::test {

inline std::string fixture(const std::string& name) { return std::string(GRAFT_FIXTURES) + "/" + name; }

inline const Semantics& torchSemantics() {
  static const auto semantics = makeTorchSemantics();
  return *semantics;
}

inline Model imported(const std::string& name, const ImportOptions& options = {}) {
  auto m = importModel(fixture(name), torchSemantics(), options);
  INFO((m ? std::string() : m.error().message));
  REQUIRE(m);
  return std::move(*m);
}

inline size_t count(const Graph& g, std::string_view op) {
  size_t n = 0;
  for (NodeId id : g.order()) n += g.node(id).op->name == op;
  return n;
}

inline const Node* first(const Graph& g, std::string_view op) {
  for (NodeId id : g.order())
    if (g.node(id).op->name == op) return &g.node(id);
  return nullptr;
}

}  // namespace graft::test
