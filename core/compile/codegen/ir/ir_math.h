// Functions of f32 as vector code: polynomials after an exact reduction of the argument. Each is within 2.5 units in
// the last place of the right result, for every argument, with the NaN, infinities and signs of zero that C's functions
// give. All of it is written for f32; others are called lane by lane from the C library.
#pragma once

#include <optional>
#include <span>

#include "core/compile/codegen/ir/ir_builder.h"

namespace graft::codegen {

Value emitExp(IrBuilder&, const Value&);
Value emitExpNonPositive(IrBuilder&, const Value&);
Value emitExp2(IrBuilder&, const Value&);
Value emitExpm1(IrBuilder&, const Value&);
Value emitLog(IrBuilder&, const Value&);
Value emitLog2(IrBuilder&, const Value&);
Value emitLog10(IrBuilder&, const Value&);
Value emitLog1p(IrBuilder&, const Value&);
Value emitSigmoid(IrBuilder&, const Value&);
Value emitErf(IrBuilder&, const Value&);
Value emitSin(IrBuilder&, const Value&);
Value emitCos(IrBuilder&, const Value&);
Value emitTan(IrBuilder&, const Value&);
Value emitAsin(IrBuilder&, const Value&);
Value emitAcos(IrBuilder&, const Value&);
Value emitAtan(IrBuilder&, const Value&);
Value emitSinh(IrBuilder&, const Value&);
Value emitCosh(IrBuilder&, const Value&);
Value emitTanh(IrBuilder&, const Value&);
Value emitAsinh(IrBuilder&, const Value&);
Value emitAcosh(IrBuilder&, const Value&);
Value emitAtanh(IrBuilder&, const Value&);
/// x to the power of y. `known`: y where it is a constant.
Value emitPower(IrBuilder&, const Value& x, const Value& y, std::optional<double> known);

/// A random f32 in (0, 1] of four i64: see loops::Op::Uniform.
Value emitUniform(IrBuilder&, std::span<const Value>);

}  // namespace graft::codegen
