// Edits of a rule's text that may let it match where it missed, likeliest first. What is written of a pattern node is
// found by its place; the texts are put together from pieces of the file, and nobody has read them yet.
#pragma once

#include <optional>

#include "matcher/lang/fix_it.h"
#include "matcher/lang/syntax.h"

namespace graft::lang {

class HealCandidates {
 public:
  HealCandidates(const SourceText& text, const FileSyntax& file, const Graph& graph, const Rule& rule,
                 const NearMiss& miss)
      : text_(text), file_(file), graph_(graph), rule_(rule), miss_(miss) {}
  using Edits = std::vector<TextEdit>;
  std::vector<Edits> all();

 private:
  void literal();
  void otherOperator();
  void operatorTooMany();
  void missingOperator();
  void parameterKind();
  void scope();
  void moduleName();

  /// What is written of the miss's pattern node; null where it stands in another file or is not an expression.
  const Syntax* expression() const;
  /// All of it, with its brackets.
  std::optional<Span> whole(const Syntax& s) const;
  std::optional<Span> balanced(Span span) const;
  std::string textOf(Span span) const;
  /// How Python may call that operator here: "F.dropout", "torch.dropout", …
  std::vector<std::string> namesOf(const Operator& op) const;
  /// ", _, _": what stands behind the first argument of a call that accepts the graph's node.
  std::string anyArguments(const Node& node) const;
  void declare(const std::string& parameter, const std::string& type);
  const ClassSyntax* ownClass() const;
  void offer(std::vector<std::pair<Span, std::string>> edits);

  const SourceText& text_;
  const FileSyntax& file_;
  const Graph& graph_;
  const Rule& rule_;
  const NearMiss& miss_;
  std::vector<Edits> out_;
};

}  // namespace graft::lang
