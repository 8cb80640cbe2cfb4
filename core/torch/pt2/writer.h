// ExportWriter: our graph as torch.export's program (torch/_export/serde/schema.py), in the dialect that training uses:
// operators as they are, writes in place included. What the format cannot hold is refused by node and reason.
//
// export_pt2.cpp writes the program and the archive, pt2_values.cpp inputs, types and arguments, pt2_nodes.cpp nodes.
// Includes LibTorch: for core/torch alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "core/torch/import/archive_note.h"

namespace graft {

struct Pt2Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ExportWriter {
 public:
  explicit ExportWriter(const Graph& g) : g_(g) {}

  /// Throws Pt2Refusal.
  void run();

  nlohmann::json program;
  nlohmann::json weights = nlohmann::json::object(), constants = nlohmann::json::object();  // the two config files
  std::vector<std::pair<std::string, at::Tensor>> data;                                     // record, contiguous tensor
  ArchiveNote note;

 private:
  using json = nlohmann::json;

  /// One graph of the file: the model's, or a branch's.
  struct Body {
    json inputs = json::array(), outputs = json::array(), nodes = json::array();
    json tensors = json::object(), ints = json::object();
    json whole() const;
  };

  // export_pt2.cpp
  json result(const Argument&, int depth);
  json returns();
  void stacks();
  void facts();

  // pt2_values.cpp
  std::string fresh(std::string_view wish);
  const std::string& name(ValueId);
  std::pair<std::string, int64_t> sympy(const std::string& expression);
  json symbolic(const std::string& expression);
  json size(const Dim&);
  json meta(const Type&, bool gradient = false);
  void weight(ValueId);
  void input(ValueId);
  json reference(ValueId);
  json list(const std::vector<Argument>&, const Type* wanted);
  json argument(const Argument&, const Type* wanted);

  // pt2_nodes.cpp
  void nodes(BlockId);
  void node(const Node&);
  json metadata(const Node&);
  std::string expression(const Argument&) const;
  void sizeValue(const Node&);
  json listOutput(ValueId list);
  bool isOnlyCondition(const Node&) const;
  void conditional(const Node&);
  json branch(BlockId, const std::vector<ValueId>& operands);
  std::vector<ValueId> captured(const Node&) const;

  const Graph& g_;
  Body body_;
  std::unordered_map<uint32_t, std::string> names_;
  std::unordered_set<std::string> taken_;
  std::set<std::string> symbols_, inputSymbols_;  // in sizes; those that inputs are
  std::vector<std::string> stacks_;
  std::unordered_map<uint32_t, std::string> expressions_;            // of sizes that nodes compute
  std::unordered_map<uint32_t, std::vector<std::string>> elements_;  // of lists, by value
  json inputSpecs_ = json::array(), outputSpecs_ = json::array();
};

}  // namespace graft
