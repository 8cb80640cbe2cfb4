#include "core/torch/run/float32_parts.h"

#include <algorithm>
#include <complex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/ir/operators/dtype_facts.h"
#include "core/torch/values/operators.h"

namespace graft {
namespace {

/// PyTorch has no kernels of half precision for these, or (Fourier transforms) for some sizes on a GPU alone.
bool lacksHalfPrecision(std::string_view op) {
  static constexpr std::string_view names =
      " "
      "_cdist_forward _ctc_loss _fft_c2c _fft_c2r _fft_r2c _linalg_det _linalg_eigh _linalg_slogdet "
      "_linalg_solve_ex _linalg_svd _lu_with_info _pdist_forward cdist cholesky cholesky_inverse "
      "cholesky_solve complex ctc_loss det fft_fft fft_fft2 fft_fftn fft_hfft fft_hfft2 fft_hfftn fft_ifft "
      "fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft "
      "fft_rfft2 fft_rfftn geqrf histogram histogramdd inverse istft linalg_cholesky linalg_cholesky_ex "
      "linalg_cond linalg_det linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh "
      "linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex "
      "linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve "
      "linalg_matrix_exp linalg_matrix_norm linalg_matrix_power linalg_matrix_rank linalg_norm linalg_pinv "
      "linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd "
      "linalg_svdvals linalg_tensorinv linalg_tensorsolve logdet lu_solve matrix_exp multi_margin_loss "
      "multilabel_margin_loss multilabel_margin_loss_forward orgqr ormqr pdist pinverse polar qr quantile "
      "slogdet special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 "
      "special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v "
      "special_chebyshev_polynomial_w special_erfcx special_hermite_polynomial_h "
      "special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p "
      "special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 "
      "special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0 "
      "special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t "
      "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v "
      "special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_zeta stft svd trace "
      "triangular_solve view_as_complex ";
  return names.find(' ' + std::string(op) + ' ') != std::string_view::npos;
}

/// Nor of double precision for these.
bool lacksDoublePrecision(std::string_view op) { return op == "_grouped_mm"; }

class Keeper {
 public:
  Keeper(const Graph& g, const DTypeChange& change, const std::vector<NodeId>& named) : change_(change) {
    parts_.graph = g;
    parts_.originalNodes = g.nodeBound();
    named_.resize(g.nodeBound());
    for (NodeId n : named) named_[n.index] = 1;
  }

  Float32Parts run() {
    parts_.nodes.resize(g_.nodeBound());
    parts_.weights.resize(g_.valueBound());
    float32_.resize(g_.valueBound());
    squared_.resize(g_.valueBound());
    graded_.resize(g_.valueBound());
    findDTypes();
    findFlexible();
    const std::vector<NodeId> order = g_.order();
    quotients_.resize(g_.nodeBound());
    if (change_.to == DType::Float64) {
      for (NodeId id : order)
        if (lacksDoublePrecision(g_.node(id).op->baseName())) keep(g_.node(id));
    } else {
      for (NodeId id : order) markQuotient(g_.node(id));
      for (NodeId id : order) grade(g_.node(id));
      for (NodeId id : order) decide(g_.node(id));
    }
    for (NodeId id : order)
      if (parts_.nodes[id.index])
        for (const Argument& a : g_.node(id).args)
          a.forEachValue([&](ValueId v) { parts_.weights[v.index] |= flexible_[v.index]; });
    fallback_ = order.empty() ? NodeId() : order.front();
    for (NodeId id : order) join(id);
    for (size_t b = 0; b < g_.blockBound(); ++b) joinReturns(BlockId(static_cast<uint32_t>(b)));
    return std::move(parts_);
  }

 private:
  /// Of numbers: none that are floating, the model's, or (for all that is known) either.
  enum class Kind { NoFloat, Model, Other };

