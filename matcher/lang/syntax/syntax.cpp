#include "matcher/lang/syntax/syntax.h"

#include <fmt/format.h>
#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/frontend/tree_views.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "matcher/lang/syntax/precedence.h"

namespace graft::lang {
namespace {

namespace jit = torch::jit;

constexpr int maxDepth = 150;  // of an expression: everything after the parser recurses over it

class Converter {
 public:
  explicit Converter(const SourceText& text)
      : text_(text), parser_(std::make_shared<jit::Source>(text.masked(), text.file(), 1)) {
    std::vector<uint32_t> open{0};
    for (const char c : text.masked()) {
      if ((c == ')' || c == ']' || c == '}') && open.size() > 1) open.pop_back();
      bracketAround_.push_back(open.back());
      if (c == '(' || c == '[' || c == '{') open.push_back(static_cast<uint32_t>(bracketAround_.size()));
    }
  }

  FileSyntax file() {
    FileSyntax f;
    members(f, jit::TK_EOF);
    return f;
  }

 private:
  jit::Lexer& lexer() { return parser_.lexer(); }
  int kind() { return lexer().cur().kind; }

  void members(ClassSyntax& into, int end) {
    while (kind() != end) {
      const jit::Token token = lexer().cur();
      if (token.kind == jit::TK_NEWLINE || token.kind == jit::TK_PASS || token.kind == jit::TK_DOTS) {
        lexer().next();
      } else if (token.kind == jit::TK_DEF) {
        into.functions.push_back(function(jit::Def(parser_.parseFunction(false))));
      } else if (token.kind == jit::TK_CLASS_DEF) {
        into.classes.push_back(classBody());
      } else {
        assignment(into);
      }
    }
  }

  ClassSyntax classBody() {
    ClassSyntax c;
    lexer().next();
    const jit::Token name = lexer().expect(jit::TK_IDENT);
    c.name = name.text();
    c.span = span(name.range);
    if (lexer().nextIf('(')) {
      while (kind() != ')') {
        c.bases.push_back(expression(parser_.parseExp(), 0));
        if (!lexer().nextIf(',')) break;
      }
      lexer().expect(')');
    }
    lexer().expect(':');
    if (kind() != jit::TK_INDENT) {  // class Pattern(Rule): pass
      while (kind() == jit::TK_PASS || kind() == jit::TK_DOTS) lexer().next();
      return c;
    }
    lexer().next();
    members(c, jit::TK_DEDENT);
    lexer().next();
    return c;
  }

  void assignment(ClassSyntax& into) {
    const bool first = into.doc.empty() && into.assignments.empty() && into.functions.empty() && into.classes.empty();
    Syntax left = expression(parser_.parseExp(), 0);
    if (lexer().nextIf(':')) parser_.parseExp();  // scope: str = "..."
    if (lexer().nextIf('=')) {
      if (left.kind != Syntax::Kind::Name) text_.fail(left.span.begin, "only a plain name can be given a value here");
      Syntax value = expression(parser_.parseExp(), 0);
      into.assignments.emplace_back(left.name, std::move(value));
      into.assignments.back().second.focus = left.span;
    } else if (first && left.kind == Syntax::Kind::Constant && left.literal.as<std::string>()) {
      into.doc = *left.literal.as<std::string>();
      into.docSpan = left.span;
    } else {
      into.expressions.push_back(std::move(left));  // most of them (torch.fx.wrap("f")) carry no meaning
    }
    if (kind() != jit::TK_EOF && kind() != jit::TK_DEDENT) lexer().expect(jit::TK_NEWLINE);
  }

  FunctionSyntax function(const jit::Def& def) {
    FunctionSyntax f;
    f.name = def.name().name();
    f.span = span(def.name().range());
    for (const jit::Param& p : def.decl().params()) {
      ParameterSyntax q;
      q.name = p.ident().name();
      q.span = span(p.ident().range());
      if (p.type().present()) q.type = expression(p.type().get(), 0);
      if (p.defaultValue().present()) q.defaultValue = expression(p.defaultValue().get(), 0);
      f.parameters.push_back(std::move(q));
    }
    bool first = true;
    for (const jit::Stmt& s : def.statements()) {
      if (first && s.kind() == jit::TK_EXPR_STMT) {
        const jit::Expr e = jit::ExprStmt(s).expr();
        if (e.kind() == jit::TK_STRINGLITERAL) {
          f.doc = *expression(e, 0).literal.as<std::string>();
          f.docSpan = span(e.range());
        }
      }
      first = false;
      if (s.kind() == jit::TK_DEF)
        f.functions.push_back(function(jit::Def(s.tree())));
      else
        statement(s, f.body);
    }
    return f;
  }

