#include "core/ir/normal_form.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "core/ir/operators/operator_facts.h"

namespace graft {
namespace {

struct Pair {
  std::string_view from, to;
};

// Each left one takes the same arguments as the right one and computes the same from them. Tensor parameters may hold
// numbers, so the Scalar overloads fall together with the Tensor ones.
constexpr Pair sameOperator[] = {
    {"aten.add.Scalar", "aten.add.Tensor"},
    {"aten.add_.Scalar", "aten.add_.Tensor"},
    {"aten.sub_.Scalar", "aten.sub_.Tensor"},
    {"aten.mul_.Scalar", "aten.mul_.Tensor"},
    {"aten.div_.Scalar", "aten.div_.Tensor"},
    {"aten.sub.Scalar", "aten.sub.Tensor"},
    {"aten.subtract.Tensor", "aten.sub.Tensor"},
    {"aten.subtract.Scalar", "aten.sub.Tensor"},
    {"aten.mul.Scalar", "aten.mul.Tensor"},
    {"aten.multiply.Tensor", "aten.mul.Tensor"},
    {"aten.multiply.Scalar", "aten.mul.Tensor"},
    {"aten.div.Scalar", "aten.div.Tensor"},
    {"aten.div.Scalar_mode", "aten.div.Tensor_mode"},
    {"aten.divide.Tensor", "aten.div.Tensor"},
    {"aten.divide.Scalar", "aten.div.Tensor"},
    {"aten.divide.Tensor_mode", "aten.div.Tensor_mode"},
    {"aten.divide.Scalar_mode", "aten.div.Tensor_mode"},
    {"aten.true_divide.Tensor", "aten.div.Tensor"},
    {"aten.true_divide.Scalar", "aten.div.Tensor"},
    {"aten.floor_divide.Scalar", "aten.floor_divide.default"},
    {"aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor"},
    {"aten.pow.Scalar", "aten.pow.Tensor_Tensor"},
    {"aten.eq.Scalar", "aten.eq.Tensor"},
    {"aten.ne.Scalar", "aten.ne.Tensor"},
    {"aten.lt.Scalar", "aten.lt.Tensor"},
    {"aten.le.Scalar", "aten.le.Tensor"},
    {"aten.gt.Scalar", "aten.gt.Tensor"},
    {"aten.ge.Scalar", "aten.ge.Tensor"},
    {"aten.not_equal.Tensor", "aten.ne.Tensor"},
    {"aten.not_equal.Scalar", "aten.ne.Tensor"},
    {"aten.less.Tensor", "aten.lt.Tensor"},
    {"aten.less.Scalar", "aten.lt.Tensor"},
    {"aten.less_equal.Tensor", "aten.le.Tensor"},
    {"aten.less_equal.Scalar", "aten.le.Tensor"},
    {"aten.greater.Tensor", "aten.gt.Tensor"},
    {"aten.greater.Scalar", "aten.gt.Tensor"},
    {"aten.greater_equal.Tensor", "aten.ge.Tensor"},
    {"aten.greater_equal.Scalar", "aten.ge.Tensor"},
    {"aten.remainder.Scalar", "aten.remainder.Tensor"},
    {"aten.fmod.Scalar", "aten.fmod.Tensor"},
    {"aten.bitwise_and.Scalar", "aten.bitwise_and.Tensor"},
    {"aten.bitwise_or.Scalar", "aten.bitwise_or.Tensor"},
    {"aten.bitwise_xor.Scalar", "aten.bitwise_xor.Tensor"},
    {"aten.__and__.Tensor", "aten.bitwise_and.Tensor"},
    {"aten.__and__.Scalar", "aten.bitwise_and.Tensor"},
    {"aten.__or__.Tensor", "aten.bitwise_or.Tensor"},
    {"aten.__or__.Scalar", "aten.bitwise_or.Tensor"},
    {"aten.__xor__.Tensor", "aten.bitwise_xor.Tensor"},
    {"aten.__xor__.Scalar", "aten.bitwise_xor.Tensor"},
    {"aten.__lshift__.Tensor", "aten.bitwise_left_shift.Tensor"},
    {"aten.__lshift__.Scalar", "aten.bitwise_left_shift.Tensor"},
    {"aten.__rshift__.Tensor", "aten.bitwise_right_shift.Tensor"},
    {"aten.__rshift__.Scalar", "aten.bitwise_right_shift.Tensor"},
    {"aten.where.ScalarSelf", "aten.where.self"},
    {"aten.where.ScalarOther", "aten.where.self"},
    {"aten.where.Scalar", "aten.where.self"},
    {"aten.swapaxes.default", "aten.transpose.int"},
    {"aten.swapdims.default", "aten.transpose.int"},
    {"aten.sym_size.int", "aten.size.int"},
    {"aten.special_softmax.default", "aten.softmax.int"},
    {"aten.special_log_softmax.default", "aten.log_softmax.int"},
    {"aten.split.sizes", "aten.split_with_sizes.default"},
};

// Names of one operator that take the same arguments in every overload, as TorchScript's own list of aliases has them.
constexpr Pair sameName[] = {
    {"absolute", "abs"},
    {"adjoint", "mH"},
    {"arccos", "acos"},
    {"arccosh", "acosh"},
    {"arcsin", "asin"},
    {"arcsinh", "asinh"},
    {"arctan", "atan"},
    {"arctan2", "atan2"},
    {"arctanh", "atanh"},
    {"clip", "clamp"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"det", "linalg_det"},
    {"fix", "trunc"},
    {"ger", "outer"},
    {"inverse", "linalg_inv"},
    {"linalg_matmul", "matmul"},
    {"matrix_exp", "linalg_matrix_exp"},
    {"moveaxis", "movedim"},
    {"negative", "neg"},
    {"row_stack", "vstack"},
    {"special_digamma", "digamma"},
    {"special_erf", "erf"},
    {"special_erfc", "erfc"},
    {"special_erfinv", "erfinv"},
    {"special_exp2", "exp2"},
    {"special_expit", "sigmoid"},
    {"special_expm1", "expm1"},
    {"special_gammaln", "lgamma"},
    {"special_i0", "i0"},
    {"special_log1p", "log1p"},
    {"special_logit", "logit"},
    {"special_logsumexp", "logsumexp"},
    {"special_multigammaln", "mvlgamma"},
    {"special_polygamma", "polygamma"},
    {"special_psi", "digamma"},
    {"special_sinc", "sinc"},
};
constexpr std::string_view sameNameOverloads[] = {"default", "Tensor", "int", "intlist"};

// Where two parameters of one operator have another name than the rule below expects.
constexpr std::string_view dimensionNames[] = {
    "dim",       "dim0",    "dim1",           "dims",      "axis",   "axis0",       "axis1",
    "start_dim", "end_dim", "normalized_dim", "dimension", "source", "destination",
};

constexpr std::string_view irrelevantNames[] = {
    "cudnn_enable", "cudnn_enabled", "benchmark", "deterministic",      "allow_tf32",
    "pin_memory",   "non_blocking",  "sparse",    "scale_grad_by_freq",
};

template <size_t n>
bool contains(const std::string_view (&table)[n], std::string_view what) {
  return std::find(std::begin(table), std::end(table), what) != std::end(table);
}

std::string_view baseOf(std::string_view op) {
  const size_t first = op.find('.'), last = op.rfind('.');
  return first == op.npos ? op : op.substr(first + 1, last == first ? op.npos : last - first - 1);
}

}  // namespace

std::string_view canonicalOperator(std::string_view name) {
  static const std::unordered_map<std::string_view, std::string_view> table = [] {
    std::unordered_map<std::string_view, std::string_view> t;
    for (const Pair& p : sameOperator) t.emplace(p.from, p.to);
    static std::deque<std::string> made;  // what the views look at
    const auto full = [&](std::string_view base, std::string_view end, std::string_view overload) {
      return std::string_view(
          made.emplace_back("aten." + std::string(base) + std::string(end) + "." + std::string(overload)));
    };
    for (const Pair& p : sameName)
      for (const std::string_view overload : sameNameOverloads)
        for (const std::string_view end : {"", "_"}) t.emplace(full(p.from, end, overload), full(p.to, end, overload));
    return t;
  }();
  const auto it = table.find(name);
  return it == table.end() ? name : it->second;
}

std::optional<std::string> functionalForm(std::string_view inPlace) {
  const size_t last = inPlace.rfind('.'), first = inPlace.find('.');
  if (first == inPlace.npos || last == first) return std::nullopt;
  std::string_view base = inPlace.substr(first + 1, last - first - 1);
  // "__iadd__" is add_, "add_" ends in one underscore, "_foo_" is private all the same.
  std::string functional;
  if (base.starts_with("__i") && base.ends_with("__") && base.size() > 5) {
    functional = base.substr(3, base.size() - 5);
    if (functional == "and" || functional == "or" || functional == "xor") functional = "__" + functional + "__";
  } else if (base.size() > 1 && base.ends_with("_") && !base.ends_with("__")) {
    functional = base.substr(0, base.size() - 1);
  } else {
    return std::nullopt;
  }
  if (factsOf(inPlace).has(OperatorFact::NoFunctionalForm)) return std::nullopt;
  return std::string(
      canonicalOperator(std::string(inPlace.substr(0, first + 1)) + functional + std::string(inPlace.substr(last))));
}

bool isIrrelevantParameter(std::string_view op, std::string_view parameter) {
  // "sparse" and "scale_grad_by_freq" of an embedding matter to its gradient alone.
  if (parameter == "sparse" || parameter == "scale_grad_by_freq" || parameter == "padding_idx")
    return baseOf(op) == "embedding";
  return contains(irrelevantNames, parameter);
}

bool isDimensionParameter(std::string_view op, std::string_view parameter) {
  if (parameter == "source" || parameter == "destination") return baseOf(op) == "movedim";
  if (!contains(dimensionNames, parameter)) return false;
  // Where "dim" is no dimension but a number of them.
  return baseOf(op) != "combinations" && baseOf(op) != "tensordot";
}

}  // namespace graft
