// GraphReader: graphs from their JSON form (graph_json.h), whole or in parts as they come over a line, straight from
// the text. Fields may stand in any order. What is not understood is left out; text that is no JSON is an error.
//
//   GraphReader reader;
//   for (std::string_view part : parts)
//     if (!reader.read(part)) return reader.why();
//   std::shared_ptr<Graph> g = reader.take();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/graph.h"
#include "core/json/json_reader.h"

namespace graft {

class GraphReader {
 public:
  /// Makes the operator of that name with parameters of those names. It must be without returns: nodes get exactly the
  /// outputs that the text names.
  using MakeOperator = std::function<OperatorRef(std::string_view name, const std::vector<std::string>& parameters)>;

  explicit GraphReader(MakeOperator makeOperator = {});

  /// A whole graph or its next part. False where it is no JSON object; the graph so far is kept.
  bool read(std::string_view json);
  const std::string& why() const { return why_; }
  /// What was read; the reader is done then.
  std::shared_ptr<Graph> take() { return std::move(graph_); }

 private:
  struct Texts {
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
    using is_transparent = void;
  };
  template <class T>
  using Table = std::unordered_map<std::string, T, Texts, std::equal_to<>>;
  struct NameAndType {
    std::string name;
    const Type* type = nullptr;  ///< into types_
  };
  /// What stands of a node: kept for the next, so that its strings need no new memory.
  struct NodeText {
    std::string name, op;
    std::vector<NameAndType> outputs;
    size_t outputCount = 0;
    std::optional<std::vector<std::string>> parameters;
  };

  const Type* type(std::string_view written);
  void named(JsonReader&, NameAndType& out);
  void symbols(JsonReader&);
  void operators(JsonReader&);
  void module(JsonReader&);
  void weight(JsonReader&);
  void parameter(JsonReader&, BlockId);
  void nodes(JsonReader&, BlockId);
  void node(JsonReader&, BlockId);
  void block(JsonReader&, NodeId owner);
  SourceLocation location(JsonReader&);
  OperatorRef operatorOf(const NodeText&);
  Argument argument(JsonReader&);
  std::vector<Argument> arguments(JsonReader&);
  std::vector<std::pair<std::string, Argument>> namedArguments(JsonReader&);
  ValueId findValue(std::string_view name) const;
  void note(ValueId made, std::string_view wished);

  std::shared_ptr<Graph> graph_;
  MakeOperator makeOperator_;
  std::string why_;
  std::unordered_map<int64_t, ModuleCallId> modules_;
  Table<ValueId> renamed_;  ///< values that could not keep the name that the text has for them
  Table<OperatorRef> known_;
  Table<std::vector<std::string>> shared_;  ///< the parameters of each operator of the compact form
  Table<Type> types_;
  std::vector<uint32_t> sources_;
  std::vector<Argument> returns_;  ///< of the graph, so far
  NodeText text_;
};

}  // namespace graft
