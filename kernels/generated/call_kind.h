// CallKind: what one call brings, as numbers. SizePattern: what several kinds of calls have in common, so that one
// kernel with sizes as arguments can serve them and all like them.
//
//   CallKind a(inputs, sizes), b(others, sizes);                 // x: 4 rows of 8; x: 4 rows of 20
//   std::optional<SizePattern> p = SizePattern::of({&a.numbers, &b.numbers}, …);   // x: 4 rows of s0
//   std::optional<std::vector<int64_t>> s = p->match(c);         // 20, where c is such a call
//
// Kinds of one family have tensors of the same dtypes and dimensions, sizes 0 and 1 at the same places, and strides of
// the same form: in the same order, each either 1, 0, what the next faster dimension makes it, or a number of its own.
// Numbers alone distinguish them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/size_expression.h"
#include "core/ir/type.h"

namespace graft::ops {

/// How the warning of a kernel that cannot be made ends.
inline constexpr const char* runsAsOperators = "; calls without a kernel run as ATen operators";

/// Whether the tensor is a number on the CPU, which operators take beside tensors of any device.
bool isHostNumber(const at::Tensor&);
/// Where a call runs: the device of the first tensor that is no number on the CPU.
c10::Device deviceOf(at::TensorList);
/// A number on the CPU as one on the device; other tensors as they are.
at::Tensor broughtTo(const c10::Device&, const at::Tensor&);

/// Whether both have the same sizes and, where these count, the same strides.
bool lieAlike(const at::Tensor&, const at::Tensor&);
/// Whether the tensors lie on the device as loops and kernels read them.
bool arePlain(at::TensorList, const c10::Device&);

/// How a tensor's elements lie: its dimensions from the fastest to the slowest.
struct StrideForm {
  enum class Form : char { Unit, Zero, Follows, Own };
  size_t dim = 0;
  Form form = Form::Own;  ///< Follows: the stride of the one before times its size
};
std::vector<StrideForm> strideForms(const at::Tensor&);

struct CallKind {
  CallKind(at::TensorList inputs, at::IntArrayRef sizes);
  std::string family;
  /// Of each tensor its sizes, then the strides of form Own, from the fastest; after all tensors the call's integers.
  std::vector<int64_t> numbers;
  std::vector<bool> isSize;  ///< which of them are sizes of tensors
};

class SizePattern {
 public:
  /// Rows up to this length may stay in memory of a thread's own, which makes softmax half as fast again.
  static constexpr int64_t usualMost = 16384;
  struct Symbol {
    std::string name;    ///< "s0"
    size_t number = 0;   ///< which of a kind's numbers it is
    int64_t factor = 1;  ///< of which that number is so many times
    int64_t min = 0;
    std::optional<int64_t> max;
  };
  struct Options {
    bool fromObserved = false;  ///< sizes are at least as large as in the kinds seen, otherwise at least 2
    bool relations = false;     ///< a size may be another one and a constant: "s0 + 1"
    int64_t factor = 1;         ///< sizes that were multiples of it are: "2*s0"
  };
  /// Numbers that are equal in all rows are constants, columns that are equal are one symbol. A size that was never
  /// larger than `usualMost` has that as its limit. `isSize` says which numbers are sizes of tensors. Names are none of
  /// `taken`. Nothing where no number varies, or a negative one does.
  static std::optional<SizePattern> of(const std::vector<std::vector<int64_t>>& rows, const std::vector<bool>& isSize,
                                       const Options&, const std::function<bool(const std::string&)>& taken);

  /// What the sizes of a program's types say for one kind: `declared` has an expression of symbols for each number that
  /// is one, and is unknown for the others. Nothing where a symbol is 0 or 1, or a number contradicts.
  static std::optional<SizePattern> declared(const std::vector<int64_t>& row, const std::vector<bool>& isSize,
                                             const std::vector<Dim>& declared);

  /// What the symbols are, where the pattern holds for a kind's numbers (of the same family).
  std::optional<std::vector<int64_t>> match(const std::vector<int64_t>& numbers) const;
  const std::vector<Symbol>& symbols() const { return symbols_; }
  /// Each number of a kind: a constant, or an expression of symbols.
  const std::vector<Dim>& numbers() const { return numbers_; }
  /// "4,s0, 2": equal patterns have equal texts.
  const std::string& text() const { return text_; }

 private:
  void finish();

  std::vector<Symbol> symbols_;
  std::vector<Dim> numbers_;
  std::vector<std::optional<SizeExpression>> expressions_;  // of numbers_ that are neither constants nor a symbol alone
  std::vector<int> symbolOf_;                               // of numbers_ that are a symbol alone; -1: others
  std::string text_;
};

/// An expression's value with these values of the symbols, in the pattern's order.
std::optional<int64_t> valueOf(const SizeExpression&, const std::vector<SizePattern::Symbol>&,
                               const std::vector<int64_t>& values);

}  // namespace graft::ops
