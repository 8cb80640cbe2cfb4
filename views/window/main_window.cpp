#include "views/window/main_window.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDockWidget>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QJsonArray>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QSplitter>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabWidget>
#include <QToolButton>
#include <utility>

#include "views/canvas/breadcrumb.h"
#include "views/canvas/canvas.h"
#include "views/document/graph_decode.h"
#include "views/panels/diff_view.h"
#include "views/panels/explorer.h"
#include "views/panels/history_panel.h"
#include "views/panels/inspector.h"
#include "views/panels/rules/library_panel.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/rules/why_not_panel.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/file_drop.h"
#include "views/widgets/theme.h"
#include "views/window/command_palette.h"
#include "views/window/welcome.h"

namespace graft {

MainWindow::MainWindow(QStringList engineCommand, QWidget* parent) : QMainWindow(parent) {
  engine_ = new EngineClient(std::move(engineCommand), this);
  document_ = new Document(*engine_, this);
  setWindowIcon(QIcon(QStringLiteral(":/icons/graft.svg")));
  setMinimumSize(800, 560);
  resize(1440, 900);
  setAcceptDrops(true);
  setDockOptions(AllowTabbedDocks | AllowNestedDocks | AnimatedDocks);
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);

  canvas_ = new Canvas;
  canvas_->setOverviewVisible(true);
  before_ = new Canvas;
  before_->hide();
  canvases_ = new QSplitter;
  canvases_->addWidget(before_);
  canvases_->addWidget(canvas_);
  canvases_->setChildrenCollapsible(false);
  canvases_->setHandleWidth(1);
  welcome_ = new WelcomePage;
  pages_ = new QStackedWidget;
  pages_->setMinimumSize(280, 160);  // not the welcome page's: panels get the room they ask for
  pages_->addWidget(welcome_);
  pages_->addWidget(canvases_);
  diff_ = new DiffView(*document_);
  pages_->addWidget(diff_);

  // What went wrong stands above the canvas until it is read; it stops nobody.
  failure_ = new QWidget;
  failure_->setObjectName(QStringLiteral("failure"));
  failureText_ = new QLabel(failure_);
  failureText_->setObjectName(QStringLiteral("failureText"));
  failureText_->setWordWrap(true);
  failureText_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  auto* copy = new QPushButton(tr("Copy details"), failure_);
  auto* dismiss = new QPushButton(tr("Dismiss"), failure_);
  auto* across = new QHBoxLayout(failure_);
  across->setContentsMargins(12, 6, 12, 6);
  across->addWidget(failureText_, 1);
  across->addWidget(copy);
  across->addWidget(dismiss);
  connect(copy, &QPushButton::clicked, this, [this] { QApplication::clipboard()->setText(lastFailure_); });
  connect(dismiss, &QPushButton::clicked, failure_, &QWidget::hide);
  failure_->hide();
  breadcrumb_ = new Breadcrumb;
  auto* centre = new QWidget;
  auto* column = new QVBoxLayout(centre);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(failure_);
  column->addWidget(pages_, 1);
  column->addWidget(breadcrumb_);
  setCentralWidget(centre);

