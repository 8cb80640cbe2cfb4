#include "views/document/graph_decode.h"

#include <QJsonDocument>
#include <QThreadPool>
#include <unordered_map>

#include "views/document/async.h"
#include "views/layout/blocks.h"

namespace graft {
namespace {

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

OperatorRef makeOperator(std::string_view name, const std::vector<std::string>& parameters) {
  Operator op = *unknownOperator(std::string(name));
  op.sideEffects = name == "prim.Print" || name == "prim.RaiseException";
  for (const std::string& p : parameters) {
    Parameter q;
    q.name = p;
    q.defaultValue = usualDefault(p);
    op.parameters.push_back(std::move(q));
  }
  return std::make_shared<const Operator>(std::move(op));
}

std::shared_ptr<const Graph> withBlocks(std::shared_ptr<Graph> graph) {
  if (graph) addBlocks(*graph);
  return graph;
}

}  // namespace

std::shared_ptr<const Graph> decodeGraph(const QJsonObject& json) {
  GraphReader reader(makeOperator);
  const QByteArray text = QJsonDocument(json).toJson(QJsonDocument::Compact);
  reader.read({text.constData(), static_cast<size_t>(text.size())});
  return withBlocks(reader.take());
}

GraphStream::GraphStream() : reader_(makeOperator) {}

void GraphStream::add(std::string message, size_t at, size_t length) {
  const std::lock_guard lock(mutex_);
  parts_.push_back({std::move(message), at, length});
  ++count_;
  if (working_) return;
  working_ = true;
  QThreadPool::globalInstance()->start([self = shared_from_this()] { self->work(); });
}

void GraphStream::work() {
  for (;;) {
    Part part;
    {
      const std::lock_guard lock(mutex_);
      if (parts_.empty()) {
        working_ = false;
        idle_.notify_all();
        return;
      }
      part = std::move(parts_.front());
      parts_.pop_front();
    }
    if (reader_.why().empty()) reader_.read(std::string_view(part.message).substr(part.at, part.length));
  }
}

void GraphStream::finish(QObject* receiver, int parts, std::function<void(const Decoded&)> done) {
  runAsync(
      receiver,
      [self = shared_from_this(), parts] {
        // Whoever works runs already, on a thread of its own: waiting for it keeps nobody from running.
        std::unique_lock lock(self->mutex_);
        self->idle_.wait(lock, [&] { return !self->working_; });
        if (!self->reader_.why().empty())
          return Decoded{nullptr, QObject::tr("its graph cannot be read: %1").arg(toQt(self->reader_.why()))};
        if (self->count_ != parts)
          return Decoded{nullptr, QObject::tr("%1 of the %2 parts of its graph came").arg(self->count_).arg(parts)};
        return Decoded{withBlocks(self->reader_.take()), {}};
      },
      std::move(done));
}

GraphPart findGraphPart(std::string_view message) {
  constexpr size_t front = 100;
  if (message.substr(0, front).find("\"$/graph\"") == std::string_view::npos) return {};
  GraphPart out;
  std::string_view graph;
  JsonReader r(message);
  r.object([&](std::string_view key) {
    if (key != "params") return;
    r.object([&](std::string_view field) {
      if (field == "id")
        out.id = static_cast<int>(r.integer());
      else if (field == "graph")
        graph = r.raw();
    });
  });
  if (r.failed() || graph.empty()) return {};
  out.at = static_cast<size_t>(graph.data() - message.data());
  out.length = graph.size();
  return out;
}

}  // namespace graft
