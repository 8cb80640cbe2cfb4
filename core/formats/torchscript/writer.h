// TorchScriptWriter: writes a graph as a TorchScript module. The tree of modules holds the weights under their paths.
// Each call of a module becomes a method of that module: "forward" for the first call, "forward_call2" for the second,
// "forward_part2" for the rest of a call whose nodes no longer stand together, "forward_piece1" for what runs as the
// first of several CUDA graphs. Values keep their names, nodes their source lines.
//
//   TorchScriptWriter writer(graph);
//   auto module = writer.module();      // Result<torch::jit::Module>
//   writer.metadata()                   // what the code cannot say
//
// Includes LibTorch: for this folder alone.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/result.h"
#include "core/formats/metadata.h"
#include "core/formats/torchscript/call_segments.h"
#include "core/ir/graph.h"
#include "core/torch/run/capture_facts.h"
#include "core/torch/run/dtype_change.h"
#include "core/torch/values/placement.h"

namespace graft {

/// The attribute that holds the model's graft.Runner.
constexpr const char* runnerAttribute = "graft_runner";
/// Its class, as TorchScript names it.
constexpr const char* runnerClass = "__torch__.torch.classes.graft.Runner";

/// The name of the method for one part of the module's call of that number; both count from 0.
std::string methodName(size_t call, size_t part);
/// The call and part that a method's name says; nothing for a name that methodName does not give.
std::optional<std::pair<size_t, size_t>> callOfMethod(std::string_view method);

class TorchScriptWriter {
 public:
  /// `capture`: forward asks a graft.Runner first whether a CUDA graph stands in for it.
  explicit TorchScriptWriter(const Graph& g, bool capture = false)
      : g_(g), capture_(capture), place_(g), modelDType_(modelDType(g)) {}
  ~TorchScriptWriter();
  Result<torch::jit::Module> module();
  /// Of the module that module() made.
  const ArchiveMetadata& metadata() const { return metadata_; }

 private:
  using JitValue = torch::jit::Value;
  struct Place {
    std::string module, attribute;
  };
  /// The method that is being written.
  struct Method {
    std::string path;  ///< of the module it belongs to
    std::shared_ptr<torch::jit::Graph> graph;
    torch::jit::Block* block = nullptr;
    torch::jit::Node* control = nullptr;  ///< the outermost control flow around `block`; attributes are read before it
    std::unordered_map<uint32_t, JitValue*> values;
    std::unordered_map<uint32_t, JitValue*> movingNumbers;  ///< constants without dimensions that move with the module
    std::unordered_map<std::string, JitValue*> modules;
    JitValue* device = nullptr;  ///< of its module, once a node needs it
    JitValue* runner = nullptr;  ///< the graft.Runner, once something asks it
  };

  // writer.cpp: one method for each call of a module
  void beginMethod(const std::string& path);
  torch::jit::Function* endMethod(const std::string& name, const std::vector<JitValue*>& results);
  void declareDefaults(torch::jit::Function& forward) const;
  JitValue* withFieldNames(JitValue* result);
  void writeItems(const std::vector<CallSegments::Item>&, const CallSegments&);
  std::vector<JitValue*> inputsOf(const CallSegments::Segment&);
  c10::TypePtr writeMethod(const std::string& path, const std::string& name, const std::vector<JitValue*>& inputs,
                           const CallSegments::Segment&, const CallSegments&);
  JitValue* callMethod(const std::string& name, const std::vector<JitValue*>& inputs, const c10::TypePtr& type);
  void bindResults(JitValue*, const CallSegments::Segment&);
  void writeCall(const CallSegments::Segment&, const CallSegments&);
  void takeSource(const Node&);

