// Where names, counts and landmarks stand while boxes are too small for their usual text: on no box that is not theirs.
#include <QTest>
#include <map>
#include <string>

#include "tests/views/support/named_boxes.h"
#include "tests/views/support/sample_graphs.h"
#include "views/canvas/canvas_paint.h"
#include "views/canvas/label_places.h"
#include "views/layout/node_text.h"

using namespace graft;

namespace {

SceneRef sceneOf(Graph graph, ViewOptions options) {
  return makeScene(std::make_shared<Graph>(std::move(graph)), options);
}

/// Labels that stand on a box that is not theirs, or on another label. A module's name may cover boxes in it that have
/// no words.
QStringList coveredBy(const Scene& scene, double scale) {
  QStringList wrong;
  const LabelPlaces places(scene, scale);
  const auto& labels = places.labels();
  for (size_t i = 0; i < labels.size(); ++i) {
    const PlacedLabel& label = labels[i];
    for (size_t b = 0; b < scene.view.boxes.size(); ++b) {
      const QRectF r = scene.rect(static_cast<int>(b));
      int around = scene.view.boxes[b].parent;
      while (around >= 0 && around != label.box) around = scene.view.boxes[static_cast<size_t>(around)].parent;
      if (around == label.box && label.kind == PlacedLabel::Kind::Name && !hasWords(scene, static_cast<int>(b), scale))
        continue;
      if (!scene.view.boxes[b].open && static_cast<int>(b) != label.box &&
          QRectF(r.topLeft() * scale, r.size() * scale).intersects(label.at))
        wrong << label.text + QStringLiteral(" on ") + QString::fromStdString(scene.view.boxes[b].title);
    }
    for (size_t k = 0; k < i; ++k)
      if (labels[k].at.intersects(label.at)) wrong << label.text + QStringLiteral(" on ") + labels[k].text;
  }
  return wrong;
}

QImage imageOf(const Scene& scene, double scale) {
  const Palette p = palette(Theme::Light);
  const std::vector<char> none(scene.view.boxes.size(), 0);
  const Decorations decorations;
  const BoxDecorations resolved = resolve(scene, decorations);
  const LabelPlaces places(scene, scale);
  QImage image((scene.bounds().size() * scale).toSize(), QImage::Format_RGB32);
  image.fill(toQt(p.background));
  QPainter painter(&image);
  painter.scale(scale, scale);
  paintScene(painter, scene, {p, decorations, resolved, none, none, places, scale}, scene.bounds());
  return image;
}

/// Where the words of a box begin and end in its upper and its lower half, at a scale at which they are small.
struct Lines {
  int firstBegin, secondBegin, secondEnd;
};
Lines linesOf(const Scene& scene, int box) {
  constexpr double scale = 0.75;
  constexpr int border = 3, visible = 60;
  const QImage image = imageOf(scene, scale);
  const QRectF whole = scene.rect(box);
  const QRect r = QRectF(whole.topLeft() * scale, whole.size() * scale).toRect();
  const auto isInk = [&](int x, int top, int bottom) {
    const int behind = qGray(image.pixel(r.left() + border, r.center().y()));
    for (int y = top; y < bottom; ++y)
      if (behind - qGray(image.pixel(x, y)) > visible) return true;
    return false;
  };
  Lines lines{-1, -1, -1};
  for (int x = r.left() + border; x < r.right() - border; ++x) {
    if (lines.firstBegin < 0 && isInk(x, r.top() + border, r.center().y())) lines.firstBegin = x;
    if (!isInk(x, r.center().y(), r.bottom() - border)) continue;
    if (lines.secondBegin < 0) lines.secondBegin = x;
    lines.secondEnd = x;
  }
  return lines;
}

class WordsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void labelsCoverNoBoxesAtAnyZoom() {
    for (const Flow flow : {Flow::Down, Flow::Right})
      for (const bool folds : {true, false}) {
        const SceneRef scene = sceneOf(test::encoder(6), {.depth = -1, .foldRepeats = folds, .flow = flow});
        for (double scale = 0.05; scale < 1; scale *= 1.07)
          if (const QStringList wrong = coveredBy(*scene, scale); !wrong.isEmpty())
            QFAIL(qPrintable(QStringLiteral("%1: %2").arg(scale).arg(wrong.join(QStringLiteral(", ")))));
      }
  }

