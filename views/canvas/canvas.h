// Canvas: the drawing one works in. Pans, zooms to the pointer, opens and closes modules where they stand, selects,
// follows edges by keyboard. Draws a value (Scene) with level of detail; keeps the picture between frames, so
// that panning repaints only what comes into view. Knows names, not meaning: decorations say which nodes match,
// changed, or are hot.
//
//   canvas->setGraph(document->graph());  canvas->setDecorations(d);
//   connect(canvas, &Canvas::selectionEdited, document, &Document::setSelection);
#pragma once

#include <QElapsedTimer>
#include <QPixmap>
#include <QWidget>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "views/canvas/canvas_frame.h"
#include "views/canvas/label_places.h"

class QTimer;

namespace graft {

struct CardText;
class HoverCard;
class Overview;

class Canvas : public QWidget {
  Q_OBJECT

 public:
  explicit Canvas(QWidget* parent = nullptr);
  ~Canvas() override;

  /// Keeps what was open by path, and the view; a first graph is fitted. What is in the middle stays there, or what
  /// `now` says has taken its place.
  using Successor = std::function<QString(const QString& key)>;
  void setGraph(std::shared_ptr<const Graph> graph, const Successor& now = {});
  void setDecorations(Decorations decorations);
  void setTheme(Theme theme);
  void setSelection(const QStringList& keys);
  /// Lit from elsewhere: the code line or list row under the pointer.
  void setLit(const QStringList& nodes);
  void setTitle(const QString& title) { title_ = title, update(); }
  QString title() const { return title_; }
  /// What the title takes of the height: drawings that are fitted begin below it.
  double titleRoom() const { return title_.isEmpty() ? 0 : CanvasFrame::titleHeight; }
  void setPlaceholder(const QString& text) { placeholder_ = text, update(); }
  /// What is said of an edge, by the number that it has in the scene; "" for nothing.
  /// `leads`: of edges that run side by side these are meant first, and a click is on these alone.
  void setEdgeTips(std::function<QString(int)> tip, std::function<bool(int)> leads) {
    edgeTip_ = std::move(tip);
    edgeLeads_ = std::move(leads);
  }
  /// Which kernel computes a node; "" where nobody knows.
  void setKernelOf(std::function<QString(const QString& node)> kernel) { kernelOf_ = std::move(kernel); }
  const HoverCard* card() const { return card_; }
  void setOverviewVisible(bool);
  /// What the colours of nodes say, in a corner.
  void setLegendVisible(bool on);
  /// What stands still over the drawing. There must be a scene.
  CanvasFrame frame() const;
  /// The scale at which all of it is in view, and that view.
  double wholeScale() const;
  void centre(double scale);
  /// Small and still: for the pattern; fits itself on every resize.
  void setAutoFit(bool, double smallest = 0.65);

  SceneRef scene() const { return scene_; }
  /// Only the first boxes are shown yet, and the others are being laid out.
  bool isPartial() const { return scene_ && scene_->options.first > 0; }
  const ViewOptions& viewOptions() const { return options_; }
  void setViewOptions(const ViewOptions& options);
  /// Opens and closes as another canvas does; the middle stays where it is.
  void adoptViewOptions(const ViewOptions& options);
  QStringList selection() const { return selection_; }
  QStringList litNodes() const { return litNodes_; }
  const Decorations& decorations() const { return decorations_; }
  const BoxDecorations& boxDecorations() const { return boxes_; }
  double scale() const { return scale_; }
  QPointF origin() const { return origin_; }
  QRectF visibleSceneRect() const;
  QPointF toScene(QPointF p) const { return p / scale_ + origin_; }
  QPointF toWidget(QPointF p) const { return (p - origin_) * scale_; }

