#include "core/ir/operators/operator_facts.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <unordered_map>

#include "core/ir/normal_form.h"
#include "core/ir/operators/graft_operators.h"

namespace graft {
namespace {

namespace lines {

using Family = OperatorFamily;
using Shape = ShapeRule;
using DType = DTypeRule;
using enum OperatorFact;

constexpr OperatorFact unary = Pointwise | KeepsLayout;

// Names are those of the normal form. A line without an overload speaks of all overloads that take tensors, unless the
// overload has a line of its own, which then says all that is known of it.
constexpr OperatorFacts table[] = {
    // Functions of one tensor, element by element
    {"aten.acos", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.acosh", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.asin", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.asinh", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.atan", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.atanh", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.abs", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin | AnyIntegers | NoMetaKernel},
    {"aten.angle", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.bitwise_not", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin | AnyIntegers},
    {"aten.ceil", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.conj_physical", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin | MayReturnArgument},
    {"aten.cos", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin | AnyIntegers},
    {"aten.cosh", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.deg2rad", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.digamma", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.erfc", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.erfinv", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.exp2", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.expm1", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.floor", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.frac", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.i0", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.isfinite", Family::Arithmetic, Shape::AsFirst, DType::Bool, unary},
    {"aten.isinf", Family::Arithmetic, Shape::AsFirst, DType::Bool, unary},
    {"aten.isnan", Family::Arithmetic, Shape::AsFirst, DType::Bool, unary},
    {"aten.isneginf", Family::Arithmetic, Shape::AsFirst, DType::Bool, unary},
    {"aten.isposinf", Family::Arithmetic, Shape::AsFirst, DType::Bool, unary},
    {"aten.isreal", Family::Arithmetic, Shape::AsFirst, DType::Bool, unary},
    {"aten.lgamma", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.log10", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.log1p", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.log2", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.logical_not", Family::Arithmetic, Shape::AsFirst, DType::Bool, unary | InPlaceTwin | AnyIntegers},
    {"aten.logit", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.mvlgamma", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.nan_to_num", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.neg", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin | AnyIntegers},
    {"aten.positive", Family::Arithmetic, Shape::AsFirst, DType::First, unary | View},
    {"aten.rad2deg", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.reciprocal", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.round", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.sgn", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.sign", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin | AnyIntegers},
    {"aten.signbit", Family::Arithmetic, Shape::AsFirst, DType::Bool, unary},
    {"aten.sin", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin | AnyIntegers},
    {"aten.sinc", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.sinh", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.special_airy_ai", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_bessel_j0", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_bessel_j1", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_bessel_y0", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_bessel_y1", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_entr", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_erfcx", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_i0e", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_i1", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_i1e", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_log_ndtr", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_modified_bessel_i0", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_modified_bessel_i1", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_modified_bessel_k0", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_modified_bessel_k1", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_ndtr", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_ndtri", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_round", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_scaled_modified_bessel_k0", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_scaled_modified_bessel_k1", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    {"aten.special_spherical_bessel_j0", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary},
    // x ** 2: the number promotes bool.
    {"aten.square", Family::Arithmetic, Shape::AsFirst, DType::Promotes,
     unary | InPlaceTwin | AnyIntegers | NoMetaKernel},
    {"aten.tan", Family::Arithmetic, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.trunc", Family::Arithmetic, Shape::AsFirst, DType::First, unary | InPlaceTwin},

    // Activations, and the elementary functions that norms are made of
    {"aten.celu", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin | NoMetaKernel},
    {"aten.clamp", Family::Activation, Shape::AsFirst, DType::Promotes, unary | InPlaceTwin | AnyIntegers},
    {"aten.clamp_max", Family::Activation, Shape::AsFirst, DType::Promotes, unary | InPlaceTwin | AnyIntegers},
    {"aten.clamp_min", Family::Activation, Shape::AsFirst, DType::Promotes, unary | InPlaceTwin | AnyIntegers},
    {"aten.clamp.Tensor", Family::Activation, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin | AnyIntegers},
    {"aten.clamp_max.Tensor", Family::Activation, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | AnyIntegers},
    {"aten.clamp_min.Tensor", Family::Activation, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | AnyIntegers},
    {"aten.elu", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.erf", Family::Activation, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.exp", Family::Activation, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin | AnyIntegers},
    {"aten.gelu", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.glu", Family::Activation, Shape::SameRank, DType::First, None},
    {"aten.hardshrink", Family::Activation, Shape::AsFirst, DType::First, unary},
    {"aten.hardsigmoid", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin | NoMetaKernel},
    {"aten.hardswish", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin | NoMetaKernel},
    {"aten.hardtanh", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin | NoMetaKernel},
    {"aten.leaky_relu", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.log", Family::Activation, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.log_sigmoid", Family::Activation, Shape::AsFirst, DType::First, unary},
    {"aten.mish", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin | NoMetaKernel},
    {"aten.prelu", Family::Activation, Shape::AsFirst, DType::First, None},
    {"aten.relu", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin | NoMetaKernel},
    {"aten.relu6", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin | NoMetaKernel},
    {"aten.rrelu", Family::Activation, Shape::AsFirst, DType::First, Random},
    {"aten.rsqrt", Family::Activation, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.selu", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin | NoMetaKernel},
    {"aten.sigmoid", Family::Activation, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.silu", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin},
    {"aten.softplus", Family::Activation, Shape::AsFirst, DType::First, unary},
    {"aten.softshrink", Family::Activation, Shape::AsFirst, DType::First, unary},
    {"aten.sqrt", Family::Activation, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.tanh", Family::Activation, Shape::AsFirst, DType::KeepsFloating, unary | InPlaceTwin},
    {"aten.threshold", Family::Activation, Shape::AsFirst, DType::First, unary | InPlaceTwin},

    // Functions of two and three tensors
    {"aten.add", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | Commutative | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.add_", Family::Arithmetic, Shape::AsFirst, DType::First, NumberOperand | CpuNumber},
    {"aten.addcdiv", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.addcmul", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.atan2", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise | InPlaceTwin},
    {"aten.bitwise_and", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | Commutative | CpuNumber | AnyIntegers},
    {"aten.bitwise_left_shift", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.bitwise_or", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | Commutative | CpuNumber | AnyIntegers},
    {"aten.bitwise_right_shift", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.bitwise_xor", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | Commutative | CpuNumber | AnyIntegers},
    {"aten.copysign", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise | InPlaceTwin},
    {"aten.div", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat,
     Pointwise | InPlaceTwin | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.div.Tensor_mode", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat,
     Pointwise | InPlaceTwin | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.div_", Family::Arithmetic, Shape::AsFirst, DType::First, NumberOperand | CpuNumber},
    {"aten.eq", Family::Arithmetic, Shape::Broadcast, DType::Bool,
     Pointwise | Commutative | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.float_power", Family::Arithmetic, Shape::Broadcast, DType::Unknown, Pointwise},
    {"aten.floor_divide", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.fmax", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | Commutative},
    {"aten.fmin", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | Commutative},
    {"aten.fmod", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.gcd", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.ge", Family::Arithmetic, Shape::Broadcast, DType::Bool, Pointwise | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.gt", Family::Arithmetic, Shape::Broadcast, DType::Bool, Pointwise | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.heaviside", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.hypot", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.igamma", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.igammac", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.isclose", Family::Arithmetic, Shape::Broadcast, DType::Bool, Pointwise},
    {"aten.lcm", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.ldexp", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise | InPlaceTwin},
    {"aten.le", Family::Arithmetic, Shape::Broadcast, DType::Bool, Pointwise | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.lerp", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.logaddexp", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise},
    {"aten.logaddexp2", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise},
    {"aten.logical_and", Family::Arithmetic, Shape::Broadcast, DType::Bool,
     Pointwise | Commutative | CpuNumber | AnyIntegers},
    {"aten.logical_or", Family::Arithmetic, Shape::Broadcast, DType::Bool,
     Pointwise | Commutative | CpuNumber | AnyIntegers},
    {"aten.logical_xor", Family::Arithmetic, Shape::Broadcast, DType::Bool, Pointwise | Commutative},
    {"aten.lt", Family::Arithmetic, Shape::Broadcast, DType::Bool, Pointwise | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.max.other", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise},
    {"aten.maximum", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | Commutative | CpuNumber | AnyIntegers},
    {"aten.min.other", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise},
    {"aten.minimum", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | Commutative | CpuNumber | AnyIntegers},
    {"aten.mul", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | Commutative | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.mul_", Family::Arithmetic, Shape::AsFirst, DType::First, NumberOperand | CpuNumber},
    {"aten.ne", Family::Arithmetic, Shape::Broadcast, DType::Bool,
     Pointwise | Commutative | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.nextafter", Family::Arithmetic, Shape::Broadcast, DType::Promotes, Pointwise | InPlaceTwin},
    {"aten.polygamma", Family::Arithmetic, Shape::Broadcast, DType::Unknown, Pointwise},
    {"aten.pow", Family::Activation, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | NumberOperand | CpuNumber},
    {"aten.remainder", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.rsub", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.special_chebyshev_polynomial_t", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_chebyshev_polynomial_u", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_chebyshev_polynomial_v", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_chebyshev_polynomial_w", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_gammainc", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_gammaincc", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_hermite_polynomial_h", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_hermite_polynomial_he", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_laguerre_polynomial_l", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_legendre_polynomial_p", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_shifted_chebyshev_polynomial_t", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat,
     Pointwise},
    {"aten.special_shifted_chebyshev_polynomial_u", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat,
     Pointwise},
    {"aten.special_shifted_chebyshev_polynomial_v", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat,
     Pointwise},
    {"aten.special_shifted_chebyshev_polynomial_w", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat,
     Pointwise},
    {"aten.special_xlog1py", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_xlogy", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.special_zeta", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise},
    {"aten.sub", Family::Arithmetic, Shape::Broadcast, DType::Promotes,
     Pointwise | InPlaceTwin | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.sub_", Family::Arithmetic, Shape::AsFirst, DType::First, NumberOperand | CpuNumber},
    {"aten.xlogy", Family::Arithmetic, Shape::Broadcast, DType::PromotesToFloat, Pointwise | InPlaceTwin},

    // Integers that sizes are computed from
    {"aten.add.int", Family::Arithmetic, Shape::Unknown, DType::Unknown, IntegerArithmetic | Commutative},
    {"aten.floordiv.int", Family::Arithmetic, Shape::Unknown, DType::Unknown, IntegerArithmetic},
    {"aten.mul.int", Family::Arithmetic, Shape::Unknown, DType::Unknown, IntegerArithmetic | Commutative},
    {"aten.neg.int", Family::Arithmetic, Shape::Unknown, DType::Unknown, IntegerArithmetic},
    {"aten.sub.int", Family::Arithmetic, Shape::Unknown, DType::Unknown, IntegerArithmetic},

    // Softmax
    {"aten.softmax", Family::Softmax, Shape::AsFirst, DType::First, None},
    {"aten.log_softmax", Family::Softmax, Shape::AsFirst, DType::First, None},
    {"aten._safe_softmax", Family::Softmax, Shape::AsFirst, DType::First, None},
    {"aten._softmax", Family::Softmax, Shape::AsFirst, DType::First, None},
    {"aten._log_softmax", Family::Softmax, Shape::AsFirst, DType::First, None},

    // Reductions
    {"aten.all", Family::Reduction, Shape::Reduced, DType::Bool, None},
    {"aten.amax", Family::Reduction, Shape::Reduced, DType::First, AnyIntegers},
    {"aten.amin", Family::Reduction, Shape::Reduced, DType::First, AnyIntegers},
    {"aten.aminmax", Family::Reduction, Shape::Reduced, DType::First, None},
    {"aten.any", Family::Reduction, Shape::Reduced, DType::Bool, None},
    {"aten.argmax", Family::Reduction, Shape::Reduced, DType::Int64, None},
    {"aten.argmin", Family::Reduction, Shape::Reduced, DType::Int64, None},
    {"aten.count_nonzero", Family::Reduction, Shape::Reduced, DType::Int64, None},
    {"aten.linalg_norm", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.linalg_vector_norm", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.logsumexp", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.max", Family::Reduction, Shape::Reduced, DType::First, None},
    {"aten.mean", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.median", Family::Reduction, Shape::Reduced, DType::First, None},
    {"aten.min", Family::Reduction, Shape::Reduced, DType::First, None},
    {"aten.mode", Family::Reduction, Shape::Reduced, DType::First, None},
    {"aten.nanmean", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.nanmedian", Family::Reduction, Shape::Reduced, DType::First, None},
    {"aten.nansum", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.norm", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.prod", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.std", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.std_mean", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.sum", Family::Reduction, Shape::Reduced, DType::KeepsFloating, AnyIntegers},
    {"aten.var", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},
    {"aten.var_mean", Family::Reduction, Shape::Reduced, DType::KeepsFloating, None},

    // Along a dimension that stays
    {"aten.argsort", Family::Scan, Shape::AsFirst, DType::Int64, None},
    {"aten.cummax", Family::Scan, Shape::AsFirst, DType::First, None},
    {"aten.cummin", Family::Scan, Shape::AsFirst, DType::First, None},
    {"aten.cumprod", Family::Scan, Shape::AsFirst, DType::KeepsFloating, InPlaceTwin},
    {"aten.cumsum", Family::Scan, Shape::AsFirst, DType::KeepsFloating, InPlaceTwin},
    {"aten.logcumsumexp", Family::Scan, Shape::AsFirst, DType::KeepsFloating, None},
    {"aten.sort", Family::Scan, Shape::AsFirst, DType::First, None},
    {"aten.topk", Family::Scan, Shape::SameRank, DType::First, None},

    // Norms. In training, batch_norm and instance_norm keep statistics
    {"aten.batch_norm", Family::Normalization, Shape::AsFirst, DType::First, NoMetaKernel},
    {"aten.group_norm", Family::Normalization, Shape::AsFirst, DType::First, NoMetaKernel},
    {"aten.instance_norm", Family::Normalization, Shape::AsFirst, DType::First, NoMetaKernel},
    {"aten.layer_norm", Family::Normalization, Shape::AsFirst, DType::First, NoMetaKernel | RowMajor},
    {"aten.native_batch_norm", Family::Normalization, Shape::AsFirst, DType::First, None},
    {"aten.native_group_norm", Family::Normalization, Shape::AsFirst, DType::First, None},
    {"aten.native_layer_norm", Family::Normalization, Shape::AsFirst, DType::First, RowMajor},
    {"aten.rms_norm", Family::Normalization, Shape::AsFirst, DType::First, NoMetaKernel},
    {"aten._weight_norm", Family::Normalization, Shape::AsFirst, DType::First, NoMetaKernel},

    // Products
    {"aten.addbmm", Family::Product, Shape::Unknown, DType::Common, None},
    {"aten.addmm", Family::Product, Shape::Unknown, DType::Common, RowMajor},
    {"aten.addmv", Family::Product, Shape::Unknown, DType::Unknown, None},
    {"aten.baddbmm", Family::Product, Shape::Unknown, DType::Common, RowMajor},
    {"aten.bmm", Family::Product, Shape::SameRank, DType::Common, RowMajor},
    {"aten.dot", Family::Product, Shape::Unknown, DType::Common, None},
    {"aten.einsum", Family::Product, Shape::Unknown, DType::Common, None},
    {"aten.gru", Family::Product, Shape::Unknown, DType::Unknown, Random},
    {"aten.lstm", Family::Product, Shape::Unknown, DType::Unknown, Random},
    {"aten.linear", Family::Product, Shape::SameRank, DType::Common, RowMajor},
    {"aten.matmul", Family::Product, Shape::Product, DType::Common, RowMajor},
    {"aten.mm", Family::Product, Shape::Product, DType::Common, RowMajor},
    {"aten.mv", Family::Product, Shape::OneLess, DType::Common, None},
    {"aten.scaled_dot_product_attention", Family::Product, Shape::SameRank, DType::Common, Random},
    {"aten._scaled_dot_product_cudnn_attention_backward", Family::Unknown, Shape::Unknown, DType::Unknown,
     AbsentTensors},
    {"aten._scaled_dot_product_efficient_attention_backward", Family::Unknown, Shape::Unknown, DType::Unknown,
     AbsentTensors},
    {"aten._scaled_dot_product_flash_attention_backward", Family::Unknown, Shape::Unknown, DType::Unknown,
     AbsentTensors},
    {"aten._scaled_dot_product_fused_attention_overrideable_backward", Family::Unknown, Shape::Unknown, DType::Unknown,
     AbsentTensors},
    {"aten._cudnn_attention_backward", Family::Unknown, Shape::Unknown, DType::Unknown, AbsentTensors},
    {"aten._efficient_attention_backward", Family::Unknown, Shape::Unknown, DType::Unknown, AbsentTensors},
    {"aten._flash_attention_backward", Family::Unknown, Shape::Unknown, DType::Unknown, AbsentTensors},

    // Gradients
    {"aten._adaptive_avg_pool2d_backward", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten._log_softmax_backward_data", Family::Softmax, Shape::AsFirst, DType::Unknown, None},
    {"aten._softmax_backward_data", Family::Softmax, Shape::AsFirst, DType::Unknown, None},
    {"aten.avg_pool2d_backward", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.convolution_backward", Family::Convolution, Shape::Unknown, DType::Unknown, None},
    {"aten.elu_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.embedding_dense_backward", Family::Lookup, Shape::Unknown, DType::First, None},
    {"aten.gelu_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.hardsigmoid_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.hardswish_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.hardtanh_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.leaky_relu_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.max_pool2d_with_indices_backward", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.mse_loss_backward", Family::Arithmetic, Shape::Unknown, DType::Unknown, None},
    {"aten.native_batch_norm_backward", Family::Normalization, Shape::AsFirst, DType::First, None},
    {"aten.native_dropout_backward", Family::Activation, Shape::AsFirst, DType::KeepsFloating, None},
    {"aten.native_group_norm_backward", Family::Normalization, Shape::AsFirst, DType::First, None},
    {"aten.native_layer_norm_backward", Family::Normalization, Shape::AsFirst, DType::First, None},
    {"aten.nll_loss_backward", Family::Lookup, Shape::Unknown, DType::Unknown, None},
    {"aten.select_backward", Family::Shape, Shape::Listed, DType::First, None},
    {"aten.sigmoid_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.silu_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.slice_backward", Family::Shape, Shape::Listed, DType::First, None},
    {"aten.tanh_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},
    {"aten.threshold_backward", Family::Activation, Shape::AsFirst, DType::Promotes, None},

    // Convolutions
    {"aten._convolution", Family::Convolution, Shape::SameRank, DType::Common, None},
    {"aten._convolution_mode", Family::Convolution, Shape::SameRank, DType::Common, None},
    {"aten.conv1d", Family::Convolution, Shape::SameRank, DType::Common, None},
    {"aten.conv2d", Family::Convolution, Shape::SameRank, DType::Common, None},
    {"aten.conv3d", Family::Convolution, Shape::SameRank, DType::Common, None},
    {"aten.convolution", Family::Convolution, Shape::SameRank, DType::Common, None},

    // Windows
    {"aten.adaptive_avg_pool1d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.adaptive_avg_pool2d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.adaptive_avg_pool3d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.avg_pool1d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.avg_pool2d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.avg_pool3d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.max_pool1d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.max_pool2d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.max_pool2d_with_indices", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.max_pool3d", Family::Pooling, Shape::SameRank, DType::First, None},
    {"aten.max_pool3d_with_indices", Family::Pooling, Shape::SameRank, DType::First, None},

    // Elements chosen by indices or masks
    {"aten.embedding", Family::Lookup, Shape::Lookup, DType::First, RowMajor},
    {"aten.gather", Family::Lookup, Shape::Unknown, DType::First, MovesOnly},
    {"aten.index_select", Family::Lookup, Shape::SameRank, DType::First, MovesOnly},
    {"aten.masked_fill", Family::Lookup, Shape::Broadcast, DType::First, Pointwise | InPlaceTwin | AnyIntegers},
    {"aten.masked_fill.Tensor", Family::Lookup, Shape::Broadcast, DType::First,
     Pointwise | InPlaceTwin | NumberOperand | CpuNumber | AnyIntegers},
    {"aten.index", Family::Lookup, Shape::Unknown, DType::Unknown, None},
    {"aten.index_put", Family::Lookup, Shape::AsFirst, DType::First, InPlaceTwin},
    {"aten.masked_select", Family::Lookup, Shape::Unknown, DType::First, MovesOnly},
    {"aten.scatter", Family::Lookup, Shape::AsFirst, DType::First, InPlaceTwin},
    {"aten.scatter_add", Family::Lookup, Shape::AsFirst, DType::First, InPlaceTwin},
    {"aten.take", Family::Lookup, Shape::Unknown, DType::First, MovesOnly},
    {"aten.take_along_dim", Family::Lookup, Shape::Unknown, DType::First, MovesOnly},
    {"aten.where", Family::Lookup, Shape::Unknown, DType::Unknown, AnyIntegers},
    {"aten.where.self", Family::Lookup, Shape::Broadcast, DType::Unknown, Pointwise | AnyIntegers},

    // Reshapes: the same elements in the same order
    {"aten._unsafe_view", Family::Shape, Shape::Listed, DType::First, View | Reshape | MovesOnly},
    {"aten.flatten", Family::Shape, Shape::Unknown, DType::First, MayView | Reshape | MovesOnly | AnyIntegers},
    {"aten.ravel", Family::Shape, Shape::Unknown, DType::First, MayView | MovesOnly},
    {"aten.reshape", Family::Shape, Shape::Listed, DType::First,
     MayView | Reshape | KeepsLayout | MovesOnly | AnyIntegers},
    {"aten.reshape_as", Family::Shape, Shape::Unknown, DType::First, MayView | MovesOnly},
    {"aten.unflatten", Family::Shape, Shape::Unknown, DType::First, View | Reshape | MovesOnly | AnyIntegers},
    {"aten.view.default", Family::Shape, Shape::Listed, DType::First,
     View | Reshape | KeepsLayout | MovesOnly | AnyIntegers},
    {"aten.view.dtype", Family::Shape, Shape::Unknown, DType::Unknown, View | AnyIntegers},
    {"aten.view_as", Family::Shape, Shape::Unknown, DType::First, View | MovesOnly},

    // Views
    {"aten.as_strided", Family::Shape, Shape::Listed, DType::First, View},
    {"aten.broadcast_to", Family::Shape, Shape::Listed, DType::First, View | MovesOnly},
    {"aten.conj", Family::Shape, Shape::AsFirst, DType::First, View},
    {"aten.detach", Family::Shape, Shape::AsFirst, DType::First, View | Identity | MovesOnly | AnyIntegers},
    {"aten.alias", Family::Shape, Shape::AsFirst, DType::First, View | Identity | MovesOnly},
    {"aten.diagonal", Family::Shape, Shape::OneLess, DType::First, View | MovesOnly},
    {"aten.expand", Family::Shape, Shape::Listed, DType::First, View | MovesOnly | AnyIntegers},
    {"aten.expand_as", Family::Shape, Shape::Unknown, DType::First, View | MovesOnly | AnyIntegers},
    {"aten.mH", Family::Shape, Shape::SameRank, DType::First, View},
    {"aten.mT", Family::Shape, Shape::SameRank, DType::First, View | MovesOnly},
    {"aten.matrix_H", Family::Shape, Shape::SameRank, DType::First, View},
    {"aten.movedim", Family::Shape, Shape::SameRank, DType::First, View | MovesOnly},
    {"aten.narrow", Family::Shape, Shape::SameRank, DType::First, View | MovesOnly},
    {"aten.numpy_T", Family::Shape, Shape::SameRank, DType::First, View | MovesOnly},
    {"aten.permute", Family::Shape, Shape::Permuted, DType::First, View | MovesOnly | AnyIntegers},
    {"aten.select", Family::Shape, Shape::OneLess, DType::First, View | MovesOnly | AnyIntegers},
    {"aten.slice", Family::Shape, Shape::SameRank, DType::First, View | MovesOnly | AnyIntegers},
    {"aten.squeeze", Family::Shape, Shape::Unknown, DType::First, View | MovesOnly | AnyIntegers},
    {"aten.t", Family::Shape, Shape::SameRank, DType::First, View | MovesOnly},
    {"aten.transpose", Family::Shape, Shape::SameRank, DType::First, View | MovesOnly | AnyIntegers},
    {"aten.unfold", Family::Shape, Shape::OneMore, DType::First, View | MovesOnly},
    {"aten.unsqueeze", Family::Shape, Shape::OneMore, DType::First, View | MovesOnly | AnyIntegers},
    {"aten.chunk", Family::Shape, Shape::Unknown, DType::First, View | Splits},
    {"aten.dsplit", Family::Shape, Shape::Unknown, DType::First, View | Splits},
    {"aten.hsplit", Family::Shape, Shape::Unknown, DType::First, View | Splits},
    {"aten.split", Family::Shape, Shape::Unknown, DType::First, View | Splits},
    {"aten.split_with_sizes", Family::Shape, Shape::Unknown, DType::First, View | Splits},
    {"aten.tensor_split", Family::Shape, Shape::Unknown, DType::First, View | Splits},
    {"aten.unbind", Family::Shape, Shape::Unknown, DType::First, View | Splits},
    {"aten.vsplit", Family::Shape, Shape::Unknown, DType::First, View | Splits},

    // Identities, which a pattern looks through
    {"aten.lift", Family::Shape, Shape::AsFirst, DType::First, Identity | MovesOnly},
    {"aten.lift_fresh", Family::Shape, Shape::AsFirst, DType::First, View | Identity | MovesOnly},
    {"aten.lift_fresh_copy", Family::Shape, Shape::AsFirst, DType::First, Identity | MovesOnly},
    {"aten.resolve_conj", Family::Shape, Shape::AsFirst, DType::First, MayView | Identity | MovesOnly},
    {"aten.resolve_neg", Family::Shape, Shape::AsFirst, DType::First, MayView | Identity | MovesOnly},
    {"prim.data", Family::Shape, Shape::AsFirst, DType::First, View | Identity},
    {"prim.unchecked_cast", Family::Control, Shape::Unknown, DType::Unknown, Identity},

    // Dropouts
    {"aten.alpha_dropout", Family::Activation, Shape::AsFirst, DType::First,
     Dropout | Random | MayReturnArgument | InPlaceTwin},
    {"aten.dropout", Family::Activation, Shape::AsFirst, DType::First,
     Dropout | Random | MayReturnArgument | InPlaceTwin | KeepsLayout},
    {"aten.feature_alpha_dropout", Family::Activation, Shape::AsFirst, DType::First,
     Dropout | Random | MayReturnArgument | InPlaceTwin},
    {"aten.feature_dropout", Family::Activation, Shape::AsFirst, DType::First,
     Dropout | Random | MayReturnArgument | InPlaceTwin},
    {"aten.alpha_dropout_", Family::Activation, Shape::AsFirst, DType::First, Dropout | Random},
    {"aten.dropout_", Family::Activation, Shape::AsFirst, DType::First, Dropout | Random},
    {"aten.feature_alpha_dropout_", Family::Activation, Shape::AsFirst, DType::First, Dropout | Random},
    {"aten.feature_dropout_", Family::Activation, Shape::AsFirst, DType::First, Dropout | Random},
    {"aten.native_dropout", Family::Activation, Shape::AsFirst, DType::First, Dropout | Random},

    // Copies, joins and other orders
    {"aten.align_as", Family::Shape, Shape::Unknown, DType::First, MayReturnArgument},
    {"aten.align_tensors", Family::Shape, Shape::Unknown, DType::Unknown, MayReturnArgument},
    {"aten.atleast_1d", Family::Shape, Shape::Unknown, DType::First, MayReturnArgument | MovesOnly},
    {"aten.atleast_2d", Family::Shape, Shape::Unknown, DType::First, MayReturnArgument | MovesOnly},
    {"aten.atleast_3d", Family::Shape, Shape::Unknown, DType::First, MayReturnArgument | MovesOnly},
    {"aten.broadcast_tensors", Family::Shape, Shape::Unknown, DType::Unknown, MayReturnArgument},
    {"aten.cat", Family::Shape, Shape::SameRank, DType::Joined, AnyIntegers},
    {"aten.clone", Family::Shape, Shape::AsFirst, DType::First, MovesOnly | AnyIntegers},
    {"aten.constant_pad_nd", Family::Shape, Shape::SameRank, DType::First, None},
    {"aten.copy", Family::Shape, Shape::AsFirst, DType::First, InPlaceTwin},
    {"aten.contiguous", Family::Shape, Shape::AsFirst, DType::First, MayView | RowMajor | MovesOnly | AnyIntegers},
    {"aten.flatten_dense_tensors", Family::Shape, Shape::Unknown, DType::Unknown, MayReturnArgument},
    {"aten.flip", Family::Shape, Shape::AsFirst, DType::First, MovesOnly},
    {"aten.meshgrid", Family::Shape, Shape::Unknown, DType::Unknown, MayReturnArgument},
    {"aten.pad", Family::Shape, Shape::SameRank, DType::First, None},
    {"aten.pixel_shuffle", Family::Shape, Shape::SameRank, DType::First, MovesOnly},
    {"aten.repeat", Family::Shape, Shape::Unknown, DType::First, MovesOnly | AnyIntegers},
    {"aten.roll", Family::Shape, Shape::AsFirst, DType::First, MovesOnly | NoMetaKernel},
    {"aten.stack", Family::Shape, Shape::OneMore, DType::Joined, AnyIntegers},
    {"aten.tile", Family::Shape, Shape::Unknown, DType::First, MovesOnly},
    {"aten.to_dense", Family::Shape, Shape::Unknown, DType::Unknown, MayReturnArgument},
    {"aten.tril", Family::Shape, Shape::AsFirst, DType::First, InPlaceTwin},
    {"aten.triu", Family::Shape, Shape::AsFirst, DType::First, InPlaceTwin},

    // Casts
    {"aten._cast_Byte", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument},
    {"aten._cast_Char", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument},
    {"aten._cast_Double", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument},
    {"aten._cast_Float", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument},
    {"aten._cast_Half", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument},
    {"aten._cast_Int", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument},
    {"aten._cast_Long", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument},
    {"aten._cast_Short", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument},
    {"aten._to_copy", Family::Cast, Shape::AsFirst, DType::Unknown, AnyIntegers},
    {"aten.to", Family::Cast, Shape::AsFirst, DType::Unknown, MayView | AnyIntegers},
    {"aten.type_as", Family::Cast, Shape::AsFirst, DType::Unknown, MayReturnArgument | AnyIntegers},

    // Tensors from sizes
    {"aten.empty", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.eye", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.linspace", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.logspace", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.ones", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.zeros", Family::Factory, Shape::Unknown, DType::DefaultFloat, None},
    {"aten.rand", Family::Factory, Shape::Unknown, DType::DefaultFloat, Random},
    {"aten.randn", Family::Factory, Shape::Unknown, DType::DefaultFloat, Random},
    {"aten.arange", Family::Factory, Shape::Unknown, DType::Unknown, None},
    {"aten.full", Family::Factory, Shape::Unknown, DType::Unknown, None},
    {"aten.empty_like", Family::Factory, Shape::AsFirst, DType::First, None},
    {"aten.full_like", Family::Factory, Shape::AsFirst, DType::First, None},
    {"aten.ones_like", Family::Factory, Shape::AsFirst, DType::First, None},
    {"aten.zeros_like", Family::Factory, Shape::AsFirst, DType::First, None},
    {"aten.rand_like", Family::Factory, Shape::AsFirst, DType::First, Random},
    {"aten.randn_like", Family::Factory, Shape::AsFirst, DType::First, Random},
    {"aten.randint_like", Family::Factory, Shape::AsFirst, DType::First, Random},
    {"aten.new_empty", Family::Factory, Shape::Unknown, DType::First, None},
    {"aten.new_full", Family::Factory, Shape::Unknown, DType::First, None},
    {"aten.new_ones", Family::Factory, Shape::Unknown, DType::First, None},
    {"aten.new_zeros", Family::Factory, Shape::Unknown, DType::First, None},
    {"aten.randint", Family::Factory, Shape::Unknown, DType::Int64, Random},
    {"aten.randperm", Family::Factory, Shape::Unknown, DType::Int64, Random},
    {"aten.scalar_tensor", Family::Factory, Shape::Unknown, DType::Unknown, None},

    // Random numbers
    {"aten.bernoulli", Family::Arithmetic, Shape::AsFirst, DType::First, Random},
    {"aten.binomial", Family::Arithmetic, Shape::Unknown, DType::Unknown, Random},
    {"aten.multinomial", Family::Arithmetic, Shape::Unknown, DType::Int64, Random},
    {"aten.normal", Family::Arithmetic, Shape::Unknown, DType::Unknown, Random},
    {"aten.poisson", Family::Arithmetic, Shape::AsFirst, DType::First, Random},
    {"aten.bernoulli_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.cauchy_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.exponential_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.geometric_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.log_normal_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.normal_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.random_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},
    {"aten.uniform_", Family::Factory, Shape::AsFirst, DType::First, Random | NoFunctionalForm},

    // In place only
    {"aten.copy_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.detach_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.fill_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.rename_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.requires_grad_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.zero_", Family::Shape, Shape::AsFirst, DType::First, NoFunctionalForm},
    {"aten.as_strided_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.resize_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace | NoFunctionalForm},
    {"aten.resize_as_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace | NoFunctionalForm},
    {"aten.set_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace | NoFunctionalForm},
    {"aten.squeeze_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.swapaxes_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.swapdims_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.t_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.transpose_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},
    {"aten.unsqueeze_", Family::Shape, Shape::Unknown, DType::First, ReshapesInPlace},

    // Sizes and other properties
    {"aten.dim", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly | AnyIntegers},
    {"aten.is_complex", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.is_floating_point", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.numel", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.size", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly | AnyIntegers},
    {"aten.storage_offset", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.stride", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.sym_numel", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.sym_size", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.sym_storage_offset", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},
    {"aten.sym_stride", Family::Query, Shape::Unknown, DType::Unknown, MetadataOnly},

    // Effects that schemas do not show
    {"aten._assert_async", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},
    {"aten._assert_scalar", Family::Control, Shape::Unknown, DType::Unknown, SideEffects | Guard},
    {"aten._assert_tensor_metadata", Family::Control, Shape::Unknown, DType::Unknown, Guard},
    {"aten.save", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},
    {"aten.sym_constrain_range", Family::Control, Shape::Unknown, DType::Unknown, SideEffects | Guard},
    {"aten.sym_constrain_range_for_size", Family::Control, Shape::Unknown, DType::Unknown, Guard},
    {"aten.warn", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},
    {"prim.Print", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},
    {"prim.RaiseException", Family::Control, Shape::Unknown, DType::Unknown, SideEffects},

    // The graph's own language
    {"_operator.getitem", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.Constant", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.DictConstruct", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.If", Family::Control, Shape::Unknown, DType::Unknown, Structural},
    {"prim.ListConstruct", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.ListUnpack", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.Loop", Family::Control, Shape::Unknown, DType::Unknown, Structural},
    {"prim.NumToTensor", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.TupleConstruct", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.TupleIndex", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.TupleUnpack", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
    {"prim.getitem", Family::Shape, Shape::Unknown, DType::Unknown, Structural},
};

}  // namespace lines

// The line of a graft:: operator, from the words of its description.
OperatorFacts factsOfDescription(const GraftOperator& op, std::string_view name) {
  OperatorFacts f{.name = name, .facts = OperatorFact::OwnLayout};
  for (std::string_view rest = op.facts; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word == "row_major")
      f.facts = f.facts | OperatorFact::RowMajor;
    else if (word == "pointwise")
      f.facts = f.facts | OperatorFact::Pointwise;
    else if (word == "convolution")
      f.family = OperatorFamily::Convolution;
    else
      assert(!"an operator's description has a fact that nobody knows");
  }
  return f;
}

std::vector<OperatorFacts> wholeTable() {
  static std::vector<std::string> names;  // of graft:: operators
  std::vector<OperatorFacts> out(std::begin(lines::table), std::end(lines::table));
  names.reserve(graftOperators().size());
  for (const GraftOperator& op : graftOperators())
    out.push_back(factsOfDescription(op, names.emplace_back("graft." + std::string(op.name))));
  return out;
}

}  // namespace

const std::vector<OperatorFacts>& allOperatorFacts() {
  static const std::vector<OperatorFacts> all = wholeTable();
  return all;
}

const OperatorFacts& factsOf(std::string_view spelled) {
  static const std::unordered_map<std::string_view, const OperatorFacts*> byName = [] {
    std::unordered_map<std::string_view, const OperatorFacts*> out;
    for (const OperatorFacts& f : allOperatorFacts()) out.emplace(f.name, &f);
    return out;
  }();
  const std::string_view name = canonicalOperator(spelled);
  if (const auto it = byName.find(name); it != byName.end()) return *it->second;
  const size_t overload = name.rfind('.');
  if (overload == name.npos || name.find('.') == overload) return noOperatorFacts;
  const auto it = byName.find(name.substr(0, overload));
  return it == byName.end() ? noOperatorFacts : *it->second;
}

}  // namespace graft
