#include "views/panels/captured/joint_view.h"

#include <QHelpEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr double moduleHeight = 30, tensorHeight = 24, headHeight = 34, footHeight = 34, margin = 26, indent = 12,
                 mostIndent = 8 * indent, widestBand = 18, thinnestBand = 2, nameGap = 12;

QString shortOperator(const QString& op) {
  return op.startsWith(QLatin1String("aten.")) ? op.section(QLatin1Char('.'), 1, 1) : op;
}

void drawTriangle(QPainter& p, QPointF at, bool open, const QColor& color) {
  QPolygonF shape;
  if (open)
    shape << at + QPointF(-4, -2) << at + QPointF(4, -2) << at + QPointF(0, 3);
  else
    shape << at + QPointF(-2, -4) << at + QPointF(3, 0) << at + QPointF(-2, 4);
  p.setPen(Qt::NoPen);
  p.setBrush(color);
  p.drawPolygon(shape);
}

void arrow(QPainter& p, QPointF from, QPointF to) {
  p.drawLine(from, to);
  const double d = to.y() > from.y() ? -6 : 6;
  p.drawLine(to, to + QPointF(-4, d));
  p.drawLine(to, to + QPointF(4, d));
}

}  // namespace

QString bytesInWords(qint64 n) { return graft::bytes(static_cast<double>(n)); }

QString timeInWords(double us) {
  return us >= 1000 ? JointView::tr("%1 ms").arg(threeDigits(us / 1000))
                    : JointView::tr("%1 µs").arg(us, 0, 'f', us > 0 && us < 10 ? 1 : 0);
}

QColor crossingColor(Crossing c) {
  const Palette& palette = themePalette();
  switch (c) {
    case Crossing::Must:
      return toQt(palette.hue(BoxKind::Normalization));
    case Crossing::Dear:
      return toQt(palette.hue(BoxKind::Product));
    case Crossing::Cheap:
      return toQt(palette.hue(BoxKind::Activation));
    case Crossing::Asked:
      return toQt(palette.hue(BoxKind::Kernel));
    case Crossing::Again:
      return toQt(palette.dim);
  }
  Q_UNREACHABLE();
}

QString crossingText(Crossing c) {
  switch (c) {
    case Crossing::Must:
      return JointView::tr("must be saved");
    case Crossing::Dear:
      return JointView::tr("expensive to compute again");
    case Crossing::Cheap:
      return JointView::tr("cheap to save");
    case Crossing::Asked:
      return JointView::tr("you asked for it");
    case Crossing::Again:
      return JointView::tr("computed again");
  }
  Q_UNREACHABLE();
}

struct JointView::Lanes {
  double left, gutterLeft, gutterRight, right;
  double middle() const { return (gutterLeft + gutterRight) / 2; }
};

JointView::JointView(Document& document, TrainingCut& cut, QWidget* parent)
    : QAbstractScrollArea(parent), document_(document), cut_(cut) {
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::StrongFocus);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setAccessibleName(tr("Training step: forward pass, cut, backward pass"));
  viewport()->setMouseTracking(true);
  setMinimumWidth(320);
  connect(&cut_, &TrainingCut::changed, this, &JointView::refresh);
  refresh();
}

JointView::Lanes JointView::lanes() const {
  const double w = viewport()->width(), gutter = std::clamp(w * 0.3, 130.0, 320.0);
  return {margin, (w - gutter) / 2, (w + gutter) / 2, w - margin};
}

void JointView::refresh() {
  const GraphRef graph = document_.graph();
  const QString shown = document_.path() + QLatin1Char('#') + document_.method();
  if (graph && document_.isJoint() && openedOf_ != shown) {
    openedOf_ = shown;
    opened_ = JointRows::openedAtFirst(*graph);
    current_ = -1;
    verticalScrollBar()->setValue(0);
  }
  const JointRow before = current_ >= 0 && current_ < static_cast<int>(rows_.rows.size())
                              ? rows_.rows[static_cast<size_t>(current_)]
                              : JointRow();
  rows_ = graph && document_.isJoint() ? JointRows::make(*graph, cut_, opened_) : JointRows();
  // The row that one stands on stays the row that one stands on.
  if (current_ >= 0)
    current_ = before.kind == JointRow::Kind::Tensor ? rows_.find(before.name, before.path)
                                                     : rows_.find(QString(), before.path);
  tops_.assign(1, headHeight);
  for (const JointRow& r : rows_.rows)
    tops_.push_back(tops_.back() + (r.kind == JointRow::Kind::Module ? moduleHeight : tensorHeight));
  updateScroll();
  viewport()->update();
}

