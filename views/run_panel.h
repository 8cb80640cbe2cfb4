// RunPanel: both models run on the same inputs: one line that says what came of it, the distributions, the differences
// per output. Every figure can be copied with how it was measured.
#pragma once

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QTableWidget>
#include <QWidget>

#include "views/document.h"

namespace graft {

/// Both latencies as dots and a box on one axis in milliseconds.
class LatencyPlot : public QWidget {
 public:
  explicit LatencyPlot(QWidget* parent = nullptr);
  void setRun(const QJsonObject& run, const QJsonObject& baseline);
  QSize sizeHint() const override { return {420, 132}; }

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QJsonObject run_, baseline_;
};

class RunPanel : public QWidget {
  Q_OBJECT

 public:
  explicit RunPanel(Document& document, QWidget* parent = nullptr);
  static QString headline(const QJsonObject& run);
  QString headlineText() const { return headline_->text(); }
  /// The whole result as text, for the clipboard.
  QString report() const;
  void setInputs(const QString& text) { inputs_->setText(text); }
  void setSeconds(double s) { seconds_->setValue(s); }

 public Q_SLOTS:
  void start();

 private:
  void refresh();
  void fillTable(const QJsonObject& run);

  Document& document_;
  QLineEdit* inputs_;
  QComboBox *device_, *dtype_;
  QDoubleSpinBox* seconds_;
  QPushButton *run_, *pin_, *copy_;
  QProgressBar* progress_;
  QLabel *headline_, *protocol_;
  LatencyPlot* plot_;
  QTableWidget* table_;
  QJsonObject baseline_;
};

}  // namespace graft
