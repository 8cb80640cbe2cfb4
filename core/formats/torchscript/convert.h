// TorchScriptConverter: makes a Graph of a TorchScript method by walking its code with the modules that the file holds.
// The walk follows calls of methods and functions, so it knows at each node which module runs. Attributes become
// weights or literals. Lists, tuples and dictionaries whose items are known exist only during the walk, so most of
// TorchScript's bookkeeping never becomes a node. Includes LibTorch: for this folder alone.
//
//   TorchScriptConverter converter(file, operators, metadata, graph);
//   if (Status s = converter.convert("forward"); !s) return s.error();
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/formats/metadata.h"
#include "core/formats/torchscript/file.h"
#include "core/ir/graph.h"

namespace graft {

struct Container;
struct Instance;

/// What a TorchScript value is known to be.
struct Bound {
  enum class Kind : uint8_t {
    Argument,
    Object,
    Instance,
    Container,
    Shape,
    Function,
    Enum,
    Tensor
  } kind = Kind::Argument;
  bool scalarTensor = false;  ///< `argument` is a number that TorchScript holds in a 0-dim tensor
  Argument argument;
  c10::intrusive_ptr<c10::ivalue::Object> object;  ///< Object: a module or another class's instance in the file
  std::shared_ptr<Instance> instance;              ///< Instance
  std::string path;                      ///< Object, Enum, Tensor: where the model keeps it; of a scalarTensor its name
  std::shared_ptr<Container> container;  ///< Container
  ValueId shapeOf;                       ///< Shape: x.size(), of which no dimension was read yet
  torch::jit::Function* function = nullptr;            ///< Function
  c10::intrusive_ptr<c10::ivalue::EnumHolder> member;  ///< Enum: a member of an enumeration
  at::Tensor tensor;                                   ///< Tensor: a weight that no node uses yet; `path` says which
  bool buffer = false, constant = false;               ///< Tensor

  static Bound of(Argument a) {
    Bound b;
    b.argument = std::move(a);
    return b;
  }
  static Bound of(ValueId v) { return of(Argument(v)); }
};

/// A list, tuple or dictionary whose items are known. The code may change lists and dictionaries, so all values that
/// refer to one share it.
struct Container {
  enum class Kind : uint8_t { List, Tuple, Dict } kind = Kind::List;
  std::vector<Argument> keys;  ///< Dict
  std::vector<Bound> items;
  BlockId where;         ///< the block that made it: the walk may change it only there
  ValueId value;         ///< what stands for it in the graph, once it had to become a value
  bool changed = false;  ///< the code changes it in place
};

/// An object of a TorchScript class that the code makes while it runs. It exists only during the walk, and all values
/// that refer to it share it.
struct Instance {
  c10::ClassTypePtr type;
  BlockId where;  ///< the block that made it: the walk may change it only there
  std::unordered_map<std::string, Bound> attributes;
};

/// What certainly is None, as TorchScript's type says. It is no value of the graph: no block returns it, no loop
/// carries it.
inline bool isNone(const torch::jit::Value* v) { return v->type()->kind() == c10::TypeKind::NoneType; }

class TorchScriptConverter {
 public:
  /// `metadata`: of a file that Graft wrote; null for others.
  TorchScriptConverter(TorchScriptFile& file, const OperatorSet& operators, const ArchiveMetadata* metadata,
                       Graph& graph)
      : file_(file), operators_(operators), metadata_(metadata), g_(graph) {}

  Status convert(const std::string& method);
  /// An attribute that the model sets to a literal, other than what it holds before that.
  struct SetLiteral {
    std::string path;
    c10::intrusive_ptr<c10::ivalue::Object> object;
    size_t slot;
    c10::IValue value;
  };
  const std::vector<SetLiteral>& setLiterals() const { return setLiterals_; }
  /// The values' names in the file, where it has metadata.
  const std::vector<std::pair<ValueId, std::string>>& names() const { return names_; }

 private:
  static constexpr int maxCallDepth = 300;
  using Env = std::unordered_map<const torch::jit::Value*, Bound>;
  /// Thrown only inside the converter; convert() returns its message as an Error.
  struct Refusal {
    std::string why;
  };

  // convert.cpp: the walk over methods, blocks and nodes
  void takeCalling(const c10::FunctionSchema&);
  std::vector<Bound> call(torch::jit::Function&, std::vector<Bound> inputs);
  std::vector<Bound> followStraightLine(const StraightLineProgram&, std::vector<Bound> values);
  void callMethod(const torch::jit::Node*, Env&);
  void run(const torch::jit::Block*, Env&);
  void step(const torch::jit::Node*, Env&);
  void convertNode(const torch::jit::Node*, Env&);
  ModuleCallId enter(const Bound& self, const std::string& method);
  void noteName(const Bound&, const torch::jit::Value*);
  std::string nameInFile(const torch::jit::Value*) const;
  // convert_control.cpp: branches and loops
  bool runInside(const torch::jit::Block*, Env&);
  void branch(const torch::jit::Node*, Env&);
  void loop(const torch::jit::Node*, Env&);
  /// A loop that counts its turns, and the nodes that do.
  struct CountingLoop {
    const torch::jit::Value* turns;
    size_t place;                              ///< of the counter among the carried values
    const torch::jit::Node *start, *go, *add;  ///< start: null where the file holds what it gives
  };
  static std::optional<CountingLoop> countingLoop(const torch::jit::Node*);
  static bool isOfCountingLoop(const torch::jit::Node*);
  void nameBlocks();
  class ChangeSearch;
  void materialiseChanged(const torch::jit::Node* branchOrLoop, const Env&);
  void materialiseOwn(const Bound&, const c10::Type&, const torch::jit::Node* user);
  Argument returned(const torch::jit::Value*, Env&, const torch::jit::Node* user);
  bool isChangedAnywhere(const c10::Type&);