void JointView::updateScroll() {
  const int all = static_cast<int>(tops_.back() + footHeight);
  verticalScrollBar()->setRange(0, std::max(0, all - viewport()->height()));
  verticalScrollBar()->setPageStep(viewport()->height());
  verticalScrollBar()->setSingleStep(static_cast<int>(moduleHeight));
}

QRectF JointView::rowRect(int row) const {
  const auto i = static_cast<size_t>(row);
  return {0, tops_[i] - verticalScrollBar()->value(), static_cast<double>(viewport()->width()),
          tops_[i + 1] - tops_[i]};
}

int JointView::rowAt(QPointF p) const {
  const double y = p.y() + verticalScrollBar()->value();
  if (p.y() < headHeight || rows_.rows.empty() || y >= tops_.back()) return -1;
  return static_cast<int>(std::upper_bound(tops_.begin(), tops_.end(), y) - tops_.begin()) - 1;
}

void JointView::setCurrent(int row) {
  if (row < 0 || row >= static_cast<int>(rows_.rows.size())) return;
  current_ = row;
  const QRectF r = rowRect(row);
  QScrollBar* bar = verticalScrollBar();
  if (r.top() < headHeight) bar->setValue(bar->value() + static_cast<int>(r.top() - headHeight));
  if (r.bottom() > viewport()->height())
    bar->setValue(bar->value() + static_cast<int>(r.bottom() - viewport()->height()));
  const JointRow& shown = rows_.rows[static_cast<size_t>(row)];
  setAccessibleDescription(tipOf(row));
  Q_EMIT chosen(shown.kind == JointRow::Kind::Tensor ? shown.name
                : shown.path.isEmpty()               ? QString()
                                                     : QLatin1Char('@') + shown.path);
  viewport()->update();
}

void JointView::toggle(int row) {
  if (row < 0 || row >= static_cast<int>(rows_.rows.size())) return;
  const JointRow& r = rows_.rows[static_cast<size_t>(row)];
  if (!r.canOpen) return;
  if (r.isOpen)
    opened_.remove(r.path);
  else
    opened_.insert(r.path);
  refresh();
}

void JointView::openAll(bool open) {
  opened_.clear();
  opened_.insert(QString());
  if (open && document_.graph())
    for (const ModuleCall& m : document_.graph()->moduleCalls())
      for (QString path = toQt(m.path); !path.isEmpty(); path = path.section(QLatin1Char('.'), 0, -2))
        opened_.insert(path);
  refresh();
}

void JointView::reveal(const QString& value, const QString& module) {
  opened_.insert(QString());
  for (QString path = module; !path.isEmpty(); path = path.section(QLatin1Char('.'), 0, -2)) opened_.insert(path);
  refresh();
  setCurrent(rows_.find(value, module));
}

void JointView::moveAcross(int row) {
  if (row < 0 || row >= static_cast<int>(rows_.rows.size())) return;
  const JointRow r = rows_.rows[static_cast<size_t>(row)];
  if (r.kind != JointRow::Kind::Tensor) return toggle(row);
  if (r.pin == r.name) return cut_.unpin(r.name);
  if (r.crossing == Crossing::Again)
    cut_.alwaysSave(r.name);
  else if (r.crossing == Crossing::Must)
    QToolTip::showText(viewport()->mapToGlobal(rowRect(row).center().toPoint()),
                       tr("%1 stays where it is: %2").arg(r.name, r.reason), viewport());
  else
    cut_.computeAgain(r.name);
}

