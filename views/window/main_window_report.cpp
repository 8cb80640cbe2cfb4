// The report: one HTML file with the verdict, the run's plots and tables, the steps with their proofs, the drawing of
// both models, and the rules.
#include <QDateTime>
#include <QFileDialog>
#include <QFileInfo>
#include <QTableWidget>

#include "views/canvas/canvas.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/drawing/drawing.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/run/run_panel.h"
#include "views/window/main_window.h"
#include "views/window/session_file.h"

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

QString paragraph(const QString& text, const char* kind = "") {
  if (text.isEmpty()) return {};
  return QStringLiteral("<p class=\"%1\">%2</p>\n")
      .arg(QLatin1String(kind), text.toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>")));
}

/// The first `most` rows; how many there are is told by the caller.
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

/// What stands in an HTML page of an SVG file: without the declaration before it.
QString inlineSvg(const QByteArray& svg) {
  return QString::fromUtf8(svg.mid(std::max<qsizetype>(0, svg.indexOf("<svg")))) + QLatin1Char('\n');
}

}  // namespace

QString MainWindow::reportOfRun() const {
  const QJsonObject& run = document_->lastRun();
  if (run.isEmpty()) return paragraph(tr("Nothing has been measured."), "dim");
  QString html = QStringLiteral("<h2%1>%2</h2>\n")
                     .arg(RunPanel::agrees(run) ? QString() : QStringLiteral(" class=\"bad\""),
                          runPanel_->headlineText().toHtmlEscaped());
  html += paragraph(runPanel_->noteText(), "dim") + paragraph(runPanel_->deltaText());
  html += paragraph(runPanel_->protocolText(), "dim");
  for (const auto& [title, picture] : runPanel_->pictures())
    html += QStringLiteral("<h3>%1</h3>\n").arg(title.toHtmlEscaped()) + inlineSvg(picture);
  constexpr int most = 30;
  const std::pair<RunPanel::Tab, QString> tables[] = {
      {RunPanel::Sweep, tr("Sizes")}, {RunPanel::Outputs, tr("Outputs")}, {RunPanel::Operators, tr("Operators")}};
  for (const auto& [tab, title] : tables) {
    const QTableWidget* table = runPanel_->table(tab);
    if (table->rowCount() == 0) continue;
    html += QStringLiteral("<h3>%1</h3>\n").arg(title) + tableHtml(*table, most);
    if (table->rowCount() > most) html += paragraph(tr("… and %1 more").arg(table->rowCount() - most), "dim");
  }
  return html + QStringLiteral("<h3>%1</h3>\n").arg(tr("Inside")) + paragraph(runPanel_->insideText());
}

QString MainWindow::reportOfSteps() const {
  QString html = tr("<h2>Steps</h2><table><tr><th>Step</th><th>Rewrites</th><th>Nodes</th><th>Proof</th></tr>\n");
  const auto row = [&](const QString& name, size_t rewrites, const QString& nodes, const QString& told) {
    html += QStringLiteral("<tr><td>%1</td><td>%2</td><td>%3</td><td>%4</td></tr>\n")
                .arg(name)
                .arg(rewrites)
                .arg(nodes, told.toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>")));
  };
  for (int i = 0; i <= document_->position(); ++i) {
    const StepInfo& s = document_->steps()[static_cast<size_t>(i)];
    const bool isCut = i == document_->position() && document_->subStep() >= 0;
    const size_t parts = isCut ? static_cast<size_t>(document_->subStep()) : s.subSteps.size();
    size_t rewrites = isCut ? 0 : s.records.size();
    for (size_t k = 0; isCut && k < parts; ++k) rewrites += s.subSteps[k].records.size();
    QStringList told;
    if (!s.verification.isEmpty()) told << s.verification;
    for (const QString& r : s.rolledBack) told << tr("taken back: %1").arg(r);
    for (const QString& r : s.refused) told << tr("refused: %1").arg(r);
    row(s.label.toHtmlEscaped(), rewrites, QString::number((isCut ? document_->graph() : s.graph)->nodeCount()),
        told.join(QLatin1Char('\n')));
    for (size_t k = 0; k < parts; ++k)
      if (!s.subSteps[k].records.empty())
        row(QStringLiteral("&emsp;") + s.subSteps[k].name.toHtmlEscaped(), s.subSteps[k].records.size(), {}, {});
  }
  return html + QStringLiteral("</table>\n");
}

QString MainWindow::reportOfDrawing() const {
  GraphDifference difference;
  for (const RecordInfo& r : document_->recordsToHere()) {
    for (const QString& n : r.removed) difference.removed.insert(n.toStdString());
    for (const QString& n : r.added) difference.added.insert(n.toStdString());
  }
  DrawOptions options;
  options.depth = canvas_->viewOptions().depth;
  options.before = document_->original().get();
  options.difference = &difference;
  const Result<std::string> svg = drawSvg(*document_->graph(), options);
  return tr("<h2>Before and after</h2>\n") +
         (svg ? inlineSvg(QByteArray::fromStdString(*svg))
              : paragraph(tr("There is no drawing: %1").arg(toQt(svg.error().message)), "dim"));
}

void MainWindow::exportReport() {
  if (!document_->isOpen()) return;
  QString path = QFileDialog::getSaveFileName(this, tr("Export report"), besideModel(QStringLiteral("_report.html")),
                                              tr("HTML (*.html)"));
  if (path.isEmpty()) return;
  if (QFileInfo(path).suffix().isEmpty()) path += QStringLiteral(".html");
  const QString name = QFileInfo(document_->path()).fileName();
  const QString date = QLocale::c().toString(QDateTime::currentDateTime(), QStringLiteral("d MMMM yyyy, HH:mm"));
  QString html = QString::fromLatin1(head).arg(name.toHtmlEscaped());
  html += paragraph(document_->otherPath().isEmpty()
                        ? date
                        : tr("%1; compared with %2").arg(date, QFileInfo(document_->otherPath()).fileName()),
                    "dim");
  html += reportOfRun() + reportOfSteps() + reportOfDrawing();
  if (!editor_->text().trimmed().isEmpty())
    html += tr("<h2>Rules</h2>\n<pre>%1</pre>\n").arg(editor_->text().toHtmlEscaped());
  QString why;
  writeWhole(path, html.toUtf8(), why);
  tellWritten(path, why);
}

}  // namespace graft
