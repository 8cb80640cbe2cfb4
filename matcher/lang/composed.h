// Functions of PyTorch that are composed of operators: F.interpolate, F.normalize, F.cross_entropy. composed.py beside
// this file has them in the rule language, and a rule that calls one gets its body.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "matcher/lang/body.h"

namespace graft::lang {

/// composed.py, read with these operators. It holds the text and what it says, and is never moved.
class Composed {
 public:
  explicit Composed(const OperatorSet&);

  /// The function behind "torch.nn.functional.interpolate", "torch.tensordot" or ".type"; null where there is none.
  const FunctionSyntax* find(std::string_view python) const;
  const FileContext& file() const { return file_; }
  /// "F.interpolate(input, size, ...)" of each.
  static std::vector<std::string> signatures();

 private:
  FileContext file_;
};

}  // namespace graft::lang
