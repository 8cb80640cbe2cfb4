// operators.txt: each lowered operator with operands that it takes, a line a case.
//
//   [finite] [any] [contiguous] [image] x: F[3,s0], i: i64[4]<0..2> | %a = aten.exp.default(%x);
//   aten.index_select.default(%a, 0, %i)
//
// Letters stand for several dtypes, one after the other: F floating ones, I integers, A both, N bool too. `finite`: no
// NaN and infinities among the numbers. Tensors lie in memory in two orders, but where `contiguous` forbids it; those
// of an `image` with their channels side by side. Sizes s0, s1 vary, between 2 and 64, or from 0 on where `any` says
// so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/type.h"

namespace graft::test {

struct OperatorCase {
  struct Input {
    std::string name, dtype;
    std::vector<std::string> sizes;
    std::optional<double> least, greatest;
  };
  std::string line;
  bool finite = false, anySize = false, contiguous = false, image = false;
  std::vector<Input> inputs;
  std::vector<std::string> statements;
};

std::vector<OperatorCase> readOperatorCases();
/// Those that a letter stands for, or the one that is named.
std::vector<DType> dtypesOf(const std::string& spelled);
bool isSymbol(const std::string& size);

}  // namespace graft::test
