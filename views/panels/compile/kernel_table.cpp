#include "views/panels/compile/kernel_table.h"

#include <QContextMenuEvent>
#include <QHeaderView>
#include <algorithm>

#include "core/base/numbers/percent.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/widgets/empty_hint.h"
#include "views/widgets/fit_column.h"
#include "views/widgets/qt_color.h"

namespace graft {
namespace {

constexpr int sortKeyRole = Qt::UserRole, kernelRole = Qt::UserRole + 1, nodesRole = Qt::UserRole + 2;

/// Sorts by numbers where a column has numbers; unknown ones come last.
class KernelRow : public QTreeWidgetItem {
 public:
  using QTreeWidgetItem::QTreeWidgetItem;
  bool operator<(const QTreeWidgetItem& other) const override {
    const int column = treeWidget()->sortColumn();
    const QVariant a = data(column, sortKeyRole), b = other.data(column, sortKeyRole);
    return a.isValid() && b.isValid() ? a.toDouble() < b.toDouble() : text(column) < other.text(column);
  }
};

/// "24.1 MFLOP".
QString flops(double n) {
  return n >= 1e9   ? QStringLiteral("%1 GFLOP").arg(n / 1e9, 0, 'f', n >= 1e10 ? 0 : 2)
         : n >= 1e6 ? QStringLiteral("%1 MFLOP").arg(threeDigits(n / 1e6))
         : n >= 1e3 ? QStringLiteral("%1 kFLOP").arg(threeDigits(n / 1e3))
                    : QStringLiteral("%1 FLOP").arg(n, 0, 'f', 0);
}

void setFigure(QTreeWidgetItem* row, int column, double value, const QString& text) {
  row->setText(column, text);
  row->setData(column, sortKeyRole, std::isnan(value) ? -1.0 : value);
  row->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
}

/// "here it takes at least 12.3 µs: 1.2 MB at 14 GB/s; its 24.1 MFLOP take less".
QString rooflineOf(const KernelInfo& k, const CompilePlan& plan) {
  const QString text = KernelTable::tr("here it takes at least %1: %2; %3").arg(micros(k.least));
  const QString moved = bytes(k.bytes());
  if (plan.isBoundByArithmetic(k))
    return text.arg(KernelTable::tr("%1 at %2/s").arg(flops(k.operationCount), flops(k.operationCount / k.least * 1e6)),
                    KernelTable::tr("its %1 take less").arg(moved));
  return text.arg(KernelTable::tr("%1 at %2/s").arg(moved, bytes(plan.bytesPerMicrosecond * 1e6)),
                  k.operationCount > 0 ? KernelTable::tr("its %1 take less").arg(flops(k.operationCount))
                                       : KernelTable::tr("no arithmetic is counted"));
}

QString tipOf(const KernelInfo& k, const CompilePlan& plan, const GroupDifference* difference) {
  QStringList lines{k.label + QStringLiteral(" — ") + originText(k.origin)};
  if (difference) lines << difference->sign() + QLatin1Char(' ') + difference->word();
  if (!k.modules.value(0).isEmpty()) lines << KernelTable::tr("in %1").arg(k.modules.join(QStringLiteral(", ")));
  if (!k.product.isEmpty()) lines << KernelTable::tr("behind the matrix product %1").arg(k.product);
  if (!std::isnan(k.bytesApart))
    lines << KernelTable::tr("moves %1; its operators one by one move %2").arg(bytes(k.bytes()), bytes(k.bytesApart));
  if (!std::isnan(k.least)) lines << rooflineOf(k, plan);
  if (!std::isnan(k.measured) && (plan.isMeasuredBefore || plan.isChangedSince))
    lines << KernelTable::tr("measured %1").arg(whenText(plan.measuredAt));
  if (std::isnan(k.measured) && plan.isChangedSince)
    lines << KernelTable::tr("not measured since the plan changed: Measure, above, does it");
  for (const TriedInfo& t : k.tried)
    lines << KernelTable::tr("tried: %1 takes %2").arg(t.schedule, micros(t.microseconds));
  if (!k.tried.empty()) lines << KernelTable::tr("a right click takes one of them");
  if (plan.share(k) > 1)
    lines << KernelTable::tr(
        "faster than memory: it reads a part of its operands, as lookups do, or finds them in a cache");
  if (const QString why = plan.whyAlone.value(k.name); !why.isEmpty()) lines << KernelTable::tr("alone: %1").arg(why);
  for (const LaunchInfo& l : k.launches)
    lines << QStringLiteral("%1: %2\n    %3").arg(l.function, launchText(l), l.schedule);
  if (!k.whyNotCompiled.isEmpty()) lines << k.whyNotCompiled;
  return lines.join(QLatin1Char('\n'));
}

/// What the launches take of a GPU: of each figure the one that holds the kernel back.
void fillUsage(QTreeWidgetItem* row, const KernelInfo& k) {
  int registers = -1;
  double shared = 0, spills = 0, occupancy = NAN;
  QString limit;
  for (const LaunchInfo& l : k.launches) {
    registers = std::max(registers, l.registers);
    shared = std::max(shared, l.sharedBytes);
    spills += l.spillBytes;
    if (std::isnan(l.occupancy) || (!std::isnan(occupancy) && l.occupancy >= occupancy)) continue;
    occupancy = l.occupancy;
    limit = l.limit;
  }
  const bool isKnown = registers >= 0;
  const QString none = QStringLiteral("–");
  setFigure(row, KernelTable::Registers, isKnown ? registers : NAN, isKnown ? QString::number(registers) : none);
  setFigure(row, KernelTable::Shared, isKnown ? shared : NAN,
            !isKnown     ? none
            : shared > 0 ? bytes(shared)
                         : QString("0"));
  setFigure(row, KernelTable::Occupancy, occupancy,
            std::isnan(occupancy) ? none : KernelTable::tr("%1 (%2)").arg(toQt(percentText(occupancy)), limit));
  setFigure(row, KernelTable::Spills, isKnown ? spills : NAN,
            !isKnown     ? none
            : spills > 0 ? bytes(spills)
                         : QString("0"));
}

}  // namespace

KernelTable::KernelTable(Document& document, QWidget* parent) : QTreeWidget(parent), document_(document) {
  setAccessibleName(tr("Kernels"));
  setHeaderLabels({tr("Kernel"), tr("Difference"), tr("By"), tr("Measured"), tr("Roofline"), tr("Before"),
                   tr("Best tried"), tr("Predicted"), tr("Reads"), tr("Writes"), tr("Registers"), tr("Shared"),
                   tr("Occupancy"), tr("Spills"), tr("Schedule")});
  headerItem()->setToolTip(Difference, tr("From the other plan: + only in this plan, − only in the other plan, ~ other "
                                          "nodes or code. F8 goes to the next one"));
  headerItem()->setToolTip(Origin, tr("Who wrote what runs: Graft's generator, a person, a library, or PyTorch"));
  headerItem()->setToolTip(Predicted,
                           tr("The time that the plan counts with. A size that the model leaves open counts as 64"));
  headerItem()->setToolTip(Measured, tr("The median time in a run of the model; Measure, above, takes it"));
  headerItem()->setToolTip(Before, tr("What its operators take one by one, measured"));
  headerItem()->setToolTip(
      Share, tr("The least time for its bytes and floating-point operations, at the speed at which this machine copies "
                "and multiplies matrices, as part of the measured time. Above 100 % the data comes from caches"));
  headerItem()->setToolTip(Tried, tr("The fastest of the other schedules that were tried, measured in the model. Try "
                                     "schedules, above, tries them"));
  headerItem()->setToolTip(Registers, tr("Registers of a thread, of the launch that takes the most"));
  headerItem()->setToolTip(Shared, tr("Shared memory of a block, of the launch that takes the most"));
  headerItem()->setToolTip(Occupancy, tr("Warps that run on a multiprocessor at a time, of those that it holds: of the "
                                         "launch with the fewest, and what keeps it from more"));
  headerItem()->setToolTip(Spills, tr("Bytes that a thread stores and loads because it has too few registers"));
  headerItem()->setToolTip(Schedule, tr("What a person has chosen of its loops; and its time without that"));
  setRootIsDecorated(false);
  setUniformRowHeights(true);
  setSortingEnabled(true);
  header()->setSortIndicatorClearable(true);
  header()->setSortIndicator(-1, Qt::AscendingOrder);
  header()->setStretchLastSection(false);
  for (int column = Name; column <= Schedule; ++column) {
    header()->setSectionResizeMode(column, column == Name ? QHeaderView::Fixed : QHeaderView::ResizeToContents);
    if (column >= Measured && column <= Spills)
      headerItem()->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
  }
  header()->setMinimumSectionSize(48);
  connect(header(), &QHeaderView::sectionResized, this, [this](int column) {
    if (column != Name) fitNames();
  });
  new EmptyHint(this, tr("What runs when the model runs will stand here: generated kernels and all other operators."));
  Compilation& compilation = document_.compilation();
  connect(&compilation, &Compilation::changed, this, &KernelTable::refresh);
  connect(&compilation, &Compilation::currentChanged, this, &KernelTable::follow);
  connect(this, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* row) {
    if (!filling_ && row) Q_EMIT chosen(row);
  });
}

