// SizeExpression: a symbolic size as Dim::symbol spells it, arithmetic over symbols. Only this class parses such text,
// so that it means the same everywhere.
//
//   const auto e = SizeExpression::parse("2*s0 + s1//2 - 1");
//   e->evaluate([](std::string_view) { return std::optional<int64_t>(4); });   // 9
//
// Sums, differences, products, floor divisions, parentheses, and the functions Mod, Max and Min of two sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// "s0": letters, digits and underscores, no digit first.
bool isSymbolName(std::string_view);

class SizeExpression {
 public:
  enum class Kind : uint8_t { Number, Symbol, Negate, Add, Subtract, Multiply, FloorDivide, Mod, Max, Min };
  /// What is computed, operands before their operation.
  struct Step {
    Kind kind;
    int64_t number = 0;
    std::string symbol;
  };

  enum class Names : uint8_t {
    Symbols,  ///< isSymbolName
    Any,      ///< values' names too ("%x.1"), and calls of other functions ("size(x,1)"): each one symbol, spelled so
  };
  /// Nothing where the text is no such expression, or nests more than 100 deep.
  static std::optional<SizeExpression> parse(std::string_view text, Names = Names::Symbols);
  const std::vector<Step>& steps() const { return steps_; }
  /// Nothing where a symbol has no value, a divisor is not positive, or a number leaves 64 bits. Divisions round down.
  std::optional<int64_t> evaluate(const std::function<std::optional<int64_t>(std::string_view)>& symbol) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace graft
