#include "views/panels/captured/break_strip.h"

#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QScrollBar>
#include <QTimer>
#include <QToolButton>
#include <QWhatsThis>
#include <QWheelEvent>

#include "views/widgets/theme.h"

namespace graft {
namespace {

/// "net.py:22", "after graph 1" where the text named no place.
QString placeText(const CapturedGraphInfo& g) {
  return g.file.isEmpty() ? BreakStrip::tr("break")
                          : QFileInfo(g.file).fileName() + QLatin1Char(':') + QString::number(g.line);
}

QString elided(const QString& text, int length) {
  return text.size() > length ? text.left(length - 1).trimmed() + QStringLiteral("…") : text;
}

}  // namespace

BreakStrip::BreakStrip(PanelContext& context, Capture& capture, QWidget* parent)
    : QScrollArea(parent), context_(context), capture_(capture) {
  setFrameShape(QFrame::NoFrame);
  setWidgetResizable(true);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  setAccessibleName(tr("Breaks of the capture"));
  connect(&capture_, &Capture::changed, this, &BreakStrip::refresh);
  connect(&context_, &PanelContext::themeChanged, this, &BreakStrip::refresh);
  hide();
}

QSize BreakStrip::sizeHint() const {
  const int content = widget() ? widget()->sizeHint().height() : 0;
  return {0, content +
                 (widget() && widget()->sizeHint().width() > width() ? horizontalScrollBar()->sizeHint().height() : 0)};
}

/// A wheel without a horizontal axis moves along it, too.
void BreakStrip::wheelEvent(QWheelEvent* e) {
  const QPoint d = e->angleDelta();
  horizontalScrollBar()->setValue(horizontalScrollBar()->value() - (std::abs(d.x()) > std::abs(d.y()) ? d.x() : d.y()));
  e->accept();
}

void BreakStrip::refresh() {
  shown_.clear();
  const std::vector<const CapturedGraphInfo*> chain = capture_.chain();
  const bool breaks = chain.size() > 1 || (!chain.empty() && chain.front()->breaks);
  setVisible(breaks);
  if (!breaks) return;
  auto* content = new QWidget;
  auto* row = new QHBoxLayout(content);
  row->setContentsMargins(10, 4, 10, 4);
  row->setSpacing(4);
  for (const CapturedGraphInfo* g : chain) {
    addGraph(*row, *g);
    if (g->breaks) addBreak(*row, *g);
  }
  row->addStretch(1);
  setWidget(content);
  updateGeometry();
  // Once it has its width: the open graph is in view.
  QTimer::singleShot(0, content, [this, content] {
    for (QToolButton* b : content->findChildren<QToolButton*>())
      if (b->isChecked()) ensureWidgetVisible(b);
  });
}

void BreakStrip::addGraph(QHBoxLayout& row, const CapturedGraphInfo& graph) {
  auto* button = new QToolButton;
  button->setText(tr("%1 · %2").arg(graph.name, graph.nodesText()));
  button->setCheckable(true);
  button->setChecked(graph.name == context_.document().method());
  button->setToolTip(tr("Opens this graph of the capture. %1").arg(CapturedGraphInfo::nodesTip()));
  connect(button, &QToolButton::clicked, this, [this, name = graph.name, button] {
    button->setChecked(name == context_.document().method());
    Q_EMIT context_.graphAsked(name);
  });
  row.addWidget(button);
  shown_ << button->text();
}

void BreakStrip::addBreak(QHBoxLayout& row, const CapturedGraphInfo& graph) {
  const auto arrow = [&] {
    auto* label = new QLabel(QStringLiteral("→"));
    tint(*label, themePalette().dim);
    row.addWidget(label);
  };
  arrow();
  auto* button = new QToolButton;
  button->setAutoRaise(true);
  button->setIcon(icon(QStringLiteral("warning")));
  button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  constexpr int shown = 44;  // characters
  const QString why = elided(graph.reason, shown);
  button->setText(tr("%1  %2").arg(placeText(graph), why));
  QStringList tip{graph.code.isEmpty() ? placeText(graph) : tr("%1: %2").arg(placeText(graph), graph.code),
                  graph.reason};
  tip << tr("Click for what PyTorch advises");
  button->setToolTip(tip.join(QLatin1Char('\n')));
  button->setAccessibleName(tr("The capture broke at %1: %2").arg(placeText(graph), graph.reason));
  connect(button, &QToolButton::clicked, this, [this, button, name = graph.name] {
    if (const CapturedGraphInfo* g = capture_.find(name)) tellBreak(button, *g);
  });
  row.addWidget(button);
  shown_ << button->text();
  arrow();
}

void BreakStrip::tellBreak(QWidget* button, const CapturedGraphInfo& graph) {
  QString text = QStringLiteral("<b>%1</b>").arg(graph.reason.toHtmlEscaped());
  if (!graph.file.isEmpty())
    text += QStringLiteral("<p><code>%1:%2</code><br><code>%3</code></p>")
                .arg(graph.file.toHtmlEscaped())
                .arg(graph.line)
                .arg(graph.code.toHtmlEscaped());
  for (const QString& more : {graph.explanation, graph.hint})
    if (!more.isEmpty()) text += QStringLiteral("<p>%1</p>").arg(more.toHtmlEscaped());
  text += QStringLiteral("<p>%1</p>")
              .arg(tr("torch.compile runs this line in Python, and begins a new graph behind it.").toHtmlEscaped());
  QWhatsThis::showText(button->mapToGlobal(QPoint(0, button->height())), text, button);
}

}  // namespace graft
