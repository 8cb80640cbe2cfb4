// The window's menus and tool bar, and what its actions do.
#include <QActionGroup>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QSettings>
#include <QTimer>
#include <QToolBar>
#include <QToolButton>

#include "views/canvas/canvas.h"
#include "views/document/graph_decode.h"
#include "views/panels/diff_view.h"
#include "views/panels/explorer.h"
#include "views/panels/rules/library_panel.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/rules/rule_from_selection.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/theme.h"
#include "views/window/command_palette.h"
#include "views/window/main_window.h"
#include "views/window/tour.h"

namespace graft {
namespace {

/// "Take back Attention  Ctrl+Alt+Z".
QString tipOf(const QAction& a) {
  return a.text().remove(QLatin1Char('&')).remove(QStringLiteral("…")) + QStringLiteral("  ") +
         a.shortcut().toString(QKeySequence::NativeText);
}

/// The text of a rule file that more rules can be put behind.
QString withImports(const QString& text) {
  if (!text.trimmed().isEmpty()) return text.trimmed();
  return QStringLiteral(
      "import torch\nimport torch.nn.functional as F\nfrom graft import Recipe, Rule, Tensor, Weight, any_of, kernels, "
      "optional");
}

}  // namespace

QAction* MainWindow::add(QMenu* menu, const QString& name, const QString& text, const QKeySequence& keys,
                         std::function<void()> run, const QString& iconName) {
  auto* a = new QAction(text, this);
  a->setObjectName(name);
  a->setShortcut(keys);
  if (!iconName.isEmpty()) {
    a->setIcon(icon(iconName));
    a->setProperty("iconName", iconName);
  }
  if (!keys.isEmpty()) a->setToolTip(tipOf(*a));
  connect(a, &QAction::triggered, this, [run = std::move(run)] { run(); });
  menu->addAction(a);
  addAction(a);
  return a;
}

void MainWindow::makeActions() {
  const auto s = [](const char* text) { return QString::fromLatin1(text); };
  QMenu* file = menuBar()->addMenu(tr("&File"));
  QAction* open = add(
      file, s("open"), tr("&Open model…"), QKeySequence::Open, [this] { chooseModel(); }, s("open"));
  add(file, s("chooseInputs"), tr("Example &inputs, for shapes…"), {}, [this] { chooseInputs(); });
  recentMenu_ = file->addMenu(tr("Open &recent"));
  add(file, s("openRules"), tr("Open r&ules…"), tr("Ctrl+Shift+O"), [this] { chooseRules(); });
  add(file, s("library"), tr("Rule &library"), tr("Ctrl+L"), [this] {
    // Beside the rules, where there is room for it.
    const bool comes = arrangement_ != Arrangement::Rewrite && document_->isOpen();
    if (comes) arrange(Arrangement::Rewrite);
    QDockWidget* library = dockNamed("library");
    library->setVisible(comes || !library->isVisible());
    library->raise();
  });
  connect(dockNamed("library")->toggleViewAction(), &QAction::toggled, this, &MainWindow::makeRoomForLibrary);
  add(file, s("saveRules"), tr("&Save rules"), QKeySequence::Save, [this] { saveRules(false); });
  add(file, s("saveRulesAs"), tr("Save rules &as…"), QKeySequence::SaveAs, [this] { saveRules(true); });
  file->addSeparator();
  QAction* exportAction = add(
      file, s("exportModel"), tr("&Export rewritten model…"), tr("Ctrl+E"), [this] { exportModel(); }, s("save"));
  add(file, s("exportDrawing"), tr("Export &drawing…"), tr("Ctrl+Shift+E"), [this] { exportDrawing(); });
  add(file, s("exportReport"), tr("Export re&port…"), {}, [this] { exportReport(); });
  file->addSeparator();
  add(file, s("quit"), tr("&Quit"), QKeySequence::Quit, [this] { close(); });

  QMenu* edit = menuBar()->addMenu(tr("&Edit"));
  QAction* undo = add(
      edit, s("undo"), tr("Take back"), tr("Ctrl+Alt+Z"), [this] { document_->undo(); }, s("undo"));
  QAction* redo = add(
      edit, s("redo"), tr("Do again"), tr("Ctrl+Alt+Shift+Z"), [this] { document_->redo(); }, s("redo"));
  const auto refreshSteps = [this, undo, redo] {
    const HistoryCache& history = document_->history();
    undo->setEnabled(history.canUndo());
    redo->setEnabled(history.canRedo());
    const QString last = history.undoLabel(), next = history.redoLabel();
    undo->setText(last.isEmpty() ? tr("Take back") : tr("Take back %1").arg(last));
    redo->setText(next.isEmpty() ? tr("Do again") : tr("Do %1 again").arg(next));
    for (QAction* a : {undo, redo}) a->setToolTip(tipOf(*a));
  };
  connect(document_, &Document::stepsChanged, this, refreshSteps);
  refreshSteps();
  // Ctrl+Z takes back a step of the model, in the editor a step of the text.
  add(edit, s("undoAny"), tr("&Undo"), QKeySequence::Undo, [this] {
    if (QWidget* w = QApplication::focusWidget(); w && editor_->isAncestorOf(w))
      QMetaObject::invokeMethod(w, "undo");
    else
      document_->undo();
  });
  add(edit, s("redoAny"), tr("&Redo"), tr("Ctrl+Shift+Z"), [this] {
    if (QWidget* w = QApplication::focusWidget(); w && editor_->isAncestorOf(w))
      QMetaObject::invokeMethod(w, "redo");
    else
      document_->redo();
  });
  edit->addSeparator();
  add(
      edit, s("find"), tr("&Find in the graph"), QKeySequence::Find,
      [this] {
        for (QDockWidget* d : docks_)
          if (d->objectName() == QLatin1String("explorer")) d->show(), d->raise();
        explorer_->search()->setFocus();
        explorer_->search()->selectAll();
      },
      s("find"));
  auto* slash = new QAction(canvas_);
  slash->setShortcut(QKeySequence(Qt::Key_Slash));
  slash->setShortcutContext(Qt::WidgetShortcut);
  canvas_->addAction(slash);
  connect(slash, &QAction::triggered, this, [this] { action(QStringLiteral("find"))->trigger(); });
  add(edit, s("fromSelection"), tr("New rule from the &selection"), tr("Ctrl+Shift+R"),
      [this] { ruleFromSelection(); });

  QMenu* rules = menuBar()->addMenu(tr("&Rules"));
  QAction* apply = add(
      rules, s("apply"), tr("&Apply ticked matches"), tr("Ctrl+Return"), [this] { matches_->applyTicked(); },
      s("apply"));
  QAction* verifyEach = add(rules, s("prove"), tr("P&rove each rewrite"), {}, [] {});
  verifyEach->setCheckable(true);
  verifyEach->setToolTip(tr(
      "Runs each rewrite beside what it replaces and takes back what computes something else; slow for large models"));
  connect(verifyEach, &QAction::toggled, this, [this](bool on) {
    document_->setVerifying(on);
    QSettings().setValue(QStringLiteral("prove"), on);
  });
  verifyEach->setChecked(QSettings().value(QStringLiteral("prove"), true).toBool());
  document_->setVerifying(verifyEach->isChecked());
  add(rules, s("preview"), tr("&Preview"), tr("Ctrl+Shift+Return"), [this] { matches_->togglePreview(); });
  add(
      rules, s("nextMatch"), tr("&Next match"), Qt::Key_F3, [this] { matches_->next(1); }, s("next"));
  add(rules, s("previousMatch"), tr("P&revious match"), tr("Shift+F3"), [this] { matches_->next(-1); });
  add(rules, s("whyNot"), tr("&Why not?"), tr("Ctrl+Y"), [this] {
    showRuleTab(1);
    document_->explain(document_->currentRule());
  });
  add(rules, s("explainHere"), tr("Why not &here?"), {}, [this] {
    showRuleTab(1);
    document_->explain(document_->currentRule(), document_->selection().value(0));
  });

  QMenu* view = menuBar()->addMenu(tr("&View"));
  auto* group = new QActionGroup(this);
  const std::array<std::tuple<const char*, QString, const char*, Arrangement>, 3> kinds = {
      std::tuple{"explore", tr("&Explore"), "explore", Arrangement::Explore},
      std::tuple{"rewrite", tr("&Rewrite"), "rewrite", Arrangement::Rewrite},
      std::tuple{"measure", tr("&Measure"), "measure", Arrangement::Measure}};
  QList<QAction*> arrangements;
  for (int i = 0; i < 3; ++i) {
    const auto& [name, text, iconName, arrangement] = kinds[static_cast<size_t>(i)];
    QAction* a = add(
        view, QString::fromLatin1(name), text, QStringLiteral("Ctrl+%1").arg(i + 1),
        [this, arrangement = arrangement] { arrange(arrangement); }, QString::fromLatin1(iconName));
    a->setCheckable(true);
    group->addAction(a);
    arrangements << a;
  }
  view->addSeparator();
  QAction* compare = add(
      view, s("compare"), tr("&Compare with the original"), tr("Ctrl+D"),
      [this] {
        if (comparing_ && !document_->otherPath().isEmpty()) document_->compareWith({});
        setCompare(!comparing_);
      },
      s("compare"));
  compare->setCheckable(true);
  QAction* textDiff = add(view, s("textDiff"), tr("Differences as &text"), tr("Ctrl+Shift+D"),
                          [this] { setTextDiff(pages_->currentWidget() != diff_); });
  textDiff->setCheckable(true);
  add(view, s("compareWith"), tr("Compare with another &file…"), {}, [this] { chooseOther(); });
  add(view, s("nextChange"), tr("Next c&hange"), Qt::Key_F8, [this] { nextChange(1); });
  add(view, s("previousChange"), tr("Previous change"), tr("Shift+F8"), [this] { nextChange(-1); });
  view->addSeparator();
  QAction* fit = add(
      view, s("fit"), tr("&Fit"), tr("Ctrl+0"), [this] { canvas_->fit(); }, s("fit"));
  add(view, s("zoomIn"), tr("Zoom &in"), QKeySequence::ZoomIn, [this] { canvas_->zoomIn(); });
  add(view, s("zoomOut"), tr("Zoom &out"), QKeySequence::ZoomOut, [this] { canvas_->zoomOut(); });
  add(view, s("zoomSelection"), tr("Zoom to the &selection"), tr("Ctrl+Shift+0"),
      [this] { canvas_->zoomToKeys(document_->selection()); });
  QMenu* depth = view->addMenu(tr("Open modules to &depth"));
  for (int d = 0; d <= 4; ++d)
    add(depth, QStringLiteral("depth%1").arg(d), d == 0 ? tr("All collapsed") : tr("Depth %1").arg(d),
        QStringLiteral("Alt+%1").arg(d), [this, d] { canvas_->setDepth(d); });
  add(depth, s("depthAll"), tr("All open"), tr("Alt+9"), [this] { canvas_->setDepth(-1); });
  QMenu* colour = view->addMenu(tr("Colours of &nodes"));
  for (const auto& [name, text, overlay] : {std::tuple{"colourKind", tr("Colour by kind and matches"), Overlay::Kind},
                                            std::tuple{"colourTime", tr("Colour by time"), Overlay::Time},
                                            std::tuple{"colourError", tr("Colour by error"), Overlay::Error},
                                            std::tuple{"colourWeights", tr("Colour by weight size"), Overlay::Weights}})
    add(colour, s(name), text, {}, [this, overlay = overlay] { setOverlay(overlay); });
  view->addSeparator();
  for (QDockWidget* d : docks_) {
    d->toggleViewAction()->setText(tr("Panel: %1").arg(d->windowTitle()));
    view->addAction(d->toggleViewAction());
    addAction(d->toggleViewAction());  // the palette lists the window's
  }
  add(view, s("resetPanels"), tr("Panels as at the &beginning"), {}, [this] { resetPanels(); });
  view->addSeparator();
  add(
      view, s("theme"), tr("&Light or dark"), tr("Ctrl+Shift+L"),
      [this] {
        const Theme theme = currentTheme() == Theme::Dark ? Theme::Light : Theme::Dark;
        QSettings().setValue(QStringLiteral("theme"),
                             theme == Theme::Dark ? QStringLiteral("dark") : QStringLiteral("light"));
        setTheme(theme);
      },
      s("theme"));

  QMenu* run = menuBar()->addMenu(tr("R&un"));
  QAction* runAction = add(
      run, s("run"), tr("&Run both and compare"), Qt::Key_F5,
      [this] {
        if (arrangement_ != Arrangement::Measure) arrange(Arrangement::Measure);
        runPanel_->start();
      },
      s("play"));
  add(
      run, s("stop"), tr("&Stop"), tr("Shift+F5"), [this] { document_->stopRun(); }, s("stop"));

  QMenu* help = menuBar()->addMenu(tr("&Help"));
  add(help, s("palette"), tr("&Command palette"), tr("Ctrl+Shift+P"), [this] { openPalette(); });
  add(help, s("tour"), tr("Ten-minute &tour"), Qt::Key_F1, [this] { showTour(); });
  add(help, s("about"), tr("&About Graft"), {}, [this] {
    QMessageBox::about(
        this, tr("About Graft"),
        tr("<h3>Graft %1</h3><p>See inside a PyTorch model and make it faster.</p><p>The engine: <code>%2</code></p>")
            .arg(QCoreApplication::applicationVersion(), engine_->command().join(QLatin1Char(' ')).toHtmlEscaped()));
  });

  // What is about a model waits for one.
  const QStringList aboutModels = {s("chooseInputs"),   s("exportModel"),   s("exportDrawing"), s("exportReport"),
                                   s("find"),           s("fromSelection"), s("apply"),         s("preview"),
                                   s("nextMatch"),      s("previousMatch"), s("whyNot"),        s("explainHere"),
                                   s("compare"),        s("textDiff"),      s("compareWith"),   s("nextChange"),
                                   s("previousChange"), s("fit"),           s("zoomIn"),        s("zoomOut"),
                                   s("zoomSelection"),  s("run"),           s("depthAll"),      s("depth0"),
                                   s("colourKind"),     s("colourTime"),    s("colourError"),   s("colourWeights"),
                                   s("depth1"),         s("depth2"),        s("depth3"),        s("depth4")};
  for (const QString& name : aboutModels) action(name)->setEnabled(false);
  connect(document_, &Document::opened, this, [this, aboutModels] {
    for (const QString& name : aboutModels) action(name)->setEnabled(true);
  });
  QList<QKeySequence> keys;
  for (QAction* a : actions()) keys << a->shortcuts();
  editor_->leaveKeys(keys);

  QToolBar* bar = addToolBar(tr("Main"));
  bar->setObjectName(s("mainBar"));
  bar->setMovable(false);
  bar->setIconSize({16, 16});
  bar->addAction(open);
  bar->addSeparator();
  bar->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  bar->addActions(arrangements);
  bar->addSeparator();
  auto button = [&](QAction* a) {
    static_cast<QToolButton*>(bar->widgetForAction(a))->setToolButtonStyle(Qt::ToolButtonIconOnly);
  };
  bar->addActions({undo, redo, fit, compare});
  for (QAction* a : {undo, redo, fit, compare}) button(a);
  auto* spacer = new QWidget;
  spacer->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  bar->addWidget(spacer);
  overlayBox_ = new QComboBox;
  overlayBox_->addItems({tr("Colour: kind"), tr("Colour: time"), tr("Colour: error"), tr("Colour: weights")});
  overlayBox_->setToolTip(tr("What the colours of nodes say: their kind and the matches, or what was measured"));
  overlayBox_->setFocusPolicy(Qt::ClickFocus);  // the keys are the canvas' or the editor's from the first
  overlayBox_->setEnabled(false);
  connect(document_, &Document::opened, overlayBox_, [this] { overlayBox_->setEnabled(true); });
  connect(overlayBox_, &QComboBox::activated, this, [this](int i) { setOverlay(static_cast<Overlay>(i)); });
  bar->addWidget(overlayBox_);
  bar->addSeparator();
  // Short, so that all of them stand in a window of 1024 pixels; the tips say the rest.
  apply->setIconText(tr("Apply"));
  runAction->setIconText(tr("Run"));
  exportAction->setIconText(tr("Export"));
  open->setIconText(tr("Open"));
  bar->addActions({apply, runAction, exportAction});

  connect(canvas_, &Canvas::menuAsked, this, [this](const QPoint& at, const QString& key) {
    QMenu menu;
    if (!key.isEmpty()) document_->setSelection({key});
    const int box = canvas_->scene() && !key.isEmpty() ? canvas_->scene()->boxOf(key) : -1;
    if (box >= 0 && canvas_->scene()->view.boxes[static_cast<size_t>(box)].kind == BoxKind::Module)
      menu.addAction(canvas_->scene()->view.boxes[static_cast<size_t>(box)].open ? tr("Collapse") : tr("Open"), canvas_,
                     &Canvas::toggleSelected);
    if (!key.isEmpty())
      menu.addActions({action(QStringLiteral("zoomSelection")), action(QStringLiteral("fromSelection")),
                       action(QStringLiteral("explainHere"))});
    menu.addActions({action(QStringLiteral("fit")), action(QStringLiteral("exportDrawing"))});
    menu.exec(at);
  });
}

void MainWindow::openPalette() {
  QList<QAction*> all;
  for (QAction* a : actions())
    if (!a->text().isEmpty() && a->objectName() != QLatin1String("palette")) all << a;
  palette_->open(all + recentMenu_->actions());
}

void MainWindow::ruleFromSelection() {
  const GraphRef g = document_->graph();
  QStringList names;
  for (const QString& key : document_->selection()) {
    if (!key.startsWith(QLatin1Char('@'))) {
      names << key;
      continue;
    }
    const std::string path = key.mid(1).toStdString();
    for (const NodeId id : g->order()) {
      const std::string_view scope = g->scopeOf(id);
      if (scope == path || scope.starts_with(path + ".")) names << toQt(g->node(id).name);
    }
  }
  if (!g || patternFromNodes(*g, names).isEmpty())
    return showFailure(tr("No rule was made"),
                       tr("Select the nodes of the pattern first (Ctrl adds to the selection)"));
  auto* dialog = new RuleFromSelection(
      g, names,
      [this](const QString& text) {
        if (arrangement_ != Arrangement::Rewrite) arrange(Arrangement::Rewrite);
        const QString before = withImports(editor_->text()) + QStringLiteral("\n\n\n");
        editor_->setText(before + text, true);
        editor_->showLine(static_cast<int>(before.count(QLatin1Char('\n'))) + 1);
        document_->setCurrentRule(QStringLiteral("NewRule"));
      },
      this);
  dialog->setObjectName(QStringLiteral("ruleFromSelection"));
  dialog->show();
}

void MainWindow::addFromLibrary(const QString& file, const QString& rule) {
  const QString text = LibraryPanel::ruleText(file, rule, editor_->text());
  if (text.isEmpty()) return showFailure(tr("The rule was not added"), tr("%1 no longer holds %2").arg(file, rule));
  if (document_->rule(rule))
    return showFailure(tr("The rule was not added"), tr("the rules hold one named %1 already").arg(rule));
  if (arrangement_ != Arrangement::Rewrite) arrange(Arrangement::Rewrite);  // else the library stays, for more of them
  const QString own = editor_->text().trimmed();
  QStringList missing = LibraryPanel::importsOf(file);
  missing.removeIf([&](const QString& line) { return own.split(QLatin1Char('\n')).contains(line); });
  QStringList parts{missing.join(QLatin1Char('\n')), own};
  parts.removeAll(QString());
  editor_->setText(parts.join(QLatin1Char('\n')) + QStringLiteral("\n\n\n") + text + QLatin1Char('\n'), true);
  document_->setCurrentRule(rule);
}

/// Beside the window where the screen has room; else over the drawing, off its corners: a legend, a title and the
/// overview stand in these.
QPoint MainWindow::placeBeside(QSize size) const {
  constexpr int gap = 8, frame = 32, corner = 64;
  const QRect room = screen()->availableGeometry(), own = frameGeometry();
  if (own.right() + gap + size.width() <= room.right()) return {own.right() + gap, own.top() + corner};
  if (own.left() - gap - size.width() >= room.left()) return {own.left() - gap - size.width(), own.top() + corner};
  const QPoint bottom = pages_->mapToGlobal(QPoint(2 * gap, pages_->height() - corner - frame - size.height()));
  return {bottom.x(), std::max(bottom.y(), mapToGlobal(QPoint(0, corner)).y())};
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

}  // namespace graft
