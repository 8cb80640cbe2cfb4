// MatchesPanel: the rules of the text with how often each matches, the current rule's matches with ticks, and what can
// be done with them: preview, apply, run a recipe.
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QToolButton>
#include <QTreeWidget>
#include <QWidget>

#include "views/document/document.h"

namespace graft {

class RuleList;

class MatchesPanel : public QWidget {
  Q_OBJECT

 public:
  explicit MatchesPanel(Document& document, QWidget* parent = nullptr);
  /// The match last gone to; -1 before the first.
  int current() const { return current_; }

 public Q_SLOTS:
  void next(int step = 1);
  void applyTicked();
  void applyAll();
  void togglePreview();

 Q_SIGNALS:
  void matchChosen(const QStringList& nodes);
  void matchHovered(const QStringList& nodes);
  void whyNotAsked();
  void ruleChosen(const QString& name);

 protected:
  void keyPressEvent(QKeyEvent* e) override;

 private:
  void refresh();
  void refreshApply();
  void tellWhyEmpty(const RuleInfo* rule);
  QList<int> ticked() const;
  /// Why there is no match to go to, or none to apply; empty where there is.
  QString whyNone(bool ofTicked) const;

  Document& document_;
  RuleList* rules_;
  QTreeWidget* list_;
  QLabel* hint_;  ///< stands where the list is empty
  QPushButton *preview_, *apply_;
  QToolButton* recipes_;
  int current_ = -1;
  QString shown_;  ///< the rule whose matches are listed
  bool filling_ = false;
};

}  // namespace graft
