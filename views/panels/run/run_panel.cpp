#include "views/panels/run/run_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMenu>
#include <QStandardItemModel>
#include <QTabBar>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "views/canvas/canvas_scene.h"
#include "views/document/run_figures.h"
#include "views/widgets/file_drop.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// Ctrl+C takes the whole table: what is copied is complete, with its headings.
class CopyKey : public QObject {
 public:
  using QObject::QObject;
  bool eventFilter(QObject* object, QEvent* e) override {
    if (e->type() != QEvent::KeyPress || !static_cast<QKeyEvent*>(e)->matches(QKeySequence::Copy)) return false;
    QApplication::clipboard()->setText(RunPanel::tableText(*static_cast<QTableWidget*>(object)));
    return true;
  }
};

}  // namespace

QTableWidget* RunPanel::makeTable(const QList<std::pair<QString, QString>>& headers) {
  auto* t = new QTableWidget(this);
  t->setColumnCount(static_cast<int>(headers.size()));
  for (int c = 0; c < t->columnCount(); ++c) {
    auto* head = new QTableWidgetItem(headers[c].first);
    head->setData(Qt::UserRole, headers[c].first);
    head->setToolTip(headers[c].second);
    t->setHorizontalHeaderItem(c, head);
  }
  QObject::connect(t->horizontalHeader(), &QHeaderView::sortIndicatorChanged, t, [t](int column, Qt::SortOrder order) {
    for (int c = 0; t->isSortingEnabled() && c < t->columnCount(); ++c)
      t->horizontalHeaderItem(c)->setText(t->horizontalHeaderItem(c)->data(Qt::UserRole).toString() +
                                          (c != column                   ? QString()
                                           : order == Qt::AscendingOrder ? QStringLiteral(" ▴")
                                                                         : QStringLiteral(" ▾")));
  });
  t->verticalHeader()->hide();
  t->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 10);
  t->setEditTriggers(QAbstractItemView::NoEditTriggers);
  t->setSelectionBehavior(QAbstractItemView::SelectRows);
  t->setSelectionMode(QAbstractItemView::SingleSelection);
  t->setShowGrid(false);
  t->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  t->horizontalHeader()->setStretchLastSection(true);
  t->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  t->horizontalHeader()->setHighlightSections(false);
  t->setToolTip(tr("Ctrl+C copies the table"));
  t->installEventFilter(new CopyKey(t));
  t->setContextMenuPolicy(Qt::ActionsContextMenu);
  auto* copy = new QAction(tr("Copy table"), t);
  connect(copy, &QAction::triggered, t, [t] { QApplication::clipboard()->setText(tableText(*t)); });
  t->addAction(copy);
  return t;
}

