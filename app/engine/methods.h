// The engine's methods on an open session, in session.cpp (documents), rule_methods.cpp (rules), run_methods.cpp
// (numbers), node_methods.cpp (one node), optimize_methods.cpp (making a model faster), compile_methods.cpp (generated
// kernels) and captured_methods.cpp (captured graphs, training steps, several models). Each takes what it needs from
// the request's parameters, calls the workbench and returns its JSON, or throws RpcError. None has logic of its own.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/engine/session.h"
#include "app/workbench/apply.h"
#include "app/workbench/history.h"
#include "app/workbench/open.h"
#include "core/compile/fusion/steering.h"
#include "matcher/rule/pattern.h"

namespace graft {

/// An open model.
struct Session::Document {
  workbench::History history;
  std::string path;  ///< the file it was read from
  const FileFormat* format = nullptr;
  std::string inputsFile = {};  ///< that `inputs` were read from
  /// What it was opened with, where that was given: rewrites are verified on these. Its types were then seen in one
  /// run; the model may take inputs of other sizes, too.
  std::optional<TensorSet> inputs;
  Steering steering = {};                           ///< what its user wants of generated kernels
  std::string method = "forward";                   ///< which of the file's graphs it is
  std::optional<TrainingSignature> signature = {};  ///< of a captured training step

  const Graph& graph() const { return history.graph(); }
};

struct Session::Methods {
  Session& s;
  const nlohmann::json& params;
  const Job& job;
  const SendPart& part;

  // session.cpp
  nlohmann::json initialize() const;
  nlohmann::json loadLibrary() const;
  nlohmann::json open() const;
  nlohmann::json close() const;
  nlohmann::json graph() const;
  nlohmann::json capturedModel() const;
  nlohmann::json undoTo() const;
  nlohmann::json history() const;
  nlohmann::json exportModel() const;
  nlohmann::json diff() const;
  // rule_methods.cpp
  nlohmann::json check() const;
  nlohmann::json match() const;
  nlohmann::json explain() const;
  nlohmann::json apply() const;
  nlohmann::json words() const;
  // run_methods.cpp
  nlohmann::json run() const;
  // optimize_methods.cpp
  nlohmann::json optimize() const;
  // node_methods.cpp
  nlohmann::json describe() const;
  nlohmann::json source() const;
  nlohmann::json weight() const;
  // compile_methods.cpp
  nlohmann::json kernelPlan() const;
  nlohmann::json kernelCode() const;
  nlohmann::json kernelUsage() const;
  nlohmann::json timeline() const;
  nlohmann::json steer() const;
  nlohmann::json editKernel() const;
  nlohmann::json fuse() const;
  // captured_methods.cpp
  nlohmann::json captured() const;
  nlohmann::json cut() const;
  nlohmann::json sideBySide() const;

 private:
  template <class T>
  static T take(Result<T> r) {
    if (r) return std::move(r).value();
    throw failure(r.error());
  }
  /// The same for what a parameter of the request asks for: Usage then means wrong parameters.
  template <class T>
  static T takeParameter(Result<T> r) {
    if (!r && r.error().kind == ErrorKind::Usage) throw RpcError{-32602, r.error().format()};
    return take(std::move(r));
  }
  static RpcError failure(const Error& e) {
    return {e.kind == ErrorKind::Internal ? 2 : e.kind == ErrorKind::Cancelled ? -32800 : 1, e.format()};
  }

  /// Whether the parameter is there and a string.
  bool has(const char* key) const;
  std::string text(const char* key) const;
  /// A parameter that counts something; 0 where it is no whole number.
  std::optional<size_t> count(const char* key) const;

  /// The rules of the parameters "text" and "file".
  const Result<RuleFile>& parsed() const;
  const RuleFile& rules() const;
  const Rule& rule(const RuleFile& file) const;
  /// What rewrites are verified on: the request's inputs, or those that the model was opened with, or random ones; or
  /// why there are none.
  workbench::VerifyOn verifyOn(const Document&) const;
  std::optional<bool> wantsGpu() const;
  /// The kernels of the document as the steering has them; with "measure", timed.
  nlohmann::json kernelsJson(const Document&, const Steering&) const;
  /// What applying something has made, as rules/apply answers it.
  nlohmann::json rewrittenJson(const workbench::Rewritten&) const;
  /// The node of the parameter "node".
  const Node& node(const Graph&) const;

  /// The field "graph" of a result, as the parameter "graph" wants it: "whole" (so without it), in "parts", which are
  /// sent meanwhile while the field says how many there were, or "none".
  nlohmann::json graphField(const Graph&) const;
  static nlohmann::json shown(const Document&, nlohmann::json graph);
  /// The model that a run or a difference starts from: the document's own as it was opened, or that of "other".
  const Graph& reference(const Document&) const;
  /// The inputs that the parameters ask for: "inputs" (a file, or specifications, or none) and "seed".
  workbench::InputRequest inputRequest() const;
};

}  // namespace graft
