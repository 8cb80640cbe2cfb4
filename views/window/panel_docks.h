// PanelDocks: the window's panels in their docks. Makes them from the list panels(), shows those of an arrangement, and
// remembers for each arrangement where its user has moved them.
//
//   PanelDocks docks(window, context);   docks.arrange(Arrangement::Rewrite);   docks.panel<RunPanel>()->start();
#pragma once

#include <QDockWidget>
#include <QHash>
#include <QMainWindow>

#include "views/panels/panels.h"

namespace graft {

class PanelDocks : public QObject {
  Q_OBJECT

 public:
  /// The docks belong to `window`.
  PanelDocks(QMainWindow& window, PanelContext& context);
  const QList<QDockWidget*>& docks() const { return docks_; }
  QDockWidget* dock(const QString& name) const;
  /// The panel of that class, or the part of a panel. It must exist.
  template <class T>
  T* panel() const {
    for (QDockWidget* d : docks_)
      if (auto* found = d->findChild<T*>()) return found;
    Q_UNREACHABLE();
  }

  Arrangement arrangement() const { return arrangement_; }
  /// "explore", "rewrite", "measure" or "compile".
  static QString nameOf(Arrangement arrangement);
  void arrange(Arrangement arrangement);
  /// Shows a panel, in the arrangement that it belongs to where a model is open; hides one that shows.
  void toggle(const QString& name);
  void show(const QString& name);
  /// Puts the panels of all arrangements back where they were at first. What is in them stays.
  void reset();
  /// Where the panels beside and below the drawing leave it less than half of the width or height, they shrink.
  void leaveRoom();
  /// Panels that a small window has narrowed have the widths again that they ask for, as far as there is room.
  void giveBack();
  /// Remembers where the panels of this arrangement are.
  void save() const;

 Q_SIGNALS:
  void arranged(Arrangement arrangement);
  void keyboardLost();  ///< the panel that had it is no longer shown

 private:
  QDockWidget* make(const PanelDescription& panel);
  void placeAnew();
  int widthOf(const PanelDescription& panel) const;
  void makeRoom(const PanelDescription& panel, bool isShown);

  QMainWindow& window_;
  PanelContext& context_;
  QList<QDockWidget*> docks_;
  QByteArray firstState_;        ///< before anybody has moved a panel
  QHash<QString, int> heights_;  ///< of panels that lend height, while they do not
  Arrangement arrangement_ = Arrangement::Explore;
  bool arranging_ = false, isNarrowed_ = false;  ///< `isNarrowed_`: for want of room, by nobody's wish
};

}  // namespace graft
