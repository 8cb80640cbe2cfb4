#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <unordered_map>

#include "core/base/text_position.h"
#include "core/ir/calls/default_values.h"
#include "core/ir/verify.h"
#include "core/text/text.h"

namespace graft {
namespace {

// Deeper nests of lists or blocks are no graph but an attack on the stack.
constexpr int deepest = 200;

bool isWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

class Parser {
 public:
  Parser(std::string_view text, const OperatorSet& operators, std::string_view file)
      : text_(text), operators_(operators), file_(file) {}

  Result<Graph> run() {
    // Most lines are a node or a weight each.
    const auto lines = static_cast<size_t>(std::count(text_.begin(), text_.end(), '\n'));
    g_.reserve(lines);
    values_.reserve(lines);
    if (!graph()) return error_;
    if (Status s = verify(g_); !s) return badInputAt({std::string(file_), 0, 0, ""}, s.error().message);
    return std::move(g_);
  }

 private:
  // Lexing
  // --------------------------------------------------------------------------------------------------------------------
  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++at_;
      } else {
        return;
      }
    }
  }
  void skipInLine() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool eat(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    if (isWordChar(token.back()) && at_ + token.size() < text_.size() && isWordChar(text_[at_ + token.size()]))
      return false;
    at_ += token.size();
    return true;
  }
  std::string_view plainWord() {
    skip();
    const size_t from = at_;
    while (at_ < text_.size() && isWordChar(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }
  bool fail(const std::string& message) {
    if (failed_) return false;
    failed_ = true;
    error_ = badInputAt(positionAt(text_, at_, file_), message);
    return false;
  }
  bool expect(std::string_view token) { return eat(token) || fail(fmt::format("expected '{}'", token)); }

  bool quotedString(std::string& out) {
    if (peek() != '"') return fail("expected a quoted string");
    ++at_;
    out.clear();
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\n') return fail("a quoted string ends on its line");
      if (c != '\\') {
        out += c;
        continue;
      }
      c = at_ < text_.size() ? text_[at_++] : '\0';
      if (c == 'n') {
        out += '\n';
      } else if (c == 't') {
        out += '\t';
      } else if (c == 'r') {
        out += '\r';
      } else if (c == '"' || c == '\\') {
        out += c;
      } else if (c == 'x') {
        unsigned v = 0;
        const auto [end, e] =
            std::from_chars(text_.data() + at_, text_.data() + std::min(at_ + 2, text_.size()), v, 16);
        if (e != std::errc() || end != text_.data() + at_ + 2) return fail("expected two hexadecimal digits after \\x");
        out += static_cast<char>(v);
        at_ += 2;
      } else {
        return fail("unknown escape in a string");
      }
    }
    if (at_ >= text_.size()) return fail("a quoted string is not closed");
    ++at_;
    return true;
  }
  bool wordOrString(std::string& out) {
    if (peek() == '"') return quotedString(out);
    out = plainWord();
    return !out.empty() || fail("expected a name");
  }
  bool integer(int64_t& out) {
    skip();
    const auto [end, e] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    if (e != std::errc()) return fail("expected a whole number");
    at_ = static_cast<size_t>(end - text_.data());
    return true;
  }
  bool type(Type& out) {
    skip();
    std::string_view rest = text_.substr(at_);
    const auto t = consumeType(rest);
    if (!t) return fail("expected a type, like f32[2,3], int or list[tensor]");
    at_ = text_.size() - rest.size();
    out = *t;
    return true;
  }

  // Structure
  // -----------------------------------------------------------------------------------------------------------------
  bool graph() {
    if (!expect("graph")) return false;
    std::string name;
    if (!wordOrString(name) || !expect("{")) return false;
    g_.name = name == "_" ? "" : name;
    CallingConvention calling;
    bool isCalled = false;
    for (;;) {
      if (eat("module")) {
        if (!module()) return false;
      } else if (eat("symbol")) {
        if (!symbol()) return false;
      } else if (eat("weight")) {
        if (!weight(false, false)) return false;
      } else if (eat("buffer")) {
        if (!weight(true, false)) return false;
      } else if (eat("constant")) {
        if (!weight(true, true)) return false;
      } else if (eat("input")) {
        std::string_view n;
        Type t;
        if (!newName(n) || !expect(":") || !type(t)) return false;
        define(n, g_.addInput(n, std::move(t)));
      } else if (eat("arguments")) {
        if (!words(calling.names) || !tree(calling.arguments, 0)) return false;
        isCalled = true;
      } else if (eat("result")) {
        if (!tree(calling.result, 0)) return false;
      } else if (eat("namedtuple")) {
        auto& [type, fields] = calling.namedTuples.emplace_back();
        if (!quotedString(type) || !words(fields)) return false;
      } else {
        break;
      }
    }
    if (isCalled) g_.calling = std::make_shared<const CallingConvention>(std::move(calling));
    if (!body(g_.root(), 0)) return false;
    if (!expect("}")) return false;
    return peek() == '\0' || fail("expected the end of the text");
  }

  bool words(std::vector<std::string>& out) {
    if (!expect("[")) return false;
    while (!eat("]")) {
      if (!quotedString(out.emplace_back())) return false;
      if (!eat(",") && peek() != ']') return fail("expected ',' or ']'");
    }
    return true;
  }

  // tree("builtins.dict", "[\"x\"]", %x), an argument, or * for a leaf of the result.
  bool tree(TreeSpec& out, int depth) {
    if (depth > deepest) return fail("a tree is nested too deep");
    if (eat("*")) return true;
    if (!eat("tree(")) {
      if (!argument(out.leaf, depth)) return false;
      if (!eat("=")) return true;
      Argument value;
      if (!argument(value, depth)) return false;
      if (value.holdsValue()) return fail("a default is a literal");
      setDefault(out, std::move(value));
      return true;
    }
    if (!quotedString(out.type) || !expect(",") || !quotedString(out.context)) return false;
    if (out.type.empty()) return fail("a tree needs a type");
    while (eat(","))
      if (!tree(out.children.emplace_back(), depth + 1)) return false;
    return expect(")");
  }

  bool symbol() {
    Symbol s;
    s.name = plainWord();
    if (g_.findSymbol(s.name)) return fail(fmt::format("the symbol {} has two ranges", s.name));
    const auto bound = [&](std::optional<int64_t>& out, std::string_view none) {
      int64_t n = 0;
      if (eat(none)) return true;
      if (!integer(n)) return false;
      out = n;
      return true;
    };
    if (!expect("[") || !bound(s.min, "-inf") || !expect(",") || !bound(s.max, "inf") || !expect("]")) return false;
    g_.setSymbol(std::move(s));
    return true;
  }

  bool module() {
    const std::string_view id = plainWord();
    std::string path, moduleType;
    if (id.empty()) return fail("expected a module's id, like m0");
    if (!quotedString(path) || !wordOrString(moduleType)) return false;
    std::vector<std::pair<std::string, Argument>> constructor;
    if (eat("(")) {
      while (!eat(")")) {
        const std::string key(plainWord());
        Argument a;
        if (key.empty()) return fail("expected name=value");
        if (!expect("=") || !argument(a, 0)) return false;
        constructor.emplace_back(key, std::move(a));
        if (!eat(",") && peek() != ')') return fail("expected ',' or ')'");
      }
    }
    ModuleCallId parent;
    if (eat("in")) {
      const auto it = modules_.find(plainWord());
      if (it == modules_.end()) return fail("no module of that id stands above");
      parent = it->second;
    }
    const ModuleCallId m = g_.addModuleCall(parent, path, moduleType == "_" ? "" : moduleType);
    g_.mutableModuleCall(m).constructor = std::move(constructor);
    return modules_.emplace(id, m).second || fail(fmt::format("two modules are called {}", id));
  }

  bool newName(std::string_view& out) {
    if (!expect("%")) return false;
    out = plainWord();
    if (out.empty()) return fail("expected a name after %");
    return !values_.contains(out) || fail(fmt::format("%{} is defined twice", out));
  }

  void define(std::string_view name, ValueId v) { values_.emplace(name, v); }

  bool weight(bool isBuffer, bool isConstant) {
    std::string_view n;
    std::string path;
    Type t;
    if (!newName(n) || !quotedString(path) || !expect(":") || !type(t)) return false;
    const ValueId v = g_.addWeight(path, std::move(t), nullptr, isBuffer);
    g_.rename(v, n);
    g_.mutableWeight(v).isConstant = isConstant;
    g_.mutableWeight(v).isFrozen = !isBuffer && eat("frozen");
    define(n, v);
    return true;
  }

  bool body(BlockId block, int depth) {
    if (depth > deepest) return fail("control flow is nested too deep");
    while (!eat("return")) {
      if (peek() == '\0') return fail("expected a node or 'return'");
      if (!node(block, depth)) return false;
    }
    std::vector<Argument> returns;
    skipInLine();
    while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '}' && text_[at_] != '#') {
      Argument a;
      if (!argument(a, 0)) return false;
      returns.push_back(std::move(a));
      skipInLine();
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        skip();
      } else {
        break;
      }
    }
    g_.setReturns(block, std::move(returns));
    return true;
  }

  bool node(BlockId block, int depth) {
    std::vector<std::string_view> names;
    const bool nameless = eat("!");
    if (nameless) {
      names.push_back(plainWord());
      if (names[0].empty()) return fail("expected a name after !");
    } else {
      do {
        names.emplace_back();
        if (!newName(names.back())) return false;
      } while (eat(","));
    }
    if (!expect("=")) return false;
    const size_t opAt = at_;
    const std::string_view opName = plainWord();
    if (opName.empty()) return fail("expected an operator, like aten.relu.default");
    OperatorRef op = operators_.find(opName);
    if (!op) op = unknownOperator(std::string(opName));
    std::vector<Argument> args;
    std::vector<std::pair<std::string, Argument>> kwargs;
    if (!expect("(") || !arguments(*op, args, kwargs)) return false;
    std::vector<Type> types;
    if (eat(":")) {
      do {
        types.emplace_back();
        if (!type(types.back())) return false;
      } while (eat(","));
    }
    const size_t outputs = nameless ? 0 : names.size();
    if (types.size() > outputs) return fail("more types than outputs");
    const bool free = !op->hasSchema || op->variadic || op->name == "prim.If";  // what its branches return
    if (!free && op->returns.size() != outputs) {
      at_ = opAt;
      return fail(fmt::format("{} has {} outputs, {} are named", opName, op->returns.size(), outputs));
    }
    const NodeId id = g_.append(block, op, std::move(args), names[0]);
    if (!kwargs.empty()) g_.setKeywordArguments(id, std::move(kwargs));
    for (size_t i = g_.node(id).outputs.size(); i < outputs; ++i) g_.addOutput(id, names[i], Type::any());
    for (size_t i = 0; i < outputs; ++i) {
      const ValueId v = g_.node(id).outputs[i];
      g_.rename(v, names[i]);
      if (i < types.size()) g_.setType(v, std::move(types[i]));
    }
    if (!annotations(id)) return false;
    while (peekBlock()) {
      expect("{");
      const BlockId b = g_.addBlock(id);
      if (!parameters(b) || !body(b, depth + 1) || !expect("}")) return false;
    }
    for (size_t i = 0; i < outputs; ++i) define(names[i], g_.node(id).outputs[i]);
    return true;
  }

  bool peekBlock() { return peek() == '{'; }

  bool annotations(NodeId id) {
    if (eat("@")) {
      const auto it = modules_.find(plainWord());
      if (it == modules_.end()) return fail("no module of that id stands above");
      g_.setModule(id, it->second);
    }
    if (peek() != '"') return true;
    SourceLocation s;
    int64_t line = 0, column = 0, end = 0;
    if (!quotedString(s.file) || !expect(":") || !integer(line)) return false;
    if (at_ < text_.size() && text_[at_] == ':' && (!expect(":") || !integer(column) || !expect(":") || !integer(end)))
      return false;
    s.line = static_cast<int>(line);
    s.column = static_cast<int>(column);
    s.endColumn = static_cast<int>(end);
    g_.setSource(id, g_.addSource(std::move(s)));
    return true;
  }

  bool parameters(BlockId b) {
    while (peek() == '%') {
      // A parameter ends in ';', a node has '='.
      const size_t stop = text_.find_first_of("=;", at_);
      if (stop == std::string_view::npos || text_[stop] == '=') return true;
      std::string_view n;
      Type t;
      if (!newName(n) || !expect(":") || !type(t) || !expect(";")) return false;
      define(n, g_.addBlockParameter(b, n, std::move(t)));
    }
    return true;
  }

  // Arguments in any order by name; what is missing takes its default.
  bool arguments(const Operator& op, std::vector<Argument>& args,
                 std::vector<std::pair<std::string, Argument>>& kwargs) {
    const bool free = !op.hasSchema || op.variadic;
    std::vector<bool> given(op.parameters.size(), false);
    if (!free) args.resize(op.parameters.size());
    size_t position = 0;
    while (!eat(")")) {
      skip();
      const size_t from = at_;
      std::string_view key = plainWord();
      if (key.empty() || peek() != '=') {
        at_ = from;
        key = {};
      } else {
        expect("=");
      }
      Argument a;
      if (!argument(a, 0)) return false;
      if (free) {
        // condition=True of a loop is its second argument, whatever follows.
        const bool next = op.hasSchema && args.size() < op.parameters.size() && op.parameters[args.size()].name == key;
        if (key.empty() || next)
          args.push_back(std::move(a));
        else
          kwargs.emplace_back(key, std::move(a));
      } else {
        const auto index = key.empty() ? std::optional<size_t>(position++) : op.findParameter(key);
        if (!index || *index >= args.size()) {
          at_ = from;
          return fail(key.empty() ? fmt::format("too many arguments for {}", schemaString(op))
                                  : fmt::format("{} has no parameter {}: {}", op.name, key, schemaString(op)));
        }
        if (given[*index]) {
          at_ = from;
          return fail(fmt::format("{} is given twice", op.parameters[*index].name));
        }
        given[*index] = true;
        args[*index] = std::move(a);
        position = *index + 1;  // a name moves on, too: what follows it without one is the next parameter
      }
      if (!eat(",") && peek() != ')') return fail("expected ',' or ')'");
    }
    for (size_t i = 0; !free && i < given.size(); ++i) {
      if (given[i]) continue;
      const Parameter& p = op.parameters[i];
      if (!p.defaultValue && p.type.kind != Type::Kind::Optional)
        return fail(fmt::format("{} needs {}: {}", op.name, p.name, schemaString(op)));
      if (p.defaultValue) args[i] = *p.defaultValue;
    }
    return true;
  }

  bool sequence(std::vector<Argument>& out, char close, int depth) {
    const std::string_view token(&close, 1);
    while (!eat(token)) {
      out.emplace_back();
      if (!argument(out.back(), depth + 1)) return false;
      if (!eat(",") && peek() != close) return fail(fmt::format("expected ',' or '{}'", close));
    }
    return true;
  }

  bool argument(Argument& out, int depth) {
    if (depth > deepest) return fail("an argument is nested too deep");
    const char c = peek();
    if (c == '%') {
      ++at_;
      const size_t from = at_;
      const auto it = values_.find(plainWord());
      if (it == values_.end()) {
        at_ = from;
        return fail("no value of that name is defined above");
      }
      out = Argument(it->second);
      return true;
    }
    if (c == '"') {
      std::string s;
      if (!quotedString(s)) return false;
      out = Argument(std::move(s));
      return true;
    }
    std::vector<Argument> items;
    if (c == '[') {
      ++at_;
      if (!sequence(items, ']', depth)) return false;
      out = Argument::list(std::move(items));
      return true;
    }
    if (c == '(') {
      ++at_;
      if (!sequence(items, ')', depth)) return false;
      out = Argument::tuple(std::move(items));
      return true;
    }
    if (c == '{') return dict(out, depth);
    if (c == '<') {
      const size_t end = text_.find('>', at_);
      if (end == std::string_view::npos) return fail("expected '>'");
      out = Argument(Named{std::string(text_.substr(at_ + 1, end - at_ - 1))});
      at_ = end + 1;
      return true;
    }
    if (eat("...")) return out = Argument(Ellipsis{}), true;
    if (eat("None")) return out = Argument(), true;
    if (eat("True")) return out = Argument(true), true;
    if (eat("False")) return out = Argument(false), true;
    if (eat("slice(")) {
      if (!sequence(items, ')', depth)) return false;
      if (items.size() != 3) return fail("a slice has start, stop and step");
      out = Argument::slice(items[0], items[1], items[2]);
      return true;
    }
    if (eat("complex(")) {
      if (!sequence(items, ')', depth)) return false;
      if (items.size() != 2 || !items[0].number() || !items[1].number()) return fail("a complex number has two parts");
      out = Argument(std::complex<double>(*items[0].number(), *items[1].number()));
      return true;
    }
    if (eat("device(") || eat("sym(")) {
      const bool device = text_[at_ - 2] == 'e';
      std::string s;
      if (!quotedString(s) || !expect(")")) return false;
      out = device ? Argument(DeviceName{std::move(s)}) : Argument(SymbolicInt{std::move(s)});
      return true;
    }
    return numberOrDType(out);
  }

  bool dict(Argument& out, int depth) {
    ++at_;
    std::vector<std::pair<Argument, Argument>> items;
    while (!eat("}")) {
      items.emplace_back();
      if (!argument(items.back().first, depth + 1) || !expect(":") || !argument(items.back().second, depth + 1))
        return false;
      if (!eat(",") && peek() != '}') return fail("expected ',' or '}'");
    }
    out = Argument::dict(std::move(items));
    return true;
  }

  bool numberOrDType(Argument& out) {
    const size_t from = at_;
    if (eat("-")) {
      const size_t digits = at_;
      if (eat("inf")) return out = Argument(-INFINITY), true;
      at_ = digits;
    }
    std::string token(text_.substr(from, at_ - from));
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool sign = (c == '-' || c == '+') && !token.empty() && token.back() == 'e';
      if (!isWordChar(c) && !sign) break;
      token += c;
      ++at_;
    }
    if (token == "inf") return out = Argument(HUGE_VAL), true;
    if (token == "nan") return out = Argument(std::nan("")), true;
    if (token.starts_with("torch.")) {
      if (const auto d = parseDType(std::string_view(token).substr(6))) return out = Argument(*d), true;
    }
    const char* end = token.data() + token.size();
    int64_t i = 0;
    if (auto [stop, e] = std::from_chars(token.data(), end, i); e == std::errc() && stop == end)
      return out = Argument(i), true;
    double d = 0;
    if (auto [stop, e] = std::from_chars(token.data(), end, d); e == std::errc() && stop == end && !token.empty())
      return out = Argument(d), true;
    at_ = from;
    return fail(
        "expected a value (%name), a number, a string, a list, a dtype like torch.float32, True, False or None");
  }

  std::string_view text_;
  const OperatorSet& operators_;
  std::string_view file_;
  size_t at_ = 0;
  Graph g_;
  // By their names in the text, which outlives the parser.
  std::unordered_map<std::string_view, ValueId> values_;
  std::unordered_map<std::string_view, ModuleCallId> modules_;
  bool failed_ = false;
  Error error_;
};

}  // namespace

Result<Graph> parseText(std::string_view text, const OperatorSet& operators, std::string_view file) {
  return Parser(text, operators, file).run();
}

}  // namespace graft
