// "Did you mean" for operators: the names come from LibTorch's dispatcher, so that what is suggested exists on this
// machine.
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/suggest.h"
#include "core/ir/operators/graft_operators.h"
#include "matcher/lang/composed.h"
#include "matcher/lang/names.h"

namespace graft::lang {

namespace {

// Functions of torch.nn.functional that are called as their operators are.
constexpr std::array<std::string_view, 12> plainFunctions{
    "linear",           "conv1d",        "conv2d",   "conv3d",
    "conv_transpose2d", "avg_pool2d",    "softplus", "adaptive_avg_pool2d",
    "logsigmoid",       "pixel_shuffle", "one_hot",  "scaled_dot_product_attention"};

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
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    const bool isOurs = op.name.starts_with("graft::");
    if (!isOurs && !op.name.starts_with("aten::")) continue;
    const std::string base = op.name.substr(op.name.find(':') + 2);
    if (base.empty() || base.starts_with("_") || base.ends_with("_") || base.find("backward") != std::string::npos ||
        op.overload_name.find("out") != std::string::npos)
      continue;
    const auto handle = c10::Dispatcher::singleton().findSchema(op);
    if (!handle) continue;
    const std::string name = (isOurs ? "kernels." : "torch.") + base;
    const std::string own = schemaParameters(handle->schema(), isOurs);
    if (std::find(plainFunctions.begin(), plainFunctions.end(), base) != plainFunctions.end() &&
        op.overload_name.empty())
      parameters.emplace("F." + base, own);
    const auto [it, isNew] = parameters.emplace(name, own);
    if (!isNew && !findSpelling(name) && own.size() < it->second.size() && !own.empty()) it->second = own;
  }
  // Rules can be written where the operator library is not loaded.
  for (const GraftOperator& op : graftOperators()) parameters.emplace("kernels." + std::string(op.name), "");
  std::vector<std::string> out;
  for (const auto& [name, list] : parameters) out.push_back(name + "(" + list + ")");
  return out;
}

std::string nearestOperator(std::string_view packet) {
  const std::string_view space = packet.substr(0, packet.find('.'));
  std::set<std::string> names;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    const size_t colons = op.name.find("::");
    if (colons == std::string::npos || op.name.compare(0, colons, space) != 0) continue;
    names.insert(op.name.substr(colons + 2));
  }
  if (space == "graft")
    for (const GraftOperator& op : graftOperators()) names.emplace(op.name);
  const std::vector<std::string> list(names.begin(), names.end());
  return nearestName(packet.substr(space.size() + 1), list).value_or("");
}

}  // namespace graft::lang