  void statement(const jit::Stmt& s, std::vector<StatementSyntax>& into) {
    StatementSyntax out;
    out.span = span(s.range());
    switch (s.kind()) {
      case jit::TK_ASSIGN: {
        const jit::Assign a(s.tree());
        for (const jit::Expr& target : a.lhs_list()) out.targets.push_back(expression(target, 0));
        if (!a.rhs().present()) return;
        out.kind = StatementSyntax::Kind::Assign;
        out.value = expression(a.rhs().get(), 0);
        break;
      }
      case jit::TK_AUG_ASSIGN: {
        const jit::AugAssign a(s.tree());
        out.kind = StatementSyntax::Kind::AugmentedAssign;
        out.targets.push_back(expression(a.lhs(), 0));
        out.op = operatorText(a.aug_op());
        out.value = expression(a.rhs(), 0);
        break;
      }
      case jit::TK_RETURN: {
        out.kind = StatementSyntax::Kind::Return;
        out.value = expression(jit::Return(s.tree()).expr(), 0);
        break;
      }
      case jit::TK_EXPR_STMT:
        out.value = expression(jit::ExprStmt(s.tree()).expr(), 0);
        break;
      case jit::TK_PASS:
        return;
      default:
        text_.fail(out.span.begin, fmt::format("`{}` has no meaning in a rule", jit::kindToString(s.kind())));
    }
    into.push_back(std::move(out));
  }

  static std::string operatorText(int kind) {
    switch (kind) {
      case jit::TK_FLOOR_DIV:
        return "//";
      case jit::TK_POW:
        return "**";
      case jit::TK_EQ:
        return "==";
      case jit::TK_NE:
        return "!=";
      case jit::TK_LE:
        return "<=";
      case jit::TK_GE:
        return ">=";
      case jit::TK_LSHIFT:
        return "<<";
      case jit::TK_RSHIFT:
        return ">>";
      case jit::TK_IN:
        return "in";
      case jit::TK_IS:
        return "is";
      case jit::TK_ISNOT:
        return "is not";
      case jit::TK_AND:
        return "and";
      case jit::TK_OR:
        return "or";
      case jit::TK_NOT:
        return "not";
      case jit::TK_UNARY_MINUS:
        return "-";
      default:
        return std::string(1, static_cast<char>(kind));
    }
  }

  Span span(const jit::SourceRange& r) const {
    return {static_cast<uint32_t>(r.start()), static_cast<uint32_t>(r.end())};
  }

  void add(Syntax& to, const jit::TreeRef& tree, int depth) {
    to.items.push_back(expression(tree, depth + 1));
    const Span s = to.items.back().span;
    to.span.begin = std::min(to.span.begin, s.begin);
    to.span.end = std::max(to.span.end, s.end);
  }
  void addAll(Syntax& to, const jit::TreeRef& list, int depth) {
    for (const jit::TreeRef& t : list->trees()) add(to, t, depth);
  }
  void addMaybe(Syntax& to, const jit::TreeRef& option, int depth) {
    if (option->trees().empty()) {
      to.items.emplace_back();
    } else {
      add(to, option->trees()[0], depth);
    }
  }

