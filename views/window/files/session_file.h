// SessionFile: what a killed window would lose, saved every few seconds. The next window takes it up. Each window has a
// file of its own, held by a lock; a file whose holder is dead is taken up by the next window. A window that closes
// leaves its state as "last".
//
//   SessionFile session;
//   SessionFile::Found found = session.takeUp();      // found.state["rules"] …
//   session.save(state);                              // cheap where nothing changed
#pragma once

#include <QJsonObject>
#include <QLockFile>
#include <QString>
#include <memory>

namespace graft {

/// QSaveFile writes beside it and renames: the file is whole or as before.
bool writeWhole(const QString& path, const QByteArray& bytes, QString& why);

class SessionFile {
 public:
  struct Found {
    QJsonObject state;
    bool wasKilled = false;  ///< false: it is what the last window closed with
  };

  /// `folder`: where the files lie; by default in the user's data folder.
  explicit SessionFile(QString folder = {});
  ~SessionFile();

  /// The newest state of a window that did not close; else of the last that did; else nothing.
  Found takeUp();
  /// Writes what changed since the last call. False where it could not be written; `why` says why.
  bool save(const QJsonObject& state, QString& why);
  /// The window closes: nothing has to be recovered.
  void close(const QJsonObject& state);

 private:
  QString folder_, own_;
  std::unique_ptr<QLockFile> lock_;
  QByteArray saved_;
};

}  // namespace graft
