// Losses: how far a prediction is from its target, for each element, or as their mean or sum.

#include <array>
#include <cmath>

#include "core/compile/lower/call.h"
#include "core/compile/lower/operators/places.h"
#include "core/compile/lower/operators/statistics.h"

namespace graft::lower {
namespace {

/// As PyTorch numbers them.
enum class Reduction : int64_t { None, Mean, Sum };

Reduction reductionOf(Call& c) {
  const int64_t n = c.integer("reduction");
  if (n < 0 || n > 2) c.refuse("reduction", "is none that PyTorch has");
  return static_cast<Reduction>(n);
}

std::vector<size_t> allDims(Call& c, TensorId t) {
  std::vector<size_t> dims(c.rank(t));
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = d;
  return dims;
}

TensorId total(Call& c, TensorId t) { return c.l.reduce(ReduceKind::Sum, t, allDims(c, t), false); }

/// a / b, both of one element
TensorId quotient(Call& c, TensorId a, TensorId b) {
  return mappedWith(c.l, a, b, 4, c.type(a), [](Scalar x, Scalar y) { return x / y; });
}

/// The loss of each element, combined as the call says.
void setReduced(Call& c, TensorId each) {
  const Reduction how = reductionOf(c);
  if (how == Reduction::None) {
    c.traits.kind = Kind::Pointwise;
    c.result(each);
    return;
  }
  const std::vector<size_t> dims = allDims(c, each), own = allDims(c, c.tensor(c.positional(0), "self"));
  c.traits.reducedDims.assign(own.begin(), own.end());
  if (how == Reduction::Sum) {
    c.result(total(c, each));
    return;
  }
  c.result(c.reshaped(meanOf(c.l, each, dims), {}));
}

/// Of each element of the operands, broadcast, what the formula says.
void lowerElementwise(Call& c, std::initializer_list<std::string_view> parameters, double cost,
                      const Call::Formula& formula) {
  const DType d = c.floatingType();
  std::vector<TensorId> operands;
  for (const std::string_view p : parameters) operands.push_back(c.tensor(p));
  setReduced(c, c.pointwise(operands, c.commonSizes(operands), d, d, cost, formula));
}

Scalar squared(Scalar x) { return x * x; }

void lowerSmoothL1(Call& c) {
  const double beta = c.number("beta");
  if (beta < 0) c.refuse("beta", "is negative");
  lowerElementwise(c, {"self", "target"}, 8, [beta](std::span<const Scalar> v) {
    const Scalar z = abs(v[0] - v[1]);
    return beta == 0 ? z : where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta);
  });
}

void lowerHuber(Call& c) {
  const double delta = c.number("delta");
  lowerElementwise(c, {"self", "target"}, 8, [delta](std::span<const Scalar> v) {
    const Scalar z = abs(v[0] - v[1]);
    return where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta));
  });
}

void lowerDivergence(Call& c) {
  const bool isLog = c.flag("log_target");
  lowerElementwise(c, {"self", "target"}, 30, [isLog](std::span<const Scalar> v) {
    const Scalar x = v[0], t = v[1];
    if (isLog) return exp(t) * (t - x);
    const Scalar own = where(isNan(t), t, where(t == 0.0, t.number(0), t * log(t)));
    return own - t * x;
  });
}

// Two classes ---------------------------------------------------------------------------------------------------------

void lowerBinaryLogits(Call& c) {
  const DType d = c.floatingType();
  std::vector<TensorId> operands{c.tensor("self"), c.tensor("target")};
  const bool hasWeight = c.has("weight"), hasPositive = c.has("pos_weight");
  if (hasPositive) operands.push_back(c.tensor("pos_weight"));
  if (hasWeight) operands.push_back(c.tensor("weight"));
  setReduced(
      c, c.pointwise(operands, c.commonSizes(operands), d, d, 40, [hasWeight, hasPositive](std::span<const Scalar> v) {
        const Scalar x = v[0], t = v[1];
        Scalar positive = logSigmoid(x);
        if (hasPositive) positive = positive * ((v[2] - 1.0) * t + 1.0);
        const Scalar loss = (1.0 - t) * x - positive;
        return hasWeight ? loss * v[hasPositive ? 3 : 2] : loss;
      }));
}