RunPanel::RunPanel(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  inputs_ = new QLineEdit(this);
  inputs_->setAccessibleName(tr("Inputs"));
  inputs_->setPlaceholderText(tr("Inputs: random, of the model's own types"));
  inputs_->setToolTip(
      tr("A file of tensors (inputs.pt), or one specification for each input:\n"
         "    f32[8,128]:randn   i64[8,128]:randint(0,1000)   f32[4]:zeros\n"
         "Names stand for sizes, which follow them. Several sizes make a sweep:\n"
         "    i64[B,128] f32[B,128] B=1,8,32"));
  new FileDrop(inputs_, [this](const QString& path) { setInputs(path); });
  inputsMenu_ = new QToolButton(this);
  inputsMenu_->setProperty("outlined", true);
  inputsMenu_->setAccessibleName(tr("Where inputs come from"));
  inputsMenu_->setText(tr("Inputs"));
  inputsMenu_->setToolTip(tr("Choose a file of tensors, the model's example inputs, or random ones"));
  inputsMenu_->setPopupMode(QToolButton::InstantPopup);
  auto* menu = new QMenu(inputsMenu_);
  menu->addAction(tr("From a file…"), this, [this] {
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Inputs"), {}, tr("Tensors saved by torch.save (*.pt);;All files (*)"));
    if (!path.isEmpty()) setInputs(path);
  });
  QAction* examples =
      menu->addAction(tr("The model's example inputs"), this, [this] { setInputs(document_.inputs()); });
  QAction* random = menu->addAction(tr("Random, by shape and dtype"), this,
                                    [this] { inputs_->setText(specificationOf(*document_.graph())); });
  connect(menu, &QMenu::aboutToShow, this, [=, this] {
    examples->setEnabled(!document_.inputs().isEmpty());
    random->setEnabled(document_.isOpen() && !specificationOf(*document_.graph()).isEmpty());
  });
  inputsMenu_->setMenu(menu);
  device_ = new QComboBox(this);
  device_->setAccessibleName(tr("Device"));
  device_->addItem(QStringLiteral("cpu"), QStringLiteral("cpu"));
  device_->setToolTip(tr("The device that both models run on"));
  dtype_ = new QComboBox(this);
  dtype_->setAccessibleName(tr("Dtype"));
  dtype_->addItem(tr("as is"), QString());
  for (const char* d : {"float32", "float16", "bfloat16"})
    dtype_->addItem(QString::fromLatin1(d), QString::fromLatin1(d));
  dtype_->setToolTip(tr("The dtype that weights and inputs are converted to before running"));
  against_ = new QComboBox(this);
  against_->setAccessibleName(tr("How the original runs"));
  against_->addItem(tr("as PyTorch runs it"), QStringLiteral("torchscript"));
  against_->addItem(tr("by Graft's executor"), QStringLiteral("graft"));
  against_->setToolTip(
      tr("How to run the original, against which the rewritten model is measured:\n"
         "as PyTorch runs it – the TorchScript file, loaded and frozen by LibTorch\n"
         "by Graft's executor – operator by operator, on a GPU as a CUDA graph, like the rewritten one"));
  seconds_ = new QDoubleSpinBox(this);
  seconds_->setAccessibleName(tr("Seconds for each set of inputs"));
  seconds_->setRange(0.1, 600);
  seconds_->setDecimals(1);
  seconds_->setValue(2);
  seconds_->setSuffix(tr(" s"));
  seconds_->setToolTip(tr("How long to measure each set of inputs"));
  inside_ = new QCheckBox(tr("Inside"), this);
  inside_->setChecked(true);
  inside_->setToolTip(
      tr("Also compare the values inside the model, to find the node where the numbers first differ.\n"
         "Needs memory for three copies of all of them."));
  run_ = new QPushButton(icon(QStringLiteral("play")), tr("Run"), this);
  run_->setDefault(true);
  run_->setMinimumWidth(run_->fontMetrics().horizontalAdvance(tr("Stop")) + 60);  // as wide with either word
  run_->setToolTip(tr("Runs the model as opened and as it is now on the same inputs, in turns (F5)"));
  progress_ = new QProgressBar(this);
  progress_->setMaximumHeight(4);
  progress_->setTextVisible(false);
  QSizePolicy keepsItsPlace = progress_->sizePolicy();
  keepsItsPlace.setRetainSizeWhenHidden(true);  // nothing moves when it comes and goes
  progress_->setSizePolicy(keepsItsPlace);
  headline_ = new FixedHeightLabel(2, this);
  note_ = new FixedHeightLabel(1, this);
  protocol_ = new FixedHeightLabel(0, this);
  delta_ = new FixedHeightLabel(1, this);
  for (QLabel* l : {headline_, note_, protocol_, delta_}) l->setTextInteractionFlags(Qt::TextSelectableByMouse);
  hint_ = new QLabel(this);
  hint_->setWordWrap(true);
  hint_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  hint_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  plot_ = new LatencyPlot(this);
  pin_ = new QPushButton(tr("Pin as baseline"), this);
  pin_->setToolTip(tr("Keep this run in the plot, and compare later runs with it"));
  copy_ = new QPushButton(tr("Copy"), this);
  copy_->setToolTip(tr("Copy all figures, with units and how they were measured"));
  layOut();

  connect(run_, &QPushButton::clicked, this, [this] {
    if (document_.isRunning()) {
      waiting_.clear();
      document_.stopRun();
    } else {
      start();
    }
  });
  connect(inputs_, &QLineEdit::returnPressed, this, [this] {
    if (!document_.isRunning()) start();
  });
  connect(pin_, &QPushButton::clicked, this, &RunPanel::pin);
  connect(copy_, &QPushButton::clicked, this, [this] { QApplication::clipboard()->setText(report()); });
  connect(tables_[Outputs], &QTableWidget::currentCellChanged, this, &RunPanel::showUlp);
  for (const Tab tab : {Inside, Operators})
    connect(tables_[tab], &QTableWidget::cellClicked, this, [this, tab](int row) {
      const QString node = tables_[tab]->item(row, 0)->data(Qt::UserRole).toString();
      if (!node.isEmpty()) Q_EMIT nodeChosen(node);
    });
  connect(tabs_, &QTabWidget::currentChanged, this, [this](int tab) {
    if (tab == Inside) QTimer::singleShot(0, this, &RunPanel::showFirstDifference);  // once it has its size
  });
  connect(timeline_, &TimelinePlot::chosen, this, &RunPanel::nodeChosen);
  connect(&document_, &Document::runProgress, this, [this](const QString& what, qint64 done, qint64 total) {
    progress_->setRange(0, static_cast<int>(total));
    progress_->setValue(static_cast<int>(done));
    progress_->setToolTip(what);
    doing_ = what;
    refreshNote();
  });
  connect(&document_, &Document::runChanged, this, &RunPanel::took);
  connect(&document_, &Document::otherChanged, this, &RunPanel::offerBaselines);
  connect(&document_, &Document::opened, this, [this] {
    offerBaselines();
    waiting_.clear();
    sweep_.clear();
    baseline_ = {};
    refresh();
  });
  connect(&document_, &Document::stepsChanged, this, &RunPanel::refresh);
  refresh();
}