  /// Whether the change makes another dtype of it. Of half and float32, the way to double precision makes one.
  bool isModels(DType d) const {
    const bool toDouble = change_.to == DType::Float64;
    return d == change_.from || (toDouble && isFloatingPoint(d) && dtypeSize(d) < dtypeSize(DType::Float64));
  }
  Kind kindOf(const Type& t) const {
    switch (t.kind) {
      case Type::Kind::Tensor:
        if (!t.tensorInfo.dtype) return Kind::Other;
        return isModels(*t.tensorInfo.dtype)          ? Kind::Model
               : isFloatingPoint(*t.tensorInfo.dtype) ? Kind::Other
                                                      : Kind::NoFloat;
      case Type::Kind::Int:
      case Type::Kind::Float:
      case Type::Kind::Bool:
      case Type::Kind::Number:
      case Type::Kind::String:
      case Type::Kind::DType:
      case Type::Kind::None:
        return Kind::NoFloat;
      case Type::Kind::List:
        return kindOf(t.element()) == Kind::NoFloat ? Kind::NoFloat : Kind::Other;
      default:
        return Kind::Other;
    }
  }
  /// What the type says, else what was found.
  std::optional<DType> dtypeOf(ValueId v) const {
    const auto& said = g_.value(v).type.tensorInfo.dtype;
    return said || v.index >= dtypes_.size() ? said : dtypes_[v.index];
  }
  Kind kindOf(ValueId v) const {
    Type t = g_.value(v).type;
    if (t.isTensor()) t.tensorInfo.dtype = dtypeOf(v);
    return kindOf(t);
  }

  /// Computes with complex numbers: those of two halves have few kernels.
  bool isComplex(const Node& n) const {
    bool is = false;
    const auto look = [&](ValueId v) {
      const auto dtype = dtypeOf(v);
      is |= dtype && graft::isComplex(*dtype);
    };
    for (const Argument& a : n.args) {
      is |= a.as<std::complex<double>>() != nullptr;
      a.forEachValue(look);
    }
    for (ValueId v : n.outputs) look(v);
    return is;
  }

  /// A file may leave types open, of which operators tell the dtype.
  void findDTypes() {
    dtypes_.resize(g_.valueBound());
    DTypeFacts facts(g_);
    for (NodeId id : g_.order()) {
      const Node& n = g_.node(id);
      for (ValueId v : n.outputs) {
        const Type& t = g_.value(v).type;
        if (!t.isTensor() || t.tensorInfo.dtype) continue;
        dtypes_[v.index] = facts.of(v);
        if (dtypes_[v.index] || v != n.outputs.front()) continue;
        // What is made of it is known with it.
        Type told = t;
        told.tensorInfo.dtype = ofUnknownFirst(n);
        g_.setType(v, std::move(told));
      }
    }
  }
  /// What lacks a precision and tells nothing of its dtype gives numbers like those that it is given.
  std::optional<DType> ofUnknownFirst(const Node& n) const {
    const std::string_view op = n.op->baseName();
    const bool isOther =
        op == "complex" || op == "polar" || op == "stft" || op == "istft" || op == "linalg_matrix_rank";
    if (isOther || !(lacksHalfPrecision(op) || lacksDoublePrecision(op))) return std::nullopt;
    std::optional<DType> found;
    for (const Argument& a : n.args)
      a.forEachValue([&](ValueId v) {
        const auto dtype = dtypeOf(v);
        if (!found && dtype && isFloatingPoint(*dtype)) found = dtype;
      });
    return found;
  }

  /// Buffers and constants go with whatever they are used for. In a frozen model all weights are constants, and a
  /// buffer that is written to holds what the model computes: these are the model's.
  void findFlexible() {
    flexible_.resize(g_.valueBound());
    if (change_.to == DType::Float64) return;  // and back to float32, where an operator wants it, without a loss
    bool parameters = false;
    for (ValueId w : g_.weights())
      parameters |= !g_.value(w).isBuffer && !g_.value(w).isConstant && kindOf(w) == Kind::Model;
    const std::vector<NodeId> order = g_.order();
    const bool writes = std::any_of(order.begin(), order.end(), [&](NodeId id) { return g_.node(id).op->writes(); });
    for (ValueId w : g_.weights())
      flexible_[w.index] =
          parameters && kindOf(w) == Kind::Model && (g_.value(w).isConstant || (g_.value(w).isBuffer && !writes));
  }