  Syntax expression(const jit::TreeRef& tree, int depth) {
    using Kind = Syntax::Kind;
    Syntax e;
    e.span = e.focus = span(tree->range());
    if (depth > maxDepth) text_.fail(e.span.begin, "this expression is nested too deeply: give parts of it names");
    const auto& trees = tree->trees();
    switch (tree->kind()) {
      case jit::TK_CONST:
        e.literal = number(jit::Const(tree).text(), e.span.begin);
        break;
      case jit::TK_STRINGLITERAL: {
        const std::string& masked = jit::StringLiteral(tree).text();
        e.literal = Argument(text_.decodeString(e.span.begin, masked.size()));
        break;
      }
      case jit::TK_TRUE:
        e.literal = Argument(true);
        break;
      case jit::TK_FALSE:
        e.literal = Argument(false);
        break;
      case jit::TK_NONE:
      case jit::TK_NONE_TYPE:
        break;
      case jit::TK_DOTS:
        e.literal = Argument(Ellipsis{});
        break;
      case jit::TK_VAR:
        e.kind = Kind::Name;
        e.name = jit::Var(tree).name().name();
        if (e.name == "Ellipsis") {
          e.kind = Kind::Constant;
          e.literal = Argument(Ellipsis{});
        }
        break;
      case '.': {
        e.kind = Kind::Attribute;
        const jit::Select select(tree);
        e.name = select.selector().name();
        e.focus = span(select.selector().range());
        e.span = e.focus;
        add(e, select.value(), depth);
        break;
      }
      case jit::TK_APPLY: {
        e.kind = Kind::Call;
        const jit::Apply apply(tree);
        add(e, apply.callee(), depth);
        e.focus =
            e.items[0].kind == Kind::Attribute && dottedName(e.items[0]).empty() ? e.items[0].focus : e.items[0].span;
        addAll(e, apply.inputs().tree(), depth);
        for (const jit::Attribute& a : apply.attributes()) {
          e.keywords.push_back({a.name().name(), expression(a.value(), depth + 1)});
          e.span.end = std::max(e.span.end, e.keywords.back().value.span.end);
        }
        if (e.items[0].kind == Kind::Name && e.items[0].name == "slice" && e.keywords.empty()) asSlice(e);
        break;
      }
      case jit::TK_SUBSCRIPT:
        e.kind = Kind::Subscript;
        add(e, trees[0], depth);
        addAll(e, trees[1], depth);
        break;
      case jit::TK_SLICE_EXPR:
        e.kind = Kind::Slice;
        for (const jit::TreeRef& bound : trees) addMaybe(e, bound, depth);
        while (e.items.size() < 3) e.items.emplace_back();
        break;
      case jit::TK_LIST_LITERAL:
      case jit::TK_TUPLE_LITERAL:
        e.kind = tree->kind() == jit::TK_LIST_LITERAL ? Kind::List : Kind::Tuple;
        addAll(e, trees[0], depth);
        break;
      case jit::TK_DICT_LITERAL:
        e.kind = Kind::Dict;
        for (size_t i = 0; i < trees[0]->trees().size(); ++i) {
          add(e, trees[0]->trees()[i], depth);
          add(e, trees[1]->trees()[i], depth);
        }
        break;
      case jit::TK_IF_EXPR:
        e.kind = Kind::IfElse;
        addAll(e, tree, depth);
        break;
      case jit::TK_LIST_COMP:
      case jit::TK_DICT_COMP:
        text_.fail(e.span.begin, "comprehensions would have to be executed: write the items out");
      default:
        if (!isPrefix(tree->kind()) && trees.size() != 2)
          text_.fail(e.span.begin, fmt::format("`{}` has no meaning in a rule", jit::kindToString(tree->kind())));
        return operation(tree, depth);
    }
    return e;
  }

  /// slice(None, 1, None), as torch.fx prints `:1`.
  static void asSlice(Syntax& e) {
    std::vector<Syntax> bounds(e.items.begin() + 1, e.items.end());
    if (bounds.empty() || bounds.size() > 3) return;
    if (bounds.size() == 1) bounds.insert(bounds.begin(), Syntax());
    bounds.resize(3);
    e.items = std::move(bounds);
    e.kind = Syntax::Kind::Slice;
  }

  static bool isPrefix(int kind) {
    return kind == jit::TK_UNARY_MINUS || kind == '~' || kind == jit::TK_NOT || kind == jit::TK_STARRED;
  }
  static bool isInfix(int kind) {
    switch (kind) {
      case jit::TK_AND:
      case jit::TK_OR:
      case jit::TK_IN:
      case jit::TK_IS:
      case jit::TK_ISNOT:
      case jit::TK_EQ:
      case jit::TK_NE:
      case jit::TK_LE:
      case jit::TK_GE:
      case jit::TK_LSHIFT:
      case jit::TK_RSHIFT:
      case jit::TK_FLOOR_DIV:
      case jit::TK_POW:
        return true;
      default:
        return kind > 0 && kind < 256 &&
               std::string_view("<>|^&+-*/%@").find(static_cast<char>(kind)) != std::string_view::npos;
    }
  }