void RunPanel::layOut() {
  QFont big = font();
  big.setPointSizeF(big.pointSizeF() * 1.25);
  big.setWeight(QFont::DemiBold);
  headline_->setFont(big);
  tabs_ = new QTabWidget(this);
  tabs_->setAccessibleName(tr("What was measured"));
  tabs_->setDocumentMode(true);
  const QString maxAbs = tr("The largest difference of an element from the original's"),
                maxRel = tr("The largest difference of an element, as a part of the original's value"),
                rmse = tr("The root of the mean square difference"),
                rmseRatio =
                    tr("The rewritten model's RMSE against the original in fp64, as a multiple of the\n"
                       "original's own: at 1 it is as exact as the original"),
                verdict = tr("Whether rounding explains the difference, and if not, why");
  tables_[Outputs] = makeTable({{tr("Output"), tr("The output's name or number")},
                                {tr("Type"), tr("dtype and shape")},
                                {tr("max abs"), maxAbs},
                                {tr("max rel"), maxRel},
                                {tr("RMSE"), rmse},
                                {tr("RMSE ratio"), rmseRatio},
                                {tr("cosine"), tr("1: both point the same way")},
                                {tr("Verdict"), verdict}});
  tables_[Inside] = makeTable({{tr("Node"), tr("The node in the rewritten model; click to go there")},
                               {tr("In the original"), tr("The node that computes the same value")},
                               {tr("Type"), tr("dtype and shape")},
                               {tr("max abs"), maxAbs},
                               {tr("RMSE"), rmse},
                               {tr("RMSE ratio"), rmseRatio},
                               {tr("Verdict"), verdict}});
  tables_[Operators] = makeTable({{tr("Operator"), tr("Click to go to the slowest node with this operator")},
                                  {tr("calls, original"), tr("How often one run of the original calls it")},
                                  {tr("calls, rewritten"), tr("How often one run of the rewritten model calls it")},
                                  {tr("µs, original"), tr("Time in all its nodes, run by Graft's executor")},
                                  {tr("µs, rewritten"), tr("Time in all its nodes, run by Graft's executor")},
                                  {tr("Change"), tr("Time in the rewritten model less that in the original")}});
  tables_[Operators]->setSortingEnabled(true);
  tables_[Sweep] = makeTable({{tr("Sizes"), tr("The sizes that were asked for")},
                              {tr("original"), tr("Median latency")},
                              {tr("rewritten"), tr("Median latency")},
                              {tr("Speed"), tr("How many times as fast the rewritten model is")},
                              {tr("max abs"), maxAbs},
                              {tr("Verdict"), verdict}});
  for (const Tab tab : {Operators, Sweep}) {  // columns of numbers, their headings above the digits
    QHeaderView* head = tables_[tab]->horizontalHeader();
    head->setStretchLastSection(false);
    head->setSectionResizeMode(0, QHeaderView::Stretch);
    const int numbers = tab == Sweep ? 5 : tables_[tab]->columnCount();
    for (int c = 1; c < numbers; ++c)
      tables_[tab]->horizontalHeaderItem(c)->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
  }
  ulp_ = new UlpPlot;
  auto page = [&](std::initializer_list<QWidget*> widgets, const QString& title) {
    auto* w = new QWidget;
    auto* column = new QVBoxLayout(w);
    column->setContentsMargins(0, 4, 0, 0);
    for (QWidget* one : widgets) column->addWidget(one, qobject_cast<QLabel*>(one) ? 0 : 1);
    tabs_->addTab(w, title);
  };
  insideHead_ = new QLabel;
  insideHead_->setContentsMargins(8, 2, 8, 2);
  insideHead_->setWordWrap(true);
  insideHead_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::LinksAccessibleByMouse);
  connect(insideHead_, &QLabel::linkActivated, this, &RunPanel::nodeChosen);
  sweepPlot_ = new SweepPlot;
  timeline_ = new TimelinePlot;
  page({tables_[Outputs], ulp_}, tr("Outputs"));
  page({insideHead_, tables_[Inside]}, tr("Inside"));
  page({tables_[Operators]}, tr("Operators"));
  page({timeline_}, tr("Timeline"));
  page({sweepPlot_, tables_[Sweep]}, tr("Sweep"));

  auto* controls = new QHBoxLayout;
  controls->addWidget(inputs_, 1);
  for (QWidget* w : std::initializer_list<QWidget*>{inputsMenu_, against_, device_, dtype_, seconds_, inside_, run_})
    controls->addWidget(w);
  // Nothing here takes more room when there is something to say: the drawing above does not jump.
  auto* words = new QWidget;
  auto* lines = new QVBoxLayout(words);
  lines->setContentsMargins(0, 0, 0, 0);
  lines->setSpacing(0);
  lines->addWidget(headline_);
  lines->addWidget(note_);
  words->setFixedHeight(headline_->sizeHint().height());
  auto* title = new QHBoxLayout;
  title->addWidget(words, 1);
  title->addWidget(pin_);
  title->addWidget(copy_);
  auto* left = new QVBoxLayout;
  left->addWidget(plot_);
  left->addWidget(delta_);
  left->addWidget(protocol_, 1);
  auto* figures = new QWidget;
  auto* body = new QHBoxLayout(figures);
  body->setContentsMargins(0, 0, 0, 0);
  body->setSpacing(16);
  body->addLayout(left, 4);
  body->addWidget(tabs_, 6);
  pages_ = new QStackedWidget;
  pages_->addWidget(hint_);
  pages_->addWidget(figures);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(12, 8, 12, 8);
  column->addLayout(controls);
  column->addWidget(progress_);
  column->addLayout(title);
  column->addWidget(pages_, 1);
  // Tab goes as the eye does.
  QWidget* last = inputs_;
  for (QWidget* w : std::initializer_list<QWidget*>{
           inputsMenu_, against_, device_, dtype_, seconds_, inside_, run_, pin_, copy_, plot_, tabs_->tabBar(),
           tables_[Outputs], ulp_, tables_[Inside], tables_[Operators], timeline_, tables_[Sweep], sweepPlot_}) {
    setTabOrder(last, w);
    last = w;
  }
  // Without a run there is nothing to read in them.
  plot_->setRun({}, {});
  ulp_->setCounts({}, {});
  timeline_->setSpans({}, {});
  sweepPlot_->setPoints({});
}

