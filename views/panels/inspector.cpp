#include "views/panels/inspector.h"

#include <QPainter>
#include <QScrollBar>
#include <QUrl>
#include <QVBoxLayout>
#include <cmath>
#include <map>

#include "views/canvas/canvas_paint.h"
#include "views/document/graph_decode.h"
#include "views/document/json_fields.h"
#include "views/document/model_files.h"
#include "views/layout/node_text.h"
#include "views/layout/visible_graph.h"
#include "views/panels/source_view.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

QString esc(std::string_view s) { return toQt(s).toHtmlEscaped(); }
QString link(const QString& key, const QString& text) {
  return QStringLiteral("<a href=\"%1\">%2</a>")
      .arg(QString::fromLatin1(QUrl::toPercentEncoding(key)), text.toHtmlEscaped());
}
QString dim(const QString& html) {
  return QStringLiteral("<span style=\"color:%1\">%2</span>").arg(css(themePalette().dim), html);
}
/// Lines break behind dots, not within words.
QString typeHtml(std::string_view type) { return esc(type).replace(QLatin1Char('.'), QStringLiteral(".&#8203;")); }
QString row(const QString& a, const QString& b) {
  return QStringLiteral(
             "<tr><td style=\"padding:2px 12px 2px 0;white-space:nowrap;color:%1\">%2</td><td style=\"padding:2px "
             "0\">%3</td></tr>")
      .arg(css(themePalette().dim), a, b);
}
QString heading(const QString& text) {
  return QStringLiteral("<p style=\"margin:14px 0 4px 0\"><b>%1</b></p>").arg(text);
}

constexpr const char* sourceLink = "?source";

}  // namespace

HistogramView::HistogramView(QWidget* parent) : QWidget(parent) {
  setFixedHeight(188);
  hide();
}

void HistogramView::setStatistics(const QString& title, const QJsonObject& weight) {
  title_ = title;
  weight_ = weight;
  show();
  update();
}

void HistogramView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const QPalette colors = palette();
  const QJsonObject histogram = weight_.value(QLatin1String("histogram")).toObject();
  const QJsonArray counts = histogram.value(QLatin1String("counts")).toArray(),
                   edges = histogram.value(QLatin1String("edges")).toArray();
  p.setFont(drawingFont(12, QFont::DemiBold));
  p.setPen(colors.color(QPalette::Text));
  p.drawText(QRect(12, 6, width() - 24, 18), Qt::AlignLeft | Qt::AlignVCenter,
             p.fontMetrics().elidedText(title_, Qt::ElideMiddle, width() - 24));
  const QRectF area(12, 30, width() - 24, height() - 112);
  double most = 1;
  for (const QJsonValue c : counts) most = std::max(most, c.toDouble());
  p.setPen(Qt::NoPen);
  p.setBrush(toQt(mix(themePalette().background, themePalette().accent, 0.7)));
  const double w = area.width() / std::max<qsizetype>(1, counts.size());
  for (qsizetype i = 0; i < counts.size(); ++i) {
    constexpr double seen = 1.5;  // a few are visible, too
    const double h = counts[i].toDouble() > 0 ? std::max(seen, area.height() * counts[i].toDouble() / most) : 0;
    p.drawRect(QRectF(area.left() + i * w + 0.5, area.bottom() - h, std::max(1.0, w - 1), h));
  }
  p.setPen(colors.color(QPalette::Mid));
  p.drawLine(area.bottomLeft(), area.bottomRight());
  p.setFont(drawingFont(11, QFont::Normal));
  p.setPen(colors.color(QPalette::PlaceholderText));
  const QRectF line(12, area.bottom() + 3, width() - 24, 16);
  auto text = [&](const char* key) { return QString::number(number(weight_.value(QLatin1String(key))), 'g', 4); };
  p.drawText(line, Qt::AlignLeft, tr("min %1").arg(text("min")));
  p.drawText(line, Qt::AlignRight, tr("max %1").arg(text("max")));
  p.setPen(colors.color(QPalette::Text));
  const auto below = [&](int row, const QString& s) {
    const QRectF at = line.translated(0, 19 * row);
    p.drawText(at, Qt::AlignLeft, p.fontMetrics().elidedText(s, Qt::ElideRight, static_cast<int>(at.width())));
  };
  below(1, tr("mean %1   std %2").arg(text("mean"), text("std")));
  // As many whole numbers as there is room for.
  QString first = tr("first");
  for (const QJsonValue v : weight_.value(QLatin1String("first")).toArray()) {
    const QString longer = first + QStringLiteral("   ") + QString::number(number(v), 'g', 3);
    if (p.fontMetrics().horizontalAdvance(longer + QStringLiteral(" …")) > line.width()) break;
    first = longer;
  }
  below(2, first + QStringLiteral(" …"));
  const double zeros = number(weight_.value(QLatin1String("zeros"))),
               broken = number(weight_.value(QLatin1String("nonFinite")));
  QStringList odd;
  if (zeros > 0) odd << QString::number(zeros) + (zeros == 1 ? tr(" zero") : tr(" zeros"));
  if (broken > 0) {
    odd << tr("%1 NaN or infinite").arg(broken);
    p.setPen(toQt(themePalette().wrong()));
  }
  below(3, odd.join(QStringLiteral("   ")));
}

