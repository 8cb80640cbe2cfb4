#include "app/workbench/compile/call_origin.h"

#include <array>

#include "core/ir/operators/operator_facts.h"

namespace graft::workbench {

CallOrigin originOf(const Operator& op) {
  if (op.name.starts_with("graft.")) return CallOrigin::HandWritten;
  if (!op.name.starts_with("aten.")) return CallOrigin::User;
  const OperatorFamily family = op.facts->family;
  const bool isLibrarys = family == OperatorFamily::Product || family == OperatorFamily::Convolution;
  return isLibrarys ? CallOrigin::Library : CallOrigin::Aten;
}

std::string_view originName(CallOrigin origin) {
  constexpr std::array<std::string_view, 4> names{"hand-written", "library", "aten", "user"};
  return names[static_cast<size_t>(origin)];
}

}  // namespace graft::workbench
