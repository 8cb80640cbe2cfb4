#include "views/graph_decode.h"

#include <QHash>
#include <QJsonArray>
#include <unordered_map>

namespace graft {
namespace {

std::string text(const QJsonValue& v) { return v.toString().toStdString(); }
QJsonValue at(const QJsonObject& o, const char* key) { return o.value(QLatin1String(key)); }

/// Defaults of common parameters: the engine sends all arguments, drawings show those that say something.
std::optional<Argument> usualDefault(std::string_view name) {
  static const std::unordered_map<std::string_view, Argument> table = {
      {"alpha", Argument(int64_t{1})},
      {"beta", Argument(int64_t{1})},
      {"approximate", Argument("none")},
      {"keepdim", Argument(false)},
      {"is_causal", Argument(false)},
      {"enable_gqa", Argument(false)},
      {"dropout_p", Argument(0.0)},
      {"inplace", Argument(false)},
      {"ceil_mode", Argument(false)},
      {"count_include_pad", Argument(true)},
      {"align_corners", Argument(false)},
      {"groups", Argument(int64_t{1})},
      {"implicit", Argument(false)},
      {"step", Argument(int64_t{1})},
      {"track_running_stats", Argument(true)},
      {"activation", Argument("none")},
      {"causal", Argument(false)},
      {"unbiased", Argument(true)},
  };
  const auto it = table.find(name);
  if (it == table.end()) return {};
  return it->second;
}

class Decoder {
 public:
  explicit Decoder(Graph& graph) : g_(graph) {}

  void run(const QJsonObject& json) {
    g_.name = text(at(json, "name"));
    shared_ = at(json, "operators").toObject();
    for (const QJsonValue s : at(json, "sources").toArray()) sources_.push_back(g_.addSource(location(s.toObject())));
    for (const QJsonValue m : at(json, "modules").toArray()) module(m.toObject());
    const QJsonArray nodes = at(json, "nodes").toArray();
    g_.reserve(static_cast<size_t>(nodes.size()));
    values_.reserve(static_cast<size_t>(nodes.size()));
    for (const QJsonValue w : at(json, "weights").toArray()) weight(w.toObject());
    for (const QJsonValue i : at(json, "inputs").toArray()) parameter(g_.root(), i.toObject());
    block(g_.root(), nodes, at(json, "returns").toArray());
  }

 private:
  /// A model has few types, and many values of each.
  const Type& type(const QJsonObject& value) {
    const QString written = at(value, "type").toString();
    const auto it = types_.constFind(written);
    if (it != types_.constEnd()) return *it;
    return *types_.insert(written, parseType(written.toStdString()).value_or(Type::any()));
  }

  static SourceLocation location(const QJsonObject& source) {
    SourceLocation out;
    out.file = text(at(source, "file"));
    out.line = at(source, "line").toInt();
    out.column = at(source, "column").toInt();
    out.endColumn = at(source, "endColumn").toInt();
    out.code = text(at(source, "code"));
    return out;
  }

  void module(const QJsonObject& m) {
    const int parent = at(m, "parent").toInt(-1);
    const auto up = modules_.find(parent);
    const ModuleCallId id =
        g_.addModuleCall(up == modules_.end() ? ModuleCallId{} : up->second, text(at(m, "path")), text(at(m, "type")));
    modules_[at(m, "id").toInt()] = id;
    const QJsonObject constructor = at(m, "constructor").toObject();
    for (auto it = constructor.begin(); it != constructor.end(); ++it)
      g_.mutableModuleCall(id).constructor.emplace_back(it.key().toStdString(), argument(it.value()));
  }

  void weight(const QJsonObject& w) {
    const std::string path = text(at(w, "path")), name = text(at(w, "name"));
    const ValueId v = g_.addWeight(path.empty() ? name : path, type(w), nullptr, at(w, "buffer").toBool());
    if (!name.empty()) g_.rename(v, name);
    values_[name] = v;
  }

  void parameter(BlockId block, const QJsonObject& p) {
    std::string name = text(at(p, "name"));
    const ValueId v = g_.addBlockParameter(block, name, type(p));
    values_[std::move(name)] = v;
  }

  void block(BlockId id, const QJsonArray& nodes, const QJsonArray& returns) {
    for (const QJsonValue n : nodes) node(id, n.toObject());
    std::vector<Argument> results;
    for (const QJsonValue r : returns) results.push_back(argument(r));
    g_.setReturns(id, std::move(results));
  }

