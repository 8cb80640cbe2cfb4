// Integers made of sizes: they become expressions of loops' extents and indices.

#include "core/compile/lower/call.h"

namespace graft::lower {
namespace {

Entry arithmetic(std::string name, ExprId (*f)(loops::Simplifier&, ExprId, ExprId)) {
  return {"aten." + std::move(name), Kind::Size, [f](Call& c) {
            c.l.setInteger(c.output(), f(c.l.simplifier, c.size(c.positional(0), "a"), c.size(c.positional(1), "b")));
          }};
}

void requirePositive(Call& c) {
  const auto least = c.l.simplifier.bounds(c.size(c.positional(1), "b")).min;
  if (!least || *least < 1) c.refuse("b", "may be 0");
}

void lowerSize(Call& c) {
  const TensorId x = c.tensor(c.positional(0), "self");
  c.l.setInteger(c.output(), c.sizes(x)[c.dimOf(x, "dim")]);
}

}  // namespace

std::vector<Entry> sizeOperators() {
  return {
      {"aten.size.int", Kind::Size, lowerSize},
      {"aten.sym_size.int", Kind::Size, lowerSize},
      {"aten.numel.default", Kind::Size,
       [](Call& c) { c.l.setInteger(c.output(), c.l.product(c.sizes(c.tensor(c.positional(0), "self")))); }},
      {"aten.sym_numel.default", Kind::Size,
       [](Call& c) { c.l.setInteger(c.output(), c.l.product(c.sizes(c.tensor(c.positional(0), "self")))); }},
      arithmetic("add.int", [](loops::Simplifier& s, ExprId a, ExprId b) { return s.add(a, b); }),
      arithmetic("sub.int", [](loops::Simplifier& s, ExprId a, ExprId b) { return s.subtract(a, b); }),
      arithmetic("mul.int", [](loops::Simplifier& s, ExprId a, ExprId b) { return s.multiply(a, b); }),
      {"aten.neg.int", Kind::Size,
       [](Call& c) {
         c.l.setInteger(c.output(), c.l.simplifier.subtract(c.l.integer(0), c.size(c.positional(0), "a")));
       }},
      {"aten.floordiv.int", Kind::Size,
       [](Call& c) {
         requirePositive(c);
         c.l.setInteger(c.output(),
                        c.l.simplifier.floorDivide(c.size(c.positional(0), "a"), c.size(c.positional(1), "b")));
       }},
      {"aten.remainder.int", Kind::Size,
       [](Call& c) {
         requirePositive(c);
         c.l.setInteger(c.output(),
                        c.l.simplifier.remainder(c.size(c.positional(0), "a"), c.size(c.positional(1), "b")));
       }},
  };
}

}  // namespace graft::lower