  void everyModuleOfAnEncoderIsNamedWhereThereIsRoom() {
    const SceneRef scene = sceneOf(test::encoder(6), {.depth = -1});
    const LabelPlaces places(*scene, 0.4);
    int open = 0, named = 0, counted = 0;
    for (const Box& box : scene->view.boxes) open += box.open;
    for (const PlacedLabel& label : places.labels()) {
      named += label.kind == PlacedLabel::Kind::Name;
      counted += label.text == QStringLiteral("×6");
    }
    QCOMPARE(named, open);
    QCOMPARE(counted, 1);
  }

  /// As on a map, where nobody could read the names of streets.
  void whereBoxesHaveNoWordsTheirModulesHaveNames() {
    const SceneRef scene = sceneOf(test::encoder(340), {.depth = -1, .foldRepeats = false});
    const test::NamedBoxes at = test::namedBoxes(*scene, test::scaleOfFit(*scene));
    QVERIFY2(at.words < 0.1, qPrintable(QString::number(at.words)));
    QVERIFY2(at.named > 0.95, qPrintable(QString::number(at.named)));
  }

  /// Large enough to be read, and small enough to leave the module to its boxes.
  void aModulesNameTakesLittleOfItsModule() {
    constexpr double least = 9, most = 18, share = 0.2;
    for (const int layers : {12, 340}) {
      const SceneRef scene = sceneOf(test::encoder(layers), {.depth = -1, .foldRepeats = false});
      const double scale = test::scaleOfFit(*scene);
      int inside = 0;
      const LabelPlaces places(*scene, scale);
      for (const PlacedLabel& label : places.labels()) {
        if (label.kind != PlacedLabel::Kind::Name) continue;
        QVERIFY2(label.at.height() >= least && label.at.height() <= most, qPrintable(label.text));
        const QRectF box = scene->rect(label.box);
        const QRectF module(box.topLeft() * scale, box.size() * scale);
        const QRectF covered = module.intersected(label.at);
        if (module.height() < 3 * most) continue;  // a strip of one line has no room beside its name
        ++inside;
        QVERIFY2(covered.width() * covered.height() <= share * module.width() * module.height(),
                 qPrintable(label.text));
      }
      QVERIFY2(inside > 0, qPrintable(QString::number(layers)));
    }
  }

  void aNameIsNotCutBeforeItsNumber() {
    const SceneRef scene = sceneOf(test::encoder(40), {.depth = -1, .foldRepeats = false});
    for (const double scale : {0.02, 0.03, 0.05, 0.08, 0.12}) {
      const LabelPlaces places(*scene, scale);
      for (const PlacedLabel& label : places.labels()) {
        const QString title = QString::fromStdString(scene->view.boxes[static_cast<size_t>(label.box)].title);
        if (title.startsWith(QStringLiteral("layer.")) && label.kind == PlacedLabel::Kind::Name)
          QVERIFY2(label.text == title || title == QStringLiteral("layer.") + label.text, qPrintable(label.text));
        QVERIFY(label.at.left() >= 0 && label.at.right() <= scene->bounds().width() * scale);
      }
    }
  }

  void aCountStandsInItsBoxWhereWordsHaveRoomBesideIt() {
    const SceneRef scene = sceneOf(test::manyEnds(60), {});
    int box = -1;
    for (size_t i = 0; i < scene->view.boxes.size(); ++i)
      if (scene->view.boxes[i].repeat > 1) box = static_cast<int>(i);
    QVERIFY(box >= 0);
    const double width = scene->rect(box).width();
    const auto endAt = [&](double scale) { return LabelPlaces(*scene, scale).wordsEnd(box, width * scale); };
    QVERIFY(endAt(0.7) < width * 0.7 - 10);            // in it, the words end before it
    QCOMPARE(endAt(0.25), width * 0.25);               // beside it
    QVERIFY(LabelPlaces(*scene, 1).labels().empty());  // then it has its usual text
  }

