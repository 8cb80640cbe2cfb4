// Two small lists: why a rule did not match, and what has been applied.
#pragma once

#include <QCheckBox>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QWidget>

#include "views/document.h"

namespace graft {

/// Ranked near misses, a sentence each, with ways there and out.
class WhyNotPanel : public QWidget {
  Q_OBJECT

 public:
  explicit WhyNotPanel(Document& document, QWidget* parent = nullptr);
  int rows() const { return list_->count(); }

 Q_SIGNALS:
  void goThere(const NearMissInfo& miss);
  void suggested(const NearMissInfo& miss);

 private:
  void refresh();
  QWidget* row(const NearMissInfo& miss);
  Document& document_;
  QLabel* head_;
  QListWidget* list_;
  QPushButton* ask_;
};

/// The steps from the model as opened to now; a click goes there.
class HistoryPanel : public QWidget {
  Q_OBJECT

 public:
  explicit HistoryPanel(Document& document, QWidget* parent = nullptr);

 private:
  void refresh();
  Document& document_;
  QListWidget* list_;
  QCheckBox* hide_;
  bool filling_ = false;
};

}  // namespace graft
