// EngineClient: the window's line to `graft engine`, a child process that speaks JSON-RPC 2.0 over stdio in frames of
// "Content-Length: N". It starts the engine, starts it again when it dies, hangs or speaks nonsense, and calls back on
// the GUI thread. Large answers are parsed, and graphs in parts decoded, on a worker.
//
//   EngineClient engine({"/usr/bin/graft", "engine"});
//   engine.start();
//   engine.call("model/open", {{"path", "bert.pt"}}, [](const EngineReply& r) { if (r.ok()) use(r.result); });
#pragma once

#include <QByteArray>
#include <QElapsedTimer>
#include <QHash>
#include <QJsonObject>
#include <QObject>
#include <QPointer>
#include <QProcess>
#include <QStringList>
#include <QTimer>
#include <functional>
#include <memory>
#include <optional>

#include "core/base/framing.h"

namespace graft {

class GraphStream;

/// The words of a command line as a shell splits them: between quotes of both kinds, behind backslashes. Nothing where
/// a quote is not closed.
std::optional<QStringList> commandWords(const QString& line);

struct EngineReply {
  QJsonObject result;
  std::shared_ptr<GraphStream> graph;  ///< what came of a graph in parts; null where none came
  int errorCode = 0;
  QString error;  ///< empty: it worked
  bool ok() const { return error.isEmpty(); }
  bool cancelled() const { return errorCode == cancelledCode; }
  static constexpr int cancelledCode = -32800, lostCode = -1;
};

class EngineClient : public QObject {
  Q_OBJECT

 public:
  using Callback = std::function<void(const EngineReply&)>;

  explicit EngineClient(QStringList command, QObject* parent = nullptr);
  ~EngineClient() override;

  void start();
  bool isUp() const { return up_; }
  /// Up, or being started: it has not been given up.
  bool isComing() const { return process_ || restart_.isActive(); }
  const QJsonObject& hello() const { return hello_; }
  QStringList command() const { return command_; }
  /// From now on every new engine is started with these words, too.
  void addWords(const QStringList& words) { command_ += words; }
  /// The process' id; 0 while there is none.
  qint64 processId() const { return process_ ? process_->processId() : 0; }
  /// Calls back once, always: with the result, an error, or lostCode when the engine went away.
  int call(const QString& method, const QJsonObject& params, Callback done);
  /// Asks the engine to stop that call. An engine that does not answer soon is killed and started again; one that is
  /// coming up is asked once it is there. To cancel "initialize" is to give it up at once.
  void cancel(int id);
  /// How long `cancel` waits for an answer; three seconds by default.
  void setPatience(int milliseconds) { patience_ = milliseconds; }
  /// How long a new engine may take to say hello before the window warns; ten seconds by default. The window goes on
  /// waiting: a line to another machine may be slow.
  void setStartPatience(int milliseconds) { startPatience_ = milliseconds; }
  int startPatience() const { return startPatience_; }
  bool isPending(int id) const { return pending_.contains(id); }
  /// The method of a pending call.
  QString methodOf(int id) const { return pending_.value(id).method; }
  /// The call that the engine has been at for longest, 0 for none: it works on one at a time, in order.
  int oldestPending() const;
  /// Milliseconds since a pending call was sent.
  qint64 waitedFor(int id) const { return pending_.contains(id) ? pending_[id].since.elapsed() : 0; }
  /// Bytes read from the engine since it was made, all its processes together.
  qint64 bytesReceived() const { return received_; }

 Q_SIGNALS:
  void up();                        ///< ready for calls; after a crash: replay now
  void down(const QString& why);    ///< all pending calls have been answered with lostCode
  void gaveUp(const QString& why);  ///< it failed too often in a row; `start` tries again
  void progress(int id, const QString& what, qint64 done, qint64 total);
  void finished(int id);

 private:
  struct Pending {
    QString method;
    Callback done;
    QElapsedTimer since;
    std::shared_ptr<GraphStream> graph;
  };
  void launch();
  void lose(const QString& why);
  void read();
  bool takeGraphPart(std::string& message);
  void send(const QJsonObject& message);
  void handle(const QJsonObject& message);
  void answer(int id, const EngineReply& reply);

  QStringList command_;
  QPointer<QProcess> process_;
  FrameReader frames_;
  QByteArray errors_;  ///< the end of what the engine wrote to stderr
  QHash<int, Pending> pending_;
  QJsonObject hello_;
  QTimer restart_;
  QElapsedTimer sinceLaunch_;
  qint64 received_ = 0;
  int nextId_ = 1, failures_ = 0, generation_ = 0;
  int patience_ = 3000, startPatience_ = 10000;
  bool up_ = false, closing_ = false;
};

}  // namespace graft
