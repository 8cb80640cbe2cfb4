// StraightLineCode: the body of a TorchScript method that is nothing but a long list of plain assignments, as freezing
// a model or tracing a function writes it. LibTorch compiles each statement on its own, for 50 µs and 5 kB; but most of
// them differ in their variables' names alone. So the method is loaded with an empty body (`stub`), each kind of
// statement is compiled once, as a function of its variables (straight_kinds.h), and the converter follows the list.
//
//   if (auto straight = StraightLineCode::find(code, "Net", 2000))  // "class Net(Module)" of the record, its first
//   long method
//     for (size_t i = 0; i < straight->size(); ++i) use(straight->statement(i));
//
// Text alone: knows no LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

class StraightLineCode {
 public:
  struct Token {
    enum class Kind : uint8_t { Variable, Attribute, Other } kind = Kind::Other;
    uint32_t start = 0;  ///< in the record
    std::string_view text;
  };
  /// "a, b, = torch.chunk(x, 2, 1)": results a and b. The last statement returns: it has no results.
  struct Statement {
    std::vector<std::string_view> results;
    std::vector<Token> tokens;  ///< of the expression
  };

  /// The class's last method, if it ends the record and has at least `least` statements that are all plain. `code` must
  /// outlive it.
  static std::optional<StraightLineCode> find(std::string_view code, std::string_view className, size_t least);

  const std::string& method() const { return method_; }
  size_t size() const { return starts_.size(); }
  Statement statement(size_t) const;
  std::string_view code() const { return code_; }
  /// "self.weight", "CONSTANTS.c0": what the body reads that is no variable, each once.
  const std::vector<std::string>& attributes() const { return attributes_; }
  /// The record with that method's body emptied. It returns a tuple: self (LibTorch would make a constant of constants
  /// alone), a call of an operator (for these alone LibTorch keeps the place in the source) and the attributes. Empty
  /// where no parameter is a tensor.
  std::string stub() const;

 private:
  bool read(size_t header, size_t body, size_t end);

  std::string_view code_;
  std::string method_;
  std::string_view header_;
  size_t arrow_ = 0;              // where "-> Tensor:" begins, or the colon
  std::vector<uint32_t> starts_;  // of the statements
  std::vector<std::string> attributes_;
};

}  // namespace graft
