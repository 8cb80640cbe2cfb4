// Comparison: the two canvases. On the right the model as it is, or as a preview would make it; on the left, while one
// compares, what it is compared with. They move and select together, and wear one overlay.
//
//   auto* comparison = new Comparison(document);   comparison->setComparing(true);
//   comparison->setOverlay(Overlay::Time);
#pragma once

#include <QSplitter>
#include <optional>
#include <utility>

#include "views/canvas/canvas.h"
#include "views/document/document.h"
#include "views/window/overlays.h"

namespace graft {

class Comparison : public QSplitter {
  Q_OBJECT

 public:
  explicit Comparison(Document& document, QWidget* parent = nullptr);
  Canvas* canvas() { return canvas_; }
  /// Hidden while nothing is compared or previewed.
  Canvas* before() { return before_; }
  bool isComparing() const { return comparing_; }
  void setComparing(bool on);
  /// Another model: what was opened in the one before says nothing of it, nor do numbers of its nodes.
  void forgetOpened();
  /// Colours nodes by numbers of the user's own.
  void showNumbers(NodeNumbers numbers);
  const NodeNumbers& numbers() const { return numbers_; }
  /// The nodes of the kernel that is looked at wear the colours of its code.
  void setShowingKernels(bool on);
  /// Where no rules are in sight, nodes have the colours of their kinds instead.
  void setShowingMatches(bool on);
  /// A drawing of a graph's nodes in other containers.
  struct Grouping {
    GraphRef of;      ///< the graph whose place it takes, while the document shows that
    GraphRef before;  ///< what it is compared with; null: what all is compared with
    GraphRef drawn;
    ViewOptions options;
    bool isByKernels = false;    ///< else by modules, as without a grouping
    QString title, beforeTitle;  ///< while it is compared
    // Of what `before` holds, where that is known
    struct Place {
      QString node, text;
    };
    DecorationPair changes;
    std::vector<Place> places;  ///< that one goes through from change to change
    /// Or, where nothing more is known: what was removed from `before` and added to `drawn`.
    std::vector<RecordInfo> records;
    /// Paths of containers in `before` and in `drawn` that open and close together.
    std::vector<std::pair<std::string, std::string>> together;
  };
  /// Without a drawing, graphs are drawn by their modules again.
  void setGrouping(Grouping grouping);
  bool isGrouped() const { return grouping_.drawn && grouping_.of == document_.graph(); }
  /// Of the drawing by modules, behind a grouping too.
  const ViewOptions& moduleOptions() const { return grouping_.isByKernels ? moduleOptions_ : canvas_->viewOptions(); }
  /// Compares with the model behind that step from now on; 0: as it was opened.
  void compareFrom(int step);
  /// Whether tall modules go on in another column while one drawing is shown.
  void setColumns(bool on);
  /// Two drawings stand beside each other across the way that they run.
  void setFlow(Flow flow);
  void setFoldsDeadEnds(bool on);
  Overlay overlay() const { return overlay_; }
  void setOverlay(Overlay overlay);
  /// Draws any two graphs beside each other, until the document's graph changes or comparing ends.
  struct Pair {
    GraphRef before, after;
    QString beforeTitle, afterTitle;
  };
  void showPair(Pair pair);
  bool showsPair() const { return pair_.after != nullptr; }
  /// Goes to the next place that was rewritten, or with -1 to the previous one.
  void nextChange(int step);
  /// Goes to the nodes of a match and lights them.
  void showMatch(const QStringList& nodes);
  /// Another model is about to be shown: nothing of this one is kept.
  void clear();
  void refreshDecorations();
  void refreshTheme();
  /// All of the drawing, or of both: at one scale where they show the same nodes. Where nothing could be read of that,
  /// first what is selected or has changed, and all of both only when it is asked for again.
  void fit();

 Q_SIGNALS:
  void comparingChanged(bool on);
  void overlayChanged(Overlay overlay);
  void numbersChanged(const NodeNumbers& numbers);
  void failed(const QString& what, const QString& why);
  void message(const QString& text);

 private:
  void refresh();
  bool areEqual() const;
  bool showsDifference() const;
  bool showSameNodes() const;
  void begin();
  void fitWhole();
  bool fitPart();
  void goToPlace(int step);
  void refreshSelection();
  void applyStyle();
  QString kernelOf(const QString& node, bool isBefore) const;
  void keepStyle(ViewOptions& options) const;
  void showPreview();
  std::vector<RecordInfo> records() const;
  GraphRef reference() const;
  void followView(Canvas* from, Canvas* to);
  void followOptions(Canvas* from, Canvas* to);
  QString successor(const QString& key, const GraphRef& now) const;
  QString counterpart(const QString& key, bool toAfter) const;

  Document& document_;
  Canvas *canvas_, *before_;
  Overlay overlay_ = Overlay::Kind;
  NodeNumbers numbers_;
  Pair pair_;
  std::vector<RecordInfo> pairRecords_;
  bool comparing_ = false, columns_ = true, foldsDeadEnds_ = true;
  Flow flow_ = Flow::Down;
  bool following_ = false;  ///< one canvas is being moved after the other
  bool begins_ = false;     ///< both are shown from their beginning once they are drawn
  bool sameNodes_ = true;   ///< `showSameNodes`
  bool showsMatches_ = true, showsKernels_ = false;
  int fromStep_ = 0;
  Grouping grouping_;
  ViewOptions moduleOptions_;
  int changeAt_ = -1;                               ///< of the changes, the one last gone to
  std::optional<std::pair<QPointF, double>> part_;  ///< the view of a part that was fitted last: origin and scale
};

}  // namespace graft
