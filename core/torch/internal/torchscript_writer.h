// TorchScriptWriter: a graph as a TorchScript module: a tree of modules that holds the weights under their paths, and
// one forward method on its root.
//
//   TorchScriptWriter writer(graph);
//   auto module = writer.module();      // Result<torch::jit::Module>
//
// Private to core/torch: includes LibTorch.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

class TorchScriptWriter {
 public:
  explicit TorchScriptWriter(const Graph& g) : g_(g) {}
  Result<torch::jit::Module> module();

 private:
  using JitValue = torch::jit::Value;
  struct Place {
    std::string module, attribute;
  };

  // The tree
  void placeWeights();
  torch::jit::Module buildModule(const std::string& path);
  std::string className(const std::string& path) const;

  // The method
  void writeBlock(BlockId);
  void writeNode(const Node&);
  bool writeStructural(const Node&);
  void writeControlFlow(const Node&);
  JitValue* weight(ValueId);
  JitValue* modulePointer(const std::string& path);
  JitValue* constant(const c10::IValue&);
  JitValue* argument(const Argument&, const c10::TypePtr& wanted);
  JitValue* nested(const Argument&, c10::TypePtr wanted);
  JitValue* converted(JitValue*, const Type& have, const c10::TypePtr& wanted);
  JitValue* numberAsTensor(const Argument& number, const Node& user);
  JitValue* call(const char* op, std::vector<JitValue*> inputs, const c10::TypePtr& type);
  torch::jit::Node* append(torch::jit::Node*);
  void bind(ValueId, JitValue*, bool keepType = false);

  const Graph& g_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  std::map<std::string, std::vector<std::string>> children_;  ///< module paths, the root is ""
  std::map<std::string, std::vector<std::pair<std::string, ValueId>>> attributes_;
  std::unordered_map<uint32_t, Place> places_;
  std::shared_ptr<torch::jit::Graph> graph_;
  torch::jit::Block* block_ = nullptr;
  torch::jit::Node* prologueEnd_ = nullptr;  ///< attributes are read before it
  std::unordered_map<std::string, JitValue*> modulePointers_;
  std::unordered_map<uint32_t, JitValue*> values_;
};

}  // namespace graft
