// Of how many boxes one can read, where all of the drawing is in view, what they are or where they belong: for the
// tests of the canvas, and for the tables of docs/measurements/window.md.
#pragma once

#include <map>
#include <set>
#include <string>

#include "views/canvas/label_places.h"

namespace graft::test {

struct NamedBoxes {
  double words = 0;  ///< of the boxes that hold no others, those with three letters or more in them
  double named = 0;  ///< those, and the ones in a module of a tenth of all boxes or less whose whole name is drawn,
                     ///< or its number
  double cut = 0;    ///< those of which one sees the beginning of their title alone
  std::map<std::string, int> cutTitles;  ///< "softmax: soft…", how often
};

inline NamedBoxes namedBoxes(const Scene& scene, double scale) {
  const auto& boxes = scene.view.boxes;
  std::set<int> told;  // modules
  const LabelPlaces places(scene, scale);
  for (const PlacedLabel& label : places.labels()) {
    const std::string& title = boxes[static_cast<size_t>(label.box)].title;
    const std::string text = label.text.toStdString();
    if (text == title || title.ends_with("." + text)) told.insert(label.box);
  }
  std::vector<size_t> holds(boxes.size(), 0);
  size_t closed = 0;
  for (const Box& box : boxes) {
    if (box.open) continue;
    ++closed;
    for (int up = box.parent; up >= 0; up = boxes[static_cast<size_t>(up)].parent) ++holds[static_cast<size_t>(up)];
  }
  NamedBoxes out;
  size_t words = 0, named = 0, cut = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].open) continue;
    const SmallTitle title = places.titleOf(scene, static_cast<int>(i), !boxes[i].detail.empty()).text;
    const bool has = title.form != SmallTitle::Form::None;
    bool isTold = has || told.contains(static_cast<int>(i));
    for (int up = boxes[i].parent; up >= 0 && !isTold; up = boxes[static_cast<size_t>(up)].parent)
      isTold = told.contains(up) && 10 * holds[static_cast<size_t>(up)] <= closed;
    words += has;
    named += isTold;
    if (!has || title.form != SmallTitle::Form::Cut) continue;
    ++cut;
    ++out.cutTitles[boxes[i].title + ": " + title.first.toStdString()];
  }
  const auto all = static_cast<double>(std::max<size_t>(1, closed));
  out.words = static_cast<double>(words) / all;
  out.named = static_cast<double>(named) / all;
  out.cut = static_cast<double>(cut) / all;
  return out;
}

/// In a pane of the usual size.
inline double scaleOfFit(const Scene& scene) {
  constexpr double width = 1100, height = 760, edges = 16;
  return std::min({(width - edges) / scene.layout.width, (height - edges) / scene.layout.height, 1.25});
}

}  // namespace graft::test