  /// They keep their size while the drawing shrinks.
  void edgeLabelsOfABoxDoNotRunIntoEachOther() {
    for (const Flow flow : {Flow::Down, Flow::Right}) {
      Graph g;
      const auto typeOf = [](DType dtype, int64_t size) { return Type::tensor(dtype, {Dim(8), Dim(20), Dim(size)}); };
      const NodeId both = g.append(g.root(), *parseSchema("aten::both(Tensor self) -> (Tensor, Tensor, Tensor)"),
                                   {Argument(g.addInput("x", typeOf(DType::Float32, 384)))});
      std::vector<Argument> returns;
      for (size_t i = 0; i < 3; ++i) {
        const ValueId out = g.node(both).outputs[i];
        g.setType(out, typeOf(i == 1 ? DType::Int64 : DType::Float32, 1536 + static_cast<int64_t>(i)));
        returns.emplace_back(
            g.output(g.append(g.root(), *parseSchema("aten::relu(Tensor self) -> Tensor"), {Argument(out)})));
      }
      g.setReturns(g.root(), std::move(returns));
      const SceneRef scene = sceneOf(std::move(g), {.flow = flow});
      const auto& all = scene->layout.labels;
      int several = 0;
      for (const double scale : {0.76, 0.8, 0.9, 1.0, 1.2}) {
        const LabelPlaces places(*scene, scale);
        const auto rect = [&](size_t i) { return places.edgeLabelPlace(*scene, i); };
        for (size_t i = 0; i < all.size(); ++i) {
          const auto sourceOf = [&](size_t label) {
            return scene->view.edges[static_cast<size_t>(all[label].edge)].from;
          };
          for (size_t k = 0; k < i; ++k) {
            if (sourceOf(i) != sourceOf(k)) continue;
            ++several;
            QVERIFY2(!rect(i).intersects(rect(k)), qPrintable(QString::number(scale)));
          }
        }
      }
      QVERIFY(several > 0);
    }
  }

  void edgeLabelsOfDifferentBoxesDoNotMeet() {
    const SceneRef scene = sceneOf(test::encoder(2), {.depth = -1});
    const auto& all = scene->layout.labels;
    QVERIFY(all.size() > 20);
    for (const double scale : {0.76, 0.85, 1.0, 1.5}) {
      const LabelPlaces places(*scene, scale);
      std::vector<QRectF> shown;
      for (size_t i = 0; i < all.size(); ++i)
        if (places.showsEdgeLabel(i)) shown.push_back(places.edgeLabelPlace(*scene, i));
      for (size_t i = 0; i < shown.size(); ++i)
        for (size_t k = 0; k < i; ++k) QVERIFY2(!shown[i].intersects(shown[k]), qPrintable(QString::number(scale)));
      QVERIFY2(shown.size() >= all.size() * 0.9,
               qPrintable(QStringLiteral("%1 of %2").arg(shown.size()).arg(all.size())));
    }
  }

  void widthsOfUtf8AreThoseOfTheirLetters() {
    const SmallText& words = SmallText::ofSize(9, QFont::Normal);
    for (const QString& text : {QStringLiteral("1×128×384 f32"), QStringLiteral("µs ±é ÿ"), QStringLiteral("→ 𝒳…"),
                                QStringLiteral("ab"), QString()}) {
      const std::string utf8 = text.toStdString();
      QCOMPARE(words.width(std::string_view(utf8)), words.width(QStringView(text)));
      for (const double room : {0.0, 8.0, 20.0, 200.0}) {
        const QString fitted = words.fitted(text, room);
        QCOMPARE(beginningOf(utf8, room, words).size > 0, !fitted.isEmpty());
        QVERIFY(fitted == text || fitted.isEmpty() || fitted.endsWith(QChar(0x2026)));
        QVERIFY(words.width(QStringView(fitted)) <= room);
      }
    }
  }