  // writer_modules.cpp: the tree of modules, and what a method reads from it
  bool isTaken(const std::string& module, const std::string& name);
  void placeWeights();
  void findSetLists();
  void placeWritten();
  void placeList(const std::string& path, Place);
  torch::jit::Module buildModule(const std::string& path);
  std::string className(const std::string& path) const;
  static std::string classNameOf(const std::string& type);
  bool holds(ValueId weight, const std::string& path) const;
  JitValue* weight(ValueId);
  JitValue* modulePointer(const std::string& path);
  JitValue* tensorConstant(const at::Tensor&, const std::string& path, const std::string& name);
  JitValue* placedConstant(const at::Tensor&, const Value&);
  bool wantsOnDevice(const Value&, const c10::TypePtr& wanted) const;
  JitValue* movingNumber(const Value&);
  JitValue* inItsDType(JitValue* read, const Value&);
  JitValue* moduleDevice();
  JitValue* newBuffer(const std::string& name, const at::Tensor&);
  std::string identifierOf(const std::string& name);

  // writer_runner.cpp: the question whether a CUDA graph stands in for forward, or for a piece of it
  bool hasRoomForRunner() const;
  void makeRunner(size_t pieces);
  JitValue* readRunner();
  torch::jit::Node* beginCapture();
  JitValue* endCapture(torch::jit::Node* branch, const std::vector<JitValue*>& results);
  void writePiece(const CallSegments::Segment&, const CallSegments&);
  JitValue* callRunner(const char* method, std::vector<JitValue*> arguments, const c10::TypePtr& type);

  // writer_nodes.cpp: nodes and their arguments
  void writeNode(const Node&, const CallSegments&);
  bool writeStructural(const Node&, const CallSegments&);
  bool countsForItself(const Node&) const;
  void writeControlFlow(const Node&, const CallSegments&);
  void writeAttribute(const Node&);
  void writeUnknown(const Node&);
  JitValue* constant(const c10::IValue&);
  JitValue* argument(const Argument&, const c10::TypePtr& wanted);
  JitValue* nested(const Argument&, c10::TypePtr wanted);
  JitValue* typedNone(JitValue*, const Type& wanted);
  JitValue* unwrapped(JitValue*);
  JitValue* converted(JitValue*, const Type& have, const c10::TypePtr& wanted);
  JitValue* numberAsTensor(const Argument& number, const Node& user);
  JitValue* call(const char* op, std::vector<JitValue*> inputs, const c10::TypePtr& type);
  torch::jit::Node* append(torch::jit::Node*);
  /// At a place where every later node of the method sees it.
  torch::jit::Node* appendOutside(torch::jit::Node*);
  void bind(ValueId, JitValue*, bool keepType = false);

  const Graph& g_;
  bool capture_;
  const Placement place_;
  const std::optional<DType> modelDType_;
  const Node* node_ = nullptr;     ///< the one that is being written
  c10::IValue runner_;             ///< where captured: the graft.Runner
  JitValue* arguments_ = nullptr;  ///< where captured: forward's inputs as a tuple
  ArchiveMetadata metadata_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  std::map<std::string, std::vector<std::string>> children_;  ///< module paths, the root is ""
  std::map<std::string, std::vector<std::pair<std::string, ValueId>>> attributes_;
  std::unordered_map<uint32_t, Place> places_;
  std::unordered_map<std::string, Place> written_;  ///< by path: attributes that the model sets
  std::set<uint32_t> setWeights_;                   ///< the ones among them that it also reads
  struct ListItem {
    std::string path;  ///< of the list
    size_t index;
  };
  std::unordered_map<uint32_t, ListItem> listItems_;             ///< weights in lists of tensors that the model sets
  CaptureFacts facts_;                                           ///< of g_
  std::unordered_map<std::string, torch::jit::Module> modules_;  ///< by path
  std::unordered_map<std::string, std::string> aliases_;  ///< module path + "\n" + path of what it refers to: attribute
  std::vector<size_t> callNumber_;                        ///< by module call: which call of its path
  std::unordered_map<std::string, std::string> identifiers_;  ///< by name
  std::unordered_set<std::string> taken_;                     ///< identifiers
  std::vector<at::Tensor> constants_;                         ///< without repetition, as the archive keeps them
  std::unordered_map<uint32_t, std::shared_ptr<torch::jit::Source>> sources_;
  /// Schemas of operators that this machine does not have: declared while the module is written.
  std::vector<c10::FunctionSchema> declared_;
  std::optional<torch::jit::SourceRange> range_;  ///< of the node that is being written
  Method at_;
};

/// Ends the writing from any depth; module() makes an Error of it.
struct WriterRefusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace graft
