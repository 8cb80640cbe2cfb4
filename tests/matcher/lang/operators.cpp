#include "operators.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <sstream>

#include "core/ir/operators/graft_operators.h"

namespace graft::test {
namespace {

class TorchOperators : public OperatorSet {
 public:
  TorchOperators() {
    for (const GraftOperator& described : graftOperators()) {
      auto op = parseSchema("graft::" + std::string(described.schema));
      if (!op) throw std::runtime_error(op.error().message);
      add(*op);
    }
  }

 protected:
  std::vector<OperatorRef> load(std::string_view packet) const override {
    const size_t dot = packet.find('.');
    if (dot == std::string_view::npos) return {};
    const std::string name = std::string(packet.substr(0, dot)) + "::" + std::string(packet.substr(dot + 1));
    std::vector<OperatorRef> out;
    for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
      std::ostringstream text;
      text << op->schema();
      if (auto parsed = parseSchema(text.str())) out.push_back(*parsed);
    }
    return out;
  }
};

}  // namespace

const OperatorSet& operators() {
  static const TorchOperators set;
  return set;
}

}  // namespace graft::test