  /// Narrow letters, two lines and a short name come before a beginning that one has to guess at.
  void aTitleIsCutOnlyWhereNothingElseHasRoom() {
    using Form = SmallTitle::Form;
    constexpr int size = 9;
    const auto usual = [](const char* text) {
      return SmallText::ofSize(9, QFont::Medium).width(std::string_view(text));
    };
    const auto set = [&](const char* title, double room, int lines = 1) {
      return smallTitle(title, size, room, lines);
    };
    QCOMPARE(set("layer_norm", usual("layer_norm")).letters, &SmallText::ofSize(size, QFont::Medium));
    const SmallTitle narrow = set("layer_norm", 0.9 * usual("layer_norm"));
    QVERIFY(narrow.form == Form::Whole);
    QCOMPARE(narrow.first, QStringLiteral("layer_norm"));
    QVERIFY(narrow.letters->width(QStringView(narrow.first)) <= 0.9 * usual("layer_norm"));
    QCOMPARE(narrow.letters->font().pixelSize(), size);  // as high as others
    const SmallTitle lines = set("layer_norm", usual("layer_"), 2);
    QVERIFY(lines.form == Form::TwoLines);
    QCOMPARE(lines.first + QLatin1Char('|') + lines.second, QStringLiteral("layer_|norm"));
    QVERIFY(set("squeeze", usual("squee"), 2).form == Form::Cut);  // one word
    const SmallTitle brief = set("layer_norm", usual("layer_"));
    QVERIFY(brief.form == Form::Short);
    QCOMPARE(brief.first, QStringLiteral("LN"));
    QCOMPARE(set("add", usual("ad")).first, QStringLiteral("+"));
    QCOMPARE(set("mul_", usual("ad")).first, QStringLiteral("×"));
    QCOMPARE(set("softmax", usual("soft…")).first, QStringLiteral("smax"));
    const SmallTitle cut = set("squeeze", usual("sque…"));
    QVERIFY(cut.form == Form::Cut);
    QVERIFY2(cut.first.startsWith(QStringLiteral("sque")) && cut.first.endsWith(QChar(0x2026)), qPrintable(cut.first));
    QVERIFY(set("squeeze", usual("squ")).form == Form::None);
    QVERIFY(set("", 100).form == Form::None);
  }

  /// "exp" of "expand" would be another operator.
  void whatIsCutSaysSo() {
    bool isCut = false;
    for (const char* title : {"expand", "logical_and", "squeeze", "view_as", "max_pool2d"})
      for (double room = 5; room < 60; room += 0.25) {
        const SmallTitle t = smallTitle(title, 9, room, 2);
        if (t.form != SmallTitle::Form::Cut) continue;
        isCut = true;
        QVERIFY2(t.first.endsWith(QChar(0x2026)) && t.first.size() > 3, qPrintable(t.first));
      }
    QVERIFY(isCut);
  }

  /// Whatever room its boxes have.
  void anOperatorHasOneSpellingAtEachZoom() {
    for (const bool folds : {true, false}) {
      const SceneRef scene = sceneOf(test::encoder(4), {.depth = -1, .foldRepeats = folds});
      bool isShort = false, isWhole = false;
      for (double scale = 0.1; scale < 1.3; scale *= 1.08) {
        const LabelPlaces places(*scene, scale);
        std::map<std::string, QString> spelledAs;
        for (size_t i = 0; i < scene->view.boxes.size(); ++i) {
          const Box& box = scene->view.boxes[i];
          if (box.open) continue;
          const auto index = static_cast<int>(i);
          const bool isUsual = Metrics::detailSize * scale >= SmallText::smallest;
          const SmallTitle title =
              isUsual ? places.usualTitle(*scene, index) : places.titleOf(*scene, index, !box.detail.empty()).text;
          if (title.form == SmallTitle::Form::None || title.form == SmallTitle::Form::Cut) continue;
          const QString words = title.first + title.second;
          const auto [known, isNew] = spelledAs.try_emplace(box.title, words);
          QVERIFY2(known->second == words, qPrintable(known->second + QStringLiteral(" and ") + words));
          (title.form == SmallTitle::Form::Short ? isShort : isWhole) = true;
        }
      }
      QVERIFY(isShort && isWhole);
    }
  }