/// Of probabilities. PyTorch refuses others than from 0 to 1, and so does the run: as an index out of range.
void lowerBinary(Call& c) {
  const DType d = c.floatingType();
  std::vector<TensorId> operands{c.tensor("self"), c.tensor("target")};
  const bool hasWeight = c.has("weight");
  if (hasWeight) operands.push_back(c.tensor("weight"));
  Lowering& l = c.l;
  setReduced(c, c.pointwise(operands, c.commonSizes(operands), d, d, 40, [&l, hasWeight](std::span<const Scalar> v) {
    const Scalar x = v[0], t = v[1];
    const Scalar isProbability = (x >= 0.0) & (x <= 1.0);
    const ExprId place = l.simplifier.select(isProbability.id, l.integer(0), l.integer(2));
    const Scalar checked = l.scalar(l.pool().checkedIndex(place, l.integer(2)));
    const Scalar no = maximum(log1p(-x), -100.0), yes = maximum(log(x), -100.0);
    const Scalar loss = (t - 1.0) * no - t * yes;
    const Scalar kept = where(checked == 0.0, loss, x);
    return hasWeight ? kept * v[2] : kept;
  }));
}

void lowerHingeEmbedding(Call& c) {
  const double margin = c.number("margin");
  lowerElementwise(c, {"self", "target"}, 6, [margin](std::span<const Scalar> v) {
    const Scalar x = v[0], t = v[1];
    return where(t == 1.0, x.number(0), maximum(margin - x, 0.0)) + where(t == -1.0, x.number(0), x);
  });
}

void lowerMarginRanking(Call& c) {
  const double margin = c.number("margin");
  lowerElementwise(c, {"input1", "input2", "target"}, 4,
                   [margin](std::span<const Scalar> v) { return maximum(-v[2] * (v[0] - v[1]) + margin, 0.0); });
}

void lowerPoisson(Call& c) {
  const bool isLog = c.flag("log_input"), isFull = c.flag("full");
  const double eps = c.number("eps");
  lowerElementwise(c, {"input", "target"}, 40, [isLog, isFull, eps](std::span<const Scalar> v) {
    const Scalar x = v[0], t = v[1];
    const Scalar loss = isLog ? exp(x) - t * x : x - t * log(x + eps);
    if (!isFull) return loss;
    constexpr double twoPi = 6.283185307179586;
    const Scalar stirling = t * log(t) - t + 0.5 * log(twoPi * t);
    return loss + where(t <= 1.0, t.number(0), stirling);
  });
}

// Many classes --------------------------------------------------------------------------------------------------------

/// Targets that are classes: one for each element of (batch, places …), of scores (batch, classes, places …).
struct Classes {
  TensorId scores, targets;
  std::optional<TensorId> weight;
  size_t dim = 0;  ///< of the scores, that counts classes
  int64_t ignored = -100;
  DType dtype = DType::Float32;
};

Classes classesOf(Call& c, TensorId scores, DType d) {
  Classes k{.scores = scores, .targets = c.tensor("target"), .weight = {}, .dtype = d};
  if (c.type(k.targets) != DType::UInt8) requireIndices(c, k.targets, "target");
  if (c.rank(scores) == 0 || c.rank(k.targets) + 1 != c.rank(scores))
    c.refuse("target", "has no class for each element");
  k.dim = c.rank(scores) == 1 ? 0 : 1;
  k.ignored = c.integer("ignore_index");
  if (c.has("weight")) k.weight = c.tensor("weight");
  if (k.weight && c.rank(*k.weight) != 1) c.refuse("weight", "has other than one dimension");
  return k;
}

