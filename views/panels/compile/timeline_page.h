// TimelinePage: what runs when. Either what was measured, each kernel below the operators that it stands for, or one
// run: what the host does, what its threads and the streams of a GPU do, lanes that add up to the run.
#pragma once

#include <QToolButton>

#include "views/document/compile/compilation.h"
#include "views/document/document.h"
#include "views/panels/run/timeline_plot.h"
#include "views/widgets/fixed_height_label.h"

namespace graft {

class TimelinePage : public QWidget {
  Q_OBJECT

 public:
  explicit TimelinePage(Document& document, QWidget* parent = nullptr);
  TimelinePlot* plot() { return plot_; }
  QToolButton* medians() { return medians_; }
  QToolButton* oneRun() { return oneRun_; }
  QToolButton* again() { return again_; }
  /// How what is shown was measured, or what to do.
  QString sentence() const { return sentence_->fullText(); }

 Q_SIGNALS:
  void chosen(const QString& kernel);
  void nodeChosen(const QString& node);

 private:
  void refresh();
  void showMedians();
  void showRun();

  Document& document_;
  QToolButton *medians_, *oneRun_, *again_;
  FixedHeightLabel* sentence_;
  TimelinePlot* plot_;
};

}  // namespace graft