  explorer_ = new Explorer;
  inspector_ = new Inspector(*document_);
  editor_ = new RuleEditor(*document_);
  matches_ = new MatchesPanel(*document_);
  whyNot_ = new WhyNotPanel(*document_);
  history_ = new HistoryPanel(*document_);
  runPanel_ = new RunPanel(*document_);
  patternCanvas_ = new Canvas;
  patternCanvas_->setAutoFit(true);
  patternCanvas_->setPlaceholder(tr("The current rule's pattern is drawn here."));
  ruleTabs_ = new QTabWidget;
  ruleTabs_->setDocumentMode(true);
  ruleTabs_->addTab(matches_, tr("Matches"));
  ruleTabs_->addTab(whyNot_, tr("Why not"));
  auto* rules = new QSplitter(Qt::Vertical);
  rules->addWidget(editor_);
  rules->addWidget(ruleTabs_);
  rules->setStretchFactor(0, 3);
  rules->setStretchFactor(1, 2);
  rules->setHandleWidth(1);
  rules->setSizes({480, 300});
  dock(QStringLiteral("explorer"), tr("Modules"), explorer_, Qt::LeftDockWidgetArea);
  dock(QStringLiteral("rules"), tr("Rules"), rules, Qt::LeftDockWidgetArea);
  library_ = new LibraryPanel(*engine_);
  dock(QStringLiteral("library"), tr("Rule library"), library_, Qt::RightDockWidgetArea)->hide();
  dock(QStringLiteral("inspector"), tr("Inspector"), inspector_, Qt::RightDockWidgetArea);
  dock(QStringLiteral("pattern"), tr("Pattern"), patternCanvas_, Qt::RightDockWidgetArea);
  dock(QStringLiteral("history"), tr("History"), history_, Qt::RightDockWidgetArea);
  // Behind each other: the library draws patterns of its own.
  tabifyDockWidget(dockNamed("pattern"), dockNamed("library"));
  dock(QStringLiteral("run"), tr("Run"), runPanel_, Qt::BottomDockWidgetArea);
  firstPanels_ = saveState(2);
  palette_ = new CommandPalette(this);

  engineLabel_ = new QLabel(tr("engine: starting"));
  engineRetry_ = new QToolButton;
  engineRetry_->setText(tr("Start again"));
  engineRetry_->hide();
  connect(engineRetry_, &QToolButton::clicked, this, [this] {
    engineRetry_->hide();
    engine_->start();
    refreshStatus();
  });
  countLabel_ = new QLabel;
  jobLabel_ = new QLabel;
  jobBar_ = new QProgressBar;
  jobBar_->setMaximumSize(120, 6);
  jobBar_->setTextVisible(false);
  jobStop_ = new QToolButton;
  jobStop_->setObjectName(QStringLiteral("jobStop"));
  jobStop_->setText(tr("Cancel"));
  connect(jobStop_, &QToolButton::clicked, this, [this] {
    if (const int id = engine_->oldestPending()) engine_->cancel(id);
    jobStop_->setEnabled(false);
    jobLabel_->setText(tr("stopping"));
  });
  jobTimer_ = new QTimer(this);
  jobTimer_->setInterval(200);
  connect(jobTimer_, &QTimer::timeout, this, &MainWindow::refreshJob);
  jobTimer_->start();
  engineLabel_->setContentsMargins(10, 0, 8, 0);
  statusBar()->addWidget(engineLabel_);
  statusBar()->addWidget(engineRetry_);
  statusBar()->addWidget(countLabel_);
  for (QWidget* w : std::initializer_list<QWidget*>{jobLabel_, jobBar_, jobStop_}) {
    statusBar()->addPermanentWidget(w);
    w->hide();
  }

  makeActions();
  connectDocument();
  connectCanvases();
  // Files can be dropped anywhere, on what takes text as well. The line of inputs takes them for itself.
  for (QWidget* w : findChildren<QWidget*>())
    if (w->acceptDrops() && !runPanel_->isAncestorOf(w))
      new FileDrop(w, [this](const QString& path) { openModel(path); });
  autosave_ = new QTimer(this);
  autosave_->setInterval(2000);
  connect(autosave_, &QTimer::timeout, this, &MainWindow::autosave);
  autosave_->start();
  setTheme(currentTheme());
  arrange(Arrangement::Explore);
  refreshRecent();
  refreshTitle();
  refreshBreadcrumb();
  engine_->start();
}

// Docks are hidden once more after this, when there is nothing left to arrange.
MainWindow::~MainWindow() { dockNamed("library")->toggleViewAction()->disconnect(this); }

QDockWidget* MainWindow::dock(const QString& name, const QString& title, QWidget* content, Qt::DockWidgetArea area) {
  auto* d = new QDockWidget(title, this);
  d->setObjectName(name);
  d->setWidget(content);
  d->setFeatures(QDockWidget::DockWidgetMovable | QDockWidget::DockWidgetClosable | QDockWidget::DockWidgetFloatable);
  addDockWidget(area, d);
  docks_ << d;
  return d;
}

