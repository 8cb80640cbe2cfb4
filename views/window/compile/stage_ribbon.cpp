#include "views/window/compile/stage_ribbon.h"

#include <QApplication>
#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>

#include "views/document/document_replies.h"
#include "views/document/run_figures.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int padding = 12, space = 7;

QString ribbonText(const char* text) { return StageRibbon::tr(text); }

bool isOfKernels(const StepInfo& step) { return step.method == QLatin1String("compile/apply"); }

QString changeText(qint64 now, qint64 before) {
  if (now == before) return QString();
  return (now < before ? QStringLiteral("−%1") : QStringLiteral("+%1")).arg(std::abs(now - before));
}

/// What the steps from `first` up to `last` say of being verified.
void addVerdict(Stage& stage, const std::vector<StepInfo>& steps, int first, int last) {
  qsizetype takenBack = 0;
  bool isUnverified = false, isAny = false;
  for (int i = first; i <= last; ++i) {
    const StepInfo& s = steps[static_cast<size_t>(i)];
    takenBack += s.rolledBack.size();
    isUnverified = isUnverified || s.isUnverified();
    isAny = isAny || !s.records.empty();
  }
  stage.isWarning = takenBack > 0 || isUnverified;
  stage.verdict = takenBack > 0  ? ribbonText("%1 taken back").arg(takenBack)
                  : isUnverified ? ribbonText("not verified")
                  : isAny        ? ribbonText("verified")
                                 : QString();
}

}  // namespace

