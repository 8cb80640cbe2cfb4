#include "views/window/actions.h"

#include <QActionGroup>
#include <QApplication>
#include <QMenuBar>
#include <QMessageBox>
#include <QSettings>
#include <QStatusBar>
#include <QToolBar>
#include <QToolButton>

#include "views/panels/explorer.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/rules/rules_panel.h"
#include "views/panels/run/run_inputs.h"
#include "views/panels/run/run_panel.h"
#include "views/widgets/theme.h"
#include "views/window/main_window.h"

namespace graft {
namespace {

/// "Take back Attention  Ctrl+Alt+Z".
QString tipOf(const QAction& a) {
  return a.text().remove(QLatin1Char('&')).remove(QStringLiteral("…")) + QStringLiteral("  ") +
         a.shortcut().toString(QKeySequence::NativeText);
}

}  // namespace

Actions::Actions(MainWindow& window) : QObject(&window), window_(window) {
  makeFileMenu();
  makeEditMenu();
  makeRulesMenu();
  makeViewMenu();
  makeRunMenu();
  makeCompileMenu();
  makeHelpMenu();
  makeToolBar();
  for (QAction* a : aboutModels_) a->setEnabled(false);
  connect(&window_.document(), &Document::opened, this, [this] {
    for (QAction* a : aboutModels_) a->setEnabled(true);
    overlayBox_->setEnabled(true);
  });
  QList<QKeySequence> keys;
  for (QAction* a : window_.actions()) keys << a->shortcuts();
  window_.panel<RuleEditor>()->leaveKeys(keys);
  connect(window_.canvas(), &Canvas::menuAsked, this, &Actions::showCanvasMenu);
}

QAction* Actions::add(QMenu* menu, const Spec& spec, std::function<void()> run) {
  auto* a = new QAction(spec.text, &window_);
  a->setObjectName(QString::fromLatin1(spec.name));
  a->setShortcut(spec.keys);
  if (const QString name = QString::fromLatin1(spec.icon); !name.isEmpty()) {
    a->setIcon(icon(name));
    a->setProperty("iconName", name);
  }
  if (!spec.keys.isEmpty()) a->setToolTip(tipOf(*a));
  connect(a, &QAction::triggered, this, [run = std::move(run)] { run(); });
  menu->addAction(a);
  window_.addAction(a);
  if (spec.needsModel) aboutModels_ << a;
  return a;
}

QAction* Actions::find(const char* name) const { return window_.action(QString::fromLatin1(name)); }

void Actions::makeFileMenu() {
  QMenu* file = window_.menuBar()->addMenu(tr("&File"));
  WindowFiles& files = window_.files();
  add(file, {"open", tr("&Open model…"), QKeySequence::Open, "open", false}, [&files] { files.chooseModel(); });
  add(file, {"openFolder", tr("Open a folder of captures…"), {}, "open", false}, [&files] {
    files.chooseFolder();
  })->setToolTip(tr("Opens all captures (.fx) in a folder as one set, to pick and compare their graphs"));
  add(file, {"chooseInputs", tr("Example &inputs, for shapes…")}, [&files] { files.chooseInputs(); });
  recentMenu_ = file->addMenu(tr("Open &recent"));
  add(file, {"openRules", tr("Open r&ules…"), tr("Ctrl+Shift+O"), "", false}, [&files] { files.chooseRules(); });
  add(file, {"loadLibrary", tr("Loa&d operators…"), {}, "", false}, [&files] { files.chooseLibrary(); });
  add(file, {"saveRules", tr("&Save rules"), QKeySequence::Save, "", false}, [&files] { files.saveRules(false); });
  add(file, {"saveRulesAs", tr("Save rules &as…"), QKeySequence::SaveAs, "", false},
      [&files] { files.saveRules(true); });
  file->addSeparator();
  add(file, {"exportModel", tr("&Export rewritten model…"), tr("Ctrl+E"), "save"}, [&files] { files.exportModel(); });
  add(file, {"exportDrawing", tr("Export dra&wing…"), tr("Ctrl+Shift+E")},
      [this, &files] { files.exportDrawing(*window_.canvas()); });
  add(file, {"exportPage", tr("Export interacti&ve page…")},
      [this, &files] { files.exportPage(*window_.canvas(), window_.comparison().isComparing()); });
  add(file, {"exportReport", tr("Export re&port…")}, [this, &files] { files.exportReport(*window_.canvas()); });
  file->addSeparator();
  add(file, {"quit", tr("&Quit"), QKeySequence::Quit, "", false}, [this] { window_.close(); });
}

void Actions::makeEditMenu() {
  QMenu* edit = window_.menuBar()->addMenu(tr("&Edit"));
  Document& document = window_.document();
  QAction* undo =
      add(edit, {"undo", tr("Take back"), tr("Ctrl+Alt+Z"), "undo", false}, [&document] { document.undo(); });
  QAction* redo =
      add(edit, {"redo", tr("Do again"), tr("Ctrl+Alt+Shift+Z"), "redo", false}, [&document] { document.redo(); });
  const auto refresh = [&document, undo, redo] {
    const HistoryCache& history = document.history();
    undo->setEnabled(history.canUndo());
    redo->setEnabled(history.canRedo());
    const QString last = history.undoLabel(), next = history.redoLabel();
    undo->setText(last.isEmpty() ? tr("Take back") : tr("Take back %1").arg(last));
    redo->setText(next.isEmpty() ? tr("Do again") : tr("Do %1 again").arg(next));
    for (QAction* a : {undo, redo}) a->setToolTip(tipOf(*a));
  };
  connect(&document, &Document::stepsChanged, this, refresh);
  refresh();
  add(edit, {"undoAny", tr("&Undo"), QKeySequence::Undo, "", false}, [this] { undoOrRedo(true); });
  add(edit, {"redoAny", tr("&Redo"), tr("Ctrl+Shift+Z"), "", false}, [this] { undoOrRedo(false); });
  edit->addSeparator();
  QAction* find = add(edit, {"find", tr("&Find in the graph"), QKeySequence::Find, "find"}, [this] {
    window_.docks().show(QStringLiteral("explorer"));
    window_.panel<Explorer>()->search()->setFocus();
    window_.panel<Explorer>()->search()->selectAll();
  });
  auto* slash = new QAction(window_.canvas());
  slash->setShortcut(QKeySequence(Qt::Key_Slash));
  slash->setShortcutContext(Qt::WidgetShortcut);
  window_.canvas()->addAction(slash);
  connect(slash, &QAction::triggered, find, &QAction::trigger);
  add(edit, {"fromSelection", tr("New rule from the &selection"), tr("Ctrl+Shift+R")},
      [this] { window_.panel<RulesPanel>()->makeRuleFromSelection(&window_); });
}

/// In the editor a step of the text, anywhere else a step of the model.
void Actions::undoOrRedo(bool isUndo) {
  QWidget* w = QApplication::focusWidget();
  if (w && window_.panel<RuleEditor>()->isAncestorOf(w))
    QMetaObject::invokeMethod(w, isUndo ? "undo" : "redo");
  else if (isUndo)
    window_.document().undo();
  else
    window_.document().redo();
}

void Actions::makeRulesMenu() {
  QMenu* rules = window_.menuBar()->addMenu(tr("&Rules"));
  Document& document = window_.document();
  auto* matches = window_.panel<MatchesPanel>();
  QAction* optimize = add(rules, {"optimize", tr("&Optimize the model"), tr("Ctrl+Shift+Y"), "optimize"},
                          [&document] { document.optimize(); });
  optimize->setToolTip(
      tr("Tries the recipes that come with Graft, and keeps what is verified and makes the model faster  %1")
          .arg(optimize->shortcut().toString(QKeySequence::NativeText)));
  connect(&document, &Document::optimizingChanged, this,
          [&document, optimize] { optimize->setEnabled(document.isOpen() && !document.isOptimizing()); });
  rules->addSeparator();
  add(rules, {"apply", tr("&Apply ticked matches"), tr("Ctrl+Return"), "apply"}, [matches] { matches->applyTicked(); });
  QAction* verify = add(rules, {"verifyEach", tr("V&erify each rewrite"), {}, "", false}, [] {});
  verify->setCheckable(true);
  verify->setToolTip(tr(
      "Runs each rewrite beside what it replaces, and takes it back where the numbers differ; slow for large models"));
  const QString setting = QStringLiteral("verifyEachRewrite"), olderSetting = QStringLiteral("prove");
  connect(verify, &QAction::toggled, this, [&document, setting](bool on) {
    document.setVerifying(on);
    QSettings().setValue(setting, on);
  });
  verify->setChecked(QSettings().value(setting, QSettings().value(olderSetting, true)).toBool());
  document.setVerifying(verify->isChecked());
  add(rules, {"preview", tr("&Preview"), tr("Ctrl+Shift+Return")}, [matches] { matches->togglePreview(); });
  add(rules, {"nextMatch", tr("&Next match"), Qt::Key_F3, "next"}, [matches] { matches->next(1); });
  add(rules, {"previousMatch", tr("P&revious match"), tr("Shift+F3")}, [matches] { matches->next(-1); });
  add(rules, {"whyNot", tr("&Why not?"), tr("Ctrl+Y")}, [this, &document] {
    window_.showRuleTab(RulesPanel::WhyNot);
    document.explain(document.currentRule());
  });
  add(rules, {"explainHere", tr("Why not &here?")}, [this, &document] {
    window_.showRuleTab(RulesPanel::WhyNot);
    document.explain(document.currentRule(), document.selection().value(0));
  });
}

void Actions::makeViewMenu() {
  QMenu* view = window_.menuBar()->addMenu(tr("&View"));
  auto* group = new QActionGroup(this);
  int number = 0;
  for (const auto& [arrangement, text] :
       {std::pair{Arrangement::Explore, tr("&Explore")}, std::pair{Arrangement::Rewrite, tr("&Rewrite")},
        std::pair{Arrangement::Measure, tr("&Measure")}, std::pair{Arrangement::Compile, tr("Com&pile")}}) {
    const QByteArray name = PanelDocks::nameOf(arrangement).toLatin1();
    QAction* a = add(view, {name.constData(), text, QStringLiteral("Ctrl+%1").arg(++number), name.constData(), false},
                     [this, arrangement = arrangement] { window_.arrange(arrangement); });
    a->setCheckable(true);
    group->addAction(a);
  }
  view->addSeparator();
  Comparison& comparison = window_.comparison();
  QAction* compare =
      add(view, {"compare", tr("&Compare with the original"), tr("Ctrl+D"), "compare"}, [this, &comparison] {
        Document& document = window_.document();
        if (comparison.isComparing() && !document.otherPath().isEmpty()) document.compareWith({});
        comparison.setComparing(!comparison.isComparing());
      });
  compare->setCheckable(true);
  connect(&comparison, &Comparison::comparingChanged, compare, &QAction::setChecked);
  QAction* textDiff = add(view, {"textDiff", tr("Differences as &text"), tr("Ctrl+Shift+D")},
                          [this] { window_.setTextDiff(!window_.showsTextDiff()); });
  textDiff->setCheckable(true);
  QAction* training = add(view, {"training", tr("Training step (&joint graph)"), tr("Ctrl+J")},
                          [this] { window_.setTraining(!window_.showsTraining()); });
  training->setCheckable(true);
  training->setIconText(tr("Training step"));
  training->setToolTip(tr("The forward and the backward pass beside each other, and what is saved between them"));
  add(view, {"compareWith", tr("Compare &with another file…")}, [this] { window_.files().chooseOther(); });
  add(view, {"nextChange", tr("Next c&hange"), Qt::Key_F8}, [&comparison] { comparison.nextChange(1); });
  add(view, {"previousChange", tr("Previous change"), tr("Shift+F8")}, [&comparison] { comparison.nextChange(-1); });
  view->addSeparator();
  addCanvasActions(view);
  addPanelActions(view->addMenu(tr("P&anels")));
  view->addSeparator();
  add(view, {"theme", tr("&Light or dark"), tr("Ctrl+Shift+L"), "theme", false}, [this] {
    const Theme theme = currentTheme() == Theme::Dark ? Theme::Light : Theme::Dark;
    QSettings().setValue(QStringLiteral("theme"),
                         theme == Theme::Dark ? QStringLiteral("dark") : QStringLiteral("light"));
    window_.setTheme(theme);
  });
}

void Actions::addCanvasActions(QMenu* view) {
  Canvas* canvas = window_.canvas();
  add(view, {"fit", tr("&Fit"), tr("Ctrl+0"), "fit"}, [this] { window_.comparison().fit(); });
  addZoomActions(view->addMenu(tr("&Zoom")));
  addDrawingActions(view->addMenu(tr("Draw&ing")));
  QAction* card = add(view, {"card", tr("What the selected node is"), tr("Ctrl+I")}, [this, canvas] {
    if (canvas->selection().isEmpty())
      return window_.statusBar()->showMessage(tr("No node is selected: click one, or press n"), 4000);
    canvas->setFocus();
    canvas->showCardOfSelection();
  });
  card->setToolTip(
      tr("Operator, shapes, bytes, kernel and source line, beside the box; as when the pointer rests on it"));
  QMenu* depth = view->addMenu(tr("Open modules to &depth"));
  for (int d = 0; d <= 4; ++d) {
    const QByteArray name = "depth" + QByteArray::number(d);
    add(depth,
        {name.constData(), d == 0 ? tr("All collapsed") : tr("Depth %1").arg(d), QStringLiteral("Alt+%1").arg(d)},
        [canvas, d] { canvas->setDepth(d); });
  }
  add(depth, {"depthAll", tr("All open"), tr("Alt+9")}, [canvas] { canvas->setDepth(-1); });
  QMenu* colour = view->addMenu(tr("Colours of &nodes"));
  for (const auto& [name, text, overlay] : {std::tuple{"colourKind", tr("Colour by kind and matches"), Overlay::Kind},
                                            std::tuple{"colourTime", tr("Colour by time"), Overlay::Time},
                                            std::tuple{"colourError", tr("Colour by error"), Overlay::Error},
                                            std::tuple{"colourWeights", tr("Colour by weight size"), Overlay::Weights}})
    add(colour, {name, text}, [this, overlay = overlay] { window_.setOverlay(overlay); });
  add(colour, {"colourNumbers", tr("Colour by numbers of a file…")}, [this] {
    if (const std::optional<NodeNumbers> numbers = window_.files().chooseNumbers())
      window_.comparison().showNumbers(*numbers);
  });
}

void Actions::addZoomActions(QMenu* menu) {
  Canvas* canvas = window_.canvas();
  add(menu, {"zoomIn", tr("Zoom &in"), QKeySequence::ZoomIn}, [canvas] { canvas->zoomIn(); });
  add(menu, {"zoomOut", tr("Zoom &out"), QKeySequence::ZoomOut}, [canvas] { canvas->zoomOut(); });
  add(menu, {"zoomSelection", tr("Zoom to the &selection"), tr("Ctrl+Shift+0")},
      [this, canvas] { canvas->zoomToKeys(window_.document().selection()); });
}

/// How it is laid out, and what stands over it.
void Actions::addDrawingActions(QMenu* menu) {
  Canvas* canvas = window_.canvas();
  QAction* columns = add(menu, {"columns", tr("Tall modules in col&umns"), {}, "", false}, [] {});
  columns->setCheckable(true);
  columns->setToolTip(tr("A module that is much taller than wide goes on in another column; off: all runs down"));
  connect(columns, &QAction::toggled, this, [this](bool on) {
    window_.comparison().setColumns(on);
    QSettings().setValue(QStringLiteral("columns"), on);
  });
  QAction* flow = add(menu, {"leftToRight", tr("Left to right"), tr("Ctrl+Shift+G"), "", false}, [] {});
  flow->setCheckable(true);
  flow->setToolTip(tr("The drawing runs from left to right, and long modules go on in another row; off: it runs down"));
  connect(flow, &QAction::toggled, this, [this](bool on) {
    window_.comparison().setFlow(on ? Flow::Right : Flow::Down);
    QSettings().setValue(QStringLiteral("leftToRight"), on);
  });
  QAction* deadEnds = add(menu, {"deadEnds", tr("Fold de&ad ends"), {}, "", false}, [] {});
  deadEnds->setCheckable(true);
  deadEnds->setToolTip(
      tr("What depends on weights alone, and what nothing uses, is one box each; a double click on ×N shows it"));
  connect(deadEnds, &QAction::toggled, this, [this](bool on) {
    window_.comparison().setFoldsDeadEnds(on);
    QSettings().setValue(QStringLiteral("foldDeadEnds"), on);
  });
  QAction* legend = add(menu, {"legend", tr("Le&gend of colours"), {}, "", false}, [] {});
  legend->setCheckable(true);
  connect(legend, &QAction::toggled, this, [canvas](bool on) {
    canvas->setLegendVisible(on);
    QSettings().setValue(QStringLiteral("legend"), on);
  });
  legend->setChecked(QSettings().value(QStringLiteral("legend"), true).toBool());
  const auto restore = [](QAction* action, const char* setting, bool usual) {
    const bool on = QSettings().value(QLatin1String(setting), usual).toBool();
    action->setChecked(!on);  // so that it is told, whichever it is
    action->setChecked(on);
  };
  restore(columns, "columns", true);
  restore(deadEnds, "foldDeadEnds", true);
  restore(flow, "leftToRight", false);
}

void Actions::addPanelActions(QMenu* menu) {
  for (const PanelDescription& p : panels())
    if (!p.shortcut.isEmpty())
      add(menu, {p.name.toLatin1().constData(), p.title, p.shortcut, "", false},
          [this, name = p.name] { window_.docks().toggle(name); });
  menu->addSeparator();
  for (QDockWidget* d : window_.docks().docks()) {
    d->toggleViewAction()->setText(tr("Panel: %1").arg(d->windowTitle()));
    menu->addAction(d->toggleViewAction());
    window_.addAction(d->toggleViewAction());  // the palette lists the window's
  }
  menu->addSeparator();
  for (const auto& [name, text, keys, step] :
       {std::tuple{"nextPanel", tr("Next panel"), QStringLiteral("F6"), 1},
        std::tuple{"previousPanel", tr("Previous panel"), QStringLiteral("Shift+F6"), -1}})
    add(menu, {name, text, keys, "", false}, [this, step = step] { window_.focusNextPart(step); });
  add(menu, {"resetPanels", tr("Panels as at the &beginning"), {}, "", false}, [this] { window_.docks().reset(); });
}

void Actions::makeRunMenu() {
  QMenu* run = window_.menuBar()->addMenu(tr("R&un"));
  add(run, {"run", tr("&Run both and compare"), Qt::Key_F5, "play"}, [this] {
    if (window_.docks().arrangement() != Arrangement::Measure) window_.arrange(Arrangement::Measure);
    window_.panel<RunPanel>()->start();
  });
  add(run, {"stop", tr("&Stop"), tr("Shift+F5"), "stop", false}, [this] { window_.document().stopRun(); });
}

void Actions::makeHelpMenu() {
  QMenu* help = window_.menuBar()->addMenu(tr("&Help"));
  add(help, {"palette", tr("&Command palette"), tr("Ctrl+Shift+P"), "", false}, [this] { window_.openPalette(); });
  add(help, {"tour", tr("Ten-minute &tour"), Qt::Key_F1, "", false}, [this] { window_.showTour(); });
  add(help, {"about", tr("&About Graft"), {}, "", false}, [this] {
    QMessageBox::about(
        &window_, tr("About Graft"),
        tr("<h3>Graft %1</h3><p>See inside a PyTorch model and make it faster.</p><p>The engine: <code>%2</code></p>")
            .arg(QCoreApplication::applicationVersion(),
                 window_.engine().command().join(QLatin1Char(' ')).toHtmlEscaped()));
  });
}

void Actions::makeToolBar() {
  QToolBar* bar = window_.addToolBar(tr("Main"));
  bar->setObjectName(QStringLiteral("mainBar"));
  bar->setMovable(false);
  bar->setIconSize({16, 16});
  bar->addAction(find("open"));
  bar->addSeparator();
  bar->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  for (const char* name : {"explore", "rewrite", "measure", "compile"}) bar->addAction(find(name));
  bar->addSeparator();
  for (const char* name : {"undo", "redo", "fit", "compare"}) {
    bar->addAction(find(name));
    static_cast<QToolButton*>(bar->widgetForAction(find(name)))->setToolButtonStyle(Qt::ToolButtonIconOnly);
  }
  auto* spacer = new QWidget;
  spacer->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  bar->addWidget(spacer);
  overlayBox_ = new QComboBox;
  overlayBox_->setAccessibleName(tr("Colours of nodes"));
  overlayBox_->addItems(
      {tr("Colour: kind"), tr("Colour: time"), tr("Colour: error"), tr("Colour: weights"), tr("Colour: numbers")});
  overlayBox_->setToolTip(tr("What the colours of nodes say: kind and matches, or what was measured"));
  overlayBox_->setFocusPolicy(Qt::ClickFocus);  // the keys go to the canvas or to the editor
  overlayBox_->setEnabled(false);
  connect(overlayBox_, &QComboBox::activated, this, &Actions::chooseOverlay);
  bar->addWidget(overlayBox_);
  bar->addSeparator();
  // Short, so that all of them fit a window of 1024 pixels; the tips say the rest.
  find("optimize")->setIconText(tr("Optimize"));
  find("apply")->setIconText(tr("Apply"));
  find("run")->setIconText(tr("Run"));
  find("exportModel")->setIconText(tr("Export"));
  find("open")->setIconText(tr("Open"));
  for (const char* name : {"apply", "run", "exportModel", "optimize"}) bar->addAction(find(name));
  // Known by their icons: the arrangements beside them need the room of a small window.
  for (const char* name : {"open", "exportModel"})
    static_cast<QToolButton*>(bar->widgetForAction(find(name)))->setToolButtonStyle(Qt::ToolButtonIconOnly);
  auto* mainButton = static_cast<QToolButton*>(bar->widgetForAction(find("optimize")));
  mainButton->setObjectName(QStringLiteral("mainButton"));
  mainButton->setToolButtonStyle(Qt::ToolButtonTextOnly);  // an icon's colour is the theme's, not the button's
  bar->installEventFilter(this);
}

/// Numbers that there are none of yet are asked for.
void Actions::chooseOverlay(int overlay) {
  if (static_cast<Overlay>(overlay) != Overlay::Numbers || !window_.comparison().numbers().values.empty())
    return window_.setOverlay(static_cast<Overlay>(overlay));
  showOverlay(window_.comparison().overlay());
  find("colourNumbers")->trigger();
}

/// Where the words of all buttons have no room, those whose icons say enough do without: the last one, Optimize, stays.
bool Actions::eventFilter(QObject* watched, QEvent* e) {
  auto* bar = qobject_cast<QToolBar*>(watched);
  if (bar && e->type() == QEvent::Resize) {
    const auto show = [&](Qt::ToolButtonStyle style) {
      for (const char* name : {"apply", "run"})
        static_cast<QToolButton*>(bar->widgetForAction(find(name)))->setToolButtonStyle(style);
    };
    const auto needs = [&] {
      constexpr int margins = 24, spacing = 4;  // as ThemeStyle has them
      int wide = margins;
      for (QAction* a : bar->actions()) wide += spacing + bar->widgetForAction(a)->sizeHint().width();
      return wide;
    };
    show(Qt::ToolButtonTextBesideIcon);
    if (needs() > bar->width()) show(Qt::ToolButtonIconOnly);
  }
  return QObject::eventFilter(watched, e);
}

void Actions::showCanvasMenu(const QPoint& at, const QString& key) {
  QMenu menu;
  Canvas* canvas = window_.canvas();
  if (!key.isEmpty()) window_.document().setSelection({key});
  const int box = canvas->scene() && !key.isEmpty() ? canvas->scene()->boxOf(key) : -1;
  if (box >= 0 && canvas->scene()->view.boxes[static_cast<size_t>(box)].kind == BoxKind::Module)
    menu.addAction(canvas->scene()->view.boxes[static_cast<size_t>(box)].open ? tr("Collapse") : tr("Open"), canvas,
                   &Canvas::toggleSelected);
  if (!key.isEmpty()) menu.addActions({find("zoomSelection"), find("fromSelection"), find("explainHere")});
  menu.addActions({find("fit"), find("exportDrawing")});
  menu.exec(at);
}

void Actions::setRecent(const QStringList& paths) {
  recentMenu_->clear();
  for (const QString& path : paths) {
    QAction* a = recentMenu_->addAction(homeAsTilde(path), this, [this, path] { window_.openModel(path); });
    a->setData(tr("Open %1").arg(a->text()));  // in the palette, which has no menu around it
  }
  recentMenu_->setEnabled(!paths.isEmpty());
}

QList<QAction*> Actions::forPalette() const {
  QList<QAction*> all;
  for (QAction* a : window_.actions())
    if (!a->text().isEmpty() && a->objectName() != QLatin1String("palette")) all << a;
  return all + recentMenu_->actions();
}

}  // namespace graft
