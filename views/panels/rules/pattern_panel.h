// PatternPanel: the current rule's pattern as a drawing, its nodes in the colours that their text and their matches
// have. Of a rule that does not match, only the nodes that the nearest miss reached are coloured.
#pragma once

#include "views/canvas/canvas.h"
#include "views/panels/panel.h"

namespace graft {

class PatternPanel : public Canvas {
  Q_OBJECT

 public:
  explicit PatternPanel(PanelContext& context);
  /// The whole pattern is in view down to this scale, at which most operators still have their names.
  static constexpr double smallest = 0.3;

 private:
  void refresh();
  Document& document_;
};

PanelDescription patternPanel();

}  // namespace graft
