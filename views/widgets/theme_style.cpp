#include "views/widgets/theme_style.h"

#include <QAbstractItemView>
#include <QAbstractSpinBox>
#include <QComboBox>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QLineEdit>
#include <QPainter>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QStyleFactory>
#include <QStyleOption>
#include <QSvgRenderer>
#include <QTextBrowser>
#include <QToolButton>
#include <QTreeView>
#include <algorithm>
#include <optional>

#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr double radius = 5;
constexpr QMargins buttonPadding(13, 6, 13, 6), toolPadding(8, 5, 8, 5), fieldPadding(8, 5, 8, 5),
    headPadding(5, 6, 5, 7), itemPadding(2, 3, 2, 3), titlePadding(12, 7, 12, 5);
constexpr int arrowRoom = 17, dropDown = 20, check = 15, tabSide = 12, tabAbove = 6, tabBelow = 8;

QSize around(const QSize& size, const QMargins& m) { return size + QSize(m.left() + m.right(), m.top() + m.bottom()); }

bool has(const QStyleOption* option, QStyle::State state) { return option->state & state; }
bool isHovered(const QStyleOption* option) {
  return has(option, QStyle::State_MouseOver) && has(option, QStyle::State_Enabled);
}

QColor hoverColor() { return toQt(mix(themePalette().window, themePalette().text, 0.09)); }
QColor chosenColor() { return toQt(themePalette().chosen()); }
QColor accentColor() { return toQt(themePalette().accent); }

/// A rounded rectangle of whole pixels with a frame one pixel wide; either may be missing.
void drawBox(QPainter* p, const QRect& r, const std::optional<QColor>& fill, const std::optional<QColor>& frame,
             double corner = radius) {
  p->save();
  p->setRenderHint(QPainter::Antialiasing);
  p->setPen(frame ? QPen(*frame) : QPen(Qt::NoPen));
  p->setBrush(fill ? QBrush(*fill) : QBrush(Qt::NoBrush));
  if (frame)
    p->drawRoundedRect(QRectF(r).adjusted(0.5, 0.5, -0.5, -0.5), corner - 0.5, corner - 0.5);
  else
    p->drawRoundedRect(r, corner, corner);
  p->restore();
}

/// A part of the bar that goes to and fro: nobody knows how far it is.
void drawBusy(QPainter* p, const QRect& r) {
  constexpr qint64 period = 2400;
  constexpr double share = 0.3;
  static const QElapsedTimer since = [] {
    QElapsedTimer timer;
    timer.start();
    return timer;
  }();
  const double phase = static_cast<double>(since.elapsed() % period) / period;
  const double at = phase < 0.5 ? 2 * phase : 2 - 2 * phase;
  const int width = static_cast<int>(share * r.width());
  drawBox(p, {r.left() + static_cast<int>(at * (r.width() - width)), r.top(), width, r.height()}, accentColor(), {},
          r.height() / 2.0);
}

void drawFrame(QPainter* p, const QRect& r, const QColor& color) {
  p->save();
  p->setRenderHint(QPainter::Antialiasing, false);
  p->setPen(color);
  p->setBrush(Qt::NoBrush);
  p->drawRect(r.adjusted(0, 0, -1, -1));
  p->restore();
}

void drawIcon(QPainter* p, const char* name, const QRect& around, int size, bool isEnabled = true) {
  QRect r(0, 0, size, size);
  r.moveCenter(around.center());
  p->save();
  if (!isEnabled) p->setOpacity(0.5);
  QSvgRenderer(QStringLiteral(":/icons/%1.svg").arg(QLatin1String(name))).render(p, r);
  p->restore();
}

void drawCheck(const QStyleOption* option, QPainter* p) {
  const bool isOn = has(option, QStyle::State_On), isPartly = has(option, QStyle::State_NoChange);
  const Palette& colors = themePalette();
  drawBox(p, option->rect, toQt(isOn ? colors.accent : colors.background), toQt(isOn ? colors.accent : colors.dim), 3);
  if (isOn) drawIcon(p, "check", option->rect, check - 2, has(option, QStyle::State_Enabled));
  if (isPartly) p->fillRect(option->rect.adjusted(4, 7, -4, -7), toQt(colors.dim));
}

/// What shows focus by its own frame.
bool isFramedByFocus(const QWidget* w) {
  return qobject_cast<const QAbstractItemView*>(w) || qobject_cast<const QTextBrowser*>(w) ||
         qobject_cast<const QPlainTextEdit*>(w);
}