Inspector::Inspector(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  text_ = new QTextBrowser(this);
  text_->setAccessibleName(tr("About the selected node"));
  text_->setOpenLinks(false);
  text_->document()->setDocumentMargin(12);
  histogram_ = new HistogramView(this);
  source_ = new SourceView(this);
  source_->hide();
  connect(source_, &SourceView::closed, this, [this] { showSource(false); });
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(text_, 3);
  column->addWidget(source_, 2);
  column->addWidget(histogram_);
  connect(text_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
    const QString key = QUrl::fromPercentEncoding(url.toString().toLatin1());
    if (key.startsWith(QLatin1Char('%')))
      askWeight(key.mid(1));
    else if (key == QLatin1String(sourceLink))
      showSource(source_->isHidden());
    else
      Q_EMIT chosen(key);
  });
  for (auto signal : {&Document::selectionChanged, &Document::graphChanged})
    connect(&document_, signal, this, &Inspector::refresh);
  refresh();
}

void Inspector::askWeight(const QString& name) {
  askedWeight_ = name;
  const GraphRef graph = document_.graph();
  const ValueId value = graph ? graph->findValue(name.toStdString()) : ValueId();
  const QString path = value && !graph->value(value).path.empty() ? toQt(graph->value(value).path) : name;
  document_.askWeight(name, [this, self = QPointer<Inspector>(this), name, path](const EngineReply& reply) {
    if (!self || askedWeight_ != name) return;
    if (reply.ok())
      histogram_->setStatistics(path, reply.result);
    else
      histogram_->clear();
  });
}

void Inspector::askOperator(const QString& node) {
  askedNode_ = node;
  operator_ = {};
  document_.askOperator(node, [this, self = QPointer<Inspector>(this), node](const EngineReply& reply) {
    if (!self || askedNode_ != node || !reply.ok()) return;
    operator_ = reply.result;
    const GraphRef graph = document_.graph();
    const NodeId n = graph ? graph->findNode(node.toStdString()) : NodeId();
    if (n) setHtml(describeNode(*graph, graph->node(n)));
  });
}

void Inspector::askSource() {
  const QString node = askedNode_;
  if (node.isEmpty()) return source_->setNone(tr("Select a node to see the Python it comes from."));
  document_.askSource(node, [this, self = QPointer<Inspector>(this), node](const EngineReply& reply) {
    if (!self || askedNode_ != node) return;
    if (reply.ok())
      source_->setSource(reply.result);
    else
      source_->setNone(reply.error);
  });
}

void Inspector::showSource(bool on) {
  source_->setVisible(on);
  if (on) askSource();
}

void Inspector::refreshTheme() {
  source_->refreshTheme();
  refresh();
}

