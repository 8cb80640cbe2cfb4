#include "views/document/engine_client.h"

#include <QJsonDocument>
#include <algorithm>
#include <csignal>
#include <utility>

#include "views/document/async.h"
#include "views/document/graph_decode.h"

namespace graft {
namespace {

constexpr size_t parsedInPlace = 256 << 10;
constexpr int mostFailures = 5;
constexpr int spokenVersion = 1;  ///< of the protocol
const QString helloMethod = QStringLiteral("initialize");

}  // namespace

std::optional<QStringList> commandWords(const QString& line) {
  QStringList words;
  QString word;
  bool isWord = false;
  QChar quote;
  for (qsizetype i = 0; i < line.size(); ++i) {
    const QChar c = line[i];
    const bool escapes = c == QLatin1Char('\\') && quote != QLatin1Char('\'') && i + 1 < line.size() &&
                         (quote.isNull() || line[i + 1] == QLatin1Char('"') || line[i + 1] == QLatin1Char('\\'));
    if (escapes) {
      word += line[++i];
      isWord = true;
    } else if (quote.isNull() && (c == QLatin1Char('"') || c == QLatin1Char('\''))) {
      quote = c;
      isWord = true;  // an empty one, too
    } else if (!quote.isNull() && c == quote) {
      quote = QChar();
    } else if (quote.isNull() && c.isSpace()) {
      if (isWord) words << std::exchange(word, QString());
      isWord = false;
    } else {
      word += c;
      isWord = true;
    }
  }
  if (!quote.isNull()) return std::nullopt;
  if (isWord) words << word;
  return words;
}

EngineClient::EngineClient(QStringList command, QObject* parent) : QObject(parent), command_(std::move(command)) {
  restart_.setSingleShot(true);
  connect(&restart_, &QTimer::timeout, this, &EngineClient::launch);
}

EngineClient::~EngineClient() {
  closing_ = true;
  if (!process_) return;
  process_->disconnect(this);
  process_->closeWriteChannel();  // the end of its input ends the engine
  if (!process_->waitForFinished(300)) {
    process_->kill();
    process_->waitForFinished(1000);
  }
}

void EngineClient::start() {
  failures_ = 0;
  if (!process_) launch();
}

void EngineClient::launch() {
  if (process_ || closing_) return;
  frames_ = {};
  errors_.clear();
  ++generation_;
  sinceLaunch_.start();
  process_ = new QProcess(this);
  QProcess* process = process_;
  connect(process, &QProcess::readyReadStandardOutput, this, &EngineClient::read);
  connect(process, &QProcess::readyReadStandardError, this,
          [this, process] { errors_ = (errors_ + process->readAllStandardError()).right(4000); });
  connect(process, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart)
      lose(tr("The engine cannot be started: %1").arg(command_.join(QLatin1Char(' '))));
  });
  connect(process, &QProcess::finished, this, [this, process](int code, QProcess::ExitStatus status) {
    errors_ += process->readAllStandardError();
    const QString last = QString::fromUtf8(errors_).trimmed().section(QLatin1Char('\n'), -1);
    // Of one that crashed the code is the signal.
    const QString why = status != QProcess::CrashExit ? tr("The engine ended with code %1").arg(code)
                        : code == SIGKILL ? tr("The engine was killed, perhaps because its machine ran out of memory")
                        : code == SIGABRT ? tr("The engine aborted")
                                          : tr("The engine crashed");
    lose(last.isEmpty() ? why : why + QStringLiteral(": ") + last);
  });
  process->start(command_.value(0), command_.mid(1));
  call(helloMethod, {}, [this](const EngineReply& reply) {
    if (!reply.ok()) return;
    if (const int version = reply.result.value(QLatin1String("version")).toInt(); version != spokenVersion) {
      failures_ = mostFailures - 1;  // another start would bring the same
      return lose(
          tr("The engine speaks version %1 of the protocol, this window version %2: the same Graft is needed on "
             "both sides")
              .arg(version)
              .arg(spokenVersion));
    }
    hello_ = reply.result;
    failures_ = 0;
    up_ = true;
    Q_EMIT up();
  });
}

void EngineClient::lose(const QString& why) {
  if (closing_) return;
  if (process_) {
    process_->disconnect(this);
    if (process_->state() == QProcess::NotRunning) {
      process_->deleteLater();
    } else {
      connect(process_, &QProcess::finished, process_, &QObject::deleteLater);
      process_->kill();
    }
    process_ = nullptr;
  }
  up_ = false;
  ++generation_;  // what is still being parsed is of no use any more
  if (++failures_ < mostFailures) restart_.start(50 << failures_);
  const auto pending = std::exchange(pending_, {});
  for (auto it = pending.begin(); it != pending.end(); ++it) {
    if (it->done) it->done({{}, nullptr, EngineReply::lostCode, why});
    Q_EMIT finished(it.key());
  }
  Q_EMIT down(why);
  if (!isComing()) Q_EMIT gaveUp(why);
}

