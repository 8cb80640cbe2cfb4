#include "views/window/panel_focus.h"

#include <QApplication>
#include <QDockWidget>
#include <QSplitter>
#include <QTabWidget>
#include <algorithm>
#include <utility>

namespace graft {
namespace {

bool holds(const QWidget* part, const QWidget* w) { return w && (part == w || part->isAncestorOf(w)); }

bool takesTab(const QWidget* w) { return w->isVisible() && w->isEnabled() && (w->focusPolicy() & Qt::TabFocus); }

/// Where the keyboard goes in the part: where it was last, or to the uppermost widget that takes it.
QWidget* entryOf(QWidget* part) {
  if (QWidget* last = part->focusWidget(); last && holds(part, last) && takesTab(last)) return last;
  QList<QWidget*> inside = part->findChildren<QWidget*>();
  inside.prepend(part);
  QWidget* first = nullptr;
  const auto placeOf = [part](const QWidget* w) {
    const QPoint at = w->mapTo(part, QPoint());
    return std::pair(at.y(), at.x());
  };
  for (QWidget* w : std::as_const(inside))
    if (takesTab(w) && (!first || placeOf(w) < placeOf(first))) first = w;
  return first;
}

/// Panels behind the front one of several lie outside of the window.
bool isInWindow(const QWidget* w) {
  const QWidget* window = w->window();
  return w->isVisible() && window->rect().intersects(QRect(w->mapTo(window, QPoint()), w->size()));
}

void addParts(QWidget* w, QList<QWidget*>& parts) {
  if (!w || !isInWindow(w)) return;
  if (const auto* split = qobject_cast<QSplitter*>(w)) {
    for (int i = 0; i < split->count(); ++i) addParts(split->widget(i), parts);
  } else if (const auto* tabs = qobject_cast<QTabWidget*>(w)) {
    addParts(tabs->currentWidget(), parts);
  } else if (entryOf(w)) {
    parts << w;
  }
}

}  // namespace

void focusNextPart(QMainWindow& window, QWidget& centre, int step) {
  QList<QWidget*> parts;
  for (const QDockWidget* dock : window.findChildren<QDockWidget*>()) addParts(dock->widget(), parts);
  addParts(&centre, parts);
  if (parts.isEmpty()) return;
  const auto placeOf = [&](const QWidget* w) {
    const QPoint at = w->mapTo(&window, QPoint());
    return std::pair(at.x(), at.y());
  };
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const QWidget* a, const QWidget* b) { return placeOf(a) < placeOf(b); });
  const QWidget* const now = QApplication::focusWidget();
  const auto at = std::find_if(parts.begin(), parts.end(), [&](const QWidget* part) { return holds(part, now); });
  const qsizetype count = parts.size();
  const qsizetype next = at == parts.end() ? (step > 0 ? 0 : count - 1) : (at - parts.begin() + step + count) % count;
  entryOf(parts[next])->setFocus(Qt::TabFocusReason);
}

}  // namespace graft