QString KernelTable::kernelOf(const QTreeWidgetItem& row) { return row.data(Name, kernelRole).toString(); }

QStringList KernelTable::nodesOf(const QTreeWidgetItem& row) { return row.data(Name, nodesRole).toStringList(); }

QTreeWidgetItem* KernelTable::row(const QString& kernel) const {
  for (int i = 0; i < topLevelItemCount(); ++i)
    if (kernelOf(*topLevelItem(i)) == kernel) return topLevelItem(i);
  return nullptr;
}

QTreeWidgetItem* KernelTable::newRow(const KernelInfo& k, const CompilePlan& plan,
                                     const GroupDifference* difference) const {
  auto* row = new KernelRow;
  row->setText(Name, k.label);
  const bool isGone = difference && difference->now.isEmpty();
  if (!isGone) row->setData(Name, kernelRole, k.name);
  row->setData(Name, nodesRole, k.nodes);
  row->setText(Origin, originText(k.origin) + (k.isInPlace ? tr(", in place") : QString()));
  setFigure(row, Read, k.bytesRead, bytes(k.bytesRead));
  setFigure(row, Written, k.bytesWritten, bytes(k.bytesWritten));
  setFigure(row, Predicted, k.predicted, micros(k.predicted));
  setFigure(row, Measured, k.measured, plan.measuredText(k.measured));
  setFigure(row, Before, k.operators, micros(k.operators));
  const double share = plan.share(k);
  setFigure(row, Share, share, std::isnan(share) ? QStringLiteral("–") : shareText(share));
  const TriedInfo best = k.tried.empty() ? TriedInfo() : k.tried.front();
  setFigure(row, Tried, best.microseconds,
            k.tried.empty() ? QStringLiteral("–") : tr("%1 (%2)").arg(micros(best.microseconds), best.schedule));
  QString schedule = QString(k.schedule).replace(QLatin1Char('\n'), QStringLiteral(", "));
  if (!std::isnan(k.generated)) schedule += tr(" (%1 as generated)").arg(micros(k.generated));
  row->setText(Schedule, schedule.trimmed());
  fillUsage(row, k);
  const QString tip = tipOf(k, plan, difference);
  for (int column = Name; column <= Schedule; ++column) row->setToolTip(column, tip);
  if (!k.isGenerated()) row->setForeground(Origin, toQt(themePalette().dim));
  if (difference) {
    const Palette& p = themePalette();
    const Change change = isGone ? Change::Removed : difference->before.isEmpty() ? Change::Added : Change::Changed;
    row->setText(Difference, difference->sign() + QLatin1Char(' ') + difference->word());
    row->setForeground(Difference, toQt(readable(p.change(change), p.surface, p.text)));
  }
  if (isGone)
    for (int column = Name; column <= Schedule; ++column)
      if (column != Difference) row->setForeground(column, toQt(themePalette().dim));
  return row;
}

