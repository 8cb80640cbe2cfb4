// Names: how Python spells PyTorch's operators. `F.dropout(x, p=0.5, training=True)` is aten.dropout(input, p, train);
// most other functions and methods are called as their operator is, and need no entry.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::lang {

struct Spelling {
  std::string_view python;  ///< "torch.nn.functional.dropout"; "." before a method's name
  std::string_view packet;  ///< "aten.dropout"
  std::string_view
      parameters;  ///< Python's, "name=default>schema name"; ">-" is dropped; empty: as the schema has them
};

/// One parameter of a Spelling or ModuleFunction: "training=True>train".
struct SpelledParameter {
  std::string_view python, schema;
  std::optional<std::string_view> fallback;
};
std::vector<SpelledParameter> spelledParameters(std::string_view text);

std::span<const Spelling> allSpellings();
/// The entry for a function ("torch.softmax") or method (".float"), or null.
const Spelling* findSpelling(std::string_view python);

/// Packets an undeclared name may mean, in order of preference: "torch.relu" → "aten.relu"; nothing where it is not
/// torch's.
std::string packetOf(std::string_view python);

/// "Linear" of "torch.nn.Linear".
std::string lastPart(std::string_view dotted);

/// Host functions and methods: computed at the match, not found in the graph. `arity` is -1 where it varies.
bool isHostFunction(std::string_view name);
bool isHostMethod(std::string_view name);
bool isHostAttribute(std::string_view name);
/// What `where` may ask of a value: "shape", "dim", ...
std::vector<std::string> hostMembers();

/// A module of torch.nn that has no weights, as the function it calls: "ReLU" → "torch.nn.functional.relu" with the
/// constructor's parameters in the function's order. Null where there is none.
struct ModuleFunction {
  std::string_view type;
  std::string_view function;
  std::string_view parameters;  ///< the constructor's, by the names the function knows
};
const ModuleFunction* findModuleFunction(std::string_view type);
/// The modules of torch.nn with weights that a replacement can make anew, as nn.Module classes of the rule language.
/// The docstring of each is PyTorch's own name of the class.
std::string_view moduleLibrary();
inline constexpr int mostRecurrentLayers = 8;                      ///< of an LSTM, GRU or RNN there
inline constexpr std::string_view moduleLibraryName = "torch.nn";  ///< as a file
/// Whether torch.nn has a module of that name.
bool isTorchModule(std::string_view shortName);
std::span<const std::string_view> torchModules();

/// Functions of "torch.", "F.", "kernels." and their like that rules can call on this machine, as Python spells them,
/// with their parameters, sorted: "F.gelu(input, approximate)", "torch.Tensor.view(input, size)".
std::vector<std::string> callableNames();

/// The nearest function that exists, as Python spells it, for "did you mean"; empty where none is near. `spelled` is
/// what the rule says: "torch.sofmax", "F.sofmax", ".sofmax", "torch.ops.aten.sofmax".
std::string nearestFunction(std::string_view spelled, std::string_view packet);

}  // namespace graft::lang
