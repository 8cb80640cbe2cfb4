// Inspector: everything known of what is selected: operator, arguments, types, module, source line, users, weights with
// their statistics.
#pragma once

#include <QJsonObject>
#include <QTextBrowser>
#include <QWidget>

#include "views/document.h"

namespace graft {

/// A histogram with its extent and mean written below.
class HistogramView : public QWidget {
 public:
  explicit HistogramView(QWidget* parent = nullptr);
  void setStatistics(const QString& title, const QJsonObject& weight);
  void clear() { weight_ = {}, hide(); }

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QString title_;
  QJsonObject weight_;
};

class Inspector : public QWidget {
  Q_OBJECT

 public:
  explicit Inspector(Document& document, QWidget* parent = nullptr);
  QString html() const { return text_->toHtml(); }
  QString plain() const { return text_->toPlainText(); }

 Q_SIGNALS:
  void chosen(const QString& key);

 private:
  void refresh();
  QString describeNode(const Graph&, const Node&);
  QString describeModule(const Graph&, const ModuleCall&) const;
  QString describeModel(const Graph&) const;
  void askWeight(const QString& name);

  Document& document_;
  QTextBrowser* text_;
  HistogramView* histogram_;
  QString firstWeight_, askedWeight_;
};

}  // namespace graft
