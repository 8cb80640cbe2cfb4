// WhyNotPanel: why a rule did not match, as a list of sentences.
#pragma once

#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QWidget>

#include "views/document/document.h"

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
  QWidget* row(const std::vector<NearMissInfo>& places);
  Document& document_;
  QLabel* head_;
  QListWidget* list_;
  QPushButton* ask_;
};

}  // namespace graft
