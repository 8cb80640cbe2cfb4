// IrBuilder: LLVM IR as text, for one function of nested loops. Every instruction goes to the outermost loop where its
// operands are known, and an equal one is found again, so what is invariant is hoisted and what is common is computed
// once, whoever asks for it. It knows LLVM's text and nothing of programs.
//
//   IrBuilder b;
//   const std::vector<Value> sum = b.openLoop(zero, n, 16, {b.number(DType::Float32, 0)});
//   Value i = b.loopIndex();
//   …
//   std::vector<Value> result = b.closeLoop({next});
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/type.h"

namespace graft::codegen {

/// A value of the IR. Bool is i1; f16 and bf16 are their bits, i16.
struct Value {
  std::string name;
  DType dtype = DType::Int64;
  int lanes = 1;  ///< 1: a scalar, the same for all lanes of the vectors around it
  int scope = 0;  ///< the loop it belongs to; 0: the function
  bool isConstant = false;

  explicit operator bool() const { return !name.empty(); }
};

class IrBuilder {
 public:
  /// `hasAvx512`: whether the processor that the code is for has AVX-512.
  explicit IrBuilder(bool hasAvx512);

  // Constants, of scope 0
  Value number(DType, double);
  Value integer(DType, int64_t);
  Value boolean(bool);
  Value lanesFrom0(DType, int lanes);  ///< 0, 1, 2 …

  // Instructions. Operands of different widths: the scalar one is spread over the lanes.
  Value binary(std::string_view op, const Value&, const Value&);          ///< the result has the first operand's dtype
  Value compare(std::string_view predicate, const Value&, const Value&);  ///< "fcmp olt"
  Value select(const Value& condition, const Value& then, const Value& otherwise);
  Value convert(std::string_view op, const Value&, DType);  ///< "sitofp"; "bitcast" keeps the bits
  Value unary(std::string_view op, const Value&);           ///< "fneg", "freeze"
  /// An intrinsic whose name ends with the type of its result: "llvm.fabs".
  Value intrinsic(std::string_view name, const std::vector<Value>&);
  /// A C function of scalars, called for each lane.
  Value callEach(const std::string& name, const std::vector<Value>&);
  Value spread(const Value&, int lanes);
  /// An instruction without effect, as text; its operands belong to no loop further in than `scope`.
  Value instruction(DType dtype, int lanes, int scope, const std::string& text) {
    return emit(dtype, lanes, scope, text);
  }
  Value lane(const Value& vector, int64_t index);
  /// The first or the second half of a vector's lanes.
  Value half(const Value& vector, bool second);
  /// Lanes of two vectors, counted through both.
  Value shuffle(const Value& x, const Value& y, const std::vector<int>& from);
  Value anyLane(const Value& condition);  ///< whether one lane is true
  /// x * 2^n, rounded once, of f32, where an instruction does that: AVX-512, and whole registers.
  bool canScale(const Value& x) const { return hasAvx512_ && x.lanes >= 16; }
  Value scale(const Value& x, const Value& n);
  /// A * b + c, fused where the processor can.
  Value multiplyAdd(const Value& a, const Value& b, const Value& c) { return intrinsic("llvm.fmuladd", {a, b, c}); }

  // Memory. A pointer is a Value whose dtype means nothing.
  Value loadPointer(const Value& table, int64_t index);
  Value advance(const Value& pointer, DType element, const Value& count);  ///< `count` elements; lanes as `count` has
  /// An instruction that reads or writes memory, in no loop further out than `scope`. `version` tells equal texts apart
  /// between which memory has changed.
  Value memoryRead(const std::string& text, DType, int lanes, int scope, int64_t version);
  void effect(const std::string& text);  ///< in the innermost loop
  void declare(const std::string& text) { declarations_.insert(text); }
  /// A variable of the function, 0 at first, that flags are or-ed into, in no loop further out than `scope`.
  void raise(const Value& condition, int scope);
  /// The innermost open loop that may run no iteration, 0: none. What only its iterations may do stays in it.
  int emptyScope() const;

  // Loops
  /// for (i = start; i < end; i += step), with values carried from one iteration to the next; returns those.
  std::vector<Value> openLoop(const Value& start, const Value& end, int64_t step, const std::vector<Value>& carried);
  Value loopIndex() const { return scopes_.back().index; }
  /// Ends it with the carried values of the next iteration; returns what they are in the end.
  std::vector<Value> closeLoop(const std::vector<Value>& next);
  int scope() const { return static_cast<int>(scopes_.size()) - 1; }
  /// Closes the view on loops further in than `scope`, so that loops can be opened there; resume() gives them back.
  void suspend(int scope);
  void resume();

  /// The text of the function, with the return of the flags raised.
  std::string finish(const std::string& signature);
  const std::set<std::string>& declarations() const { return declarations_; }

  static std::string type(DType, int lanes);    ///< "<16 x float>"
  static std::string suffix(DType, int lanes);  ///< "v16f32", as intrinsics spell it
  std::string typed(const Value& v) const { return type(v.dtype, v.lanes) + " " + v.name; }
  std::string newName() { return "%v" + std::to_string(names_++); }

 private:
  struct Scope {
    std::string text;
    std::string label;                                ///< of the block that `text` ends in
    std::unordered_map<std::string, Value> numbered;  ///< instructions by their text
    Value index, start, end;
    int64_t step = 0;
    int id = 0;
    std::vector<Value> initial, carried;
  };

  Value emit(DType, int lanes, int scope, const std::string& text);
  Value combine(std::string_view op, const Value&, const Value&, DType result);
  static int commonLanes(std::initializer_list<const Value*>);

  std::vector<Scope> scopes_;
  std::vector<std::vector<Scope>> suspended_;
  std::set<std::string> declarations_;
  bool hasAvx512_;
  int names_ = 0;
  int loops_ = 0;
  bool raises_ = false;
};

}  // namespace graft::codegen