QDockWidget* MainWindow::dockNamed(const char* name) const {
  return findChild<QDockWidget*>(QString::fromLatin1(name));
}

void MainWindow::connectDocument() {
  connect(document_, &Document::openingChanged, this, &MainWindow::refreshStatus);
  connect(document_, &Document::opened, this, [this] {
    failure_->hide();
    explorer_->search()->clear();  // it was about another model
    canvas_->setGraph(nullptr);
    before_->setGraph(nullptr);
    resumeOptions();
    setTextDiff(false);
    arrange(arrangement_);                                          // the panels that had nothing to show come
    if (arrangement_ == Arrangement::Explore) canvas_->setFocus();  // "/", "i" and "o" work at once
    remember(document_->path());
    refreshTitle();
  });
  connect(document_, &Document::graphChanged, this, &MainWindow::refreshCanvases);
  connect(document_, &Document::otherChanged, this, [this] {
    if (!document_->otherPath().isEmpty()) setCompare(true);
    refreshCanvases();
  });
  connect(document_, &Document::previewChanged, this, &MainWindow::refreshCanvases);
  connect(document_, &Document::previewChanged, this, [this] {
    if (!document_->isPreviewing() || document_->previewRecords().empty()) return;
    QTimer::singleShot(0, this, [this] {  // once both canvases have their place
      if (!document_->isPreviewing()) return;
      canvas_->openTo(document_->previewRecords().front().added.value(0));
      canvas_->zoomToKeys(document_->previewRecords().front().added, 0.75, 0.7);  // two beside each other, legible
    });
  });
  for (auto signal : {&Document::matchesChanged, &Document::currentRuleChanged, &Document::rulesChanged}) {
    connect(document_, signal, this, &MainWindow::refreshDecorations);
    connect(document_, signal, this, &MainWindow::refreshPattern);
    connect(document_, signal, this, &MainWindow::refreshStatus);
  }
  connect(document_, &Document::nearMissesChanged, this, &MainWindow::refreshPattern);
  connect(document_, &Document::runChanged, this, [this] {
    refreshStatus();
    if (!document_->lastRun().isEmpty() && !document_->isRunning() &&
        (overlay_ == Overlay::Time || overlay_ == Overlay::Error)) {
      refreshDecorations();
      if (document_->lastRunWorked()) failure_->hide();  // that nothing was measured
    }
  });
  connect(engine_, &EngineClient::progress, this, [this](int id, const QString& what, qint64 done, qint64 total) {
    if (id != engine_->oldestPending()) return;
    jobWhat_ = what;
    jobBar_->setRange(0, static_cast<int>(total));
    jobBar_->setValue(static_cast<int>(done));
  });
  connect(engine_, &EngineClient::finished, this, [this] {
    jobWhat_.clear();
    jobBar_->setRange(0, 0);
    jobStop_->setEnabled(true);
    refreshJob();
  });
  connect(document_, &Document::selectionChanged, this, &MainWindow::refreshSelection);
  connect(document_, &Document::failed, this, &MainWindow::showFailure);
  // What went wrong before has been overcome.
  connect(document_, &Document::stepsChanged, failure_, &QWidget::hide);
  connect(document_, &Document::exported, failure_, &QWidget::hide);
  connect(document_, &Document::previewChanged, failure_, [this] {
    if (document_->isPreviewing()) failure_->hide();
  });
  connect(document_, &Document::message, this, [this](const QString& text) { statusBar()->showMessage(text, 6000); });
  connect(document_, &Document::exported, this,
          [this](const QString& path) { statusBar()->showMessage(tr("Written: %1").arg(path), 8000); });
  connect(engine_, &EngineClient::up, this, [this] {
    engineRetry_->hide();
    if (std::exchange(saidSlow_, false)) failure_->hide();
    if (!hasWords_)
      engine_->call(QStringLiteral("rules/words"), {}, [this](const EngineReply& reply) {
        QStringList words;
        for (const QJsonValue w : reply.result.value(QLatin1String("words")).toArray()) words << w.toString();
        hasWords_ = !words.isEmpty();
        if (hasWords_) editor_->setWords(words);
      });
    runPanel_->setDevices(engine_->hello().value(QLatin1String("devices")).toArray());
    refreshStatus();
  });
  connect(engine_, &EngineClient::down, this, [this](const QString& why) {
    refreshStatus();
    showFailure(tr("%1. A new engine is being started; your model, rules and steps are untouched").arg(why), why);
    saidDown_ = lastFailure_;
  });
  connect(document_, &Document::engineReplaced, this, [this] {
    // What was said of the one before is told to its end, unless something else has gone wrong since.
    if (!saidDown_.isEmpty() && saidDown_ == lastFailure_ && failure_->isVisibleTo(this))
      showFailure(tr("%1. A new engine is at work; your model, rules and steps are as before")
                      .arg(saidDown_.section(QLatin1Char('\n'), 1)),
                  saidDown_.section(QLatin1Char('\n'), 1));
    saidDown_.clear();
  });
  connect(engine_, &EngineClient::gaveUp, this, [this](const QString& why) {
    engineRetry_->show();
    saidSlow_ = false;
    refreshStatus();
    showFailure(tr("The engine does not start (%1). Models cannot be read or run until it does")
                    .arg(engine_->command().join(QLatin1Char(' '))),
                why);
  });
}

