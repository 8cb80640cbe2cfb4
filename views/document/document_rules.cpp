// The document's rules: checked and matched as one types.
#include <QJsonArray>
#include <QSet>

#include "views/document/document.h"
#include "views/document/document_replies.h"

namespace graft {
namespace {

QHash<QString, QString> stringMap(const QJsonValue& v) {
  QHash<QString, QString> out;
  const QJsonObject o = v.toObject();
  for (auto it = o.begin(); it != o.end(); ++it) out.insert(it.key(), it.value().toString());
  return out;
}

}  // namespace

void Document::setRules(const QString& text, const QString& file, bool now) {
  if (text == text_ && file == file_ && !now) return;
  if (text != text_) diedOfRules_ = 0;
  text_ = text;
  file_ = file;
  ++textRevision_;
  if (now)
    checkRules();
  else
    typing_.start();
}

void Document::readRulesAgain() { setRules(QString(text_), QString(file_), true); }

void Document::setCurrentRule(const QString& name) {
  if (name == current_) return;
  current_ = name;
  Q_EMIT currentRuleChanged();
  const RuleInfo* r = rule(current_);
  if (r && r->matched && r->matches.empty()) explain(current_);
}

void Document::setTicked(const QString& rule, int match, bool ticked) {
  for (RuleInfo& r : rules_)
    if (r.name == rule && match >= 0 && match < static_cast<int>(r.matches.size()))
      r.matches[static_cast<size_t>(match)].ticked = ticked;
}

void Document::checkRules() {
  typing_.stop();
  if (text_.trimmed().isEmpty()) {
    rules_.clear();
    recipes_.clear();
    error_ = {};
    misses_.clear();
    current_.clear();
    Q_EMIT rulesChanged();
    Q_EMIT matchesChanged();
    return;
  }
  if (!engine_.isUp()) return;
  constexpr int enough = 2;
  if (diedOfRules_ >= enough) {
    error_ = {tr("the engine has died %1 times over these rules; change them to try again").arg(diedOfRules_), 0, 0, 0};
    Q_EMIT rulesChanged();
    return;
  }
  const int revision = textRevision_;
  const HeldPatterns held = heldPatterns(rules_);
  const auto check = std::make_shared<RuleCheck>();
  const int asked = document_;
  const HistoryPosition askedAt = history_.at();
  ++checking_;
  engine_.call(QStringLiteral("rules/check"),
               {{QStringLiteral("text"), text_},
                {QStringLiteral("file"), file_},
                {QStringLiteral("held"), QJsonArray::fromStringList(held.keys())}},
               [=, this](const EngineReply& reply) {
                 if (reply.errorCode != EngineReply::lostCode) --checking_;
                 if (revision != textRevision_) return;
                 check->isAnswered = true;
                 if (!reply.ok()) {
                   if (reply.errorCode != EngineReply::lostCode) {
                     error_ = {reply.error, 0, 0, 0};
                     Q_EMIT rulesChanged();
                   }
                   return;
                 }
                 readRules(reply.result, held);
                 if (!error_.any()) checkedRevision_ = revision;
                 Q_EMIT rulesChanged();
                 if (error_.any())
                   Q_EMIT matchesChanged();  // the last good ones are shown greyed
                 else if (asked != document_ || askedAt != history_.at())
                   matchRules(revision);  // another graph has come meanwhile
                 else if (check->matches)
                   takeMatches(*check->matches);
               });
  if (document_) askMatches(revision, check);  // the engine goes on to match while the window reads the rules
}

void Document::readRules(const QJsonObject& result, const HeldPatterns& held) {
  error_ = {};
  if (!at(result, "ok").toBool()) {
    const QJsonObject e = at(result, "error").toObject();
    error_ = {at(e, "message").toString(), at(e, "line").toInt(), at(e, "column").toInt(), at(e, "endColumn").toInt()};
    if (!error_.any()) error_.message = tr("The rules cannot be read");
    for (RuleInfo& r : rules_) r.matched = false;
    return;
  }
  std::vector<RuleInfo> rules;
  for (const QJsonValue v : at(result, "rules").toArray()) {
    const QJsonObject o = v.toObject();
    RuleInfo r;
    r.name = at(o, "name").toString();
    r.description = at(o, "description").toString();
    r.line = at(o, "line").toInt();
    r.finds = at(o, "finds").toBool();
    readPattern(o, held, r);
    // What matched before stays until the new answer is here: nothing flickers.
    if (const RuleInfo* old = rule(r.name)) r.matches = old->matches;
    rules.push_back(std::move(r));
  }
  rules_ = std::move(rules);
  recipes_.clear();
  for (const QJsonValue v : at(result, "recipes").toArray()) {
    const QJsonObject o = v.toObject();
    QStringList steps;
    for (const QJsonValue s : at(o, "steps").toArray()) steps << s.toString();
    recipes_.push_back({at(o, "name").toString(), at(o, "description").toString(), steps});
  }
  if (!rule(current_)) {
    current_ = rules_.empty() ? QString() : rules_.front().name;
    Q_EMIT currentRuleChanged();
  }
}

void Document::matchRules(int revision) {
  if (!document_ || error_.any() || rules_.empty() || checkedRevision_ != textRevision_) return;
  askMatches(revision, std::make_shared<RuleCheck>(RuleCheck{true, {}}));
}

void Document::askMatches(int revision, const std::shared_ptr<RuleCheck>& check) {
  ++checking_;
  const int asked = document_;
  const HistoryPosition askedAt = history_.at();
  engine_.call(QStringLiteral("rules/match"), withRules({}), [=, this](const EngineReply& reply) {
    if (reply.errorCode != EngineReply::lostCode) --checking_, diedOfRules_ = 0;
    if (revision != textRevision_ || asked != document_ || askedAt != history_.at()) return;  // late
    if (check->isAnswered)
      takeMatches(reply);
    else
      check->matches = reply;  // a long answer is parsed on another thread, and a shorter one overtakes it
  });
}

void Document::takeMatches(const EngineReply& reply) {
  if (error_.any()) return;  // it is shown already, and there are no rules to match
  if (!reply.ok()) {
    if (reply.errorCode != EngineReply::lostCode) Q_EMIT failed(tr("The rules were not matched"), reply.error);
    return;
  }
  matchMs_ = at(reply.result, "ms").toDouble();
  for (const QJsonValue v : at(reply.result, "rules").toArray()) {
    const QJsonObject o = v.toObject();
    for (RuleInfo& r : rules_) {
      if (r.name != at(o, "name").toString()) continue;
      r.matched = true;
      QSet<QStringList> unticked;  // what was unticked stays so where it still matches
      for (const MatchInfo& m : r.matches)
        if (!m.ticked) unticked.insert(m.nodes);
      r.matches.clear();
      for (const QJsonValue m : at(o, "at").toArray()) {
        const QJsonObject match = m.toObject();
        QStringList nodes;
        for (const QJsonValue n : at(match, "nodes").toArray()) nodes << n.toString();
        r.matches.push_back(
            {at(match, "scope").toString(), nodes, stringMap(at(match, "map")), !unticked.contains(nodes)});
      }
    }
  }
  misses_.clear();
  missesOf_.clear();
  Q_EMIT matchesChanged();
  const RuleInfo* r = rule(current_);
  if (r && r->matches.empty())
    explain(current_);
  else
    Q_EMIT nearMissesChanged();
}

void Document::explain(const QString& name, const QString& node) {
  if (!document_ || name.isEmpty() || error_.any()) return;
  QJsonObject request = withRules({{QStringLiteral("rule"), name}});
  if (!node.isEmpty()) request.insert(QStringLiteral("at"), node);
  const int revision = textRevision_;
  const HistoryPosition shownAt = history_.at();
  engine_.call(QStringLiteral("rules/explain"), request, [=, this](const EngineReply& reply) {
    if (revision != textRevision_ || shownAt != history_.at() || !reply.ok()) return;
    misses_.clear();
    missesOf_ = name;
    for (const QJsonValue v : at(reply.result, "nearMisses").toArray()) {
      const QJsonObject o = v.toObject();
      NearMissInfo n;
      n.matched = at(o, "matched").toInt();
      n.total = at(o, "total").toInt();
      n.line = at(o, "line").toInt();
      n.at = at(o, "at").toString();
      n.patternNode = at(o, "patternNode").toString();
      n.reason = at(o, "reason").toString();
      n.message = at(o, "message").toString();
      n.suggestion = at(o, "suggestion").toString();
      for (const QJsonValue e : at(o, "edits").toArray()) {
        const QJsonObject edit = e.toObject();
        n.edits.append({at(edit, "begin").toInt(), at(edit, "end").toInt(), at(edit, "line").toInt(),
                        at(edit, "before").toString(), at(edit, "after").toString()});
      }
      n.scope = at(o, "scope").toString();
      n.map = stringMap(at(o, "map"));
      misses_.push_back(std::move(n));
    }
    Q_EMIT nearMissesChanged();
  });
}

}  // namespace graft
