// Syntax: what a rule file says, as plain values: the only thing the compiler sees of LibTorch's parser.
//
//   FileSyntax file = parseFile(text);   // throws Failure with position
//   for (const ClassSyntax& c : file.classes) …
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/argument.h"
#include "matcher/lang/syntax/source_text.h"

namespace graft::lang {

struct KeywordSyntax;  // name and value; holds a Syntax

struct Syntax {
  enum class Kind {
    Constant,   ///< literal: number, string, True, False, None, ...
    Name,       ///< name
    Attribute,  ///< items[0].name
    Call,       ///< items[0](items[1..], keywords)
    Subscript,  ///< items[0][items[1..]]
    Slice,      ///< items: start, stop, step; Constant None where absent
    Unary,      ///< name: - not ~ +
    Binary,     ///< name: + - * / // % ** @ & | ^ << >> == != < <= > >= in is "is not" and or
    List,
    Tuple,
    Dict,     ///< items: key, value, key, value, ...
    IfElse,   ///< items: condition, then, else
    Starred,  ///< *items[0]
  };
  Kind kind = Kind::Constant;
  std::string name;
  Argument literal;
  std::vector<Syntax> items;
  std::vector<KeywordSyntax> keywords;
  Span span;   ///< all of it
  Span focus;  ///< the word or sign that says what it is: the method's name, the operator
};

struct KeywordSyntax {
  std::string name;
  Syntax value;
};

struct StatementSyntax {
  enum class Kind { Assign, AugmentedAssign, Return, Expression };
  Kind kind = Kind::Expression;
  std::vector<Syntax> targets;
  std::string op;  ///< of an augmented assignment
  std::optional<Syntax> value;
  Span span;
};

struct ParameterSyntax {
  std::string name;
  std::optional<Syntax> type, defaultValue;
  Span span;
};

struct FunctionSyntax {
  std::string name, doc;
  Span docSpan;
  std::vector<ParameterSyntax> parameters;
  std::vector<StatementSyntax> body;
  std::vector<FunctionSyntax> functions;  ///< defined inside: pattern and replacement of replace_pattern(…)
  Span span;

  const FunctionSyntax* findFunction(std::string_view function) const;
};

struct ClassSyntax {
  std::string name, doc;
  Span docSpan;
  std::vector<Syntax> bases;
  std::vector<std::pair<std::string, Syntax>> assignments;
  std::vector<Syntax> expressions;  ///< that stand alone: library("libmy_ops.so")
  std::vector<FunctionSyntax> functions;
  std::vector<ClassSyntax> classes;
  Span span;

  const FunctionSyntax* findFunction(std::string_view function) const;
  const ClassSyntax* findClass(std::string_view inner) const;
  const Syntax* findAssignment(std::string_view variable) const;
};

/// A file is a class body without a class.
using FileSyntax = ClassSyntax;

FileSyntax parseFile(const SourceText& text);

/// Whether the class names that base, with or without a module in front: "Module" of nn.Module.
bool derivesFrom(const ClassSyntax&, std::string_view base);

/// "torch.nn.functional.softmax" for a chain of attributes of a name; empty for anything else.
std::string dottedName(const Syntax&);

}  // namespace graft::lang