/// A field of a spin box is framed by that.
bool isPartOfSpinBox(const QWidget* w) { return w && qobject_cast<const QAbstractSpinBox*>(w->parentWidget()); }
bool hasMenu(const QStyleOptionToolButton& o) { return o.features & QStyleOptionToolButton::HasMenu; }
bool isPaddedItem(const QWidget* w) { return w && (w->inherits("QTreeView") || w->inherits("QListView")); }

/// A heading begins and ends where the words of its cells do.
QMargins headMargins(const QWidget* head) {
  QMargins m = headPadding;
  if (head && !isPaddedItem(head->parentWidget())) m -= QMargins(itemPadding.left(), 0, itemPadding.right(), 0);
  return m;
}

QMargins toolMargins(const QStyleOption* option) {
  QMargins m = toolPadding;
  const auto* tool = qstyleoption_cast<const QStyleOptionToolButton*>(option);
  if (tool && hasMenu(*tool)) m.setRight(arrowRoom);
  return m;
}

void drawToolFrame(const QStyleOptionToolButton& o, QPainter* p, const QWidget* w) {
  const Palette& colors = themePalette();
  const QColor line = o.palette.color(QPalette::Mid);
  const bool isMain = w && w->objectName() == QLatin1String("mainButton");
  std::optional<QColor> fill, frame;
  if (isHovered(&o)) fill = hoverColor();
  if (has(&o, QStyle::State_On)) fill = hoverColor(), frame = line;
  if (w && w->property("outlined").toBool()) frame = line;
  if (has(&o, QStyle::State_HasFocus)) fill = chosenColor();
  if (isMain) {
    const Color busy = mix(colors.accent, colors.text, 0.15);
    fill = frame = !has(&o, QStyle::State_Enabled) ? line : isHovered(&o) ? toQt(busy) : accentColor();
  }
  if (has(&o, QStyle::State_HasFocus)) frame = accentColor();
  if (fill || frame) drawBox(p, o.rect, fill, frame);
}

void drawButtonFrame(const QStyleOptionButton& o, QPainter* p) {
  const bool isOn = has(&o, QStyle::State_On), isFocused = has(&o, QStyle::State_HasFocus);
  const bool isDefault = (o.features & QStyleOptionButton::DefaultButton) && has(&o, QStyle::State_Enabled);
  std::optional<QColor> fill;
  if (isFocused || isOn) fill = chosenColor();
  if (isHovered(&o) && !isOn) fill = hoverColor();
  drawBox(p, o.rect, fill, isFocused || isOn || isDefault ? accentColor() : o.palette.color(QPalette::Mid));
}

void drawField(const QStyleOption& o, QPainter* p, bool isLit) {
  drawBox(p, o.rect, isLit ? hoverColor() : o.palette.color(QPalette::Base),
          has(&o, QStyle::State_HasFocus) ? accentColor() : o.palette.color(QPalette::Mid));
}

}  // namespace

ThemeStyle::ThemeStyle() : QProxyStyle(QStyleFactory::create(QStringLiteral("Fusion"))) {}

void ThemeStyle::polish(QWidget* widget) {
  QProxyStyle::polish(widget);
  // What is under a scroll bar shows.
  if (qobject_cast<QScrollBar*>(widget)) widget->setAttribute(Qt::WA_OpaquePaintEvent, false);
  if (qobject_cast<QLineEdit*>(widget) || qobject_cast<QAbstractScrollArea*>(widget))
    widget->setAttribute(Qt::WA_Hover);
}

int ThemeStyle::pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const {
  switch (metric) {
    case PM_DockWidgetSeparatorExtent:
      return 1;
    case PM_DockWidgetTitleMargin:
      return titlePadding.top();
    case PM_ToolBarFrameWidth:
      return 8;
    case PM_ToolBarItemMargin:
      return 0;
    case PM_ToolBarItemSpacing:
      return 4;
    case PM_ToolTipLabelFrameWidth:
      return 5;
    case PM_MenuPanelWidth:
      return 1;
    case PM_ScrollBarExtent:
      return 11;
    case PM_ScrollBarSliderMin:
      return 28;
    case PM_ScrollView_ScrollBarSpacing:
      return 0;
    case PM_IndicatorWidth:
    case PM_IndicatorHeight:
      return check;
    case PM_ButtonShiftHorizontal:
    case PM_ButtonShiftVertical:
    case PM_ButtonMargin:
    case PM_ButtonDefaultIndicator:
    case PM_TabBarTabShiftHorizontal:
    case PM_TabBarTabShiftVertical:
    case PM_TabBarBaseOverlap:
      return 0;
    case PM_TabBarTabHSpace:
      return 2 * tabSide;
    case PM_TabBarTabVSpace:
      return tabAbove + tabBelow;
    case PM_DefaultFrameWidth:
      if (qobject_cast<const QScrollArea*>(widget)) return 0;
      break;
    default:
      break;
  }
  return QProxyStyle::pixelMetric(metric, option, widget);
}