void RunPanel::setInputs(const QString& text) { inputs_->setText(homeAsTilde(text)); }

void RunPanel::setDevices(const QJsonArray& devices) {
  const QString before = device_->currentData().toString();
  device_->clear();
  for (const QJsonValue v : devices) {
    const QJsonObject d = v.toObject();
    device_->addItem(at(d, "name").toString(), at(d, "name").toString());
    device_->setItemData(device_->count() - 1, at(d, "description").toString(), Qt::ToolTipRole);
  }
  if (device_->count() == 0) device_->addItem(QStringLiteral("cpu"), QStringLiteral("cpu"));
  device_->setCurrentIndex(std::max(0, device_->findData(before)));
}

/// PyTorch freezes TorchScript alone: of other formats there is only our own run.
void RunPanel::offerBaselines() {
  const bool isTorchScript = document_.originalFormat() == QLatin1String("torchscript");
  auto* model = static_cast<QStandardItemModel*>(against_->model());
  model->item(0)->setEnabled(isTorchScript);
  against_->setCurrentIndex(isTorchScript ? 0 : 1);
}

void RunPanel::setAgainst(const QString& how) {
  const int i = against_->findData(how);
  if (i >= 0 && static_cast<QStandardItemModel*>(against_->model())->item(i)->isEnabled()) against_->setCurrentIndex(i);
}

