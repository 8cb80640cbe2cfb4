// Case files (app/workbench/cases), for tests: what is wrong with one ends the test.
#pragma once

#include <stdexcept>

#include "app/workbench/cases/case_text.h"

namespace graft::test {

using workbench::Case;
using workbench::Given;

template <class T>
T take(Result<T> r) {
  if (!r) throw std::runtime_error(r.error().format());
  return std::move(r).value();
}

inline std::vector<Case> readCases(const std::string& path) { return take(workbench::readCases(path)); }
inline std::vector<Case> readCases(std::istream& in, const std::string& path, int line) {
  return take(workbench::readCases(in, path, line));
}

}  // namespace graft::test
