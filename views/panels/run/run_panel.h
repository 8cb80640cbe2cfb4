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
#include <QStackedWidget>
#include <QTabWidget>
#include <QTableWidget>
#include <QToolButton>
#include <QWidget>

#include "views/panels/panel.h"
#include "views/panels/run/plots.h"
#include "views/panels/run/run_inputs.h"
#include "views/panels/run/timeline_plot.h"
#include "views/widgets/fixed_height_label.h"

namespace graft {

class RunPanel : public QWidget {
  Q_OBJECT

 public:
  enum Tab { Outputs, Inside, Operators, Timeline, Sweep };

  explicit RunPanel(Document& document, QWidget* parent = nullptr);
  static QString headline(const QJsonObject& run);
  /// What came of all sizes of a sweep: a size that fails is told before any speed.
  static QString sweepHeadline(const QList<std::pair<QString, QJsonObject>>& runs);
  /// Every check of the run has passed.
  static bool agrees(const QJsonObject& run);
  /// "memory 90.2 MB instead of 102 MB; …": what both take, in words.
  static QString memoryLine(const QJsonObject& run);
  QString headlineText() const { return headline_->fullText(); }
  /// Operators, memory, device, repetitions and inputs of the run that is shown.
  QString protocolText() const { return protocol_->fullText(); }
  /// With its headings, cells between tabs.
  static QString tableText(const QTableWidget& table);
  /// Where inside the numbers first differ, without links.
  QString insideText() const;
  /// Says that the figures are of an earlier run or model; "" where they are of the last run.
  QString noteText() const { return note_->isVisibleTo(this) ? note_->fullText() : QString(); }
  /// What changed against the pinned run; "" where none is pinned.
  QString deltaText() const { return delta_->fullText(); }
  /// The whole result as text, for the clipboard.
  QString report() const;
  /// What a report shows: each plot's title and its picture as SVG on white.
  QList<std::pair<QString, QByteArray>> pictures();
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
  /// The sizes of a sweep and the pinned run, for the next window; the last run is the document's.
  QJsonObject state() const;
  void restore(const QJsonObject& state);

 public Q_SLOTS:
  void start();
  void pin();

 Q_SIGNALS:
  void nodeChosen(const QString& node);

 private:
  using SweepRun = std::pair<QString, QJsonObject>;  ///< label, run
  /// Headings and what each column says.
  QTableWidget* makeTable(const QList<std::pair<QString, QString>>& headers);
  void layOut();
  void next();
  void took();
  void refresh();
  void refreshNote();
  void offerBaselines();
  void fillOutputs(const QJsonObject& run);
  void fillInside(const QJsonObject& run);
  void showFirstDifference();
  void fillOperators(const QJsonObject& run);
  void fillTimeline(const QJsonObject& run);
  void fillSweep();
  void showUlp();
  QString refuse(const QString& error);

  Document& document_;
  QLineEdit* inputs_;
  QToolButton* inputsMenu_;
  QComboBox *device_, *dtype_, *against_;
  QDoubleSpinBox* seconds_;
  QCheckBox* inside_;
  QPushButton *run_, *pin_, *copy_;
  QProgressBar* progress_;
  FixedHeightLabel *headline_, *protocol_, *delta_, *note_;
  QLabel *insideHead_, *hint_;
  QStackedWidget* pages_;  ///< before anything has been measured, and the figures
  LatencyPlot* plot_;
  UlpPlot* ulp_;
  SweepPlot* sweepPlot_;
  TimelinePlot* timeline_;
  QTabWidget* tabs_;
  QTableWidget* tables_[5] = {};
  QJsonObject baseline_;
  std::vector<RunInputs::Set> waiting_;
  QString runningLabel_, doing_;  ///< the size that runs, and what the engine says that it does
  qsizetype sizes_ = 0;           ///< of the sweep that runs or ran
  QList<SweepRun> sweep_;
  QJsonObject settings_;
};

PanelDescription runPanel();

}  // namespace graft