int EngineClient::call(const QString& method, const QJsonObject& params, Callback done) {
  const int id = nextId_++;
  Pending& pending = pending_[id];
  pending = {method, std::move(done), {}, nullptr};
  pending.since.start();
  if (!process_) {
    QTimer::singleShot(0, this, [this, id] {
      answer(id, {{}, nullptr, EngineReply::lostCode, tr("The engine is not running")});
    });
    return id;
  }
  send({{QStringLiteral("id"), id}, {QStringLiteral("method"), method}, {QStringLiteral("params"), params}});
  return id;
}

void EngineClient::send(const QJsonObject& message) {
  QJsonObject whole = message;
  whole.insert(QStringLiteral("jsonrpc"), QStringLiteral("2.0"));
  const QByteArray body = QJsonDocument(whole).toJson(QJsonDocument::Compact);
  process_->write("Content-Length: " + QByteArray::number(body.size()) + "\r\n\r\n" + body);
}

int EngineClient::oldestPending() const {
  int oldest = 0;
  for (auto it = pending_.begin(); it != pending_.end(); ++it)
    if (oldest == 0 || it.key() < oldest) oldest = it.key();
  return oldest;
}

void EngineClient::cancel(int id) {
  if (!pending_.contains(id) || !process_) return;
  if (!up_ && pending_[id].method == helloMethod) {  // there is nobody to ask, and another one would do the same
    failures_ = mostFailures - 1;
    return lose(tr("The engine did not answer"));
  }
  send({{QStringLiteral("method"), QStringLiteral("$/cancel")},
        {QStringLiteral("params"), QJsonObject{{QStringLiteral("id"), id}}}});
  if (!up_) return;  // it hears of it once it is there
  const int generation = generation_;
  QTimer::singleShot(patience_, this, [this, id, generation] {
    if (generation == generation_ && pending_.contains(id))
      lose(tr("The engine did not stop when asked to and was ended"));
  });
}

void EngineClient::read() {
  const QByteArray bytes = process_->readAllStandardOutput();
  received_ += bytes.size();
  frames_.feed({bytes.constData(), static_cast<size_t>(bytes.size())});
  while (std::optional<std::string> message = frames_.next()) {
    if (takeGraphPart(*message)) continue;
    const QByteArray body(message->data(), static_cast<qsizetype>(message->size()));
    const int generation = generation_;
    const auto parsed = [this, generation](const QJsonDocument& document) {
      if (generation != generation_) return;
      if (!document.isObject()) return lose(tr("The engine sent something that is no message"));
      handle(document.object());
    };
    if (message->size() > parsedInPlace)
      runAsync(
          this, [body] { return QJsonDocument::fromJson(body); }, parsed);
    else
      parsed(QJsonDocument::fromJson(body));
    if (generation != generation_ || !process_) return;  // a callback may have ended it
  }
  if (!frames_.broken().empty())
    lose(tr("The engine cannot be understood: %1").arg(QString::fromStdString(frames_.broken())));
}

/// Parts of graphs are not parsed here: they go on to a worker as they are.
bool EngineClient::takeGraphPart(std::string& message) {
  const GraphPart part = findGraphPart(message);
  if (part.id == 0) return false;
  const auto it = pending_.find(part.id);
  if (it == pending_.end()) return true;  // nobody waits for it any more
  if (!it->graph) it->graph = std::make_shared<GraphStream>();
  it->graph->add(std::move(message), part.at, part.length);
  return true;
}

void EngineClient::handle(const QJsonObject& message) {
  const QString method = message.value(QLatin1String("method")).toString();
  if (method == QLatin1String("$/progress")) {
    const QJsonObject p = message.value(QLatin1String("params")).toObject();
    Q_EMIT progress(p.value(QLatin1String("id")).toInt(), p.value(QLatin1String("what")).toString(),
                    p.value(QLatin1String("done")).toInteger(), p.value(QLatin1String("total")).toInteger());
    return;
  }
  const QJsonValue id = message.value(QLatin1String("id"));
  if (!id.isDouble() || !method.isEmpty()) return;  // a request: ours, come back from something that is no engine
  const QJsonValue error = message.value(QLatin1String("error"));
  if (error.isObject()) {
    const QJsonObject e = error.toObject();
    const QString text = e.value(QLatin1String("message")).toString();
    answer(id.toInt(),
           {{}, nullptr, e.value(QLatin1String("code")).toInt(2), text.isEmpty() ? tr("The engine failed") : text});
  } else {
    answer(id.toInt(), {message.value(QLatin1String("result")).toObject(), pending_.value(id.toInt()).graph, 0, {}});
  }
}

void EngineClient::answer(int id, const EngineReply& reply) {
  const auto it = pending_.find(id);
  if (it == pending_.end()) return;
  const Callback done = std::move(it->done);
  pending_.erase(it);
  if (done) done(reply);
  Q_EMIT finished(id);
}

}  // namespace graft