  void node(BlockId where, const QJsonObject& n) {
    std::vector<Argument> args;
    for (const QJsonValue a : at(n, "args").toArray()) args.push_back(argument(a));
    const std::string name = text(at(n, "name"));
    const NodeId id = g_.append(where, operatorFor(n), std::move(args), name);
    std::vector<std::pair<std::string, Argument>> kwargs;
    const QJsonObject named = at(n, "kwargs").toObject();
    for (auto it = named.begin(); it != named.end(); ++it)
      kwargs.emplace_back(it.key().toStdString(), argument(it.value()));
    if (!kwargs.empty()) g_.setKeywordArguments(id, std::move(kwargs));
    for (const QJsonValue o : at(n, "outputs").toArray()) {
      const QJsonObject output = o.toObject();
      std::string outputName = text(at(output, "name"));
      const ValueId v = g_.addOutput(id, outputName, type(output));
      values_[std::move(outputName)] = v;
    }
    const auto owner = modules_.find(at(n, "module").toInt(-1));
    if (owner != modules_.end()) g_.setModule(id, owner->second);
    const QJsonValue source = at(n, "source");
    if (source.isObject())
      g_.setSource(id, g_.addSource(location(source.toObject())));
    else if (const auto index = static_cast<size_t>(source.toInt(-1)); index < sources_.size())
      g_.setSource(id, sources_[index]);
    for (const QJsonValue b : at(n, "blocks").toArray()) {
      const QJsonObject inner = b.toObject();
      const BlockId block_ = g_.addBlock(id);
      for (const QJsonValue p : at(inner, "parameters").toArray()) parameter(block_, p.toObject());
      block(block_, at(inner, "nodes").toArray(), at(inner, "returns").toArray());
    }
  }

  /// Without returns, so that nodes get exactly the outputs that the engine names.
  OperatorRef operatorFor(const QJsonObject& n) {
    const QString written = at(n, "op").toString();
    const QJsonArray names = at(n, "parameters").toArray();
    // Where each node names its parameters, some may name fewer.
    QString key = written;
    for (const QJsonValue p : names) key += QLatin1Char(',') + p.toString();
    OperatorRef& known = operators_[key];
    if (!known) {
      const std::string name = written.toStdString();
      Operator op = *unknownOperator(name);
      op.hasSchema = false;
      op.sideEffects = name == "prim.Print" || name == "prim.RaiseException";
      op.returns.clear();
      for (const QJsonValue p : names.isEmpty() ? shared_.value(written).toArray() : names) {
        Parameter q;
        q.name = text(p);
        q.defaultValue = usualDefault(q.name);
        op.parameters.push_back(std::move(q));
      }
      known = std::make_shared<const Operator>(std::move(op));
    }
    return known;
  }

  Argument argument(const QJsonValue& v) const {
    if (v.isBool()) return Argument(v.toBool());
    if (v.isDouble()) {
      const QVariant number = v.toVariant();
      if (number.typeId() == QMetaType::LongLong || number.typeId() == QMetaType::Int)
        return Argument(int64_t{number.toLongLong()});
      return Argument(v.toDouble());
    }
    if (v.isString()) return Argument(text(v));
    if (!v.isObject()) return {};
    const QJsonObject o = v.toObject();
    auto items = [&](const char* key) {
      std::vector<Argument> list;
      for (const QJsonValue i : at(o, key).toArray()) list.push_back(argument(i));
      return list;
    };
    if (o.contains(QLatin1String("v"))) {
      std::string name = text(at(o, "v"));
      const auto it = values_.find(name);
      return it == values_.end() ? Argument(Named{std::move(name)}) : Argument(it->second);
    }
    if (o.contains(QLatin1String("l"))) return Argument::list(items("l"));
    if (o.contains(QLatin1String("t"))) return Argument::tuple(items("t"));
    if (o.contains(QLatin1String("s"))) return Argument(text(at(o, "s")));
    if (o.contains(QLatin1String("x"))) return Argument(Named{text(at(o, "x"))});
    if (o.contains(QLatin1String("d"))) {
      std::vector<std::pair<Argument, Argument>> pairs;
      for (const QJsonValue p : at(o, "d").toArray())
        pairs.emplace_back(argument(p.toArray().at(0)), argument(p.toArray().at(1)));
      return Argument::dict(std::move(pairs));
    }
    return {};
  }

  Graph& g_;
  std::unordered_map<int, ModuleCallId> modules_;
  std::unordered_map<std::string, ValueId> values_;
  QHash<QString, OperatorRef> operators_;
  QHash<QString, Type> types_;
  QJsonObject shared_;  ///< the parameters of each operator
  std::vector<uint32_t> sources_;
};

}  // namespace

std::shared_ptr<const Graph> decodeGraph(const QJsonObject& json) {
  auto graph = std::make_shared<Graph>();
  Decoder(*graph).run(json);
  return graph;
}

}  // namespace graft
