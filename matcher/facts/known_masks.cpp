#include "matcher/facts/known_masks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

namespace graft {
namespace {

/// More than that is no position of a tensor, and sums of a few do not overflow.
constexpr int64_t mostKnown = int64_t{1} << 40;
constexpr size_t mostConditions = 8;

const std::vector<Dim>* dimensionsOf(const Graph& g, ValueId v) {
  const Type& t = g.value(v).type;
  return t.kind == Type::Kind::Tensor && t.tensorInfo.shape ? &*t.tensorInfo.shape : nullptr;
}

/// The dimension of a shape, counted from the last.
std::optional<Dim> dimOf(const std::vector<Dim>& shape, size_t fromLast) {
  return fromLast < shape.size() ? std::optional(shape[shape.size() - 1 - fromLast]) : std::nullopt;
}

/// Positions do not leave their range. Those of narrower ones do.
bool isInteger(DType d) { return d == DType::Int64 || d == DType::Int32; }

/// What a tensor of that dtype holds of a number, where that is sure whatever was calculated with it: 0, 1, -1, or so
/// much that it hides a score. Nothing else is asked of masks.
std::optional<double> held(DType dtype, double value) {
  constexpr double much = 1e4;
  if (dtype == DType::Bool) return value != 0 ? 1.0 : 0.0;
  if (isInteger(dtype)) {
    const bool fits = std::abs(value) < 2147483648.0 && value == std::trunc(value);
    return fits ? std::optional(value) : std::nullopt;
  }
  const double most = dtype == DType::Float16    ? 65504
                      : dtype == DType::BFloat16 ? 3.3895313892515355e38
                      : dtype == DType::Float32  ? 3.4028234663852886e38
                      : dtype == DType::Float64  ? std::numeric_limits<double>::max()
                                                 : -1;
  if (most < 0 || std::isnan(value)) return std::nullopt;
  if (std::abs(value) > most) return std::copysign(std::numeric_limits<double>::infinity(), value);
  const bool isSure = value == 0 || std::abs(value) == 1 || std::abs(value) >= much;
  return isSure ? std::optional(value) : std::nullopt;
}

/// Large numbers that cancel leave what rounding leaves.
bool mayCancel(double x, double y) { return std::abs(x) > 1 && std::abs(y) > 1 && std::signbit(x) != std::signbit(y); }

/// Whether the view calls all its dimensions of that size by one value: x.view(1, 1, n, n).
bool namesOneSize(const Node& view, const std::vector<Dim>& to, int64_t size) {
  const std::vector<Argument>* names = view.args.size() > 1 ? view.args[1].items() : nullptr;
  if (!names || names->size() != to.size()) return false;
  const Argument* name = nullptr;
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d].size != size) continue;
    if (!(*names)[d].isValue() || (name && *name != (*names)[d])) return false;
    name = &(*names)[d];
  }
  return name != nullptr;
}

/// A dimension as an argument names it, counted from the last.
std::optional<size_t> fromLast(const Argument& a, size_t rank) {
  const int64_t* d = a.as<int64_t>();
  if (!d) return std::nullopt;
  const int64_t at = *d < 0 ? *d + static_cast<int64_t>(rank) : *d;
  return at >= 0 && at < static_cast<int64_t>(rank) ? std::optional(rank - 1 - static_cast<size_t>(at)) : std::nullopt;
}

/// Whether the sum means the same in the result that its tensor is broadcast to: where it depends on a position, both
/// have the same size.
bool staysSame(const Positions& p, const std::vector<Dim>& from, const std::vector<Dim>& to) {
  for (size_t d = 0; d < p.steps.size(); ++d) {
    if (p.steps[d] == 0) continue;
    const std::optional<Dim> a = dimOf(from, d), b = dimOf(to, d);
    if (!a || !b || !a->isKnown() || *a != *b) return false;
  }
  return true;
}

void trim(Positions& p) {
  while (!p.steps.empty() && p.steps.back() == 0) p.steps.pop_back();
}

