// RunPanel: both models run on the same inputs: one line that says what came of it, the distributions, and behind tabs
// the differences of each output, of the values inside, the operators, the nodes in time, and the shapes of a sweep.
// Every figure can be copied with how it was measured.
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QTabWidget>
#include <QTableWidget>
#include <QToolButton>
#include <QWidget>

#include "views/document.h"
#include "views/plots.h"
#include "views/run_inputs.h"

namespace graft {

class RunPanel : public QWidget {
  Q_OBJECT

 public:
  enum Tab { Outputs, Inside, Operators, Timeline, Sweep };

  explicit RunPanel(Document& document, QWidget* parent = nullptr);
  static QString headline(const QJsonObject& run);
  /// "memory 90.2 MB instead of 102 MB; …": what both take, in words.
  static QString memoryLine(const QJsonObject& run);
  QString headlineText() const { return headline_->text(); }
  /// What changed against the pinned run; "" where none is pinned.
  QString deltaText() const { return delta_->text(); }
  /// The whole result as text, for the clipboard.
  QString report() const;
  void setInputs(const QString& text);
  QString inputsText() const { return inputs_->text(); }
  void setSeconds(double s) { seconds_->setValue(s); }
  /// Takes "torchscript" (as PyTorch runs the file) or "graft" (by Graft's own executor) as what is measured against.
  void setAgainst(const QString& how);
  QString against() const { return against_->currentData().toString(); }
  /// False, and nothing changed, where the engine has no such device or there is no such dtype; "" is "as is".
  bool setDevice(const QString& device, const QString& dtype = {});
  /// From the engine's hello: [{"name", "description"}].
  void setDevices(const QJsonArray& devices);
  QTableWidget* table(Tab tab) { return tables_[tab]; }
  TimelinePlot* timeline() { return timeline_; }
  LatencyPlot* latency() { return plot_; }
  void showTab(Tab tab) { tabs_->setCurrentIndex(tab); }

 public Q_SLOTS:
  void start();
  void pin();

 Q_SIGNALS:
  void nodeChosen(const QString& node);

 private:
  struct SweepRun {
    QString label;
    QJsonObject run;
  };
  QTableWidget* makeTable(const QStringList& headers);
  void layOut();
  void next();
  void took();
  void refresh();
  void offerBaselines();
  void fillOutputs(const QJsonObject& run);
  void fillInside(const QJsonObject& run);
  void fillOperators(const QJsonObject& run);
  void fillTimeline(const QJsonObject& run);
  void fillSweep();
  void showUlp();
  QString say(const QString& error);

  Document& document_;
  QLineEdit* inputs_;
  QToolButton* inputsMenu_;
  QComboBox *device_, *dtype_, *against_;
  QDoubleSpinBox* seconds_;
  QCheckBox* inside_;
  QPushButton *run_, *pin_, *copy_;
  QProgressBar* progress_;
  QLabel *headline_, *protocol_, *delta_, *insideHead_, *hint_;
  LatencyPlot* plot_;
  UlpPlot* ulp_;
  SweepPlot* sweepPlot_;
  TimelinePlot* timeline_;
  QTabWidget* tabs_;
  QTableWidget* tables_[5] = {};
  QJsonObject baseline_;
  std::vector<RunInputs::Set> waiting_;
  QString runningLabel_;
  std::vector<SweepRun> sweep_;
  QJsonObject settings_;
};

}  // namespace graft
