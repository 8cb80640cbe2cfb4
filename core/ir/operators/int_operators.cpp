#include "core/ir/operators/int_operators.h"

namespace graft {

std::optional<Argument> onInts(std::string_view op, int64_t a, int64_t b) {
  if (op == "aten.eq.int") return Argument(a == b);
  if (op == "aten.ne.int") return Argument(a != b);
  if (op == "aten.lt.int") return Argument(a < b);
  if (op == "aten.le.int") return Argument(a <= b);
  if (op == "aten.gt.int") return Argument(a > b);
  if (op == "aten.ge.int") return Argument(a >= b);
  int64_t out = 0;
  const bool overflow = op == "aten.add.int"   ? __builtin_add_overflow(a, b, &out)
                        : op == "aten.sub.int" ? __builtin_sub_overflow(a, b, &out)
                        : op == "aten.mul.int" ? __builtin_mul_overflow(a, b, &out)
                                               : true;
  return overflow ? std::nullopt : std::optional(Argument(out));
}

}  // namespace graft
