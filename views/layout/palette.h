// The colours of drawings and canvas, after Okabe and Ito: all pairs stay apart for colour-blind eyes. Colour says
// kind, quietly: a border in the hue, a fill of 15 % of it, text always in the theme's text colour.
//
//   Palette p = palette(Theme::Dark);  svg(p.fill(BoxKind::Product));
#pragma once

#include <cstdint>
#include <string>

#include "views/layout/node_text.h"

namespace graft {

struct Color {
  uint8_t r = 0, g = 0, b = 0;
  std::string hex() const;
};
Color mix(Color a, Color b, double partOfB);
/// WCAG's contrast of two colours, 1 to 21.
double contrast(Color a, Color b);
/// What letters need to be read: WCAG's AA.
inline constexpr double legible = 4.5;
/// Black or white, whichever is read better on it: legible on any colour.
Color inkOn(Color fill);
/// The colour, as far towards `to` as letters in it need to be legible on `behind`.
Color readable(Color color, Color behind, Color to);

enum class Theme : uint8_t { Light, Dark };
/// Moved: of what is in both, and elsewhere.
enum class Change : uint8_t { None, Removed, Added, Changed, Moved };

struct Palette {
  bool dark = false;
  Color background, surface, window, text, dim, edge, grid, accent, inputLit, outputLit;
  Color hue(BoxKind) const;
  Color fill(BoxKind) const;
  Color border(BoxKind) const;
  /// The fill of a box that is too small for a border: seen on any ground, and the text's colour can be read on it.
  Color block(BoxKind) const;
  /// Whether nobody tells these two apart in a small sign: legends make one row of kinds of such colours.
  static bool isAlike(Color a, Color b);
  /// Containers get a faint tint that grows with their depth.
  Color container(int depth) const;
  Color change(Change) const;
  /// The colour of a sentence about something wrong, legible in panels and lists.
  Color wrong() const;
  /// The quietest letters: line numbers, hints in empty fields.
  Color faint() const;
  /// The ground of a row or a button that is chosen.
  Color chosen() const;
  /// Distinct colours for pattern nodes, by their number.
  Color pattern(size_t index) const;
  /// A perceptual scale from cold to hot, 0 … 1.
  Color heat(double) const;
};
Palette palette(Theme);

}  // namespace graft
