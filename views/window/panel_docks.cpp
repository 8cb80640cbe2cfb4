#include "views/window/panel_docks.h"

#include <QApplication>
#include <QPointer>
#include <QSettings>
#include <QStatusBar>
#include <algorithm>

namespace graft {
namespace {

/// Of the layout as QMainWindow saves it: another one's is not restored.
constexpr int stateVersion = 3;

QString settingOf(Arrangement a) { return QStringLiteral("arrangement%1").arg(static_cast<int>(a)); }
/// The size of the window that it was made for.
QString sizeSettingOf(Arrangement a) { return settingOf(a) + QStringLiteral("Size"); }

}  // namespace

PanelDocks::PanelDocks(QMainWindow& window, PanelContext& context) : window_(window), context_(context) {
  for (const PanelDescription& p : panels()) docks_ << make(p);
  for (const PanelDescription& p : panels())
    if (!p.tabbedWith.isEmpty()) window_.tabifyDockWidget(dock(p.tabbedWith), dock(p.name));
  firstState_ = window_.saveState(stateVersion);
  for (const PanelDescription& p : panels())
    if (!p.borrowsFrom.isEmpty())
      connect(dock(p.name)->toggleViewAction(), &QAction::toggled, this, [this, &p](bool on) { makeRoom(p, on); });
}

QDockWidget* PanelDocks::make(const PanelDescription& panel) {
  auto* d = new QDockWidget(QString(panel.title).remove(QLatin1Char('&')), &window_);
  d->setObjectName(panel.name);
  d->setWidget(panel.make(context_));
  d->setFeatures(QDockWidget::DockWidgetMovable | QDockWidget::DockWidgetClosable | QDockWidget::DockWidgetFloatable);
  d->toggleViewAction()->setToolTip(panel.help);
  window_.addDockWidget(panel.area, d);
  if (panel.isOnRequest) d->hide();
  return d;
}

QDockWidget* PanelDocks::dock(const QString& name) const {
  for (QDockWidget* d : docks_)
    if (d->objectName() == name) return d;
  return nullptr;
}

QString PanelDocks::nameOf(Arrangement arrangement) {
  switch (arrangement) {
    case Arrangement::Explore:
      return QStringLiteral("explore");
    case Arrangement::Rewrite:
      return QStringLiteral("rewrite");
    case Arrangement::Measure:
      return QStringLiteral("measure");
    case Arrangement::Compile:
      return QStringLiteral("compile");
  }
  Q_UNREACHABLE();
}

void PanelDocks::save() const {
  QSettings settings;
  settings.setValue(settingOf(arrangement_), window_.saveState(stateVersion));
  settings.setValue(sizeSettingOf(arrangement_), window_.size());
}

void PanelDocks::reset() {
  QSettings settings;
  for (const Arrangement a : allArrangements) settings.remove(settingOf(a));
  window_.restoreState(firstState_, stateVersion);
  arrange(arrangement_);
}

void PanelDocks::arrange(Arrangement arrangement) {
  arranging_ = true;
  const QPointer<QWidget> hadKeyboard = QApplication::focusWidget();
  const bool isOpen = context_.document().isOpen();
  if (window_.isVisible() && arrangement != arrangement_ && isOpen) save();
  arrangement_ = arrangement;
  const QByteArray saved = QSettings().value(settingOf(arrangement)).toByteArray();
  const bool isRestored = !saved.isEmpty() && window_.restoreState(saved, stateVersion);
  if (!isRestored) placeAnew();
  // The welcome page stands alone: panels about a model would be empty.
  for (const PanelDescription& p : panels())
    if (!isOpen && p.needsModel) dock(p.name)->hide();
  const QSize madeFor = QSettings().value(sizeSettingOf(arrangement)).toSize();
  if (isRestored && (window_.width() < madeFor.width() || window_.height() < madeFor.height())) leaveRoom();
  // Half as wide again is another screen.
  if (isRestored && madeFor.isValid() && 2 * window_.width() > 3 * madeFor.width()) {
    isNarrowed_ = true;
    giveBack();
  }
  arranging_ = false;
  Q_EMIT arranged(arrangement);
  // Qt hands it to whatever comes next, as to a stage of compilation, where a key means something else.
  if (hadKeyboard && !hadKeyboard->isVisible() && window_.isAncestorOf(hadKeyboard)) Q_EMIT keyboardLost();
}

/// As at first: the arrangement's panels, in the sizes that they ask for.
void PanelDocks::placeAnew() {
  QList<QDockWidget*> wide, high;
  QList<int> widths, heights;
  for (const PanelDescription& p : panels()) {
    QDockWidget* d = dock(p.name);
    const bool isShown = p.arrangements.contains(arrangement_) && !p.isOnRequest;
    d->setVisible(isShown);
    if (!isShown) continue;
    if (p.size.width() > 0) wide << d, widths << widthOf(p);
    if (p.size.height() > 0) high << d, heights << heights_.value(p.name, p.size.height());
  }
  // In a narrow window the drawing has half of the width.
  int left = 0, right = 0;
  for (qsizetype i = 0; i < wide.size(); ++i) {
    int& side = window_.dockWidgetArea(wide[i]) == Qt::LeftDockWidgetArea ? left : right;
    side = std::max(side, widths[i]);
  }
  const int room = window_.width() / 2;
  isNarrowed_ = left + right > room;
  if (isNarrowed_)
    for (int& width : widths) width = width * room / (left + right);
  if (!wide.isEmpty()) window_.resizeDocks(wide, widths, Qt::Horizontal);
  if (!high.isEmpty()) window_.resizeDocks(high, heights, Qt::Vertical);
}

void PanelDocks::leaveRoom() {
  constexpr double share = 0.5;  // at most
  QList<QDockWidget*> wide, high;
  QList<int> widths, heights;
  int left = 0, right = 0;
  for (QDockWidget* d : docks_) {
    if (!d->isVisible() || d->isFloating()) continue;
    switch (window_.dockWidgetArea(d)) {
      case Qt::LeftDockWidgetArea:
        left = std::max(left, d->width());
        wide << d, widths << d->width();
        break;
      case Qt::RightDockWidgetArea:
        right = std::max(right, d->width());
        wide << d, widths << d->width();
        break;
      default:
        high << d, heights << d->height();
    }
  }
  if (const int room = static_cast<int>(share * window_.width()); left + right > room) {
    isNarrowed_ = true;
    for (int& width : widths) width = width * room / (left + right);
    window_.resizeDocks(wide, widths, Qt::Horizontal);
  }
  const int lowest = heights.isEmpty() ? 0 : *std::max_element(heights.begin(), heights.end());
  const int highest = static_cast<int>(share * (window_.centralWidget()->height() + lowest));
  if (lowest <= highest) return;
  for (int& height : heights) height = std::min(height, highest);
  window_.resizeDocks(high, heights, Qt::Vertical);
}

/// On a very wide screen more than it asks for, so that less of what it says is cut.
int PanelDocks::widthOf(const PanelDescription& panel) const {
  constexpr double usual = 1920, most = 1.5;
  return static_cast<int>(panel.size.width() * std::clamp(window_.width() / usual, 1.0, most));
}

void PanelDocks::giveBack() {
  if (!isNarrowed_) return;
  QList<QDockWidget*> wide;
  QList<int> widths;
  int left = 0, right = 0;
  for (const PanelDescription& p : panels()) {
    QDockWidget* d = dock(p.name);
    if (!d->isVisibleTo(&window_) || d->isFloating() || p.size.width() <= 0) continue;
    const Qt::DockWidgetArea area = window_.dockWidgetArea(d);
    if (area != Qt::LeftDockWidgetArea && area != Qt::RightDockWidgetArea) continue;
    int& side = area == Qt::LeftDockWidgetArea ? left : right;
    wide << d, widths << std::max(d->width(), widthOf(p));
    side = std::max(side, widths.last());
  }
  const int room = window_.width() / 2;
  isNarrowed_ = left + right > room;
  if (isNarrowed_)
    for (int& width : widths) width = width * room / (left + right);
  if (!wide.isEmpty()) window_.resizeDocks(wide, widths, Qt::Horizontal);
}

void PanelDocks::toggle(const QString& name) {
  const auto p = std::find_if(panels().begin(), panels().end(), [&](const auto& d) { return d.name == name; });
  const bool comes = !p->arrangements.contains(arrangement_) && context_.document().isOpen();
  if (comes) arrange(p->arrangements.front());
  dock(name)->setVisible(comes || !dock(name)->isVisible());
  dock(name)->raise();
}

void PanelDocks::show(const QString& name) {
  dock(name)->show();
  dock(name)->raise();
}

/// The panel below lends height, and has it back afterwards.
void PanelDocks::makeRoom(const PanelDescription& panel, bool isShown) {
  if (arranging_ || !window_.isVisible()) return;
  QDockWidget *above = dock(isShown ? panel.name : panel.tabbedWith), *lender = dock(panel.borrowsFrom);
  constexpr int lent = 140;  // what is left to the lender
  const auto described = std::find_if(panels().begin(), panels().end(),
                                      [&](const PanelDescription& p) { return p.name == panel.borrowsFrom; });
  int own = heights_.value(panel.borrowsFrom, described->size.height());
  if (isShown && lender->isVisible()) own = lender->height();
  heights_.insert(panel.borrowsFrom, own);
  if (isShown)
    window_.resizeDocks({above}, {lender->isVisible() ? lender->width() : panel.size.width()}, Qt::Horizontal);
  const int height = isShown ? std::min(lent, own) : own;
  const int all = window_.statusBar()->y() - window_.centralWidget()->y() - 1;
  window_.resizeDocks({above, lender}, {all - height, height}, Qt::Vertical);
}

}  // namespace graft