int ThemeStyle::styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                          QStyleHintReturn* more) const {
  if (hint == SH_DialogButtonBox_ButtonsHaveIcons) return 0;
  if (hint == SH_ComboBox_PopupFrameStyle) return QFrame::NoFrame;
  return QProxyStyle::styleHint(hint, option, widget, more);
}

QIcon ThemeStyle::standardIcon(StandardPixmap icon, const QStyleOption* option, const QWidget* widget) const {
  const bool isOfTitle = icon == SP_TitleBarCloseButton || icon == SP_TitleBarNormalButton;
  if (isOfTitle && qobject_cast<const QDockWidget*>(widget)) return {};
  return QProxyStyle::standardIcon(icon, option, widget);
}

QSize ThemeStyle::sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& size,
                                   const QWidget* widget) const {
  switch (type) {
    case CT_ToolButton:
      return around(size + QSize(3, 3), toolMargins(option));
    case CT_PushButton:
      return around(size, buttonPadding);
    case CT_ComboBox:
      return around(size + QSize(dropDown + 2, 0), fieldPadding);
    case CT_LineEdit:
      return isPartOfSpinBox(widget) ? size : around(size, fieldPadding);
    case CT_CheckBox:
      return {size.width() + check + pixelMetric(PM_CheckBoxLabelSpacing, option, widget),
              std::max(size.height(), check)};
    case CT_TabBarTab:
      return size;
    case CT_ItemViewItem: {
      const QSize inner = QProxyStyle::sizeFromContents(type, option, size, widget);
      return isPaddedItem(widget) ? around(inner, itemPadding) : inner;
    }
    case CT_HeaderSection:
      if (const auto* head = qstyleoption_cast<const QStyleOptionHeader*>(option)) {
        const int icon = head->icon.isNull() ? 0 : pixelMetric(PM_SmallIconSize, option, widget);
        const QSize text = head->fontMetrics.size(0, head->text);
        return around(QSize(icon + text.width(), std::max(icon, text.height())), headPadding);
      }
      break;
    default:
      break;
  }
  return QProxyStyle::sizeFromContents(type, option, size, widget);
}

QRect ThemeStyle::subElementRect(SubElement element, const QStyleOption* option, const QWidget* widget) const {
  const QRect& r = option->rect;
  switch (element) {
    case SE_PushButtonContents:
    case SE_PushButtonFocusRect:
      return r.marginsRemoved(buttonPadding);
    case SE_LineEditContents:
      if (isPartOfSpinBox(widget)) break;
      return r.marginsRemoved(fieldPadding);
    case SE_HeaderLabel:
      return r.marginsRemoved(headMargins(widget));
    case SE_HeaderArrow:
      return {};
    case SE_ItemViewItemText:
    case SE_ItemViewItemDecoration:
    case SE_ItemViewItemCheckIndicator:
    case SE_ItemViewItemFocusRect:
      if (const auto* item = qstyleoption_cast<const QStyleOptionViewItem*>(option); item && isPaddedItem(widget)) {
        QStyleOptionViewItem inner(*item);
        inner.rect = r.marginsRemoved(itemPadding);
        return QProxyStyle::subElementRect(element, &inner, widget);
      }
      break;
    case SE_TabWidgetTabContents:
      return QProxyStyle::subElementRect(SE_TabWidgetTabPane, option, widget).adjusted(0, 1, 0, 0);
    default:
      break;
  }
  return QProxyStyle::subElementRect(element, option, widget);
}