  void aBoxHasWordsWhereItsTitleIsSet() {
    for (const char* title : {"layer_norm", "expand", "softmax", "squeeze", "add", "token_type_ids", "µs"})
      for (double room = 0; room < 90; room += 0.5)
        QCOMPARE(hasSmallTitle(title, 9, room), smallTitle(title, 9, room, 1).form != SmallTitle::Form::None);
  }

  void wordsStandOutOfALowBoxOnlyWhereNoOtherIs() {
    const SceneRef scene = sceneOf(test::encoder(6), {.depth = -1, .foldRepeats = false});
    const auto shown = [&](size_t box, double scale) {
      const QRectF r = scene->rect(static_cast<int>(box));
      return QRectF(r.topLeft() * scale, r.size() * scale);
    };
    int wider = 0;
    for (double scale = 0.1; scale < 0.5; scale *= 1.1) {
      const LabelPlaces places(*scene, scale);
      for (size_t i = 0; i < scene->view.boxes.size(); ++i) {
        if (scene->view.boxes[i].open) continue;
        const BoxTitle title = places.titleOf(*scene, static_cast<int>(i), !scene->view.boxes[i].detail.empty());
        if (title.text.form == SmallTitle::Form::None) continue;
        QVERIFY(title.text.letters->width(QStringView(title.text.first)) <= title.right - title.left + 0.01);
        const QRectF r = shown(i, scale);
        if (title.left >= 0) continue;
        ++wider;
        QVERIFY(title.text.form != SmallTitle::Form::Cut);
        const QRectF words(r.left() + title.left, r.top(), title.right - title.left, r.height());
        for (size_t k = 0; k < scene->view.boxes.size(); ++k)
          QVERIFY(k == i || scene->view.boxes[k].open || !shown(k, scale).intersects(words));
      }
    }
    QVERIFY(wider > 0);
  }

  /// A bar of a few pixels is named where the lines above and below it, and labels, leave room.
  void aLowBoxHasWordsWhereNoOtherLineIsNear() {
    constexpr double line = 9, high = 12;
    const SceneRef scene = sceneOf(test::encoder(6), {.depth = -1});
    const auto shown = [&](size_t box, double scale) {
      const QRectF r = scene->rect(static_cast<int>(box));
      return QRectF(r.topLeft() * scale, r.size() * scale);
    };
    int low = 0, bare = 0;
    for (double scale = 0.08; scale < 0.2; scale *= 1.1) {
      const LabelPlaces places(*scene, scale);
      for (size_t i = 0; i < scene->view.boxes.size(); ++i) {
        const QRectF r = shown(i, scale);
        if (scene->view.boxes[i].open || r.height() >= SmallMetrics::lowest) continue;
        const bool has = hasWords(*scene, static_cast<int>(i), scale);
        ++(has ? low : bare);
        if (!has) continue;
        for (size_t k = 0; k < scene->view.boxes.size(); ++k) {
          const QRectF o = shown(k, scale);
          if (k == i || scene->view.boxes[k].open || o.right() <= r.left() || o.left() >= r.right()) continue;
          QVERIFY(std::abs(o.center().y() - r.center().y()) >= line - 0.01);
        }
        const QRectF words(r.left(), r.center().y() - high / 2, r.width(), high);
        for (const PlacedLabel& label : places.labels())
          QVERIFY2(label.box == static_cast<int>(i) || !label.at.intersects(words), qPrintable(label.text));
      }
    }
    QVERIFY2(low > 20 && bare > 0, qPrintable(QStringLiteral("%1 %2").arg(low).arg(bare)));
  }