void MainWindow::connectCanvases() {
  for (Canvas* c : {canvas_, before_}) {
    Canvas* other = c == canvas_ ? before_ : canvas_;
    connect(c, &Canvas::viewChanged, this, [this, c, other] { followView(c, other); });
    connect(c, &Canvas::sceneChanged, this, [this, c, other] { followOptions(c, other), refreshStatus(); });
    connect(c, &Canvas::fileDropped, this, [this](const QString& path) { openModel(path); });
    connect(c, &Canvas::hovered, this, [this](const QString& key) {
      const RuleInfo* rule = document_->rule(document_->currentRule());
      QString node;
      if (rule)
        for (const MatchInfo& m : rule->matches)
          if (m.nodes.contains(key)) node = m.map.key(key);
      editor_->setLit(node);
      patternCanvas_->setLit(node.isEmpty() ? QStringList() : QStringList{node});
    });
  }
  connect(canvas_, &Canvas::sceneChanged, this, &MainWindow::resumeView);
  connect(canvas_, &Canvas::selectionEdited, document_, &Document::setSelection);
  connect(before_, &Canvas::selectionEdited, this, [this](const QStringList& keys) {
    QStringList others;
    for (const QString& key : keys) others << counterpart(key, true);
    document_->setSelection(others);
  });
  connect(patternCanvas_, &Canvas::hovered, this, &MainWindow::lightPattern);
  connect(editor_, &RuleEditor::patternHovered, this, &MainWindow::lightPattern);
  connect(matches_, &MatchesPanel::matchChosen, this, [this](const QStringList& nodes) {
    canvas_->reveal(nodes.value(0));
    canvas_->setLit(nodes);
    canvas_->zoomToKeys(nodes);
  });
  connect(matches_, &MatchesPanel::matchHovered, canvas_, &Canvas::setLit);
  connect(matches_, &MatchesPanel::ruleChosen, this, [this](const QString& name) {
    const RuleInfo* rule = document_->rule(name);
    if (rule && rule->line > 0) editor_->showLine(rule->line);  // imported ones have no line here
    document_->setCurrentRule(name);
  });
  connect(matches_, &MatchesPanel::whyNotAsked, this, [this] { action(QStringLiteral("whyNot"))->trigger(); });
  connect(editor_, &RuleEditor::libraryAsked, this, [this] { action(QStringLiteral("library"))->trigger(); });
  connect(whyNot_, &WhyNotPanel::goThere, this, [this](const NearMissInfo& miss) {
    canvas_->reveal(miss.at);
    canvas_->setLit(miss.map.values());
    patternCanvas_->setLit({miss.patternNode});
    editor_->setLit(miss.patternNode);
  });
  connect(whyNot_, &WhyNotPanel::suggested, this, [this](const NearMissInfo& miss) {
    if (!editor_->change(miss.edits))
      showFailure(tr("The rule was not changed"), tr("The text has been changed since; Explain looks at it anew"));
  });
  connect(explorer_, &Explorer::chosen, canvas_, &Canvas::reveal);
  connect(explorer_, &Explorer::left, canvas_, qOverload<>(&QWidget::setFocus));
  connect(library_, &LibraryPanel::openAsked, this, [this](const QString& file, int line) {
    openRules(file);
    if (line > 0) editor_->showLine(line);
  });
  connect(library_, &LibraryPanel::addAsked, this, &MainWindow::addFromLibrary);
  connect(diff_, &DiffView::chosen, this, [this](const QString& node) { document_->setSelection({node}); });
  connect(runPanel_, &RunPanel::nodeChosen, canvas_, &Canvas::reveal);
  connect(inspector_, &Inspector::chosen, canvas_, &Canvas::reveal);
  connect(welcome_, &WelcomePage::openAsked, this, &MainWindow::chooseModel);
  connect(welcome_, &WelcomePage::rulesAsked, this, &MainWindow::chooseRules);
  connect(welcome_, &WelcomePage::tourAsked, this, &MainWindow::showTour);
  connect(welcome_, &WelcomePage::fileChosen, this, [this](const QString& path) { openModel(path); });
  connect(breadcrumb_, &Breadcrumb::chosen, this, [this](const QString& path) {
    if (!path.isEmpty()) return canvas_->reveal(QLatin1Char('@') + path);
    document_->setSelection({});  // the inspector tells of the model
    canvas_->fit();
  });
}