/// a * x + b * y
std::optional<Positions> combined(const Positions& x, int64_t a, const Positions& y, int64_t b) {
  const auto fits = [](int64_t n) { return n >= -mostKnown && n <= mostKnown; };
  const auto sum = [&](int64_t m, int64_t n, int64_t& out) {
    int64_t left = 0, right = 0;
    return !__builtin_mul_overflow(m, a, &left) && !__builtin_mul_overflow(n, b, &right) &&
           !__builtin_add_overflow(left, right, &out) && fits(out);
  };
  Positions p;
  p.steps.resize(std::max(x.steps.size(), y.steps.size()));
  bool all = sum(x.plus, y.plus, p.plus);
  for (size_t d = 0; d < p.steps.size(); ++d) all = sum(x.step(d), y.step(d), p.steps[d]) && all;
  trim(p);
  return all ? std::optional(p) : std::nullopt;
}

/// The sum at that place of the dimension.
std::optional<Positions> atPlace(Positions p, size_t dim, int64_t place) {
  const std::optional<Positions> moved = combined(p, 1, {{}, place}, p.step(dim));
  if (!moved) return std::nullopt;
  p = *moved;
  if (dim < p.steps.size()) p.steps[dim] = 0;
  trim(p);
  return p;
}

/// Positions begin at 0, and how far they go is not known.
bool alwaysHolds(const Positions& p) {
  return p.plus <= 0 && std::ranges::all_of(p.steps, [](int64_t s) { return s <= 0; });
}
bool neverHolds(const Positions& p) {
  return p.plus > 0 && std::ranges::all_of(p.steps, [](int64_t s) { return s >= 0; });
}

/// Without conditions that always hold.
KnownMask simplified(KnownMask m) {
  if (std::ranges::any_of(m.conditions, neverHolds)) return {{}, m.no, m.no};
  std::erase_if(m.conditions, alwaysHolds);
  if (m.yes == m.no) m.conditions.clear();
  return m;
}

/// A tensor of truth values as conditions under which it is true.
std::optional<KnownMask> asCondition(std::optional<KnownMask> m) {
  if (!m) return std::nullopt;
  const bool yes = m->yes != 0, no = m->no != 0;
  if (m->isEverywhere() || yes == no) return KnownMask{{}, yes ? 1.0 : 0.0, yes ? 1.0 : 0.0};
  if (yes) return KnownMask{std::move(m->conditions), 1, 0};
  std::optional<KnownMask> contrary = m->inverted();
  if (contrary) contrary->yes = 1, contrary->no = 0;
  return contrary;
}

}  // namespace

bool Positions::isNumber() const {
  return std::ranges::all_of(steps, [](int64_t s) { return s == 0; });
}

bool KnownMask::isUpToDiagonal() const { return conditions.size() == 1 && conditions[0] == Positions{{1, -1}, 0}; }

std::optional<KnownMask> KnownMask::inverted() const {
  if (conditions.size() != 1) return std::nullopt;
  const std::optional<Positions> contrary = combined(conditions[0], -1, {{}, 1}, 1);
  return contrary ? std::optional(KnownMask{{*contrary}, no, yes}) : std::nullopt;
}

KnownMasks::KnownMasks(const GraphIndex& index, std::function<std::optional<double>(ValueId)> numberOf)
    : index_(index), g_(index.graph), constant_(std::move(numberOf)) {
  for (const NodeId id : index.order) learn(g_.node(id));
}

const KnownMask* KnownMasks::find(ValueId v) const {
  const auto it = masks_.find(v.index);
  return it == masks_.end() ? nullptr : &it->second;
}

