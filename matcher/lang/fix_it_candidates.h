// Candidates for a fix-it: edits of a rule's text that may let it match where it missed, the likeliest first. The text
// of a pattern node is found by its source location. The new texts are put together from pieces of the file; whether
// they can be read, and whether they help, is for FixIts to try.
//
//   for (const auto& edits : FixItCandidates(text, syntax, graph, rule, miss).all()) …
#pragma once

#include <optional>

#include "matcher/lang/fix_it.h"
#include "matcher/lang/syntax/syntax.h"

namespace graft::lang {

class FixItCandidates {
 public:
  FixItCandidates(const SourceText& text, const FileSyntax& file, const Graph& graph, const Rule& rule,
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

  /// The expression that wrote the near miss's pattern node; null where it stands in another file.
  const Syntax* expression() const;
  /// All of it, with its brackets.
  std::optional<Span> whole(const Syntax& s) const;
  std::optional<Span> balanced(Span span) const;
  std::string textOf(Span span) const;
  /// How Python may call that operator here: "F.dropout", "torch.dropout", …
  std::vector<std::string> namesOf(const Operator& op) const;
  /// ", _, _": the further arguments of a call that accepts the graph's node.
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
