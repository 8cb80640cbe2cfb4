// SharedKernel: one kernel of a group for a range of sizes, which are arguments of its code.
//
//   SharedKernel::make(group, aten, pattern, kind, …);            // from kinds of calls that were seen
//   std::shared_ptr<const Compiled> k = shared->bind(kind, seen); // for one more kind; null: it does not serve it
//
// Two things make it sound. The program's verification proves all indices for the whole range of sizes. And each kind
// of call is bound once, before it runs: what ATen's operators make of its sizes, value by value, must be what the
// program was made for. Meta tensors tell that without computing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/codegen/cpu_code.h"
#include "core/ir/graph.h"
#include "kernels/generated/aten_run.h"
#include "kernels/generated/call_kind.h"
#include "kernels/generated/compiled.h"

namespace graft::ops {

/// What one run of the ATen operators showed: the type of each value, and the results.
struct Seen {
  std::vector<std::pair<ValueId, Type>> types;
  std::vector<at::Tensor> results;

  static Seen run(const AtenRun&, at::TensorList inputs, at::IntArrayRef sizes);
  /// On meta tensors of these sizes and strides. Nothing where an operator refuses them, or has no such form.
  static std::optional<Seen> runMeta(const AtenRun&, at::TensorList inputs, at::IntArrayRef sizes);
  /// Whether all results are there. Those of operators that take no tensors are where the program says.
  bool isOn(c10::Device) const;
  /// Whether values have the same dtypes and sizes, and results the same strides.
  bool isLike(const Seen&) const;
};

/// The graph with a literal, or an expression of symbols, for each of its integer inputs.
Graph withNumbers(Graph, std::span<const Argument>);

class SharedKernel {
 public:
  /// `graph`: of the program. `seen`: of the call. An error says why there is none for this pattern.
  static Result<std::shared_ptr<const SharedKernel>> make(const Graph& graph, const AtenRun&, std::string family,
                                                          const SizePattern&, at::TensorList inputs,
                                                          at::IntArrayRef sizes, const Seen& seen,
                                                          const codegen::LoopSchedule& schedule);
  /// Whether the kind's numbers fit. They may yet be such that bind() finds a difference.
  bool fits(const CallKind& kind) const { return kind.family == family_ && pattern_.match(kind.numbers); }
  /// `seen`: of a call of that kind.
  std::shared_ptr<const Compiled> bind(const CallKind& kind, const Seen& seen) const;

 private:
  /// A number of the graph's: a constant, or an expression of the pattern's symbols.
  struct Number {
    int64_t constant = 0;
    std::optional<SizeExpression> expression;
  };
  struct SizeSource {
    bool isSymbol = false;
    size_t index = 0;  ///< of the pattern's symbols, else of a kind's numbers
  };
  struct Shape {
    ValueId value;
    DType dtype = DType::Float32;
    std::vector<Number> sizes;
  };
  explicit SharedKernel(std::string family, SizePattern pattern)
      : family_(std::move(family)), pattern_(std::move(pattern)) {}
  std::optional<int64_t> valueOf(const Number&, const std::vector<int64_t>& symbols) const;
  bool infer(Graph&, const AtenRun&, at::TensorList inputs, size_t integers);
  Status readShapes(const Graph&);
  Status assignSizes(const loops::Program&, size_t integers);
  std::vector<int64_t> sizesOf(const CallKind&, const std::vector<int64_t>& symbols) const;
  bool agrees(const Seen&, const std::vector<int64_t>& symbols) const;

  std::string family_;
  SizePattern pattern_;
  std::vector<Shape> shapes_;      // of all values that are tensors and no inputs
  std::vector<SizeSource> sizes_;  // of the program
  std::vector<codegen::Layout> outputs_;
  std::shared_ptr<const MachineCode> code_;
  int64_t threads_ = 0;     // as Compiled takes them
  double plannedWork_ = 1;  // elements of all values in the call that it was made from
};

}  // namespace graft::ops
