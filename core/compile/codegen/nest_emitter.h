// NestEmitter: one nest of a program as an LLVM function. Expressions become values where they are first needed; the
// IrBuilder moves them out of the loops that they do not depend on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/ir/ir_builder.h"
#include "core/compile/codegen/ir/ir_operations.h"
#include "core/compile/codegen/loop_plan.h"
#include "core/compile/codegen/prepare.h"

namespace graft::codegen {

/// Zeros that stand for what a load must not read: @graft.nothing.
constexpr size_t kNothingBytes = 512;  // 64 lanes of f64

class NestEmitter {
 public:
  /// `slots`: the place of each buffer in the call's list of pointers; -1 for locals. `width`: lanes of f32 in a
  /// register.
  NestEmitter(Accesses&, NestRewriter&, CpuLevel, int width, const std::vector<int>& slots, const LoopSchedule&);

  struct Emitted {
    std::string function;  ///< its text
    ExprId iterations, scratchBytes;
    double instructions = 0;
  };
  Emitted emit(const loops::Nest&, const std::string& name);
  const std::set<std::string>& declarations() const { return b_.declarations(); }
  const std::set<std::string>& helpers() const { return operations_.helpers(); }

 private:
  /// What a range is at the moment.
  struct Binding {
    Value index;          ///< i64; of lane 0
    int lanes = 1;        ///< > 1: lane k has index + k
    int scope = 0;        ///< of the loop it runs in
    bool isZero = false;  ///< part of a merged loop, whose last range counts for all
  };
  /// The vectors around the expression that is emitted.
  struct Lanes {
    int count = 1;
    Value active;  ///< which lanes run; none: all
  };
  /// The Selects around it: conditions that must hold, or must not, from the innermost out. 0: none.
  struct Guard {
    int outer = 0;
    ExprId condition;
    bool isThen = true;
    Value known;  ///< instead of a condition: what all of them come to
    bool isOf(int o, ExprId c, bool then) const { return !known && outer == o && condition == c && isThen == then; }
  };
  struct Pointer {
    Value at;  ///< one pointer, or one for each lane
    bool isContiguous = false;
    int64_t step = 0;  ///< not 0: `at` is lane 0's, and each next lane lies so many elements further
  };

  // Loops (nest_loops.cpp)
  void openRange(const Loop&, const Value& start, const Value& end, int64_t step, int lanes,
                 const std::vector<Value>& carried, std::vector<Value>* inside);
  std::vector<Value> closeRange(const Loop&, const std::vector<Value>& next);
  /// Step `step` of a loop that is written out: its ranges are numbers.
  void bindSteps(const Loop&, int64_t step);
  void unbindSteps(const Loop&);
  void forget(RangeId);  ///< values that depend on it
  /// Runs `body` for [start, end) of the loop, `lanes` at a time, and the rest with lanes switched off, `restLanes` at
  /// a time. `length`: of it where it is known.
  void forLanes(const Loop&, const Value& start, const Value& end, std::optional<int64_t> length, int lanes,
                int restLanes, const std::function<void()>& body);
  int restLanes(std::optional<int64_t> length) const;  ///< of the plan's lanes along a range of that length
  /// The stores of an iteration, apart for each part of an outer range in which a `cat` reads one of its inputs.
  void emitParts(const loops::Nest&, size_t part);
  void emitLanes(const loops::Nest&);
  void findParts(const loops::Nest&);
  /// The cheapest of: the nest, with rows that several of its loops read across the lanes kept in locals, and with a
  /// range taken apart whose elements alternate.
  loops::Nest cheapest(const loops::Nest&);
  void emitStores(const loops::Nest&);
  void emitStore(const loops::Store&);
  void emitElement(const loops::Store&);
  /// Whether `next` reduces the row that `row` stores, element by element: one loop does both.
  bool isReducedBy(const loops::Store& row, const loops::Store& next);
  void openIterations(const NestPlan&);
  void closeIterations();
  /// Pointers to buffers, locals one after another in the scratch memory. Returns the bytes that it takes.
  ExprId placeBuffers(const loops::Nest&);

  // Expressions (nest_emitter.cpp)
  Value value(ExprId);
  Value compute(ExprId);
  bool fitsInt32(ExprId);  ///< whatever the ranges are
  Value rangeValue(RangeId);
  Value selectValue(const loops::Expr&);
  Value checkedValue(const loops::Expr&);
  Value guardValue(int guard);
  /// The lanes in which an instruction counts; none: in all. Of scalars: whether it counts in any.
  Value activeLanes(bool isUnsafe, int lanes);
  void remember(ExprId, int guard, const Value&);
  void forget(BufferId written);
  /// Values that depend on it, or were computed under a condition that does.
  void forgetWhere(const std::function<bool(const Dependence&)>& depends);
  int scopeOf(ExprId);
  bool isVector(ExprId);

