// Graphs as the engine sends them (see core/json/graph_json.h for the form) become values of the window.
//
//   std::shared_ptr<const Graph> g = decodeGraph(rule["pattern"].toObject());
//
// Those of whole models come in parts, while the engine still writes them: each is decoded on a worker as it arrives.
//
//   auto stream = std::make_shared<GraphStream>();
//   stream->add(messageBody, at, length);                                       // the GUI thread
//   stream->finish(this, parts, [this](const GraphStream::Decoded& d) { … });    // called there, once all is decoded
#pragma once

#include <QByteArray>
#include <QJsonObject>
#include <QString>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "core/json/graph_reader.h"

namespace graft {

/// Never fails: what is not understood is left out. Names are those of the engine. May run on any thread.
std::shared_ptr<const Graph> decodeGraph(const QJsonObject&);

class GraphStream : public std::enable_shared_from_this<GraphStream> {
 public:
  struct Decoded {
    std::shared_ptr<const Graph> graph;  ///< null: see why
    QString why;
  };

  GraphStream();
  /// The part is the `length` bytes of `message` from `at` on.
  void add(std::string message, size_t at, size_t length);
  /// Calls back on the receiver's thread when all that was added is decoded; `parts` is how many there should have
  /// been.
  void finish(QObject* receiver, int parts, std::function<void(const Decoded&)> done);

 private:
  struct Part {
    std::string message;
    size_t at, length;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Part> parts_;
  int count_ = 0;
  bool working_ = false;
  GraphReader reader_;  ///< of the worker alone
};

/// The part of a graph that a message of the engine is: {"method": "$/graph", "params": {"id", "part", "graph"}}.
struct GraphPart {
  int id = 0;  ///< of the request; 0: the message is something else
  size_t at = 0, length = 0;
};
/// `method` must stand among the first bytes, so that no other message is read for this.
GraphPart findGraphPart(std::string_view message);

inline QString toQt(std::string_view s) { return QString::fromUtf8(s.data(), static_cast<qsizetype>(s.size())); }

}  // namespace graft