 public Q_SLOTS:
  void fit();
  /// As a first graph is shown: all of it, or where that is too small to read, from its beginning.
  void begin();
  void zoomBy(double factor, QPointF at);
  void zoomIn() { zoomBy(1.25, rect().center()); }
  void zoomOut() { zoomBy(0.8, rect().center()); }
  /// Not larger than `largest`, nor smaller than `smallest`.
  void zoomToKeys(const QStringList& keys, double largest = 1.2, double smallest = 0.25);
  /// Opens the modules that hide it; false where nothing did.
  bool openTo(const QString& key);
  /// Opens what hides it, selects it and brings it into view.
  void reveal(const QString& key);
  /// Where `under` is given, in the widget, the box stays under it: a container shrinks to there.
  void toggle(int box, std::optional<QPointF> under = {});
  /// Shows one by one what stands behind ×N.
  void unfold(int box);
  /// As deep as that, and all repeats, bundles and dead ends folded.
  void setDepth(int depth);
  /// Which way the drawing runs, whether what is much longer than wide goes on in another column, and whether dead ends
  /// are folded.
  void setStyle(Flow flow, bool columns, bool foldsDeadEnds);
  void setView(QPointF origin, double scale);
  void navigate(int direction);  ///< -1: to an input, 1: to a user, 2: next in order, -2: previous
  /// Goes to the next input (-1) or user (1) of the node that one came from; from any other node, to its second one.
  void navigateToSibling(int direction);
  void toggleSelected();
  void panTo(QPointF sceneCentre);
  /// Tells of the box beside it; -1 tells no more.
  void showCard(int box);
  void showCardOfSelection();

 Q_SIGNALS:
  void selectionEdited(const QStringList& keys);
  void hovered(const QString& key);
  void escaped();  ///< Esc, with which one leaves what is shown for a while
  void viewChanged();
  void sceneChanged();
  void fileDropped(const QString& path);
  void menuAsked(const QPoint& globalPosition, const QString& key);
  void edgeClicked(int edge);
  void edgeMenuAsked(const QPoint& globalPosition, int edge);

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void leaveEvent(QEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;
  bool event(QEvent*) override;
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;

 private:
  friend class CanvasPainter;
  void rebuildAnchored();
  /// The box in the middle of the view and where it stands: "" without one.
  std::pair<QString, QPointF> anchor() const;
  void showFirst(int generation);
  FormerOrder formerOrder();
  void rebuild(const QString& anchorKey = {}, QPointF anchorAt = {});
  /// What its card says, to screen readers, too.
  CardText tellOf(int box);
  void take(SceneRef scene, const QString& anchorKey, QPointF anchorAt);
  void bringIntoView(const QString& key);
  void pan(QPointF deltaPixels);
  void invalidate();
  void paintCache(const QRect& area);
  void keepSketch();
  bool isSketched() const { return !sketch_.isNull(); }
  void paintSketch(QPainter& p);
  void paintFrame(QPainter& p);
  void placeOverview();
  void placeLegend();
  void pointAtFrame(bool isLegend, bool isTop);
  void navigateTo(QString from, int direction, qsizetype number);
  /// Of edges that something is said of, the one under the point, where no box is; -1: none.
  int edgeUnder(QPointF point) const;

  std::shared_ptr<const Graph> graph_;
  ViewOptions options_;
  SceneRef scene_;
  Decorations decorations_;
  BoxDecorations boxes_;
  LabelPlaces places_;  ///< of the scene, at the scale that was painted last
  Palette palette_;
  QStringList selection_;
  std::vector<char> selected_, lit_;  ///< by box
  QStringList litNodes_;
  std::function<QString(int)> edgeTip_;
  std::function<bool(int)> edgeLeads_;
  std::function<QString(const QString&)> kernelOf_;
  int hover_ = -1;
  QPointF origin_;  ///< of the scene at the widget's top left
  double scale_ = 1;
  double autoFitSmallest_ = 0.65;
  bool hasLegend_ = false, isLegendOpen_ = false, isTopAside_ = false, showsFocus_ = false;
  LegendSpot legendSpot_;
  Corner overviewCorner_ = Corner::BottomRight;
  bool autoFit_ = false, fitted_ = false, viewTouched_ = false;
  QPixmap cache_;
  bool cacheValid_ = false;
  QPixmap sketch_;        ///< while one zooms: the last whole picture, …
  QPointF sketchOrigin_;  ///< … and the view that it is of
  double sketchScale_ = 1;
  QTimer *zoomRests_, *viewRests_;
  QPoint press_, last_;
  bool dragging_ = false, pressed_ = false;
  QString title_, placeholder_;
  Overview* overview_ = nullptr;
  HoverCard* card_ = nullptr;
  CancelToken layoutToken_;
  int layoutGeneration_ = 0;
  bool layingOut_ = false;
  std::optional<QPointF> under_;                                   ///< what is anchored next comes to lie there
  std::map<std::string, LayoutOrder, std::less<>> beforeOpening_;  ///< by path: for when it is closed again
  std::string closing_;                                            ///< the path of what is being closed
  QString revealing_;                                              ///< to be brought into view once it has a place
  struct Navigation {
    QString from, to;
    int direction = 0;
    qsizetype number = 0;  ///< of the inputs or users of `from`
  } navigation_;
};

}  // namespace graft