  // Quotients of products
  // ------------------------------------------------------------------------------------------------------------------
  /// Whether it gives its first argument on: a piece of it, a permutation or a cast.
  static bool passesFirst(const Node& n) {
    const OperatorFamily family = n.op->facts->family;
    return (family == OperatorFamily::Shape || family == OperatorFamily::Cast) && !n.args.empty() &&
           n.args[0].isValue();
  }
  /// A weight, or what passes one on.
  bool isOfWeight(ValueId v) const {
    while (g_.value(v).kind == Value::Kind::Output) {
      const Node& n = g_.node(g_.value(v).producer);
      if (!passesFirst(n)) return false;
      v = n.args[0].valueId();
    }
    return g_.isWeight(v);
  }
  /// A product of activations, or a sum.
  bool isFactor(const Node& n) const {
    if (n.outputs.size() != 1 || kindOf(n.outputs[0]) != Kind::Model) return false;
    if (n.op->facts->family != OperatorFamily::Product) return n.op->baseName() == "sum";
    bool hasWeight = false;
    for (const Argument& a : n.args) a.forEachValue([&](ValueId v) { hasWeight |= isOfWeight(v); });
    return !hasWeight;
  }

  /// Adds a number to its first argument, or bounds it by one.
  static bool isOffset(const Node& n) {
    const std::string_view op = n.op->baseName();
    if (!(op == "add" || op == "sub" || op == "clamp" || op == "clamp_min")) return false;
    size_t values = 0;
    for (const Argument& a : n.args) a.forEachValue([&](ValueId) { ++values; });
    return values == 1 && n.args[0].isValue();
  }

  struct Way {
    std::vector<NodeId> nodes;  ///< from the value up
    NodeId factor;              ///< above them; none: something else is
  };
  /// Through pieces, permutations and casts, and where `offsets`, numbers that are added or are a bound.
  Way wayUp(ValueId v, bool offsets) const {
    Way way;
    while (g_.value(v).kind == Value::Kind::Output) {
      const Node& n = g_.node(g_.value(v).producer);
      if (isFactor(n)) {
        way.factor = n.id;
        break;
      }
      if (n.op->writes() || n.op->is(OperatorFact::Structural)) break;
      if (!passesFirst(n) && !(offsets && isOffset(n))) break;
      way.nodes.push_back(n.id);
      v = n.args[0].valueId();
    }
    return way;
  }
  /// What the factor is computed from, and itself, without the pieces and permutations between.
  std::set<ValueId> rootsOf(NodeId factor) const {
    std::set<ValueId> out{g_.node(factor).outputs[0]};
    for (const Argument& a : g_.node(factor).args)
      a.forEachValue([&](ValueId v) {
        const Way way = wayUp(v, false);
        out.insert(way.nodes.empty() ? v : g_.node(way.nodes.back()).args[0].valueId());
      });
    return out;
  }

  void markQuotient(const Node& n) {
    if (n.op->baseName() != "div" || n.args.size() < 2 || !n.args[0].isValue() || !n.args[1].isValue()) return;
    std::vector<Way> open{wayUp(n.args[0].valueId(), true), wayUp(n.args[1].valueId(), true)};
    if (!open[0].factor || !open[1].factor || quotients_[n.id.index]) return;
    const std::set<ValueId> above = rootsOf(open[0].factor), below = rootsOf(open[1].factor);
    if (std::none_of(above.begin(), above.end(), [&](ValueId v) { return below.contains(v); })) return;
    quotients_[n.id.index] = 1;
    while (!open.empty()) {
      const Way way = std::move(open.back());
      open.pop_back();
      for (NodeId on : way.nodes) quotients_[on.index] = 1;
      if (std::exchange(quotients_[way.factor.index], 1)) continue;
      for (const Argument& a : g_.node(way.factor).args)
        a.forEachValue([&](ValueId v) {
          if (Way further = wayUp(v, false); further.factor) open.push_back(std::move(further));
        });
    }
  }

