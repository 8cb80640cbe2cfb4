// The list of the library's operators, and its description as JSON (graft_ops_describe).
#include <algorithm>
#include <vector>

#include "kernels/cpu/loops.h"
#include "kernels/library/c_interface.h"
#include "kernels/ops/operator.h"

namespace graft::ops {
namespace {

std::vector<const OperatorInfo*>& operators() {
  static std::vector<const OperatorInfo*> list;
  return list;
}

std::string quoted(const char* text) {
  std::string out = "\"";
  for (const char* c = text; *c; ++c) {
    if (*c == '"' || *c == '\\') out += '\\';
    if (*c == '\n') {
      out += "\\n";
    } else {
      out += *c;
    }
  }
  return out + '"';
}

std::string describe() {
  std::vector<const OperatorInfo*> sorted = operators();
  std::sort(sorted.begin(), sorted.end(),
            [](const OperatorInfo* a, const OperatorInfo* b) { return std::string(a->name) < b->name; });
  std::string json = "[";
  for (const OperatorInfo* info : sorted) {
    const auto handle = c10::Dispatcher::singleton().findSchema({std::string("graft::") + info->name, ""});
    const bool cuda = handle && handle->hasKernelForDispatchKey(c10::DispatchKey::CUDA);
    if (json.size() > 1) json += ",";
    json += "\n {\"name\": " + quoted(info->name) + ", \"schema\": " + quoted(info->schema) +
            ", \"doc\": " + quoted(info->doc) + ", \"needs\": " + quoted(info->needs) +
            ", \"facts\": " + quoted(info->facts) + ", \"runs_on\": [\"cpu\", \"meta\"" + (cuda ? ", \"cuda\"" : "") +
            "]}";
  }
  return json + "\n]\n";
}

}  // namespace

void listOperator(const OperatorInfo& info) { operators().push_back(&info); }

}  // namespace graft::ops

const char* graft_ops_describe() {
  thread_local std::string json;  // not cached: the CUDA operators may be loaded between two calls
  json = graft::ops::describe();
  return json.c_str();
}

const char* graft_ops_cpu_capability() { return graft::ops::loops().name; }