void JointView::fillMenu(QMenu& menu, int row) {
  if (row < 0 || row >= static_cast<int>(rows_.rows.size())) return;
  const JointRow r = rows_.rows[static_cast<size_t>(row)];
  if (r.kind == JointRow::Kind::Tensor) {
    QAction* save = menu.addAction(tr("Always save %1").arg(r.name), this, [this, r] { cut_.alwaysSave(r.name); });
    save->setEnabled(r.pin != r.name || r.crossing == Crossing::Again);
    QAction* again = menu.addAction(tr("Compute %1 again").arg(r.name), this, [this, r] { cut_.computeAgain(r.name); });
    again->setEnabled(r.crossing != Crossing::Must && (r.pin != r.name || r.crossing != Crossing::Again));
  }
  if (!r.path.isEmpty()) {
    const bool isPinned = cut_.computedAgain().contains(r.path);
    QAction* module =
        menu.addAction(tr("Recompute the module %1").arg(r.path), this, [this, r] { cut_.computeAgain(r.path); });
    module->setEnabled(!isPinned);
    if (isPinned) menu.addAction(tr("Leave %1 to the cut").arg(r.path), this, [this, r] { cut_.unpin(r.path); });
  }
  if (r.kind == JointRow::Kind::Tensor && r.pin == r.name)
    menu.addAction(tr("Leave %1 to the cut").arg(r.name), this, [this, r] { cut_.unpin(r.name); });
  menu.addSeparator();
  if (r.canOpen) menu.addAction(r.isOpen ? tr("Collapse") : tr("Open"), this, [this, row] { toggle(row); });
  menu.addAction(tr("Open all modules"), this, [this] { openAll(true); });
  menu.addAction(tr("Collapse all modules"), this, [this] { openAll(false); });
}

QString JointView::tipOf(int row) const {
  const JointRow& r = rows_.rows[static_cast<size_t>(row)];
  QStringList lines;
  if (r.kind == JointRow::Kind::Tensor) {
    lines << QStringLiteral("%1  %2").arg(r.name, r.type);
    if (r.crossing == Crossing::Again)
      lines << tr("Computed again in the backward pass, %1: %2").arg(timeInWords(r.microseconds), r.reason);
    else
      lines << tr("Saved, %1: %2").arg(bytesInWords(r.savedBytes), r.reason);
    if (!r.detail.isEmpty() && r.crossing != Crossing::Again)
      lines << tr("%1 makes it; computing it again takes %2").arg(r.detail, timeInWords(r.microseconds));
    if (!r.consumers.isEmpty()) lines << tr("Read by %1").arg(r.consumers.mid(0, 4).join(QStringLiteral(", ")));
    if (!r.pin.isEmpty()) lines << (r.pin == r.name ? tr("You decided so") : tr("You decided so for %1").arg(r.pin));
    lines << tr("Space or a double click moves it across the cut");
  } else {
    lines << (r.path.isEmpty() ? tr("The whole model") : QStringLiteral("%1  %2").arg(r.path, r.detail));
    lines << tr("Forward pass: %1; backward pass: %2")
                 .arg(counted(r.forwardNodes, tr("node"), tr("nodes")),
                      counted(r.backwardNodes, tr("node"), tr("nodes")));
    lines << tr("Saved: %1 in %2").arg(bytesInWords(r.savedBytes), counted(r.tensors, tr("tensor"), tr("tensors")));
    if (r.againNodes > 0)
      lines << tr("Computed again: %1, %2, %3")
                   .arg(counted(r.againNodes, tr("tensor"), tr("tensors")), bytesInWords(r.againBytes),
                        timeInWords(r.againMicroseconds));
  }
  return lines.join(QLatin1Char('\n'));
}

