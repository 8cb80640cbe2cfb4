// What goes out of the window and comes into it as files: drawings, reports, what is dropped, what is remembered.
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QImage>
#include <QLabel>
#include <QMenuBar>
#include <QMimeData>
#include <QRegularExpression>
#include <cmath>

#include "tests/views/support/window_fixture.h"
#include "views/panels/run/run_inputs.h"
#include "views/panels/run/run_panel.h"
#include "views/picture/picture.h"
#include "views/widgets/qscintilla.h"
#include "views/window/welcome.h"

using namespace graft;
using test::rulesText;

namespace {

class FilesTest : public test::WindowFixture {
  Q_OBJECT

  static void drop(QWidget* on, const QMimeData& data) {
    QDragEnterEvent enter(QPoint(30, 30), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(on, &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent drop(QPointF(30, 30), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(on, &drop);
  }

 private Q_SLOTS:
  void initTestCase() {
    prepare();
    QApplication::setAttribute(Qt::AA_DontUseNativeDialogs);
  }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void drawingsAreWrittenInFourFormats() {
    open();
    for (const auto& [ending, begins] :
         {std::pair{"svg", "<svg"}, {"png", "\x89PNG"}, {"pdf", "%PDF"}, {"dot", "digraph"}}) {
      const QString path = folder_.filePath(QStringLiteral("drawing.") + QString::fromLatin1(ending));
      triggerWithFile("exportDrawing", path);
      const QByteArray written = contents(path);
      QVERIFY2(written.startsWith(begins), ending);
      QVERIFY2(written.size() > 500, ending);
    }
    const QString page = folder_.filePath(QStringLiteral("page.html"));
    triggerWithFile("exportPage", page);
    QVERIFY(contents(page).startsWith("<!DOCTYPE html>"));
    QVERIFY(contents(page).contains("\"path\":\"encoder.layer.0.attention\""));  // what is closed is in it, too
    const QImage picture(folder_.filePath(QStringLiteral("drawing.png")));
    QVERIFY(picture.width() > 200 && picture.height() > 200);
    QVERIFY(contents(folder_.filePath(QStringLiteral("drawing.svg"))).contains("FakeEncoder"));
    // What is opened by hand is in all of them; a page has it open.
    QVERIFY(!contents(folder_.filePath(QStringLiteral("drawing.dot"))).contains("softmax"));
    window_->canvas()->reveal(QStringLiteral("softmax_1"));
    for (const char* ending : {"svg", "dot"}) {
      const QString path = folder_.filePath(QStringLiteral("opened.") + QString::fromLatin1(ending));
      triggerWithFile("exportDrawing", path);
      QVERIFY2(contents(path).contains("softmax_1"), ending);
    }
    triggerWithFile("exportDrawing", folder_.filePath(QStringLiteral("drawing.bmp")));
    QVERIFY(!QFile::exists(folder_.filePath(QStringLiteral("drawing.bmp"))));
    triggerWithFile("exportDrawing", folder_.filePath(QStringLiteral("plain")));
    QVERIFY(contents(folder_.filePath(QStringLiteral("plain.svg"))).startsWith("<svg"));
    triggerWithFile("exportDrawing", folder_.filePath(QStringLiteral("nowhere/drawing.png")));
    const QString said = window_->findChild<QLabel*>(QStringLiteral("failureText"))->text();
    QVERIFY2(said.contains(QStringLiteral("No such file")), qPrintable(said));
  }

  void coloursOfADrawingAreThoseOnTheScreen() {
    open();
    window_->canvas()->setDepth(-1);
    const auto drawn = [&](const char* name) {
      const QString path = folder_.filePath(QString::fromLatin1(name));
      triggerWithFile("exportDrawing", path);
      return contents(path);
    };
    const QByteArray first = QByteArray::fromStdString(themePalette().pattern(0).hex());
    const QByteArray plain = drawn("plain_colours.svg");
    QVERIFY(!plain.contains(" µs"));
    type(QString::fromLatin1(rulesText));
    QVERIFY(drawn("matches.svg").count(first) > plain.count(first));
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    window_->setOverlay(Overlay::Time);
    const QByteArray hot = drawn("heat.svg");
    QVERIFY(hot.contains("time in each node"));
    const BoxDecorations& boxes = window_->canvas()->boxDecorations();
    int told = 0;
    for (const double heat : boxes.heat) told += !std::isnan(heat);
    QVERIFY(told > 3);
    // One figure for each, and the legend's.
    QCOMPARE(hot.count(" µs</text>") + hot.count(" ms</text>"), told + 1);
    QVERIFY(hot.contains(QByteArray::fromStdString(themePalette().heat(1).hex())));  // the hottest
  }

  void textInAPdfIsText() {
    const QByteArray words =
        "<text x=\"10\" y=\"20\" font-size=\"13\" font-weight=\"600\" fill=\"#1b1f24\">linear &amp; gelu</text>\n";
    const QByteArray svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"100\" viewBox=\"0 0 200 100\" "
        "font-family=\"'DejaVu Sans', sans-serif\"><g transform=\"translate(8.0,4.0)\">" +
        words + "</g></svg>\n";
    QString why;
    const QByteArray pdf = pictureOf(svg, QStringLiteral("pdf"), 1, why);
    QVERIFY2(why.isEmpty(), qPrintable(why));
    QVERIFY(pdf.contains("/FontFile"));
    static const QRegularExpression page(QStringLiteral("/MediaBox \\[0 0 150(\\.0+)? 75(\\.0+)?\\]"));
    QVERIFY(page.match(QString::fromLatin1(pdf)).hasMatch());
    QVERIFY(!pictureOf(QByteArray(svg).replace(words, ""), QStringLiteral("pdf"), 1, why).contains("/FontFile"));
    // Where it stands in the PNG, too; a picture that is too large is smaller.
    const QImage image = QImage::fromData(pictureOf(svg, QStringLiteral("png"), 2, why));
    QCOMPARE(image.size(), QSize(400, 200));
    const QByteArray huge =
        QByteArray(svg).replace("width=\"200\"", "width=\"200000\"").replace("0 0 200 100", "0 0 200000 100");
    const QImage less = QImage::fromData(pictureOf(huge, QStringLiteral("png"), 2, why));
    QVERIFY(less.width() > 20000 && less.width() <= 28000);
    QVERIFY(pictureOf("<p>no</p>", QStringLiteral("png"), 1, why).isEmpty() && !why.isEmpty());
  }

  void theReportHoldsTheRunTheStepsTheDrawingAndTheRules() {
    open();
    type(QString::fromLatin1(rulesText) +
         QStringLiteral("\n\nclass Unused(Rule):\n    # match: conv2d\n    def pattern(x):\n        return x\n"));
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    window_->panel<RunPanel>()->start();
    QTRY_VERIFY_WITH_TIMEOUT(!document().lastRun().isEmpty(), 10000);
    const QString path = folder_.filePath(QStringLiteral("report.html"));
    triggerWithFile("exportReport", path);
    const QByteArray html = contents(path);
    for (const char* part :
         {"model.pt", "times as fast", "<td>Attention</td><td>4</td>", "Latency</h3>", "interleaved",
          "aten.softmax.int", "<td>all verified</td>", "Before and after", "def pattern", "What was replaced",
          "matmul, div, add, softmax, matmul</td>", "attention</td>", "Environment", "NVIDIA H200"})
      QVERIFY2(html.contains(part), part);
    QCOMPARE(html.count("<svg"), 4);  // latency, timeline, differences, the drawing
    QVERIFY(!html.contains("<?xml"));
    QVERIFY(!html.contains("class Unused"));  // rules that rewrote nothing stay out
  }

  void whatIsDroppedOpens() {
    start();
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(model_)});
    drop(window_->findChild<WelcomePage*>(), data);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    const QString rules = folder_.filePath(QStringLiteral("dropped.py"));
    QFile file(rules);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(rulesText);
    file.close();
    QMimeData text;
    text.setUrls({QUrl::fromLocalFile(rules)});
    drop(window_->canvas(), text);
    QCOMPARE(window_->panel<RuleEditor>()->text(), QString::fromLatin1(rulesText));
    // On what takes text, too: the text stays, the file is opened.
    const QString other = folder_.filePath(QStringLiteral("dropped.pt"));
    QVERIFY(QFile::copy(model_, other));
    QMimeData second;
    second.setUrls({QUrl::fromLocalFile(other)});
    window_->arrange(Arrangement::Rewrite);
    drop(window_->panel<RuleEditor>()->scintilla()->viewport(), second);
    QTRY_COMPARE_WITH_TIMEOUT(document().path(), other, 10000);
    QCOMPARE(window_->panel<RuleEditor>()->text(), QString::fromLatin1(rulesText));
    // On the line of inputs it is the inputs.
    drop(window_->panel<RunPanel>()->findChild<QLineEdit*>(), data);
    QCOMPARE(parseRunInputs(window_->panel<RunPanel>()->inputsText()).file, model_);
    QCOMPARE(document().path(), other);
  }

  void whatWasOpenedIsRemembered() {
    open();
    const QStringList recent = QSettings().value(QStringLiteral("recent")).toStringList();
    QCOMPARE(recent.value(0), model_);
    window_.reset();
    start();
    QList<QAction*> all;
    leaves(window_->menuBar()->actions(), all);
    QVERIFY(
        std::any_of(all.begin(), all.end(), [](QAction* a) { return a->text().endsWith(QLatin1String("model.pt")); }));
  }
};

}  // namespace

QTEST_MAIN(FilesTest)
#include "files_test.moc"
