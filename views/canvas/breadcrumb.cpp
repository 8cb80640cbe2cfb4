#include "views/canvas/breadcrumb.h"

#include "views/document/graph_decode.h"
#include "views/layout/visible_graph.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// QLabel takes no click on a link to nothing.
constexpr const char* modelLink = "?model";

}  // namespace

Breadcrumb::Breadcrumb(QWidget* parent) : QLabel(parent) {
  setContentsMargins(12, 5, 12, 5);
  setTextFormat(Qt::RichText);
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  connect(this, &QLabel::linkActivated, this,
          [this](const QString& link) { Q_EMIT chosen(link == QLatin1String(modelLink) ? QString() : link); });
}

void Breadcrumb::show(const Graph& graph, const QString& key) {
  ModuleCallId call;
  QString last;
  if (key.startsWith(QLatin1Char('@'))) {
    call = moduleOfKey(graph, key.mid(1).toStdString());
  } else if (key.startsWith(QLatin1Char('<'))) {
    last = key.mid(1);
  } else if (const NodeId n = graph.findNode(key.toStdString())) {
    call = graph.node(n).module;
    last = toQt(graph.node(n).name);
  }
  parts_.clear();
  if (!last.isEmpty()) parts_.push_back({last, std::nullopt});
  const std::vector<char> backward = backwardModules(graph);
  for (; call; call = graph.moduleCall(call).parent) {
    const ModuleCall& m = graph.moduleCall(call);
    QString own = toQt(m.path);
    if (m.parent && own.startsWith(toQt(graph.moduleCall(m.parent).path) + QLatin1Char('.')))
      own = own.mid(static_cast<qsizetype>(graph.moduleCall(m.parent).path.size()) + 1);
    if (!backward.empty() && backward[call.index]) own = tr("%1, backward").arg(own);
    parts_.insert(parts_.begin(), {own, toQt(moduleKey(graph, call, backward))});
  }
  parts_.insert(parts_.begin(), {graph.name.empty() ? tr("model") : toQt(graph.name), QLatin1String(modelLink)});
  refresh();
}

void Breadcrumb::refresh() {
  const QString between = QStringLiteral(" ▸ "), gap = QStringLiteral("…");
  const int room = contentsRect().width();
  const auto names = [&](size_t hidden) {
    QStringList list;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (i == 0 || i > hidden) list << parts_[i].name;
      if (i == 0 && hidden > 0) list << gap;
    }
    return list;
  };
  size_t hidden = 0;
  while (hidden + 2 < parts_.size() && fontMetrics().horizontalAdvance(names(hidden).join(between)) > room) ++hidden;
  shown_ = names(hidden);
  const QString accent = css(themePalette().accent), dim = css(themePalette().dim);
  QStringList html;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (i > 0 && i < hidden) continue;
    if (i > 0 && i == hidden)  // stands for those that are hidden; leads to the innermost of them
      html << QStringLiteral("<a style=\"color:%1;text-decoration:none\" href=\"%2\">%3</a>")
                  .arg(accent, part.path.value_or(QString()).toHtmlEscaped(), gap);
    else if (part.path)
      html << QStringLiteral("<a style=\"color:%1;text-decoration:none\" href=\"%2\">%3</a>")
                  .arg(accent, part.path->toHtmlEscaped(), part.name.toHtmlEscaped());
    else
      html << part.name.toHtmlEscaped();
  }
  setText(html.join(QStringLiteral(" <span style=\"color:%1\">▸</span> ").arg(dim)));
  QStringList whole;
  for (const Part& part : parts_) whole << part.name;
  setToolTip(hidden > 0 ? whole.join(between) : QString());
}

void Breadcrumb::resizeEvent(QResizeEvent* e) {
  QLabel::resizeEvent(e);
  if (!parts_.empty()) refresh();
}

}  // namespace graft
