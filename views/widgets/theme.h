// Light and dark: the application's palette, its few style rules, and icons drawn in the text's colour.
//
//   applyTheme(Theme::Dark);  button->setIcon(icon("play"));
#pragma once

#include <QFont>
#include <QIcon>
#include <QString>
#include <QWidget>

#include "views/layout/palette.h"

namespace graft {

void applyTheme(Theme theme);
Theme currentTheme();
/// What the system prefers, as far as it says so.
Theme systemTheme();
/// From resources/icons/NAME.svg, in the colour of text.
QIcon icon(const QString& name);
QFont monospace();
/// The theme's colour as "#rrggbb".
QString css(Color);
const Palette& themePalette();

/// The colour of a widget's text.
void tint(QWidget& widget, Color text);
/// The colours of a widget's ground, and of its frame and its buttons'.
void setGround(QWidget& widget, Color ground, Color frame);
/// The colours of what stands over the window for a moment: the card of a box, the tip of a call.
void setCardColors(QWidget& card, const Palette& colors);
/// A card's ground and frame, in the colours Window and Mid of its palette.
void paintCard(QWidget& card, double radius);

/// While it lives, what is drawn with themePalette() is drawn in that theme: pictures for paper.
class PaletteScope {
 public:
  explicit PaletteScope(Theme theme);
  ~PaletteScope();
  PaletteScope(const PaletteScope&) = delete;
  PaletteScope& operator=(const PaletteScope&) = delete;

 private:
  Palette before_;
};

}  // namespace graft
