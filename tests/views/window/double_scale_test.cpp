// The window on a screen of 3840×2160 pixels at double scale: each arrangement keeps its size, nothing that is pressed
// is cut off, the drawing has the larger part, and pictures have all pixels.
#include <QAbstractButton>
#include <QToolButton>

#include "tests/views/support/window_fixture.h"
#include "views/window/compile/compile_view.h"

using namespace graft;

namespace {

class DoubleScaleTest : public test::WindowFixture {
  Q_OBJECT

  static constexpr int wide = 1920, high = 1080;  // of 3840×2160 pixels

  void openLarge() {
    start();
    window_->resize(wide, high);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen() && window_->canvas()->scene(), 10000);
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void eachArrangementFits() {
    openLarge();
    QCOMPARE(window_->devicePixelRatioF(), 2.0);
    for (const Arrangement arrangement : allArrangements) {
      window_->arrange(arrangement);
      QTest::qWait(300);
      QCOMPARE(window_->size(), QSize(wide, high));
      QCOMPARE(window_->grab().size(), QSize(2 * wide, 2 * high));
      const Canvas& canvas = *window_->canvas();
      QVERIFY2(canvas.width() >= 0.45 * wide && canvas.height() >= 0.35 * high,
               qPrintable(QStringLiteral("%1×%2").arg(canvas.width()).arg(canvas.height())));
      for (const QAbstractButton* button : window_->findChildren<QAbstractButton*>()) {
        if (!button->isVisible() || button->text().isEmpty()) continue;
        const QRect place(button->mapTo(window_.get(), QPoint()), button->size());
        QVERIFY2(window_->rect().contains(place), qPrintable(button->text()));
        if (const auto* tool = qobject_cast<const QToolButton*>(button);
            tool && tool->toolButtonStyle() == Qt::ToolButtonIconOnly)
          continue;
        QVERIFY2(button->width() >= button->fontMetrics().horizontalAdvance(button->text().section('\n', 0, 0)),
                 qPrintable(QStringLiteral("%1 %2 %3")
                                .arg(button->text(), QLatin1String(button->metaObject()->className()))
                                .arg(button->width())));
      }
    }
  }

  void theStagesStandInOneRow() {
    openLarge();
    window_->arrange(Arrangement::Compile);
    QTRY_VERIFY_WITH_TIMEOUT(document().compilation().isKnown() && !document().compilation().isBusy(), 10000);
    int top = -1;
    for (const StageChip* chip : window_->compileView().ribbon()->chips()) {
      if (!chip->isVisible()) continue;
      const QRect place(chip->mapTo(window_.get(), QPoint()), chip->size());
      QVERIFY2(window_->rect().contains(place) && (top < 0 || top == place.top()), qPrintable(chip->stage().title));
      QVERIFY(chip->width() >= chip->sizeHint().width());
      top = place.top();
    }
    QVERIFY(top >= 0);
  }

  void theDrawingHasAllPixels() {
    openLarge();
    Canvas& canvas = *window_->canvas();
    canvas.setDepth(-1);
    canvas.fit();
    // Beside a line of the drawing stands another pixel somewhere within a pair: it is not one that was doubled.
    const QImage image = canvas.grab().toImage();
    QCOMPARE(image.size(), canvas.size() * 2);
    int fine = 0;
    for (int y = 0; y < image.height(); ++y)
      for (int x = 0; x + 1 < image.width(); x += 2) fine += image.pixel(x, y) != image.pixel(x + 1, y);
    QVERIFY2(fine > 500, qPrintable(QString::number(fine)));
  }
};

}  // namespace

int main(int argc, char** argv) {
  qputenv("QT_SCALE_FACTOR", "2");
  QApplication app(argc, argv);
  DoubleScaleTest test;
  return QTest::qExec(&test, argc, argv);
}
#include "double_scale_test.moc"
