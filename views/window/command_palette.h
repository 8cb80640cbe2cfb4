// CommandPalette: every action of the window by name, with its shortcut, found by typing parts of words.
#pragma once

#include <QAction>
#include <QFrame>
#include <QLineEdit>
#include <QListWidget>
#include <QPointer>

namespace graft {

/// How well `wanted` fits `text`: letters in order, better at the starts of words; 0 where it does not.
int fuzzyScore(const QString& wanted, const QString& text);

class CommandPalette : public QFrame {
  Q_OBJECT

 public:
  explicit CommandPalette(QWidget* window);
  /// `otherwise`: gets the keyboard afterwards where nothing had it before.
  void open(const QList<QAction*>& actions, QWidget* otherwise);
  QListWidget* list() { return list_; }
  QLineEdit* line() { return line_; }

 protected:
  bool eventFilter(QObject*, QEvent*) override;

 private:
  void fill();
  void run();
  void leave();
  QList<QAction*> actions_;
  QLineEdit* line_;
  QListWidget* list_;
  QPointer<QWidget> before_, otherwise_;  ///< where the keyboard was
};

}  // namespace graft
