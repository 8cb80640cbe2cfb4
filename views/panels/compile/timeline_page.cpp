#include "views/panels/compile/timeline_page.h"

#include <QButtonGroup>
#include <QHBoxLayout>
#include <QVBoxLayout>

#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"

namespace graft {
namespace {

/// "812 µs", "3.4 ms".
QString length(double us) {
  return us >= 5000 ? QStringLiteral("%1 ms").arg(threeDigits(us / 1000)) : QStringLiteral("%1 µs").arg(us, 0, 'f', 0);
}

QString laneName(const RunTimeline::Lane& lane) {
  const QString number = lane.name.section(QLatin1Char(' '), 1);
  if (lane.kind == QLatin1String("host")) return TimelinePage::tr("host");
  if (lane.kind == QLatin1String("launches")) return TimelinePage::tr("launches");
  if (lane.kind == QLatin1String("thread")) return TimelinePage::tr("thread %1").arg(number);
  return TimelinePage::tr("stream %1").arg(number);
}

}  // namespace

TimelinePage::TimelinePage(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  const auto button = [this](const QString& text, const QString& tip) {
    auto* b = new QToolButton(this);
    b->setText(text);
    b->setToolTip(tip);
    return b;
  };
  medians_ = button(tr("Medians"), tr("Each kernel below the operators that it stands for, in medians of many runs"));
  oneRun_ = button(tr("One run"), tr("What the host does in one run with the kernels, what its other threads compute, "
                                     "and what each stream of a GPU runs"));
  again_ = button(tr("Record again"), tr("Runs the model with its kernels once more"));
  auto* ways = new QButtonGroup(this);
  for (QToolButton* b : {medians_, oneRun_}) {
    b->setCheckable(true);
    ways->addButton(b);
  }
  medians_->setChecked(true);
  sentence_ = new FixedHeightLabel(1, this);
  plot_ = new TimelinePlot;
  plot_->setNames(tr("as it is"), tr("kernels"));
  auto* across = new QHBoxLayout;
  across->setContentsMargins(0, 4, 0, 0);
  across->setSpacing(4);
  across->addWidget(medians_);
  across->addWidget(oneRun_);
  across->addSpacing(6);
  across->addWidget(sentence_, 1);
  across->addWidget(again_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(2);
  column->addLayout(across);
  column->addWidget(plot_, 1);
  connect(ways, &QButtonGroup::idClicked, this, [this] {
    Compilation& compilation = document_.compilation();
    if (oneRun_->isChecked() && compilation.timeline().isEmpty()) compilation.recordRun();
    refresh();
  });
  connect(again_, &QToolButton::clicked, this, [this] { document_.compilation().recordRun(); });
  connect(plot_, &TimelinePlot::chosen, this, [this](const QString& name) {
    const CompilePlan& plan = document_.compilation().plan();
    if (!oneRun_->isChecked()) return Q_EMIT chosen(name);
    // A kernel that the recorded run had in place is no node of the graph: the plan knows what it stands for.
    if (document_.graph() && document_.graph()->findNode(name.toStdString())) return Q_EMIT nodeChosen(name);
    if (const KernelInfo* k = plan.find(name)) Q_EMIT chosen(k->name);
  });
  connect(&document_.compilation(), &Compilation::changed, this, &TimelinePage::refresh);
  refresh();
}

void TimelinePage::refresh() {
  again_->setVisible(oneRun_->isChecked() && !document_.compilation().timeline().isEmpty());
  again_->setEnabled(!document_.compilation().isRecording());
  if (oneRun_->isChecked())
    showRun();
  else
    showMedians();
}

void TimelinePage::showMedians() {
  const Compilation& compilation = document_.compilation();
  const CompilePlan& plan = compilation.plan();
  TimelinePlot::Lane before{tr("as it is"), {}, {}}, after{tr("kernels"), {}, {}};
  double at[2] = {0, 0};
  for (const KernelInfo& k : plan.kernels) {
    if (!compilation.isKnown() || std::isnan(k.measured)) continue;
    const QString label = k.label + QLatin1Char(' ') + k.modules.value(0);
    const BoxKind kind = k.op.isEmpty() ? BoxKind::Module : kindOfOperator(k.op.toStdString());
    const double apart = std::isnan(k.operators) ? k.measured : k.operators;
    before.spans.push_back({k.name, label, kind, at[0], apart});
    after.spans.push_back({k.name, label, kind, at[1], k.measured});
    at[0] += apart;
    at[1] += k.measured;
  }
  const bool isKnown = !after.spans.empty();
  sentence_->showText(
      isKnown && plan.isMeasured() ? tr("Medians of kernels, one after the other. A whole run takes %1 (Time, above).")
                                         .arg(length(plan.kernelsUs))
      : isKnown && plan.unmeasuredCount() > 0
          ? tr("Medians of kernels, one after the other, without %1 not measured since the plan changed")
                .arg(counted(plan.unmeasuredCount(), tr("kernel"), tr("kernels")))
      : isKnown                   ? tr("Medians of kernels, one after the other")
      : compilation.isMeasuring() ? tr("Running the model as it is and with its kernels…")
                                  : tr("Measure, above, fills it"));
  if (isKnown) {
    before.total = length(at[0]);
    after.total = length(at[1]);
  }
  plot_->setLanes({std::move(before), std::move(after)});
}

void TimelinePage::showRun() {
  const Compilation& compilation = document_.compilation();
  const RunTimeline& run = compilation.timeline();
  if (run.isEmpty()) {
    sentence_->showText(compilation.isRecording() ? tr("Running the model with its kernels…")
                                                  : tr("Another plan: One run, once more, records it"));
    return plot_->setLanes({});
  }
  const Graph* graph = document_.graph().get();
  std::vector<TimelinePlot::Lane> lanes;
  for (const RunTimeline::Lane& from : run.lanes) {
    TimelinePlot::Lane lane{laneName(from), {}, {}};
    for (const RunTimeline::Span& s : from.spans) {
      const NodeId node = graph ? graph->findNode(s.node.toStdString()) : NodeId();
      const BoxKind kind = node ? kindOfOperator(graph->node(node).op->name) : BoxKind::Module;
      const QString label = s.node.isEmpty() || s.node == s.what ? s.what : s.what + QLatin1Char(' ') + s.node;
      lane.spans.push_back({s.node, label, kind, s.start, s.microseconds});
    }
    lane.total = from.idle < 0.005 * run.microseconds
                     ? length(from.busy)
                     : tr("%1 + %2 idle").arg(length(from.busy), length(std::max(0.0, from.idle)));
    lanes.push_back(std::move(lane));
  }
  const QString how = run.how;
  sentence_->showText(tr("One run: %1 · %2").arg(length(run.microseconds), how));
  sentence_->setToolTip(how);
  plot_->setLanes(std::move(lanes), run.microseconds);
}

}  // namespace graft
