#include <fmt/format.h>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/base/text_position.h"
#include "core/compile/loops/element.h"
#include "core/compile/loops/spelling.h"
#include "core/compile/loops/text.h"
#include "core/compile/loops/verify.h"

namespace graft::loops {
namespace {

constexpr size_t kLongestText = size_t{4} << 20;
constexpr int kDeepestNesting = 200;
constexpr size_t kMostDimensions = 64;
constexpr size_t kMostDeclarations = 20000;  // of buffers, of ranges, of sizes and of nests

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameChar(char c) { return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class ProgramParser {
 public:
  ProgramParser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<Program> run() {
    if (text_.size() > kLongestText) {
      fail(fmt::format("a program has at most {} characters", kLongestText));
    } else if (header()) {
      while (nextLine() && line()) {
      }
    }
    if (failed_) return error_;
    if (Status s = verify(program_); !s) return badInputAt({std::string(file_), 0, 0, ""}, s.error().message);
    return std::move(program_);
  }

 private:
  enum class Meaning : uint8_t { Size, Range, Buffer, Part };

  // Characters
  // --------------------------------------------------------------------------------------------------------------------
  bool fail(const std::string& message) { return failAt(at_, message); }
  bool failAt(size_t place, const std::string& message) {
    if (failed_) return false;
    failed_ = true;
    constexpr size_t kLongestLine = 500;
    error_ = badInputAt(positionAt(text_, place, file_, kLongestLine), message);
    return false;
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    if (at_ < text_.size() && text_[at_] == '#')
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool atLineEnd() {
    skip();
    return at_ >= text_.size() || text_[at_] == '\n';
  }
  // To the next line with something on it.
  bool nextLine() {
    if (failed_) return false;
    while (atLineEnd()) {
      if (at_ >= text_.size()) return false;
      ++at_;
    }
    return true;
  }
  bool eat(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    const size_t end = at_ + token.size();
    if (isNameChar(token.back()) && end < text_.size() && isNameChar(text_[end])) return false;
    at_ = end;
    return true;
  }
  bool expect(std::string_view token) { return eat(token) || fail(fmt::format("expected '{}'", token)); }
  bool endOfLine() { return atLineEnd() || fail("expected the end of the line"); }
  std::string_view word() {
    skip();
    const size_t from = at_;
    while (at_ < text_.size() && isNameChar(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }
  bool wholeNumber(int64_t& out) {
    skip();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    if (error != std::errc()) return fail("expected a whole number of 64 bits");
    at_ = static_cast<size_t>(end - text_.data());
    return true;
  }

  // Lines
  // --------------------------------------------------------------------------------------------------------------------
  bool header() {
    int64_t version = 0;
    if (!nextLine()) return fail("a program begins with the line 'loops 1'");
    if (!eat("loops")) return fail("a program begins with the line 'loops 1'");
    const size_t place = at_;
    if (!wholeNumber(version)) return false;
    if (version > kProgramVersion)
      return failAt(
          place, fmt::format("the program has version {}; this build reads versions up to {}: use a newer one", version,
                             kProgramVersion));
    return version == kProgramVersion ? endOfLine() : failAt(place, "there is no such version");
  }

  bool line() {
    const size_t from = at_;
    const std::string_view first = word();
    if (peek() == '[') {
      at_ = from;
      return store() && endOfLine();
    }
    if (first == "size") return size() && endOfLine();
    if (first == "input") return buffer(Buffer::Role::Input) && endOfLine();
    if (first == "output") return buffer(Buffer::Role::Output) && endOfLine();
    if (first == "temporary") return buffer(Buffer::Role::Temporary) && endOfLine();
    if (first == "local") return buffer(Buffer::Role::Local) && endOfLine();
    if (first == "nest") return nest() && endOfLine();
    if (first == "let") return part() && endOfLine();
    return failAt(from, "expected size, input, output, temporary, local, nest, let, or an element to be written");
  }

  bool newName(Meaning meaning, std::string& out) {
    skip();
    const size_t place = at_;
    out = word();
    if (!isPlainName(out))
      return failAt(place, "expected a name: letters, digits and underscores, and no word of the language");
    if (!meanings_.try_emplace(out, meaning).second) return failAt(place, fmt::format("the name '{}' is taken", out));
    return true;
  }

  bool size() {
    Size s;
    if (program_.sizes.size() >= kMostDeclarations) return fail("too many sizes");
    if (!newName(Meaning::Size, s.name) || !expect("in") || !wholeNumber(s.min) || !expect("..")) return false;
    int64_t max = 0;
    if (!atLineEnd()) {
      if (!wholeNumber(max)) return false;
      s.max = max;
    }
    const std::string name = s.name;
    sizes_.emplace(name, program_.addSize(std::move(s)));
    return true;
  }

  bool buffer(Buffer::Role role) {
    if (program_.buffers.size() >= kMostDeclarations) return fail("too many buffers");
    std::string name;
    if (!newName(Meaning::Buffer, name) || !expect(":")) return false;
    skip();
    const size_t place = at_;
    const auto dtype = findDType(word());
    if (!dtype) return failAt(place, "expected a dtype: bool, u8, i8, i16, i32, i64, f16, bf16, f32 or f64");
    std::vector<ExprId> sizes;
    if (!expect("[")) return false;
    const bool before = std::exchange(isExtent_, true);
    const bool isGood = expressions(sizes, "]");
    isExtent_ = before;
    if (!isGood) return false;
    buffers_.emplace(name, program_.addBuffer(name, *dtype, std::move(sizes), role));
    return true;
  }

  bool nest() {
    if (program_.nests.size() >= kMostDeclarations) return fail("too many nests");
    Nest n;
    if (!atLineEnd() && !ranges(n.outer)) return false;
    program_.nests.push_back(std::move(n));
    for (const auto& [name, id] : parts_) meanings_.erase(name);
    parts_.clear();
    return true;
  }

  bool inNest() { return !program_.nests.empty() || fail("expected 'nest' before it"); }

  bool part() {
    std::string name;
    skip();
    if (!inNest() || !newName(Meaning::Part, name) || !expect("=")) return false;
    ExprId value;
    std::vector<RangeId> ranges;
    if (!trailingRanges(ranges) || !expression(value) || !jumpBehindRanges()) return false;
    parts_.emplace(std::move(name), value);
    return true;
  }

  bool store() {
    Store s;
    skip();
    const size_t place = at_;
    const auto b = buffers_.find(std::string(word()));
    if (!inNest()) return false;
    if (b == buffers_.end()) return failAt(place, "no buffer has this name");
    s.buffer = b->second;
    if (!trailingRanges(s.ranges) || !expect("[") || !expressions(s.index, "]") || !expect("=") ||
        !expression(s.value) || !jumpBehindRanges())
      return false;
    if (eat("scan")) {
      skip();
      const size_t kindPlace = at_;
      const auto kind = findReduce(word());
      if (!kind) return failAt(kindPlace, "expected sum, product, minimum or maximum");
      s.scanKind = *kind;
      if (!expect("over")) return false;
      skip();
      const size_t rangePlace = at_;
      const auto r = ranges_.find(std::string(word()));
      if (r == ranges_.end()) return failAt(rangePlace, "no range has this name");
      s.scan = r->second;
    }
    program_.nests.back().stores.push_back(std::move(s));
    return true;
  }

  // The ranges stand behind the expressions that use them, and are read before: "y[i] = x[i] for i < 4".
  bool trailingRanges(std::vector<RangeId>& out) {
    const size_t from = at_;
    std::string_view line = text_.substr(from, text_.find('\n', from) - from);
    line = line.substr(0, line.find('#'));
    rangesEnd_ = 0;
    constexpr std::string_view kFor = "for";
    for (size_t i = line.find(kFor); i != std::string_view::npos; i = line.find(kFor, i + 1)) {
      const size_t behind = i + kFor.size();
      if ((i > 0 && isNameChar(line[i - 1])) || (behind < line.size() && isNameChar(line[behind]))) continue;
      at_ = from + behind;
      rangesBegin_ = from + i;
      if (!ranges(out)) return false;
      rangesEnd_ = at_;
      break;
    }
    at_ = from;
    return true;
  }
  bool jumpBehindRanges() {
    if (rangesEnd_ == 0) return true;
    skip();
    if (at_ != rangesBegin_) return fail("expected 'for'");
    at_ = rangesEnd_;
    return true;
  }

  bool ranges(std::vector<RangeId>& out) {
    do {
      if (out.size() >= kMostDimensions) return fail("too many ranges");
      skip();
      const size_t place = at_;
      const std::string name(word());
      if (!isPlainName(name)) return failAt(place, "expected the name of a range");
      ExprId extent;
      if (!expect("<")) return false;
      const bool before = std::exchange(isExtent_, true);
      const bool isGood = binary(Precedence::Sum, extent);
      isExtent_ = before;
      if (!isGood) return false;
      const auto known = ranges_.find(name);
      if (known == ranges_.end()) {
        if (program_.ranges.size() >= kMostDeclarations) return fail("too many ranges");
        if (!meanings_.try_emplace(name, Meaning::Range).second)
          return failAt(place, fmt::format("the name '{}' is taken", name));
        out.push_back(program_.addRange(name, extent));
        ranges_.emplace(name, out.back());
      } else if (program_.range(known->second).extent == extent) {
        out.push_back(known->second);
      } else {
        return failAt(place, fmt::format("the range '{}' has another extent before", name));
      }
    } while (eat(","));
    return true;
  }

  // Expressions
  // --------------------------------------------------------------------------------------------------------------------
  bool expressions(std::vector<ExprId>& out, std::string_view end) {
    if (eat(end)) return true;
    do {
      if (out.size() >= kMostDimensions) return fail("too many dimensions");
      ExprId e;
      if (!expression(e)) return false;
      out.push_back(e);
    } while (eat(","));
    return expect(end);
  }

  bool expression(ExprId& out) { return binary(Precedence::Or, out); }

  const Infix* eatInfix(Precedence loosest) {
    skip();
    if (text_.substr(at_).starts_with("=") && !text_.substr(at_).starts_with("==")) return nullptr;
    for (const Infix& i : kInfixes)
      if (i.precedence >= loosest && eat(i.sign)) return &i;
    return nullptr;
  }

  bool binary(Precedence loosest, ExprId& out) {
    if (!unary(loosest, out)) return false;
    bool isCompared = false;
    for (;;) {
      skip();
      const size_t place = at_;
      // In a comparison's place, '>' is '<' the other way round.
      bool isSwapped = false;
      const Infix* infix = nullptr;
      if (loosest <= Precedence::Comparison && peek() == '>') {
        isSwapped = true;
        ++at_;
        const Op op = text_.substr(at_).starts_with("=") ? Op::LessEqual : Op::Less;
        if (op == Op::LessEqual) ++at_;
        infix = findInfix(op, DType::Bool);
      } else {
        infix = eatInfix(loosest);
      }
      if (!infix) return true;
      if (infix->precedence == Precedence::Comparison && std::exchange(isCompared, true))
        return failAt(place, "a comparison of a comparison needs parentheses");
      ExprId right;
      if (!binary(static_cast<Precedence>(static_cast<uint8_t>(infix->precedence) + 1), right)) return false;
      if (infix->precedence < Precedence::Comparison) isCompared = false;
      if (isSwapped) std::swap(out, right);
      const DType a = dtype(out), b = dtype(right);
      if (a != b)
        return failAt(place, fmt::format("'{}' takes operands of one dtype, not {} and {}", infix->sign, dtypeText(a),
                                         dtypeText(b)));
      if ((infix->op == Op::And || infix->op == Op::Or) && a != DType::Bool)
        return failAt(place,
                      fmt::format("'{}' takes bool; of integers there is bit_{}(a, b)", infix->sign, infix->sign));
      out = program_.expressions.binary(infix->op, out, right);
    }
  }

  bool unary(Precedence loosest, ExprId& out) {
    if (depth_ >= kDeepestNesting) return fail("the expression is nested too deep");
    ++depth_;
    const bool isGood = nestedUnary(loosest, out);
    --depth_;
    return isGood;
  }

  bool nestedUnary(Precedence loosest, ExprId& out) {
    skip();
    const size_t place = at_;
    if (loosest <= Precedence::Not && eat("not")) {
      if (!binary(Precedence::Not, out)) return false;
      if (dtype(out) != DType::Bool) return failAt(place, "'not' takes bool; of integers there is bit_not(a)");
      out = program_.expressions.unary(Op::Not, out);
      return true;
    }
    if (peek() != '-') return primary(out);
    ++at_;
    const char next = peek();
    if (isDigit(next) || isInfinity()) return number(true, out);
    if (!unary(Precedence::Sign, out)) return false;
    out = program_.expressions.unary(Op::Negate, out);
    return true;
  }

  bool isInfinity() {
    skip();
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with("inf") && (rest.size() == 3 || !isNameChar(rest[3]) || rest[3] == '_');
  }
  bool isNaN() {
    skip();
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with("nan") && (rest.size() == 3 || !isNameChar(rest[3]) || rest[3] == '_');
  }

  bool number(bool isNegative, ExprId& out) {
    skip();
    const size_t from = at_;
    bool isFloating = false;
    if (isInfinity() || isNaN()) {
      at_ += 3;
      isFloating = true;
    } else {
      const auto digits = [&] {
        while (at_ < text_.size() && isDigit(text_[at_])) ++at_;
      };
      digits();
      if (at_ < text_.size() && text_[at_] == '.') {
        isFloating = true;
        ++at_;
        digits();
      }
      if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
        isFloating = true;
        ++at_;
        if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
        digits();
      }
    }
    const std::string digits = (isNegative ? "-" : "") + std::string(text_.substr(from, at_ - from));
    DType type = isFloating ? DType::Float32 : DType::Int64;
    if (at_ < text_.size() && text_[at_] == '_') {
      const size_t place = ++at_;
      const auto named = findDType(word());
      if (!named || *named == DType::Bool || isFloatingPoint(*named) != isFloating)
        return failAt(place, "expected the dtype of this number");
      type = *named;
    }
    const auto read = [&](auto& value) {
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return error == std::errc() && end == digits.data() + digits.size();
    };
    if (!isFloating) {
      int64_t value = 0;
      if (!read(value) || wrapped(value, type) != value)
        return failAt(from, fmt::format("the number does not fit {}", dtypeText(type)));
      out = program_.expressions.number(type, value);
    } else if (type == DType::Float32) {
      float value = 0;
      if (!read(value)) return failAt(from, "expected a number of dtype f32");
      out = program_.expressions.number(type, static_cast<double>(value));
    } else {
      double value = 0;
      if (!read(value)) return failAt(from, fmt::format("expected a number of dtype {}", dtypeText(type)));
      out = program_.expressions.number(type, value);
    }
    return true;
  }

  bool primary(ExprId& out) {
    const char c = peek();
    if (isDigit(c) || isInfinity() || isNaN()) return number(false, out);
    if (eat("(")) return expression(out) && expect(")");
    const size_t place = at_;
    const std::string name(word());
    if (name.empty()) return fail("expected an expression");
    if (name == "true" || name == "false") {
      out = program_.expressions.boolean(name == "true");
      return true;
    }
    const char next = peek();
    if (next == '(') return call(name, place, out);
    if (next == '[') return load(name, place, out);
    if (const auto s = sizes_.find(name); s != sizes_.end()) {
      out = program_.expressions.size(s->second);
      return true;
    }
    if (isExtent_) return failAt(place, "an extent is made of numbers and sizes; no size has this name");
    if (const auto p = parts_.find(name); p != parts_.end()) {
      out = p->second;
      return true;
    }
    if (const auto r = ranges_.find(name); r != ranges_.end()) {
      out = program_.expressions.range(r->second);
      return true;
    }
    return failAt(place, fmt::format("nothing has the name '{}'", name.substr(0, 100)));
  }

  bool load(const std::string& name, size_t place, ExprId& out) {
    const auto b = buffers_.find(name);
    if (isExtent_) return failAt(place, "an extent is made of numbers and sizes");
    if (b == buffers_.end()) return failAt(place, "no buffer has this name");
    std::vector<ExprId> index;
    if (!expect("[") || !expressions(index, "]")) return false;
    out = program_.expressions.load(b->second, std::move(index), program_.buffer(b->second).dtype);
    return true;
  }

  // Whether a colon follows in these parentheses: "maximum(r < 4: x[r])", and not "maximum(a, b)".
  bool hasColon() const {
    int open = 0;
    for (size_t i = at_; i < text_.size() && text_[i] != '\n' && text_[i] != '#'; ++i) {
      if (text_[i] == '(' || text_[i] == '[') ++open;
      if ((text_[i] == ')' || text_[i] == ']') && --open == 0) return false;
      if (text_[i] == ':' && open == 1) return true;
    }
    return false;
  }

  bool call(const std::string& name, size_t place, ExprId& out) {
    if (const auto kind = findReduce(name); kind && !isExtent_ && hasColon()) {
      std::vector<RangeId> over;
      ExprId body;
      if (!expect("(") || !ranges(over) || !expect(":") || !expression(body) || !expect(")")) return false;
      out = program_.expressions.reduce(*kind, std::move(over), body);
      return true;
    }
    std::vector<ExprId> operands;
    if (!expect("(") || !expressions(operands, ")")) return false;
    const auto takes = [&](size_t count) {
      return operands.size() == count || failAt(place, fmt::format("'{}' takes {} operand{}, not {}", name, count,
                                                                   count == 1 ? "" : "s", operands.size()));
    };
    ExprPool& pool = program_.expressions;
    if (const auto to = findDType(name)) {
      if (!takes(1)) return false;
      if (dtype(operands[0]) == *to) return failAt(place, fmt::format("the operand is {} already", name));
      out = pool.cast(operands[0], *to);
      return true;
    }
    const auto op = findCall(name);
    if (!op) return failAt(place, fmt::format("there is no operation '{}'", name.substr(0, 100)));
    if (!takes(operandCount(*op))) return false;
    const bool isOfBits = name.starts_with("bit_");
    if (isOfBits && (isFloatingPoint(dtype(operands[0])) || dtype(operands[0]) == DType::Bool))
      return failAt(place, fmt::format("'{}' takes integers", name));
    if (*op == Op::Select) {
      if (dtype(operands[0]) != DType::Bool || dtype(operands[1]) != dtype(operands[2]))
        return failAt(place, fmt::format("'select' takes a bool and two operands of one dtype, not {}, {} and {}",
                                         dtypeText(dtype(operands[0])), dtypeText(dtype(operands[1])),
                                         dtypeText(dtype(operands[2]))));
      out = pool.select(operands[0], operands[1], operands[2]);
    } else if (*op == Op::CheckedIndex) {
      out = pool.checkedIndex(operands[0], operands[1]);
    } else if (*op == Op::CheckedDivisor) {
      out = pool.checkedDivisor(operands[0]);
    } else if (*op == Op::Uniform) {
      for (const ExprId o : operands)
        if (dtype(o) != DType::Int64)
          return failAt(place, fmt::format("'uniform' takes i64, not {}", dtypeText(dtype(o))));
      out = pool.uniform(operands[0], operands[1], operands[2], operands[3]);
    } else if (operandCount(*op) == 1) {
      out = pool.unary(*op, operands[0]);
    } else {
      if (dtype(operands[0]) != dtype(operands[1]))
        return failAt(place, fmt::format("'{}' takes operands of one dtype, not {} and {}", name,
                                         dtypeText(dtype(operands[0])), dtypeText(dtype(operands[1]))));
      out = pool.binary(*op, operands[0], operands[1]);
    }
    return true;
  }

  DType dtype(ExprId id) const { return program_.expressions[id].dtype; }

  std::string_view text_, file_;
  size_t at_ = 0;
  size_t rangesBegin_ = 0, rangesEnd_ = 0;  // of the line that is read, from "for" on
  int depth_ = 0;
  bool isExtent_ = false;
  bool failed_ = false;
  Error error_;
  Program program_;
  std::unordered_map<std::string, Meaning> meanings_;
  std::unordered_map<std::string, SizeId> sizes_;
  std::unordered_map<std::string, RangeId> ranges_;
  std::unordered_map<std::string, BufferId> buffers_;
  std::unordered_map<std::string, ExprId> parts_;
};

}  // namespace

Result<Program> parseProgram(std::string_view text, std::string_view file) { return ProgramParser(text, file).run(); }

}  // namespace graft::loops