bool RunPanel::setDevice(const QString& device, const QString& dtype) {
  const int d = device_->findData(device), t = dtype_->findData(dtype);
  if (d < 0 || t < 0) return false;
  device_->setCurrentIndex(d);
  dtype_->setCurrentIndex(t);
  return true;
}

QString RunPanel::refuse(const QString& error) {
  headline_->showText(tr("Not run: %1").arg(error));
  tint(*headline_, themePalette().wrong());
  return error;
}

void RunPanel::start() {
  if (document_.isRunning() || !document_.isOpen()) return;
  const RunInputs inputs = parseRunInputs(inputs_->text());
  if (!inputs.error.isEmpty()) return static_cast<void>(refuse(inputs.error));
  settings_ = {{QStringLiteral("device"), device_->currentData().toString()},
               {QStringLiteral("seconds"), seconds_->value()},
               {QStringLiteral("baseline"), against()},
               {QStringLiteral("layers"), inside_->isChecked()}};
  if (!dtype_->currentData().toString().isEmpty())
    settings_.insert(QStringLiteral("dtype"), dtype_->currentData().toString());
  sweep_.clear();
  doing_.clear();
  sizes_ = static_cast<qsizetype>(inputs.sets.size());
  fillSweep();
  if (!inputs.file.isEmpty()) {
    settings_.insert(QStringLiteral("inputs"), inputs.file);
    runningLabel_.clear();
    document_.run(settings_);
    return;
  }
  waiting_ = inputs.sets;
  next();
}

/// The next set of a sweep. Inside, only the last is looked at: it is the one whose figures are shown.
void RunPanel::next() {
  const RunInputs::Set set = waiting_.front();
  waiting_.erase(waiting_.begin());
  runningLabel_ = set.label;
  QJsonObject settings = settings_;
  if (!set.specs.isEmpty()) settings.insert(QStringLiteral("inputs"), QJsonArray::fromStringList(set.specs));
  if (!waiting_.empty()) settings.insert(QStringLiteral("layers"), false);
  document_.run(settings);
}

void RunPanel::took() {
  if (!document_.isRunning() && !runningLabel_.isEmpty()) {
    const QString label = std::exchange(runningLabel_, QString());
    if (document_.lastRunWorked()) {
      sweep_.push_back({label, document_.lastRun()});
      fillSweep();
      tabs_->setCurrentIndex(Sweep);
    }
  }
  if (!document_.isRunning() && !document_.lastRunWorked()) waiting_.clear();
  if (!document_.isRunning() && !waiting_.empty()) return next();
  refresh();
}

QJsonObject RunPanel::state() const {
  QJsonArray sweep;
  for (const auto& [label, run] : sweep_) sweep.append(QJsonArray{label, run});
  return {{QStringLiteral("sweep"), sweep}, {QStringLiteral("pinned"), baseline_}};
}

void RunPanel::restore(const QJsonObject& state) {
  sweep_.clear();
  for (const QJsonValue v : at(state, "sweep").toArray())
    sweep_.push_back({v.toArray().at(0).toString(), v.toArray().at(1).toObject()});
  sizes_ = sweep_.size();
  baseline_ = objectAt(state, "pinned");
  fillSweep();
  refresh();
}

void RunPanel::pin() {
  baseline_ = document_.lastRun();
  refresh();
}

