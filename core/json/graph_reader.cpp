#include "core/json/graph_reader.h"

#include <array>
#include <utility>

namespace graft {
namespace {

using Kind = JsonReader::Kind;

OperatorRef plainOperator(std::string_view name, const std::vector<std::string>& parameters) {
  Operator op = *unknownOperator(std::string(name));
  for (const std::string& p : parameters) op.parameters.emplace_back().name = p;
  return std::make_shared<const Operator>(std::move(op));
}

std::vector<std::string> strings(JsonReader& r) {
  std::vector<std::string> out;
  r.array([&] { out.emplace_back(r.string()); });
  return out;
}

}  // namespace

GraphReader::GraphReader(MakeOperator makeOperator)
    : graph_(std::make_shared<Graph>()), makeOperator_(makeOperator ? std::move(makeOperator) : plainOperator) {}

/// The text is passed twice: what nodes refer to may stand behind them.
bool GraphReader::read(std::string_view json) {
  static constexpr std::array<std::string_view, 9> keys{"name",   "symbols", "operators", "sources", "modules",
                                                        "inputs", "weights", "nodes",     "returns"};
  std::array<std::string_view, keys.size()> found{};
  JsonReader whole(json);
  if (whole.peek() != Kind::Object) return why_ = "it is no object", false;
  whole.object([&](std::string_view key) {
    for (size_t i = 0; i < keys.size(); ++i)
      if (key == keys[i]) found[i] = whole.raw();
  });
  if (whole.failed() || !whole.atEnd()) return why_ = whole.failed() ? whole.why() : "something follows it", false;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i].empty()) continue;
    JsonReader r(found[i]);
    switch (i) {
      case 0:
        graph_->name = r.string();
        break;
      case 1:
        symbols(r);
        break;
      case 2:
        operators(r);
        break;
      case 3:
        r.array([&] { sources_.push_back(graph_->addSource(location(r))); });
        break;
      case 4:
        r.array([&] { module(r); });
        break;
      case 5:
        r.array([&] { parameter(r, graph_->root()); });
        break;
      case 6:
        r.array([&] { weight(r); });
        break;
      case 7:
        nodes(r, graph_->root());
        break;
      default:
        r.array([&] { returns_.push_back(argument(r)); });
        graph_->setReturns(graph_->root(), returns_);
    }
    if (r.failed()) return why_ = r.why(), false;
  }
  return true;
}

void GraphReader::symbols(JsonReader& r) {
  r.object([&](std::string_view name) {
    Symbol s;
    s.name = name;
    std::optional<int64_t>* bounds[] = {&s.min, &s.max};
    size_t i = 0;
    r.array([&] {
      const JsonReader::Number n = r.number();
      if (i < 2 && n.isInteger) *bounds[i] = n.integer;
      ++i;
    });
    graph_->setSymbol(std::move(s));
  });
}

void GraphReader::operators(JsonReader& r) {
  r.object([&](std::string_view key) {
    std::string name(key);
    std::vector<std::string> parameters = strings(r);
    shared_.insert_or_assign(std::move(name), std::move(parameters));
  });
}

/// A model has few types, and many values of each.
const Type* GraphReader::type(std::string_view written) {
  const auto it = types_.find(written);
  if (it != types_.end()) return &it->second;
  return &types_.emplace(std::string(written), parseType(written).value_or(Type::any())).first->second;
}

void GraphReader::named(JsonReader& r, NameAndType& out) {
  out.name.clear();
  out.type = type({});
  r.object([&](std::string_view key) {
    if (key == "name")
      out.name = r.string();
    else if (key == "type")
      out.type = type(r.string());
  });
}

/// The graph's own table of names serves, but for those that it changed.
ValueId GraphReader::findValue(std::string_view name) const {
  if (!renamed_.empty())
    if (const auto it = renamed_.find(name); it != renamed_.end()) return it->second;
  return graph_->findValue(name);
}

void GraphReader::note(ValueId made, std::string_view wished) {
  if (graph_->value(made).name != wished) renamed_.insert_or_assign(std::string(wished), made);
}

SourceLocation GraphReader::location(JsonReader& r) {
  SourceLocation out;
  r.object([&](std::string_view key) {
    if (key == "file")
      out.file = r.string();
    else if (key == "code")
      out.code = r.string();
    else if (key == "line")
      out.line = static_cast<int>(r.integer());
    else if (key == "column")
      out.column = static_cast<int>(r.integer());
    else if (key == "endColumn")
      out.endColumn = static_cast<int>(r.integer());
  });
  return out;
}

void GraphReader::module(JsonReader& r) {
  int64_t id = -1, parent = -1;
  std::string path, type;
  std::vector<std::pair<std::string, Argument>> constructor;
  r.object([&](std::string_view key) {
    if (key == "id")
      id = r.integer(-1);
    else if (key == "parent")
      parent = r.integer(-1);
    else if (key == "path")
      path = r.string();
    else if (key == "type")
      type = r.string();
    else if (key == "constructor")
      constructor = namedArguments(r);
  });
  const auto up = modules_.find(parent);
  const ModuleCallId made =
      graph_->addModuleCall(up == modules_.end() ? ModuleCallId{} : up->second, std::move(path), std::move(type));
  graph_->mutableModuleCall(made).constructor = std::move(constructor);
  modules_[id] = made;
}