  // convert.cpp: other nodes
  OperatorRef overloadForNumbers(const torch::jit::Node*, Env&, OperatorRef);
  void generic(const torch::jit::Node*, Env&);
  NodeId append(const std::string& op, std::vector<Argument> args, const torch::jit::Node* source);
  NodeId appendUnknown(std::string op, std::vector<Argument> args, const torch::jit::Node* source);
  void mark(NodeId, const torch::jit::Node* source);
  SourceLocation placeOf(const torch::jit::Node*) const;
  std::vector<Argument> arguments(const torch::jit::Node*, Env&, const Operator&);
  void takeKeywords(const torch::jit::Node*, std::vector<Argument>& args,
                    std::vector<std::pair<std::string, Argument>>& kwargs);
  Argument schemaLiteral(Argument, const Type& parameter);

  // convert_values.cpp: what values are known to be, and how they become arguments of nodes
  Bound& bound(const torch::jit::Value*, Env&);
  /// The same for a value that is only passed on: a weight joins the graph at its first real use.
  Bound& unused(const torch::jit::Value*, Env&);
  Bound fromIValue(const c10::IValue&, const std::string& path, bool buffer, bool constant);
  const std::pair<std::string, std::string>* constantOfMetadata(const std::string& attribute);
  ValueId weight(const at::Tensor&, const std::string& path, bool buffer, bool constant);
  std::string viewOf(const at::Tensor&) const;
  const std::string& parameterAt(const std::string& view);
  /// The value as an argument of a node. Appends a node where the graph has nothing that stands for the value.
  Argument argument(const Bound&, const torch::jit::Node* user);
  static std::string nameOfMember(const Bound&);
  void materialise(Container&, const c10::Type&, const torch::jit::Node* user);

  // What the walk settles itself, without a generic node. Each returns false for a node that is none of its own.
  // convert_attributes.cpp
  bool attributes(const torch::jit::Node*, Env&);
  Bound attributeOf(const Bound& self, const std::string& name);
  void setChangedLists();
  bool instances(const torch::jit::Node*, Env&);
  bool isItself(const torch::jit::Value*, const std::string& path, Env&);
  bool identities(const torch::jit::Node*, Env&);
  // convert_containers.cpp
  bool containers(const torch::jit::Node*, Env&);
  Bound item(const Bound& container, const Argument& index, const torch::jit::Node*);
  Argument sizeOf(ValueId tensor, int64_t dim, const torch::jit::Node*);
  // convert_scalars.cpp
  bool enumerations(const torch::jit::Node*, Env&);
  bool scalarArithmetic(const torch::jit::Node*, Env&);
  bool foldScalars(const torch::jit::Node*, Env&);
  std::optional<int64_t> scalarConstant(const Bound&) const;
  std::optional<int64_t> rootOfLiteral(const torch::jit::Value*, Env&);

  TorchScriptFile& file_;
  const OperatorSet& operators_;
  const ArchiveMetadata* metadata_;
  Graph& g_;
  BlockId block_;
  ModuleCallId module_;
  std::string modulePath_;
  int depth_ = 0;
  size_t calls_ = 0;
  bool raised_ = false;  // the code of the block that is walked certainly ended in an exception
  const StraightLineProgram::Step* step_ = nullptr;   // of a long method, while the walk follows it
  std::unordered_map<std::string, ValueId> weights_;  // by place and view
  std::optional<std::unordered_map<std::string, std::string>> parameters_;  // their paths, by place and view
  std::map<std::string, Bound> attributes_;                // that the model sets: path -> current value
  std::unordered_map<std::string, NodeId> setAttributes_;  // the node that set it
  /// A list or dictionary that the file holds and the model reads, and how long it was.
  struct HeldList {
    Bound list;
    size_t length;
  };
  static bool hasOtherLength(const HeldList&, const Container& after);
  std::map<std::string, HeldList> heldLists_;          // by path
  size_t searched_ = 0;                                // nodes that were searched for changes of lists
  std::optional<std::set<std::string>> changedTypes_;  // of the lists and dictionaries that some code changes
  std::vector<SetLiteral> setLiterals_;
  std::set<std::string> readAsNone_;  ///< paths of attributes
  size_t constants_ = 0;
  std::vector<std::pair<ValueId, std::string>> names_;
  std::unordered_map<std::string, ModuleCallId> entered_;  // by path and number, where the file has metadata
};

/// "__torch__.a.___torch_mangle_3.B" is "a.B".
std::string demangle(std::string_view qualifiedName);

}  // namespace graft
