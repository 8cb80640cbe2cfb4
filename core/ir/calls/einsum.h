// The equation of torch.einsum, read as PyTorch reads it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// A letter for each dimension of the operands and of the result. A letter that the result lacks is summed over.
struct EinsumEquation {
  std::vector<std::string> operands;
  std::string result;

  /// The equation for operands of these ranks: "...i,io->...o" of ranks 3 and 2 is "abi,io->abo". Dots get letters that
  /// the equation does not use, the last dimension the same one in each operand. Without "->", the result has the dots
  /// and then, in the order of the alphabet, the letters that occur once. None where PyTorch would refuse the equation,
  /// and where an operand names two dimensions alike (a diagonal). Sizes are the caller's to compare: of two dimensions
  /// with one letter, PyTorch broadcasts one of size 1.
  static std::optional<EinsumEquation> of(std::string_view text, std::span<const size_t> ranks);
};

}  // namespace graft
