// Conversions to another dtype, and what only hands its operand on.

#include "core/compile/lower/call.h"

namespace graft::lower {
namespace {

void lowerCast(Call& c) {
  const Argument& self = c.positional(0);
  const TensorId x = c.tensor(self, "self");
  if (self.isValue()) {
    const std::string& from = c.l.graph.value(self.valueId()).type.tensorInfo.device;
    const std::string& to = c.l.graph.value(c.output()).type.tensorInfo.device;
    if (!from.empty() && !to.empty() && from != to) c.refuse("the result lies on another device");
  }
  c.result(c.cast(x, c.resultType()));
}

void lowerHandOn(Call& c) { c.result(c.tensor(c.positional(0), "self")); }

/// self with the elements of `src`, in self's dtype and shape.
void lowerCopy(Call& c) { c.result(c.cast(c.expanded(c.tensor("src"), c.resultSizes()), c.resultType())); }

}  // namespace

std::vector<Entry> castOperators() {
  std::vector<Entry> out;
  for (const char* name :
       {"to.dtype", "to.dtype_layout", "to.device", "to.other", "to.prim_dtype", "to.prim_Device", "to.prim_other",
        "_to_copy.default", "type_as.default", "_cast_Byte.default", "_cast_Char.default", "_cast_Double.default",
        "_cast_Float.default", "_cast_Half.default", "_cast_Int.default", "_cast_Long.default", "_cast_Short.default"})
    out.push_back({std::string("aten.") + name, Kind::Pointwise, lowerCast});
  for (const char* name : {"clone.default", "contiguous.default", "alias.default", "detach.default", "lift.default",
                           "lift_fresh.default", "lift_fresh_copy.default"})
    out.push_back({std::string("aten.") + name, Kind::View, lowerHandOn});
  out.push_back({"aten.copy.default", Kind::Pointwise, lowerCopy});
  return out;
}

}  // namespace graft::lower