/// What is described stays where it was scrolled to.
void Inspector::setHtml(const QString& html) {
  const int at = text_->verticalScrollBar()->value();
  text_->setHtml(html);
  text_->verticalScrollBar()->setValue(at);
}

/// What stands in the place of a node that a step has removed, or that was there before a step was taken back.
QString Inspector::replacementOf(const QString& node) const {
  const GraphRef graph = document_.graph();
  for (const StepInfo& step : document_.steps())
    for (const RecordInfo& r : step.records)
      for (const auto& [from, to] : {std::pair{&r.removed, &r.added}, std::pair{&r.added, &r.removed}})
        if (from->contains(node) && !to->isEmpty() && graph->findNode(to->last().toStdString())) return to->last();
  return {};
}

void Inspector::refresh() {
  histogram_->clear();
  askedNode_.clear();
  operator_ = {};
  firstWeight_.clear();
  askedWeight_.clear();
  const GraphRef graph = document_.graph();
  if (!graph) {
    text_->setHtml(dim(tr("Select a node to see its operator, arguments, shapes, source and weights.")));
    return;
  }
  const QStringList keys = document_.selection();
  QString html;
  if (keys.size() > 1) {
    html = tr("<h3>%1 selected</h3>").arg(keys.size());
    for (const QString& key : keys) html += QStringLiteral("<div>%1</div>").arg(link(key, key));
  } else if (keys.isEmpty()) {
    html = describeModel(*graph);
  } else if (keys.first().startsWith(QLatin1Char('@'))) {
    if (const ModuleCallId m = moduleOfKey(*graph, keys.first().mid(1).toStdString()))
      html = describeModule(*graph, graph->moduleCall(m));
  } else if (keys.first().startsWith(QLatin1Char('<'))) {
    const ValueId v = graph->findValue(keys.first().mid(1).toStdString());
    if (v)
      html = QStringLiteral("<h3>%1 %2</h3><p>%3</p>")
                 .arg(esc(graph->value(v).name), dim(tr("input")), esc(toString(graph->value(v).type)));
  } else if (keys.first().startsWith(QLatin1Char('>'))) {
    std::vector<ValueId> values;
    for (const Argument& a : graph->returns()) a.forEachValue([&](ValueId v) { values.push_back(v); });
    if (const size_t number = keys.first().mid(1).toUInt(); number < values.size()) {
      const Value& value = graph->value(values[number]);
      const QString from =
          value.producer ? toQt(graph->node(value.producer).name) : QLatin1Char('<') + toQt(value.name);
      html = tr("<h3>Output %1</h3>").arg(number) +
             QStringLiteral("<p>%1 %2</p>").arg(link(from, toQt(value.name)), esc(toString(value.type)));
    }
  } else if (const NodeId n = graph->findNode(keys.first().toStdString())) {
    html = describeNode(*graph, graph->node(n));
    askOperator(keys.first());
  }
  // What was selected may be gone, as after a rewrite: what is there is told instead.
  if (html.isEmpty()) {
    const QString now = replacementOf(keys.first());
    html = tr("<p>%1 is not in the model as it is now%2</p>")
               .arg(keys.first().toHtmlEscaped(),
                    now.isEmpty() ? QStringLiteral(".") : tr(": %1 has taken its place.").arg(link(now, now))) +
           describeModel(*graph);
  }
  text_->setHtml(html);
  if (!source_->isHidden()) askSource();
  if (!firstWeight_.isEmpty()) askWeight(firstWeight_);
}

/// What the operator does, and its schema; empty until the engine has answered.
QString Inspector::operatorHtml(const Node& node) const {
  if (operator_.value(QLatin1String("operator")).toString() != toQt(node.op->name)) return {};
  const QString doc = operator_.value(QLatin1String("doc")).toString(),
                schema = operator_.value(QLatin1String("schema")).toString();
  QStringList effects;
  for (const QJsonValue e : operator_.value(QLatin1String("effects")).toArray()) effects << e.toString();
  QString html;
  if (!doc.isEmpty()) html += QStringLiteral("<p style=\"margin:8px 0 0 0\">%1</p>").arg(doc.toHtmlEscaped());
  if (!effects.isEmpty())
    html += QStringLiteral("<p style=\"margin:4px 0 0 0\">%1</p>")
                .arg(dim(effects.join(QStringLiteral("; ")).toHtmlEscaped()));
  if (!schema.isEmpty())
    html += QStringLiteral("<p style=\"margin:6px 0 0 0;font-family:'%1'\">%2</p>")
                .arg(monospace().family(), dim(schema.toHtmlEscaped()));
  return html;
}

