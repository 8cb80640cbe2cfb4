#include "core/json/graph_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/ir/used_symbols.h"
#include "core/json/json_writer.h"
#include "core/text/text.h"

namespace graft {

using nlohmann::json;

namespace {

/// Writes a graph of the form at the end of a string, which it hands on and empties where it has become long.
class GraphWriter {
 public:
  using Sink = std::function<bool(std::string_view)>;

  GraphWriter(const Graph& g, JsonForm form, std::string& out, size_t bytes = SIZE_MAX, Sink sink = {})
      : g_(g), form_(form), out_(out), w_(out), bytes_(bytes), sink_(std::move(sink)) {}

  bool graph() {
    w_.open('{').key("name").string(g_.name);
    w_.key("symbols");
    symbols();
    if (form_ == JsonForm::Compact) shared();
    list("modules", g_.moduleCalls(), [&](const ModuleCall& m) { module(m); });
    list("inputs", g_.inputs(), [&](ValueId v) { value(v); });
    list("weights", g_.weights(), [&](ValueId v) { weight(v); });
    list("nodes", g_.order(g_.root()), [&](NodeId n) { node(n); });
    list("returns", g_.returns(), [&](const Argument& a) { argument(a); });
    w_.close('}');
    return !stopped_ && (!sink_ || sink_(out_));
  }

  void symbols() {
    const auto bound = [&](const std::optional<int64_t>& n) { n ? w_.number(*n) : w_.null(); };
    w_.open('{');
    for (const Symbol& s : usedSymbols(g_)) {
      w_.key(s.name).open('[');
      bound(s.min);
      bound(s.max);
      w_.close(']');
    }
    w_.close('}');
  }

  void argument(const Argument& a) {
    if (a.isNone()) {
      w_.null();
    } else if (a.isValue()) {
      tagged("v", g_.value(a.valueId()).name);
    } else if (const auto* b = a.as<bool>()) {
      w_.boolean(*b);
    } else if (const auto* i = a.as<int64_t>()) {
      w_.number(*i);
    } else if (const auto* d = a.as<double>(); d && std::isfinite(*d)) {
      w_.number(*d);
    } else if (const auto* s = a.as<std::string>()) {
      tagged("s", *s);
    } else if (const auto* l = a.items()) {
      w_.open('{').key(a.isList() ? "l" : "t").open('[');
      for (const Argument& item : *l) argument(item);
      w_.close(']').close('}');
    } else if (const auto* d = a.as<Argument::Dict>()) {
      w_.open('{').key("d").open('[');
      for (const auto& [k, v] : d->items) {
        w_.open('[');
        argument(k);
        argument(v);
        w_.close(']');
      }
      w_.close(']').close('}');
    } else if (const auto* n = a.as<Named>()) {
      tagged("x", n->name);
    } else {
      tagged("x", toText(a, g_));
    }
  }

 private:
  void tagged(const char* tag, std::string_view text) { w_.open('{').key(tag).string(text).close('}'); }

  /// Between two items of a list of the graph's own object, parts may end.
  template <class Items, class Write>
  void list(const char* key, const Items& items, Write&& write) {
    w_.key(key).open('[');
    for (const auto& item : items) {
      if (stopped_) return;
      if (out_.size() > bytes_) {
        w_.close(']').close('}');
        stopped_ = !sink_(out_);
        out_.clear();
        w_.open('{').key(key).open('[');
      }
      write(item);
    }
    w_.close(']');
  }

  void value(ValueId id) {
    w_.open('{');
    nameAndType(id);
    w_.close('}');
  }

  void nameAndType(ValueId id) {
    const Value& v = g_.value(id);
    w_.key("name").string(v.name).key("type");
    // Neighbours are mostly of one type.
    if (!lastType_ || !(*lastType_ == v.type)) {
      lastType_ = &v.type;
      lastText_ = toString(v.type);
    }
    w_.string(lastText_);
  }

  void weight(ValueId id) {
    const Value& v = g_.value(id);
    w_.open('{');
    nameAndType(id);
    w_.key("path").string(v.path).key("buffer").boolean(v.isBuffer).key("constant").boolean(v.isConstant).close('}');
  }

