#include "views/window/files/report.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QFileInfo>
#include <QHash>
#include <QLocale>
#include <QRegularExpression>
#include <QSet>
#include <QSysInfo>
#include <QTableWidget>
#include <algorithm>
#include <utility>

#include "views/canvas/canvas_scene.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/drawing/drawing.h"
#include "views/panels/run/run_panel.h"

namespace graft {
namespace {

constexpr const char* head = R"(<!doctype html><html lang="en"><meta charset="utf-8"><title>%1</title><style>
body{font:15px/1.5 Inter,sans-serif;max-width:1100px;margin:32px auto;padding:0 16px;color:#1b1f24;background:#fff}
h1{margin-bottom:0}h2{margin:32px 0 8px}h3{margin:20px 0 4px;font-size:15px}
.dim{color:#59636e}.bad{color:#b3400a}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:4px 12px;border-bottom:1px solid #e4e7ec;text-align:left;vertical-align:top}
td.number{text-align:right;white-space:nowrap}svg{max-width:100%;height:auto}
.drawing{overflow-x:auto;border:1px solid #e4e7ec;border-radius:6px}
.drawing svg{max-width:none;display:block}
pre{background:#f6f7f9;padding:12px;border-radius:6px;overflow-x:auto}
</style><h1>%1</h1>
)";

QString reportText(const char* text) { return QCoreApplication::translate("Report", text); }

QString paragraph(const QString& text, const char* kind = "") {
  if (text.isEmpty()) return {};
  return QStringLiteral("<p class=\"%1\">%2</p>\n")
      .arg(QLatin1String(kind), text.toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>")));
}

/// The first `most` rows; the caller says how many there are.
QString tableHtml(const QTableWidget& table, int most) {
  QString html = QStringLiteral("<div class=\"scroll\"><table><tr>");
  for (int c = 0; c < table.columnCount(); ++c)
    html +=
        QStringLiteral("<th>%1</th>").arg(table.horizontalHeaderItem(c)->data(Qt::UserRole).toString().toHtmlEscaped());
  html += QStringLiteral("</tr>\n");
  for (int r = 0; r < std::min(most, table.rowCount()); ++r) {
    html += QStringLiteral("<tr>");
    for (int c = 0; c < table.columnCount(); ++c) {
      const QTableWidgetItem* item = table.item(r, c);
      const bool isNumber = item && item->textAlignment() & Qt::AlignRight;
      html += QStringLiteral("<td%1>%2</td>")
                  .arg(isNumber ? QStringLiteral(" class=\"number\"") : QString(),
                       item ? item->text().toHtmlEscaped() : QString());
    }
    html += QStringLiteral("</tr>\n");
  }
  return html + QStringLiteral("</table></div>\n");
}

/// An SVG file as it stands in an HTML page: without its XML declaration.
QString inlineSvg(const QByteArray& svg) {
  return QString::fromUtf8(svg.mid(std::max<qsizetype>(0, svg.indexOf("<svg")))) + QLatin1Char('\n');
}

QString reportOfRun(const Document& document, RunPanel& panel) {
  const QJsonObject& run = document.lastRun();
  if (run.isEmpty()) return paragraph(reportText("Nothing has been measured."), "dim");
  QString html = QStringLiteral("<h2%1>%2</h2>\n")
                     .arg(RunPanel::agrees(run) ? QString() : QStringLiteral(" class=\"bad\""),
                          panel.headlineText().toHtmlEscaped());
  html += paragraph(panel.noteText(), "dim") + paragraph(panel.deltaText());
  html += paragraph(panel.protocolText(), "dim");
  for (const auto& [title, picture] : panel.pictures())
    html += QStringLiteral("<h3>%1</h3>\n").arg(title.toHtmlEscaped()) + inlineSvg(picture);
  constexpr int most = 30;
  const std::pair<RunPanel::Tab, QString> tables[] = {{RunPanel::Sweep, reportText("Sizes")},
                                                      {RunPanel::Outputs, reportText("Outputs")},
                                                      {RunPanel::Operators, reportText("Operators")}};
  for (const auto& [tab, title] : tables) {
    const QTableWidget* table = panel.table(tab);
    if (table->rowCount() == 0) continue;
    html += QStringLiteral("<h3>%1</h3>\n").arg(title) + tableHtml(*table, most);
    if (table->rowCount() > most) html += paragraph(reportText("… and %1 more").arg(table->rowCount() - most), "dim");
  }
  return html + QStringLiteral("<h3>%1</h3>\n").arg(reportText("Inside")) + paragraph(panel.insideText());
}

QString reportOfSteps(const Document& document) {
  QString html =
      reportText("<h2>Steps</h2><table><tr><th>Step</th><th>Rewrites</th><th>Nodes</th><th>Verification</th></tr>\n");
  const auto row = [&](const QString& name, size_t rewrites, const QString& nodes, const QString& told) {
    html += QStringLiteral("<tr><td>%1</td><td>%2</td><td>%3</td><td>%4</td></tr>\n")
                .arg(name)
                .arg(rewrites)
                .arg(nodes, told.toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>")));
  };
  for (int i = 0; i <= document.position(); ++i) {
    const StepInfo& s = document.steps()[static_cast<size_t>(i)];
    const bool isCut = i == document.position() && document.subStep() >= 0;  // one stands inside this recipe
    const size_t shown = isCut ? static_cast<size_t>(document.subStep()) : s.subSteps.size();
    size_t rewrites = isCut ? 0 : s.records.size();
    for (size_t k = 0; isCut && k < shown; ++k) rewrites += s.subSteps[k].records.size();
    QStringList told;
    if (!s.verification.isEmpty()) told << s.verification;
    for (const RolledBackInfo& r : s.rolledBack) told << reportText("taken back: %1").arg(r.text);
    for (const QString& r : s.refused) told << reportText("refused: %1").arg(r);
    row(s.label.toHtmlEscaped(), rewrites, QString::number((isCut ? document.graph() : s.graph)->nodeCount()),
        told.join(QLatin1Char('\n')));
    for (size_t k = 0; k < shown; ++k)
      if (!s.subSteps[k].records.empty())
        row(QStringLiteral("&emsp;") + s.subSteps[k].name.toHtmlEscaped(), s.subSteps[k].records.size(), {}, {});
  }
  return html + QStringLiteral("</table>\n");
}

/// The operators of these nodes, in order: "matmul, div, softmax". A node that came and went within a step has the
/// name of its operator, and a number.
QString operatorsOf(const Graph& graph, const QStringList& nodes) {
  static const QRegularExpression number(QStringLiteral("_\\d+$"));
  QStringList out;
  for (const QString& name : nodes) {
    const NodeId node = graph.findNode(name.toStdString());
    out << (node ? toQt(std::string(graph.node(node).op->baseName())) : QString(name).remove(number));
  }
  return out.join(QStringLiteral(", "));
}

/// Of each rewrite, the nodes of the original that it stands for. What a later rewrite replaced again counts there, so
/// that each node counts once.
std::vector<QStringList> originsOf(const std::vector<RecordInfo>& records) {
  std::vector<QStringList> out(records.size());
  QHash<QString, size_t> madeBy;
  for (size_t i = 0; i < records.size(); ++i) {
    for (const QString& node : records[i].removed) {
      const auto maker = madeBy.find(node);
      if (maker == madeBy.end()) {
        out[i] << node;
        continue;
      }
      out[i] += std::exchange(out[*maker], {});
      madeBy.erase(maker);
    }
    for (const QString& node : records[i].added) madeBy.insert(node, i);
  }
  return out;
}

/// What was replaced by what, alike ones once, with the time of both where the last run measured it.
QString reportOfReplacements(const Document& document) {
  struct Row {
    QString rule, removed, added;
    int count = 0;
    double before = 0, after = 0;  ///< microseconds
  };
  std::vector<Row> rows;
  const bool isTimed = document.lastRunIsCurrent() && document.otherPath().isEmpty();
  const QJsonObject times = objectAt(document.lastRun(), "nodeTimes");
  const auto timeOf = [](const QJsonObject& of, const QStringList& nodes) {
    double sum = 0;
    for (const QString& n : nodes) sum += of.value(n).toDouble();
    return sum;
  };
  std::vector<RecordInfo> records;
  std::vector<Row> each;
  for (int i = 1; i <= document.position(); ++i) {
    const StepInfo &before = document.steps()[static_cast<size_t>(i) - 1],
                   &step = document.steps()[static_cast<size_t>(i)];
    for (const RecordInfo& r : step.records) {
      records.push_back(r);
      each.push_back({r.rule, operatorsOf(*before.graph, r.removed), operatorsOf(*step.graph, r.added), 1});
    }
  }
  const std::vector<QStringList> origins = originsOf(records);
  for (size_t i = 0; i < each.size(); ++i) {
    Row& row = each[i];
    row.before = timeOf(objectAt(times, "original"), origins[i]);
    row.after = timeOf(objectAt(times, "rewritten"), records[i].added);
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& o) {
      return o.rule == row.rule && o.removed == row.removed && o.added == row.added;
    });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
      continue;
    }
    ++same->count;
    same->before += row.before;
    same->after += row.after;
  }
  if (rows.empty()) return {};
  const auto time = [&](double microseconds) {
    return isTimed && microseconds > 0 ? heatText(microseconds, QStringLiteral("µs")) : QString();
  };
  QString html = reportText(
      "<h2>What was replaced</h2><div class=\"scroll\"><table><tr><th>Rule</th><th>Times</th>"
      "<th>Operators before</th><th>Time</th><th>Operators after</th><th>Time</th></tr>\n");
  for (const Row& r : rows)
    html += QStringLiteral(
                "<tr><td>%1</td><td class=\"number\">%2</td><td>%3</td><td class=\"number\">%4</td><td>%5</td>"
                "<td class=\"number\">%6</td></tr>\n")
                .arg(r.rule.toHtmlEscaped())
                .arg(r.count)
                .arg(r.removed.toHtmlEscaped(), time(r.before), r.added.toHtmlEscaped(), time(r.after));
  return html + QStringLiteral("</table></div>\n");
}

/// The classes and functions of a rule text that stand at its margin and have these names, whole.
QString blocksOf(const QString& text, const QSet<QString>& names) {
  static const QRegularExpression head(QStringLiteral("^(?:class|def)\\s+(\\w+)"));
  QStringList out;
  bool taken = false;
  for (const QString& line : text.split(QLatin1Char('\n'))) {
    const bool atMargin = !line.isEmpty() && !line[0].isSpace() && line[0] != QLatin1Char(')');
    if (atMargin) {
      const QRegularExpressionMatch m = head.match(line);
      taken = m.hasMatch() && names.contains(m.captured(1));
      if (taken && !out.isEmpty()) out << QString();
    }
    if (taken) out << line;
  }
  while (!out.isEmpty() && out.last().trimmed().isEmpty()) out.removeLast();
  return out.join(QLatin1Char('\n'));
}

/// The rules that rewrote something, each once; of an optimization the recipes that it kept.
QString reportOfRules(const Document& document) {
  QString html;
  QStringList told;
  for (int i = 1; i <= document.position(); ++i) {
    const StepInfo& step = document.steps()[static_cast<size_t>(i)];
    QSet<QString> names;
    for (const RecordInfo& r : step.records) names.insert(r.rule);
    const QString text = blocksOf(at(step.request, "text").toString(), names);
    if (!text.isEmpty() && !told.contains(text)) {
      told << text;
      html += QStringLiteral("<pre>%1</pre>\n").arg(text.toHtmlEscaped());
    }
    for (const QJsonValue v : at(objectAt(step.request, "plan"), "recipes").toArray())
      html += paragraph(
          reportText("%1 of %2, which comes with Graft")
              .arg(at(v.toObject(), "recipe").toString(), QFileInfo(at(v.toObject(), "file").toString()).fileName()));
  }
  return html.isEmpty() ? html : reportText("<h2>Rules that were applied</h2>\n") + html;
}

QString reportOfEnvironment(const QJsonObject& engine) {
  QStringList devices;
  for (const QJsonValue v : at(engine, "devices").toArray())
    devices << QStringLiteral("%1 (%2)").arg(at(v.toObject(), "name").toString(),
                                             at(v.toObject(), "description").toString());
  const std::pair<QString, QString> rows[] = {
      {QStringLiteral("Graft"), QCoreApplication::applicationVersion()},
      {reportText("Engine's devices"), devices.join(QStringLiteral(", "))},
      {reportText("The window's machine"),
       QStringLiteral("%1, %2, %3")
           .arg(QSysInfo::prettyProductName(), QSysInfo::kernelType() + QLatin1Char(' ') + QSysInfo::kernelVersion(),
                QSysInfo::currentCpuArchitecture())}};
  QString html = reportText("<h2>Environment</h2>\n") + QStringLiteral("<table>\n");
  for (const auto& [name, value] : rows)
    if (!value.isEmpty()) html += QStringLiteral("<tr><td>%1</td><td>%2</td></tr>\n").arg(name, value.toHtmlEscaped());
  return html + QStringLiteral("</table>\n");
}

QString reportOfDrawing(const Document& document, int depth) {
  GraphDifference difference;
  for (const RecordInfo& r : document.recordsToHere()) {
    for (const QString& n : r.removed) difference.removed.insert(n.toStdString());
    for (const QString& n : r.added) difference.added.insert(n.toStdString());
  }
  DrawOptions options;
  options.depth = depth;
  options.before = document.original().get();
  options.isStacked = true;
  options.difference = &difference;
  const Result<std::string> svg = drawSvg(*document.graph(), options);
  return reportText("<h2>Before and after</h2>\n") +
         (svg ? QStringLiteral("<div class=\"drawing\">") + inlineSvg(QByteArray::fromStdString(*svg)) +
                    QStringLiteral("</div>\n")
              : paragraph(reportText("There is no drawing: %1").arg(toQt(svg.error().message)), "dim"));
}

}  // namespace

QString reportHtml(const Document& document, RunPanel& run, int depth) {
  const QString name = QFileInfo(document.path()).fileName();
  const QString date = QLocale::c().toString(QDateTime::currentDateTime(), QStringLiteral("d MMMM yyyy, HH:mm"));
  QString html = QString::fromLatin1(head).arg(name.toHtmlEscaped());
  html += paragraph(document.otherPath().isEmpty()
                        ? date
                        : reportText("%1; compared with %2").arg(date, QFileInfo(document.otherPath()).fileName()),
                    "dim");
  return html + reportOfRun(document, run) + reportOfSteps(document) + reportOfReplacements(document) +
         reportOfDrawing(document, depth) + reportOfRules(document) + reportOfEnvironment(document.engineHello());
}

}  // namespace graft
