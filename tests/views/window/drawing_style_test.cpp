// Which way drawings run, what of them is folded, that the window remembers both; and that headings stand above cells.
#include <QHeaderView>
#include <QTableWidget>
#include <QTreeWidget>

#include "tests/views/support/window_fixture.h"
#include "views/canvas/hover_card.h"
#include "views/widgets/theme.h"
#include "views/window/comparison.h"

using namespace graft;

namespace {

class DrawingStyleTest : public test::WindowFixture {
  Q_OBJECT

  /// Of the pixels of a widget that are not its background, the first and the last column.
  static std::pair<int, int> inkOf(QWidget& widget, const QRect& where) {
    const QImage image = widget.grab(where).toImage();
    const QRgb back = image.pixel(image.width() / 2, image.height() / 2);
    int first = image.width(), last = -1;
    for (int x = 0; x < image.width(); ++x)
      for (int y = 2; y < image.height() - 2; ++y)  // without the line below
        if (image.pixel(x, y) != back) first = std::min(first, x), last = x;
    return {where.left() + first, where.left() + last};
  }

  /// Where the first column's words begin and the second one's end is the same in the heading and in the cells.
  static void compare(QAbstractItemView& view, QHeaderView& head) {
    view.setFocusPolicy(Qt::NoFocus);
    view.resize(400, 120);
    view.show();
    const auto heading = [&](int column) {
      return inkOf(*head.viewport(),
                   {head.sectionViewportPosition(column), 0, head.sectionSize(column), head.viewport()->height()});
    };
    const auto cell = [&](int column) {
      return inkOf(*view.viewport(), view.visualRect(view.model()->index(0, column)));
    };
    QCOMPARE(heading(0).first, cell(0).first);
    QCOMPARE(heading(1).second, cell(1).second);
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void leftToRightTurnsBothDrawingsAndIsRemembered() {
    open();
    const auto layout = [&] { return window_->canvas()->scene()->layout; };
    // Long ways are folded into columns or rows, so that either drawing may be wider than it is high.
    const auto aspect = [&] { return layout().width / layout().height; };
    QVERIFY(layout().flow == Flow::Down);
    const double down = aspect();
    window_->action(QStringLiteral("leftToRight"))->trigger();
    QVERIFY(layout().flow == Flow::Right);
    QVERIFY2(aspect() > down, qPrintable(QStringLiteral("%1 after %2").arg(aspect()).arg(down)));
    // What is compared runs the same way, above it.
    window_->action(QStringLiteral("compare"))->trigger();
    QTRY_VERIFY(window_->beforeCanvas()->scene());
    QVERIFY(window_->beforeCanvas()->scene()->layout.flow == Flow::Right);
    QTRY_VERIFY(window_->beforeCanvas()->geometry().bottom() <= window_->canvas()->geometry().top());
    window_.reset();
    open();
    QVERIFY(layout().flow == Flow::Right);
    QVERIFY(window_->action(QStringLiteral("leftToRight"))->isChecked());
    window_->action(QStringLiteral("leftToRight"))->trigger();
    QVERIFY(layout().flow == Flow::Down);
  }

  void whetherDeadEndsAreFoldedIsRemembered() {
    open();
    QVERIFY(window_->canvas()->viewOptions().foldDeadEnds);
    window_->action(QStringLiteral("deadEnds"))->trigger();
    QVERIFY(!window_->canvas()->viewOptions().foldDeadEnds);
    window_.reset();
    open();
    QVERIFY(!window_->canvas()->viewOptions().foldDeadEnds);
  }

  void aShortcutTellsOfTheSelectedNode() {
    open();
    window_->canvas()->reveal(QStringLiteral("softmax"));
    window_->action(QStringLiteral("card"))->trigger();
    QVERIFY(window_->canvas()->card()->isVisible());
    window_->action(QStringLiteral("card"))->trigger();
    QVERIFY(!window_->canvas()->card()->isVisible());
  }

  void headingsStandAboveTheirCells() {
    applyTheme(Theme::Light);
    const QString text = QStringLiteral("H");
    const Qt::Alignment right = Qt::AlignRight | Qt::AlignVCenter;
    QTreeWidget tree;
    tree.setRootIsDecorated(false);
    tree.setHeaderLabels({text, text, QString()});
    auto* row = new QTreeWidgetItem(&tree, {text, text});
    row->setTextAlignment(1, right);
    tree.headerItem()->setTextAlignment(1, right);
    compare(tree, *tree.header());
    QTableWidget table(1, 2);
    table.setShowGrid(false);  // as those of the window
    table.setHorizontalHeaderLabels({text, text});
    table.horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    for (const int column : {0, 1}) table.setItem(0, column, new QTableWidgetItem(text));
    table.item(0, 1)->setTextAlignment(right);
    table.horizontalHeaderItem(1)->setTextAlignment(right);
    compare(table, *table.horizontalHeader());
  }
};

}  // namespace

QTEST_MAIN(DrawingStyleTest)
#include "drawing_style_test.moc"
