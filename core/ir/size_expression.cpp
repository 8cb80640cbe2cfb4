#include "core/ir/size_expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace graft {
namespace {

using Kind = SizeExpression::Kind;
using Step = SizeExpression::Step;

bool isWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class Reader {
 public:
  Reader(std::string_view text, SizeExpression::Names names)
      : text_(text), anyName_(names == SizeExpression::Names::Any) {}

  std::optional<std::vector<Step>> read() {
    if (!sum() || (skip(), at_ != text_.size())) return std::nullopt;
    return std::move(steps_);
  }

 private:
  static constexpr int deepest = 100;

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool eat(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  bool put(Kind kind) {
    steps_.push_back({kind, 0, {}});
    return true;
  }
  bool sum() {
    if (!product()) return false;
    for (;;) {
      const bool minus = !eat("+");
      if (minus && !eat("-")) return true;
      if (!product()) return false;
      put(minus ? Kind::Subtract : Kind::Add);
    }
  }
  bool product() {
    if (!atom()) return false;
    for (;;) {
      const bool times = !eat("//");
      if (times && !eat("*")) return true;
      if (!atom()) return false;
      put(times ? Kind::Multiply : Kind::FloorDivide);
    }
  }
  bool atom() {
    if (depth_ == deepest) return false;
    ++depth_;
    const bool good = eat("-") ? atom() && put(Kind::Negate) : eat("(") ? sum() && eat(")") : word();
    --depth_;
    return good;
  }
  bool isNameChar(char c) const { return isWordChar(c) || (anyName_ && (c == '.' || c == '%')); }
  bool symbol(std::string_view name) {
    steps_.push_back({Kind::Symbol, 0, std::string(name)});
    return true;
  }
  bool word() {
    skip();
    const size_t from = at_;
    while (at_ < text_.size() && isNameChar(text_[at_])) ++at_;
    const std::string_view word = text_.substr(from, at_ - from);
    if (word.empty()) return false;
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      int64_t n = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
      if (error != std::errc() || end != word.data() + word.size()) return false;
      steps_.push_back({Kind::Number, n, {}});
      return true;
    }
    return text_.substr(at_).starts_with('(') ? call(word, from) : symbol(word);
  }
  bool call(std::string_view name, size_t from) {
    static constexpr std::array<std::pair<std::string_view, Kind>, 3> functions{
        {{"Mod", Kind::Mod}, {"Max", Kind::Max}, {"Min", Kind::Min}}};
    const auto f =
        std::find_if(functions.begin(), functions.end(), [&](const auto& known) { return known.first == name; });
    if (f != functions.end()) return eat("(") && sum() && eat(",") && sum() && eat(")") && put(f->second);
    if (!anyName_) return false;
    int open = 0;
    do {
      open += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
      ++at_;
    } while (open > 0 && at_ < text_.size());
    return open == 0 && symbol(text_.substr(from, at_ - from));
  }

  std::string_view text_;
  bool anyName_;
  std::vector<Step> steps_;
  size_t at_ = 0;
  int depth_ = 0;
};

int64_t floorQuotient(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

std::optional<int64_t> computed(Kind kind, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (kind) {
    case Kind::Add:
      return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Kind::Subtract:
      return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Kind::Multiply:
      return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Kind::FloorDivide:
      return b <= 0 ? std::nullopt : std::optional(floorQuotient(a, b));
    case Kind::Mod:
      return b <= 0 ? std::nullopt : std::optional(a - floorQuotient(a, b) * b);
    case Kind::Max:
      return std::max(a, b);
    case Kind::Min:
      return std::min(a, b);
    default:
      return std::nullopt;
  }
}

}  // namespace

bool isSymbolName(std::string_view s) {
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s[0])) && std::all_of(s.begin(), s.end(), isWordChar);
}

std::optional<SizeExpression> SizeExpression::parse(std::string_view text, Names names) {
  auto steps = Reader(text, names).read();
  if (!steps) return std::nullopt;
  SizeExpression out;
  out.steps_ = std::move(*steps);
  return out;
}

std::optional<int64_t> SizeExpression::evaluate(
    const std::function<std::optional<int64_t>(std::string_view)>& symbol) const {
  std::vector<int64_t> stack;
  for (const Step& s : steps_) {
    std::optional<int64_t> v;
    if (s.kind == Kind::Number) {
      v = s.number;
    } else if (s.kind == Kind::Symbol) {
      v = symbol(s.symbol);
    } else if (s.kind == Kind::Negate) {
      v = computed(Kind::Subtract, 0, stack.back());
      stack.pop_back();
    } else {
      v = computed(s.kind, stack[stack.size() - 2], stack.back());
      stack.resize(stack.size() - 2);
    }
    if (!v) return std::nullopt;
    stack.push_back(*v);
  }
  return stack.back();
}

}  // namespace graft
