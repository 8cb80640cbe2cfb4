#include "core/ir/operators/operator_facts.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <string>
#include <unordered_map>

#include "core/ir/normal_form.h"
#include "core/ir/operators/fact_lines.h"
#include "core/ir/operators/graft_operators.h"

namespace graft {
namespace {

// The line of a graft:: operator, from the words of its description.
OperatorFacts factsOfDescription(const GraftOperator& op, std::string_view name) {
  const bool hasOwnLayout = op.facts.find("layout_of_operands") == op.facts.npos;
  OperatorFacts f{.name = name, .facts = hasOwnLayout ? OperatorFact::OwnLayout : OperatorFact::None};
  for (std::string_view rest = op.facts; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word == "row_major")
      f.facts = f.facts | OperatorFact::RowMajor;
    else if (word == "pointwise")
      f.facts = f.facts | OperatorFact::Pointwise;
    else if (word == "convolution")
      f.family = OperatorFamily::Convolution;
    else if (word != "layout_of_operands")
      assert(!"an operator's description has a fact that nobody knows");
  }
  return f;
}

std::vector<OperatorFacts> wholeTable() {
  static std::vector<std::string> names;  // of graft:: operators
  std::vector<OperatorFacts> out;
  for (const std::span<const OperatorFacts> part : {elementFacts(), tensorFacts(), otherFacts()})
    out.insert(out.end(), part.begin(), part.end());
  names.reserve(graftOperators().size());
  for (const GraftOperator& op : graftOperators())
    out.push_back(factsOfDescription(op, names.emplace_back("graft." + std::string(op.name))));
  return out;
}

}  // namespace

const std::vector<OperatorFacts>& allOperatorFacts() {
  static const std::vector<OperatorFacts> all = wholeTable();
  return all;
}

const OperatorFacts& factsOf(std::string_view spelled) {
  static const std::unordered_map<std::string_view, const OperatorFacts*> byName = [] {
    std::unordered_map<std::string_view, const OperatorFacts*> out;
    for (const OperatorFacts& f : allOperatorFacts()) out.emplace(f.name, &f);
    return out;
  }();
  const std::string_view name = canonicalOperator(spelled);
  if (const auto it = byName.find(name); it != byName.end()) return *it->second;
  const size_t overload = name.rfind('.');
  if (overload == name.npos || name.find('.') == overload) return noOperatorFacts;
  const auto it = byName.find(name.substr(0, overload));
  return it == byName.end() ? noOperatorFacts : *it->second;
}

}  // namespace graft