  /// Words in two lines are drawn as two lines, within their box.
  void aTitleInTwoLinesStandsInItsBox() {
    Scene scene = *sceneOf(test::encoder(1), {.depth = -1});
    const auto it = std::find_if(scene.view.boxes.begin(), scene.view.boxes.end(),
                                 [](const Box& b) { return b.title == "linear" && !b.detail.empty(); });
    QVERIFY(it != scene.view.boxes.end());
    const auto box = static_cast<int>(it - scene.view.boxes.begin());
    it->name = it->title = "HHHHHHHHHHHHHHHH_HHHHHHHHHHHHHHHH";
    it->detail.clear();
    it->chips.clear();
    const QRectF whole = scene.rect(box);
    const double half = SmallText::ofSize(SmallText::pixelsAt(Metrics::titleSize, 0.75), QFont::Medium)
                            .width(QStringLiteral("HHHHHHHHHHHHHHHH_"));
    QVERIFY2(half < whole.width() * 0.75 - 8 && 2 * half > whole.width() * 0.75, qPrintable(QString::number(half)));
    const Lines lines = linesOf(scene, box);
    QVERIFY(lines.firstBegin > 0 && lines.secondBegin > 0);
    QVERIFY(lines.secondEnd < (whole.right() - 2) * 0.75);
  }

  /// Of facts beside a title, as of a kernel, those without room are left out whole: "2.8 ms", not "2.8 ms · 2 n…".
  void factsBesideATitleAreLeftOutWhole() {
    const std::vector<std::pair<int, double>> views{{0, 1.0}, {0, 0.75}, {-1, 1.0}};  // closed, small, open
    for (const auto& [depth, scale] : views) {
      Scene scene = *sceneOf(test::encoder(1), {.depth = depth});
      const auto it = std::find_if(scene.view.boxes.begin(), scene.view.boxes.end(),
                                   [](const Box& b) { return b.kind == BoxKind::Module; });
      QVERIFY(it != scene.view.boxes.end());
      scene.options.words[it->key] = {};
      it->title = "a";
      it->name = "2.8 ms";
      const QImage wanted = imageOf(scene, scale);
      it->name = "2.8 ms · " + std::string(200, 'n');
      QCOMPARE(imageOf(scene, scale), wanted);
      it->name = "9.8 ms";
      QVERIFY(imageOf(scene, scale) != wanted);
    }
  }

  void oneOfTwoLabelsThatMeetIsHidden() {
    const SceneRef drawn = sceneOf(test::encoder(1), {.depth = -1});
    Scene scene = *drawn;
    QVERIFY(scene.layout.labels.size() > 2);
    scene.layout.labels.resize(2);
    scene.layout.labels[1].at = {scene.layout.labels[0].at.x + 4, scene.layout.labels[0].at.y + 3};
    QVERIFY(scene.view.edges[static_cast<size_t>(scene.layout.labels[0].edge)].from !=
            scene.view.edges[static_cast<size_t>(scene.layout.labels[1].edge)].from);
    const LabelPlaces places(scene, 1);
    QVERIFY(places.showsEdgeLabel(0));
    QVERIFY(!places.showsEdgeLabel(1));
  }

  /// A count that stands below or above its box leaves the words of the box alone, which may be higher than it.
  void aCountCoversNoWordsOfItsBox() {
    constexpr double high = 12;
    int beside = 0;
    for (const Flow flow : {Flow::Down, Flow::Right}) {
      const SceneRef scene = sceneOf(test::encoder(6), {.depth = 1, .flow = flow});
      for (double scale = 0.08; scale < 0.5; scale *= 1.06) {
        const LabelPlaces places(*scene, scale);
        for (const PlacedLabel& label : places.labels()) {
          const Box& box = scene->view.boxes[static_cast<size_t>(label.box)];
          if (label.kind != PlacedLabel::Kind::Count || box.open) continue;
          const BoxTitle title = places.titleOf(*scene, label.box, !box.detail.empty());
          if (title.text.form == SmallTitle::Form::None) continue;
          const QRectF whole = scene->rect(label.box), r(whole.topLeft() * scale, whole.size() * scale);
          if (r.height() > high) continue;
          ++beside;
          const double used = title.text.letters->width(QStringView(title.text.first));
          const double left = r.left() + (title.left + title.right - used) / 2;
          const QRectF words(left, r.center().y() - high / 2, used, high);
          QVERIFY2(!words.intersects(label.at.adjusted(1.5, 1.5, -1.5, -1.5)), qPrintable(QString::number(scale)));
        }
      }
    }
    QVERIFY(beside > 0);
  }

