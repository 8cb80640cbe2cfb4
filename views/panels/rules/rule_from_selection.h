// A pattern written from nodes of a graph, as the rule language spells it: what flows in becomes parameters, what flows
// out is returned, literals stay or become parameters, as one chooses.
//
//   QString text = patternFromNodes(graph, {"matmul", "div", "softmax"}, {"div.other"});   // "class NewRule(Rule): …"
#pragma once

#include <QDialog>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QStringList>
#include <functional>
#include <memory>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// A number, bool, string or list of ints that a node of a selection is given.
struct SelectedLiteral {
  QString key;   ///< "softmax.dim"
  QString text;  ///< "-1"
  QString kind;  ///< as a pattern's parameter is declared: "Number", "float", "bool", "str", "list[int]"
};
std::vector<SelectedLiteral> literalsOf(const Graph&, const QStringList& names);

/// `parameters`: keys of literals that become parameters of the pattern. "" where no name is a node's.
QString patternFromNodes(const Graph&, const QStringList& names, const QStringList& parameters = {});

/// Asks which literals become parameters, with the rule as it will be; `take` gets its text. Stops nobody.
class RuleFromSelection : public QDialog {
 public:
  RuleFromSelection(std::shared_ptr<const Graph> graph, QStringList names, std::function<void(const QString&)> take,
                    QWidget* parent);
  QListWidget* literals() { return list_; }
  QString text() const { return text_->toPlainText(); }

 private:
  void refresh();
  std::shared_ptr<const Graph> graph_;
  QStringList names_;
  QListWidget* list_;
  QPlainTextEdit* text_;
};

}  // namespace graft
