// What stands still over a drawing: arrows to what is out of sight, the modules one is inside of, the legend; and two
// drawings that are fitted and compared as one.
#include <QDockWidget>
#include <algorithm>

#include "tests/views/support/sample_graphs.h"
#include "tests/views/support/window_fixture.h"
#include "views/canvas/canvas_frame.h"
#include "views/canvas/overview.h"
#include "views/document/graph_decode.h"

using namespace graft;
using test::rulesText;

namespace {

class FrameTest : public test::WindowFixture {
  Q_OBJECT

  Canvas& canvas() { return *window_->canvas(); }
  QStringList legend() {
    QStringList out;
    for (const auto& [text, color] : canvas().frame().legend()) out << text;
    return out;
  }
  bool isSeen(const QString& key) {
    const int box = canvas().scene()->boxOf(key);
    return canvas().visibleSceneRect().intersects(canvas().scene()->rect(box));
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void anArrowLeadsToMatchesOutOfSight() {
    open();
    type(QString::fromLatin1(rulesText));
    canvas().setDepth(-1);
    // All four matches lie below the first node, one by one out of sight.
    canvas().setView({0, -4000}, 1);
    const std::vector<EdgeMark> marks = canvas().frame().marks();
    QCOMPARE(marks.size(), size_t{1});
    QCOMPARE(marks.front().side, EdgeMark::Below);
    QCOMPARE(marks.front().count, 4);
    QVERIFY(marks.front().text.endsWith(QLatin1Char('4')));
    QVERIFY(canvas().rect().contains(marks.front().place.toRect()));
    QVERIFY(!isSeen(QStringLiteral("matmul")));
    QTest::mouseClick(&canvas(), Qt::LeftButton, {}, marks.front().place.center().toPoint());
    QVERIFY(isSeen(QStringLiteral("matmul")));  // the nearest
    QVERIFY(document().selection().isEmpty());
    canvas().setView({0, 40000}, 1);
    QCOMPARE(canvas().frame().marks().front().side, EdgeMark::Above);
    // The overview shows them, too.
    int marked = 0;
    auto* overview = canvas().findChildren<QWidget*>().first();
    const QColor wanted = toQt(graft::palette(Theme::Light).pattern(0));
    const QImage map = overview->grab().toImage();
    for (int x = 0; x < map.width(); ++x)
      for (int y = 0; y < map.height(); ++y) marked += map.pixelColor(x, y) == wanted;
    QVERIFY2(marked >= 4, qPrintable(QString::number(marked)));
    window_->comparison().fit();
    QVERIFY(canvas().frame().marks().empty());
  }

  void anArrowStandsBesideBoxesWhereThereIsRoom() {
    Canvas canvas;
    canvas.resize(520, 220);
    ViewOptions all;
    all.depth = -1;
    canvas.setViewOptions(all);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(2)));
    QVERIFY(canvas.scene());
    Decorations colours;
    colours.pattern = {{QStringLiteral("softmax"), 0}, {QStringLiteral("softmax_1"), 0}};
    canvas.setDecorations(colours);
    const QRectF box = canvas.scene()->rect(canvas.scene()->boxOf(QStringLiteral("softmax")));
    int shifted = 0;
    for (int step = 0; step < 60; ++step) {
      canvas.setView({box.center().x() - 260, canvas.scene()->bounds().height() * step / 60 - 200}, 1);
      const std::vector<EdgeMark> marks = canvas.frame().marks();
      for (const EdgeMark& m : marks) {
        const auto covers = [&](double dx) {
          const QRectF r = m.place.translated(dx, 0);
          return canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size()});
        };
        if (m.side != EdgeMark::Above && m.side != EdgeMark::Below) continue;
        QVERIFY(canvas.rect().contains(m.place.toRect()));
        const double middle = canvas.width() / 2.0 - m.place.center().x();
        if (covers(0)) QVERIFY(std::abs(middle) < 1 && covers(28) && covers(56));  // it is everywhere
        if (std::abs(middle) < 1) continue;
        ++shifted;
        QVERIFY(!covers(0) && covers(middle));
      }
    }
    QVERIFY(shifted > 0);
  }

  void anArrowCountsColouredNodesThatBelongToNoMatch() {
    open();
    canvas().setDepth(-1);
    Decorations colours;
    colours.pattern = {{QStringLiteral("matmul"), 0}, {QStringLiteral("softmax_1"), 1}};
    colours.countsMatches = false;
    canvas().setDecorations(colours);
    canvas().setView({0, -4000}, 1);
    const std::vector<EdgeMark> marks = canvas().frame().marks();
    QCOMPARE(std::accumulate(marks.begin(), marks.end(), 0, [](int n, const EdgeMark& m) { return n + m.count; }), 2);
  }

  void oneSeesWhichModulesOneIsInside() {
    open();
    canvas().setDepth(-1);
    window_->comparison().fit();
    QVERIFY(canvas().frame().inside().isEmpty());
    const QRectF r = canvas().scene()->rect(canvas().scene()->boxOf(QStringLiteral("softmax_1")));
    canvas().setView(r.center() - QPointF(canvas().width() / 2.0, 5), 1);
    const QStringList inside = canvas().frame().inside();
    QCOMPARE(inside.first(), QStringLiteral("encoder"));
    QCOMPARE(inside.last(), QStringLiteral("attention"));
  }

  void whatIsBehindTheNamesOfModulesShowsUnderThePointer() {
    Canvas canvas;
    canvas.resize(700, 500);
    ViewOptions open;
    open.depth = -1;
    canvas.setViewOptions(open);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(6)));
    canvas.setView(canvas.scene()->bounds().center() - QPointF(350, 250), 1);
    canvas.show();
    const QRectF place = canvas.frame().topPlace();
    QVERIFY(!canvas.frame().inside().isEmpty() && place.width() > 60);
    const QRect there = place.adjusted(2, 2, -2, -2).toRect();
    const auto seen = [&] { return canvas.grab(there).toImage(); };
    const QImage covered = seen();
    QTest::mouseMove(&canvas, place.center().toPoint());
    QTRY_VERIFY(seen() != covered);
    QTest::mouseMove(&canvas, QPoint(350, 400));
    QTRY_VERIFY(seen() == covered);
  }

  void inASmallCanvasTheNamesOfModulesCoverNoBox() {
    Canvas canvas;
    canvas.resize(512, 200);
    ViewOptions open;
    open.depth = -1;
    canvas.setViewOptions(open);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(6)));
    QVERIFY(canvas.scene());
    const QRectF b = canvas.scene()->bounds();
    int shown = 0, hidden = 0;
    for (int step = 0; step < 40; ++step)
      for (const double x : {b.left() - 100, b.center().x() - 200}) {
        canvas.setView({x, b.height() * step / 40}, 1);
        const QRectF r = canvas.frame().topPlace();
        if (!canvas.frame().inside().isEmpty()) ++(r.isEmpty() ? hidden : shown);
        QVERIFY(r.isEmpty() || !canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size()}));
      }
    QVERIFY2(shown > 0 && hidden > 0, qPrintable(QStringLiteral("%1 %2").arg(shown).arg(hidden)));
  }

  void theLegendNamesWhatThereIs() {
    open();
    canvas().setDepth(-1);
    for (const BoxKind kind : {BoxKind::Product, BoxKind::Normalization})
      QVERIFY(legend().contains(QString::fromStdString(std::string(boxKindName(kind)))));
    QVERIFY(!legend().contains(QStringLiteral("lookup")) && !legend().contains(QStringLiteral("module")));
    canvas().setDepth(0);
    QVERIFY(legend().contains(QStringLiteral("module")));
    canvas().setDepth(-1);
    QAction* shown = window_->action(QStringLiteral("legend"));
    QVERIFY(shown->isChecked());
    window_->resize(1440, 900);
    QTest::qWait(30);
    const QImage with = canvas().grab().toImage();
    shown->trigger();
    QVERIFY(canvas().grab().toImage() != with);
    // While matches show, the colours are theirs; while changes show, theirs.
    type(QString::fromLatin1(rulesText));
    QVERIFY(legend().isEmpty());
    document().apply(rule().name);
    QTRY_COMPARE(document().position(), 1);
    window_->setCompare(true);
    // What the other drawing has, too: the two are read as one.
    QCOMPARE(legend(), (QStringList{QStringLiteral("− removed"), QStringLiteral("+ added")}));
  }

  void theLegendAndTheOverviewOfASmallCanvasCoverNoBoxes() {
    Canvas canvas;
    canvas.setLegendVisible(true);
    canvas.setOverviewVisible(true);
    canvas.resize(700, 420);
    canvas.show();
    ViewOptions all;
    all.depth = -1;
    canvas.setViewOptions(all);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(6)));
    QVERIFY(canvas.scene());
    const auto covers = [&](const QRectF& r) {
      return canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()});
    };
    auto* overview = canvas.findChild<Overview*>();
    bool isFolded = false, isWhole = false, isMapSeen = false;
    for (const double scale : {0.15, 0.5, 1.0})
      for (int step = 0; step < 12; ++step) {
        canvas.setView({0, step * canvas.scene()->bounds().height() / 12}, scale);
        const CanvasFrame framed = canvas.frame();
        isFolded |= framed.isLegendFolded();
        isWhole |= !framed.isLegendFolded();
        QVERIFY(framed.isLegendFolded() || !covers(framed.legendPlace()));
        isMapSeen |= overview->isVisible();
        QVERIFY(!overview->isVisible() || !covers(overview->geometry()));
      }
    QVERIFY(isFolded && isWhole && isMapSeen);
    // Folded, it opens under the pointer.
    for (int step = 0; step < 12 && !canvas.frame().isLegendFolded(); ++step)
      canvas.setView({0, step * canvas.scene()->bounds().height() / 12}, 1.0);
    QVERIFY(canvas.frame().isLegendFolded());
    QTest::mouseMove(&canvas, canvas.frame().legendPlace().center().toPoint());
    QTRY_VERIFY(!canvas.frame().isLegendFolded());
  }

  void theLegendStandsWhereNothingIsDrawn() {
    Canvas canvas;
    canvas.setGraph(std::make_shared<Graph>(test::encoder(2)));
    QVERIFY(canvas.scene());
    const Scene& scene = *canvas.scene();
    const QRectF whole = scene.bounds();
    QVERIFY(scene.isBlank({whole.right() + 10, whole.bottom() + 10, 50, 50}));
    QVERIFY(!scene.isBlank(whole));
    // Neither an edge nor the outline of an open module counts as free, where no box is.
    for (const QPainterPath& path : scene.paths)
      QVERIFY(!scene.isBlank({path.pointAtPercent(0.5) - QPointF(2, 2), QSizeF(4, 4)}));
    for (size_t i = 0; i < scene.view.boxes.size(); ++i)
      if (const QRectF r = scene.rect(static_cast<int>(i)); scene.view.boxes[i].open)
        QVERIFY(!scene.isBlank({r.bottomRight() - QPointF(5, 5), QSizeF(10, 10)}));
    canvas.setLegendVisible(true);
    canvas.resize(1400, 900);
    canvas.fit();
    const QRectF r = canvas.frame().legendPlace();
    QVERIFY(scene.isBlank({canvas.toScene(r.topLeft()), r.size() / canvas.scale()}));
  }

  void theLegendTakesRoomInsideAModuleRatherThanItsOutline() {
    // Beside a long chain stands one wide box; what is below it is blank.
    Graph graph;
    const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
    const OperatorRef add = *parseSchema("aten::add.Tensor(Tensor self, Tensor other) -> Tensor");
    const Type type = Type::tensor(DType::Float32, {Dim(4)});
    const ValueId x = graph.addInput("x", type);
    const ModuleCallId module = graph.addModuleCall({}, "net", "Net");
    const auto call = [&](const OperatorRef& op, std::vector<Argument> args, const std::string& name) {
      const NodeId n = graph.append(graph.root(), op, std::move(args), name);
      graph.setModule(n, module);
      return graph.output(n);
    };
    ValueId last = x;
    for (int i = 0; i < 9; ++i) last = call(relu, {Argument(last)}, "relu_" + std::to_string(i));
    const ValueId wide = call(relu, {Argument(x)}, std::string(60, 'n'));
    graph.setReturns(graph.root(), {Argument(call(add, {Argument(last), Argument(wide)}, "add"))});
    Canvas canvas;
    canvas.setLegendVisible(true);
    ViewOptions all;
    all.depth = -1;
    all.columns = false;
    canvas.setViewOptions(all);
    canvas.setGraph(std::make_shared<Graph>(std::move(graph)));
    QVERIFY(canvas.scene());
    // As wide as the drawing: no corner is free, nor anything along the edges.
    const QSizeF whole = canvas.scene()->bounds().size();
    canvas.resize(std::max(660, static_cast<int>(whole.width() / whole.height() * 900)), 900);
    canvas.setView({(whole.width() - canvas.width()) / 2, (whole.height() - canvas.height()) / 2}, 1);
    int inside = 0;
    for (double scale = 0.6; scale < 2; scale += 0.1) {
      const QSizeF seen = QSizeF(canvas.size()) / scale;
      canvas.setView({(whole.width() - seen.width()) / 2, (whole.height() - seen.height()) / 2}, scale);
      canvas.setLegendVisible(true);  // its place is chosen anew
      const QRectF r = canvas.frame().legendPlace();
      QVERIFY(!r.isEmpty());
      const auto isBlank = [&](const QRectF& place) {
        return canvas.scene()->isBlank({canvas.toScene(place.topLeft()), place.size() / canvas.scale()});
      };
      constexpr double gap = 12, top = 42;
      inside += isBlank(r) && r.bottom() < canvas.height() - gap - 1 && r.top() > top + 1;
      if (isBlank(r)) continue;
      bool isAnyFree = false;  // with room around it
      for (double left = gap; left < canvas.width() - r.width() - 24; left += 40)
        for (double y = canvas.height() - gap - r.height(); y > canvas.height() - gap - r.height() - 120; y -= 24)
          isAnyFree |= isBlank({left - 4, y - 4, r.width() + 8, r.height() + 8});
      QVERIFY(!isAnyFree);
    }
    QVERIFY(inside > 0);
  }

  void whereTheViewRestsTheLegendCoversNoBox() {
    Canvas canvas;
    canvas.setLegendVisible(true);
    canvas.resize(1000, 700);
    canvas.show();
    ViewOptions all;
    all.depth = -1;
    canvas.setViewOptions(all);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(6)));
    QVERIFY(canvas.scene());
    // A box comes to lie under the legend.
    const QRectF box = canvas.scene()->rect(canvas.scene()->boxOf(QStringLiteral("softmax_1")));
    canvas.setView(box.center() - canvas.frame().legendPlace().center(), 1);
    canvas.setView(box.center() - canvas.frame().legendPlace().center(), 1);  // it may be folded there
    QVERIFY(canvas.frame().isLegendInTheWay());
    QTRY_VERIFY(!canvas.frame().isLegendInTheWay());
    QVERIFY(!canvas.frame().legendPlace().isEmpty());
    // The overview keeps its corner.
    canvas.setOverviewVisible(true);
    auto* overview = canvas.findChild<Overview*>();
    QVERIFY(overview->isVisible());
    const QRect corner = inCorner(Corner::BottomRight, overview->size(), canvas.size()).toRect();
    for (const double scale : {0.6, 1.0})
      for (int step = 1; step < 6; ++step) {
        canvas.setView({0, step * canvas.scene()->bounds().height() / 6}, scale);
        QTest::qWait(200);
        QVERIFY(!canvas.frame().legendPlace().intersects(overview->geometry()));
        if (overview->isVisible()) QCOMPARE(overview->geometry().topLeft(), corner.topLeft());
      }
  }

  void aNarrowCanvasHasALegendWhereItsWordsHaveRoom() {
    Canvas canvas;
    canvas.setLegendVisible(true);
    canvas.resize(512, 560);
    canvas.show();
    canvas.setGraph(std::make_shared<Graph>(test::encoder(2)));
    QVERIFY(canvas.scene());
    const QRectF r = canvas.frame().legendPlace();
    QVERIFY(!r.isEmpty() && !canvas.frame().isLegendFolded());
    QVERIFY(!canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()}));
    canvas.resize(300, 560);
    QVERIFY(canvas.frame().legendPlace().isEmpty());
  }

  void aDrawingThatIsTooLongBeginsWithItsFirstInput() {
    Graph graph;
    const OperatorRef relu = *parseSchema("aten::relu(Tensor self) -> Tensor");
    const OperatorRef mul = *parseSchema("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor");
    const Type type = Type::tensor(DType::Float32, {Dim(4)});
    const ValueId late = graph.addInput("late", type);
    ValueId last = graph.addInput("early", type);
    for (int i = 0; i < 12; ++i)
      last = graph.output(graph.append(graph.root(), relu, {Argument(last)}, "relu_" + std::to_string(i)));
    last = graph.output(graph.append(graph.root(), mul, {Argument(last), Argument(late)}, "mul"));
    graph.setReturns(graph.root(), {Argument(last)});
    Canvas canvas;
    canvas.setAutoFit(true, 0.65);
    canvas.resize(200, 340);
    canvas.setGraph(std::make_shared<Graph>(std::move(graph)));
    QVERIFY(canvas.scene());
    const auto& boxes = canvas.scene()->view.boxes;
    const auto early = std::find_if(boxes.begin(), boxes.end(), [](const Box& b) { return b.title == "early"; });
    QVERIFY(early != boxes.end());
    QVERIFY(canvas.scene()->bounds().height() * canvas.scale() > 400);
    QVERIFY(canvas.visibleSceneRect().contains(canvas.scene()->rect(static_cast<int>(early - boxes.begin())).center()));
  }

  void aNameThatIsCutAtTheEdgeIsToldAbove() {
    open();
    canvas().setDepth(-1);
    const QRectF r = canvas().scene()->rect(canvas().scene()->boxOf(QStringLiteral("@encoder")));
    QVERIFY(r.isValid());
    canvas().setView(r.topLeft() - QPointF(40, 40), 1);
    QVERIFY(canvas().frame().inside().isEmpty());
    canvas().setView(r.topLeft() + QPointF(25, 2), 1);
    QCOMPARE(canvas().frame().inside().value(0), QStringLiteral("encoder"));
  }

  void theLegendCoversNoTitleOfAModule() {
    Canvas canvas;
    canvas.setGraph(std::make_shared<Graph>(test::encoder(2)));
    QVERIFY(canvas.scene());
    const Scene& scene = *canvas.scene();
    const auto open =
        std::find_if(scene.view.boxes.begin(), scene.view.boxes.end(), [](const Box& b) { return b.open; });
    QVERIFY(open != scene.view.boxes.end());
    const QRectF module = scene.rect(static_cast<int>(open - scene.view.boxes.begin()));
    QVERIFY(scene.covers({module.topLeft() + QPointF(4, 4), QSizeF(6, 6)}));
    QVERIFY(!scene.covers({module.bottomRight() - QPointF(5, 5), QSizeF(4, 4)}));
  }

  void theFoldedLegendStandsWhereItIsFree() {
    Canvas canvas;
    canvas.setLegendVisible(true);
    canvas.resize(700, 420);
    canvas.show();
    ViewOptions all;
    all.depth = -1;
    all.foldRepeats = false;
    canvas.setViewOptions(all);
    canvas.setGraph(std::make_shared<Graph>(test::encoder(60)));
    QVERIFY(canvas.scene());
    bool isFolded = false;
    for (const double scale : {0.12, 0.2, 0.3})
      for (int step = 0; step < 12; ++step) {
        canvas.setView({0, step * canvas.scene()->bounds().height() / 12}, scale);
        canvas.setLegendVisible(true);  // its corner is chosen anew
        const CanvasFrame framed = canvas.frame();
        if (!framed.isLegendFolded()) continue;
        isFolded = true;
        const auto covers = [&](Corner corner) {
          const QRectF r = inCorner(corner, framed.legendPlace().size(), canvas.size());
          return canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()});
        };
        const auto corners = {Corner::BottomLeft, Corner::TopLeft, Corner::TopRight, Corner::BottomRight};
        const bool isAnyFree = !std::all_of(corners.begin(), corners.end(), covers);
        const QRectF r = framed.legendPlace();
        QVERIFY(!isAnyFree || !canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()}));
      }
    QVERIFY(isFolded);
  }

  /// As the legend of kinds: in a corner without boxes, else folded to its colours.
  void theScaleOfHeatColoursCoversNoWords() {
    Canvas canvas;
    canvas.resize(520, 200);
    canvas.show();
    const auto graph = std::make_shared<Graph>(test::encoder(2));
    ViewOptions all;
    all.depth = -1;
    canvas.setViewOptions(all);
    canvas.setGraph(graph);
    QVERIFY(canvas.scene());
    Decorations decorations;
    for (const NodeId n : graph->order()) decorations.heat.insert(QString::fromStdString(graph->node(n).name), 1e-3);
    canvas.setDecorations(decorations);
    QVERIFY(canvas.boxDecorations().anyHeat);
    const auto covers = [&](const QRectF& r) {
      return canvas.scene()->covers({canvas.toScene(r.topLeft()), r.size() / canvas.scale()});
    };
    bool isFolded = false, isWhole = false;
    for (int step = 0; step < 24; ++step) {
      canvas.setView({0, step * canvas.scene()->bounds().height() / 24}, 1.0);
      const CanvasFrame framed = canvas.frame();
      QVERIFY(!framed.legendPlace().isEmpty());
      isFolded |= framed.isLegendFolded();
      isWhole |= !framed.isLegendFolded();
      QVERIFY(framed.isLegendFolded() || !covers(framed.legendPlace()));
    }
    QVERIFY(isFolded && isWhole);
  }

  /// As one types, most matches are those of before.
  void decorationsThatAreThereAreNotPaintedAnew() {
    open();
    Decorations decorations;
    decorations.pattern.insert(QStringLiteral("softmax"), 0);
    canvas().setDecorations(decorations);
    QTest::qWait(100);
    struct Counter : QObject {
      int painted = 0;
      bool eventFilter(QObject*, QEvent* e) override {
        painted += e->type() == QEvent::Paint;
        return false;
      }
    } counter;
    canvas().installEventFilter(&counter);
    canvas().setDecorations(decorations);
    QTest::qWait(100);
    QCOMPARE(counter.painted, 0);
    decorations.pattern.insert(QStringLiteral("softmax"), 1);
    canvas().setDecorations(decorations);
    QTRY_VERIFY(counter.painted > 0);
  }

  void whileMatchesShowKindsAreGrey() {
    open();
    window_->arrange(Arrangement::Rewrite);
    canvas().setDepth(-1);
    const auto colorOf = [&](const char* key) {
      const QRectF r = canvas().scene()->rect(canvas().scene()->boxOf(QString::fromLatin1(key)));
      canvas().setView(r.center() - QPointF(100, 100), 1);
      return canvas().grab().toImage().pixelColor(canvas().toWidget(r.topLeft() + QPointF(8, 4)).toPoint());
    };
    const auto isGrey = [](const QColor& c) {
      return std::max({c.red(), c.green(), c.blue()}) - std::min({c.red(), c.green(), c.blue()}) < 12;
    };
    QVERIFY(!isGrey(colorOf("layer_norm")));
    type(QString::fromLatin1(rulesText));
    QVERIFY(isGrey(colorOf("layer_norm")));
    QVERIFY(!isGrey(colorOf("softmax")));
  }

  void bothDrawingsAreFittedAndEqualOnesSaySo() {
    open();
    type(QString::fromLatin1(rulesText));
    canvas().setDepth(-1);
    const auto title = [&] { return canvas().title(); };
    window_->setCompare(true);
    QVERIFY(title().contains(QStringLiteral("identical")));
    document().apply(rule().name);
    QTRY_COMPARE(document().position(), 1);
    QCOMPARE(title(), QStringLiteral("now"));
    window_->action(QStringLiteral("fit"))->trigger();
    QTest::qWait(30);
    for (Canvas* c : {window_->canvas(), window_->beforeCanvas()})
      QVERIFY(c->visibleSceneRect().contains(c->scene()->bounds()));
    QCOMPARE(window_->canvas()->scale(), window_->beforeCanvas()->scale());
    // Their titles cover none of their boxes.
    for (Canvas* c : {window_->canvas(), window_->beforeCanvas()}) {
      QVERIFY(!c->title().isEmpty());
      QVERIFY(c->toWidget(c->scene()->bounds().topLeft()).y() >= CanvasFrame::titleHeight);
    }
    // Under heat colours − and + stay.
    document().run({});
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning() && !document().lastRun().isEmpty(), 20000);
    window_->setOverlay(Overlay::Time);
    QVERIFY(canvas().boxDecorations().anyHeat);
    const int fused = canvas().scene()->boxOf(QStringLiteral("fused_0"));
    QCOMPARE(canvas().boxDecorations().change[static_cast<size_t>(fused)], Change::Added);
    // Another file with the same nodes.
    document().undo();
    const QString same = folder_.filePath(QStringLiteral("same.pt"));
    QVERIFY(QFile::copy(model_, same));
    document().compareWith(same);
    QTRY_COMPARE_WITH_TIMEOUT(document().otherPath(), same, 10000);
    QTRY_VERIFY2(title().contains(QStringLiteral("identical")), qPrintable(title()));
    const QString smaller = folder_.filePath(QStringLiteral("other.pt"));
    QVERIFY(QFile::copy(model_, smaller));
    document().compareWith(smaller);
    QTRY_COMPARE_WITH_TIMEOUT(document().otherPath(), smaller, 10000);
    QVERIFY(!title().contains(QStringLiteral("identical")));
  }

  void aNarrowWindowLeavesTheDrawingHalfOfTheWidth() {
    start();
    window_->resize(1024, 700);
    window_->openModel(model_);
    QTRY_VERIFY_WITH_TIMEOUT(document().isOpen(), 10000);
    window_->arrange(Arrangement::Rewrite);
    QTest::qWait(100);
    QCOMPARE(window_->width(), 1024);
    QVERIFY2(canvas().width() >= 480, qPrintable(QString::number(canvas().width())));
  }

  void returnInTheInputsRuns() {
    open();
    window_->arrange(Arrangement::Measure);
    auto* inputs = window_->findChild<QDockWidget*>(QStringLiteral("run"))->findChild<QLineEdit*>();
    QTest::keyClick(inputs, Qt::Key_Return);
    QVERIFY(document().isRunning());
    QTRY_VERIFY_WITH_TIMEOUT(!document().isRunning(), 20000);
  }
};

}  // namespace

QTEST_MAIN(FrameTest)
#include "frame_test.moc"
