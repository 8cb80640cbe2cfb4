#include "views/layout/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace graft {
namespace {

constexpr Color blue{0, 114, 178}, green{0, 158, 115}, orange{230, 140, 0}, sky{86, 180, 233}, purple{150, 40, 140},
    grey{128, 136, 148}, yellow{216, 196, 30}, vermillion{213, 94, 0}, slate{100, 116, 139};

double luminance(Color c) {
  auto linear = [](double v) {
    v /= 255;
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}

}  // namespace

std::string Color::hex() const { return fmt::format("#{:02x}{:02x}{:02x}", r, g, b); }

Color mix(Color a, Color b, double t) {
  auto blend = [&](uint8_t x, uint8_t y) { return static_cast<uint8_t>(std::lround(x + (y - x) * t)); };
  return {blend(a.r, b.r), blend(a.g, b.g), blend(a.b, b.b)};
}

double contrast(Color a, Color b) {
  double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

Color inkOn(Color fill) {
  constexpr Color black{0, 0, 0}, white{255, 255, 255};
  return contrast(fill, black) > contrast(fill, white) ? black : white;
}

Color readable(Color color, Color behind, Color to) {
  constexpr double step = 1.0 / 32;
  Color out = color;
  for (double t = step; contrast(out, behind) < legible && t <= 1; t += step) out = mix(color, to, t);
  return out;
}

Color Palette::hue(BoxKind kind) const {
  switch (kind) {
    case BoxKind::Product:
      return dark ? Color{64, 156, 214} : blue;
    case BoxKind::Normalization:
      return dark ? Color{38, 190, 146} : green;
    case BoxKind::Activation:
      return orange;
    case BoxKind::Lookup:
      return dark ? Color{140, 215, 250} : sky;
    case BoxKind::Kernel:
      return dark ? Color{230, 100, 200} : purple;
    case BoxKind::Shape:
      return grey;
    case BoxKind::Control:
      return yellow;
    case BoxKind::Arithmetic:
      return dark ? Color{148, 163, 184} : slate;
    case BoxKind::Input:
    case BoxKind::Output:
      return text;
    case BoxKind::Module:
      return dark ? Color{148, 160, 178} : Color{94, 108, 128};
  }
  return grey;
}

Color Palette::fill(BoxKind kind) const {
  switch (kind) {
    case BoxKind::Input:
    case BoxKind::Output:
      return surface;
    case BoxKind::Shape:
    case BoxKind::Arithmetic:
      return mix(surface, hue(kind), 0.10);
    case BoxKind::Module:
      return mix(surface, hue(kind), dark ? 0.16 : 0.10);
    default:
      return mix(surface, hue(kind), dark ? 0.20 : 0.15);
  }
}

Color Palette::border(BoxKind kind) const {
  if (kind == BoxKind::Shape || kind == BoxKind::Arithmetic) return mix(surface, hue(kind), 0.65);
  if (kind == BoxKind::Module) return mix(surface, hue(kind), 0.8);
  return hue(kind);
}

Color Palette::block(BoxKind kind) const {
  constexpr double least = 1.4, quiet = 0.4, most = 0.95, step = 0.05;
  constexpr int deep = 3;
  const Color hueOf = kind == BoxKind::Input || kind == BoxKind::Output ? dim : hue(kind);
  const Color behind = container(deep);
  double part = quiet;
  while (part < most && contrast(mix(surface, hueOf, part), behind) < least) part += step;
  return mix(surface, hueOf, part);
}

bool Palette::isAlike(Color a, Color b) {
  constexpr int apart = 60;  // in all channels together
  return std::abs(a.r - b.r) + std::abs(a.g - b.g) + std::abs(a.b - b.b) < apart;
}

Color Palette::container(int depth) const {
  double tint = std::min(0.025 + 0.022 * depth, 0.14);
  return mix(background, dark ? Color{190, 205, 230} : Color{40, 70, 120}, tint);
}

Color Palette::change(Change change) const {
  switch (change) {
    case Change::Removed:
      return dark ? Color{240, 128, 60} : vermillion;
    case Change::Added:
      return dark ? Color{38, 190, 146} : green;
    case Change::Changed:
      return dark ? Color{64, 156, 214} : blue;
    case Change::Moved:
      return dark ? Color{230, 100, 200} : purple;
    case Change::None:
      break;
  }
  return edge;
}

Color Palette::wrong() const { return readable(change(Change::Removed), window, text); }

Color Palette::chosen() const { return mix(background, accent, 0.22); }

Color Palette::faint() const { return readable(mix(background, text, 0.5), background, text); }

Color Palette::pattern(size_t index) const {
  // Found by search: any two stay apart as protanopes and deuteranopes see them, too.
  static constexpr std::array<Color, 7> light = {vermillion,           Color{47, 157, 215}, Color{120, 44, 100},
                                                 Color{194, 131, 134}, Color{22, 72, 188},  Color{132, 43, 26},
                                                 Color{0, 18, 248}};
  static constexpr std::array<Color, 7> onDark = {Color{250, 140, 70}, Color{24, 219, 255},  Color{217, 56, 255},
                                                  Color{255, 216, 0},  Color{168, 232, 199}, Color{189, 107, 156},
                                                  Color{183, 120, 98}};
  return (dark ? onDark : light)[index % light.size()];
}

Color Palette::heat(double t) const {
  // Viridis-like towards the light end on dark, the other way round on light: more is always farther from the
  // background.
  static constexpr std::array<Color, 6> stops = {Color{253, 231, 160}, Color{253, 187, 96}, Color{240, 120, 70},
                                                 Color{205, 60, 90},   Color{135, 30, 110}, Color{60, 15, 90}};
  static constexpr std::array<Color, 6> darkStops = {Color{45, 40, 90},  Color{105, 40, 120}, Color{175, 55, 105},
                                                     Color{230, 95, 75}, Color{250, 160, 60}, Color{252, 235, 150}};
  const auto& s = dark ? darkStops : stops;
  t = std::clamp(t, 0.0, 1.0) * (s.size() - 1);
  size_t i = std::min<size_t>(static_cast<size_t>(t), s.size() - 2);
  return mix(s[i], s[i + 1], t - i);
}

Palette palette(Theme theme) {
  Palette p;
  if (theme == Theme::Light) {
    p.background = {255, 255, 255};
    p.surface = {255, 255, 255};
    p.window = {244, 245, 247};
    p.text = {27, 31, 36};
    p.dim = {84, 92, 104};
    p.edge = {150, 158, 170};
    p.grid = {228, 231, 236};
    p.accent = {0, 98, 204};
    p.inputLit = {0, 114, 178};
    p.outputLit = {213, 94, 0};
  } else {
    p.dark = true;
    p.background = {27, 30, 36};
    p.surface = {34, 38, 45};
    p.window = {36, 40, 47};
    p.text = {230, 233, 238};
    p.dim = {178, 186, 198};
    p.edge = {106, 115, 128};
    p.grid = {52, 58, 67};
    p.accent = {90, 170, 255};
    p.inputLit = {90, 178, 235};
    p.outputLit = {250, 140, 70};
  }
  return p;
}

}  // namespace graft