  bool isReducedSquare(const Node& n) const {
    const std::string_view op = n.op->baseName();
    if (n.args.empty() || !n.args[0].isValue() || n.outputs.size() != 1) return false;
    const bool square = op == "square" || (op == "pow" && n.args.size() > 1 && n.args[1].number() == 2.0) ||
                        (op == "mul" && n.args.size() > 1 && n.args[0] == n.args[1]);
    const Value& out = g_.value(n.outputs[0]);
    if (!square || out.users.empty() || out.returnUses > 0) return false;
    return std::all_of(out.users.begin(), out.users.end(), [&](NodeId user) {
      const std::string_view by = g_.node(user).op->baseName();
      return by == "mean" || by == "sum";
    });
  }

  /// Values that follow from counting (arange, cumsum) without a comparison between: distances and positions, of which
  /// a mask, all 0 and lowest numbers, says nothing.
  void grade(const Node& n) {
    const std::string_view op = n.op->baseName();
    bool out = op == "arange" || op == "linspace" || n.op->facts->family == OperatorFamily::Scan;
    if (n.op->facts->family != OperatorFamily::Factory)  // zeros_like
      for (const Argument& a : n.args) a.forEachValue([&](ValueId v) { out = out || graded_[v.index]; });
    if (!out || !n.blocks.empty()) return;
    for (ValueId v : n.outputs) {
      const Type& t = g_.value(v).type;
      graded_[v.index] = t.isTensor() && (t.tensorInfo.dtype ? t.tensorInfo.dtype : dtypes_[v.index]) != DType::Bool;
    }
  }

  /// All that is done with the value is to add, to scale and to mask it, before a softmax. `steps` bounds the search.
  bool onlyScores(ValueId v, int& steps) const {
    const Value& value = g_.value(v);
    if (value.users.empty() || value.returnUses > 0) return false;
    return std::all_of(value.users.begin(), value.users.end(), [&](NodeId user) {
      const Node& n = g_.node(user);
      if (n.op->facts->family == OperatorFamily::Softmax) return true;
      const bool passes = n.op->facts->family == OperatorFamily::Arithmetic || n.op->is(OperatorFact::Reshape) ||
                          n.op->facts->family == OperatorFamily::Cast || n.op->baseName() == "masked_fill";
      return --steps > 0 && passes && !n.op->writes() && n.outputs.size() == 1 && onlyScores(n.outputs[0], steps);
    });
  }

  /// Adds distances that stay in float32 to the scores of an attention. PyTorch adds them in float32 and takes the
  /// softmax of that: in half precision a distance of 100 is off by as much as scores differ.
  bool biasesScores(const Node& n) const {
    if ((n.op->baseName() != "add" && n.op->baseName() != "sub") || n.outputs.size() != 1) return false;
    bool graded = false;
    for (const Argument& a : n.args)
      a.forEachValue([&](ValueId v) { graded |= float32_[v.index] && graded_[v.index]; });
    int steps = 64;
    return graded && onlyScores(n.outputs[0], steps);
  }

  void decide(const Node& n) {
    if (!n.blocks.empty()) return;
    bool inFloat32 = false, inModel = false, allSquared = true;
    const auto look = [&](ValueId v) {
      if (float32_[v.index]) {
        inFloat32 = true;
      } else if (!flexible_[v.index] && kindOf(v) != Kind::NoFloat) {
        inModel = true;
        allSquared = allSquared && squared_[v.index];
      }
    };
    for (const Argument& a : n.args) a.forEachValue(look);
    for (const auto& [key, a] : n.kwargs) a.forEachValue(look);
    bool keeps;
    const bool isQuotient = quotients_[n.id.index];
    if (n.op->writes() && !isQuotient) {
      keeps = !n.args.empty() && n.args[0].isValue() && float32_[n.args[0].valueId().index];
    } else if (isQuotient || !inModel || named_[n.id.index] || lacksHalfPrecision(n.op->baseName()) || isComplex(n)) {
      keeps = true;
    } else if (inFloat32) {
      keeps = (allSquared && n.op->facts->family == OperatorFamily::Arithmetic) || biasesScores(n);
    } else {
      keeps = isReducedSquare(n) && kindOf(n.args[0].valueId()) == Kind::Model;
      if (keeps) squared_[n.args[0].valueId().index] = 1;
    }
    if (keeps) keep(n);
  }

