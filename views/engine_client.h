// EngineClient: the window's line to `graft engine`, a child process that speaks JSON-RPC 2.0 over stdio in frames of
// "Content-Length: N". It starts the engine, starts it again when it dies, hangs or speaks nonsense, and calls back on
// the GUI thread. Large answers are parsed on a worker.
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

namespace graft {

struct EngineReply {
  QJsonObject result;
  int errorCode = 0;
  QString error;  ///< empty: it worked
  bool ok() const { return error.isEmpty(); }
  bool cancelled() const { return errorCode == cancelledCode; }
  static constexpr int cancelledCode = -32800, lostCode = -1;
};

/// Cuts a byte stream into message bodies.
class FrameDecoder {
 public:
  void feed(const QByteArray& bytes) { buffer_.append(bytes); }
  /// False when there is no whole message yet, or none will ever come: then `broken` says why.
  bool next(QByteArray& body);
  const QString& broken() const { return broken_; }
  void reset() { buffer_.clear(), broken_.clear(); }

 private:
  QByteArray buffer_;
  QString broken_;
};

class EngineClient : public QObject {
  Q_OBJECT

 public:
  using Callback = std::function<void(const EngineReply&)>;

  explicit EngineClient(QStringList command, QObject* parent = nullptr);
  ~EngineClient() override;

  void start();
  bool isUp() const { return up_; }
  const QJsonObject& hello() const { return hello_; }
  QStringList command() const { return command_; }
  /// The process' id; 0 while there is none.
  qint64 processId() const { return process_ ? process_->processId() : 0; }
  /// Calls back once, always: with the result, an error, or lostCode when the engine went away.
  int call(const QString& method, const QJsonObject& params, Callback done);
  /// Asks the engine to stop that; where it does not answer within three seconds it is killed and started again.
  void cancel(int id);
  bool isPending(int id) const { return pending_.contains(id); }
  /// The method of a pending call.
  QString methodOf(int id) const { return pending_.value(id).method; }

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
  };
  void launch();
  void lose(const QString& why);
  void read();
  void handle(const QJsonObject& message);
  void answer(int id, const EngineReply& reply);

  QStringList command_;
  QPointer<QProcess> process_;
  FrameDecoder frames_;
  QByteArray errors_;  ///< the end of what the engine wrote to stderr
  QHash<int, Pending> pending_;
  QJsonObject hello_;
  QTimer restart_;
  QElapsedTimer sinceLaunch_;
  int nextId_ = 1, failures_ = 0, generation_ = 0;
  bool up_ = false, closing_ = false;
};

}  // namespace graft