  static bool isNotIn(const jit::TreeRef& tree) {
    return tree->kind() == jit::TK_NOT && tree->trees()[0]->kind() == jit::TK_IN &&
           tree->trees()[0]->range().start() == tree->range().start();
  }

  /// Where the operator itself stands: the parser's range is that of all it applies to.
  Span signSpan(const jit::TreeRef& tree, std::string_view sign) const {
    const auto begin = static_cast<uint32_t>(tree->range().start()), length = static_cast<uint32_t>(sign.size());
    if (isPrefix(tree->kind()) && !isNotIn(tree)) return {begin, begin + length};
    const jit::TreeRef& right = (isNotIn(tree) ? tree->trees()[0] : tree)->trees()[1];
    const std::string& text = text_.masked();
    size_t at = right->range().start();
    size_t minuses = 0;  // of the number -1, whose range begins at the 1
    if (right->kind() == jit::TK_CONST) minuses = jit::Const(right).text().find_first_not_of('-');
    const auto stands = [&] { return at >= length && text.compare(at - length, length, sign) == 0; };
    while (at > begin && (minuses > 0 || !stands())) minuses -= text[--at] == '-' && minuses > 0;
    at = std::max<size_t>(at, length);
    return {static_cast<uint32_t>(at) - length, static_cast<uint32_t>(at)};
  }

  /// Operators that no bracket parts, with their operands: grouped anew, since the parser's groups are not Python's.
  Syntax operation(const jit::TreeRef& tree, int depth) {
    std::vector<OperatorPart> parts;
    collect(tree, std::nullopt, depth, parts);
    return group(text_, std::move(parts));
  }

  void collect(const jit::TreeRef& tree, std::optional<uint32_t> bracket, int depth, std::vector<OperatorPart>& parts) {
    const int kind = tree->kind();
    const bool prefix = isPrefix(kind), infix = isInfix(kind) && tree->trees().size() == 2;
    Span at = span(tree->range());
    if (depth > maxDepth) text_.fail(at.begin, "this expression is nested too deeply: give parts of it names");
    const std::string sign = isNotIn(tree) ? "not in" : kind == jit::TK_STARRED ? "*" : operatorText(kind);
    if (prefix || infix) at = signSpan(tree, sign);
    if ((!prefix && !infix) || (bracket && bracketAround_[at.begin] != *bracket)) {
      parts.push_back({OperatorPart::Kind::Operand, {}, at, expression(tree, depth + 1)});
      return;
    }
    const auto& operands = (isNotIn(tree) ? tree->trees()[0] : tree)->trees();
    if (operands.size() > 1) collect(operands[0], bracketAround_[at.begin], depth + 1, parts);
    parts.push_back({operands.size() > 1 ? OperatorPart::Kind::Infix : OperatorPart::Kind::Prefix, sign, at, {}});
    collect(operands.back(), bracketAround_[at.begin], depth + 1, parts);
  }

  Argument number(std::string text, uint32_t offset) const {
    std::erase(text, '_');
    const bool negative = !text.empty() && text[0] == '-';
    const std::string digits = text.substr(negative ? 1 : 0);
    errno = 0;
    char* end = nullptr;
    if (!digits.empty() && digits.back() == 'j') {
      const double d = std::strtod(digits.c_str(), &end);
      return Argument(std::complex<double>(0, negative ? -d : d));
    }
    const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
    if (hex || digits.find_first_of(".eEn") == std::string::npos) {
      const long long i = std::strtoll(digits.c_str(), &end, hex ? 16 : 10);
      if (errno == ERANGE) text_.fail(offset, "this integer does not fit 64 bits");
      return Argument(static_cast<int64_t>(negative ? -i : i));
    }
    const double d = std::strtod(digits.c_str(), &end);
    return Argument(negative ? -d : d);
  }