void MainWindow::refreshPattern() {
  const RuleInfo* rule = document_->rule(document_->currentRule());
  patternCanvas_->setGraph(rule ? rule->pattern : nullptr);
  Decorations d;
  if (rule) {
    QSet<QString> reached;
    const bool missing =
        rule->matches.empty() && !document_->nearMisses().empty() && document_->nearMissesOf() == rule->name;
    if (missing)
      for (auto it = document_->nearMisses().front().map.begin(); it != document_->nearMisses().front().map.end(); ++it)
        reached.insert(it.key());
    for (int i = 0; i < rule->patternOrder.size(); ++i)
      if (!missing || reached.contains(rule->patternOrder[i])) d.pattern.insert(rule->patternOrder[i], i);
    d.stale = document_->ruleError().any();
  }
  patternCanvas_->setDecorations(d);
}

void MainWindow::lightPattern(const QString& node) {
  editor_->setLit(node);
  patternCanvas_->setLit(node.isEmpty() ? QStringList() : QStringList{node});
  QStringList nodes;
  const RuleInfo* rule = document_->rule(document_->currentRule());
  if (rule && !node.isEmpty())
    for (const MatchInfo& m : rule->matches)
      if (m.map.contains(node)) nodes << m.map.value(node);
  canvas_->setLit(nodes);
}

void MainWindow::refreshBreadcrumb() {
  const GraphRef g = document_->graph();
  breadcrumb_->setVisible(g != nullptr);
  if (g) breadcrumb_->show(*g, document_->selection().value(0));
}

QString MainWindow::statusText() const { return engineLabel_->text() + QStringLiteral(" · ") + countLabel_->text(); }

void MainWindow::refreshStatus() {
  QStringList devices;
  for (const QJsonValue d : engine_->hello().value(QLatin1String("devices")).toArray())
    devices << d.toObject().value(QLatin1String("name")).toString();
  engineLabel_->setText(engine_->isUp()            ? tr("engine: %1").arg(devices.join(QStringLiteral(", ")))
                        : engineRetry_->isHidden() ? tr("engine: starting")
                                                   : tr("engine: not running"));
  QStringList parts;
  if (const GraphRef g = document_->graph()) {
    parts << counted(static_cast<qint64>(g->nodeCount()), tr("node"), tr("nodes"));
    if (canvas_->isPartial())
      parts << tr("the first %1 boxes, the others are being laid out").arg(canvas_->scene()->view.boxes.size());
    else if (canvas_->scene())
      parts << counted(static_cast<qint64>(canvas_->scene()->view.boxes.size()), tr("box"), tr("boxes"));
    if (const RuleInfo* r = document_->rule(document_->currentRule()); r && r->matched)
      parts << counted(static_cast<qint64>(r->matches.size()), tr("match"), tr("matches"));
  }
  countLabel_->setText(parts.join(QStringLiteral(" · ")));
  refreshJob();
}

