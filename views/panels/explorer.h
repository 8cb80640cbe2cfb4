// Explorer: the module tree, and search with live results above it: by name, operator, module, dtype, shape, or
// /expression/. Below it, numbers of the user's own as a table, where there are any.
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMap>
#include <QStackedWidget>
#include <QTreeWidget>
#include <QWidget>

#include "core/ir/graph.h"
#include "views/panels/panel.h"

namespace graft {

/// Nodes, modules and inputs that hold `text` in name, operator, module path or type (or match /text/), as selection
/// keys with a line for each, which tells the type where that is why; at most `most`. Sizes may be written 12x32;
/// /text/ fits one of name, operator, module or type, or all of them in a line.
constexpr int mostFound = 500;
std::vector<std::pair<QString, QString>> findInGraph(const Graph&, const QString& text, int most = mostFound);
/// Why `text` is no expression; empty where it is one, or is none between slashes.
QString findError(const QString& text);

class Explorer : public QWidget {
  Q_OBJECT

 public:
  explicit Explorer(QWidget* parent = nullptr);
  void setGraph(std::shared_ptr<const Graph> graph);
  void setSelection(const QStringList& keys);
  /// A row for each node that has a number, the largest first. Without numbers there is no table.
  void setNumbers(const QString& title, const QMap<QString, double>& values);
  void refreshTheme();
  QLineEdit* search() { return search_; }
  QTreeWidget* tree() { return tree_; }
  QListWidget* results() { return results_; }
  QTreeWidget* numbers() { return numbersTable_; }

 Q_SIGNALS:
  void chosen(const QString& key);
  void left();  ///< by Esc in the search, which is empty then

 protected:
  bool eventFilter(QObject*, QEvent*) override;

 private:
  void step(int by);
  QString keyOf(const QTreeWidgetItem* item) const;
  void fill(QTreeWidgetItem* parent, ModuleCallId of);
  void find();
  void fillNumbers();
  void markNumber(const QString& key);
  std::shared_ptr<const Graph> graph_;
  std::vector<std::vector<ModuleCallId>> children_;  ///< by module call + 1
  std::vector<size_t> counts_;                       ///< nodes in each module's subtree
  std::vector<char> backward_;                       ///< `backwardModules`
  QLineEdit* search_;
  QAction* find_;
  QStackedWidget* stack_;
  QTreeWidget* tree_;
  QListWidget* results_;
  QString numbersTitle_;
  QMap<QString, double> numbers_;
  QTreeWidget* numbersTable_;
  QLabel* notInTable_;  ///< of the numbers, how many are not there
  bool quiet_ = false;
};

PanelDescription explorerPanel();

}  // namespace graft
