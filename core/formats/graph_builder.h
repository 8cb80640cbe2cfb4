// GraphBuilder: what the importers of torch.export and FX share. Both name operators and arguments as FX does; this
// turns a call into nodes of the normal form: schema order, defaults, canonical operators, list elements by
// prim.getitem.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

struct Call {
  std::string op;  ///< "aten.relu.default"
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::string name;
  ModuleCallId module;
  uint32_t source = UINT32_MAX;
};

class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, const OperatorSet& operators) : g(graph), operators_(operators) {}

  /// Adds the call; where the arguments do not fit the operator's schema it becomes an operator without one, called
  /// "unfit.aten_add_Tensor".
  NodeId add(BlockId, const Call&);
  /// `prim.getitem(list, index)`.
  ValueId element(BlockId, const Call& like, ValueId list, int64_t index, Type type, std::string_view name);
  /// Module calls by the stack of (key, path, type) that was entered: equal stacks are one call. Throws
  /// std::runtime_error where a stack is deeper than any model's.
  struct Entered {
    std::string key, path, type;
  };
  ModuleCallId enter(const std::vector<Entered>& stack);
  /// The user's line in a Python stack trace, as the graph knows it; UINT32_MAX where there is none.
  uint32_t source(const std::string& stackTrace);
  /// Which values from outside each module call uses: its inputs.
  void findModuleInputs();

  Graph& g;

 private:
  /// The arguments in schema order with defaults; nothing where they do not fit.
  static std::optional<std::vector<Argument>> place(const Operator&, const Call&);

  const OperatorSet& operators_;
  std::map<std::pair<uint32_t, std::string>, ModuleCallId> calls_;  // by the call around it and the key
  std::unordered_map<std::string, uint32_t> sources_;               // by stack trace: the nodes of one line share it
};

/// Whether a Python file is part of PyTorch: not what the user wrote.
bool isPyTorchsOwn(std::string_view file);
/// 'File "model.py", line 12, in forward' of the innermost frame in a Python stack trace that is the user's; where all
/// are PyTorch's, the innermost.
std::optional<SourceLocation> usersFrame(std::string_view stackTrace);

/// Python's functions of numbers, as torch.export and FX compute with sizes: "add" of whole numbers is "aten.add.int",
/// of which one is a float "aten.add.float"; "and_" of bools is "aten.__and__.bool". Empty where there is none. The
/// graph says what kind of number its values are.
std::string numberOperator(std::string_view function, const std::vector<Argument>& args, const Graph&);

}  // namespace graft