/// For each target, what `f` makes of its index, its class and the class's weight; 0 where it is ignored.
using OfClass = std::function<Scalar(const Index& i, ExprId place, std::optional<Scalar> weight)>;
TensorId forEachTarget(Call& c, const Classes& k, double cost, OfClass f) {
  Lowering& l = c.l;
  std::vector<TensorId> operands{k.scores, k.targets};
  if (k.weight) operands.push_back(*k.weight);
  return l.define(c.name(), k.dtype, Sizes(c.sizes(k.targets)), cost, operands,
                  [&l, k, f = std::move(f)](const Index& i) {
                    loops::Simplifier& s = l.simplifier;
                    const ExprId target = s.simplify(l.pool().cast(l.at(k.targets, i), DType::Int64));
                    const ExprId isIgnored = s.compare(Op::Equal, target, l.integer(k.ignored));
                    // An ignored one may be no class.
                    const ExprId known = s.select(isIgnored, l.integer(0), target);
                    const ExprId place = placeOf(l, known, l[k.scores].sizes[k.dim], false);
                    std::optional<Scalar> weight;
                    if (k.weight) weight = l.convert(l.scalarAt(*k.weight, {place}), l[*k.weight].dtype, k.dtype);
                    const Scalar value = f(i, place, weight);
                    return where(l.scalar(isIgnored), value.number(0), value).id;
                  });
}

/// The weights of all targets: how many there are, where classes have none.
TensorId weightsOf(Call& c, const Classes& k) {
  Lowering& l = c.l;
  return forEachTarget(c, k, 4, [&l, k](const Index&, ExprId, std::optional<Scalar> weight) {
    return weight ? *weight : l.scalar(l.constant(k.dtype, 1));
  });
}

Index withClass(const Index& i, size_t dim, ExprId place) {
  Index at = i;
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), place);
  return at;
}

/// -weight * score of each target's class
TensorId likelihoods(Call& c, const Classes& k) {
  Lowering& l = c.l;
  return forEachTarget(c, k, 5, [&l, k](const Index& i, ExprId place, std::optional<Scalar> weight) {
    const Scalar score = l.convert(l.scalarAt(k.scores, withClass(i, k.dim, place)), l[k.scores].dtype, k.dtype);
    return weight ? -(score * *weight) : -score;
  });
}

void lowerLikelihood(Call& c) {
  const DType d = c.floatingType();
  const TensorId scores = c.tensor("self");
  if (c.type(scores) != d) c.refuse("self", "has another dtype");
  const Classes k = classesOf(c, scores, d);
  c.traits.picksFromFirst = true;
  const Reduction how = reductionOf(c);
  const bool readsWeight = c.node.outputs.size() > 1 && !c.l.graph.isUnused(c.node.outputs[1]);
  const TensorId each = likelihoods(c, k);
  if (readsWeight && how == Reduction::None) c.refuse("its weights are read, and nothing is added up");
  if (how == Reduction::None) {
    c.result(each);
    return;
  }
  const TensorId sum = total(c, each);
  if (how == Reduction::Sum && !readsWeight) {
    c.result(sum);
    return;
  }
  const TensorId weights = total(c, weightsOf(c, k));
  c.result(how == Reduction::Sum ? sum : quotient(c, sum, weights));
  if (readsWeight) c.result(weights, 1);
}

/// Targets that are probabilities of all classes.
void lowerSoftTargets(Call& c, TensorId scores, TensorId targets, size_t dim, double smoothing) {
  const DType d = c.type(scores);
  Lowering& l = c.l;
  std::optional<TensorId> weight;
  if (c.has("weight")) {
    Sizes sizes(c.rank(scores), l.integer(1));
    sizes[dim] = c.sizes(scores)[dim];
    weight = c.reshaped(c.tensor("weight"), sizes);
  }
  const auto classes = l.findNumber(c.sizes(scores)[dim]);
  if (!classes) c.refuse("self", "has a number of classes that varies");
  std::vector<TensorId> operands{scores, targets};
  if (weight) operands.push_back(*weight);
  const double even = smoothing / static_cast<double>(*classes);
  const TensorId products =
      c.pointwise(operands, Sizes(c.sizes(scores)), d, d, 4, [smoothing, even](std::span<const Scalar> v) {
        const Scalar t = smoothing > 0 ? v[1] * (1 - smoothing) + even : v[1];
        const Scalar p = v[0] * t;
        return -(v.size() > 2 ? p * v[2] : p);
      });
  const Reduction how = reductionOf(c);
  if (how == Reduction::None) {
    c.result(l.reduce(ReduceKind::Sum, products, std::array{dim}, false));
    return;
  }
  const TensorId sum = total(c, products);
  if (how == Reduction::Sum) {
    c.result(sum);
    return;
  }
  const ExprId count = l.simplifier.floorDivide(l.product(c.sizes(scores)), l.integer(*classes));
  c.result(mapped(l, sum, 4, d, [&l, count](Scalar s) { return s / countAs(l, count, s); }));
}