void JointView::paintEvent(QPaintEvent*) {
  QPainter p(viewport());
  p.setRenderHint(QPainter::Antialiasing);
  p.fillRect(viewport()->rect(), toQt(themePalette().background));
  if (rows_.rows.empty()) {
    p.setPen(toQt(themePalette().dim));
    const QString why = !cut_.error().isEmpty() ? cut_.error()
                        : cut_.isBusy()         ? tr("Cutting the training step …")
                                                : tr("Open the graph joint of a captured training step.");
    p.drawText(viewport()->rect().adjusted(24, 24, -24, -24), Qt::AlignCenter | Qt::TextWordWrap, why);
    return;
  }
  const Lanes l = lanes();
  const double top = tops_.front() - verticalScrollBar()->value(), bottom = tops_.back() - verticalScrollBar()->value();
  const QColor edge = toQt(themePalette().edge);
  // The cut, and the two passes: down on the left, over the loss, up on the right.
  p.fillRect(QRectF(l.gutterLeft, top, l.gutterRight - l.gutterLeft, bottom - top), toQt(themePalette().surface));
  p.setPen(QPen(toQt(themePalette().dim), 1, Qt::DashLine));
  p.drawLine(QPointF(l.middle(), top), QPointF(l.middle(), bottom));
  p.setPen(QPen(edge, 1.5));
  const double turn = bottom + footHeight / 2;
  arrow(p, {margin / 2, top}, {margin / 2, bottom});
  p.drawLine(QPointF(margin / 2, bottom), QPointF(margin / 2, turn));
  p.drawLine(QPointF(margin / 2, turn), QPointF(viewport()->width() - margin / 2, turn));
  p.drawLine(QPointF(viewport()->width() - margin / 2, turn), QPointF(viewport()->width() - margin / 2, bottom));
  arrow(p, {viewport()->width() - margin / 2, bottom}, {viewport()->width() - margin / 2, top});
  p.setPen(toQt(themePalette().text));
  const QString loss = tr("outputs and their gradients");
  const QRectF box(l.middle() - 100, turn - 10, 200, 20);
  const double wide = p.fontMetrics().horizontalAdvance(loss) + 12;
  p.fillRect(QRectF(box.center().x() - wide / 2, box.top(), wide, box.height()), toQt(themePalette().background));
  p.drawText(box, Qt::AlignCenter, loss);
  for (int i = std::max(0, rowAt({0, headHeight})); i < static_cast<int>(rows_.rows.size()); ++i) {
    if (rowRect(i).top() > viewport()->height()) break;
    drawRow(p, i, l);
  }
  drawHead(p, l);
}

void JointView::drawHead(QPainter& p, const Lanes& l) const {
  const QRectF head(0, 0, viewport()->width(), headHeight);
  p.fillRect(head, toQt(themePalette().background));
  p.setPen(toQt(themePalette().grid));
  p.drawLine(head.bottomLeft(), head.bottomRight());
  p.setPen(toQt(themePalette().text));
  QFont bold = font();
  bold.setBold(true);
  p.setFont(bold);
  p.drawText(QRectF(margin, 0, l.gutterLeft - margin, headHeight), Qt::AlignVCenter, tr("Forward pass"));
  p.drawText(QRectF(l.gutterRight, 0, l.right - l.gutterRight, headHeight), Qt::AlignVCenter | Qt::AlignRight,
             tr("Backward pass"));
  p.drawText(QRectF(l.gutterLeft, 0, l.gutterRight - l.gutterLeft, headHeight), Qt::AlignCenter,
             tr("Saved: %1").arg(bytesInWords(cut_.report().savedBytes)));
  p.setFont(font());
}

void JointView::drawRow(QPainter& p, int row, const Lanes& l) const {
  const JointRow& shown = rows_.rows[static_cast<size_t>(row)];
  const QRectF r = rowRect(row);
  const bool isCurrent = row == current_;
  if (isCurrent) {
    QColor tint = toQt(themePalette().accent);
    tint.setAlpha(36);
    p.fillRect(r, tint);
  }
  if (shown.kind == JointRow::Kind::Module)
    drawModule(p, shown, r, l, isCurrent);
  else
    drawTensor(p, shown, r, l, isCurrent);
  if (isCurrent && hasFocus()) {
    p.setPen(QPen(toQt(themePalette().accent), 1));
    p.setBrush(Qt::NoBrush);
    p.drawRect(r.adjusted(1, 0.5, -1, -0.5));
  }
}