void KernelTable::refresh() {
  const Compilation& compilation = document_.compilation();
  filling_ = true;
  const int sorted = header()->sortIndicatorSection();
  setSortingEnabled(false);
  clear();
  const CompilePlan& plan = compilation.plan();
  const PlanDifference* difference = compilation.difference();
  const auto before = compilation.otherPlan();
  QList<QTreeWidgetItem*> rows;
  if (compilation.isKnown())
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      const KernelInfo& k = plan.kernels[i];
      rows << newRow(k, plan, difference ? difference->ofNow(k.name) : nullptr);
      if (!difference) continue;
      for (const GroupDifference& g : difference->groups)  // what is gone stands where its first node runs now
        if (g.now.isEmpty() && plan.kernelOf(g.nodes.value(0)) == &k)
          rows << newRow(*before->find(g.before), *before, &g);
    }
  if (compilation.isKnown() && difference)
    for (const GroupDifference& g : difference->groups)  // or last, where no kernel runs it
      if (g.now.isEmpty() && !plan.kernelOf(g.nodes.value(0))) rows << newRow(*before->find(g.before), *before, &g);
  // No columns of dashes: what nobody has measured, tried or compiled.
  for (int column = Measured; column <= Spills; ++column)
    setColumnHidden(column, !rows.isEmpty() && std::all_of(rows.begin(), rows.end(), [&](QTreeWidgetItem* row) {
                      return kernelOf(*row).isEmpty() || row->text(column) == QStringLiteral("–");
                    }));
  setColumnHidden(Difference, !difference || difference->groups.empty());
  setColumnHidden(Schedule, std::all_of(rows.begin(), rows.end(),
                                        [](QTreeWidgetItem* row) { return row->text(Schedule).isEmpty(); }));
  addTopLevelItems(rows);
  setSortingEnabled(true);
  header()->setSortIndicator(sorted, header()->sortIndicatorOrder());
  filling_ = false;
  fitNames();
  follow();
}