  void keep(const Node& n) {
    parts_.nodes[n.id.index] = 1;
    for (ValueId v : n.outputs) float32_[v.index] = kindOf(v) != Kind::NoFloat;
  }

  // Casts
  // ------------------------------------------------------------------------------------------------------------------
  ValueId castOf(ValueId v, bool up, NodeId wantedBy) {
    auto& made = (up ? up_ : down_)[v.index];
    if (made) return made;
    static const OperatorRef op = TorchOperators().find("aten.to.dtype");
    const DType to = up ? DType::Float32 : *change_.to;
    std::vector<Argument> args{Argument(v), Argument(to), Argument(false), Argument(false), Argument()};
    const Value& value = g_.value(v);
    const std::string name = value.name + (up ? "_float32" : "_cast");
    NodeId node;
    if (value.kind == Value::Kind::Output && !g_.node(value.producer).outputs.empty())
      node = g_.insertAfter(value.producer, op, std::move(args), name);
    else
      node = g_.prepend(value.kind == Value::Kind::BlockParameter ? value.block : g_.root(), op, std::move(args), name);
    Type type = g_.value(v).type;
    type.tensorInfo.dtype = to;
    made = g_.output(node);
    g_.setType(made, std::move(type));
    const NodeId producer = g_.value(v).producer;
    if (producer) {
      g_.setModule(node, g_.node(producer).module);
      g_.setSource(node, g_.node(producer).source);
    }
    parts_.nodes.resize(g_.nodeBound());
    parts_.nodes[node.index] = 1;  // its dtype is what it says
    parts_.serves.resize(g_.nodeBound());
    parts_.serves[node.index] = producer ? producer : wantedBy;
    return made;
  }

  bool isFloat32(ValueId v) const { return float32_[v.index]; }

  /// The argument as a node of that side takes it.
  Argument joined(Argument a, bool keeps, NodeId wantedBy) {
    a.forEachValueMutable([&](ValueId& v) {
      if (v.index >= float32_.size() || kindOf(v) != Kind::Model) return;
      const bool is = flexible_[v.index] ? parts_.weights[v.index] : isFloat32(v);
      const bool takesNoPart = g_.isWeight(v) && g_.value(v).type.tensorInfo.shape &&
                               g_.value(v).type.tensorInfo.shape->empty();  // in the promotion of dtypes
      if (is != keeps && !takesNoPart) v = castOf(v, keeps, wantedBy);
    });
    return a;
  }

  void join(NodeId id) {
    const bool keeps = parts_.nodes[id.index];
    std::vector<Argument> args = g_.node(id).args;
    for (Argument& a : args) a = joined(std::move(a), keeps, id);
    if (args != g_.node(id).args) g_.setArguments(id, std::move(args));
  }

  void joinReturns(BlockId b) {
    std::vector<Argument> returns = g_.block(b).returns;
    for (Argument& a : returns) a = joined(std::move(a), false, fallback_);
    if (returns != g_.block(b).returns) g_.setReturns(b, std::move(returns));
  }

  DTypeChange change_;
  Float32Parts parts_;
  Graph& g_ = parts_.graph;
  std::vector<std::optional<DType>> dtypes_;                 ///< by ValueId, where the type says none
  std::vector<char> float32_, squared_, flexible_, graded_;  ///< by ValueId
  std::vector<char> quotients_;                              ///< by NodeId: of products, or what leads there
  std::vector<char> named_;                                  ///< by NodeId
  std::unordered_map<uint32_t, ValueId> up_, down_;
  NodeId fallback_;
};

}  // namespace

std::optional<Float32Parts> keepFloat32(const Graph& g, const DTypeChange& change, const std::vector<NodeId>& named) {
  const bool toDouble = change.to == DType::Float64;
  if (!change.to || !change.from || (change.from != DType::Float32 && !toDouble)) return std::nullopt;
  const auto lacksDouble = [&](NodeId id) { return lacksDoublePrecision(g.node(id).op->baseName()); };
  const bool isNeeded = toDouble ? std::ranges::any_of(g.order(), lacksDouble) : dtypeSize(*change.to) == 2;
  if (!isNeeded) return std::nullopt;
  return Keeper(g, change, named).run();
}

}  // namespace graft
