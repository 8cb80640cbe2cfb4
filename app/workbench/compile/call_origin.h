// Who wrote what an operator runs.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/ir/operator.h"

namespace graft::workbench {

enum class CallOrigin : uint8_t {
  HandWritten,  ///< Graft's own operators
  Library,      ///< matrix products and convolutions, which PyTorch hands to a library
  Aten,
  User,  ///< of a library of the user's
};
CallOrigin originOf(const Operator&);
/// "hand-written", "library", "aten", "user".
std::string_view originName(CallOrigin);

}  // namespace graft::workbench