QRect ThemeStyle::subControlRect(ComplexControl control, const QStyleOptionComplex* option, SubControl part,
                                 const QWidget* widget) const {
  const QRect& r = option->rect;
  if (control == CC_ComboBox && part == SC_ComboBoxFrame) return r;
  if (control == CC_ComboBox && part == SC_ComboBoxEditField)
    return r.marginsRemoved(fieldPadding).adjusted(0, 0, -dropDown, 0);
  if (control == CC_ComboBox && part == SC_ComboBoxArrow)
    return {r.right() - dropDown, r.top() + 1, dropDown, r.height() - 2};
  if (control == CC_ToolButton && part == SC_ToolButton) return r;
  const auto* bar = control == CC_ScrollBar ? qstyleoption_cast<const QStyleOptionSlider*>(option) : nullptr;
  if (!bar) return QProxyStyle::subControlRect(control, option, part, widget);
  const bool isWide = bar->orientation == Qt::Horizontal;
  const int room = isWide ? r.width() : r.height();
  const qint64 range = qint64{bar->maximum} - bar->minimum;
  int length = room;
  if (range > 0) {
    const auto share = static_cast<int>(qint64{bar->pageStep} * room / (range + bar->pageStep));
    length = std::min(room, std::max(share, pixelMetric(PM_ScrollBarSliderMin, option, widget)));
  }
  const int start =
      sliderPositionFromValue(bar->minimum, bar->maximum, bar->sliderPosition, room - length, bar->upsideDown);
  const auto along = [&](int from, int to) {
    return isWide ? QRect(r.left() + from, r.top(), to - from, r.height())
                  : QRect(r.left(), r.top() + from, r.width(), to - from);
  };
  switch (part) {
    case SC_ScrollBarGroove:
      return r;
    case SC_ScrollBarSlider:
      return along(start, start + length);
    case SC_ScrollBarSubPage:
      return along(0, start);
    case SC_ScrollBarAddPage:
      return along(start + length, room);
    default:
      return {};
  }
}

void ThemeStyle::drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                               const QWidget* widget) const {
  const QRect& r = option->rect;
  const QColor line = option->palette.color(QPalette::Mid);
  switch (element) {
    case PE_IndicatorDockWidgetResizeHandle:
      return painter->fillRect(r, line);
    case PE_PanelStatusBar:
      return painter->fillRect(r.left(), r.top(), r.width(), 1, line);
    case PE_FrameStatusBarItem:
    case PE_FrameTabBarBase:
    case PE_IndicatorHeaderArrow:
      return;
    case PE_FrameTabWidget:
      return painter->fillRect(r.left(), r.top(), r.width(), 1, line);
    case PE_FrameMenu:
      return drawFrame(painter, r, line);
    case PE_PanelTipLabel:
      painter->fillRect(r, option->palette.brush(QPalette::ToolTipBase));
      return drawFrame(painter, r, line);
    case PE_PanelScrollAreaCorner:
      return painter->fillRect(r, option->palette.brush(QPalette::Base));
    case PE_IndicatorCheckBox:
    case PE_IndicatorItemViewItemCheck:
      return drawCheck(option, painter);
    case PE_FrameFocusRect:
      if (qobject_cast<const QAbstractItemView*>(widget)) return;
      break;
    case PE_PanelLineEdit:
      if (isPartOfSpinBox(widget)) break;
      return drawField(*option, painter, false);
    case PE_PanelButtonCommand:
      if (const auto* button = qstyleoption_cast<const QStyleOptionButton*>(option))
        return drawButtonFrame(*button, painter);
      break;
    case PE_Frame:
      if (qobject_cast<const QScrollArea*>(widget)) return;
      if (!isFramedByFocus(widget)) break;
      if (has(option, State_HasFocus)) drawFrame(painter, r, accentColor());
      return;
    default:
      break;
  }
  QProxyStyle::drawPrimitive(element, option, painter, widget);
}