/// The longest that leaves the name room, or of a name that is too long, the longest of all. The tooltip has all of it.
QString JointView::wordsOfBackward(const JointRow& row, const QString& name, double room, const QFontMetricsF& metrics,
                                   const QStringList& around) {
  const QString few = counted(row.backwardNodes, tr("node"), tr("nodes"));
  if (row.againNodes == 0) return few;
  const QStringList ways{tr("%1, %2 computed again").arg(few).arg(row.againNodes),
                         tr("%1, %2 recomputed").arg(few).arg(row.againNodes), few};
  double wide = metrics.horizontalAdvance(name);
  const double widest = room - nameGap - metrics.horizontalAdvance(few);
  for (const QString& other : around)
    if (const double w = metrics.horizontalAdvance(other); w <= widest) wide = std::max(wide, w);
  for (const double needed : {nameGap + wide, 0.0})
    for (const QString& way : ways)
      if (metrics.horizontalAdvance(way) + needed <= room) return way;
  return few;
}

void JointView::drawModule(QPainter& p, const JointRow& row, const QRectF& r, const Lanes& l, bool) const {
  const double in = std::min(row.depth * indent, mostIndent);
  const QRectF left(l.left + in, r.top() + 3, l.gutterLeft - l.left - in - 8, r.height() - 6);
  const QRectF right(l.gutterRight + 8, r.top() + 3, l.right - l.gutterRight - in - 8, r.height() - 6);
  const QColor text = toQt(themePalette().text), dim = toQt(themePalette().dim);
  for (const QRectF& box : {left, right}) {
    p.setPen(QPen(toQt(themePalette().edge), 1));
    p.setBrush(row.isOpen ? QBrush(Qt::NoBrush) : QBrush(toQt(themePalette().container(row.depth + 1))));
    p.drawRoundedRect(box, 4, 4);
  }
  if (!row.isOpen) drawBand(p, row, r, l);
  if (row.canOpen) drawTriangle(p, left.topLeft() + QPointF(12, left.height() / 2), row.isOpen, dim);
  const QFontMetricsF metrics(font());
  const QString nodes = counted(row.forwardNodes, tr("node"), tr("nodes"));
  const double count = metrics.horizontalAdvance(nodes) + 10;
  QRectF label = left.adjusted(24, 0, -8, 0);
  p.setPen(dim);
  if (label.width() > count + 60) {
    p.drawText(label, Qt::AlignVCenter | Qt::AlignRight, nodes);
    label.setRight(label.right() - count);
  }
  const QString name = row.path.isEmpty() && row.name.isEmpty() ? tr("model") : row.name;
  p.setPen(text);
  p.drawText(label, Qt::AlignVCenter, metrics.elidedText(name, Qt::ElideRight, label.width()));
  const double used = metrics.horizontalAdvance(name) + 8;
  if (label.width() > used + 40 && !row.path.isEmpty()) {
    p.setPen(dim);
    p.drawText(label.adjusted(used, 0, 0, 0), Qt::AlignVCenter,
               metrics.elidedText(row.detail, Qt::ElideRight, label.width() - used));
  }
  const QRectF inside = right.adjusted(8, 0, -8, 0);
  QStringList around;
  constexpr qsizetype near = 60;  // rows: more are not in sight at once
  const auto& rows = rows_.rows;
  const qsizetype at = &row - rows.data();
  for (qsizetype i = std::max<qsizetype>(0, at - near); i < std::min<qsizetype>(std::ssize(rows), at + near); ++i)
    if (const JointRow& other = rows[static_cast<size_t>(i)];
        other.kind == JointRow::Kind::Module && other.depth == row.depth && other.againNodes > 0)
      around << other.name;
  const QString back = wordsOfBackward(row, name, inside.width(), metrics, around);
  p.setPen(dim);
  const double nameRoom = inside.width() - metrics.horizontalAdvance(back) - nameGap;
  p.drawText(inside, Qt::AlignVCenter, metrics.elidedText(back, Qt::ElideRight, inside.width()));
  // The left half names the module, too: a part of its name says nothing here.
  if (nameRoom >= metrics.horizontalAdvance(name)) {
    p.setPen(text);
    p.drawText(inside, Qt::AlignVCenter | Qt::AlignRight, name);
  }
  if (cut_.computedAgain().contains(row.path)) {
    p.setPen(QPen(crossingColor(Crossing::Asked), 2));
    p.setBrush(Qt::NoBrush);
    p.drawRoundedRect(right, 4, 4);
  }
}

