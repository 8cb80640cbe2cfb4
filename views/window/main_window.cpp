#include "views/window/main_window.h"

#include <QApplication>
#include <QCloseEvent>
#include <QDropEvent>
#include <QFileInfo>
#include <QMimeData>
#include <QResizeEvent>
#include <QScreen>
#include <QSettings>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabBar>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <utility>

#include "views/canvas/accessible/canvas_accessible.h"
#include "views/canvas/breadcrumb.h"
#include "views/panels/captured/break_strip.h"
#include "views/panels/captured/graph_picker.h"
#include "views/panels/captured/training_page.h"
#include "views/panels/diff_view.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/run/run_panel.h"
#include "views/panels/run/side_by_side_panel.h"
#include "views/widgets/file_drop.h"
#include "views/widgets/theme.h"
#include "views/window/actions.h"
#include "views/window/command_palette.h"
#include "views/window/compile/compile_view.h"
#include "views/window/failure_bar.h"
#include "views/window/files/opening_note.h"
#include "views/window/files/window_session.h"
#include "views/window/outcome_card.h"
#include "views/window/panel_focus.h"
#include "views/window/status_line.h"
#include "views/window/tour.h"
#include "views/window/welcome.h"

namespace graft {

MainWindow::MainWindow(QStringList engineCommand, QWidget* parent) : QMainWindow(parent) {
  installCanvasAccessibility();
  engine_ = new EngineClient(std::move(engineCommand), this);
  document_ = new Document(*engine_, this);
  context_ = new PanelContext(*document_, *engine_, this);
  setMinimumSize(800, 560);
  resize(1440, 900);
  setAcceptDrops(true);
  setDockOptions(AllowTabbedDocks | AllowNestedDocks | AnimatedDocks);
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  setCentralWidget(makeCentre());
  docks_ = new PanelDocks(*this, *context_);
  palette_ = new CommandPalette(this);
  status_ = new StatusLine(*statusBar(), *document_, *engine_, *canvas());
  files_ = new WindowFiles(*this, *document_, *panel<RuleEditor>(), *panel<RunPanel>());
  session_ = new WindowSession(*document_, context_->cut(), *comparison_, *docks_, *files_, this);
  actions_ = new Actions(*this);
  trainingButton_->setDefaultAction(action(QStringLiteral("training")));
  compile_ = new CompileView(*this);
  connectDocument();
  connectCanvases();
  connectPanels();
  connectFiles();
  // Files can be dropped anywhere, on what takes text as well, but where a widget takes them for itself.
  for (QWidget* w : findChildren<QWidget*>())
    if (w->acceptDrops() && !FileDrop::isOn(*w)) new FileDrop(w, [this](const QString& path) { openModel(path); });
  setTheme(currentTheme());
  setWindowIcon(icon(QStringLiteral("graft")));  // a file's would load every plugin that reads pictures
  arrange(Arrangement::Explore);
  refreshBreadcrumb();
  setWindowTitle(QStringLiteral("Graft"));
  engine_->start();
}

// Qt hides the docks once more later: there is nothing left to arrange then.
MainWindow::~MainWindow() { delete docks_; }

QWidget* MainWindow::makeCentre() {
  comparison_ = new Comparison(*document_);
  welcome_ = new WelcomePage;
  diff_ = new DiffView(*document_);
  training_ = new TrainingPage(*context_);
  pages_ = new QStackedWidget;
  pages_->setMinimumSize(280, 160);  // not the welcome page's: panels get the room they ask for
  openingPage_ = new OpeningNote(OpeningNote::Page, *document_, *engine_);
  openingBar_ = new OpeningNote(OpeningNote::Bar, *document_, *engine_);
  openingBar_->hide();
  for (QWidget* page : std::initializer_list<QWidget*>{welcome_, openingPage_, comparison_, diff_, training_})
    pages_->addWidget(page);
  failure_ = new FailureBar(*document_, *engine_);
  outcome_ = new OutcomeCard(*document_, *comparison_->canvas());
  breadcrumb_ = new Breadcrumb;
  auto* centre = new QWidget;
  auto* column = new QVBoxLayout(centre);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* below = new QHBoxLayout;
  below->setContentsMargins(0, 0, 0, 0);
  below->setSpacing(0);
  below->addWidget(new GraphPicker(*context_, context_->capture()));
  trainingButton_ = new QToolButton;
  trainingButton_->setObjectName(QStringLiteral("trainingButton"));
  trainingButton_->setProperty("outlined", true);
  trainingButton_->hide();
  below->addWidget(trainingButton_);
  below->addWidget(breadcrumb_, 1);
  column->addWidget(failure_);
  column->addWidget(openingBar_);
  column->addWidget(new BreakStrip(*context_, context_->capture()));
  column->addWidget(pages_, 1);
  column->addLayout(below);
  return centre;
}

void MainWindow::connectDocument() {
  connect(document_, &Document::openingChanged, this, &MainWindow::showOpening);
  connect(document_, &Document::opened, this, &MainWindow::begin);
  connect(document_, &Document::graphChanged, this, &MainWindow::refreshBreadcrumb);
  connect(document_, &Document::selectionChanged, this, &MainWindow::refreshBreadcrumb);
  connect(document_, &Document::runChanged, this, [this] {
    const bool showsRun = comparison_->overlay() == Overlay::Time || comparison_->overlay() == Overlay::Error;
    if (document_->lastRun().isEmpty() || document_->isRunning() || !showsRun) return;
    comparison_->refreshDecorations();
    if (document_->lastRunWorked()) failure_->hide();  // it said that nothing was measured
  });
  connect(document_, &Document::message, this, [this](const QString& text) { status_->tell(text, 6000); });
  connect(outcome_, &OutcomeCard::nodeAsked, canvas(), &Canvas::reveal);
  connect(status_, &StatusLine::failed, failure_, &FailureBar::showFailure);
  connect(status_, &StatusLine::overcome, failure_, &QWidget::hide);
}

/// At once where there is nothing else to see; over a drawing, where it takes longer than a moment.
void MainWindow::showOpening() {
  const bool isOpening = document_->isOpening();
  if (!document_->isOpen()) {
    const bool hadFocus = pages_->isAncestorOf(QApplication::focusWidget());
    pages_->setCurrentWidget(isOpening ? static_cast<QWidget*>(openingPage_) : welcome_);
    if (hadFocus) pages_->currentWidget()->setFocus();
  }
  if (!isOpening) return openingBar_->hide();
  constexpr int aMoment = 400;
  QTimer::singleShot(aMoment, openingBar_,
                     [this] { openingBar_->setVisible(document_->isOpening() && document_->isOpen()); });
}

/// Another model is open.
void MainWindow::begin() {
  comparison_->clear();
  const QString shown = document_->path() + QLatin1Char('#') + document_->method();
  if (std::exchange(shownPath_, shown) != shown) comparison_->forgetOpened();
  session_->resumeOptions();
  const bool staysTraining = std::exchange(wantsTraining_, false) || showsTraining();
  setTextDiff(false);
  if (staysTraining && document_->isJoint()) setTraining(true);
  arrange(docks_->arrangement());                                     // panels that had nothing to show come
  if (docks_->arrangement() == Arrangement::Explore) focusDrawing();  // "/", "i" and "o" work at once
  trainingButton_->setVisible(document_->isJoint());
  setWindowTitle(QFileInfo(document_->path()).fileName() + QStringLiteral(" — Graft"));
}

void MainWindow::connectCanvases() {
  for (Canvas* c : {canvas(), beforeCanvas()}) {
    connect(document_, &Document::selectionChanged, c, [c] { tellSelection(*c); });
    connect(c, &Canvas::sceneChanged, this, [c] { tellDrawing(*c); });
    connect(c, &Canvas::fileDropped, this, [this](const QString& path) { openModel(path); });
    connect(c, &Canvas::hovered, context_, &PanelContext::lightPatternOf);
    connect(c, &Canvas::escaped, document_, &Document::endPreview);
  }
  connect(comparison_, &Comparison::failed, failure_, &FailureBar::showFailure);
  connect(comparison_, &Comparison::message, this, [this](const QString& text) { status_->tell(text, 4000); });
  connect(comparison_, &Comparison::overlayChanged, actions_, &Actions::showOverlay);
  connect(comparison_, &Comparison::numbersChanged, this, [this](const NodeNumbers& numbers) {
    QMap<QString, double> values;
    for (const auto& [name, value] : numbers.values) values.insert(QString::fromStdString(name), value);
    Q_EMIT context_->numbersChanged(QString::fromStdString(numbers.title), values);
  });
  connect(diff_, &DiffView::chosen, this, [this](const QString& node) { document_->setSelection({node}); });
  connect(breadcrumb_, &Breadcrumb::chosen, this, [this](const QString& path) {
    if (!path.isEmpty()) return canvas()->reveal(QLatin1Char('@') + path);
    document_->setSelection({});  // the inspector tells of the model
    canvas()->fit();
  });
}

void MainWindow::connectPanels() {
  connect(docks_, &PanelDocks::arranged, this, &MainWindow::afterArranging);
  connect(docks_, &PanelDocks::keyboardLost, this, &MainWindow::focusDrawing);
  connect(context_, &PanelContext::nodeAsked, canvas(), &Canvas::reveal);
  connect(context_, &PanelContext::matchAsked, comparison_, &Comparison::showMatch);
  connect(panel<SideBySidePanel>(), &SideBySidePanel::pairAsked, this,
          [this](const GraphRef& a, const GraphRef& b, const QString& nameA, const QString& nameB) {
            if (showsTraining() || showsTextDiff()) showPage(comparison_);
            comparison_->showPair({a, b, nameA, nameB});
          });
  connect(context_, &PanelContext::nodesLit, canvas(), &Canvas::setLit);
  connect(context_, &PanelContext::canvasAsked, canvas(), qOverload<>(&QWidget::setFocus));
  connect(context_, &PanelContext::failed, failure_, &FailureBar::showFailure);
  connect(context_, &PanelContext::actionAsked, this, [this](const QString& name) { action(name)->trigger(); });
  connect(context_, &PanelContext::arrangementAsked, this, [this](Arrangement arrangement) {
    if (docks_->arrangement() != arrangement) arrange(arrangement);  // else what else shows there stays
  });
  connect(context_, &PanelContext::panelAsked, docks_, &PanelDocks::show);
  connect(context_, &PanelContext::graphAsked, this, [this](const QString& name) {
    if (name != document_->method()) openModel(document_->path(), {}, name);
  });
  connect(context_, &PanelContext::rulesAsked, this, [this](const QString& file, int line) {
    openRules(file);
    if (line > 0) panel<RuleEditor>()->showLine(line);
  });
}

void MainWindow::connectFiles() {
  connect(files_, &WindowFiles::failed, failure_, &FailureBar::showFailure);
  connect(files_, &WindowFiles::message, status_, &StatusLine::tell);
  connect(files_, &WindowFiles::written, this, &MainWindow::written);
  connect(files_, &WindowFiles::recentChanged, this, &MainWindow::refreshRecent);
  connect(files_, &WindowFiles::rulesOpened, this, [this] {
    panel<RulesPanel>()->showBest();
    if (docks_->arrangement() != Arrangement::Rewrite && isVisible()) arrange(Arrangement::Rewrite);
  });
  connect(session_, &WindowSession::trainingAsked, this, [this] { wantsTraining_ = true; });
  connect(session_, &WindowSession::failed, failure_, &FailureBar::showFailure);
  connect(session_, &WindowSession::message, this, [this](const QString& text) { status_->tell(text, 20000); });
  connect(welcome_, &WelcomePage::openAsked, files_, &WindowFiles::chooseModel);
  connect(welcome_, &WelcomePage::rulesAsked, files_, &WindowFiles::chooseRules);
  connect(welcome_, &WelcomePage::tourAsked, this, &MainWindow::showTour);
  connect(welcome_, &WelcomePage::fileChosen, this, [this](const QString& path) { openModel(path); });
}

void MainWindow::afterArranging(Arrangement arrangement) {
  action(PanelDocks::nameOf(arrangement))->setChecked(true);
  if (arrangement == Arrangement::Explore) focusDrawing();
  QTimer::singleShot(0, this, &MainWindow::skipUnusedTabBars);  // once the panels have their places
  const bool compares = arrangement == Arrangement::Measure;
  if (compares != comparison_->isComparing()) setCompare(compares);
  comparison_->setShowingMatches(arrangement != Arrangement::Explore);
  compile_->setShown(arrangement == Arrangement::Compile);
  if (tour_) QTimer::singleShot(0, tour_, &Tour::settle);
}

/// Qt keeps tab bars for docks that might lie behind each other, outside of the window: Tab would stop there, unseen.
void MainWindow::skipUnusedTabBars() {
  for (QTabBar* bar : findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly))
    bar->setFocusPolicy(rect().intersects(bar->geometry()) ? Qt::TabFocus : Qt::NoFocus);
}