  void module(const ModuleCall& m) {
    w_.open('{').key("id").number(int64_t{m.id.index}).key("parent");
    m.parent ? w_.number(int64_t{m.parent.index}) : w_.null();
    w_.key("path").string(m.path).key("type").string(m.type).key("constructor");
    named(m.constructor);
    w_.close('}');
  }

  void named(const std::vector<std::pair<std::string, Argument>>& arguments) {
    w_.open('{');
    for (const auto& [k, a] : arguments) {
      w_.key(k);
      argument(a);
    }
    w_.close('}');
  }

  void source(const SourceLocation& s) {
    w_.open('{').key("file").string(s.file).key("line").number(int64_t{s.line});
    if (!s.code.empty()) w_.key("code").string(s.code);
    if (s.column > 0) w_.key("column").number(int64_t{s.column}).key("endColumn").number(int64_t{s.endColumn});
    w_.close('}');
  }

  void parameterNames(const Operator& op) {
    w_.open('[');
    for (const Parameter& p : op.parameters) w_.string(p.name);
    w_.close(']');
  }

  void node(NodeId id) {
    const Node& n = g_.node(id);
    w_.open('{').key("name").string(n.name).key("op").string(n.op->name).key("module");
    n.module ? w_.number(int64_t{n.module.index}) : w_.null();
    w_.key("args").open('[');
    for (const Argument& a : n.args) argument(a);
    w_.close(']');
    if (!n.kwargs.empty()) {
      w_.key("kwargs");
      named(n.kwargs);
    }
    w_.key("outputs").open('[');
    for (ValueId v : n.outputs) value(v);
    w_.close(']');
    if (form_ == JsonForm::Complete) {
      w_.key("parameters");
      parameterNames(*n.op);
    }
    if (const SourceLocation* s = g_.sourceOf(n)) {
      w_.key("source");
      form_ == JsonForm::Complete ? source(*s) : (void)w_.number(int64_t{n.source});
    }
    if (!n.blocks.empty()) {
      w_.key("blocks").open('[');
      for (BlockId b : n.blocks) block(b);
      w_.close(']');
    }
    w_.close('}');
  }

  void block(BlockId id) {
    w_.open('{').key("parameters").open('[');
    for (ValueId p : g_.block(id).parameters) value(p);
    w_.close(']').key("nodes").open('[');
    for (NodeId n : g_.order(id)) node(n);
    w_.close(']').key("returns").open('[');
    for (const Argument& r : g_.block(id).returns) argument(r);
    w_.close(']').close('}');
  }

  /// What the nodes of the compact form share.
  void shared() {
    std::unordered_set<const Operator*> seen;
    std::unordered_set<std::string_view> written;
    w_.key("operators").open('{');
    for (size_t i = 0; i < g_.nodeBound(); ++i) {
      const NodeId n(static_cast<uint32_t>(i));
      if (!g_.isAlive(n)) continue;
      const Operator& op = *g_.node(n).op;
      if (!seen.insert(&op).second || !written.insert(op.name).second) continue;
      w_.key(op.name);
      parameterNames(op);
    }
    w_.close('}');
    list("sources", g_.sources(), [&](const SourceLocation& s) { source(s); });
  }

  const Graph& g_;
  JsonForm form_;
  std::string& out_;
  JsonWriter w_;
  size_t bytes_;
  Sink sink_;
  bool stopped_ = false;
  const Type* lastType_ = nullptr;
  std::string lastText_;
};

}  // namespace

std::string jsonText(const Graph& g, JsonForm form) {
  std::string out;
  GraphWriter(g, form, out).graph();
  return out;
}

bool writeJsonParts(const Graph& g, size_t bytes, const std::function<bool(std::string_view)>& part) {
  std::string out;
  out.reserve(bytes + bytes / 8);
  return GraphWriter(g, JsonForm::Compact, out, bytes, part).graph();
}

json toJson(const Graph& g, JsonForm form) { return json::parse(jsonText(g, form)); }

json toJson(const Graph& g, const Argument& a) {
  std::string out;
  GraphWriter(g, JsonForm::Complete, out).argument(a);
  return json::parse(out);
}

json symbolsJson(const Graph& g) {
  std::string out;
  GraphWriter(g, JsonForm::Complete, out).symbols();
  return json::parse(out);
}

}  // namespace graft
