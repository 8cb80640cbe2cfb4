// StraightLineCode: the body of a TorchScript method that is only a long list of plain assignments, as freezing a model
// or tracing a function writes it. LibTorch would compile each statement on its own, for 50 µs and 5 kB, though most of
// them differ only in the names of variables. Instead LibTorch loads the method with an empty body (`stub`), compiles
// each kind of statement once as a function of its variables (straight_line_program.h), and the converter walks the
// list.
//
//   if (auto code = StraightLineCode::find(record, "Net", 2000))  // the first long method of "class Net(Module)"
//     for (size_t i = 0; i < code->size(); ++i) use(code->statement(i));
//
// Works on text: needs no LibTorch.
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
  /// "a, b, = torch.chunk(x, 2, 1)" has the results a and b. The last statement returns and has none.
  struct Statement {
    std::vector<std::string_view> results;
    std::vector<Token> tokens;  ///< of the expression
  };

  /// The class's last method, if it ends the record and has at least `least` statements, all of them plain. `code` must
  /// outlive the result.
  static std::optional<StraightLineCode> find(std::string_view code, std::string_view className, size_t least);

  const std::string& method() const { return method_; }
  size_t size() const { return starts_.size(); }
  Statement statement(size_t) const;
  std::string_view code() const { return code_; }
  /// The attributes that the body reads, without repetition: "self.weight", "CONSTANTS.c0".
  const std::vector<std::string>& attributes() const { return attributes_; }
  /// The record with that method's body emptied. The method returns a tuple: self (LibTorch would fold a tuple of
  /// constants into one), a call of an operator (only for these does LibTorch keep the place in the source), and the
  /// attributes. Empty where no parameter is a tensor.
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