std::vector<Stage> stagesOf(Document& document) {
  std::vector<Stage> stages;
  if (!document.isOpen()) return stages;
  const std::vector<StepInfo>& steps = document.steps();
  const int at = document.position();
  int rules = 0, kernels = -1;  // the last step of each
  for (int i = 1; i <= at; ++i) {
    if (isOfKernels(steps[static_cast<size_t>(i)]))
      kernels = i;
    else
      rules = i, kernels = -1;
  }
  const auto nodes = [&](int step) { return static_cast<qint64>(steps[static_cast<size_t>(step)].graph->nodeCount()); };
  Compilation& compilation = document.compilation();
  const GraphRef file = compilation.captured().graph();
  Stage captured{.kind = Stage::Captured, .title = ribbonText("Captured")};
  captured.count = file                                         ? QString::number(file->nodeCount())
                   : compilation.captured().whyNone().isEmpty() ? QStringLiteral("…")
                                                                : QStringLiteral("–");
  captured.verdict = document.format();
  captured.tip =
      file ? ribbonText("The model as its file has it: %1, spelled as it was captured")
                 .arg(counted(static_cast<qint64>(file->nodeCount()), ribbonText("node"), ribbonText("nodes")))
           : compilation.captured().whyNone();
  stages.push_back(captured);
  Stage normalised{.kind = Stage::Normalised, .title = ribbonText("Normalised"), .step = 0};
  normalised.count = QString::number(nodes(0));
  if (file) normalised.change = changeText(nodes(0), static_cast<qint64>(file->nodeCount()));
  normalised.verdict = ribbonText("as opened");
  normalised.tip = ribbonText("The model as opened, in the one spelling of each operation: %1")
                       .arg(counted(nodes(0), ribbonText("node"), ribbonText("nodes")));
  stages.push_back(normalised);
  Stage ruled{.kind = Stage::Rules, .title = ribbonText("Rules"), .step = rules};
  ruled.count = QString::number(nodes(rules));
  ruled.change = changeText(nodes(rules), nodes(0));
  if (rules > 0)
    addVerdict(ruled, steps, 1, rules);
  else
    ruled.verdict = ribbonText("none applied");
  ruled.tip = rules > 0 ? ribbonText("After %1 of rules").arg(counted(rules, ribbonText("step"), ribbonText("steps")))
                        : ribbonText("No rule has been applied: Rewrite (Ctrl+2) has them");
  stages.push_back(ruled);
  const CompilePlan& plan = compilation.plan();
  Stage groups{.kind = Stage::Groups, .title = ribbonText("Groups")},
      generated{.kind = Stage::Kernels, .title = ribbonText("Kernels")},
      time{.kind = Stage::Time, .title = ribbonText("Time")};
  if (compilation.isKnown()) {
    qint64 operators = 0, fused = 0, inPlace = 0;
    for (const KernelInfo& k : plan.kernels) {
      operators += k.isGenerated() ? k.inside.size() : 1;
      fused += k.isGenerated();
      inPlace += k.isInPlace;
    }
    const auto all = static_cast<qint64>(plan.kernels.size());
    groups.count = QString::number(all);
    groups.change = changeText(all, nodes(rules));
    groups.verdict = ribbonText("%1 alone").arg(all - fused);
    groups.tip =
        ribbonText("What runs as one: %1 fused from %2, and %3 by themselves. A click groups the canvas by them")
            .arg(counted(fused, ribbonText("kernel"), ribbonText("kernels")))
            .arg(counted(operators - (all - fused), ribbonText("node"), ribbonText("nodes")))
            .arg(counted(all - fused, ribbonText("operator"), ribbonText("operators")));
    if (const qint64 views = nodes(rules) - operators; views > 0 && kernels < 0)
      groups.tip += ribbonText(". %1, which run nothing, are in no group")
                        .arg(counted(views, ribbonText("view"), ribbonText("views")));
    generated.count = QString::number(fused);
    generated.verdict = inPlace > 0 ? ribbonText("in place") : ribbonText("planned");
    if (kernels > 0) {
      addVerdict(generated, steps, rules + 1, kernels);
      generated.verdict = ribbonText("in place, %1").arg(generated.verdict);
    }
    generated.step = kernels;
    generated.tip = inPlace > 0 ? ribbonText("The model calls its generated kernels")
                                : ribbonText(
                                      "The kernels of the plan. Put in place, above the table, makes the model "
                                      "call them, each verified");
    if (plan.isMeasured()) {
      time.count = ms(plan.kernelsUs / 1000);
      const double ratio = plan.operatorsUs / plan.kernelsUs;
      if (inPlace == 0) time.change = timesText(ratio);
      time.verdict = ribbonText("measured");
      time.tip = ribbonText("One run as it is: %1; with the kernels: %2, all nodes one after another")
                     .arg(ms(plan.operatorsUs / 1000), ms(plan.kernelsUs / 1000));
      if (plan.isMeasuredBefore) time.tip += ribbonText(". Measured %1").arg(whenText(plan.measuredAt));
    }
  }
  if (groups.count.isEmpty()) {
    const QString waits = compilation.isBusy() ? QStringLiteral("…") : QStringLiteral("–");
    groups.count = generated.count = waits;
  }
  if (time.count.isEmpty()) {
    time.count = compilation.isMeasuring() ? QStringLiteral("…") : QStringLiteral("–");
    time.verdict = compilation.isMeasuring() ? ribbonText("running") : ribbonText("measure");
    time.tip = ribbonText("A click runs the model as it is and with its kernels");
    if (plan.isChangedSince) time.tip = ribbonText("The plan has changed since it was measured. ") + time.tip;
  }
  for (Stage* s : {&groups, &generated, &time}) stages.push_back(*s);
  return stages;
}

StageChip::StageChip(QWidget* parent) : QAbstractButton(parent) {
  setFocusPolicy(Qt::TabFocus);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
}

void StageChip::show(const Stage& stage) {
  stage_ = stage;
  const QString told = QStringList{stage.title, stage.count, stage.change, stage.verdict}.join(QLatin1Char(' '));
  setAccessibleName(told.simplified());
  setToolTip(stage.tip + tr("\nCtrl and a click compares with the one chosen before"));
  updateGeometry();
  update();
}

void StageChip::setMarked(bool on) {
  marked_ = on;
  update();
}

QSize StageChip::sizeHint() const {
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  const QFontMetrics thick(bold), thin(font());
  const int first = thin.horizontalAdvance(stage_.title) + space + thick.horizontalAdvance(stage_.count);
  const int second = thin.horizontalAdvance(stage_.change) +
                     (stage_.change.isEmpty() || stage_.verdict.isEmpty() ? 0 : space) +
                     thin.horizontalAdvance(stage_.verdict);
  return {std::max(first, second) + 2 * padding, 2 * thin.height() + 10};
}

