#include "core/ir/calls/written_arguments.h"

#include <string_view>

namespace graft {

std::array<ValueId, 2> keptStatistics(const Node& n) {
  if (!n.op->hasSchema || n.op->writes() || !n.op->name.starts_with("aten.") || !n.op->findParameter("running_mean"))
    return {};
  for (std::string_view flag : {"training", "train", "use_input_stats"})
    if (const Argument* a = n.findArgument(flag); a && a->as<bool>() && !*a->as<bool>()) return {};
  std::array<ValueId, 2> out{};
  size_t at = 0;
  for (std::string_view name : {"running_mean", "running_var"})
    if (const Argument* a = n.findArgument(name); a && a->isValue()) out[at++] = a->valueId();
  return out;
}

bool mayReturnArgument(const Node& n) {
  if (n.op->is(OperatorFact::MayReturnArgument)) return true;
  // Of one operand, PyTorch's einsum permutes and takes diagonals, and sums only where a letter is left out.
  if (n.op->name != "aten.einsum.default" || n.args.size() < 2) return false;
  const auto* operands = n.args[1].items();
  return !operands || operands->size() < 2;
}

}  // namespace graft
