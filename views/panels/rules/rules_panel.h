// RulesPanel: where rules are written. The editor, and below it, behind tabs, what the current rule matches and why it
// does not. Connects the three, completes with what the engine says that rules can call, and takes in rules made
// elsewhere: from a selection, or from the library.
#pragma once

#include <QSplitter>
#include <QTabWidget>

#include "views/panels/panel.h"

namespace graft {

class MatchesPanel;
class RuleEditor;
class WhyNotPanel;

class RulesPanel : public QSplitter {
  Q_OBJECT

 public:
  enum Tab { Matches, WhyNot };

  explicit RulesPanel(PanelContext& context);
  void showTab(Tab tab) { tabs_->setCurrentIndex(tab); }
  /// Once the rules of a file that was just opened are matched: goes to the one that matches most, if the first does
  /// not match.
  void showBest() { wantsBest_ = true; }
  /// Asks, in a dialog of `window`, how the selected nodes become a rule's pattern.
  void makeRuleFromSelection(QWidget* window);

 private:
  void connectParts();
  void askWords();
  void choose(const QString& rule);
  void chooseBest();
  void addRule(const QString& file, const QString& rule);

  PanelContext& context_;
  Document& document_;
  RuleEditor* editor_;
  MatchesPanel* matches_;
  WhyNotPanel* whyNot_;
  QTabWidget* tabs_;
  bool hasWords_ = false, wantsBest_ = false;
};

PanelDescription rulesPanel();

}  // namespace graft