void KernelTable::resizeEvent(QResizeEvent* e) {
  QTreeWidget::resizeEvent(e);
  fitNames();
}

void KernelTable::fillMenu(QMenu& menu, const QString& kernel) {
  Compilation& compilation = document_.compilation();
  const KernelInfo* k = compilation.isKnown() ? compilation.plan().find(kernel) : nullptr;
  if (!k) return;
  for (const TriedInfo& t : k->tried)
    menu.addAction(tr("Take %1: %2").arg(t.schedule, micros(t.microseconds)), this,
                   [&compilation, kernel, schedule = t.schedule] { compilation.chooseSchedule(kernel, schedule); });
}

void KernelTable::contextMenuEvent(QContextMenuEvent* e) {
  const bool byKey = e->reason() == QContextMenuEvent::Keyboard;
  const QTreeWidgetItem* at = byKey ? currentItem() : itemAt(viewport()->mapFromGlobal(e->globalPos()));
  if (!at) return;
  QMenu menu;
  fillMenu(menu, kernelOf(*at));
  if (!menu.isEmpty()) menu.exec(byKey ? viewport()->mapToGlobal(visualItemRect(at).bottomLeft()) : e->globalPos());
}

void KernelTable::fitNames() {
  constexpr int least = 170;
  fitColumn(*this, Name, least);
}

/// The kernel that is looked at, wherever it was chosen.
void KernelTable::follow() {
  const KernelInfo* now = document_.compilation().current();
  QTreeWidgetItem* wanted = now ? row(now->name) : nullptr;
  if (wanted == currentItem()) return;
  filling_ = true;
  setCurrentItem(wanted);
  if (!wanted) clearSelection();
  filling_ = false;
}

}  // namespace graft
