// Inspector: everything known of what is selected: operator with its schema and what it does, arguments, types, module,
// the Python it comes from, users, weights with their statistics.
#pragma once

#include <QJsonObject>
#include <QTextBrowser>
#include <QWidget>

#include "views/panels/panel.h"

namespace graft {

/// A histogram with its extent, mean and first values written below.
class HistogramView : public QWidget {
 public:
  explicit HistogramView(QWidget* parent = nullptr);
  void setStatistics(const QString& title, const QJsonObject& weight);
  void clear() { weight_ = {}, hide(); }
  const QJsonObject& statistics() const { return weight_; }

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QString title_;
  QJsonObject weight_;
};

class SourceView;

class Inspector : public QWidget {
  Q_OBJECT

 public:
  explicit Inspector(Document& document, QWidget* parent = nullptr);
  QString html() const { return text_->toHtml(); }
  QString plain() const { return text_->toPlainText(); }
  /// The Python of the selected node is shown below, and follows the selection.
  void showSource(bool on);
  SourceView* source() { return source_; }
  const QJsonObject& weight() const { return histogram_->statistics(); }
  void refreshTheme();

 Q_SIGNALS:
  void chosen(const QString& key);

 private:
  void refresh();
  QString replacementOf(const QString& node) const;
  void setHtml(const QString& html);
  void askOperator(const QString& node);
  void askSource();
  QString describeNode(const Graph&, const Node&);
  QString operatorHtml(const Node&) const;
  QString describeModule(const Graph&, const ModuleCall&) const;
  QString describeModel(const Graph&) const;
  void askWeight(const QString& name);

  Document& document_;
  QTextBrowser* text_;
  HistogramView* histogram_;
  SourceView* source_;
  QString firstWeight_, askedWeight_, askedNode_;
  QJsonObject operator_;  ///< what the engine says of `askedNode_`'s operator
};

PanelDescription inspectorPanel();

}  // namespace graft
