// What the theme's palette cannot say of widgets: Fusion with flat buttons, thin scroll bars and quiet frames. It is a
// style and no style sheet: of a sheet, Qt keeps what it found for each widget and each of its parts, 5 MB in all.
//
//   QApplication::setStyle(new ThemeStyle);   // the colours come from themePalette() and the widget's palette
//
// Frames have the colour of QPalette::Mid: a widget on another ground gives its buttons other frames by its palette.
#pragma once

#include <QProxyStyle>

namespace graft {

class ThemeStyle : public QProxyStyle {
 public:
  ThemeStyle();

  void polish(QWidget* widget) override;
  using QProxyStyle::polish;
  int pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const override;
  int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                QStyleHintReturn* more) const override;
  QIcon standardIcon(StandardPixmap icon, const QStyleOption* option, const QWidget* widget) const override;
  QSize sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& size,
                         const QWidget* widget) const override;
  QRect subElementRect(SubElement element, const QStyleOption* option, const QWidget* widget) const override;
  QRect subControlRect(ComplexControl control, const QStyleOptionComplex* option, SubControl part,
                       const QWidget* widget) const override;
  void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override;
  void drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                   const QWidget* widget) const override;
  void drawComplexControl(ComplexControl control, const QStyleOptionComplex* option, QPainter* painter,
                          const QWidget* widget) const override;
};

}  // namespace graft
