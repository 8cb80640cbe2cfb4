// Runs the cases in a rule file's docstrings: each model must match as often as its case says, and what the rule makes
// of it must compute the same.
//
//   auto tested = workbench::testRules("my_rules.py", "", semantics, job);
//   for (const CaseResult& r : tested->cases) if (r.failure) …
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/ir/semantics.h"

namespace graft::workbench {

struct CaseResult {
  std::string rule;
  int line = 0;  ///< where the case begins
  double seconds = 0;
  std::optional<Error> failure;  ///< Expectation or Verification where the rule fails; BadInput where the case is wrong
};

struct TestedRules {
  std::string file;
  std::vector<CaseResult> cases;
  std::vector<std::string> untested;  ///< rules of the file that have no cases
  std::optional<Error> mistake;       ///< of the file or of a case's text; then nothing was tested
};

/// Tests the file's own rules, or only that one; libraries of operators that it names are loaded. Errors: Cancelled;
/// Usage where there is no rule of that name.
Result<TestedRules> testRules(const std::string& path, const std::string& onlyRule, const Semantics&, const Job&);

}  // namespace graft::workbench
