// SizeNames: which expression of symbols a size is, told from what it was in several runs. Each symbol stands for
// another number in each run; a size that came out as 2, 3 and 5 times a symbol's number is that multiple of it.
//
//   SizeNames names;
//   names.standIn("s0", 0);                       // what s0 is in the first run
//   names.dim({2 * a, 2 * b, 2 * c});             // Dim("2*s0")
//   names.declareFloor({x, y, z}, {a, b, c}, 1, 2);  // these are (s0 + 1)//2: three runs would not tell it from s0//2
//
// Knows no LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/type.h"

namespace graft {

class SizeNames {
 public:
  static constexpr size_t runs = 3;
  using Sizes = std::array<int64_t, runs>;  ///< one size, in each run

  /// Which numbers stand for the symbols: those below 77 and below 14 for fewer of them. Models with a table of so many
  /// positions (CLIP's text encoder has 77) cut what is longer off, and then fit nothing.
  /// Above: larger than what each symbol was in an example. Of a second of sound, many strides leave one frame of what
  /// Large stands for.
  enum class Scale : uint8_t { Large, Below77, Below14, Above };
  /// Before the first symbol. Above asks for `examples`; a symbol that has none is Large.
  void use(Scale s, std::map<std::string, int64_t, std::less<>> examples = {}) {
    scale_ = s;
    examples_ = std::move(examples);
  }
  /// What the symbol is in that run; nothing where there are more symbols than numbers.
  std::optional<int64_t> standIn(std::string_view symbol, size_t run);
  bool hasSymbols() const { return !symbols_.empty(); }
  /// Unknown sizes get names of their own ("d0", "d1", …), equal ones the same, none of `taken`.
  void nameUnknown(std::set<std::string> taken);
  /// `sizes` are that expression, as a type says it. Where they are known as one that differs at other numbers, as
  /// (s0 + 1)//4 and (s0 + 3)//4 may, both are forgotten.
  void declare(const Sizes& sizes, const std::string& expression);
  /// The number, expression or name; an unknown Dim where nothing fits.
  Dim dim(const Sizes&);
  /// `sizes` are (`of` + add)//divisor. Ignored where `of` has no expression.
  void declareFloor(const Sizes& sizes, const Sizes& of, int64_t add, int64_t divisor);

 private:
  struct Named {
    std::string text;  // empty where several expressions have these sizes
    // text is (base + add)//divisor
    std::string base;
    int64_t add = 0, divisor = 1;
    static Named plain(std::string text) { return {text, text, 0, 1}; }
  };

  /// What the symbol is in each run, where it is the `at`th; nothing where there are more symbols than numbers.
  std::optional<Sizes> numbersFor(std::string_view symbol, size_t at) const;
  /// What the sizes are known as: `named`, where they were not known.
  Named& enter(const Sizes&, Named named);
  std::string search(const Sizes&) const;
  std::string product(const Sizes&) const;
  std::string sum(const Sizes&) const;

  std::vector<std::pair<std::string, Sizes>> symbols_;
  std::map<Sizes, Named> known_;
  std::vector<const std::pair<const Sizes, Named>*> order_;  // of known_, oldest first
  bool nameUnknown_ = false;
  Scale scale_ = Scale::Large;
  std::map<std::string, int64_t, std::less<>> examples_;
  std::set<std::string> taken_;
  size_t next_ = 0;
};

}  // namespace graft
