// Where names and counts stand while boxes are too small for their usual text: names of open modules, ×N, and, where
// boxes have no words at all, names of a few of them, as maps name some towns. None covers a box that it does not
// belong to, as far as there is room. Places are in pixels from the scene's origin at one scale: they stay while one
// pans.
//
//   LabelPlaces places(scene, scale);
//   for (const PlacedLabel& label : places.labels()) … label.at.translated(-origin * scale) …
#pragma once

#include <QRectF>
#include <QString>
#include <unordered_map>
#include <vector>

#include "views/canvas/canvas_scene.h"
#include "views/canvas/small_text.h"

namespace graft {

struct PlacedLabel {
  enum class Kind : uint8_t { Name, Count, Landmark } kind = Kind::Name;
  int box = 0;
  QRectF at;
  QString text;
};

/// Whether a box that is shown that high has its detail below its title, and where the middle of the first line is.
bool hasTwoLines(bool hasDetail, double height, double scale);
double middleOfFirstLine(bool hasDetail, const QRectF& shown, double scale);

class LabelPlaces {
 public:
  LabelPlaces() = default;
  LabelPlaces(const Scene& scene, double scale);

  double scale() const { return scale_; }
  const std::vector<PlacedLabel>& labels() const { return labels_; }
  /// Of a box that holds no others: where its words end, in pixels from its left end; `width` where no count is in it.
  double wordsEnd(int box, double width) const {
    const auto it = wordsEnd_.find(box);
    return it == wordsEnd_.end() ? width : it->second;
  }

 private:
  double scale_ = 0;
  std::vector<PlacedLabel> labels_;
  std::unordered_map<int, double> wordsEnd_;
};

}  // namespace graft