void RunPanel::refresh() {
  const QJsonObject& run = document_.lastRun();
  const bool running = document_.isRunning();
  run_->setText(running ? tr("Stop") : tr("Run"));
  run_->setIcon(icon(running ? QStringLiteral("stop") : QStringLiteral("play")));
  run_->setEnabled(document_.isOpen());
  progress_->setVisible(running);
  if (running) progress_->setRange(0, 0);
  const bool any = !run.isEmpty();
  for (QWidget* w : {pin_, copy_}) w->setVisible(any);
  pages_->setCurrentIndex(any ? 1 : 0);
  const Palette& p = themePalette();
  const auto runError = [this] { return document_.lastRunError(); };
  tint(*hint_, p.dim);
  refreshNote();
  if (!any) {
    headline_->showText(running                     ? tr("Measuring…")
                        : document_.lastRunWorked() ? tr("Nothing has been measured yet")
                        : runError().isEmpty()      ? tr("Stopped: nothing has been measured")
                                                    : tr("The run did not finish: %1").arg(runError()));
    tint(*headline_, running || document_.lastRunWorked() || runError().isEmpty() ? p.dim : p.wrong());
    hint_->setText(
        tr("Run (F5) runs the model as opened and the model as it is now on the same inputs, in turns. It shows "
           "latencies and their spread, the differences of each output, the first node inside where the numbers "
           "differ, time and memory. Several sizes at once: i64[B,128]\u00a0B=1,8,32."));
    return;
  }
  bool passed = agrees(run);
  for (const SweepRun& s : sweep_) passed = passed && agrees(s.second);
  headline_->showText(sweep_.size() > 1 ? sweepHeadline(sweep_) : headline(run));
  tint(*headline_, passed ? p.text : p.wrong());
  QStringList inputs;
  for (const QJsonValue v : at(run, "inputs").toArray()) inputs << v.toString();
  protocol_->showText(memoryLine(run) + QLatin1Char('\n') + at(run, "protocol").toString() +
                      (inputs.isEmpty() ? QString() : tr("; inputs %1").arg(inputs.join(QLatin1Char(' ')))) +
                      (baselineName(run).isEmpty() ? QString() : tr(". Operators and nodes: by Graft's executor")));
  tint(*protocol_, p.dim);
  const bool isPinned = !baseline_.isEmpty() && baseline_ != run;
  const bool isBaseline = !baseline_.isEmpty() && !isPinned;
  pin_->setText(isBaseline ? tr("Pinned ✓") : tr("Pin as baseline"));
  pin_->setEnabled(!isBaseline);
  delta_->setVisible(isPinned);
  delta_->showText(isPinned ? tr("Against the pinned run: rewritten %1 (%2 → %3), original %4")
                                  .arg(signedPercent(median(run, "rewritten"), median(baseline_, "rewritten")),
                                       ms(median(baseline_, "rewritten")), ms(median(run, "rewritten")),
                                       signedPercent(median(run, "original"), median(baseline_, "original")))
                            : QString());
  plot_->setRun(run, isPinned ? baseline_ : QJsonObject());
  fillOutputs(run);
  fillInside(run);
  fillOperators(run);
  fillTimeline(run);
}

QList<std::pair<QString, QByteArray>> RunPanel::pictures() {
  QList<std::pair<QString, QByteArray>> out;
  if (document_.lastRun().isEmpty()) return out;
  constexpr int wide = 1000;
  out.append({tr("Latency"), plot_->svg({wide, 150})});
  if (!sweep_.isEmpty()) out.append({tr("Latency over sizes"), sweepPlot_->svg({wide, 220})});
  out.append({tr("Where the time goes"), timeline_->svg({wide, 170})});
  out.append({tr("Differences"), ulp_->svg({wide, 170})});
  return out;
}

PanelDescription runPanel() {
  PanelDescription d;
  d.name = QStringLiteral("run");
  d.title = RunPanel::tr("Run");
  d.help = RunPanel::tr("Runs both models on the same inputs: latency, differences, operators, memory");
  d.area = Qt::BottomDockWidgetArea;
  d.arrangements = {Arrangement::Measure};
  d.size = {0, 380};
  d.make = [](PanelContext& context) {
    auto* run = new RunPanel(context.document());
    QObject::connect(run, &RunPanel::nodeChosen, &context, &PanelContext::nodeAsked);
    EngineClient& engine = context.engine();
    QObject::connect(&engine, &EngineClient::up, run,
                     [run, &engine] { run->setDevices(engine.hello().value(QLatin1String("devices")).toArray()); });
    return run;
  };
  return d;
}

}  // namespace graft