  const SourceText& text_;
  std::vector<uint32_t> bracketAround_;  ///< by offset: the innermost bracket that is open there
  jit::Parser parser_;
};

std::string readable(std::string message) {
  for (auto [from, to] :
       {std::pair{"'newline'", "the end of the line"}, std::pair{"'ident'", "a name"},
        std::pair{"'number'", "a number"}, std::pair{"'string_literal'", "a string"},
        std::pair{"'eof'", "the end of the file"}, std::pair{"'indent'", "the end of the line"},
        std::pair{"'dedent'", "the end of the block"}, std::pair{"expected ident ", "expected a name or value "},
        std::pair{"expected newline", "expected the end of the line"},
        std::pair{"expected indent", "expected an indented block"}, std::pair{" here", ""}}) {
    for (size_t at; (at = message.find(from)) != std::string::npos;)
      message.replace(at, std::string_view(from).size(), to);
  }
  if (const size_t at = message.find("expected "); at != std::string::npos && message.find(" but", at) == at + 10)
    message = message.substr(0, at + 9) + "`" + message[at + 9] + "`" + message.substr(at + 10);
  while (!message.empty() && (message.back() == ':' || std::isspace(static_cast<unsigned char>(message.back()))))
    message.pop_back();
  return message;
}

/// The parser says where in its message: `line N`, and a line of `~~~ <--- HERE` below the text.
Error parserError(const SourceText& text, const std::string& what) {
  const std::string message = what.substr(0, what.find("\n"));
  const size_t at = what.find("\", line ");
  if (at == std::string::npos) return badInputAt({text.file(), 0, 0, {}}, readable(message));
  int line = std::atoi(what.c_str() + at + 8), column = 1;
  size_t lineBegin = 0, offset = 0;
  const auto startOf = [&](int wanted) {
    lineBegin = 0;
    for (int i = 1; i < wanted && lineBegin < text.masked().size(); ++i)
      lineBegin = text.masked().find('\n', lineBegin) + 1;
    return lineBegin;
  };
  const size_t mark = what.find("~", at);
  if (message.find("'newline'") != std::string::npos || mark == std::string::npos) {
    // The end of the line above: the token that ends a statement is the next line's indentation.
    size_t end = std::min(startOf(line), text.masked().size());
    while (end > 0 && std::isspace(static_cast<unsigned char>(text.masked()[end - 1]))) --end;
    offset = end;
  } else {
    const size_t markLine = what.rfind('\n', mark) + 1;
    column = static_cast<int>(mark - markLine) + 1;
    offset = startOf(line) + static_cast<size_t>(column - 1);
  }
  // Where the statement ends, the next line goes on with more indentation.
  if (message.find("expected newline") != std::string::npos && message.find("'indent'") != std::string::npos)
    if (const size_t next = text.masked().find_first_not_of(" \t\r\f\n", offset); next != std::string::npos)
      return badInputAt(text.position(static_cast<uint32_t>(next)),
                        "this line is indented further than the one above, which begins no block");
  return badInputAt(text.position(static_cast<uint32_t>(std::min(offset, text.masked().size() - 1))),
                    readable(message));
}

}  // namespace

FileSyntax parseFile(const SourceText& text) {
  try {
    return Converter(text).file();
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& e) {
    throw Failure{parserError(text, e.what())};
  }
}

std::string dottedName(const Syntax& s) {
  if (s.kind == Syntax::Kind::Name) return s.name;
  if (s.kind != Syntax::Kind::Attribute) return {};
  std::string base = dottedName(s.items[0]);
  return base.empty() ? base : base + "." + s.name;
}

bool derivesFrom(const ClassSyntax& c, std::string_view base) {
  return std::any_of(c.bases.begin(), c.bases.end(), [&](const Syntax& b) {
    const std::string name = dottedName(b);
    return name == base || name.ends_with("." + std::string(base));
  });
}

const FunctionSyntax* FunctionSyntax::findFunction(std::string_view function) const {
  for (const FunctionSyntax& f : functions)
    if (f.name == function) return &f;
  return nullptr;
}
const FunctionSyntax* ClassSyntax::findFunction(std::string_view function) const {
  for (const FunctionSyntax& f : functions)
    if (f.name == function) return &f;
  return nullptr;
}
const ClassSyntax* ClassSyntax::findClass(std::string_view inner) const {
  for (const ClassSyntax& c : classes)
    if (c.name == inner) return &c;
  return nullptr;
}
const Syntax* ClassSyntax::findAssignment(std::string_view variable) const {
  for (const auto& [name, value] : assignments)
    if (name == variable) return &value;
  return nullptr;
}

}  // namespace graft::lang
