#include "views/window/files/report.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QFileInfo>
#include <QLocale>
#include <QTableWidget>
#include <algorithm>

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
td.number{text-align:right}svg{max-width:100%;height:auto}
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

QString reportOfDrawing(const Document& document, int depth) {
  GraphDifference difference;
  for (const RecordInfo& r : document.recordsToHere()) {
    for (const QString& n : r.removed) difference.removed.insert(n.toStdString());
    for (const QString& n : r.added) difference.added.insert(n.toStdString());
  }
  DrawOptions options;
  options.depth = depth;
  options.before = document.original().get();
  options.difference = &difference;
  const Result<std::string> svg = drawSvg(*document.graph(), options);
  return reportText("<h2>Before and after</h2>\n") +
         (svg ? inlineSvg(QByteArray::fromStdString(*svg))
              : paragraph(reportText("There is no drawing: %1").arg(toQt(svg.error().message)), "dim"));
}

}  // namespace

QString reportHtml(const Document& document, RunPanel& run, const QString& rules, int depth) {
  const QString name = QFileInfo(document.path()).fileName();
  const QString date = QLocale::c().toString(QDateTime::currentDateTime(), QStringLiteral("d MMMM yyyy, HH:mm"));
  QString html = QString::fromLatin1(head).arg(name.toHtmlEscaped());
  html += paragraph(document.otherPath().isEmpty()
                        ? date
                        : reportText("%1; compared with %2").arg(date, QFileInfo(document.otherPath()).fileName()),
                    "dim");
  html += reportOfRun(document, run) + reportOfSteps(document) + reportOfDrawing(document, depth);
  if (!rules.trimmed().isEmpty()) html += reportText("<h2>Rules</h2>\n<pre>%1</pre>\n").arg(rules.toHtmlEscaped());
  return html;
}

}  // namespace graft
