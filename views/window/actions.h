// Actions: everything that the window can be told to do, as actions with names, in its menus, its tool bar and the
// canvas's context menu. The command palette and the tour find them by name (MainWindow::action).
#pragma once

#include <QAction>
#include <QComboBox>
#include <QMenu>
#include <QObject>
#include <functional>

#include "views/panels/panel.h"
#include "views/window/overlays.h"

namespace graft {

class MainWindow;

class Actions : public QObject {
  Q_OBJECT

 public:
  /// Makes the menus and the tool bar of `window`, whose other parts are there.
  explicit Actions(MainWindow& window);
  /// The files of "Open recent".
  void setRecent(const QStringList& paths);
  /// All that the command palette offers.
  QList<QAction*> forPalette() const;
  void showOverlay(Overlay overlay) { overlayBox_->setCurrentIndex(static_cast<int>(overlay)); }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  struct Spec {
    const char* name;
    QString text;
    QKeySequence keys{};
    const char* icon = "";
    bool needsModel = true;  ///< disabled until a model is open
  };
  QAction* add(QMenu* menu, const Spec& spec, std::function<void()> run);
  QAction* find(const char* name) const;
  void makeFileMenu();
  void makeEditMenu();
  void makeRulesMenu();
  void makeViewMenu();
  void addCanvasActions(QMenu* view);
  void addZoomActions(QMenu* menu);
  void addDrawingActions(QMenu* menu);
  void addPanelActions(QMenu* menu);
  void makeRunMenu();
  void makeCompileMenu();  // compile/compile_actions.cpp
  void makeHelpMenu();
  void makeToolBar();
  void chooseOverlay(int overlay);
  void undoOrRedo(bool isUndo);
  void showCanvasMenu(const QPoint& at, const QString& key);

  MainWindow& window_;
  QList<QAction*> aboutModels_;  ///< those that wait for a model
  QMenu* recentMenu_ = nullptr;
  QComboBox* overlayBox_ = nullptr;
};

}  // namespace graft
