#include "views/window/files/session_file.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QJsonDocument>
#include <QSaveFile>
#include <QStandardPaths>

namespace graft {
namespace {

const QLatin1String ending(".json");

std::unique_ptr<QLockFile> lockFor(const QString& file) {
  auto lock = std::make_unique<QLockFile>(file + QStringLiteral(".lock"));
  lock->setStaleLockTime(0);  // a holder that lives holds it for as long as it likes
  return lock->tryLock(0) ? std::move(lock) : nullptr;
}

QJsonObject read(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return {};
  return QJsonDocument::fromJson(file.readAll()).object();
}

}  // namespace

bool writeWhole(const QString& path, const QByteArray& bytes, QString& why) {
  QSaveFile file(path);
  if (file.open(QIODevice::WriteOnly) && file.write(bytes) == bytes.size() && file.commit()) return true;
  why = file.errorString();
  return false;
}

SessionFile::SessionFile(QString folder) : folder_(std::move(folder)) {
  if (folder_.isEmpty())
    folder_ = QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QStringLiteral("/sessions");
  QDir().mkpath(folder_);
  // The number tells apart windows of one process.
  for (int i = 0; !lock_ && i < 100; ++i) {
    own_ = folder_ + QStringLiteral("/window-%1-%2").arg(QCoreApplication::applicationPid()).arg(i) + ending;
    lock_ = QFile::exists(own_) ? nullptr : lockFor(own_);
  }
}

SessionFile::~SessionFile() = default;

SessionFile::Found SessionFile::takeUp() {
  const QFileInfoList files =
      QDir(folder_).entryInfoList({QStringLiteral("window-*") + ending}, QDir::Files, QDir::Time);
  for (const QFileInfo& f : files) {
    if (f.absoluteFilePath() == QFileInfo(own_).absoluteFilePath()) continue;
    const auto lock = lockFor(f.absoluteFilePath());
    if (!lock) continue;  // its window is alive
    const QJsonObject state = read(f.absoluteFilePath());
    // It becomes ours in one step: killed right now, it is found again.
    QFile::remove(own_);
    if (!state.isEmpty() && QFile::rename(f.absoluteFilePath(), own_)) return {state, true};
    QFile::remove(f.absoluteFilePath());
  }
  return {read(folder_ + QStringLiteral("/last") + ending), false};
}

bool SessionFile::save(const QJsonObject& state, QString& why) {
  const QByteArray bytes = QJsonDocument(state).toJson(QJsonDocument::Compact);
  if (bytes == saved_) return true;
  if (!writeWhole(own_, bytes, why)) return false;
  saved_ = bytes;
  return true;
}

void SessionFile::close(const QJsonObject& state) {
  QString why;  // nobody is left to tell
  writeWhole(folder_ + QStringLiteral("/last") + ending, QJsonDocument(state).toJson(QJsonDocument::Compact), why);
  QFile::remove(own_);
}

}  // namespace graft
