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
#include <cmath>
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

/// Whether a box that holds no others is high enough for words, or no other one is so near that their lines would meet.
bool hasLine(const Scene& scene, int box, double scale);
/// What a box that holds no others is called on its first line or two, and from where to where it has room for that, in
/// pixels from its left end. Words that are as high as their box, or higher, may stand a little out of it where no
/// other box is.
struct BoxTitle {
  SmallTitle text;
  double left = 0, right = 0;
};
/// Whether a box that holds no others has room for a word at this scale.
bool hasWords(const Scene& scene, int box, double scale);

class LabelPlaces {
 public:
  /// Labels of edges show at larger scales than that.
  static constexpr double edgeLabels = 0.75;
  LabelPlaces() = default;
  LabelPlaces(const Scene& scene, double scale);

  double scale() const { return scale_; }
  const std::vector<PlacedLabel>& labels() const { return labels_; }
  /// What titles are called in this drawing, at this scale.
  const Spellings& spellings() const { return spellings_; }
  /// Of a box that is too small for its usual text. `hasDetail`: its second line is taken.
  BoxTitle titleOf(const Scene& scene, int box, bool hasDetail) const;
  /// Of a box that has its usual text, in units of the scene.
  SmallTitle usualTitle(const Scene& scene, int box) const;
  /// Of a box that holds no others: where its words end, in pixels from its left end; `width` where no count is in it.
  double wordsEnd(int box, double width) const {
    const auto it = wordsEnd_.find(box);
    return it == wordsEnd_.end() ? width : it->second;
  }
  /// How far the label of an edge, by its number in the layout, makes room for the one before it, in pixels: words that
  /// keep their size as the drawing shrinks would run into each other.
  QPointF labelShift(size_t label) const { return label < shifts_.size() ? shifts_[label] : QPointF(); }
  /// Where that label stands, in pixels from the scene's origin.
  QRectF edgeLabelPlace(const Scene& scene, size_t label) const;
  /// False for the label of an edge that would stand on the one of another box; zooming in shows it.
  bool showsEdgeLabel(size_t label) const { return label >= covered_.size() || covered_[label] == 0; }

 private:
  void findSpellings(const Scene& scene);
  void findUsualSpellings(const Scene& scene);
  void shiftEdgeLabels(const Scene& scene);
  void hideCoveredLabels(const Scene& scene);

  double scale_ = 0;
  std::vector<PlacedLabel> labels_;
  std::unordered_map<int, double> wordsEnd_;
  Spellings spellings_;
  // By label of the layout, where labels of edges show
  std::vector<QPointF> shifts_;
  std::vector<char> covered_;
};

}  // namespace graft