/// Where there is none yet, the page that offers to open one.
void MainWindow::focusDrawing() {
  const bool isDrawn = document_->isOpen();
  (isDrawn ? static_cast<QWidget*>(canvas()) : pages_->currentWidget())->setFocus();
}

void MainWindow::focusNextPart(int step) { graft::focusNextPart(*this, *pages_->currentWidget(), step); }

void MainWindow::showRuleTab(RulesPanel::Tab tab) {
  if (docks_->arrangement() != Arrangement::Rewrite) arrange(Arrangement::Rewrite);
  panel<RulesPanel>()->showTab(tab);
}

void MainWindow::setTextDiff(bool on) { showPage(on ? static_cast<QWidget*>(diff_) : comparison_); }

/// The page in the middle, once a model is open.
void MainWindow::showPage(QWidget* page) {
  action(QStringLiteral("textDiff"))->setChecked(page == diff_);
  action(QStringLiteral("training"))->setChecked(page == training_);
  if (document_->isOpen()) pages_->setCurrentWidget(page);
  training_->setShown(showsTraining());
}

bool MainWindow::showsTraining() const { return pages_->currentWidget() == training_; }

void MainWindow::setTraining(bool on) {
  if (!on || document_->isJoint()) return showPage(on ? static_cast<QWidget*>(training_) : comparison_);
  showPage(pages_->currentWidget());
  const QString joint = CapturedGraphInfo::sibling(document_->method(), QStringLiteral("joint"));
  if (!document_->capturedGraphs().contains(joint))
    return failure_->showFailure(
        tr("This model is no training step"),
        tr("capture one in Python with graft_fx.capture(model, inputs, \"net.fx\", joint=True), "
           "and open that file"));
  wantsTraining_ = true;
  openModel(document_->path(), {}, joint);
}