std::optional<Positions> KnownMasks::positionsOf(const Argument& a) const {
  if (const int64_t* n = a.as<int64_t>())
    return *n <= mostKnown && *n >= -mostKnown ? std::optional(Positions{{}, *n}) : std::nullopt;
  if (!a.isValue()) return std::nullopt;
  const auto it = positions_.find(a.valueId().index);
  return it == positions_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<double> KnownMasks::numberOf(const Argument& a) const {
  if (!a.isValue()) return a.number();
  if (const auto p = positionsOf(a)) return p->isNumber() ? std::optional(static_cast<double>(p->plus)) : std::nullopt;
  if (const KnownMask* m = find(a.valueId())) return m->isEverywhere() ? std::optional(m->yes) : std::nullopt;
  const std::vector<Dim>* shape = dimensionsOf(g_, a.valueId());
  return shape && std::ranges::all_of(*shape, [](const Dim& d) { return d.size == 1; }) ? constant_(a.valueId())
                                                                                        : std::nullopt;
}

std::optional<KnownMask> KnownMasks::maskOf(const Argument& a) const {
  if (a.isValue())
    if (const KnownMask* m = find(a.valueId())) return *m;
  const std::optional<double> n = numberOf(a);
  return n ? std::optional(KnownMask{{}, *n, *n}) : std::nullopt;
}

void KnownMasks::setPositions(const Node& n, std::optional<Positions> p) {
  const std::optional<DType> dtype = g_.value(n.outputs[0]).type.tensorInfo.dtype;
  if (p && dtype && isInteger(*dtype)) positions_[n.outputs[0].index] = std::move(*p);
}

void KnownMasks::setMask(const Node& n, std::optional<KnownMask> m) {
  const std::vector<Dim>* to = dimensionsOf(g_, n.outputs[0]);
  const std::optional<DType> dtype = g_.value(n.outputs[0]).type.tensorInfo.dtype;
  if (!m || !to || !dtype || m->conditions.size() > mostConditions) return;
  const std::optional<double> yes = held(*dtype, m->yes), no = held(*dtype, m->no);
  if (!yes || !no) return;
  m->yes = *yes, m->no = *no;
  masks_[n.outputs[0].index] = simplified(std::move(*m));
}

/// What `change` makes of each sum; nothing where it makes none of one.
template <class F>
void KnownMasks::rearrange(const Node& n, F&& change) {
  const Argument& x = n.args[0];
  if (const auto p = positionsOf(x)) {
    setPositions(n, change(*p));
  } else if (auto m = maskOf(x)) {
    for (Positions& condition : m->conditions) {
      const std::optional<Positions> changed = change(condition);
      if (!changed) return;
      condition = *changed;
    }
    setMask(n, std::move(m));
  }
}

void KnownMasks::learnView(const Node& n, std::string_view op) {
  const std::vector<Dim>*from = dimensionsOf(g_, n.args[0].valueId()), *to = dimensionsOf(g_, n.outputs[0]);
  if (!from || !to) return;
  const size_t rank = from->size();
  if (op == "expand.default")
    return rearrange(n, [&](const Positions& p) { return staysSame(p, *from, *to) ? std::optional(p) : std::nullopt; });
  if (op == "slice.Tensor" && n.args.size() == 5) {
    const std::optional<size_t> dim = fromLast(n.args[1], rank);
    const std::optional<int64_t> start = n.args[2].isNone()        ? std::optional<int64_t>(0)
                                         : n.args[2].as<int64_t>() ? std::optional(*n.args[2].as<int64_t>())
                                                                   : std::nullopt;
    const int64_t *end = n.args[3].as<int64_t>(), *step = n.args[4].as<int64_t>();
    if (!dim || !step || *step < 1) return;
    const bool isOnePlace = start && end && *start >= 0 && *start < mostKnown && *end == *start + 1;
    return rearrange(n, [&](Positions p) -> std::optional<Positions> {
      if (p.step(*dim) == 0) return p;
      if (isOnePlace) return atPlace(p, *dim, *start);
      if (!start || *start < 0 || *start > mostKnown) return std::nullopt;
      const std::optional<Positions> moved = combined(p, 1, {{}, *start}, p.step(*dim));
      if (!moved || *step > mostKnown) return std::nullopt;
      Positions stretched = *moved;
      if (__builtin_mul_overflow(stretched.steps[*dim], *step, &stretched.steps[*dim])) return std::nullopt;
      return combined(stretched, 1, {}, 0);
    });
  }
  // Each dimension of the result is one of the operand, or has one place.
  std::vector<std::optional<size_t>> source(to->size());
  if (op == "unsqueeze.default") {
    const std::optional<size_t> made = fromLast(n.args[1], to->size());
    if (!made || to->size() != rank + 1) return;
    for (size_t d = 0; d < to->size(); ++d)
      if (d != *made) source[d] = d - (d > *made ? 1 : 0);
  } else if (op == "transpose.int" || op == "permute.default") {
    if (to->size() != rank) return;
    for (size_t d = 0; d < rank; ++d) source[d] = d;
    if (op == "transpose.int") {
      const auto a = fromLast(n.args[1], rank), b = fromLast(n.args[2], rank);
      if (!a || !b) return;
      std::swap(source[*a], source[*b]);
    } else {
      const std::vector<Argument>* order = n.args[1].items();
      if (!order || order->size() != rank) return;
      for (size_t d = 0; d < rank; ++d) {
        source[d] = fromLast((*order)[rank - 1 - d], rank);
        if (!source[d]) return;
      }
    }
  } else {
    // Views that add or drop dimensions of one place: the others stay in order. A position along one of one place is
    // not followed, since other inputs may have more there; nor are sizes that only the example may have alike.
    for (size_t d = 0; d < rank; ++d)
      for (size_t e = d + 1; e < rank; ++e)
        if ((*from)[d].size > 1 && (*from)[d].size == (*from)[e].size && !namesOneSize(n, *to, (*from)[d].size)) return;
    size_t at = 0;
    for (size_t d = 0; d < to->size(); ++d) {
      const Dim here = *dimOf(*to, d);
      if (here.size == 1) continue;
      while (at < rank && dimOf(*from, at)->size == 1) ++at;
      if (at >= rank || !here.isKnown() || *dimOf(*from, at) != here) return;
      source[d] = at++;
    }
    while (at < rank && dimOf(*from, at)->size == 1) ++at;
    if (at != rank) return;
  }
  rearrange(n, [&](const Positions& p) -> std::optional<Positions> {
    Positions q;
    q.plus = p.plus;
    q.steps.resize(source.size());
    size_t used = 0;
    for (size_t d = 0; d < source.size(); ++d)
      if (source[d] && p.step(*source[d]) != 0) q.steps[d] = p.step(*source[d]), ++used;
    const size_t wanted = static_cast<size_t>(std::ranges::count_if(p.steps, [](int64_t s) { return s != 0; }));
    trim(q);
    return used == wanted ? std::optional(q) : std::nullopt;
  });
}

/// torch.diff of positions: the step, everywhere, where what is put in front is one step before the first.
void KnownMasks::learnDifference(const Node& n) {
  const std::vector<Dim>* shape = n.args[0].isValue() ? dimensionsOf(g_, n.args[0].valueId()) : nullptr;
  if (!shape || n.args.size() < 5 || n.args[1] != Argument(int64_t{1}) || !n.args[4].isNone()) return;
  const std::optional<size_t> dim = fromLast(n.args[2], shape->size());
  const auto x = positionsOf(n.args[0]);
  if (!dim || !x) return;
  const int64_t step = x->step(*dim);
  if (!n.args[3].isNone()) {
    const auto before = positionsOf(n.args[3]), first = atPlace(*x, *dim, 0);
    const auto rise = before && first ? combined(*first, 1, *before, -1) : std::nullopt;
    if (!rise || !rise->isNumber() || rise->plus != step) return;
    const std::vector<Dim>* front = n.args[3].isValue() ? dimensionsOf(g_, n.args[3].valueId()) : nullptr;
    if (!front || front->size() != shape->size() || dimOf(*front, *dim)->size != 1) return;
  }
  setPositions(n, Positions{{}, step});
}

/// x[i, j] with a tensor of positions for each dimension of x.
void KnownMasks::learnIndex(const Node& n) {
  const std::vector<Argument>* indices = n.args.size() > 1 ? n.args[1].items() : nullptr;
  const std::vector<Dim>* to = dimensionsOf(g_, n.outputs[0]);
  if (!indices || !to || !n.args[0].isValue()) return;
  if (const auto number = numberOf(n.args[0])) {
    if (positionsOf(n.args[0])) return setPositions(n, positionsOf(n.args[0]));
    return setMask(n, KnownMask{{}, *number, *number});
  }
  const std::vector<Dim>* from = dimensionsOf(g_, n.args[0].valueId());
  const auto x = positionsOf(n.args[0]);
  if (!from || !x || indices->size() != from->size()) return;
  Positions sum{{}, x->plus};
  for (size_t i = 0; i < indices->size(); ++i) {
    const int64_t step = x->step(from->size() - 1 - i);
    if (step == 0) continue;
    const Argument& index = (*indices)[i];
    const auto p = positionsOf(index);
    // Places below 0 count from the end.
    if (!p || !index.isValue() || p->plus < 0 || std::ranges::any_of(p->steps, [](int64_t s) { return s < 0; })) return;
    const std::vector<Dim>* shape = dimensionsOf(g_, index.valueId());
    const auto more = shape && staysSame(*p, *shape, *to) ? combined(sum, 1, *p, step) : std::nullopt;
    if (!more) return;
    sum = *more;
  }
  setPositions(n, sum);
}

void KnownMasks::learn(const Node& n) {
  constexpr std::string_view aten = "aten.";
  if (!n.op->name.starts_with(aten) || n.outputs.size() != 1 || n.args.empty() ||
      index_.isWritten(index_.memoryOf(n.outputs[0])))
    return;
  const std::string_view op = std::string_view(n.op->name).substr(aten.size());
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, op) != names.end();
  };
  const Argument& first = n.args[0];
  const std::vector<Dim>* to = dimensionsOf(g_, n.outputs[0]);
  if (!to) return;
  const std::optional<DType> dtype = g_.value(n.outputs[0]).type.tensorInfo.dtype;
  if (!dtype) return;
  const bool isTruth = *dtype == DType::Bool;
  const auto whole = [](const Argument& a) { return a.as<int64_t>() ? std::optional(*a.as<int64_t>()) : std::nullopt; };
  // Operands of pointwise operators, as the result has them.
  const auto positions = [&](const Argument& a) {
    auto p = positionsOf(a);
    return p && a.isValue() && !(dimensionsOf(g_, a.valueId()) && staysSame(*p, *dimensionsOf(g_, a.valueId()), *to))
               ? std::nullopt
               : p;
  };
  const auto mask = [&](const Argument& a) {
    auto m = maskOf(a);
    for (const Positions& p : m ? m->conditions : std::vector<Positions>())
      if (!dimensionsOf(g_, a.valueId()) || !staysSame(p, *dimensionsOf(g_, a.valueId()), *to))
        return std::optional<KnownMask>();
    return m;
  };

  if (is({"arange.default"})) return setPositions(n, Positions{{1}, 0});
  if (is({"arange.start", "arange.start_step"}) && n.args.size() > 2) {
    const auto start = whole(n.args[0]);
    const auto step = op == "arange.start_step" ? whole(n.args[2]) : std::optional<int64_t>(1);
    if (start && step) setPositions(n, combined({{*step}, *start}, 1, {}, 0));
    return;
  }
  const auto fill = [&](std::optional<double> value) {
    if (!value) return;
    if (isInteger(*dtype)) {
      const std::optional<double> whole = held(*dtype, *value);
      return whole ? setPositions(n, Positions{{}, static_cast<int64_t>(*whole)}) : void();
    }
    setMask(n, KnownMask{{}, *value, *value});
  };
  if (is({"zeros.default", "new_zeros.default", "zeros_like.default"})) return fill(0);
  if (is({"ones.default", "new_ones.default", "ones_like.default"})) return fill(1);
  if (is({"full.default", "full_like.default"}) && n.args.size() > 1) return fill(n.args[1].number());
  if (is({"new_full.default"}) && n.args.size() > 2) return fill(n.args[2].number());
  const bool isPointwise = is({"add.Tensor", "sub.Tensor", "mul.Tensor"});  // their first operand may be a number
  if (!first.isValue() && !isPointwise) return;
  if (is({"unsqueeze.default", "squeeze.dim", "squeeze.default", "view.default", "reshape.default", "expand.default",
          "slice.Tensor", "transpose.int", "permute.default"})) {
    return learnView(n, op);
  }
  if (is({"alias.default", "detach.default", "contiguous.default", "clone.default", "lift_fresh.default"})) {
    return rearrange(n, [](const Positions& p) { return std::optional(p); });
  }
  if (is({"to.dtype", "_to_copy.default", "to.dtype_layout", "to.device", "type_as.default", "to.other"})) {
    if (const auto p = positionsOf(first)) {
      if (isInteger(*dtype)) return setPositions(n, p);
      if (!p->isNumber()) return;
    }
    auto m = maskOf(first);
    if (isTruth) m = asCondition(std::move(m));
    return setMask(n, std::move(m));
  }
  if (is({"add.Tensor", "sub.Tensor", "add.Scalar", "sub.Scalar", "rsub.Scalar"}) && n.args.size() > 2) {
    const auto alpha = whole(n.args[2]);
    if (!alpha || std::abs(*alpha) > mostKnown) return;
    const bool minus = op.starts_with("sub"), turned = op.starts_with("rsub");
    const int64_t a = turned ? -*alpha : 1, b = minus ? -*alpha : turned ? 1 : *alpha;
    if (const auto x = positions(first), y = positions(n.args[1]); x && y)
      return setPositions(n, combined(*x, a, *y, b));
    auto x = mask(first), y = mask(n.args[1]);
    if (!x || !y || !(x->isEverywhere() || y->isEverywhere())) return;
    const auto scale = [](KnownMask& m, int64_t by) {
      m.yes *= static_cast<double>(by), m.no *= static_cast<double>(by);
    };
    scale(*x, a), scale(*y, b);
    if (x->isEverywhere()) std::swap(x, y);
    if (isTruth || mayCancel(x->yes, y->yes) || mayCancel(x->no, y->yes)) return;
    x->yes += y->yes, x->no += y->yes;
    return setMask(n, std::move(x));
  }
  if (is({"mul.Tensor", "mul.Scalar"})) {
    auto x = mask(first), y = mask(n.args[1]);
    if (!x || !y || !(x->isEverywhere() || y->isEverywhere())) return;
    if (x->isEverywhere()) std::swap(x, y);
    // 0 times infinity is no mask.
    if (isTruth || !std::isfinite(x->yes) || !std::isfinite(x->no) || !std::isfinite(y->yes)) return;
    x->yes *= y->yes, x->no *= y->yes;
    return setMask(n, std::move(x));
  }
  if (is({"diff.default"})) return learnDifference(n);
  if (is({"index.Tensor"})) return learnIndex(n);
  if (is({"cumsum.default"}) && numberOf(first) == 0.0) return fill(0);
  const size_t dot = op.find('.');
  const std::string_view base = op.substr(0, dot), overload = op.substr(dot + 1);
  if ((base == "le" || base == "lt" || base == "ge" || base == "gt") &&
      (overload == "Tensor" || overload == "Scalar")) {
    const auto x = positions(first), y = positions(n.args[1]);
    if (!x || !y) return;
    const bool greater = base[0] == 'g';
    std::optional<Positions> difference = combined(*x, greater ? -1 : 1, *y, greater ? 1 : -1);
    if (difference && base[1] == 't') difference = combined(*difference, 1, {{}, 1}, 1);
    return difference ? setMask(n, KnownMask{{*difference}, 1, 0}) : void();
  }
  if ((base == "eq" || base == "ne") && (overload == "Tensor" || overload == "Scalar")) {
    const auto x = positions(first), y = positions(n.args[1]);
    const auto difference = x && y ? combined(*x, 1, *y, -1) : std::nullopt;
    if (!difference || !difference->isNumber()) return;
    return fill((difference->plus == 0) == (base == "eq") ? 1 : 0);
  }
  if (is({"bitwise_and.Tensor", "logical_and.default", "__and__.Tensor"})) {
    auto x = asCondition(mask(first)), y = asCondition(mask(n.args[1]));
    if (!isTruth || !x || !y) return;
    if (x->yes == 0 || y->yes == 0) return setMask(n, KnownMask{{}, 0, 0});
    x->conditions.insert(x->conditions.end(), y->conditions.begin(), y->conditions.end());
    x->no = 0;
    return setMask(n, std::move(x));
  }
  if (is({"bitwise_not.default", "logical_not.default"})) {
    auto m = asCondition(maskOf(first));
    if (!isTruth || !m) return;
    m->yes = 1 - m->yes, m->no = m->isEverywhere() ? m->yes : 1 - m->no;
    return setMask(n, std::move(m));
  }
  // One number where the condition holds, another where it does not; the one that is nowhere may be anything.
  const auto choose = [&](const Argument& condition, const Argument& whereTrue, const Argument& whereFalse) {
    auto m = asCondition(mask(condition));
    if (!m) return;
    const auto yes = numberOf(m->yes != 0 ? whereTrue : whereFalse);
    const auto no = m->isEverywhere() ? yes : numberOf(whereFalse);
    if (yes && no) setMask(n, KnownMask{std::move(m->conditions), *yes, *no});
  };
  if (base == "where" && n.args.size() > 2) return choose(first, n.args[1], n.args[2]);
  if (is({"masked_fill.Scalar", "masked_fill.Tensor"}) && n.args.size() > 2) return choose(n.args[1], n.args[2], first);
  if (is({"tril.default", "triu.default"}) && n.args.size() > 1) {
    const auto x = numberOf(first);
    const auto diagonal = whole(n.args[1]);
    if (!x || !diagonal || std::abs(*diagonal) > mostKnown) return;
    const bool lower = op.starts_with("tril");
    return setMask(n, KnownMask{{Positions{lower ? std::vector<int64_t>{1, -1} : std::vector<int64_t>{-1, 1},
                                           lower ? -*diagonal : *diagonal}},
                                *x,
                                0});
  }
}

}  // namespace graft
