#include "views/engine_client.h"

#include <QJsonDocument>
#include <QThreadPool>
#include <utility>

namespace graft {
namespace {

constexpr qsizetype largestMessage = qsizetype{512} << 20;
constexpr qsizetype parsedInPlace = 256 << 10;
constexpr int mostFailures = 5;

}  // namespace

bool FrameDecoder::next(QByteArray& body) {
  if (!broken_.isEmpty()) return false;
  const qsizetype end = buffer_.indexOf("\r\n\r\n");
  if (end < 0) {
    // A header is short: a stream that has none in its first bytes is no engine's.
    if (buffer_.size() > 4096) broken_ = QStringLiteral("it does not speak the engine's protocol");
    return false;
  }
  qsizetype length = -1;
  for (const QByteArray& line : buffer_.left(end).split('\n')) {
    const QByteArray header = line.trimmed();
    const qsizetype colon = header.indexOf(':');
    if (colon < 0) {
      broken_ = QStringLiteral("a message without a header");
      return false;
    }
    bool isNumber = true;
    if (header.left(colon).compare("content-length", Qt::CaseInsensitive) == 0)
      length = header.mid(colon + 1).trimmed().toLongLong(&isNumber);
    if (!isNumber) length = -1;
  }
  if (length < 0 || length > largestMessage) {
    broken_ = QStringLiteral("a message without a valid length");
    return false;
  }
  if (buffer_.size() < end + 4 + length) return false;
  body = buffer_.mid(end + 4, length);
  buffer_.remove(0, end + 4 + length);
  return true;
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
  frames_.reset();
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
    QString why =
        status == QProcess::CrashExit ? tr("The engine crashed") : tr("The engine ended with code %1").arg(code);
    lose(last.isEmpty() ? why : why + QStringLiteral(": ") + last);
  });
  process->start(command_.value(0), command_.mid(1));
  call(QStringLiteral("initialize"), {}, [this](const EngineReply& reply) {
    if (!reply.ok()) return;
    hello_ = reply.result;
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
  failures_ = sinceLaunch_.elapsed() < 3000 ? failures_ + 1 : 1;
  const auto pending = std::exchange(pending_, {});
  for (auto it = pending.begin(); it != pending.end(); ++it) {
    if (it->done) it->done({{}, EngineReply::lostCode, why});
    Q_EMIT finished(it.key());
  }
  Q_EMIT down(why);
  if (failures_ >= mostFailures)
    Q_EMIT gaveUp(why);
  else
    restart_.start(50 << failures_);
}

int EngineClient::call(const QString& method, const QJsonObject& params, Callback done) {
  const int id = nextId_++;
  pending_.insert(id, {method, std::move(done)});
  if (!process_) {
    QTimer::singleShot(0, this, [this, id] {
      answer(id, {{}, EngineReply::lostCode, tr("The engine is not running")});
    });
    return id;
  }
  const QJsonObject message{{QStringLiteral("jsonrpc"), QStringLiteral("2.0")},
                            {QStringLiteral("id"), id},
                            {QStringLiteral("method"), method},
                            {QStringLiteral("params"), params}};
  const QByteArray body = QJsonDocument(message).toJson(QJsonDocument::Compact);
  process_->write("Content-Length: " + QByteArray::number(body.size()) + "\r\n\r\n" + body);
  return id;
}

void EngineClient::cancel(int id) {
  if (!pending_.contains(id) || !process_) return;
  const QJsonObject message{{QStringLiteral("jsonrpc"), QStringLiteral("2.0")},
                            {QStringLiteral("method"), QStringLiteral("$/cancel")},
                            {QStringLiteral("params"), QJsonObject{{QStringLiteral("id"), id}}}};
  const QByteArray body = QJsonDocument(message).toJson(QJsonDocument::Compact);
  process_->write("Content-Length: " + QByteArray::number(body.size()) + "\r\n\r\n" + body);
  const int generation = generation_;
  QTimer::singleShot(3000, this, [this, id, generation] {
    if (generation == generation_ && pending_.contains(id))
      lose(tr("The engine did not stop when asked to and was ended"));
  });
}

void EngineClient::read() {
  frames_.feed(process_->readAllStandardOutput());
  QByteArray body;
  while (frames_.next(body)) {
    if (body.size() <= parsedInPlace) {
      const QJsonDocument document = QJsonDocument::fromJson(body);
      if (!document.isObject()) return lose(tr("The engine sent something that is no message"));
      const QPointer<QProcess> before = process_;
      handle(document.object());
      if (process_ != before) return;  // a callback may have ended it
      continue;
    }
    const int generation = generation_;
    QThreadPool::globalInstance()->start([this, body, generation, self = QPointer<EngineClient>(this)] {
      const QJsonDocument document = QJsonDocument::fromJson(body);
      if (!self) return;
      QMetaObject::invokeMethod(
          self,
          [this, document, generation] {
            if (generation == generation_) handle(document.object());
          },
          Qt::QueuedConnection);
    });
  }
  if (!frames_.broken().isEmpty()) lose(tr("The engine cannot be understood: %1").arg(frames_.broken()));
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
  if (!id.isDouble()) return;
  const QJsonValue error = message.value(QLatin1String("error"));
  if (error.isObject()) {
    const QJsonObject e = error.toObject();
    const QString text = e.value(QLatin1String("message")).toString();
    answer(id.toInt(), {{}, e.value(QLatin1String("code")).toInt(2), text.isEmpty() ? tr("The engine failed") : text});
  } else {
    answer(id.toInt(), {message.value(QLatin1String("result")).toObject(), 0, {}});
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