  // Memory (nest_memory.cpp)
  /// `mayStep`: the caller takes a step instead of a pointer for each lane.
  Pointer pointer(BufferId, const Affine&, bool mayStep = false);
  Value load(ExprId);
  /// As many elements as lanes; nothing is read where `active` is false.
  Value readVector(const Value& pointer, DType, int lanes, const Value& active, int scope, int64_t version);
  void store(BufferId, const Affine&, const Value&);
  void storeValue(BufferId, const Affine&, Value);  ///< as inMemory() gives it
  Value inMemory(BufferId, const Value&);           ///< as it lies there: a bool is a byte
  void writeMasked(const Value& pointer, const Value& v, const Value& active);
  std::optional<int64_t> known(ExprId) const;

  // Locals in the memory of outputs (nest_places.cpp)
  void placeInOutputs(const loops::Nest&);
  /// The load of a local that the store turns into an output and nobody reads later.
  std::optional<ExprId> findInPlace(const loops::Nest&, size_t store);
  /// Where a local must begin for the load to read what the store writes over; nothing where no place does that.
  std::optional<Affine> findRowStart(const loops::Store&, ExprId load);

  // Transposes (nest_tiles.cpp)
  void bindAcross(const Loop&, const Value& index, int scope);  ///< the loop across a square stands at `index`
  void emitTiled(const loops::Nest&);
  /// Reads a square whose rows are the lanes, from `first` of the loop across them on, and keeps its columns.
  void fillTile(ExprId load, const Value& tile, const Loop& across, const Value& first);
  /// A store whose neighbours lie along this loop of its own, not along the lanes.
  void emitTurned(const loops::Store&, const Loop& across);
  Value rowsLeft(const Loop&, const Value& first, int64_t rows);  ///< of so many; none: all
  Value firstLanes(const Value& count);                           ///< as a mask

  // Lanes that lie a few elements apart (nest_steps.cpp)
  /// A vector of them, shuffled together of whole registers.
  Value readSteps(ExprId load, const Pointer&, const Value& active, int scope, int64_t version);
  /// The stores of an iteration for each value of the range whose elements lie side by side, and then those elements.
  void emitInterleaved(const loops::Nest&);
  /// What these vectors hold, their lanes alternately, from `to` on.
  void storeAlternately(const Value& to, const std::vector<Value>& phases);
  int registerLanes(DType) const;

  // Reductions (nest_reduce.cpp)
  Value reduce(ExprId);
  // An accumulator is one value, or of ArgMinimum and ArgMaximum two: the best, and its place.
  Value placeOf(const loops::Expr& reduce);
  /// `row`: a store that writes what is read, first.
  std::vector<Value> accumulate(const loops::Expr&, const std::vector<Value>& sofar, int lanes,
                                const loops::Store* row);
  std::vector<Value> join(const loops::Expr&, const std::vector<Value>&, const std::vector<Value>&);

  IrBuilder b_;
  Accesses& accesses_;
  NestRewriter& rewriter_;
  IrOperations operations_;
  LoopPlanner planner_;
  int width_;
  const std::vector<int>& slots_;

  std::unordered_map<RangeId, Binding> bindings_;
  std::vector<std::unordered_map<uint64_t, Value>> memos_;  ///< values by expression and guard, for each open loop
  std::vector<std::vector<std::unordered_map<uint64_t, Value>>> suspendedMemos_;
  std::vector<Guard> guards_;
  int guard_ = 0;
  Lanes lanes_;
  int barrier_ = 0;                              ///< the loop in which stores run one after another
  int storesLanes_ = 1;                          ///< lanes along an outer range; a local then has an element for each
  std::unordered_map<BufferId, Value> scalars_;  ///< locals without dimensions
  std::unordered_map<BufferId, Value> places_;   ///< pointers to buffers
  std::unordered_map<BufferId, int64_t> versions_;
  NestPlan plan_;
  std::vector<Loop> iterationLoops_;
  Value blockStart_, blockEnd_;         ///< of the vector loop in this iteration
  std::optional<int64_t> blockLength_;  ///< where it is known
  struct Parts {
    RangeId range;
    std::vector<int64_t> borders;  ///< from 0 to its extent
  };
  std::vector<Parts> parts_;
  RangeId blockRange_{UINT32_MAX - 1}, tileRange_{UINT32_MAX - 2};  ///< not of the program
  const loops::Store* fused_ = nullptr;                             ///< what the loops of the next reduction store
  std::vector<std::pair<ExprId, Value>> tiles_;                     ///< transposed loads, and where their squares are
  std::vector<ExprId> loads_;                                       ///< of the stores that are emitted
  std::vector<std::pair<const loops::Store*, Value>>* phase_ = nullptr;  ///< where interleaved stores leave values
  std::vector<bool> isTurned_;                                           ///< buffers that whole squares are written to
  Value turnedTile_;                                                     ///< scratch memory of a square that is stored
  Value tileRow_;  ///< elements before the row of a square; none: no squares now
};

}  // namespace graft::codegen
