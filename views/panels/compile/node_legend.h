// NodeLegend: the nodes of a kernel in one line, each with its number and the colour that it has in code and on the
// canvas. What has no room is scrolled to: by the wheel, by the arrows at the ends, by the keyboard.
//
//   legend->setNodes({"div", "softmax"});   legend->setNode("softmax");    // outlined, and scrolled into view
#pragma once

#include <QWidget>

namespace graft {

/// How a kernel's node is marked: seven colours that stay apart, then the same with a line, then with dots below.
struct NodeMark {
  enum Line { None, Solid, Dotted };
  static constexpr int colours = 7;
  size_t colour = 0;
  Line line = None;
};
NodeMark nodeMark(qsizetype place);
/// "3" of the third node: what legend and margins call it.
QString nodeNumber(qsizetype place);

class NodeLegend : public QWidget {
  Q_OBJECT

 public:
  explicit NodeLegend(QWidget* parent = nullptr);
  void setNodes(const QStringList& nodes);
  const QStringList& nodes() const { return nodes_; }
  /// The node that is chosen, wherever it was.
  void setNode(const QString& node);
  /// Where the entry is; empty where that part is scrolled away.
  QRect rectOf(const QString& node) const;
  bool isScrollable() const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void clicked(const QString& node);
  void hovered(const QString& node);  ///< empty: none

 protected:
  bool event(QEvent*) override;
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void changeEvent(QEvent*) override;
  void focusInEvent(QFocusEvent*) override { update(); }
  void focusOutEvent(QFocusEvent*) override { update(); }

 private:
  struct Entry {
    QString words;
    int left = 0, width = 0;  ///< of the line, before it is scrolled
  };
  void lay();
  void scrollTo(int offset);
  void bringIntoView(qsizetype entry);
  QRect room() const;  ///< between the arrows
  qsizetype entryAt(const QPoint&) const;
  void hover(qsizetype entry);
  void paintEntry(QPainter&, qsizetype entry) const;

  QStringList nodes_;
  QList<Entry> entries_;
  QString node_;
  int whole_ = 0, offset_ = 0;
  qsizetype hovered_ = -1;
};

}  // namespace graft
