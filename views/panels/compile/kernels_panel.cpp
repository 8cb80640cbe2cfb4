#include "views/panels/compile/kernels_panel.h"

#include <QHBoxLayout>
#include <QVBoxLayout>

#include "views/document/run_figures.h"

namespace graft {

KernelsPanel::KernelsPanel(PanelContext& context) : context_(context), document_(context.document()) {
  summary_ = new FixedHeightLabel(1, this);
  table_ = new KernelTable(document_);
  pairs_ = new PairsList(document_);
  wishes_ = new WishesList(document_);
  tabs_ = new QTabWidget(this);
  tabs_->setDocumentMode(true);
  tabs_->addTab(table_, tr("Kernels"));
  tabs_->addTab(pairs_, tr("Between"));
  tabs_->setTabToolTip(Between, tr("Pairs of nodes: whether one kernel computes both, and why not"));
  tabs_->addTab(wishes_, tr("Overrides"));
  tabs_->setTabToolTip(Wishes, tr("What you changed in the plan: fused, kept apart, moved, scheduled or edited"));
  timeline_ = new TimelinePage(document_);
  tabs_->addTab(timeline_, tr("Timeline"));
  tabs_->setTabToolTip(Timeline, tr("What runs when: each kernel below the operators that it stands for, or what the "
                                    "host and its threads do in one run"));
  connect(timeline_, &TimelinePage::chosen, this, &KernelsPanel::choose);
  connect(timeline_, &TimelinePage::nodeChosen, &context_, &PanelContext::nodeAsked);
  auto* across = new QHBoxLayout;
  across->setSpacing(4);
  across->addWidget(summary_, 1);
  across->addWidget(button("measureKernels", tr("Measure"),
                           tr("Runs the model as it is and with its kernels, and says how near each is to what "
                              "this machine allows")));
  across->addWidget(button("trySchedules", tr("Try schedules"),
                           tr("The same, with up to five other schedules of each kernel's loops")));
  across->addWidget(button("applyKernels", tr("Put in place"),
                           tr("Replaces the operators by the plan's kernels, each verified: a step of the history")));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 6, 8, 0);
  column->setSpacing(4);
  column->addLayout(across);
  column->addWidget(tabs_, 1);
  connect(table_, &KernelTable::chosen, this, &KernelsPanel::chooseRow);
  connect(table_, &QTreeWidget::itemClicked, this, &KernelsPanel::chooseRow);  // the current one, too
  connect(table_, &QTreeWidget::itemActivated, this, &KernelsPanel::chooseRow);
  const auto light = [this](const QStringList& nodes) {
    Q_EMIT context_.matchAsked(nodes);
    Q_EMIT context_.nodesLit(nodes);
  };
  connect(pairs_, &PairsList::chosen, this, light);
  connect(wishes_, &WishesList::chosen, this, light);
  connect(wishes_, &WishesList::actionAsked, &context_, &PanelContext::actionAsked);
  connect(&document_, &Document::selectionChanged, this, &KernelsPanel::followSelection);
  connect(&document_.compilation(), &Compilation::changed, this, &KernelsPanel::refresh);
  connect(&context_, &PanelContext::themeChanged, this, [this] {
    table_->refresh();
    pairs_->refresh();
    timeline_->plot()->update();
  });
  refresh();
}

/// In a narrow panel the sentence has two lines.
void KernelsPanel::resizeEvent(QResizeEvent* e) {
  QWidget::resizeEvent(e);
  constexpr int narrow = 860;
  summary_->setLines(width() < narrow ? 2 : 1);
}

QToolButton* KernelsPanel::button(const char* action, const QString& text, const QString& tip) {
  auto* b = new QToolButton(this);
  b->setText(text);
  b->setToolTip(tip);
  b->setProperty("outlined", true);
  b->setObjectName(QLatin1String(action) + QStringLiteral("Button"));
  connect(b, &QToolButton::clicked, this,
          [this, name = QString::fromLatin1(action)] { Q_EMIT context_.actionAsked(name); });
  return b;
}

