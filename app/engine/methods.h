// The engine's methods on an open session: what session.cpp (documents, rules), session_apply.cpp (rewriting),
// session_steps.cpp (going back and forth), session_run.cpp (numbers) and session_node.cpp (one node) share.
// Each returns its result or throws RpcError.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "app/engine/session.h"
#include "core/formats/model.h"
#include "core/ir/graph.h"
#include "core/torch/tensors.h"
#include "matcher/lang/rule_file.h"
#include "matcher/rewrite/rewrite.h"

namespace graft {

/// An open model: snapshots 0 (as imported) to n, each with what led to it. `position` is the one that is shown; of one
/// that a recipe made, `inside` says how many of the recipe's steps are, where not all.
struct Session::Document {
  /// The graph behind a recipe's step, of those that changed something and are not the last to do so.
  struct Part {
    size_t steps;    ///< of the recipe, done
    size_t records;  ///< of the snapshot, made by then
    Graph graph;
  };
  struct Snapshot {
    Graph graph;
    std::string label;
    std::vector<Record> records;
    std::vector<Part> parts = {};
    size_t steps = 0;    ///< of the recipe; 0: it was none
    size_t changed = 0;  ///< of these, up to the last one that changed something
    size_t kept = 0;     ///< of these, as many as there are graphs of, but for the last: large ones are not kept
  };
  std::vector<Snapshot> snapshots;
  size_t position = 0;
  std::optional<size_t> inside = {};
  int revision = 0;
  std::string path;                    ///< the file it was read from
  const FileFormat* format = nullptr;  ///< of that file
  /// Its types were seen in one run of a model that may take other sizes, too.
  bool recordedTypes = false;
  /// What it was opened with, where that was given: rewrites are proven on these.
  std::optional<TensorSet> inputs;

  const Graph& graph() const;
  /// What rewrote snapshot `step`, as far as it is shown.
  std::span<const Record> recordsOf(size_t step) const;
  /// From here on what is shown is all there is.
  void forgetTheRest();
  const Graph& original() const { return snapshots[0].graph; }
};

struct Session::Methods {
  Session& s;
  const nlohmann::json& params;
  const Job& job;
  const SendPart& part;

  /// Whether the parameter is there and a string.
  bool has(const char* key) const;
  std::string text(const char* key) const;
  template <class T>
  static T take(Result<T> r) {
    if (r) return std::move(r).value();
    throw failure(r.error());
  }
  static RpcError failure(const Error& e) {
    return {e.kind == ErrorKind::Internal ? 2 : e.kind == ErrorKind::Cancelled ? -32800 : 1, e.format()};
  }

  // session.cpp
  nlohmann::json initialize() const;
  nlohmann::json open() const;
  nlohmann::json close() const;
  nlohmann::json graph() const;
  nlohmann::json check() const;
  nlohmann::json match() const;
  nlohmann::json explain() const;
  nlohmann::json diff() const;
  nlohmann::json words() const;
  nlohmann::json exportModel() const;
  // session_steps.cpp
  nlohmann::json undoTo() const;
  nlohmann::json history() const;
  // session_apply.cpp
  nlohmann::json apply() const;
  // session_run.cpp
  nlohmann::json run() const;
  // session_node.cpp
  nlohmann::json describe() const;
  nlohmann::json source() const;
  nlohmann::json weight() const;

  /// The field "graph" of a result, as the parameter "graph" wants it: "whole" (so without it), in "parts", which are
  /// sent meanwhile while the field says how many there were, or "none".
  nlohmann::json graphField(const Graph&) const;
  static nlohmann::json shown(const Document& d, nlohmann::json graph);
  /// The model that a run or a difference starts from: the document's own as it was opened, or that of `other`.
  const Graph& reference(const Document& d) const;
  /// The inputs that the request asks for ("inputs": a file, or specifications, or none; "seed"), on the CPU.
  Result<TensorSet> givenInputs(const Document& d) const;
  static nlohmann::json recordsJson(const std::vector<Record>& records);

 private:
  struct Applied;
  /// The rules of the parameter "text": checking, matching and explaining the same text parse it once.
  const Result<RuleFile>& parsed() const;
  const RuleFile& rules() const;
  const Rule& rule(const RuleFile& file) const;
  /// The node of the parameter "node".
  const Node& node(const Graph&) const;
  std::string frozenFile(const Document&) const;
  Applied applyRecipe(Graph& g, const RuleFile& file, const RewriteOptions& options) const;
  Applied applyOneRule(Graph& g, const RuleFile& file, const RewriteOptions& options) const;
  Applied applyTicked(Graph& g, const Rule& rule, const RewriteOptions& options) const;
};

}  // namespace graft