bool MainWindow::showsTextDiff() const { return pages_->currentWidget() == diff_; }

void MainWindow::setTheme(Theme theme) {
  applyTheme(theme);
  comparison_->refreshTheme();
  Q_EMIT context_->themeChanged();
  failure_->refreshTheme();
  openingBar_->refreshTheme();
  outcome_->refreshTheme();
  if (tour_) tour_->refreshTheme();
  diff_->refreshTheme();
  for (QAction* a : findChildren<QAction*>())
    if (a->property("iconName").isValid()) a->setIcon(icon(a->property("iconName").toString()));
  refreshRecent();
  // What these views show has colours of the theme in it.
  Q_EMIT document_->selectionChanged();
  Q_EMIT document_->runChanged();
  Q_EMIT document_->nearMissesChanged();
  Q_EMIT document_->rulesChanged();
}

void MainWindow::refreshBreadcrumb() {
  const GraphRef g = document_->graph();
  breadcrumb_->setVisible(g != nullptr);
  if (g) breadcrumb_->show(*g, document_->selection().value(0));
}

void MainWindow::refreshRecent() {
  const QStringList recent = WindowFiles::recent();
  actions_->setRecent(recent);
  welcome_->setFiles(recent, WindowFiles::samples(recent));
}

QString MainWindow::statusText() const { return status_->text(); }

