// StraightLineProgram: a StraightLineCode, compiled. LibTorch compiles each kind of statement once, as a function of
// its variables; the program is the list of its steps, each of one kind. Leaves out statements whose results nothing
// needs, as LibTorch does. Includes LibTorch: for this folder alone.
//
//   auto program = StraightLineProgram::compile(std::move(code), stub, version);
//   for (const StraightLineProgram::Step& step : program->steps()) run(*program->kind(step).graph,
//   program->uses(step));
#pragma once

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/formats/torchscript/straight_line_code.h"

namespace graft {

class StraightLineProgram {
 public:
  struct Kind {
    std::shared_ptr<torch::jit::Graph> graph;  ///< from the statement's variables to its results, as one value
    std::shared_ptr<torch::jit::Source> source;
    std::vector<uint32_t> tokens;  ///< where each token of the expression begins in `source`
  };
  struct Step {
    uint32_t statement, kind;
    uint32_t uses, useCount;       ///< into uses(): numbers of values
    uint32_t result, resultCount;  ///< numbers of the values it makes; the statement that returns makes none
  };

  /// `stub` is the method as LibTorch loaded it, with an empty body. Null where a statement writes in place, prints, or
  /// cannot be compiled on its own, and where there are too many kinds for this to help.
  static std::unique_ptr<StraightLineProgram> compile(StraightLineCode code, torch::jit::GraphFunction& stub,
                                                      size_t version);

  const torch::jit::Function* method() const { return &stub_; }
  /// The node of the stub that only marks a place in the source.
  const torch::jit::Node* marker() const { return marker_; }
  /// The steps in order. Values are numbered: the method's parameters without self, the attributes that the stub
  /// returns, then the results of steps.
  const std::vector<Step>& steps() const { return steps_; }
  const Kind& kind(const Step& s) const { return kinds_[s.kind]; }
  std::span<const uint32_t> uses(const Step& s) const { return {uses_.data() + s.uses, s.useCount}; }
  size_t valueCount() const { return types_.size(); }
  /// The place in the file for a place in the step's kind.
  torch::jit::SourceRange placeOf(const Step&, const torch::jit::SourceRange&) const;

 private:
  StraightLineProgram(StraightLineCode code, torch::jit::GraphFunction& stub, size_t version)
      : code_(std::move(code)), stub_(stub), version_(version) {}
  bool name();
  bool add(uint32_t statement);
  bool addKind(const std::string& expression, const StraightLineCode::Statement&, std::vector<uint32_t> tokens,
               std::span<const uint32_t> uses);
  bool dropUnused();
  uint32_t newValue(const c10::TypePtr&);

  StraightLineCode code_;
  torch::jit::GraphFunction& stub_;
  size_t version_;
  const torch::jit::Node* marker_ = nullptr;
  std::shared_ptr<torch::jit::Source> stubSource_, source_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<c10::TypePtr>> resultTypes_;  // by kind
  std::unordered_map<std::string, uint32_t> known_;     // kinds by text and types
  std::unordered_map<std::string_view, uint32_t> named_;
  std::vector<uint32_t> types_;  // of values: into typeTexts_
  std::vector<std::string> typeTexts_;
  std::vector<Step> steps_;
  std::vector<uint32_t> uses_;
};

}  // namespace graft