void JointView::drawTensor(QPainter& p, const JointRow& row, const QRectF& r, const Lanes& l, bool) const {
  const double in = std::min(row.depth * indent, mostIndent);
  const QFontMetricsF metrics(font());
  const QColor text = toQt(themePalette().text), dim = toQt(themePalette().dim);
  const QRectF left(l.left + in + 8, r.top(), l.gutterLeft - l.left - in - 20, r.height());
  drawBand(p, row, r, l);
  p.setPen(text);
  const QString op = row.detail.isEmpty() ? tr("input") : shortOperator(row.detail);
  const double nameWidth = std::min(metrics.horizontalAdvance(row.name), left.width());
  p.drawText(left, Qt::AlignVCenter, metrics.elidedText(row.name, Qt::ElideRight, left.width()));
  const double room = left.width() - nameWidth - 12;
  if (room > 40) {
    p.setPen(dim);
    p.drawText(left, Qt::AlignVCenter | Qt::AlignRight,
               metrics.elidedText(row.type.section(QLatin1Char('@'), 0, 0).isEmpty()
                                      ? op
                                      : QStringLiteral("%1  %2").arg(op, row.type.section(QLatin1Char('@'), 0, 0)),
                                  Qt::ElideRight, room));
  }
  const QRectF right(l.gutterRight + 16, r.top(), l.right - l.gutterRight - in - 20, r.height());
  p.setPen(dim);
  const QString reader = row.crossing == Crossing::Again ? tr("computed again, %1").arg(timeInWords(row.microseconds))
                                                         : row.consumers.join(QStringLiteral(", "));
  p.drawText(right, Qt::AlignVCenter, metrics.elidedText(reader, Qt::ElideRight, right.width()));
}

/// What crosses the cut in this row.
void JointView::drawBand(QPainter& p, const JointRow& row, const QRectF& r, const Lanes& l) const {
  const double y = r.center().y();
  const double share =
      rows_.mostBytes > 0 ? static_cast<double>(row.savedBytes) / static_cast<double>(rows_.mostBytes) : 0;
  const bool isTensor = row.kind == JointRow::Kind::Tensor;
  QString text;
  if (row.savedBytes > 0 || (isTensor && row.crossing != Crossing::Again)) {
    // A stripe for each kind, as wide as its bytes.
    const double thick = std::max(thinnestBand, share * widestBand);
    const auto all = static_cast<double>(std::max<qint64>(1, row.savedBytes));
    double at = y - thick / 2;
    p.setPen(Qt::NoPen);
    for (size_t kind = 0; kind < row.bytesBy.size(); ++kind) {
      const double own = row.savedBytes > 0 ? thick * static_cast<double>(row.bytesBy[kind]) / all
                         : kind == static_cast<size_t>(row.crossing) ? thick
                                                                     : 0;
      if (own <= 0) continue;
      p.setBrush(crossingColor(static_cast<Crossing>(kind)));
      p.drawRect(QRectF(l.gutterLeft - 8, at, l.gutterRight - l.gutterLeft + 16, own));
      at += own;
    }
    text = isTensor
               ? bytesInWords(row.savedBytes)
               : tr("%1 · %2").arg(counted(row.tensors, tr("tensor"), tr("tensors")), bytesInWords(row.savedBytes));
  } else if (isTensor || row.againNodes > 0) {
    p.setPen(QPen(crossingColor(Crossing::Again), 1.5, Qt::DotLine));
    p.drawLine(QPointF(l.gutterLeft - 8, y), QPointF(l.middle(), y));
    p.drawLine(QPointF(l.middle(), y - 5), QPointF(l.middle(), y + 5));
    text = isTensor ? tr("not saved: %1").arg(bytesInWords(row.againBytes)) : tr("all computed again");
  }
  if (text.isEmpty()) return;
  if (isTensor && row.pin == row.name) text += tr(" · pinned");
  const QFontMetricsF metrics(font());
  const double room = l.gutterRight - l.gutterLeft - 16;
  text = metrics.elidedText(text, Qt::ElideRight, room);
  const double w = metrics.horizontalAdvance(text) + 12, h = std::min(r.height() - 4, metrics.height() + 2);
  const QRectF pill(l.middle() - w / 2, y - h / 2, w, h);
  p.setPen(row.pin.isEmpty() ? Qt::NoPen : QPen(crossingColor(Crossing::Asked), 1.5));
  p.setBrush(toQt(themePalette().background));
  p.drawRoundedRect(pill, h / 2, h / 2);
  p.setPen(toQt(themePalette().text));
  p.drawText(pill, Qt::AlignCenter, text);
}

