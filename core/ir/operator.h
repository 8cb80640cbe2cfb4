// Operator: the schema of what a node does, free of LibTorch: parameters with defaults, returns, and the effects that
// make a rewrite sound or not (writes, aliases, randomness). Shared by all nodes that call it.
//
//   auto op = parseSchema("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
//   op->name == "aten.add_.Tensor";  op->writes() == true
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/ir/argument.h"
#include "core/ir/operators/operator_facts.h"

namespace graft {

struct Parameter {
  std::string name;
  Type type;
  std::optional<Argument> defaultValue;
  bool keywordOnly = false;
  std::string aliasSet;  ///< "a" in Tensor(a!); empty where nothing is aliased
  bool written = false;  ///< the "!" in it
};

struct Return {
  std::string name;  ///< may be empty
  Type type;
  std::string aliasSet;
  bool written = false;
};

struct Operator {
  std::string name;  ///< namespace.operator.overload, the overload "default" where PyTorch's is empty
  std::vector<Parameter> parameters;
  std::vector<Return> returns;
  bool hasSchema = true;  ///< false: unknown to this machine; arguments stay as they were written, nothing is assumed
  bool random = false;    ///< draws from a generator: its order among random operators matters
  bool sideEffects = false;  ///< prints, raises, writes files, communicates: never removed, never moved
  bool variadic = false;     ///< takes any number of arguments (prim.Print)
  const OperatorFacts* facts = &noOperatorFacts;  ///< the line of the table; never null

  /// Whether the fact, or one of several, holds. Of an in-place operator nothing that holds of its functional form.
  bool is(OperatorFact f) const { return facts->has(f); }
  /// Writes to one of its arguments.
  bool writes() const;
  /// Some output shares memory with an argument.
  bool aliases() const;
  /// May be removed when nothing uses it, and computed once for equal arguments.
  bool pure() const { return hasSchema && !random && !sideEffects && !writes(); }
  /// "softmax" of "aten.softmax.int".
  std::string_view baseName() const;
  /// "aten.softmax" of "aten.softmax.int".
  std::string_view packetName() const;
  /// The index of the parameter of that name, or nothing.
  std::optional<size_t> findParameter(std::string_view parameter) const;
};

using OperatorRef = std::shared_ptr<const Operator>;

/// An operator from PyTorch's schema text ("aten::relu(Tensor self) -> Tensor"). The error says what is wrong and
/// where.
Result<OperatorRef> parseSchema(std::string_view schema);
/// The same operator as schema text.
std::string schemaString(const Operator&);
/// What the table knows of the operator of that name: `facts`, and the effects that the schema's text does not show.
/// Whoever makes an operator calls it once name and parameters are there.
void addFacts(Operator&);

/// A stand-in for an operator this machine does not know.
OperatorRef unknownOperator(std::string name);

/// Where operators come from by name. Fillers (LibTorch's registry, tests) derive from it; results are kept.
class OperatorSet {
 public:
  virtual ~OperatorSet() = default;
  /// The operator, or null where it is not known. Name as in Operator::name; thread-safe.
  OperatorRef find(std::string_view name) const;
  /// The overloads of "aten.softmax", in the order PyTorch declares them; find() may know more ("aten.add.int").
  std::vector<OperatorRef> overloads(std::string_view packet) const;
  void add(OperatorRef op);

 protected:
  /// Asked once for each packet ("aten.softmax") that nobody added, and for each name that is missing there.
  virtual std::vector<OperatorRef> load(std::string_view packet) const { return {}; }

 private:
  const std::vector<OperatorRef>& packet(std::string_view name) const;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::vector<OperatorRef>> packets_;
};

}  // namespace graft
