// Captured graphs in the window, against the scripted engine: choosing a graph, breaks, guards, and the training step:
// its cut, the budget, pins, memory, other budgets.
#include <QAccessible>
#include <QComboBox>
#include <QDockWidget>
#include <QLabel>
#include <QPainter>
#include <QScrollBar>
#include <QSignalSpy>
#include <QToolButton>
#include <cmath>

#include "tests/views/support/window_fixture.h"
#include "views/panels/captured/break_strip.h"
#include "views/panels/captured/graph_picker.h"
#include "views/panels/captured/guards_panel.h"
#include "views/panels/captured/training_page.h"
#include "views/panels/run/plot.h"

using namespace graft;

namespace {

class CapturedTest : public test::WindowFixture {
  Q_OBJECT

  QString capture(const char* name) {
    const QString path = folder_.filePath(QString::fromLatin1(name));
    QFile file(path);
    return file.open(QIODevice::WriteOnly) ? path : QString();
  }
  void openCapture(const char* name, const char* graph = "") {
    start();
    window_->openModel(capture(name), {}, QString::fromLatin1(graph));
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen() && !window_->capture().graphs().empty(), 10000);
  }
  void openStep() {
    openCapture("step.fx", "joint");
    window_->setTraining(true);
    QTRY_VERIFY_WITH_TIMEOUT(!cut().report().isEmpty() && !cut().isBusy(), 10000);
  }
  TrainingPage* page() { return window_->trainingPage(); }
  TrainingCut& cut() { return window_->cut(); }
  template <class T>
  T* part() {
    return window_->findChild<T*>();
  }
  QStringList menuTexts(QMenu& menu) {
    QStringList out;
    for (const QAction* a : menu.actions())
      if (!a->isSeparator()) out << a->text();
    return out;
  }
  void settle() { QTRY_VERIFY_WITH_TIMEOUT(!cut().isBusy(), 10000); }
  int rowOf(const QString& tensor) {
    const std::vector<JointRow>& rows = page()->view()->rows().rows;
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i].kind == JointRow::Kind::Tensor && rows[i].name == tensor) return static_cast<int>(i);
    return -1;
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void chartsAreHighEnoughInASmallWindow() {
    openStep();
    window_->resize(1024, 700);
    QTest::qWait(100);
    for (const Plot* plot : page()->findChildren<Plot*>())
      QVERIFY2(plot->height() >= 110, qPrintable(QStringLiteral("%1 × %2").arg(plot->width()).arg(plot->height())));
  }

  void chartsDoNotCoverEachOtherInALowPane() {
    openStep();
    window_->arrange(Arrangement::Measure);
    for (const QSize size : {QSize(1024, 700), QSize(1440, 700), QSize(900, 900), QSize(1600, 1200)}) {
      window_->resize(size);
      QTest::qWait(100);
      const QRect memory = page()->memoryPlot()->geometry(), budgets = page()->budgetPlot()->geometry();
      QVERIFY(!memory.intersects(budgets));
      QVERIFY(memory.height() >= 110 && budgets.height() >= 110);
      QVERIFY(memory.width() >= 150 && budgets.width() >= 150);
    }
  }

  void aButtonOpensTheTrainingStepOfAJointGraph() {
    openCapture("step.fx", "joint");
    auto* button = window_->findChild<QToolButton*>(QStringLiteral("trainingButton"));
    QVERIFY(button && button->isVisible() && !button->isChecked());
    QCOMPARE(button->text(), QStringLiteral("Training step"));
    button->click();
    QTRY_VERIFY(window_->showsTraining() && button->isChecked());
    button->click();
    QTRY_VERIFY(!window_->showsTraining() && !button->isChecked());
    window_->openModel(capture("step.fx"), {}, QStringLiteral("forward"));
    QTRY_COMPARE_WITH_TIMEOUT(document().method(), QStringLiteral("forward"), 10000);
    QTRY_VERIFY(!button->isVisible());
  }

  void aFolderOfCapturesIsOneSet() {
    QDir(folder_.path()).mkdir(QStringLiteral("set"));
    for (const char* name : {"set/one.fx", "set/two.broken.fx"}) QVERIFY(!capture(name).isEmpty());
    start();
    window_->openModel(folder_.filePath(QStringLiteral("set")));
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen() && !window_->capture().graphs().empty(), 10000);
    QCOMPARE(document().method(), QStringLiteral("one/forward"));
    QCOMPARE(document().capturedGraphs().size(), qsizetype{6});
    auto* picker = part<GraphPicker>();
    QVERIFY(picker->isVisible());
    Q_EMIT picker->menu()->aboutToShow();
    QStringList files;
    for (const QAction* a : picker->menu()->actions())
      if (a->isSeparator() && !a->text().isEmpty()) files << a->text();
    QCOMPARE(files, (QStringList{QStringLiteral("one.fx"), QStringLiteral("two.broken.fx")}));
    // Another graph of the set, then the training step of the first file.
    const QString folder = document().path();
    window_->openModel(folder, {}, QStringLiteral("two.broken/forward.1"));
    QTRY_COMPARE_WITH_TIMEOUT(document().method(), QStringLiteral("two.broken/forward.1"), 10000);
    QTRY_COMPARE(window_->capture().chain().size(), size_t{3});
    window_->openModel(folder, {}, QStringLiteral("one/forward"));
    QTRY_COMPARE_WITH_TIMEOUT(document().method(), QStringLiteral("one/forward"), 10000);
    window_->setTraining(true);
    QTRY_COMPARE_WITH_TIMEOUT(document().method(), QStringLiteral("one/joint"), 10000);
    QTRY_VERIFY(window_->showsTraining());
  }

  void aModelThatWasNotCapturedShowsNothingOfThis() {
    open();
    QVERIFY(!part<GraphPicker>()->isVisible());
    QVERIFY(!part<BreakStrip>()->isVisible());
    window_->setTraining(true);
    QVERIFY(!window_->showsTraining());
    QVERIFY(!window_->action(QStringLiteral("training"))->isChecked());
    auto* failure = window_->findChild<QWidget*>(QStringLiteral("failure"));
    QVERIFY(failure->isVisible());
  }

  void thePickerOpensAnotherGraphOfTheCapture() {
    openCapture("broken.fx");
    auto* picker = part<GraphPicker>();
    QVERIFY(picker->isVisible());
    QCOMPARE(picker->text(), QStringLiteral("forward"));
    Q_EMIT picker->menu()->aboutToShow();
    const QStringList texts = menuTexts(*picker->menu());
    QCOMPARE(texts.mid(0, 3), QStringList({QStringLiteral("forward · 13 nodes captured"),
                                           QStringLiteral("forward.1 · 26 nodes captured"),
                                           QStringLiteral("forward.2 · 39 nodes captured")}));
    const size_t before = document().graph()->nodeCount();
    for (QAction* a : picker->menu()->actions())
      if (a->text().startsWith(QStringLiteral("forward.2"))) a->trigger();
    QTRY_COMPARE(document().method(), QStringLiteral("forward.2"));
    QVERIFY(document().graph()->nodeCount() > before);
    QCOMPARE(picker->text(), QStringLiteral("forward.2"));
    // Two graphs of one file beside each other.
    document().compareWith(document().path(), QStringLiteral("forward"));
    QTRY_COMPARE(document().otherMethod(), QStringLiteral("forward"));
    QCOMPARE(document().original()->nodeCount(), before);
  }

  void theStripLeadsFromGraphToBreakToGraph() {
    openCapture("broken.fx");
    auto* strip = part<BreakStrip>();
    QVERIFY(strip->isVisible());
    QCOMPARE(strip->shown().size(), 5);
    QCOMPARE(strip->shown()[0], QStringLiteral("forward · 13 nodes captured"));
    QVERIFY2(strip->shown()[1].startsWith(QStringLiteral("net.py:22  the branch depends on the values")),
             qPrintable(strip->shown()[1]));
    QCOMPARE(strip->shown()[4], QStringLiteral("forward.2 · 39 nodes captured"));
    for (QToolButton* b : strip->findChildren<QToolButton*>())
      if (b->text().startsWith(QStringLiteral("forward.1"))) QTest::mouseClick(b, Qt::LeftButton);
    QTRY_COMPARE(document().method(), QStringLiteral("forward.1"));
    QVERIFY(strip->isVisible());
    window_->openModel(capture("step.fx"));
    QTRY_COMPARE(document().method(), QStringLiteral("forward"));
    QTRY_VERIFY(!strip->isVisible());  // nothing broke in this one
  }

  void guardsSayWhichCallBreaksThem() {
    openCapture("broken.fx");
    Q_EMIT window_->findChild<PanelContext*>()->panelAsked(QStringLiteral("guards"));
    auto* panel = window_->panel<GuardsPanel>();
    QTRY_VERIFY(panel->isVisible());
    QCOMPARE(panel->tree()->topLevelItemCount(), 2);
    QCOMPARE(panel->tree()->topLevelItem(0)->child(0)->text(0), QStringLiteral("scale other than 3"));
    panel->filter()->setText(QStringLiteral("grad"));
    QVERIFY(panel->tree()->topLevelItem(0)->isHidden());
    QVERIFY(!panel->tree()->topLevelItem(1)->isHidden());
  }

  void guardsThatAreLongerThanThePanelIsWideGoOnBelow() {
    openCapture("broken.fx");
    Q_EMIT window_->findChild<PanelContext*>()->panelAsked(QStringLiteral("guards"));
    auto* panel = window_->panel<GuardsPanel>();
    QTRY_VERIFY(panel->isVisible());
    QTreeWidgetItem* item = panel->tree()->topLevelItem(0)->child(0);
    const QModelIndex group = panel->tree()->model()->index(0, 0);
    const auto height = [&] { return panel->tree()->visualItemRect(item).height(); };
    const int one = height();
    item->setText(0,
                  QStringLiteral("inputs of another dtype, device or size than i64[2,32]@cpu, which is a long line"));
    QTRY_VERIFY(height() > one + panel->fontMetrics().height() / 2);
    QVERIFY(!panel->tree()->horizontalScrollBar()->isVisible());
    // Whatever its length is, nothing of it is left out: as much is painted as where there is more height.
    const auto ink = [&](int height) {
      QStyleOptionViewItem option;
      option.initFrom(panel->tree());
      option.rect = {0, 0, panel->tree()->visualItemRect(item).width(), height};
      QImage image(option.rect.size(), QImage::Format_RGB32);
      image.fill(Qt::white);
      QPainter painter(&image);
      panel->tree()->itemDelegate()->paint(&painter, option, panel->tree()->model()->index(0, 0, group));
      painter.end();
      qint64 sum = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) sum += 255 - qGray(image.pixel(x, y));
      return sum;
    };
    for (int letters = 1; letters < 60; ++letters) {
      item->setText(0, QStringLiteral("a hook registered in ") + QString(letters, QLatin1Char('i')));
      panel->tree()->doItemsLayout();
      QCOMPARE(ink(height()), ink(height() + 400));
    }
    window_->resize(window_->width() + 900, window_->height());
    window_->resizeDocks({qobject_cast<QDockWidget*>(panel->parentWidget())}, {900}, Qt::Horizontal);
    item->setText(0,
                  QStringLiteral("inputs of another dtype, device or size than i64[2,32]@cpu, which is a long line"));
    QTRY_COMPARE(height(), one);
  }

  void aNewWindowIsAtTheSameGraph() {
    openStep();
    cut().setMemory(0.5);
    settle();
    const QString moved = cut().report().saved.back().name;
    cut().computeAgain(moved);
    settle();
    const QJsonObject state = window_->sessionState();
    window_->close();
    start();
    window_->restoreSession(true);
    QTRY_COMPARE_WITH_TIMEOUT(document().method(), QStringLiteral("joint"), 10000);
    QTRY_VERIFY_WITH_TIMEOUT(window_->showsTraining() && !cut().report().isEmpty(), 10000);
    QCOMPARE(cut().memory(), 0.5);
    QCOMPARE(cut().computedAgain(), QStringList{moved});
    QCOMPARE(document().path(), state.value(QLatin1String("model")).toString());
  }

  void stepsOfEachGraphAreKeptApart() {
    openCapture("broken.fx");
    type(QString::fromLatin1(test::rulesText));
    document().apply(QStringLiteral("Attention"));
    QTRY_COMPARE(document().position(), 1);
    window_->openModel(document().path(), {}, QStringLiteral("forward.1"));
    QTRY_COMPARE(document().method(), QStringLiteral("forward.1"));
    QCOMPARE(document().position(), 0);
    window_->openModel(document().path(), {}, QStringLiteral("forward"));
    QTRY_COMPARE(document().method(), QStringLiteral("forward"));
    QTRY_COMPARE_WITH_TIMEOUT(document().position(), 1, 10000);
  }

  void aModuleOfTheBackwardPassSaysLessBeforeItsNameGoes() {
    JointRow row;
    row.backwardNodes = 484;
    row.againNodes = 8;
    const QFontMetricsF metrics(QApplication::font());
    const QString name = QStringLiteral("encoder"), most = QStringLiteral("484 nodes, 8 computed again"),
                  less = QStringLiteral("484 nodes, 8 recomputed");
    const double whole = metrics.horizontalAdvance(most) + 12 + metrics.horizontalAdvance(name);
    QCOMPARE(JointView::wordsOfBackward(row, name, whole + 1, metrics), most);
    QCOMPARE(JointView::wordsOfBackward(row, name, whole - 1, metrics), less);
    QCOMPARE(JointView::wordsOfBackward(row, QString(80, QLatin1Char('m')), whole, metrics), most);
    // Modules beside each other say it in the same words, unless one has no room for its name anyway.
    QCOMPARE(JointView::wordsOfBackward(row, name, whole + 1, metrics, {name + QStringLiteral("mm")}), less);
    QCOMPARE(JointView::wordsOfBackward(row, name, whole + 1, metrics, {QString(80, QLatin1Char('m'))}), most);
    QCOMPARE(JointView::wordsOfBackward(row, name, 10, metrics), QStringLiteral("484 nodes"));
  }

  void fromAnyGraphOfATrainingStepTheJointOneIsShown() {
    openCapture("step.fx");
    QCOMPARE(document().method(), QStringLiteral("forward"));
    window_->action(QStringLiteral("training"))->trigger();
    QTRY_COMPARE(document().method(), QStringLiteral("joint"));
    QTRY_VERIFY(window_->showsTraining());
    QVERIFY(window_->action(QStringLiteral("training"))->isChecked());
    window_->action(QStringLiteral("training"))->trigger();
    QVERIFY(!window_->showsTraining());
    QVERIFY(window_->canvas()->isVisible());
  }

  void bothHalvesOfAModuleStandInOneRow() {
    openStep();
    const JointRows& rows = page()->view()->rows();
    QCOMPARE(rows.rows.front().path, QString());
    QCOMPARE(rows.rows.front().forwardNodes, 26);
    QCOMPARE(rows.rows.front().backwardNodes, 26);
    int layers = 0;
    for (const JointRow& r : rows.rows)
      if (r.kind == JointRow::Kind::Module &&
          (r.path == QStringLiteral("encoder.layer.0") || r.path == QStringLiteral("encoder.layer.1"))) {
        ++layers;
        QCOMPARE(r.forwardNodes, 13);
        QCOMPARE(r.backwardNodes, 13);
        QCOMPARE(r.tensors, 6);
        QCOMPARE(r.savedBytes, 6 * 4096);
      }
    QCOMPARE(layers, 2);
    QVERIFY(page()->totals().startsWith(QStringLiteral("Saves 53.2 kB (100 %)")));
    // Opened, a module has a row for each tensor that it saves.
    page()->view()->openAll(true);
    QVERIFY(rowOf(QStringLiteral("softmax")) > 0);
    QCOMPARE(rows.mostBytes, 4096);
  }

  void theBudgetCutsAgain() {
    openStep();
    const auto before = cut().report().savedBytes;
    page()->slider()->setValue(500);
    settle();
    QCOMPARE(cut().memory(), 0.5);
    QVERIFY(cut().report().savedBytes <= before / 2);
    QVERIFY(!cut().report().recomputed.empty());
    QCOMPARE(page()->again()->topLevelItemCount(), static_cast<int>(cut().report().recomputed.size()));
    // What cannot be met is said, and the cut stays as it was.
    const auto half = cut().report().savedBytes;
    page()->field()->setValue(0);
    settle();
    QVERIFY2(page()->remark().contains(QStringLiteral("cannot be met")), qPrintable(page()->remark()));
    QCOMPARE(cut().report().savedBytes, half);
  }

  void aTensorIsMovedAcrossTheCut() {
    openStep();
    JointView* view = page()->view();
    view->openAll(true);
    const int row = rowOf(QStringLiteral("softmax"));
    QVERIFY(row > 0);
    view->setCurrent(row);
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    QTest::keyClick(view, Qt::Key_Space);
    QCOMPARE(cut().computedAgain(), QStringList{QStringLiteral("softmax")});
    settle();
    QCOMPARE(view->rows().rows[static_cast<size_t>(rowOf(QStringLiteral("softmax")))].crossing, Crossing::Again);
    QCOMPARE(view->current(), rowOf(QStringLiteral("softmax")));  // the keyboard stays on it
    QVERIFY(page()->remark().contains(QStringLiteral("softmax")));
    // Once more: the cut decides again.
    QTest::keyClick(view, Qt::Key_Space);
    QVERIFY(!cut().hasPins());
    settle();
    // An input stays.
    view->setCurrent(rowOf(QStringLiteral("x")));
    QTest::keyClick(view, Qt::Key_Space);
    QVERIFY(!cut().hasPins());
    // By its menu: a module, and back.
    QMenu menu;
    view->fillMenu(menu, rowOf(QStringLiteral("softmax")));
    const QString module = tr("Recompute the module encoder.layer.0.attention");
    for (QAction* a : menu.actions())
      if (a->text() == module) a->trigger();
    QCOMPARE(cut().computedAgain(), QStringList{QStringLiteral("encoder.layer.0.attention")});
    settle();
    QCOMPARE(cut().report().recomputed.size(), size_t{4});
    cut().unpinAll();
    settle();
    // By a tick of the table.
    QTreeWidgetItem* item = page()->saved()->topLevelItem(1);
    item->setCheckState(0, Qt::Unchecked);
    QTRY_COMPARE(cut().computedAgain().size(), 1);
    settle();
  }

  void wishesAreSavedAsAFileAndReadBack() {
    openStep();
    cut().setMemory(0.6);
    cut().alwaysSave(QStringLiteral("softmax"));
    settle();
    const QString path = folder_.filePath(QStringLiteral("cut.json"));
    cut().write(path);
    QTRY_VERIFY(QFileInfo(path).size() > 0);
    cut().unpinAll();
    cut().setMemory(1);
    settle();
    cut().read(path);
    QTRY_COMPARE(cut().alwaysSaved(), QStringList{QStringLiteral("softmax")});
    QCOMPARE(cut().memory(), 0.6);
    settle();
  }

  void memoryAndBudgetsAreDrawnAndClicked() {
    openStep();
    QTRY_COMPARE(cut().curve().size(), size_t{3});
    LiveMemoryPlot* memory = page()->memoryPlot();
    memory->resize(400, 200);
    const QString first = memory->nodeAt(QPointF(63, 100));
    QCOMPARE(first, cut().report().forward.front().name);
    QTest::mouseClick(memory, Qt::LeftButton, {}, QPoint(63, 100));
    QCOMPARE(document().selection(), QStringList{first});
    BudgetPlot* budgets = page()->budgetPlot();
    budgets->resize(400, 200);
    QTest::mouseClick(budgets, Qt::LeftButton, {}, budgets->placeOf(2).toPoint());
    QCOMPARE(cut().memory(), 0.5);
    // The same by keys, and in words.
    const auto told = [](QWidget* w) {
      return QAccessible::queryAccessibleInterface(w)->text(QAccessible::Description);
    };
    QTest::keyClick(memory, Qt::Key_End);
    const QString last = cut().report().backward.back().name;
    QVERIFY2(told(memory).startsWith(last + QStringLiteral(", backward pass")), qPrintable(told(memory)));
    QTest::keyClick(memory, Qt::Key_Return);
    QCOMPARE(document().selection(), QStringList{last});
    settle();
    QTRY_COMPARE(cut().curve().size(), size_t{3});
    QTest::keyClick(budgets, Qt::Key_Home);
    QVERIFY(told(budgets).startsWith(QStringLiteral("Budget ")));
    QTest::keyClick(budgets, Qt::Key_Right);
    QTest::keyClick(budgets, Qt::Key_Return);
    QCOMPARE(cut().memory(), std::ceil(1000 * cut().curve()[1].memory) / 1000);
    settle();
    QCOMPARE(budgets->stop(), 1);
    page()->view()->setCurrent(0);
    QVERIFY(!told(page()->view()).isEmpty());
    for (Plot* plot : std::initializer_list<Plot*>{memory, budgets}) QVERIFY(plot->svg({400, 200}).contains("<svg"));
  }

  void whoDoesNotLookAsksNothing() {
    openCapture("step.fx", "joint");
    QTest::qWait(300);
    QVERIFY(cut().report().isEmpty());
    QVERIFY(!cut().isBusy());
  }
};

}  // namespace

QTEST_MAIN(CapturedTest)
#include "captured_test.moc"
