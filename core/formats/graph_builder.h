// GraphBuilder: the part that the readers of torch.export and FX share. Both name operators and arguments as FX does.
// The builder turns a call into nodes of the normal form: arguments in schema order with defaults, canonical operators,
// list elements by prim.getitem.
//
//   GraphBuilder build(graph, operators);
//   const NodeId relu = build.add(graph.root(), {"aten.relu.default", {Argument(x)}, {}, "relu"});
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

  /// Adds the call. Where the arguments do not fit the operator's schema, the node's operator has no schema and is
  /// called "unfit.aten_add_Tensor".
  NodeId add(BlockId, const Call&);
  /// `prim.getitem(list, index)`.
  ValueId element(BlockId, const Call& like, ValueId list, int64_t index, Type type, std::string_view name);
  /// The module call for a stack of (key, path, type): equal stacks are one call. Throws std::runtime_error where the
  /// stack is deeper than any model's.
  struct Entered {
    std::string key, path, type;
  };
  ModuleCallId enter(const std::vector<Entered>& stack);
  /// The user's line in a Python stack trace, as the number of a source in the graph; UINT32_MAX where there is none.
  uint32_t source(const std::string& stackTrace);
  /// Finds the inputs of each module call: the values from outside that it uses.
  void findModuleInputs();

  Graph& g;

 private:
  /// The arguments in schema order with defaults; nothing where they do not fit.
  static std::optional<std::vector<Argument>> place(const Operator&, const Call&);

  const OperatorSet& operators_;
  std::map<std::pair<uint32_t, std::string>, ModuleCallId> calls_;  // by the call around it and the key
  std::unordered_map<std::string, uint32_t> sources_;               // by stack trace, which the nodes of one line share
};

/// Whether a Python file belongs to PyTorch and not to the user.
bool isPyTorchsOwn(std::string_view file);
/// The innermost frame of the user's in a Python stack trace ('File "model.py", line 12, in forward'); where all frames
/// are PyTorch's, the innermost one.
std::optional<SourceLocation> usersFrame(std::string_view stackTrace);

/// The operator for one of Python's functions of numbers, with which torch.export and FX compute sizes: "add" of whole
/// numbers is "aten.add.int", with a float among them "aten.add.float"; "and_" of bools is "aten.__and__.bool". Empty
/// where there is none. The types of the graph's values say what kinds of numbers they are.
std::string numberOperator(std::string_view function, const std::vector<Argument>& args, const Graph&);

}  // namespace graft
