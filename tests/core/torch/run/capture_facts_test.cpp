#include "core/torch/run/capture_facts.h"

#include <set>
#include <string>

#include "core/ir/operators/graft_operators.h"
#include "core/torch/model.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/torch_semantics.h"

using namespace graft;
using test::graphOf;
using test::torchSemantics;

namespace {

bool promises(std::string_view text) {
  return captureFacts(graphOf(text, torchSemantics().operators())).constantWeights;
}

/// A call with a value of the graph for each tensor, `computed` for the one of that name.
std::string callOf(const Operator& op, const std::string& computed) {
  std::string text = "graph g {\n weight %w \"w\" : f32[8,8]\n input %x : f32[8,8]\n %c = aten.neg.default(%x)\n %out";
  for (size_t i = 1; i < op.returns.size(); ++i) text += ", %out" + std::to_string(i);
  text += " = " + op.name + "(";
  bool first = true;
  for (const Parameter& p : op.parameters) {
    if (p.defaultValue) continue;
    const std::string type = toString(p.type);
    const std::string value = p.name == computed ? "%c" : "%w";
    const bool list = type.find("list") != std::string::npos || type.find("[]") != std::string::npos;
    const bool tensor = type.find("tensor") != std::string::npos || type.find("Tensor") != std::string::npos;
    text += (first ? "" : ", ") + (p.keywordOnly ? p.name + "=" : "") +
            (tensor ? (list ? "[" + value + "]" : value)
             : list ? "[1, 1]"
                    : "1");
    first = false;
  }
  return text + ")\n return %out\n}";
}

}  // namespace

TEST_CASE("weights are promised to be constant only where no node makes them, for each operator of the library") {
  // What is computed from a model's input. Any other tensor is one that kernels may read before the one ahead is done.
  const std::set<std::string> activations{"x", "q", "k", "v", "mask", "gate", "up", "cos", "sin", "ids", "residual"};
  int tried = 0;
  for (const GraftOperator& described : graftOperators()) {
    const std::string name(described.name);
    const OperatorRef op = torchSemantics().operators().find("graft." + name + ".default");
    REQUIRE(op);
    for (const Parameter& p : op->parameters) {
      const std::string type = toString(p.type);
      if (p.defaultValue || type.find("ensor") == std::string::npos) continue;
      INFO(name << " " << p.name << "\n" << callOf(*op, p.name));
      CHECK(promises(callOf(*op, p.name)) == activations.contains(p.name));
      ++tried;
    }
    CHECK(promises(callOf(*op, "")));
  }
  REQUIRE(tried > 40);
}