QString Inspector::describeNode(const Graph& g, const Node& node) {
  QString html = QStringLiteral("<h3 style=\"margin-bottom:2px\">%1</h3><div>%2</div>")
                     .arg(esc(node.name), dim(esc(node.op->name)));
  html += operatorHtml(node);
  html += QStringLiteral("<table cellspacing=\"0\" style=\"margin-top:8px\">");
  if (!g.scopeOf(node.id).empty()) {
    const QString key = toQt(moduleKey(g, node.module, backwardModules(g)));
    html += row(tr("module"), link(QLatin1Char('@') + key, key));
    html += row(tr("type"), typeHtml(g.moduleCall(node.module).type));
  }
  if (const SourceLocation* s = g.sourceOf(node))
    html += row(tr("source"), link(QLatin1String(sourceLink),
                                   QStringLiteral("%1:%2").arg(shortSourceName(toQt(s->file))).arg(s->line)));
  html += QStringLiteral("</table>");
  if (const SourceLocation* s = g.sourceOf(node); s && !s->code.empty())
    html += QStringLiteral("<div style=\"margin:6px 0;white-space:pre-wrap;font-family:%1\">%2</div>")
                .arg(monospace().family(), esc(s->code));
  auto argument = [&](const Argument& a) {
    if (!a.isValue()) return esc(argumentText(a, g));
    const Value& v = g.value(a.valueId());
    const QString type = dim(esc(typeLabel(v.type)));
    if (v.kind == Value::Kind::Weight) {
      if (firstWeight_.isEmpty()) firstWeight_ = toQt(v.name);
      return link(QLatin1Char('%') + toQt(v.name), toQt(v.path)) + QStringLiteral(" ") + type;
    }
    const QString key = v.producer ? toQt(g.node(v.producer).name) : QLatin1Char('<') + toQt(v.name);
    return link(key, toQt(v.name)) + QStringLiteral(" ") + type;
  };
  html += heading(tr("Arguments")) + QStringLiteral("<table cellspacing=\"0\">");
  for (size_t i = 0; i < node.args.size(); ++i)
    html += row(i < node.op->parameters.size() ? esc(node.op->parameters[i].name) : QString::number(i),
                argument(node.args[i]));
  for (const auto& [name, a] : node.kwargs) html += row(esc(name), argument(a));
  html += QStringLiteral("</table>") + heading(tr("Outputs")) + QStringLiteral("<table cellspacing=\"0\">");
  for (ValueId v : node.outputs) html += row(esc(g.value(v).name), esc(toString(g.value(v).type)));
  html += QStringLiteral("</table>");
  QStringList users;
  for (ValueId v : node.outputs)
    for (NodeId user : g.value(v).users)
      users << link(toQt(g.node(user).name), toQt(g.node(user).name)) + QStringLiteral(" ") +
                   dim(esc(g.node(user).op->baseName()));
  html += heading(tr("Users")) +
          (users.isEmpty() ? dim(tr("only the model's outputs")) : users.join(QStringLiteral("<br>")));
  return html;
}

