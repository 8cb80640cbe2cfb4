// MainWindow assembles the panels, the actions and the three arrangements. What it knows lies in Document; what it
// shows, in the panels.
#pragma once

#include <QMainWindow>
#include <QProgressBar>

#include "views/document/document.h"
#include "views/layout/palette.h"
#include "views/window/session_file.h"

class QComboBox;
class QDockWidget;
class QLabel;
class QSplitter;
class QStackedWidget;
class QTabWidget;
class QToolButton;

namespace graft {

struct Decorations;
class Breadcrumb;
class Canvas;
class CommandPalette;
class DiffView;
class Explorer;
class HistoryPanel;
class Inspector;
class LibraryPanel;
class MatchesPanel;
class RuleEditor;
class RunPanel;
class Tour;
class WelcomePage;
class WhyNotPanel;

enum class Arrangement { Explore, Rewrite, Measure };
enum class Overlay { Kind, Time, Error, Weights };

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(QStringList engineCommand, QWidget* parent = nullptr);
  ~MainWindow() override;

  /// Example inputs give shapes; empty: those given for this model last time.
  void openModel(const QString& path, const QString& inputs = {});
  void openRules(const QString& path);
  void arrange(Arrangement arrangement);
  void setCompare(bool on);
  /// The differences as text in the canvases' place.
  void setTextDiff(bool on);
  /// Compares with another file's model; empty: with the model as opened again.
  void compareWith(const QString& path);
  void setOverlay(Overlay overlay);
  void setTheme(Theme theme);
  /// Takes up what a window that was killed had; with `files`, else what the last one closed with.
  void restoreSession(bool files);
  /// Everything that a new window needs to stand where this one does.
  QJsonObject sessionState() const;

  Document& document() { return *document_; }
  EngineClient& engine() { return *engine_; }
  Canvas* canvas() { return canvas_; }
  Canvas* beforeCanvas() { return before_; }
  Canvas* patternCanvas() { return patternCanvas_; }
  RuleEditor* editor() { return editor_; }
  MatchesPanel* matches() { return matches_; }
  WhyNotPanel* whyNot() { return whyNot_; }
  Explorer* explorer() { return explorer_; }
  Inspector* inspector() { return inspector_; }
  LibraryPanel* library() { return library_; }
  RunPanel* runPanel() { return runPanel_; }
  DiffView* diffView() { return diff_; }
  CommandPalette* palette() { return palette_; }
  /// Null until it is asked for.
  Tour* tour() { return tour_; }
  QString statusText() const;
  /// The first action of that object name; null where there is none.
  QAction* action(const QString& name) const { return findChild<QAction*>(name); }
  void showRuleTab(int index);

 Q_SIGNALS:
  void written(const QString& path);  ///< a drawing or a report

 protected:
  void changeEvent(QEvent*) override;
  void closeEvent(QCloseEvent*) override;
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;

 private:
  // main_window.cpp
  QDockWidget* dock(const QString& name, const QString& title, QWidget* content, Qt::DockWidgetArea area);
  QDockWidget* dockNamed(const char* name) const;
  void connectDocument();
  void connectCanvases();
  void refreshTitle();
  void refreshPattern();
  void refreshBreadcrumb();
  void refreshStatus();
  void refreshJob();
  void refreshFailure();
  void showFailure(const QString& what, const QString& why);
  void lightPattern(const QString& patternNode);
  // main_window_compare.cpp
  void refreshCanvases();
  void refreshSelection();
  void refreshDecorations();
  void chooseOther();
  void addErrors(Decorations& after, Decorations& before) const;
  static void addWeights(Decorations& d, const Graph& g);
  void followView(Canvas* from, Canvas* to);
  void followOptions(Canvas* from, Canvas* to);
  QString counterpart(const QString& key, bool toAfter) const;
  void nextChange(int step);
  // main_window_actions.cpp
  void makeActions();
  QAction* add(QMenu* menu, const QString& name, const QString& text, const QKeySequence& keys,
               std::function<void()> run, const QString& iconName = {});
  void openPalette();
  void ruleFromSelection();
  void addFromLibrary(const QString& file, const QString& rule);
  void showTour();
  QPoint placeBeside(QSize size) const;
  // main_window_arrange.cpp
  void resetPanels();
  void makeRoomForLibrary(bool isShown);
  // main_window_report.cpp
  void exportReport();
  QString reportOfRun() const;
  QString reportOfSteps() const;
  QString reportOfDrawing() const;
  // main_window_files.cpp
  void chooseModel();
  void chooseInputs();
  void chooseRules();
  void saveRules(bool as);
  void exportModel();
  void exportDrawing();
  /// A name to write to, beside the model where its folder is here.
  QString besideModel(const QString& ending) const;
  /// Empty `why`: it was.
  void tellWritten(const QString& path, const QString& why);
  bool mayDiscardRules();
  void keepSteps(const QString& file);
  void remember(const QString& path);
  void refreshRecent();
  // main_window_session.cpp
  QJsonObject viewState() const;
  void resumeOptions();
  void resumeView();
  void fitScreen();
  void autosave();

  EngineClient* engine_;
  Document* document_;
  Canvas *canvas_, *before_, *patternCanvas_;
  QSplitter* canvases_;
  QStackedWidget* pages_;
  WelcomePage* welcome_;
  DiffView* diff_;
  SessionFile session_;
  QJsonObject resumed_;               ///< what one looked at in the session before, until it is drawn
  QHash<QString, QJsonObject> left_;  ///< models that made way for others, with their steps
  RuleEditor* editor_;
  MatchesPanel* matches_;
  WhyNotPanel* whyNot_;
  HistoryPanel* history_;
  Explorer* explorer_;
  LibraryPanel* library_;
  Inspector* inspector_;
  RunPanel* runPanel_;
  CommandPalette* palette_;
  Tour* tour_ = nullptr;
  QTabWidget* ruleTabs_;
  Breadcrumb* breadcrumb_;
  QLabel *engineLabel_, *countLabel_, *jobLabel_;
  QWidget* failure_;
  QLabel* failureText_;
  QProgressBar* jobBar_;
  QToolButton *jobStop_, *engineRetry_;
  QComboBox* overlayBox_;
  QMenu* recentMenu_;
  QList<QDockWidget*> docks_;
  QByteArray firstPanels_;  ///< where they are before anybody has moved one
  QTimer *autosave_, *jobTimer_;
  QString jobWhat_;
  Arrangement arrangement_ = Arrangement::Explore;
  Overlay overlay_ = Overlay::Kind;
  bool comparing_ = false, following_ = false, arranging_ = false;
  int historyHeight_ = 280;  ///< without the library above it
  QString lastFailure_;
  QString saidDown_;  ///< of an engine that went away, until the next one has the document
  bool saidNotSaved_ = false, saidSlow_ = false, hasWords_ = false;
  int changeAt_ = -1;
};

}  // namespace graft
