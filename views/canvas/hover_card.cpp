#include "views/canvas/hover_card.h"

#include <QCoreApplication>
#include <QGuiApplication>
#include <QScreen>
#include <QVBoxLayout>
#include <algorithm>

#include "views/document/graph_decode.h"
#include "views/document/model_files.h"
#include "views/document/run_figures.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

QString cardWords(const char* text) { return QCoreApplication::translate("HoverCard", text); }

/// Of tensors whose sizes are known; 0 of others.
double bytesOf(const Type& type) {
  if (!type.isTensor() || !type.tensorInfo.shape || !type.tensorInfo.dtype) return 0;
  double n = static_cast<double>(dtypeSize(*type.tensorInfo.dtype));
  for (const Dim& d : *type.tensorInfo.shape) {
    if (!d.isStatic()) return 0;
    n *= static_cast<double>(d.size);
  }
  return n;
}

/// "8×128×384 f32 · 1.57 MB".
QString typeText(const Type& type) {
  QString text = toQt(typeLabel(type));
  if (const double size = bytesOf(type); size > 0) text += QStringLiteral(" · ") + bytes(size);
  return text;
}

class Writer {
 public:
  explicit Writer(CardText& card) : card_(card) {}

  void row(const char* name, const QString& value) {
    if (!value.isEmpty()) card_.rows.emplace_back(cardWords(name), value);
  }
  /// A few of them; the others are counted.
  void list(const char* name, const QStringList& values) {
    constexpr qsizetype most = 4;
    QStringList shown = values.mid(0, most);
    if (values.size() > most) shown << cardWords("and %1 more").arg(values.size() - most);
    row(name, shown.join(QLatin1Char('\n')));
  }

 private:
  CardText& card_;
};

void describe(Writer& out, const Graph& graph, const Node& node) {
  QStringList inputs, weights, results;
  const auto add = [&](ValueId v) {
    const Value& value = graph.value(v);
    const QString type = typeText(value.type);
    if (value.kind == Value::Kind::Weight)
      weights << (value.path.empty() ? toQt(value.name) : toQt(value.path).section(QLatin1Char('.'), -1)) +
                     QLatin1Char(' ') + type;
    else
      inputs << toQt(value.name) + QLatin1Char(' ') + type;
  };
  for (const Argument& a : node.args) a.forEachValue(add);
  for (const auto& [name, a] : node.kwargs) a.forEachValue(add);
  for (ValueId v : node.outputs) results << typeText(graph.value(v).type);
  results.removeAll(QString());  // a pattern's have none
  out.list("takes", inputs);
  out.list("weights", weights);
  out.list("gives", results);
}

}  // namespace

QString CardText::plain() const {
  QString text = title + QLatin1Char(' ') + name;
  for (const auto& [label, value] : rows)
    text += QStringLiteral("; ") + label + QStringLiteral(": ") +
            QString(value).replace(QLatin1Char('\n'), QStringLiteral(", "));
  return hint.isEmpty() ? text : text + QStringLiteral("; ") + hint;
}

