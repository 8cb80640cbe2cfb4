// "Did you mean" for operators: the names come from LibTorch's dispatcher, so that what is suggested exists on this
// machine.
#include <ATen/core/dispatch/Dispatcher.h>

#include <set>
#include <string>
#include <vector>

#include "core/base/suggest.h"
#include "matcher/lang/names.h"

namespace graft::lang {

std::string nearestOperator(std::string_view packet) {
  const std::string_view space = packet.substr(0, packet.find('.'));
  std::set<std::string> names;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    const size_t colons = op.name.find("::");
    if (colons == std::string::npos || op.name.compare(0, colons, space) != 0) continue;
    names.insert(op.name.substr(colons + 2));
  }
  if (space == "graft")  // the operators' library need not be loaded to write rules for it
    names.insert({"attention", "linear", "qkv_projection", "add_layer_norm", "add_rms_norm", "masked_softmax",
                  "rotary_embedding", "swiglu", "embedding_layer_norm", "conv_bias_add_relu"});
  const std::vector<std::string> list(names.begin(), names.end());
  return nearestName(packet.substr(space.size() + 1), list).value_or("");
}

}  // namespace graft::lang
