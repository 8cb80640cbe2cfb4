// HoverCard: what a box is, beside it: name, operator, module, shapes, dtypes, bytes, kernel, source line. It comes
// when the pointer rests on the box, and by a key for the box that is selected; it goes when the drawing moves.
//
//   CardText text = cardOf(scene, box, extra);
//   card.show(text, place of the box on the screen);
#pragma once

#include <QFrame>
#include <QLabel>
#include <QString>
#include <utility>
#include <vector>

#include "views/canvas/canvas_scene.h"

namespace graft {

struct CardText {
  QString title, name;
  std::vector<std::pair<QString, QString>> rows;
  QString hint;  ///< what a key or a click does
  /// In one piece, for screen readers.
  QString plain() const;
};

/// What a scene does not know: which kernel computes a node, a line of what was measured, and what stands for its title
/// in the drawing where that has no room.
struct CardExtra {
  QString kernel, measured;
  QString shownAs{};
};
CardText cardOf(const Scene& scene, int box, const CardExtra& extra = {});

class HoverCard : public QFrame {
  Q_OBJECT

 public:
  explicit HoverCard(QWidget* parent);
  /// Beside `box`, in pixels of the screen, within the screen that it is on.
  void show(const CardText& text, const QRect& box, const Palette& colors);

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QLabel* text_;
};

}  // namespace graft