CardText cardOf(const Scene& scene, int index, const CardExtra& extra) {
  const Box& box = scene.view.boxes[static_cast<size_t>(index)];
  const Graph& graph = *scene.graph;
  CardText card{toQt(box.title), box.name == box.title ? QString() : toQt(box.name), {}, {}};
  Writer out(card);
  const bool isEnd = box.kind == BoxKind::Input || box.kind == BoxKind::Output;
  out.row("drawn as", extra.shownAs);
  if (box.node && box.fold == Fold::None) {
    const Node& node = graph.node(box.node);
    out.row("operator", toQt(node.op->name));
    if (node.name != box.name) out.row("node", toQt(node.name));
  }
  if (box.module)
    out.row("module", toQt(graph.moduleCall(box.module).path));
  else if (box.node)
    out.row("module", toQt(std::string(graph.scopeOf(box.node))));
  if (isEnd && box.repeat == 1)
    out.row("type", typeText(graph.value(box.value).type));
  else
    out.row(scene.options.words.contains(box.key)                   ? "difference"
            : box.kind == BoxKind::Module || box.fold != Fold::None ? "holds"
                                                                    : "arguments",
            toQt(box.detail));
  if (box.node && box.fold == Fold::None) describe(out, graph, graph.node(box.node));
  out.row("kernel", extra.kernel);
  if (box.node)
    if (const SourceLocation* s = graph.sourceOf(graph.node(box.node)); s && !s->file.empty())
      out.row("source",
              QStringLiteral("%1:%2").arg(shortSourceName(toQt(s->file))).arg(s->line) +
                  (s->code.empty() ? QString()
                                   : QLatin1Char('\n') + toQt(s->code).trimmed().section(QLatin1Char('\n'), 0, 0)));
  out.row("measured", extra.measured);
  const QString all = cardWords(box.fold == Fold::Constant    ? "%1 operators that depend on weights alone"
                                : box.fold == Fold::Unused    ? "%1 operators whose results nothing uses"
                                : box.kind == BoxKind::Input  ? "%1 inputs"
                                : box.kind == BoxKind::Output ? "%1 outputs"
                                                              : "%1 identical blocks");
  if (box.repeat > 1)
    card.hint = all.arg(box.repeat) + cardWords("; Shift+Space, or a double click on ×%1, shows each").arg(box.repeat);
  else if (box.kind == BoxKind::Module)
    card.hint = cardWords("Space, or a double click, opens it");
  return card;
}

HoverCard::HoverCard(QWidget* parent) : QFrame(parent, Qt::ToolTip | Qt::FramelessWindowHint) {
  setAttribute(Qt::WA_ShowWithoutActivating);
  setAttribute(Qt::WA_TransparentForMouseEvents);
  setAccessibleName(tr("About the box"));
  text_ = new QLabel(this);
  text_->setTextFormat(Qt::RichText);
  text_->setWordWrap(true);
  QFont small = font();
  small.setPixelSize(12);
  text_->setFont(small);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(12, 9, 12, 10);
  column->addWidget(text_);
}

void HoverCard::show(const CardText& card, const QRect& box, const Palette& colors) {
  constexpr int width = 360, gap = 10;
  const QString dim = toQt(colors.dim).name();
  QString html = QStringLiteral(
                     "<div style=\"font-size:14px\"><b>%1</b> <span style=\"color:%3\">%2</span></div><table "
                     "cellspacing=\"0\" cellpadding=\"0\" style=\"margin-top:4px\">")
                     .arg(card.title.toHtmlEscaped(), card.name.toHtmlEscaped(), dim);
  for (const auto& [name, value] : card.rows)
    html +=
        QStringLiteral(
            "<tr><td style=\"color:%3;padding:1px 10px 1px 0\">%1</td><td style=\"padding:1px 0\">%2</td></tr>")
            .arg(name.toHtmlEscaped(), value.toHtmlEscaped().replace(QLatin1Char('\n'), QStringLiteral("<br>")), dim);
  html += QStringLiteral("</table>");
  if (!card.hint.isEmpty())
    html += QStringLiteral("<div style=\"color:%2;margin-top:6px\">%1</div>").arg(card.hint.toHtmlEscaped(), dim);
  text_->setText(html);
  setAccessibleDescription(card.plain());
  setCardColors(*this, colors);
  setFixedWidth(width);
  const int height = heightForWidth(width);
  setFixedHeight(height > 0 ? height : sizeHint().height());
  const QScreen* screen = QGuiApplication::screenAt(box.center());
  const QRect area = (screen ? screen : QGuiApplication::primaryScreen())->availableGeometry();
  // To the right of the box, to its left, or below it: wherever there is room.
  QPoint at(box.right() + gap, box.top());
  if (at.x() + width > area.right()) at.setX(box.left() - gap - width);
  if (at.x() < area.left())
    at = {std::clamp(box.left(), area.left(), std::max(area.left(), area.right() - width)), box.bottom() + gap};
  at.setY(std::clamp(at.y(), area.top(), std::max(area.top(), area.bottom() - this->height())));
  move(at);
  QFrame::show();
}

void HoverCard::paintEvent(QPaintEvent*) { paintCard(*this, 6); }

}  // namespace graft