void MainWindow::openPalette() {
  const bool isDrawn = document_->isOpen();
  palette_->open(actions_->forPalette(), isDrawn ? static_cast<QWidget*>(canvas()) : pages_->currentWidget());
}

void MainWindow::showTour() {
  if (!tour_) {
    tour_ = new Tour(*document_, this);
    connect(tour_, &Tour::asked, this, [this](const QString& name) {
      activateWindow();
      if (QAction* a = action(name)) a->trigger();
    });
    connect(this, &MainWindow::written, tour_, &Tour::noteWritten);
    tour_->setPlace([this](QSize size) { return placeBeside(size); });
  }
  tour_->show();
  tour_->raise();
}

/// Beside the window where the screen has room; else over the drawing, but not over its corners, where a legend, a
/// title and the overview stand.
QPoint MainWindow::placeBeside(QSize size) const {
  constexpr int gap = 8, frame = 32, corner = 64;
  const QRect room = screen()->availableGeometry(), own = frameGeometry();
  if (own.right() + gap + size.width() <= room.right()) return {own.right() + gap, own.top() + corner};
  if (own.left() - gap - size.width() >= room.left()) return {own.left() - gap - size.width(), own.top() + corner};
  const QPoint bottom = pages_->mapToGlobal(QPoint(2 * gap, pages_->height() - corner - frame - size.height()));
  return {bottom.x(), std::max(bottom.y(), mapToGlobal(QPoint(0, corner)).y())};
}

