// MainWindow puts the window together: the two canvases in the middle, panels around them, menus, a status bar. What it
// knows lies in Document, what it shows in the panels; each of its own jobs is a class beside this one:
//
//   Actions (menus), Comparison (canvases), FailureBar, OutcomeCard, PanelDocks, StatusLine, WindowFiles, WindowSession
#pragma once

#include <QMainWindow>

#include "views/panels/rules/rules_panel.h"
#include "views/window/comparison.h"
#include "views/window/files/window_files.h"
#include "views/window/panel_docks.h"

class QStackedWidget;
class QToolButton;

namespace graft {

class Actions;
class Breadcrumb;
class CommandPalette;
class CompileView;
class DiffView;
class FailureBar;
class OpeningNote;
class OutcomeCard;
class StatusLine;
class Tour;
class TrainingPage;
class WelcomePage;
class WindowSession;

class MainWindow : public QMainWindow {
  Q_OBJECT

 public:
  explicit MainWindow(QStringList engineCommand, QWidget* parent = nullptr);
  ~MainWindow() override;

  void openModel(const QString& path, const QString& inputs = {}, const QString& method = {}) {
    files_->openModel(path, inputs, method);
  }
  void openRules(const QString& path) { files_->openRules(path); }
  void arrange(Arrangement arrangement) { docks_->arrange(arrangement); }
  void showRuleTab(RulesPanel::Tab tab);
  void setCompare(bool on) { comparison_->setComparing(on); }
  /// The differences as text in the canvases' place.
  void setTextDiff(bool on);
  bool showsTextDiff() const;
  /// The training step in the canvases' place. Of a capture whose open graph is no joint graph, its joint graph is
  /// opened for that.
  void setTraining(bool on);
  bool showsTraining() const;
  /// Compares with another file's model; empty: with the model as opened again.
  void compareWith(const QString& path) { document_->compareWith(path); }
  void setOverlay(Overlay overlay) { comparison_->setOverlay(overlay); }
  void setTheme(Theme theme);
  void openPalette();
  void showTour();
  /// Takes up what a killed window had; with `files`, else what the last one closed with.
  void restoreSession(bool files);
  /// Everything that a new window needs to stand where this one does.
  QJsonObject sessionState() const;

  Document& document() { return *document_; }
  EngineClient& engine() { return *engine_; }
  Comparison& comparison() { return *comparison_; }
  WindowFiles& files() { return *files_; }
  PanelDocks& docks() { return *docks_; }
  /// The panel of that class, or the part of a panel: `window.panel<RunPanel>()`. It must exist.
  template <class T>
  T* panel() const {
    return docks_->panel<T>();
  }
  Canvas* canvas() { return comparison_->canvas(); }
  Canvas* beforeCanvas() { return comparison_->before(); }
  DiffView* diffView() { return diff_; }
  TrainingPage* trainingPage() { return training_; }
  Capture& capture() { return context_->capture(); }
  TrainingCut& cut() { return context_->cut(); }
  CommandPalette* palette() { return palette_; }
  CompileView& compileView() { return *compile_; }
  /// Null until it is asked for.
  Tour* tour() { return tour_; }
  QString statusText() const;
  /// The keyboard goes to the next part of the window; `step` -1: to the one before.
  void focusNextPart(int step);
  /// The first action of that object name; null where there is none.
  QAction* action(const QString& name) const { return findChild<QAction*>(name); }

 Q_SIGNALS:
  void written(const QString& path);  ///< a drawing or a report

 protected:
  void changeEvent(QEvent*) override;
  void closeEvent(QCloseEvent*) override;
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;
  void resizeEvent(QResizeEvent*) override;

 private:
  QWidget* makeCentre();
  void showPage(QWidget* page);
  void connectDocument();
  void connectCanvases();
  void connectPanels();
  void connectFiles();
  void begin();
  void showOpening();
  void afterArranging(Arrangement arrangement);
  void skipUnusedTabBars();
  void focusDrawing();
  void refreshBreadcrumb();
  void refreshRecent();
  void fitScreen();
  QPoint placeBeside(QSize size) const;

  EngineClient* engine_;
  Document* document_;
  PanelContext* context_;
  Comparison* comparison_;
  QStackedWidget* pages_;
  WelcomePage* welcome_;
  OpeningNote *openingPage_, *openingBar_;
  DiffView* diff_;
  TrainingPage* training_;
  QToolButton* trainingButton_;  ///< shown with a joint graph
  FailureBar* failure_;
  OutcomeCard* outcome_;
  Breadcrumb* breadcrumb_;
  PanelDocks* docks_;
  CommandPalette* palette_;
  StatusLine* status_;
  WindowFiles* files_;
  WindowSession* session_;
  CompileView* compile_;
  Actions* actions_;
  Tour* tour_ = nullptr;
  QString shownPath_;           ///< the model that is shown, and which graph of its file
  bool wantsTraining_ = false;  ///< a joint graph is being opened for its page
};

}  // namespace graft
