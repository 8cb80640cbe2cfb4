// HeatScale: the colours of numbers on boxes, between the least and the largest of them. Times, bytes and errors begin
// at 0. Where both signs occur, two rows of colours part at 0, and the same size has the same depth on either side.
//
//   const HeatScale scale{boxes.least, boxes.most};   scale.color(palette, -3.5);
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "views/layout/palette.h"

namespace graft {

struct HeatScale {
  double least = 0, most = 0;

  bool parts() const { return least < 0 && most > 0; }
  /// Small numbers are told apart, too: depth grows with the root.
  Color color(const Palette& p, double v) const {
    const double farthest = std::max(-least, most);
    if (parts()) return v < 0 ? cold(p, depth(-v, farthest)) : p.heat(depth(v, farthest));
    if (most <= 0 && least < 0) return cold(p, depth(most - v, most - least));
    return p.heat(depth(v - least, most - least));
  }
  /// The number at a share of the scale, from its left end.
  double at(double share) const { return least + share * (most - least); }

  /// Begins where Palette::heat does, and goes to blue.
  static Color cold(const Palette& p, double t) {
    static constexpr std::array<Color, 6> stops = {Color{253, 231, 160}, Color{180, 214, 190}, Color{112, 180, 200},
                                                   Color{58, 130, 185},  Color{38, 84, 150},   Color{20, 45, 100}};
    static constexpr std::array<Color, 6> darkStops = {Color{45, 40, 90},   Color{32, 80, 130},   Color{28, 124, 160},
                                                       Color{60, 172, 186}, Color{130, 214, 206}, Color{206, 246, 230}};
    const auto& s = p.dark ? darkStops : stops;
    t *= static_cast<double>(s.size() - 1);
    const size_t i = std::min(static_cast<size_t>(t), s.size() - 2);
    return mix(s[i], s[i + 1], t - static_cast<double>(i));
  }

 private:
  static double depth(double part, double whole) {
    return whole > 0 ? std::sqrt(std::clamp(part / whole, 0.0, 1.0)) : 1;
  }
};

}  // namespace graft
