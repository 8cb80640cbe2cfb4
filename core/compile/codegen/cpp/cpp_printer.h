// CppPrinter: one nest as C++ statements. Used by makeCppCode.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/loop_plan.h"

namespace graft::codegen {

class CppPrinter {
 public:
  CppPrinter(Accesses&, LoopPlanner&, bool hasMarks = false);
  /// The statements, indented by `depth` steps.
  std::string nest(const loops::Nest&, int depth);
  /// An expression of constants and sizes.
  std::string size(ExprId);
  static std::string typeName(DType);

 private:
  struct Scope {
    std::string text;
    std::unordered_map<ExprId, std::string> names;  ///< values that have a variable
    int depth = 0;
  };
  std::string value(ExprId, bool mayName = true);
  std::string plainValue(ExprId, bool mayName);
  /// With its origin, where texts have marks. Not inside of an index.
  std::string withOrigin(ExprId, const std::string& text) const;
  std::string compute(const loops::Expr&, bool mayName);
  std::string reduce(ExprId, bool mayName);
  std::string reduceLoops(ExprId, const std::string& result, const std::string& place);
  std::string element(BufferId, const Affine&, bool mayName);
  std::string constant(const loops::Expr&, ExprId);
  void store(const loops::Store&);
  void open(const Loop&, const std::string& comment, const std::string& pragma = "");  ///< `pragma`: the line before it
  void close();
  void line(const std::string&);
  int scopeOf(ExprId) const;
  std::string newName(const char* stem) { return stem + std::to_string(names_++); }
  void countUses(ExprId);

  Accesses& accesses_;
  LoopPlanner& planner_;
  std::vector<Scope> scopes_;
  std::unordered_map<RangeId, int> rangeScopes_;  ///< the loop that each range runs in
  std::unordered_map<RangeId, bool> isAbsorbed_;  ///< part of a merged loop, whose last range counts for all
  std::unordered_map<ExprId, int> uses_;
  int names_ = 0;
  int barrier_ = 0;
  bool hasMarks_;
  bool isIndex_ = false;
};

}  // namespace graft::codegen