void StageChip::paintEvent(QPaintEvent*) {
  const Palette& p = themePalette();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF r = QRectF(rect()).adjusted(1, 1, -1, -1);
  const bool isHot = underMouse() || hasFocus();
  const Color fill = stage_.isShown ? mix(p.background, p.accent, p.dark ? 0.3 : 0.14)
                                    : mix(p.background, p.text, isHot ? 0.07 : 0.02);
  painter.setBrush(toQt(fill));
  painter.setPen(QPen(toQt(marked_ || hasFocus() ? p.accent
                           : stage_.isShown      ? mix(p.background, p.accent, 0.6)
                                                 : p.grid),
                      marked_ || hasFocus() ? 1.8 : 1));
  painter.drawRoundedRect(r, 6, 6);
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  const QFontMetrics thin(font());
  const int first = 5 + thin.ascent(), second = first + thin.height();
  painter.setPen(toQt(p.text));
  painter.drawText(padding, first, stage_.title);
  painter.setFont(bold);
  painter.drawText(padding + thin.horizontalAdvance(stage_.title) + space, first, stage_.count);
  painter.setFont(font());
  painter.setPen(toQt(p.dim));
  int x = padding;
  if (!stage_.change.isEmpty()) {
    painter.drawText(x, second, stage_.change);
    x += thin.horizontalAdvance(stage_.change) + space;
  }
  if (stage_.isWarning) painter.setPen(toQt(mix(p.text, p.change(Change::Removed), 0.6)));
  painter.drawText(x, second, stage_.verdict);
}

StageRibbon::StageRibbon(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  setAccessibleName(tr("Stages of compilation"));
  auto* across = new QHBoxLayout(this);
  across->setContentsMargins(8, 4, 8, 4);
  across->setSpacing(4);
  for (int kind = Stage::Captured; kind <= Stage::Time; ++kind) {
    if (kind > Stage::Captured) {
      auto* next = new QLabel(QStringLiteral("→"), this);
      next->setEnabled(false);
      across->addWidget(next);
    }
    auto* chip = new StageChip(this);
    connect(chip, &QAbstractButton::clicked, this, [this, chip] { click(chip); });
    across->addWidget(chip);
    chips_ << chip;
  }
  across->addStretch(1);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  for (auto signal : {&Document::stepsChanged, &Document::graphChanged, &Document::opened})
    connect(&document_, signal, this, &StageRibbon::refresh);
  connect(&document_.compilation(), &Compilation::changed, this, &StageRibbon::refresh);
  connect(&document_.compilation().captured(), &CapturedModel::changed, this, &StageRibbon::refresh);
  refresh();
}

StageChip* StageRibbon::chip(Stage::Kind kind) const { return chips_.value(kind); }

void StageRibbon::setDrawn(std::optional<Stage::Kind> kind) {
  drawn_ = kind;
  refresh();
}

void StageRibbon::refresh() {
  std::vector<Stage> stages = stagesOf(document_);
  for (Stage& s : stages)
    s.isShown = drawn_                      ? s.kind == *drawn_
                : document_.position() == 0 ? s.kind == Stage::Normalised
                                            : s.step == document_.position();
  for (qsizetype i = 0; i < chips_.size(); ++i) {
    chips_[i]->setEnabled(!stages.empty());
    if (!stages.empty()) chips_[i]->show(stages[static_cast<size_t>(i)]);
  }
  // At once: words are not cut until the event loop has a moment.
  if (QWidget* bar = parentWidget(); bar && bar->layout()) bar->layout()->activate();
  layout()->activate();
}

void StageRibbon::click(StageChip* chip) {
  const bool compares = QApplication::keyboardModifiers() & Qt::ControlModifier;
  if (compares && last_ && last_ != chip) {
    for (StageChip* c : chips_) c->setMarked(c == chip || c == last_);
    const bool isInOrder = chips_.indexOf(last_) < chips_.indexOf(chip);
    Q_EMIT compareAsked((isInOrder ? last_ : chip)->stage(), (isInOrder ? chip : last_)->stage());
    return;
  }
  last_ = chip;
  for (StageChip* c : chips_) c->setMarked(false);
  Q_EMIT chosen(chip->stage());
}

void StageRibbon::changeEvent(QEvent* e) {
  QWidget::changeEvent(e);
  if (e->type() == QEvent::PaletteChange || e->type() == QEvent::FontChange) update();
}

}  // namespace graft
