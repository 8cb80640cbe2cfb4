// SideBySideList: several models side by side: states of the open model and other files, each with what the last run of
// all together measured of it. The first is what the others are compared with. Files are opened in the engine when they
// are added, and again in an engine that replaces it.
//
//   SideBySideList list(document, engine);  list.addStep(0, -1);  list.addFile("fast.pt");  list.run(2.0);
//   connect(&list, &SideBySideList::changed, …);   // list.entries()[1].medianMs
#pragma once

#include <QDateTime>
#include <QJsonObject>
#include <QObject>
#include <QString>
#include <vector>

#include "core/base/numbers/ratio_range.h"
#include "views/document/document.h"

namespace graft {

struct SideBySideEntry {
  QString name;                 ///< "2 Attention", "fast.pt"
  int step = -1, subStep = -1;  ///< of the open model; step -1: a file
  QString path, method;         ///< of a file
  int document = 0;             ///< the engine's number of a file's; 0: it has it not yet
  GraphRef graph;               ///< null while it is being read
  QString obstacle;             ///< why it could not be read, run or compared
  int nodes = 0;
  // Of the last run
  bool wasRun = false, passed = true;
  int operators = 0;                                                 ///< that compute something in a run
  double medianMs = 0, p10Ms = 0, p90Ms = 0, ratio = 1, maxAbs = 0;  ///< maxAbs: NaN where shapes differ
  RatioRange range;                                                  ///< of `ratio`
  QString why;                                                       ///< where it differs
};

class SideBySideList : public QObject {
  Q_OBJECT

 public:
  SideBySideList(Document& document, EngineClient& engine, QObject* parent = nullptr);
  const std::vector<SideBySideEntry>& entries() const { return entries_; }
  bool isRunning() const { return running_ != 0; }
  /// All files are read, and there are at least two entries.
  bool canRun() const;
  /// How the last run timed, in words.
  QString protocol() const { return protocol_; }
  QString error() const { return error_; }

  void addStep(int step, int subStep = -1);
  void addFile(const QString& path, const QString& method = {});
  void remove(int entry);
  /// That entry becomes the one that the others are compared with.
  void makeFirst(int entry);
  void run(double seconds);
  void stop();
  /// What is listed, and what was measured of it, for the next window.
  QJsonObject state() const;
  void restore(const QJsonObject& state);

 Q_SIGNALS:
  void changed();
  void failed(const QString& what, const QString& why);

 private:
  void forgetRun();
  void openFile(const QString& path, const QString& method, bool withGraph);
  void take(const QJsonObject& result);

  Document& document_;
  EngineClient& engine_;
  std::vector<SideBySideEntry> entries_;
  QString protocol_, error_;
  QJsonObject result_;  ///< the engine's, of the last run; empty where nothing was measured
  QDateTime at_;        ///< when
  int running_ = 0, generation_ = 0;
};

}  // namespace graft
