// DiffView: the canonical text before and after as a unified difference. A line that is clicked selects its node.
#pragma once

#include <QLabel>
#include <QPlainTextEdit>
#include <QWidget>

#include "views/document/document.h"

namespace graft {

class DiffView : public QWidget {
  Q_OBJECT

 public:
  explicit DiffView(Document& document, QWidget* parent = nullptr);
  QString text() const { return text_->toPlainText(); }
  QString headline() const { return head_->text(); }
  void refreshTheme();

 Q_SIGNALS:
  void chosen(const QString& node);

 protected:
  void showEvent(QShowEvent*) override;

 private:
  void ask();
  void show(const QJsonArray& lines);
  void choose();
  QLabel* head_;
  QPlainTextEdit* text_;
  Document& document_;
  QJsonArray lines_;
  bool isOld_ = true;  ///< what is shown is not what the document is
  bool filling_ = false;
};

}  // namespace graft