void KernelsPanel::choose(const QString& kernel) {
  document_.compilation().setCurrent(kernel);
  if (const KernelInfo* k = document_.compilation().current()) Q_EMIT context_.matchAsked(k->nodes);
}

/// One of the plan before is no kernel of this plan: its nodes are lit.
void KernelsPanel::chooseRow(QTreeWidgetItem* row) {
  const QString kernel = KernelTable::kernelOf(*row);
  kernel.isEmpty() ? void(Q_EMIT context_.matchAsked(KernelTable::nodesOf(*row))) : choose(kernel);
}

/// The kernel of the node that was chosen elsewhere.
void KernelsPanel::followSelection() {
  Compilation& compilation = document_.compilation();
  const QString node = document_.selection().value(0);
  if (!compilation.isKnown() || node.isEmpty()) return;
  const KernelInfo* now = compilation.current();
  if (now && now->nodes.contains(node)) return;
  if (const KernelInfo* k = compilation.plan().kernelOf(node)) compilation.setCurrent(k->name);
}

void KernelsPanel::showPair(const FusionPair& pair) {
  tabs_->setCurrentIndex(Between);
  pairs_->show(pair);
}

void KernelsPanel::refresh() {
  const Compilation& compilation = document_.compilation();
  const CompilePlan& plan = compilation.plan();
  QString text;
  if (compilation.isMeasuring()) {
    text = tr("Running the model as it is and with its kernels…");
  } else if (compilation.isBusy()) {
    text = tr("Planning…");
  } else if (!compilation.whyNone().isEmpty()) {
    text = compilation.whyNone();
  } else if (compilation.isKnown()) {
    double moved = 0, apart = 0, saved = 0;
    for (const KernelInfo& k : plan.kernels) {
      moved += k.bytes();
      apart += std::isnan(k.bytesApart) ? k.bytes() : k.bytesApart;
      saved += std::isnan(k.saved) ? 0 : k.saved;
    }
    // In front: the end may be cut.
    const int left = plan.unmeasuredCount();
    text = tr("%1 run, %2 generated%3 · %4 moved instead of %5")
               .arg(counted(static_cast<qint64>(plan.kernels.size()), tr("kernel"), tr("kernels")))
               .arg(plan.generatedCount())
               .arg((plan.isForGpu && plan.capability > 0
                         ? tr(" for a GPU of capability %1.%2").arg(plan.capability / 10).arg(plan.capability % 10)
                         : QString()) +
                    (left > 0 ? tr(", %1 not measured since the plan changed").arg(left) : QString()))
               .arg(bytes(moved), bytes(apart));
    text += plan.isMeasured()
                ? tr(" · %1 instead of %2 measured").arg(ms(plan.kernelsUs / 1000), ms(plan.operatorsUs / 1000))
                : tr(" · %1 less predicted").arg(ms(saved / 1000));
    if (plan.isMeasured() && plan.isMeasuredBefore) text += QLatin1Char(' ') + whenText(plan.measuredAt);
    if (const PlanDifference* difference = compilation.difference())
      text = tr("Against %1: %2 · ").arg(compilation.otherPlanTitle(), difference->text()) + text;
    if (!plan.unapplied.empty())
      text += tr(" · %1 cannot be applied")
                  .arg(counted(static_cast<qint64>(plan.unapplied.size()), tr("override"), tr("overrides")));
  }
  summary_->showText(text);
  tabs_->setTabText(Wishes, wishes_->tree()->topLevelItemCount() > 0
                                ? tr("Overrides (%1)").arg(wishes_->tree()->topLevelItemCount())
                                : tr("Overrides"));
}

PanelDescription kernelsPanel() {
  PanelDescription d;
  d.name = QStringLiteral("kernels");
  d.title = KernelsPanel::tr("&Kernels");
  d.help = KernelsPanel::tr("Lists what runs: generated kernels, libraries, PyTorch's own; and why they are not fewer");
  d.area = Qt::BottomDockWidgetArea;
  d.arrangements = {Arrangement::Compile};
  d.size = {0, 290};
  d.make = [](PanelContext& context) { return new KernelsPanel(context); };
  return d;
}

}  // namespace graft
