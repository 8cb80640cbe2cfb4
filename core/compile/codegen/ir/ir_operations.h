// What one operation of a loop expression is in LLVM's instructions.
#pragma once

#include <set>
#include <span>
#include <string>

#include "core/compile/codegen/cpu_code.h"
#include "core/compile/codegen/ir/ir_builder.h"
#include "core/compile/loops/expression.h"

namespace graft::codegen {

inline bool isUnsigned(DType d) { return d == DType::UInt8 || d == DType::Bool; }
inline int bitsOf(DType d) { return static_cast<int>(dtypeSize(d)) * 8; }

class IrOperations {
 public:
  IrOperations(IrBuilder& builder, CpuLevel level) : b_(builder), level_(level) {}

  /// Of an operation without effect. `active`: the lanes whose value matters, or none where all do; an integer is
  /// divided there alone.
  Value operation(const loops::Expr&, std::span<const Value> operands, const Value& active);
  Value cast(const Value&, DType);
  /// Both in the order that Reduces and scans combine in: what has been, and what comes.
  Value combine(loops::ReduceKind, const Value& sofar, const Value& next);
  Value identity(loops::ReduceKind, DType);
  /// Whether `a` comes before `b` in the order of ArgMinimum or ArgMaximum.
  Value isBetter(loops::ReduceKind, const Value& a, const Value& b);
  /// Functions that the code calls, as the module's text defines them.
  const std::set<std::string>& helpers() const { return helpers_; }

 private:
  Value floating(const loops::Expr&, std::span<const Value>);
  Value integral(const loops::Expr&, std::span<const Value>, const Value& active);
  Value libraryFunction(const char* name, std::span<const Value>);
  Value extreme(bool isMaximum, const Value&, const Value&);
  Value integerFunction(const char* name, const char* definition, const Value&, const Value&);
  Value absolute(const Value&);  ///< of integers
  Value power(const Value&, const Value&);
  Value nextAfter(const Value&, const Value& to);
  Value divideInteger(loops::Op, const Value&, const Value&, const Value& active);
  Value halfToFloat(const Value&);
  Value floatToHalf(const Value&);
  Value floatToBFloat(const Value&);

  IrBuilder& b_;
  CpuLevel level_;
  std::set<std::string> helpers_;
};

}  // namespace graft::codegen
