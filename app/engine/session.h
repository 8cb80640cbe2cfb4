// Session: what the engine knows between requests: the open models, each with its history. It turns requests into calls
// of the workbench. It knows nothing of threads or pipes.
//
//   Session session(semantics);
//   nlohmann::json result = session.call("model/open", {{"path", "bert.pt"}}, job);   // throws RpcError
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/workbench/rules.h"
#include "core/base/progress.h"
#include "core/ir/semantics.h"

namespace graft {

/// A request that failed, as JSON-RPC reports it.
struct RpcError {
  int code;  ///< -32601 no such method, -32602 wrong parameters, -32800 cancelled, 1 bad input, 2 internal
  std::string message;
};

class Session {
 public:
  explicit Session(const Semantics&);
  ~Session();
  /// Takes the next part of a graph, for requests that want theirs in parts ("graph": "parts").
  using SendPart = std::function<void(std::string_view)>;
  /// One method's result. Throws RpcError; nothing has changed then.
  nlohmann::json call(const std::string& method, const nlohmann::json& params, const Job& job,
                      const SendPart& part = {});
  /// Names of all methods.
  static std::vector<std::string> methods();

 private:
  struct Document;
  struct Methods;
  using Method = nlohmann::json (*)(const Methods&);
  static const std::vector<std::pair<std::string, Method>>& table();
  Document& documentOf(const nlohmann::json& params, const char* key);
  Document& document(const nlohmann::json& params) { return documentOf(params, "document"); }

  const Semantics& semantics_;
  std::map<int, std::unique_ptr<Document>> documents_;
  int nextDocument_ = 1;
  workbench::RuleText rules_;  ///< the latest ones: checking, matching and explaining the same text parse it once
};

}  // namespace graft