void GraphReader::weight(JsonReader& r) {
  std::string name, path;
  const Type* type = this->type({});
  bool isBuffer = false, isConstant = false;
  r.object([&](std::string_view key) {
    if (key == "name")
      name = r.string();
    else if (key == "path")
      path = r.string();
    else if (key == "type")
      type = this->type(r.string());
    else if (key == "buffer")
      isBuffer = r.boolean();
    else if (key == "constant")
      isConstant = r.boolean();
  });
  const ValueId v = graph_->addWeight(path.empty() ? name : path, *type, nullptr, isBuffer);
  graph_->mutableWeight(v).isConstant = isConstant;
  if (name.empty()) return;
  graph_->rename(v, name);
  note(v, name);
}

void GraphReader::parameter(JsonReader& r, BlockId block) {
  NameAndType p;
  named(r, p);
  note(graph_->addBlockParameter(block, p.name, *p.type), p.name);
}

void GraphReader::nodes(JsonReader& r, BlockId block) {
  r.array([&] { node(r, block); });
}

void GraphReader::node(JsonReader& r, BlockId where) {
  NodeText& n = text_;
  n.name.clear();
  n.op.clear();
  n.outputCount = 0;
  n.parameters.reset();
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  uint32_t source = UINT32_MAX;
  int64_t module = -1;
  std::string_view blocks;
  r.object([&](std::string_view key) {
    if (key == "name") {
      n.name = r.string();
    } else if (key == "op") {
      n.op = r.string();
    } else if (key == "args") {
      args = arguments(r);
    } else if (key == "kwargs") {
      kwargs = namedArguments(r);
    } else if (key == "outputs") {
      r.array([&] {
        if (n.outputCount == n.outputs.size()) n.outputs.emplace_back();
        named(r, n.outputs[n.outputCount++]);
      });
    } else if (key == "module") {
      module = r.integer(-1);
    } else if (key == "parameters") {
      n.parameters = strings(r);
    } else if (key == "source" && r.peek() == Kind::Object) {
      source = graph_->addSource(location(r));
    } else if (key == "source") {
      const auto index = static_cast<size_t>(r.integer(-1));
      if (index < sources_.size()) source = sources_[index];
    } else if (key == "blocks") {
      blocks = r.raw();  // its nodes come after this one
    }
  });
  if (r.failed()) return;
  const NodeId id = graph_->append(where, operatorOf(n), std::move(args), n.name);
  if (!kwargs.empty()) graph_->setKeywordArguments(id, std::move(kwargs));
  for (size_t i = 0; i < n.outputCount; ++i)
    note(graph_->addOutput(id, n.outputs[i].name, *n.outputs[i].type), n.outputs[i].name);
  if (const auto owner = modules_.find(module); owner != modules_.end()) graph_->setModule(id, owner->second);
  graph_->setSource(id, source);
  if (blocks.empty()) return;
  JsonReader inner(blocks);
  inner.array([&] { block(inner, id); });
}

void GraphReader::block(JsonReader& r, NodeId owner) {
  const BlockId id = graph_->addBlock(owner);
  std::string_view parameters, body, results;
  r.object([&](std::string_view key) {
    if (key == "parameters")
      parameters = r.raw();
    else if (key == "nodes")
      body = r.raw();
    else if (key == "returns")
      results = r.raw();
  });
  JsonReader first(parameters), second(body), third(results);
  first.array([&] { parameter(first, id); });
  nodes(second, id);
  graph_->setReturns(id, arguments(third));
}

OperatorRef GraphReader::operatorOf(const NodeText& n) {
  if (!n.parameters) {
    if (const auto it = known_.find(n.op); it != known_.end()) return it->second;
    const auto it = shared_.find(n.op);
    return known_[n.op] = makeOperator_(n.op, it == shared_.end() ? std::vector<std::string>() : it->second);
  }
  // Where each node names its parameters, some may name fewer.
  std::string key = n.op;
  for (const std::string& p : *n.parameters) key += ',' + p;
  OperatorRef& known = known_[key];
  if (!known) known = makeOperator_(n.op, *n.parameters);
  return known;
}

std::vector<Argument> GraphReader::arguments(JsonReader& r) {
  std::vector<Argument> out;
  r.array([&] { out.push_back(argument(r)); });
  return out;
}

std::vector<std::pair<std::string, Argument>> GraphReader::namedArguments(JsonReader& r) {
  std::vector<std::pair<std::string, Argument>> out;
  r.object([&](std::string_view key) {
    std::string name(key);
    out.emplace_back(std::move(name), argument(r));
  });
  return out;
}

Argument GraphReader::argument(JsonReader& r) {
  switch (r.peek()) {
    case Kind::True:
    case Kind::False:
      return Argument(r.boolean());
    case Kind::String:
      return Argument(std::string(r.string()));
    case Kind::Number: {
      const JsonReader::Number n = r.number();
      return n.isInteger ? Argument(n.integer) : Argument(n.real);
    }
    case Kind::Object:
      break;
    default:
      r.skip();
      return {};
  }
  Argument out;
  r.object([&](std::string_view key) {
    if (key == "v") {
      const std::string_view name = r.string();
      const ValueId v = findValue(name);
      out = v ? Argument(v) : Argument(Named{std::string(name)});
    } else if (key == "l") {
      out = Argument::list(arguments(r));
    } else if (key == "t") {
      out = Argument::tuple(arguments(r));
    } else if (key == "s") {
      out = Argument(std::string(r.string()));
    } else if (key == "x") {
      out = Argument(Named{std::string(r.string())});
    } else if (key == "d") {
      std::vector<std::pair<Argument, Argument>> pairs;
      r.array([&] {
        std::vector<Argument> both = arguments(r);
        if (both.size() == 2) pairs.emplace_back(std::move(both[0]), std::move(both[1]));
      });
      out = Argument::dict(std::move(pairs));
    }
  });
  return out;
}

}  // namespace graft