/// What the engine has been at for longer than a moment, with its progress and a way to stop it.
void MainWindow::refreshJob() {
  constexpr qint64 aMoment = 400, toStart = 3000;
  const int id = engine_->oldestPending();
  const qint64 waited = id != 0 ? engine_->waitedFor(id) : 0;
  const bool isSlow = !engine_->isUp() && waited > engine_->startPatience();
  const bool busy = isSlow || waited > (engine_->isUp() ? aMoment : toStart);
  if (isSlow && !saidSlow_) {
    saidSlow_ = true;
    showFailure(tr("The engine has not answered for %1 seconds and is still waited for; Cancel, below, gives it up")
                    .arg(waited / 1000),
                engine_->command().join(QLatin1Char(' ')));
  }
  for (QWidget* w : std::initializer_list<QWidget*>{jobLabel_, jobBar_, jobStop_}) w->setVisible(busy);
  if (!busy || !jobStop_->isEnabled()) return;
  static const QHash<QString, QString> words = {{QStringLiteral("initialize"), tr("starting the engine")},
                                                {QStringLiteral("model/open"), tr("reading the model")},
                                                {QStringLiteral("model/close"), tr("closing a model")},
                                                {QStringLiteral("model/undoTo"), tr("going to a step")},
                                                {QStringLiteral("rules/check"), tr("reading the rules")},
                                                {QStringLiteral("rules/words"), tr("listing what rules can call")},
                                                {QStringLiteral("node/describe"), tr("describing a node")},
                                                {QStringLiteral("node/source"), tr("reading the source")},
                                                {QStringLiteral("model/run"), tr("running")},
                                                {QStringLiteral("model/export"), tr("writing the model")},
                                                {QStringLiteral("model/diff"), tr("comparing texts")},
                                                {QStringLiteral("rules/match"), tr("matching")},
                                                {QStringLiteral("rules/apply"), tr("rewriting")},
                                                {QStringLiteral("rules/explain"), tr("explaining")},
                                                {QStringLiteral("node/weight"), tr("reading a weight")}};
  const QString method = engine_->methodOf(id);
  const bool isOpening = method == QLatin1String("model/open") && document_->isOpening();
  jobLabel_->setText(isOpening            ? tr("reading %1").arg(document_->openingName())
                     : jobWhat_.isEmpty() ? words.value(method, method)
                                          : jobWhat_);
}

void MainWindow::refreshFailure() {
  const Palette& p = themePalette();
  failure_->setAutoFillBackground(true);
  failure_->setStyleSheet(QStringLiteral("QWidget{background:%1}QPushButton{border:1px solid %2}")
                              .arg(css(mix(p.background, p.change(Change::Removed), 0.16)),
                                   css(mix(p.background, p.change(Change::Removed), 0.5))));
}

void MainWindow::showFailure(const QString& what, const QString& why) {
  lastFailure_ = what + QLatin1Char('\n') + why;
  refreshFailure();
  const QString detail =
      why == what || what.contains(why) ? QString() : QStringLiteral(": ") + why.section(QLatin1Char('\n'), 0, 2);
  failureText_->setText(what + detail + (detail.endsWith(QLatin1Char('.')) ? QString() : QStringLiteral(".")));
  failure_->show();
}

void MainWindow::refreshTitle() {
  const QString name =
      document_->isOpen() ? QFileInfo(document_->path()).fileName() + QStringLiteral(" — ") : QString();
  setWindowTitle(name + QStringLiteral("Graft"));
}

}  // namespace graft
