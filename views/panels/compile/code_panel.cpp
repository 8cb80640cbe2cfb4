#include "views/panels/compile/code_panel.h"

#include <QHBoxLayout>
#include <QRegularExpression>
#include <QVBoxLayout>

#include "views/document/document_replies.h"
#include "views/document/run_figures.h"
#include "views/widgets/qscintilla.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// Lines of what came of an edit: as long as nothing is wrong, and where it says what differs, by how much and on which
/// inputs.
constexpr int few = 2, many = 6;
constexpr int sideBySide = 900;  ///< loops and code stand beside each other from this width on

const QString& formOf(int tab) {
  static const QString forms[] = {QStringLiteral("cpp"), QStringLiteral("cuda"), QStringLiteral("ptx"),
                                  QStringLiteral("sass")};
  return forms[tab];
}

}  // namespace

CodePanel::CodePanel(PanelContext& context) : context_(context), document_(context.document()) {
  heading_ = new FixedHeightLabel(1, this);
  outcome_ = new FixedHeightLabel(few, this);
  outcome_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  usage_ = new FixedHeightLabel(1, this);
  usage_->setToolTip(
      tr("What a launch of the kernel takes of a GPU's multiprocessor, as NVIDIA's compiler says, and how "
         "many warps of those that fit run at a time"));
  legend_ = new NodeLegend(this);
  loops_ = new CodeText(CodeText::Plain, tr("Loops"), this);
  tabs_ = new QTabBar(this);
  tabs_->setDrawBase(false);
  tabs_->setExpanding(false);
  pages_ = new QStackedWidget(this);
  const QString titles[] = {tr("C++"), tr("CUDA"), tr("PTX"), tr("SASS")};
  for (int i = 0; i < Python; ++i) {
    texts_[i] = new CodeText(i >= Ptx ? CodeText::Plain : CodeText::Cpp, titles[i]);
    tabs_->addTab(titles[i]);
    pages_->addWidget(texts_[i]);
  }
  tabs_->setTabToolTip(Cpp, tr("The loops as the CPU runs them, as C++ for people"));
  tabs_->setTabToolTip(Cuda, tr("The kernel for a GPU, as CUDA C++"));
  tabs_->setTabToolTip(Ptx, tr("What NVIDIA's compiler makes of the CUDA C++: the assembly text of all GPUs"));
  tabs_->setTabToolTip(Sass, tr("What the GPU runs: the instructions of one kind of GPU"));
  tabs_->addTab(tr("Python"));
  tabs_->setTabToolTip(Python, tr("The line of your model that the chosen node comes from"));
  python_ = new SourceView;
  pages_->addWidget(python_);
  editLoops_ = new QPushButton(tr("Edit"), this);
  editLoops_->setAccessibleName(tr("Edit the loops"));
  editLoops_->setToolTip(tr("Write the loops otherwise; they stay only where they compute the same"));
  editSource_ = new QPushButton(tr("Edit"), this);
  editSource_->setAccessibleName(tr("Edit the C++"));
  keep_ = new QPushButton(tr("Verify and keep"), this);
  keep_->setToolTip(tr("Runs it beside the operators that it stands for; it becomes part of the plan if it is right"));
  discard_ = new QPushButton(tr("Discard"), this);
  auto* loopsHead = new QLabel(tr("Loops"));
  auto* loopsPart = new QWidget;
  auto* loopsColumn = new QVBoxLayout(loopsPart);
  auto* loopsAcross = new QHBoxLayout;
  loopsAcross->setContentsMargins(12, 2, 8, 2);
  loopsAcross->addWidget(loopsHead);
  loopsAcross->addStretch(1);
  loopsAcross->addWidget(editLoops_);
  auto* codePart = new QWidget;
  auto* codeColumn = new QVBoxLayout(codePart);
  auto* codeAcross = new QHBoxLayout;
  codeAcross->setContentsMargins(0, 2, 8, 2);
  codeAcross->addWidget(tabs_, 1);
  codeAcross->addWidget(editSource_);
  for (const auto& [column, across, text] :
       {std::tuple<QVBoxLayout*, QHBoxLayout*, QWidget*>{loopsColumn, loopsAcross, loops_},
        std::tuple<QVBoxLayout*, QHBoxLayout*, QWidget*>{codeColumn, codeAcross, pages_}}) {
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addLayout(across);
    column->addWidget(text, 1);
  }
  parts_ = new QSplitter(Qt::Vertical, this);
  parts_->setChildrenCollapsible(false);
  parts_->setHandleWidth(1);
  parts_->addWidget(loopsPart);
  parts_->addWidget(codePart);
  parts_->setStretchFactor(0, 2);
  parts_->setStretchFactor(1, 3);
  auto* below = new QHBoxLayout;
  below->setContentsMargins(12, 4, 8, 6);
  below->addWidget(outcome_, 1);
  below->addWidget(discard_);
  below->addWidget(keep_);
  auto* head = new QVBoxLayout;
  head->setContentsMargins(12, 6, 8, 4);
  head->setSpacing(2);
  head->addWidget(heading_);
  head->addWidget(usage_);
  head->addWidget(legend_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addLayout(head);
  column->addWidget(parts_, 1);
  column->addLayout(below);
  connect(tabs_, &QTabBar::currentChanged, this, [this](int tab) {
    pages_->setCurrentIndex(tab);
    editSource_->setVisible(tab == Cpp);
    askShown();
    followSelection();
  });
  connect(legend_, &NodeLegend::clicked, this, &CodePanel::choose);
  connect(legend_, &NodeLegend::hovered, this, [this](const QString& node) {
    const KernelInfo* k = document_.compilation().current();
    Q_EMIT context_.nodesLit(!node.isEmpty() ? QStringList{node} : k ? k->nodes : QStringList());
  });
  for (CodeText* text : allTexts()) connect(text, &CodeText::nodeClicked, this, &CodePanel::choose);
  connect(editLoops_, &QPushButton::clicked, this, [this] { edit(*loops_); });
  connect(editSource_, &QPushButton::clicked, this, [this] { edit(*texts_[Cpp]); });
  connect(keep_, &QPushButton::clicked, this, &CodePanel::verify);
  connect(discard_, &QPushButton::clicked, this, [this] {
    shown_.clear();
    outcome_->setLines(few);
    outcome_->showText({});
    for (CodeText* text : {loops_, texts_[Cpp]}) text->setEditing(false);
    refresh();
  });
  connect(&document_.compilation(), &Compilation::currentChanged, this, &CodePanel::refresh);
  connect(&document_.compilation(), &Compilation::changed, this, &CodePanel::refresh);
  connect(&document_, &Document::selectionChanged, this, &CodePanel::followSelection);
  connect(&context_, &PanelContext::themeChanged, this, [this] {
    for (CodeText* text : allTexts()) text->refreshTheme();
    python_->refreshTheme();
    refresh();
  });
  refresh();
}

CodeText* CodePanel::code(Tab tab) { return texts_[tab]; }

std::vector<CodeText*> CodePanel::allTexts() const {
  std::vector<CodeText*> all(texts_, texts_ + Python);
  all.push_back(loops_);
  return all;
}

void CodePanel::resizeEvent(QResizeEvent* e) {
  QWidget::resizeEvent(e);
  const Qt::Orientation wanted = width() >= sideBySide ? Qt::Horizontal : Qt::Vertical;
  if (parts_->orientation() != wanted) parts_->setOrientation(wanted);
}

/// The node of a kernel: chosen everywhere, or in the panel alone where the kernel is in place.
void CodePanel::choose(const QString& node) {
  if (document_.graph() && document_.graph()->findNode(node.toStdString())) return Q_EMIT context_.nodeAsked(node);
  for (CodeText* text : allTexts()) text->setNode(node);
  legend_->setNode(node);
}

/// Another kernel, or another plan.
void CodePanel::refresh() {
  if (isEditing()) return showEditing();  // nobody's words are thrown away
  const Compilation& compilation = document_.compilation();
  const KernelInfo* k = compilation.isKnown() ? compilation.current() : nullptr;
  if (!k) {
    heading_->showText(compilation.isKnown() ? tr("Choose a kernel: in the table, or one of its nodes on the canvas")
                                             : QString());
  } else {
    QStringList facts{originText(k->origin)};
    if (!k->modules.value(0).isEmpty())
      facts << tr("in %1%2").arg(k->modules.first(), k->modules.size() > 1 ? QStringLiteral(", …") : QString());
    facts << bytes(k->bytes());
    if (!std::isnan(k->measured)) facts << micros(k->measured);
    heading_->showText(QStringLiteral("%1: %2").arg(k->label, facts.join(QStringLiteral(" · "))));
  }
  QStringList launches;
  if (k)
    for (const LaunchInfo& l : k->launches) launches << launchText(l);
  if (k && !k->whyNotCompiled.isEmpty()) launches << k->whyNotCompiled;
  usage_->showText(launches.join(QStringLiteral("; ")));
  usage_->setVisible(!launches.isEmpty());
  legend_->setNodes(k && k->isGenerated() ? k->coloured : QStringList());
  legend_->setVisible(k && k->isGenerated());
  parts_->widget(0)->setVisible(!k || k->isGenerated());
  if (compilation.isKnown() && compilation.plan().isForGpu != isForGpu_) {
    isForGpu_ = !isForGpu_;
    shown_.clear();
    // What the other machine would run is looked at no more; Python is of both.
    if (tabs_->currentIndex() != Python) tabs_->setCurrentIndex(isForGpu_ ? Cuda : Cpp);
  }
  askShown();
  followSelection();
  showEditing();
}

/// What is in view is asked for; the other tabs when they are chosen.
void CodePanel::askShown() {
  const Compilation& compilation = document_.compilation();
  if (!compilation.isActive() || compilation.isBusy() || isEditing()) return;
  const KernelInfo* k = compilation.isKnown() ? compilation.current() : nullptr;
  const int tab = tabs_->currentIndex();
  if (!k || !k->isGenerated()) {
    shown_.clear();
    loops_->setNone({});
    const QString why = k ? compilation.plan().whyAlone.value(k->name) : QString();
    for (CodeText* text : texts_)
      text->setNone(
          !k ? QString()
             : tr("No kernel is generated for %1%2").arg(k->op, why.isEmpty() ? QString() : tr(":\n%1").arg(why)));
    return;
  }
  ask(QStringLiteral("loops"), *loops_);
  if (tab < Python) ask(formOf(tab), *texts_[tab]);
}

void CodePanel::ask(const QString& form, CodeText& into) {
  Compilation& compilation = document_.compilation();
  const KernelInfo* k = compilation.current();
  const QString what = k->name + QLatin1Char('\n') + compilation.steering();
  if (shown_.value(&into) == what) return;
  shown_.insert(&into, what);
  const QStringList nodes = k->coloured;
  compilation.askCode(k->name, form,
                      [this, what, nodes, text = &into](const QJsonObject& kernel, const QString& error) {
                        if (shown_.value(text) != what) return;  // another one is wanted now
                        const QString problem = at(kernel, "problem").toString();
                        if (!error.isEmpty() || !problem.isEmpty()) {
                          // That something is not installed here says nothing of how the kernel runs.
                          const bool isOfMachine = text == texts_[Ptx] || text == texts_[Sass];
                          text->setNone(!error.isEmpty() ? error
                                        : isOfMachine    ? problem
                                                         : tr("It runs as PyTorch's operators: %1").arg(problem));
                          if (!error.isEmpty()) shown_.remove(text);
                        } else {
                          text->setCode(at(kernel, "text").toString(), nodes, at(kernel, "spans").toArray());
                        }
                        showEditing();
                        followSelection();
                      });
}

/// The node that is chosen, in all texts and as Python.
void CodePanel::followSelection() {
  const QString node = document_.selection().value(0);
  for (CodeText* text : allTexts()) text->setNode(node);
  legend_->setNode(node);
  const bool isNode = document_.graph() && document_.graph()->findNode(node.toStdString());
  if (tabs_->currentIndex() != Python) return;
  if (!isNode) return python_->setNone(tr("choose a node, and its line of Python stands here"));
  document_.askSource(node, [this, node](const EngineReply& reply) {
    if (document_.selection().value(0) != node || reply.cancelled()) return;
    if (reply.ok())
      python_->setSource(reply.result);
    else
      python_->setNone(reply.error);
  });
}

void CodePanel::edit(CodeText& text) {
  if (isEditing()) return;
  outcome_->setLines(few);
  outcome_->showText({});
  text.setEditing(true);
  text.editor()->setFocus();
  showEditing();
}

void CodePanel::showEditing() {
  const Compilation& compilation = document_.compilation();
  const KernelInfo* k = compilation.isKnown() ? compilation.current() : nullptr;
  const bool mayEdit = k && k->isGenerated() && !k->isInPlace && !isEditing() && !compilation.isForGpu();
  editLoops_->setEnabled(mayEdit && !loops_->text().isEmpty());
  // As the engine has it: what is written by hand for one size would be wrong for another.
  static const QRegularExpression size(QStringLiteral("^size \\w+ in "), QRegularExpression::MultilineOption);
  const bool hasFixedSizes = !loops_->text().contains(size);
  editSource_->setEnabled(mayEdit && hasFixedSizes && !texts_[Cpp]->text().isEmpty());
  editSource_->setToolTip(
      hasFixedSizes
          ? tr("Write the C++ otherwise. The engine compiles it only if it is started with GRAFT_TRUST_SOURCES=1")
          : tr("C++ can be edited only for fixed sizes, and those of this kernel vary. Its loops can be edited"));
  keep_->setVisible(isEditing());
  discard_->setVisible(isEditing());
  keep_->setEnabled(!compilation.isBusy());
  outcome_->setVisible(isEditing() || !outcome_->fullText().isEmpty());
}

void CodePanel::verify() {
  CodeText& text = loops_->isEditing() ? *loops_ : *texts_[Cpp];
  const QString kernel = shown_.value(&text).section(QLatin1Char('\n'), 0, 0);
  text.clearAnnotations();
  outcome_->setLines(few);
  outcome_->showText(tr("Running it beside its operators…"));
  document_.compilation().edit(kernel, &text == loops_ ? QStringLiteral("loops") : QStringLiteral("source"),
                               text.text(), [this, self = QPointer(this)](const EditOutcome& outcome) {
                                 if (self) tell(outcome);
                               });
  showEditing();
}

void CodePanel::tell(const EditOutcome& outcome) {
  CodeText& text = loops_->isEditing() ? *loops_ : *texts_[Cpp];
  if (outcome.isRight) {
    outcome_->showText(outcome.what);
    text.setEditing(false);
    shown_.clear();
    return refresh();
  }
  // A message with a place goes on in lines that show it; here it stands below the line itself.
  QString why = outcome.why.section(QLatin1Char('\n'), 0, 0);
  static const QRegularExpression placed(QStringLiteral("(?:^|[: ])(\\d+):(\\d+): (.*)"));
  if (!outcome.element.isEmpty()) {
    const int line = text.lineStoring(outcome.output);
    text.annotate(line < 0 ? text.editor()->lines() - 1 : line,
                  tr("%1%2 is %3; its operators compute %4")
                      .arg(outcome.output, outcome.element, outcome.actual, outcome.expected));
  } else if (const auto place = placed.match(why); place.hasMatch()) {
    text.annotate(std::max(0, place.captured(1).toInt() - 1), place.captured(3));
    why = tr("line %1: %2").arg(place.captured(1), place.captured(3));
  }
  outcome_->setLines(many);
  outcome_->showText(why.isEmpty() ? outcome.what : tr("%1: %2").arg(outcome.what, why));
  showEditing();
}

PanelDescription codePanel() {
  PanelDescription d;
  d.name = QStringLiteral("code");
  d.title = CodePanel::tr("C&ode");
  d.help = CodePanel::tr("Shows the chosen kernel as loops and as code; both can be edited");
  d.area = Qt::RightDockWidgetArea;
  d.arrangements = {Arrangement::Compile};
  d.size = {540, 0};
  d.make = [](PanelContext& context) { return new CodePanel(context); };
  return d;
}

}  // namespace graft
