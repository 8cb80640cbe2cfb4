// Patterns of rules as the engine sends them. It leaves out those that the window holds already: each key in the editor
// changes one rule of many.
//
//   const HeldPatterns held = heldPatterns(document.rules());   // their fingerprints go with the request
//   readPattern(ruleOfTheAnswer, held, rule);                   // taken from `held`, or decoded
#pragma once

#include <QHash>
#include <QJsonObject>
#include <QString>
#include <vector>

#include "views/document/document_info.h"

namespace graft {

/// Of one rule, what its fingerprint stands for, and the rule's line when it was sent.
struct HeldPattern {
  GraphRef graph;
  QHash<QString, TextRange> lines;
  QStringList order;
  int line = 0;
};
using HeldPatterns = QHash<QString, HeldPattern>;  ///< by the engine's fingerprint

HeldPatterns heldPatterns(const std::vector<RuleInfo>&);

/// Fills in the rule's pattern and the places of its nodes. `rule.line` must be known: lines of a held pattern move as
/// far as the rule has. A pattern that has not changed stays the graph that it is, and so need not be drawn again.
void readPattern(const QJsonObject& answer, const HeldPatterns& held, RuleInfo& rule);

}  // namespace graft
