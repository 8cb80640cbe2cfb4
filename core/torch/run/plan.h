// ProgramPlan: a graph made ready to run. Operators are resolved, literals and weights are ready values in a pool,
// every other value has a slot of one frame, and the last use of a slot moves the value out, so that tensors are freed
// as early as can be. A plan keeps no reference to its graph and never changes, so several threads may run it, each
// with a frame of its own.
//
//   auto plan = makePlan(graph, options);
//   Frame frame(plan->slots);  …  see executor.cpp
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/torch/executor.h"
#include "core/torch/run/capture_facts.h"
#include "core/torch/values/values.h"

namespace graft {

/// Where one argument comes from. Small, because the hot loop reads it: the wanted type stands in ProgramPlan::wanted.
struct Operand {
  enum class Kind : uint8_t {
    Constant,  ///< ProgramPlan::constants[index]
    Copy,      ///< a slot that is read again later
    Move,      ///< a slot's last use
    Pytree,    ///< ProgramPlan::pytrees[index]: a list, tuple or dict with values in it
  };
  Kind kind = Kind::Constant;
  bool mustFit = false;      ///< converted first: the graph's types do not say that it fits already
  bool mayBeAbsent = false;  ///< where mustFit: None becomes an undefined tensor
  uint32_t index = 0;
  uint32_t wanted = 0;  ///< where mustFit: ProgramPlan::wanted[wanted]
};

struct Pytree {
  enum class Kind : uint8_t { List, Tuple, Dict };
  Kind kind = Kind::List;
  c10::TypePtr element;        ///< of a list, of a dict's values
  c10::TypePtr key;            ///< of a dict
  std::vector<Operand> items;  ///< a dict's keys and values alternate
};

struct Instruction {
  enum class Kind : uint8_t {
    Dispatch,  ///< handle.callBoxed
    Jit,       ///< an operator that only TorchScript's registry has
    GetItem,   ///< of a list, tuple or dict
    Collect,   ///< prim.ListConstruct and friends: pushes one operand
    Unpack,    ///< a list or tuple into all outputs
    Drop,      ///< prim.SetAttr: a run leaves the model as it was, and what reads the attribute later reads the value
    If,
    Loop,
    Missing,  ///< notes its operands as what a missing operator reads, and makes up its outputs
  };
  Kind kind = Kind::Dispatch;
  bool leaves = false;      ///< its only result stays on the stack for the next instruction
  bool finds = false;       ///< its first operand lies on the stack already
  bool keepsViews = false;  ///< where `kernel`: tensors that remember views of theirs are left to the dispatcher
  uint32_t operands = 0, operandEnd = 0;  ///< into Plan::operands
  uint32_t outputs = 0, outputEnd = 0;    ///< into Plan::outputs
  uint32_t detail = 0;                    ///< into Plan::details
  uint32_t tensors = 0;                   ///< where `kernel`: which operands are tensors, bit 0 the last one
  std::optional<c10::OperatorHandle> handle;
  /// What the dispatcher calls on the program's device for ordinary tensors; null where only it can tell.
  const c10::SafeKernelFunction* kernel = nullptr;
  /// Where `kernel`, and the operator makes one new tensor of one: it is called without a stack.
  std::optional<c10::TypedOperatorHandle<at::Tensor(const at::Tensor&)>> unary;
};
constexpr uint32_t noSlot = UINT32_MAX;

struct BlockPlan {
  std::vector<uint32_t> parameters;
  std::vector<ValueId> parameterIds;
  std::vector<Instruction> instructions;
  std::vector<Operand> returns;
};

/// The parts of an instruction that few of them have.
struct InstructionDetail {
  NodeId node;
  std::function<void(torch::jit::Stack&)> jit;
  std::vector<uint32_t> releases;  ///< slots to clear afterwards: last used inside its blocks
  std::vector<BlockPlan> blocks;
  /// Of Kind::Missing: the outputs' types, and from which seed their numbers come.
  std::vector<std::pair<Type, uint64_t>> madeUp;
};

/// What an error says about a node.
struct NodeLabel {
  std::string name, op, source;
};

struct InputSpec {
  std::string name;
  Type type;  ///< after the dtype option
  c10::TypePtr torch;
};

/// Where an instruction's result goes.
struct OutputSlot {
  uint32_t slot = noSlot;  ///< noSlot where nobody uses it
  ValueId value;           ///< none of a cast that the graph does not have
};

struct ProgramPlan {
  BlockPlan root;
  uint32_t slots = 0;
  std::vector<Operand> operands;
  std::vector<OutputSlot> outputs;
  std::vector<c10::IValue> constants;
  std::vector<c10::TypePtr> wanted;
  std::vector<Pytree> pytrees;
  std::vector<InstructionDetail> details;  ///< one for each instruction, nested ones too
  std::vector<NodeLabel> labels;           ///< by NodeId
  std::vector<InputSpec> inputs;
  std::deque<c10::SafeKernelFunction> kernels;  ///< of Instruction::kernel
  CaptureFacts capture;
  LeftOut leftOut;
  c10::Device device = c10::kCPU;       ///< where outputs are made up
  std::optional<DType> madeUpFloatsAs;  ///< the dtype that floating-point ones are brought to
  MovedAlong moved;
};

Result<ProgramPlan> makePlan(const Graph&, const RunOptions&);

/// Type `have` (the graph's) is known to be what `wanted` (a schema's) asks for, without conversion.
bool fitsAlready(const Type& have, const c10::Type& wanted);

}  // namespace graft