  void paddingTakesLittleOfANarrowBox() {
    QCOMPARE(SmallMetrics::padding(300), 4.0);
    QCOMPARE(SmallMetrics::padding(10), 0.5);
    QCOMPARE(SmallMetrics::padding(34), 2.0);
  }

  void bothLinesOfASmallBoxBeginAtOnePlace() {
    Scene scene = *sceneOf(test::encoder(1), {.depth = -1});
    const auto it = std::find_if(scene.view.boxes.begin(), scene.view.boxes.end(),
                                 [](const Box& b) { return b.title == "linear" && !b.detail.empty(); });
    QVERIFY(it != scene.view.boxes.end());
    const auto box = static_cast<int>(it - scene.view.boxes.begin());
    it->title = it->name = "Lin";
    for (const char* detail : {"HxH", "HxHxHxHxHx", "HxHxHxHxHxHxHxHxHxHxHxHxHxHxHxHx"}) {
      it->detail = detail;
      const Lines lines = linesOf(scene, box);
      QVERIFY(lines.firstBegin >= 0 && lines.secondBegin >= 0);
      QVERIFY2(std::abs(lines.firstBegin - lines.secondBegin) <= 1, detail);
    }
  }

  /// "any_of any_of…" says no more than "any_of".
  void aNameThatIsCutToItsTitleIsLeftOut() {
    Scene scene = *sceneOf(test::encoder(1), {.depth = -1});
    const auto it = std::find_if(scene.view.boxes.begin(), scene.view.boxes.end(),
                                 [](const Box& b) { return b.title == "linear" && !b.detail.empty(); });
    QVERIFY(it != scene.view.boxes.end());
    const auto box = static_cast<int>(it - scene.view.boxes.begin());
    it->detail = "HxH";
    it->chips.clear();
    const auto beginOf = [&](const char* title, const char* name) {
      it->title = title;
      it->name = name;
      return linesOf(scene, box).firstBegin;
    };
    const char* title = "anything_more";
    const int alone = beginOf(title, title);
    QVERIFY(beginOf(title, "something_else_of_very_many") < alone);  // a name that says more takes the room
    QCOMPARE(beginOf(title, "anything_more_of_this_kind"), alone);
  }

  void aSmallBoxNamesTheWeightsThatHaveRoom() {
    Scene scene = *sceneOf(test::encoder(1), {.depth = -1});
    const auto it = std::find_if(scene.view.boxes.begin(), scene.view.boxes.end(),
                                 [](const Box& b) { return b.title == "linear" && !b.detail.empty(); });
    QVERIFY(it != scene.view.boxes.end());
    const auto box = static_cast<int>(it - scene.view.boxes.begin());
    it->detail = "64";
    it->chips.clear();
    const int without = linesOf(scene, box).secondEnd;
    it->chips = {"bias", "a weight whose name is much too long for what the box has room for"};
    const int with = linesOf(scene, box).secondEnd;
    QVERIFY(with > without + 15);
    it->chips.pop_back();
    QCOMPARE(linesOf(scene, box).secondEnd, with);
  }

  void veryManyBoxesWithoutWordsHaveLandmarks() {
    const SceneRef scene = sceneOf(test::randomGraph(10000), {});
    const double scale = std::min(1100 / scene->layout.width, 760 / scene->layout.height);
    const LabelPlaces places(*scene, scale);
    QVERIFY2(places.labels().size() >= 20, qPrintable(QString::number(places.labels().size())));
    for (const PlacedLabel& label : places.labels()) {
      QVERIFY(label.kind == PlacedLabel::Kind::Landmark && !label.text.isEmpty());
      for (const PlacedLabel& other : places.labels()) QVERIFY(&label == &other || !label.at.intersects(other.at));
    }
  }
};

}  // namespace

QTEST_MAIN(WordsTest)
#include "words_test.moc"