void JointView::resizeEvent(QResizeEvent* e) {
  QAbstractScrollArea::resizeEvent(e);
  updateScroll();
}

void JointView::mousePressEvent(QMouseEvent* e) {
  const int row = rowAt(e->position());
  if (row < 0) return;
  setCurrent(row);
  const JointRow& r = rows_.rows[static_cast<size_t>(row)];
  const Lanes l = lanes();
  const bool isBox = e->position().x() < l.gutterLeft || e->position().x() > l.gutterRight;
  if (e->button() == Qt::LeftButton && r.kind == JointRow::Kind::Module && isBox) toggle(row);
}

void JointView::mouseDoubleClickEvent(QMouseEvent* e) {
  const int row = rowAt(e->position());
  if (row >= 0 && rows_.rows[static_cast<size_t>(row)].kind == JointRow::Kind::Tensor) moveAcross(row);
}

void JointView::keyPressEvent(QKeyEvent* e) {
  const int last = static_cast<int>(rows_.rows.size()) - 1;
  if (last < 0) return QAbstractScrollArea::keyPressEvent(e);
  const JointRow row = current_ >= 0 ? rows_.rows[static_cast<size_t>(current_)] : JointRow();
  switch (e->key()) {
    case Qt::Key_Down:
      return setCurrent(std::min(last, current_ + 1));
    case Qt::Key_Up:
      return setCurrent(std::max(0, current_ - 1));
    case Qt::Key_Home:
      return setCurrent(0);
    case Qt::Key_End:
      return setCurrent(last);
    case Qt::Key_Left:
      if (row.isOpen) return toggle(current_);
      for (int i = current_ - 1; i >= 0; --i)
        if (rows_.rows[static_cast<size_t>(i)].depth < row.depth) return setCurrent(i);
      return;
    case Qt::Key_Right:
      if (row.canOpen && !row.isOpen) return toggle(current_);
      return setCurrent(std::min(last, current_ + 1));
    case Qt::Key_Space:
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (current_ >= 0) moveAcross(current_);
      return;
    default:
      QAbstractScrollArea::keyPressEvent(e);
  }
}

void JointView::contextMenuEvent(QContextMenuEvent* e) {
  const bool byKey = e->reason() == QContextMenuEvent::Keyboard;
  const int row = byKey ? current_ : rowAt(e->pos());
  if (row < 0) return;
  if (!byKey) setCurrent(row);
  QMenu menu;
  fillMenu(menu, row);
  menu.exec(byKey ? viewport()->mapToGlobal(rowRect(row).center().toPoint()) : e->globalPos());
}

void JointView::focusInEvent(QFocusEvent* e) {
  QAbstractScrollArea::focusInEvent(e);
  if (current_ < 0 && !rows_.rows.empty() && e->reason() == Qt::TabFocusReason) setCurrent(0);
  viewport()->update();
}

void JointView::focusOutEvent(QFocusEvent* e) {
  QAbstractScrollArea::focusOutEvent(e);
  viewport()->update();
}

bool JointView::viewportEvent(QEvent* e) {
  if (e->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(e);
    const int row = rowAt(help->pos());
    if (row >= 0)
      QToolTip::showText(help->globalPos(), tipOf(row), viewport());
    else
      QToolTip::hideText();
    return true;
  }
  return QAbstractScrollArea::viewportEvent(e);
}

}  // namespace graft
