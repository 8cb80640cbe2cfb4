// One element of a buffer, and what operations make of elements: the meaning of each Op, for the interpreter and for
// constants that are folded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/compile/loops/expression.h"

namespace graft::loops {

/// A floating number, rounded to its dtype; an integer, wrapped around to it; or a bool, 0 or 1.
union Element {
  int64_t integer = 0;
  double floating;

  static Element of(int64_t value) {
    Element e;
    e.integer = value;
    return e;
  }
  static Element of(double value) {
    Element e;
    e.floating = value;
    return e;
  }
};

/// An integer as a dtype keeps it: wrapped around; of bool: 0 or 1.
int64_t wrapped(int64_t value, DType);

Element loadElement(const std::byte* at, DType);
void storeElement(std::byte* at, DType, Element);
/// A floating number out of an integer's range becomes what PyTorch makes of it on x86: the least i64 or i32, or its
/// lower bits.
Element castElement(Element, DType from, DType to);
Element computeUnary(Op, DType, Element);
/// `dtype`: of the operands.
Element computeBinary(Op, DType dtype, Element, Element);
Element computeUniform(Element seed, Element subsequence, Element block, Element number);

/// Combines elements one after another: reductions and scans.
class Accumulator {
 public:
  Accumulator(ReduceKind, DType);
  void add(Element);
  Element result() const;

 private:
  ReduceKind kind_;
  DType dtype_;
  Element value_;
  int64_t count_ = 0, place_ = 0;
};

}  // namespace graft::loops
