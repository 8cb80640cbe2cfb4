// LibTorch's semantics with our operator library loaded, for tests of real models.
#pragma once

#include <memory>

#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"
#include "tests/support/catch.h"

namespace graft::test {

/// Made once; the test fails where the library cannot be loaded.
inline const Semantics& torchSemantics() {
  static const bool loaded = static_cast<bool>(loadOperatorLibrary());
  REQUIRE(loaded);
  static const std::unique_ptr<Semantics> one = makeTorchSemantics();
  return *one;
}

}  // namespace graft::test
