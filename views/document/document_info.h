// What a document holds, as plain values: rules and what they match, near misses, the steps applied.
#pragma once

#include <QFileInfo>
#include <QHash>
#include <QJsonArray>
#include <QJsonObject>
#include <QStringList>
#include <memory>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// "1 match", "12 matches".
inline QString counted(qint64 n, const QString& one, const QString& many) {
  return QString::number(n) + QLatin1Char(' ') + (n == 1 ? one : many);
}

/// The absolute path of a file on this machine. Any other path stays as it is: it may be one of the engine's machine.
inline QString placeOf(const QString& path) {
  return QFileInfo::exists(path) ? QFileInfo(path).absoluteFilePath() : path;
}

/// How many steps a document's state has (Document::state).
inline qsizetype stepsOf(const QJsonObject& state) { return state.value(QLatin1String("steps")).toArray().size(); }

using GraphRef = std::shared_ptr<const Graph>;

struct MatchInfo {
  QString scope;
  QStringList nodes;
  QHash<QString, QString> map;  ///< pattern node → node
  bool ticked = true;           ///< to be rewritten by "apply ticked"
};

struct TextRange {
  int line = 0, column = 0, endColumn = 0;  ///< from 1
};

struct RuleInfo {
  QString name, description;
  int line = 0;
  bool finds = false;  ///< has no replacement
  GraphRef pattern;
  QString fingerprint;              ///< the engine's, of the pattern and its places in the text
  QHash<QString, TextRange> lines;  ///< pattern node → where it is written
  QStringList patternOrder;         ///< pattern nodes in order: their number is their colour
  std::vector<MatchInfo> matches;
  bool matched = false;  ///< `matches` belong to the text as it is
};

struct RecipeInfo {
  QString name, description;
  QStringList steps;
};

struct RuleError {
  QString message;
  int line = 0, column = 0, endColumn = 0;
  bool any() const { return !message.isEmpty(); }
};

/// An edit of the rules' text: `before`, at these bytes of it in UTF-8, becomes `after`.
struct RuleEdit {
  int begin = 0, end = 0, line = 0;
  QString before, after;
};

struct NearMissInfo {
  int matched = 0, total = 0, line = 0;
  QString at, patternNode, reason, message, suggestion, scope;
  QList<RuleEdit> edits;  ///< after which the rule matches there; empty where none is known
  QHash<QString, QString> map;
};

struct RecordInfo {
  QString rule, scope;
  QStringList removed, added;
};

/// A rewrite that computed something else and was taken back.
struct RolledBackInfo {
  QString node;       ///< whose result differs; empty where that is not known
  QString why;        ///< "on random values, `add` differs: …"
  QString text;       ///< where, why and on which inputs, in one sentence
  double maxAbs = 0;  ///< 0: it is not the numbers
};

/// What one step of a recipe did.
struct SubStepInfo {
  QString name;
  bool isRule = false;  ///< else a pass
  double milliseconds = 0;
  std::vector<RecordInfo> records;
  QStringList refused;
  QList<RolledBackInfo> rolledBack;
  /// Places where it was tried: rewrites that stayed, were refused or taken back.
  int matches() const {
    return static_cast<int>(records.size()) + static_cast<int>(refused.size() + rolledBack.size());
  }
};

/// A snapshot and what led to it; step 0 is the model as opened.
struct StepInfo {
  QString label;
  GraphRef graph;
  std::vector<RecordInfo> records;
  QStringList refused;
  QList<RolledBackInfo> rolledBack;
  QString verification;  ///< "all verified", "3 not verified: …"; empty where nothing was rewritten
  QString method = QStringLiteral("rules/apply");  ///< of the engine that made it
  QString gain;                       ///< of an optimization: "1.42 times as fast as the original (frozen TorchScript)"
  QJsonObject request;                ///< what to ask a new engine for
  double milliseconds = 0;            ///< to search, rewrite and verify, when it was first applied
  std::vector<SubStepInfo> subSteps;  ///< of a recipe: its steps in order
  bool isOther = false;               ///< done again by this window, it gave another graph than in the one before
  /// Some of its rewrites were not run beside what they replace. Older sessions say "not proven".
  bool isUnverified() const {
    return verification.contains(QLatin1String("not verified")) || verification.contains(QLatin1String("not proven"));
  }
};

}  // namespace graft