QString Inspector::describeModule(const Graph& g, const ModuleCall& m) const {
  QString html =
      QStringLiteral("<h3 style=\"margin-bottom:2px\">%1</h3><div>%2</div>").arg(esc(m.path), dim(typeHtml(m.type)));
  if (!m.constructor.empty()) {
    html += heading(tr("Constructor")) + QStringLiteral("<table cellspacing=\"0\">");
    for (const auto& [name, a] : m.constructor) html += row(esc(name), esc(argumentText(a, g)));
    html += QStringLiteral("</table>");
  }
  std::map<std::string, int> operators;
  int nodes = 0;
  for (const NodeId id : g.order())
    if (g.isWithin(g.node(id).module, m.id)) ++operators[std::string(g.node(id).op->packetName())], ++nodes;
  html += heading(tr("%1 operators").arg(nodes)) + QStringLiteral("<table cellspacing=\"0\">");
  for (const auto& [name, count] : operators) html += row(QString::number(count), esc(name));
  html += QStringLiteral("</table>");
  QStringList weights;
  const std::string prefix = m.path + ".";
  for (const ValueId v : g.weights())
    if (g.value(v).path.starts_with(prefix) && weights.size() < 40)
      weights << link(QLatin1Char('%') + toQt(g.value(v).name), toQt(g.value(v).path.substr(prefix.size()))) +
                     QStringLiteral(" ") + dim(esc(typeLabel(g.value(v).type)));
  if (!weights.isEmpty()) html += heading(tr("Weights")) + weights.join(QStringLiteral("<br>"));
  return html;
}

QString Inspector::describeModel(const Graph& g) const {
  double elements = 0;
  for (const ValueId v : g.weights()) {
    double n = 1;
    if (g.value(v).type.tensorInfo.shape)
      for (const Dim& d : *g.value(v).type.tensorInfo.shape) n *= std::max<double>(1, static_cast<double>(d.size));
    elements += n;
  }
  QString html =
      QStringLiteral("<h3 style=\"margin-bottom:2px\">%1</h3><div>%2</div>")
          .arg(g.name.empty() ? tr("The model") : esc(g.name), dim(formatTitle(document_.format()).toHtmlEscaped()));
  html += QStringLiteral("<table cellspacing=\"0\" style=\"margin-top:8px\">");
  html +=
      row(tr("nodes"), QString::number(g.nodeCount())) + row(tr("modules"), QString::number(g.moduleCalls().size()));
  const auto tensors = static_cast<qint64>(g.weights().size());
  html +=
      row(tr("weights"),
          tensors == 0
              ? tr("none")
              : tr("%1, %2 parameters").arg(counted(tensors, tr("tensor"), tr("tensors")), toQt(shortCount(elements))));
  html += QStringLiteral("</table>") + heading(tr("Inputs")) + QStringLiteral("<table cellspacing=\"0\">");
  if (g.inputs().empty()) html += row(dim(tr("none")), QString());
  for (ValueId v : g.inputs())
    html += row(link(QLatin1Char('<') + toQt(g.value(v).name), toQt(g.value(v).name)), esc(typeLabel(g.value(v).type)));
  html += QStringLiteral("</table>");
  std::map<std::string, int> operators;
  for (const NodeId id : g.order()) ++operators[std::string(g.node(id).op->packetName())];
  std::vector<std::pair<int, std::string>> sorted;
  for (const auto& [name, count] : operators) sorted.emplace_back(-count, name);
  std::sort(sorted.begin(), sorted.end());
  html += heading(tr("Operators")) + QStringLiteral("<table cellspacing=\"0\">");
  for (const auto& [count, name] : sorted) html += row(QString::number(-count), esc(name));
  return html + QStringLiteral("</table>");
}

PanelDescription inspectorPanel() {
  PanelDescription d;
  d.name = QStringLiteral("inspector");
  d.title = Inspector::tr("Inspector");
  d.help = Inspector::tr("Tells what is known of the selection: operator, arguments, types, source, weights");
  d.area = Qt::RightDockWidgetArea;
  d.arrangements = {Arrangement::Explore};
  d.size = {320, 0};
  d.make = [](PanelContext& context) {
    auto* inspector = new Inspector(context.document());
    QObject::connect(inspector, &Inspector::chosen, &context, &PanelContext::nodeAsked);
    QObject::connect(&context, &PanelContext::themeChanged, inspector, &Inspector::refreshTheme);
    return inspector;
  };
  return d;
}

}  // namespace graft