void lowerCrossEntropy(Call& c) {
  const DType d = c.floatingType();
  const TensorId x = c.tensor("self"), targets = c.tensor("target");
  if (c.type(x) != d) c.refuse("self", "has another dtype");
  const double smoothing = c.number("label_smoothing");
  const size_t dim = c.rank(x) == 1 ? 0 : 1;
  if (c.rank(x) == 0) c.refuse("self", "has no classes");
  c.traits.reducedDims = {static_cast<int64_t>(dim)};
  const TensorId scores = logSoftmaxOf(c.l, x, std::array{dim});
  if (isFloatingPoint(c.type(targets))) {
    if (c.rank(targets) != c.rank(x)) c.refuse("target", "has other dimensions than self");
    lowerSoftTargets(c, scores, targets, dim, smoothing);
    return;
  }
  const Classes k = classesOf(c, scores, d);
  const Reduction how = reductionOf(c);
  TensorId each = likelihoods(c, k);
  Lowering& l = c.l;
  if (smoothing > 0) {
    // The mean of all classes, weighted, beside the target's own.
    const auto classes = l.findNumber(c.sizes(x)[dim]);
    if (!classes) c.refuse("self", "has a number of classes that varies");
    TensorId weighted = scores;
    if (k.weight) {
      Sizes sizes(c.rank(scores), l.integer(1));
      sizes[dim] = c.sizes(scores)[dim];
      weighted = mappedWith(l, scores, c.reshaped(*k.weight, sizes), 1, d, [](Scalar v, Scalar w) { return v * w; });
    }
    const TensorId sums = l.reduce(ReduceKind::Sum, weighted, std::array{dim}, false);
    const double even = smoothing / static_cast<double>(*classes);
    const TensorId spread = forEachTarget(c, k, 3, [&l, sums, even](const Index& i, ExprId, std::optional<Scalar>) {
      return -even * l.scalarAt(sums, i);
    });
    each = mappedWith(l, each, spread, 2, d, [smoothing](Scalar a, Scalar b) { return (1 - smoothing) * a + b; });
  }
  if (how == Reduction::None) {
    c.result(each);
    return;
  }
  const TensorId sum = total(c, each);
  c.result(how == Reduction::Sum ? sum : quotient(c, sum, total(c, weightsOf(c, k))));
}

}  // namespace

std::vector<Entry> lossOperators() {
  std::vector<Entry> out;
  const auto loss = [&](const char* name, std::function<void(Call&)> build) {
    out.push_back({std::string("aten.") + name + ".default", Kind::Reduction, std::move(build)});
  };
  loss("mse_loss", [](Call& c) {
    lowerElementwise(c, {"self", "target"}, 2, [](std::span<const Scalar> v) { return squared(v[0] - v[1]); });
  });
  loss("l1_loss", [](Call& c) {
    lowerElementwise(c, {"self", "target"}, 2, [](std::span<const Scalar> v) { return abs(v[0] - v[1]); });
  });
  loss("soft_margin_loss", [](Call& c) {
    lowerElementwise(c, {"self", "target"}, 30, [](std::span<const Scalar> v) { return log1p(exp(-v[0] * v[1])); });
  });
  loss("smooth_l1_loss", lowerSmoothL1);
  loss("huber_loss", lowerHuber);
  loss("kl_div", lowerDivergence);
  loss("binary_cross_entropy", lowerBinary);
  loss("binary_cross_entropy_with_logits", lowerBinaryLogits);
  loss("hinge_embedding_loss", lowerHingeEmbedding);
  loss("margin_ranking_loss", lowerMarginRanking);
  loss("poisson_nll_loss", lowerPoisson);
  for (const char* name : {"nll_loss", "nll_loss2d", "nll_loss_nd", "nll_loss_forward", "nll_loss2d_forward"})
    loss(name, lowerLikelihood);
  loss("cross_entropy_loss", lowerCrossEntropy);
  return out;
}

}  // namespace graft::lower
