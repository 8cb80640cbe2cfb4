// Converter: a TorchScript method becomes a graft Graph by walking it with known modules. Calls of methods and
// functions are followed, so the walk knows at each node which module runs; attributes become weights or literals;
// lists, tuples and dictionaries are followed as long as they are known, so that most of TorchScript's bookkeeping
// never becomes a node. Includes LibTorch: for core/torch alone.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/formats/metadata.h"
#include "core/formats/torchscript/file.h"
#include "core/ir/graph.h"

namespace graft {

struct Container;

/// What a TorchScript value is known to be.
struct Bound {
  enum class Kind : uint8_t { Argument, Object, Container, Shape, Function, Tensor } kind = Kind::Argument;
  bool scalarTensor = false;  ///< `argument` is a number, TorchScript holds it in a 0-dim tensor
  Argument argument;
  c10::intrusive_ptr<c10::ivalue::Object> object;  ///< Object: a module or another class's instance
  std::string path;                          ///< Object, Tensor: where the model keeps it; of a scalarTensor its name
  std::shared_ptr<Container> container;      ///< Container
  ValueId shapeOf;                           ///< Shape: x.size() before anybody asked for a dimension
  torch::jit::Function* function = nullptr;  ///< Function
  at::Tensor tensor;                         ///< Tensor: a weight that nothing has used yet; `path` says which
  bool buffer = false, constant = false;     ///< Tensor

  static Bound of(Argument a) {
    Bound b;
    b.argument = std::move(a);
    return b;
  }
  static Bound of(ValueId v) { return of(Argument(v)); }
};

/// A list, tuple or dictionary whose items are known. Lists and dictionaries may change while the walk goes on: all
/// that refer to one share it.
struct Container {
  enum class Kind : uint8_t { List, Tuple, Dict } kind = Kind::List;
  std::vector<Argument> keys;  ///< Dict
  std::vector<Bound> items;
  BlockId where;  ///< the block it was made in: only there the walk may change it
  ValueId value;  ///< once it had to become a value: what stands for it
};

class TorchScriptConverter {
 public:
  /// `note`: of a file that Graft wrote; null for others.
  TorchScriptConverter(TorchScriptFile& file, const OperatorSet& operators, const ArchiveMetadata* note, Graph& graph)
      : file_(file), operators_(operators), note_(note), g_(graph) {}

  Status convert(const std::string& method);
  /// The values' names in the file, where it has a note.
  const std::vector<std::pair<ValueId, std::string>>& names() const { return names_; }

 private:
  using Env = std::unordered_map<const torch::jit::Value*, Bound>;
  /// Thrown inside only: the message goes into the Error that convert returns.
  struct Refusal {
    std::string why;
  };

  // torchscript_convert.cpp: the walk
  std::vector<Bound> call(torch::jit::Function&, std::vector<Bound> inputs);
  std::vector<Bound> followStraight(const StraightLineKinds&, std::vector<Bound> values);
  void callMethod(const torch::jit::Node*, Env&);
  void run(const torch::jit::Block*, Env&);
  void step(const torch::jit::Node*, Env&);
  void convertNode(const torch::jit::Node*, Env&);
  ModuleCallId enter(const Bound& self, const std::string& method);
  void noteName(const Bound&, const torch::jit::Value*);
  std::string nameInFile(const torch::jit::Value*) const;
  void branch(const torch::jit::Node*, Env&);
  void loop(const torch::jit::Node*, Env&);
  void nameBlocks();
  void generic(const torch::jit::Node*, Env&);
  bool foldScalars(const torch::jit::Node*, Env&);
  NodeId append(const std::string& op, std::vector<Argument> args, const torch::jit::Node* source);
  NodeId appendUnknown(std::string op, std::vector<Argument> args, const torch::jit::Node* source);
  void mark(NodeId, const torch::jit::Node* source);
  SourceLocation placeOf(const torch::jit::Node*) const;
  std::vector<Argument> arguments(const torch::jit::Node*, Env&, const Operator&);
  void takeKeywords(const torch::jit::Node*, std::vector<Argument>& args,
                    std::vector<std::pair<std::string, Argument>>& kwargs);
  Argument schemaLiteral(Argument, const Type& parameter);

  // torchscript_values.cpp: what values are
  Bound& bound(const torch::jit::Value*, Env&);
  /// The same for what is only handed on: a weight becomes the graph's where it is used first.
  Bound& unused(const torch::jit::Value*, Env&);
  Bound fromIValue(const c10::IValue&, const std::string& path, bool buffer, bool constant);
  const std::pair<std::string, std::string>* constantOfNote(const std::string& attribute);
  ValueId weight(const at::Tensor&, const std::string& path, bool buffer, bool constant);
  /// As an argument of a node; makes a node where what is known does not suffice.
  Argument argument(const Bound&, const torch::jit::Node* user);
  void materialise(Container&, const torch::jit::Value* typed, const torch::jit::Node* user);
  void materialiseWritten(const torch::jit::Block*, Env&, const torch::jit::Node* user);
  std::optional<int64_t> scalarConstant(const Bound&) const;
  std::optional<int64_t> rootOfLiteral(const torch::jit::Value*, Env&);

  // torchscript_special.cpp: operators with a meaning for the walk; false: none
  bool special(const torch::jit::Node*, Env&);
  bool containers(const torch::jit::Node*, Env&);
  bool scalarArithmetic(const torch::jit::Node*, Env&);
  bool identities(const torch::jit::Node*, Env&);
  void getAttribute(const torch::jit::Node*, Env&);
  Bound item(const Bound& container, const Argument& index, const torch::jit::Node*);
  Argument sizeOf(ValueId tensor, int64_t dim, const torch::jit::Node*);

  TorchScriptFile& file_;
  const OperatorSet& operators_;
  const ArchiveMetadata* note_;
  Graph& g_;
  BlockId block_;
  ModuleCallId module_;
  std::string modulePath_;
  int depth_ = 0;
  const StraightLineKinds::Step* step_ = nullptr;      // of a long method, while it is followed
  std::unordered_map<std::string, ValueId> weights_;   // by place and view
  std::unordered_map<std::string, Bound> attributes_;  // written by the model: path -> what it is now
  size_t constants_ = 0;
  std::vector<std::pair<ValueId, std::string>> names_;
  std::unordered_map<std::string, ModuleCallId> entered_;  // by path and number, where the file has a note
};

/// "__torch__.a.___torch_mangle_3.B" is "a.B".
std::string demangle(std::string_view qualifiedName);

}  // namespace graft
