// How CUDA C++ spells types, numbers and operations of loops. The functions are those of cuda_prelude.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/compile/codegen/cpp/c_text.h"
#include "core/compile/loops/expression.h"

namespace graft::codegen {

/// "f32", "i64", …: the names that loops have for them.
std::string cudaType(DType);
std::string cudaNumber(double, DType);
/// `isNarrow`: an i64 that 32 bits hold, as an i32.
std::string cudaNumber(int64_t, DType, bool isNarrow = false);
/// What the combination of nothing is.
std::string cudaIdentity(loops::ReduceKind, DType);
/// The struct whose `of` combines two.
std::string cudaCombination(loops::ReduceKind);
/// The type of what a Reduce keeps of elements of that dtype: of places the best element, too.
std::string cudaAccumulator(loops::ReduceKind, DType);
/// What it keeps of nothing.
std::string cudaStart(loops::ReduceKind, DType);
/// An operation of one or two operands of that dtype, without loads, casts, choices and checks.
std::string cudaOperation(loops::Op, DType, const std::string& a, const std::string& b);
/// The functions that the code calls, in C++ on top of cudaMachinePrelude().
std::string_view cudaHelpers();

}  // namespace graft::codegen