void ThemeStyle::drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                             const QWidget* widget) const {
  const QRect& r = option->rect;
  const QColor line = option->palette.color(QPalette::Mid), dim = toQt(themePalette().dim);
  switch (element) {
    case CE_ToolBar:
      return painter->fillRect(r.left(), r.bottom(), r.width(), 1, line);
    case CE_ShapedFrame:
      if (qobject_cast<const QScrollArea*>(widget) || isFramedByFocus(widget))
        return drawPrimitive(PE_Frame, option, painter, widget);
      break;
    case CE_PushButtonBevel:
      if (const auto* button = qstyleoption_cast<const QStyleOptionButton*>(option)) {
        drawButtonFrame(*button, painter);
        return;
      }
      break;
    case CE_ProgressBarContents:
      if (const auto* bar = qstyleoption_cast<const QStyleOptionProgressBar*>(option);
          bar && bar->minimum == bar->maximum) {
        painter->save();
        painter->setClipRect(QRect());  // of Fusion's stripes, which fill a low bar, only what makes them move
        QProxyStyle::drawControl(element, option, painter, widget);
        painter->restore();
        return drawBusy(painter, r);
      }
      break;
    case CE_DockWidgetTitle:
      if (const auto* dock = qstyleoption_cast<const QStyleOptionDockWidget*>(option)) {
        const QRect room = r.marginsRemoved(titlePadding);
        drawItemText(
            painter, room, Qt::AlignLeft | Qt::AlignTop | Qt::TextShowMnemonic, dock->palette, has(dock, State_Enabled),
            painter->fontMetrics().elidedText(dock->title, Qt::ElideRight, room.width()), QPalette::WindowText);
        return;
      }
      break;
    case CE_Header:  // by its own parts: Fusion's asks itself where the label is
      if (const auto* head = qstyleoption_cast<const QStyleOptionHeader*>(option)) {
        drawControl(CE_HeaderSection, option, painter, widget);
        QStyleOptionHeader label(*head);
        label.rect = subElementRect(SE_HeaderLabel, option, widget);
        return drawControl(CE_HeaderLabel, &label, painter, widget);
      }
      break;
    case CE_HeaderSection:
    case CE_HeaderEmptyArea:
      painter->fillRect(r, option->palette.brush(QPalette::Window));
      return painter->fillRect(r.left(), r.bottom(), r.width(), 1, line);
    case CE_HeaderLabel:
      if (const auto* head = qstyleoption_cast<const QStyleOptionHeader*>(option)) {
        QStyleOptionHeader quiet(*head);
        quiet.palette.setColor(QPalette::ButtonText, dim);
        return QProxyStyle::drawControl(element, &quiet, painter, widget);
      }
      break;
    case CE_TabBarTabShape:
      if (has(option, State_Selected)) painter->fillRect(r.left(), r.bottom() - 1, r.width(), 2, accentColor());
      return;
    case CE_TabBarTabLabel:
      if (const auto* tab = qstyleoption_cast<const QStyleOptionTab*>(option)) {
        QStyleOptionTab quiet(*tab);
        if (!has(tab, State_Selected)) quiet.palette.setColor(QPalette::WindowText, dim);
        return QProxyStyle::drawControl(element, &quiet, painter, widget);
      }
      break;
    case CE_CheckBoxLabel:
      if (const auto* box = qstyleoption_cast<const QStyleOptionButton*>(option); box && has(box, State_HasFocus)) {
        QStyleOptionButton lit(*box);
        lit.palette.setColor(QPalette::WindowText, accentColor());
        return QProxyStyle::drawControl(element, &lit, painter, widget);
      }
      break;
    default:
      break;
  }
  QProxyStyle::drawControl(element, option, painter, widget);
}

void ThemeStyle::drawComplexControl(ComplexControl control, const QStyleOptionComplex* option, QPainter* painter,
                                    const QWidget* widget) const {
  if (control == CC_ScrollBar) {
    const bool isLit = isHovered(option) && (option->activeSubControls & SC_ScrollBarSlider);
    const Palette& colors = themePalette();
    const QRect handle = subControlRect(control, option, SC_ScrollBarSlider, widget);
    if (handle.width() < (option->rect.width()) || handle.height() < option->rect.height())
      drawBox(painter, handle.adjusted(2, 2, -2, -2),
              toQt(isLit ? colors.dim : mix(colors.background, colors.text, 0.28)), {}, 3);
    return;
  }
  if (control == CC_ComboBox) {
    drawField(*option, painter, isHovered(option));
    return drawIcon(painter, "chevron", subControlRect(control, option, SC_ComboBoxArrow, widget), 12);
  }
  if (const auto* tool =
          control == CC_ToolButton ? qstyleoption_cast<const QStyleOptionToolButton*>(option) : nullptr) {
    drawToolFrame(*tool, painter, widget);
    QStyleOptionToolButton label(*tool);
    label.rect = tool->rect.marginsRemoved(toolMargins(tool));
    if (widget && widget->objectName() == QLatin1String("mainButton") && has(tool, State_Enabled))
      label.palette.setColor(QPalette::ButtonText,
                             toQt(themePalette().dark ? Color{15, 18, 22} : Color{255, 255, 255}));
    drawControl(CE_ToolButtonLabel, &label, painter, widget);
    if (hasMenu(*tool)) {
      QStyleOption arrow(*tool);
      arrow.rect = {tool->rect.right() - 9, tool->rect.center().y() - 4, 9, 9};
      drawPrimitive(PE_IndicatorArrowDown, &arrow, painter, widget);
    }
    return;
  }
  QProxyStyle::drawComplexControl(control, option, painter, widget);
}

}  // namespace graft
