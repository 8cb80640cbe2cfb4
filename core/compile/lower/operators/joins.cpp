// Several tensors, or a tensor and a constant, side by side: the index says which of them an element comes from.

#include <algorithm>
#include <array>

#include "core/compile/lower/operators/joins.h"

namespace graft::lower {
namespace {

ExprId converted(Lowering& l, TensorId t, const Index& i, DType to) {
  return l.convert(l.scalarAt(t, i), l[t].dtype, to).id;
}

}  // namespace

/// The first operand whose end along `dim` lies behind the index.
TensorId sideBySide(Call& c, std::span<const TensorId> given, size_t dim, DType d) {
  const std::vector<TensorId> operands(given.begin(), given.end());
  Sizes sizes = c.sizes(operands.front());
  std::vector<ExprId> starts{c.l.integer(0)};
  for (const TensorId t : operands) {
    if (c.rank(t) != sizes.size()) c.refuse("tensors of different ranks stand side by side");
    for (size_t k = 0; k < sizes.size(); ++k)
      if (k != dim && c.sizes(t)[k] != sizes[k]) c.refuse("tensors", "has sizes that are spelled in several ways");
    starts.push_back(c.l.simplifier.add(starts.back(), c.sizes(t)[dim]));
  }
  sizes[dim] = starts.back();
  Lowering& l = c.l;
  const TensorId joined = l.define(c.name(), d, sizes, 1, operands, [&l, operands, starts, dim, d](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    ExprId e;
    for (size_t k = operands.size(); k-- > 0;) {
      Index inside = i;
      inside[dim] = s.subtract(i[dim], starts[k]);
      const ExprId piece = converted(l, operands[k], inside, d);
      e = e ? s.select(s.compare(Op::Less, i[dim], starts[k + 1]), piece, e) : piece;
    }
    return e;
  });
  l.setFastestAs(joined, operands.front());
  return joined;
}

namespace {

void lowerCat(Call& c) {
  std::vector<TensorId> operands = c.tensors("tensors");
  // PyTorch skips empty tensors of one dimension.
  const size_t rank = c.resultSizes().size();
  std::erase_if(operands, [&](TensorId t) {
    const auto n = c.rank(t) == 1 ? c.l.findNumber(c.sizes(t)[0]) : std::nullopt;
    return n && *n == 0 && rank != 1;
  });
  if (operands.empty()) c.refuse("tensors", "is empty");
  for (const TensorId t : operands)
    if (c.rank(t) != rank || rank == 0) c.refuse("tensors", "has tensors of other ranks than the result");
  const size_t dim = c.dim("dim", rank);
  c.result(sideBySide(c, operands, dim, c.resultType()));
}

void lowerStack(Call& c) {
  const std::vector<TensorId> operands = c.tensors("tensors");
  if (operands.empty()) c.refuse("tensors", "is empty");
  const Sizes sizes = c.resultSizes();
  if (sizes.empty()) c.refuse("the result has no dimension");
  const size_t dim = c.dim("dim", sizes.size());
  const DType d = c.resultType();
  for (const TensorId t : operands)
    for (size_t k = 0; k + 1 < sizes.size(); ++k)
      if (c.rank(t) + 1 != sizes.size() || c.sizes(t)[k] != sizes[k < dim ? k : k + 1])
        c.refuse("tensors", "has tensors of other shapes than the result");
  Lowering& l = c.l;
  c.result(l.define(c.name(), d, sizes, 1, operands, [&l, operands, dim, d](const Index& i) {
    Index inside = i;
    inside.erase(inside.begin() + static_cast<std::ptrdiff_t>(dim));
    ExprId e;
    for (size_t k = operands.size(); k-- > 0;) {
      const ExprId piece = converted(l, operands[k], inside, d);
      const ExprId end = l.integer(static_cast<int64_t>(k) + 1);
      e = e ? l.simplifier.select(l.simplifier.compare(Op::Less, i[dim], end), piece, e) : piece;
    }
    return e;
  }));
}

struct Padding {
  size_t dim;
  ExprId before;
};

/// PyTorch lists them from the last dimension on.
std::vector<Padding> paddings(Call& c, const std::string& parameter, size_t rank) {
  const std::vector<ExprId> pads = c.sizeList(parameter);
  const auto isZero = [&](ExprId e) { return c.l.findNumber(e) == 0; };
  if (pads.size() % 2 != 0 || pads.size() / 2 > rank) c.refuse(parameter, "does not fit the tensor's dimensions");
  std::vector<Padding> out;
  for (size_t k = 0; k < pads.size() / 2; ++k)
    if (!isZero(pads[2 * k]) || !isZero(pads[2 * k + 1])) out.push_back({rank - 1 - k, pads[2 * k]});
  return out;
}

void lowerConstantPad(Call& c, const std::string& self, double value) {
  const TensorId x = c.tensor(self);
  c.requireType(x);
  const std::vector<Padding> pads = paddings(c, "pad", c.rank(x));
  const DType d = c.resultType();
  const Sizes sizes = c.resultOfRank(c.rank(x));
  Lowering& l = c.l;
  c.result(l.define(c.name(), d, sizes, 2, std::span(&x, 1), [&l, x, pads, d, value](Index i) {
    loops::Simplifier& s = l.simplifier;
    ExprId isInside = l.pool().boolean(true);
    for (const Padding& p : pads) {
      const ExprId at = s.subtract(i[p.dim], p.before);
      isInside = s.logicalAnd(isInside, s.compare(Op::LessEqual, l.integer(0), at));
      isInside = s.logicalAnd(isInside, s.compare(Op::Less, at, l[x].sizes[p.dim]));
      i[p.dim] = at;
    }
    return s.select(isInside, l.at(x, i), l.constant(d, value));
  }));
}

enum class Edge { Reflect, Replicate, Circular };

void lowerEdgePad(Call& c, const std::string& self, const std::string& parameter, Edge edge) {
  const TensorId x = c.tensor(self);
  const std::vector<Padding> pads = paddings(c, parameter, c.rank(x));
  for (const Padding& p : pads) {
    const auto size = c.l.findNumber(c.sizes(x)[p.dim]);
    if (!size || *size == 0) c.refuse(self, "has a size along a padded dimension that varies or is 0");
  }
  Lowering& l = c.l;
  c.result(l.view(x, c.resultOfRank(c.rank(x)), [&l, x, pads, edge](Index i) {
    loops::Simplifier& s = l.simplifier;
    for (const Padding& p : pads) {
      const ExprId size = l[x].sizes[p.dim];
      const ExprId last = s.subtract(size, l.integer(1));
      ExprId at = s.subtract(i[p.dim], p.before);
      if (edge == Edge::Circular) {
        i[p.dim] = s.remainder(at, size);
        continue;
      }
      if (edge == Edge::Reflect) {
        at = s.select(s.compare(Op::Less, at, l.integer(0)), s.subtract(l.integer(0), at), at);
        at = s.select(s.compare(Op::Less, last, at), s.subtract(s.multiply(last, l.integer(2)), at), at);
      }
      i[p.dim] = s.minimum(s.maximum(at, l.integer(0)), last);  // of a reflection: says what holds already
    }
    return i;
  }));
}

void lowerPad(Call& c) {
  const std::string_view mode = c.text("mode");
  if (mode == "constant")
    lowerConstantPad(c, "self", c.has("value") ? c.number("value") : 0);
  else if (mode == "reflect")
    lowerEdgePad(c, "self", "pad", Edge::Reflect);
  else if (mode == "replicate")
    lowerEdgePad(c, "self", "pad", Edge::Replicate);
  else if (mode == "circular")
    lowerEdgePad(c, "self", "pad", Edge::Circular);
  else
    c.refuse("mode", "is none of constant, reflect, replicate and circular");
}

/// Zero above the diagonal, or below it.
void lowerTriangle(Call& c, bool isLower) {
  const TensorId x = c.tensor("self");
  c.requireType(x);
  const int64_t diagonal = c.integer("diagonal");
  if (c.rank(x) < 2) c.refuse("self", "has fewer than two dimensions");
  const DType d = c.resultType();
  Lowering& l = c.l;
  c.result(l.define(c.name(), d, Sizes(c.sizes(x)), 1, std::span(&x, 1), [&l, x, diagonal, isLower, d](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const ExprId limit = s.add(i[i.size() - 2], l.integer(diagonal));
    const ExprId column = i[i.size() - 1];
    const ExprId keeps = isLower ? s.compare(Op::LessEqual, column, limit) : s.compare(Op::LessEqual, limit, column);
    return s.select(keeps, l.at(x, i), l.constant(d, 0));
  }));
}

/// `src` in a slice along `dim` of a tensor with these sizes, or at one index, and `otherwise` in all other places.
void lowerInto(Call& c, TensorId src, const Sizes& sizes, size_t dim, bool isSelect, std::span<const TensorId> operands,
               std::function<ExprId(const Index&)> otherwise) {
  const DType d = c.resultType();
  if (c.rank(src) + (isSelect ? 1 : 0) != sizes.size()) c.refuse("dim", "is that of another number of dimensions");
  const auto size = c.l.findNumber(sizes[dim]);
  if (!size) c.refuse("dim", "has a size that varies");
  const auto within = [&](std::string_view parameter, int64_t unless) {
    const auto most = static_cast<double>(*size);
    double n =
        c.has(parameter) ? c.number(parameter) : static_cast<double>(unless);  // "to the end" is the largest integer
    if (n < 0) n += most;
    return static_cast<int64_t>(std::clamp(n, 0.0, most));
  };
  const int64_t start = within(isSelect ? "index" : "start", 0), step = isSelect ? 1 : c.integer("step");
  const int64_t end = isSelect ? start + 1 : within("end", *size);
  if (step < 1 || (isSelect && start >= *size)) c.refuse("dim", "has no such place");
  Lowering& l = c.l;
  c.result(l.define(c.name(), d, sizes, 2, operands, [=, &l](const Index& i) {
    loops::Simplifier& s = l.simplifier;
    const ExprId off = s.subtract(i[dim], l.integer(start));
    ExprId isInside =
        s.logicalAnd(s.compare(Op::LessEqual, l.integer(0), off), s.compare(Op::Less, i[dim], l.integer(end)));
    isInside = s.logicalAnd(isInside, s.compare(Op::Equal, s.remainder(off, l.integer(step)), l.integer(0)));
    Index inside = i;
    inside[dim] = s.floorDivide(off, l.integer(step));
    if (isSelect) inside.erase(inside.begin() + static_cast<std::ptrdiff_t>(dim));
    return s.select(isInside, converted(l, src, inside, d), otherwise(i));
  }));
}

void lowerScatterInto(Call& c, bool isSelect) {
  const TensorId x = c.tensor("self"), src = c.tensor("src");
  const std::array operands{x, src};
  const DType d = c.resultType();
  lowerInto(c, src, c.sizes(x), c.dimOf(x, "dim"), isSelect, operands,
            [&l = c.l, x, d](const Index& i) { return converted(l, x, i, d); });
}

/// The gradient of a slice, or of one index: zero elsewhere.
void lowerSliceGradient(Call& c, bool isSelect) {
  const TensorId gradient = c.tensor("grad_output");
  const Sizes sizes = c.resultSizes();
  if (sizes.empty()) c.refuse("input_sizes", "has no dimensions");
  lowerInto(c, gradient, sizes, c.dim("dim", sizes.size()), isSelect, std::span(&gradient, 1),
            [&l = c.l, d = c.resultType()](const Index&) { return l.constant(d, 0); });
}

}  // namespace

std::vector<Entry> joinOperators() {
  std::vector<Entry> out;
  const auto join = [&](const char* name, std::function<void(Call&)> build) {
    out.push_back({std::string("aten.") + name, Kind::View, std::move(build)});
  };
  join("cat.default", lowerCat);
  join("stack.default", lowerStack);
  join("constant_pad_nd.default", [](Call& c) { lowerConstantPad(c, "self", c.number("value")); });
  join("pad.default", lowerPad);
  for (const char* name : {"reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default"})
    join(name, [](Call& c) { lowerEdgePad(c, "self", "padding", Edge::Reflect); });
  for (const char* name : {"replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default"})
    join(name, [](Call& c) { lowerEdgePad(c, "self", "padding", Edge::Replicate); });
  join("slice_scatter.default", [](Call& c) { lowerScatterInto(c, false); });
  join("select_scatter.default", [](Call& c) { lowerScatterInto(c, true); });
  join("slice_backward.default", [](Call& c) { lowerSliceGradient(c, false); });
  join("select_backward.default", [](Call& c) { lowerSliceGradient(c, true); });
  join("tril.default", [](Call& c) { lowerTriangle(c, true); });
  join("triu.default", [](Call& c) { lowerTriangle(c, false); });
  return out;
}

}  // namespace graft::lower