QJsonObject MainWindow::sessionState() const { return session_->state(); }

void MainWindow::restoreSession(bool files) {
  if (!restoreGeometry(QSettings().value(QStringLiteral("geometry")).toByteArray())) fitScreen();
  const QJsonObject state = session_->restore(files);
  arrange(static_cast<Arrangement>(std::clamp(state.value(QLatin1String("arrangement")).toInt(), 0, 3)));
}

/// A first window that does not fit a small screen fills it instead.
void MainWindow::fitScreen() {
  constexpr int titleBar = 40;
  const QSize room = screen()->availableSize() - QSize(0, titleBar);
  if (room.width() >= width() && room.height() >= height()) return;
  resize(size().boundedTo(room));
  setWindowState(windowState() | Qt::WindowMaximized);
}

void MainWindow::closeEvent(QCloseEvent* e) {
  if (!files_->mayDiscardRules()) return e->ignore();
  session_->close();
  QSettings().setValue(QStringLiteral("geometry"), saveGeometry());
  if (document_->isOpen()) docks_->save();
  e->accept();
}

/// Another program may have corrected a mistake in an imported file meanwhile.
void MainWindow::changeEvent(QEvent* e) {
  QMainWindow::changeEvent(e);
  if (e->type() != QEvent::ActivationChange || !isActiveWindow() || !document_->ruleError().any()) return;
  const auto* editor = panel<RuleEditor>();
  document_->setRules(editor->text(), editor->file(), true);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* e) {
  if (e->mimeData()->hasUrls()) e->acceptProposedAction();
}

/// A window that is made smaller takes of its panels, not of the drawing alone.
void MainWindow::resizeEvent(QResizeEvent* e) {
  QMainWindow::resizeEvent(e);
  const QSize now = e->size(), was = e->oldSize();
  if (!was.isValid()) return;
  if (now.width() < was.width() || now.height() < was.height()) docks_->leaveRoom();
  if (now.width() > was.width()) docks_->giveBack();
}

void MainWindow::dropEvent(QDropEvent* e) {
  for (const QUrl& url : e->mimeData()->urls())
    if (url.isLocalFile()) openModel(url.toLocalFile());
}

}  // namespace graft
