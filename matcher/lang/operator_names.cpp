// What rules can call, and "did you mean": the operators come from LibTorch's dispatcher, and the names that Python has
// for them from python_names.txt, so that what is offered exists on this machine and is what people write.
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/suggest.h"
#include "core/ir/operators/graft_operators.h"
#include "matcher/lang/composed.h"
#include "matcher/lang/names.h"

namespace graft::lang {

namespace {

constexpr char pythonText[] =
#include "python_names.inc"
    ;

using Names = std::set<std::string, std::less<>>;

/// By where they are: "torch", "F", "torch.Tensor", "torch.linalg", "torch.special", "torch.fft".
const std::map<std::string, Names, std::less<>>& pythonNames() {
  static const auto names = [] {
    std::map<std::string, Names, std::less<>> out;
    Names* here = nullptr;
    std::istringstream lines(pythonText);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      if (line[0] != ' ') {
        here = &out[line];
        continue;
      }
      std::istringstream words(line);
      for (std::string word; words >> word;) here->insert(word);
    }
    return out;
  }();
  return names;
}

/// What stands before an operator's name there: "linalg_" of torch.linalg.
std::string operatorPrefix(std::string_view space) {
  return space.starts_with("torch.") && space != "torch.Tensor" ? std::string(space.substr(6)) + "_" : "";
}

/// "torch.relu" and "F.relu" of "relu", "torch.linalg.inv" of "linalg_inv"; a method where it is nothing else.
std::vector<std::string> pythonSpellings(std::string_view base) {
  std::vector<std::string> out;
  for (const auto& [space, names] : pythonNames()) {
    const std::string prefix = operatorPrefix(space);
    if (space != "torch.Tensor" && base.starts_with(prefix) && names.contains(base.substr(prefix.size())))
      out.push_back(space + "." + std::string(base.substr(prefix.size())));
  }
  if (out.empty() && pythonNames().at("torch.Tensor").contains(base))
    out.push_back("torch.Tensor." + std::string(base));
  return out;
}

/// "input, dim=-1" of a spelling's "input>self dim=-1 inplace=False>-".
std::string pythonParameters(std::string_view spelled) {
  std::string out;
  while (!spelled.empty()) {
    const std::string_view word = spelled.substr(0, spelled.find(' '));
    spelled.remove_prefix(std::min(spelled.size(), word.size() + 1));
    const std::string_view name = word.substr(0, word.find('>'));
    if (word.ends_with(">-") || name.starts_with('_')) continue;
    out += (out.empty() ? "" : ", ") + std::string(name);
  }
  return out;
}

/// `ours`: what is given by keyword alone is worth telling, an activation, a scale.
std::string schemaParameters(const c10::FunctionSchema& schema, bool ours) {
  std::string out;
  for (const c10::Argument& a : schema.arguments()) {
    if (a.default_value() && a.kwarg_only() && !ours) continue;  // device, layout, generator and the like
    out += (out.empty() ? "" : ", ") + (a.name() == "self" ? std::string("input") : a.name());
  }
  return out;
}

}  // namespace

std::vector<std::string> callableNames() {
  std::map<std::string, std::string> parameters;  // by name, of the overload with the fewest dots and letters
  constexpr std::string_view functional = "torch.nn.functional.";
  for (const Spelling& s : allSpellings()) {
    if (s.packet.empty() || s.parameters.empty()) continue;
    if (s.python.starts_with(functional))
      parameters.emplace("F." + std::string(s.python.substr(functional.size())), pythonParameters(s.parameters));
    else if (s.python.starts_with("torch."))
      parameters.emplace(s.python, pythonParameters(s.parameters));
  }
  for (const std::string& composed : Composed::signatures())
    parameters.insert_or_assign(composed.substr(0, composed.find('(')),
                                composed.substr(composed.find('(') + 1, composed.size() - composed.find('(') - 2));
  Names spelled;  // whose parameters are known already, as Python has them
  for (const auto& [name, list] : parameters) spelled.insert(name);
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    const bool isOurs = op.name.starts_with("graft::");
    if (!isOurs && !op.name.starts_with("aten::")) continue;
    const std::string base = op.name.substr(op.name.find(':') + 2);
    if (base.empty() || base.starts_with("_") || base.ends_with("_") || base.find("backward") != std::string::npos ||
        op.overload_name.find("out") != std::string::npos)
      continue;
    const auto handle = c10::Dispatcher::singleton().findSchema(op);
    if (!handle) continue;
    const std::string own = schemaParameters(handle->schema(), isOurs);
    for (const std::string& name : isOurs ? std::vector{"kernels." + base} : pythonSpellings(base)) {
      if (spelled.contains(name)) continue;
      const auto [it, isNew] = parameters.emplace(name, own);
      if (!isNew && own.size() < it->second.size() && !own.empty()) it->second = own;
    }
  }
  // Rules can be written where the operator library is not loaded.
  for (const GraftOperator& op : graftOperators()) parameters.emplace("kernels." + std::string(op.name), "");
  std::vector<std::string> out;
  for (const auto& [name, list] : parameters) out.push_back(name + "(" + list + ")");
  return out;
}

std::string nearestFunction(std::string_view spelled, std::string_view packet) {
  const size_t dot = spelled.rfind('.');
  const std::string_view space = spelled.substr(0, dot == spelled.npos ? 0 : dot);
  const auto near = [](std::string_view word, const Names& names) {
    const std::vector<std::string> list(names.begin(), names.end());
    return nearestName(word, list).value_or("");
  };
  const auto within = [&](std::string_view of, std::string_view word, const Names& names) {
    const std::string found = near(word, names);
    return found.empty() ? found : std::string(of) + "." + found;
  };
  if (space.starts_with("torch.ops") || space == "kernels") {
    const std::string_view library = packet.substr(0, packet.find('.'));
    Names names;
    for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames())
      if (const size_t colons = op.name.find("::"); colons != op.name.npos && op.name.substr(0, colons) == library)
        names.insert(op.name.substr(colons + 2));
    if (library == "graft")
      for (const GraftOperator& op : graftOperators()) names.emplace(op.name);
    return within(space, spelled.substr(dot + 1), names);
  }
  std::map<std::string, Names, std::less<>> known = pythonNames();
  for (const std::string& callable : callableNames()) {  // with the functions that are no operators
    const std::string name = callable.substr(0, callable.find('('));
    const size_t last = name.rfind('.');
    known[name.substr(0, last)].insert(name.substr(last + 1));
  }
  const std::string_view word = dot == spelled.npos ? spelled : spelled.substr(dot + 1);
  if (const auto here = known.find(space.empty() ? "torch.Tensor" : space); here != known.end())
    if (const std::string found = within(space, word, here->second); !found.empty()) return found;
  for (const auto& [other, names] : known)
    if (const std::string found = within(other, word, names); !found.empty() && other != "kernels") return found;
  return {};
}

}  // namespace graft::lang
