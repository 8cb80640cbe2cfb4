#include <fmt/format.h>

#include <bit>
#include <unordered_map>

#include "core/compile/loops/algebra/bounds.h"
#include "core/compile/loops/element.h"
#include "core/compile/loops/reachable.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"

namespace graft::loops {
namespace {

// What an i64 expression can be, with the sizes of one call. IndexMath (algebra/index_math.h) says what an index is.
struct Possible {
  Bounds bounds;
  bool isIndex = false;
  bool isSized = false;
};

class SizeCheck {
 public:
  SizeCheck(const Program& program, std::span<const int64_t> sizes) : program_(program), sizes_(sizes) {}

  Status run() {
    if (sizes_.size() != program_.sizes.size())
      return badInput(fmt::format("the program has {} sizes; the call gives {}", program_.sizes.size(), sizes_.size()));
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const Size& s = program_.sizes[i];
      if (sizes_[i] < s.min || (s.max && sizes_[i] > *s.max))
        return badInput(fmt::format("{} is {}, and the loops are made for {} {}", s.name, sizes_[i], s.min,
                                    s.max ? fmt::format("to {}", *s.max) : "and more"));
    }
    // The bounds of a range are those of its extent, which may come later in the pool.
    std::vector<ExprId> extents;
    for (const Range& r : program_.ranges) extents.push_back(r.extent);
    for (const ExprId id : reachable(program_.expressions, extents))
      if (Status s = learn(id); !s) return s;
    for (const ExprId id : reachable(program_.expressions, roots(program_)))
      if (Status s = learn(id); !s) return s;
    for (const Buffer& b : program_.buffers)
      if (Status s = checkBuffer(b); !s) return s;
    return done();
  }

 private:
  Status learn(ExprId id) {
    const Expr& e = program_.expressions[id];
    if (e.dtype != DType::Int64 || known_.contains(id)) return done();
    Possible& p = known_[id];
    const auto operand = [&](size_t i) -> const Possible& { return known_.at(e.operands[i]); };
    const auto combine = [&](size_t first) {
      p.isIndex = true;
      for (size_t i = first; i < e.operands.size(); ++i) {
        p.isIndex = p.isIndex && operand(i).isIndex;
        p.isSized = p.isSized || operand(i).isSized;
      }
    };
    bool overflows = false;
    switch (e.op) {
      case Op::Constant: {
        const auto value = static_cast<int64_t>(e.bits);
        p = {{value, value}, true, false};
        break;
      }
      case Op::Size:
        p = {{sizes_[e.index], sizes_[e.index]}, true, true};
        break;
      case Op::Range: {
        const Possible& extent = known_.at(program_.range(e.range()).extent);
        p = {rangeBounds(extent.bounds), true, extent.isSized};
        break;
      }
      case Op::Cast:
        p.bounds = castBounds(program_.expressions[e.operands[0]]);
        p.isIndex = p.bounds.max.has_value();
        break;
      case Op::Absolute:
        combine(0);
        p.bounds = absoluteBounds(operand(0).bounds);
        break;
      case Op::Negate:
        combine(0);
        p.bounds = scaleBounds(operand(0).bounds, -1, overflows);
        break;
      case Op::Add:
        combine(0);
        p.bounds = addBounds(operand(0).bounds, operand(1).bounds, overflows);
        break;
      case Op::Subtract:
        combine(0);
        p.bounds = addBounds(operand(0).bounds, scaleBounds(operand(1).bounds, -1, overflows), overflows);
        break;
      case Op::Multiply:
        combine(0);
        p.bounds = multiplyBounds(operand(0).bounds, operand(1).bounds, overflows);
        break;
      case Op::FloorDivide:
        combine(0);
        p.bounds = quotientBounds(operand(0).bounds, atLeastOne(operand(1).bounds));
        break;
      case Op::Remainder:
        combine(0);
        p.bounds = remainderBounds(operand(0).bounds, atLeastOne(operand(1).bounds));
        break;
      case Op::Minimum:
        combine(0);
        p.bounds = minimumBounds(operand(0).bounds, operand(1).bounds);
        break;
      case Op::Maximum:
        combine(0);
        p.bounds = maximumBounds(operand(0).bounds, operand(1).bounds);
        break;
      case Op::Select:
        combine(1);
        p.bounds = eitherBounds(operand(1).bounds, operand(2).bounds);
        break;
      case Op::CheckedIndex:
        combine(1);
        p.bounds = rangeBounds(operand(1).bounds);
        break;
      default:
        break;
    }
    const bool isArithmetic = e.op == Op::Negate || e.op == Op::Add || e.op == Op::Subtract || e.op == Op::Multiply;
    if (isArithmetic && p.isIndex && p.isSized && (!p.bounds.min || !p.bounds.max))
      return badInput(
          fmt::format("with these sizes, {} would leave 64 bits", shortened(printExpression(program_, id))));
    return done();
  }

  // Of a cast to i64.
  static Bounds castBounds(const Expr& from) {
    if (from.op != Op::Constant) return dtypeBounds(from.dtype);
    const bool isFloating = isFloatingPoint(from.dtype);
    const Element given =
        isFloating ? Element::of(std::bit_cast<double>(from.bits)) : Element::of(static_cast<int64_t>(from.bits));
    const int64_t value = castElement(given, from.dtype, DType::Int64).integer;
    return {value, value};
  }

  // No divisor is 0: a range whose extent is 0 does not run.
  static Bounds atLeastOne(Bounds b) {
    if (b.min && *b.min == 0) b.min = 1;
    if (b.min && b.max && *b.max < *b.min) b.max = b.min;
    return b;
  }

  static std::string shortened(const std::string& text) {
    constexpr size_t kLongest = 200;
    return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
  }

  Status checkBuffer(const Buffer& b) {
    int64_t bytes = static_cast<int64_t>(dtypeSize(b.dtype));
    for (const ExprId size : b.sizes) {
      const Bounds n = known_.at(size).bounds;
      if (!n.min || n.min != n.max || *n.min < 0)
        return badInput(fmt::format("with these sizes, '{}' has a dimension that is no size", b.name));
      if (*n.min != 0 && __builtin_mul_overflow(bytes, *n.min, &bytes))
        return badInput(fmt::format("with these sizes, '{}' is too large", b.name));
    }
    return done();
  }

  const Program& program_;
  std::span<const int64_t> sizes_;
  std::unordered_map<ExprId, Possible> known_;
};

}  // namespace

Status checkSizes(const Program& program, std::span<const int64_t> sizes) { return SizeCheck(program, sizes).run(); }

}  // namespace graft::loops
