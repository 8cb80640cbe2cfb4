// The window without a mouse, without a screen, with other eyes: every action by keyboard, a name for every widget that
// takes the keyboard, letters that can be read, colours that stay apart.
#include <QAbstractButton>
#include <QAbstractItemView>
#include <QAbstractSpinBox>
#include <QAccessible>
#include <QComboBox>
#include <QDialog>
#include <QFileDialog>
#include <QFontInfo>
#include <QHash>
#include <QHeaderView>
#include <QImage>
#include <QLabel>
#include <QMenuBar>
#include <QPushButton>
#include <QTabBar>
#include <QTextEdit>
#include <QTimer>
#include <QToolBar>
#include <QToolButton>
#include <QTreeWidget>
#include <array>
#include <cmath>

#include "tests/views/support/sample_graphs.h"
#include "tests/views/support/window_fixture.h"
#include "views/canvas/canvas_paint.h"
#include "views/canvas/small_text.h"
#include "views/layout/palette.h"
#include "views/panels/explorer.h"
#include "views/panels/rules/matches_panel.h"
#include "views/panels/rules/rule_list.h"
#include "views/panels/rules/rules_panel.h"
#include "views/panels/run/plot.h"
#include "views/widgets/qscintilla.h"
#include "views/window/command_palette.h"

using namespace graft;
using test::rulesText;

namespace {

enum class Eyes { Usual, Protanope, Deuteranope };

/// A colour as these eyes see it, in CIE L*a*b*. The matrices are of Machado, Oliveira and Fernandes (2009) for the
/// whole deficiency, in linear RGB.
std::array<double, 3> seen(Color c, Eyes eyes) {
  static constexpr double usual[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  static constexpr double protanope[3][3] = {
      {0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}};
  static constexpr double deuteranope[3][3] = {
      {0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}};
  const auto& m = eyes == Eyes::Protanope ? protanope : eyes == Eyes::Deuteranope ? deuteranope : usual;
  const auto linear = [](uint8_t v) {
    const double x = v / 255.0;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  const double in[3] = {linear(c.r), linear(c.g), linear(c.b)};
  double rgb[3];
  for (int i = 0; i < 3; ++i) rgb[i] = std::clamp(m[i][0] * in[0] + m[i][1] * in[1] + m[i][2] * in[2], 0.0, 1.0);
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f((0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.95047),
               y = f(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]),
               z = f((0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

/// How far apart they are for the eyes that tell them apart worst.
double apart(Color a, Color b) {
  double least = 1e9;
  for (const Eyes eyes : {Eyes::Usual, Eyes::Protanope, Eyes::Deuteranope}) {
    const auto x = seen(a, eyes), y = seen(b, eyes);
    least = std::min(least, std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]));
  }
  return least;
}

double leastApart(const QList<Color>& colors) {
  double least = 1e9;
  for (qsizetype i = 0; i < colors.size(); ++i)
    for (qsizetype k = i + 1; k < colors.size(); ++k) least = std::min(least, apart(colors[i], colors[k]));
  return least;
}

/// The contrast of letters with what they stand on, as they are drawn: of the colour that covers most with the one that
/// is farthest from it. Edges of letters are paler, so a pixel or two must be all ink.
double measuredContrast(const QImage& drawn) {
  const QImage image = drawn.convertToFormat(QImage::Format_RGB32);
  QHash<QRgb, int> count;
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x) ++count[image.pixel(x, y)];
  const auto colour = [](QRgb c) {
    return Color{static_cast<uint8_t>(qRed(c)), static_cast<uint8_t>(qGreen(c)), static_cast<uint8_t>(qBlue(c))};
  };
  QRgb most = 0;
  for (auto it = count.cbegin(); it != count.cend(); ++it)
    if (it.value() > count.value(most)) most = it.key();
  double best = 1;
  for (auto it = count.cbegin(); it != count.cend(); ++it)
    best = std::max(best, contrast(colour(it.key()), colour(most)));
  return best;
}

QString mnemonicOf(QString text) {
  text.remove(QStringLiteral("&&"));
  const qsizetype at = text.indexOf(QLatin1Char('&'));
  return at < 0 || at + 1 >= text.size() ? QString() : text.mid(at + 1, 1).toLower();
}

/// Letters that two of these texts have, with the texts.
QStringList shared(const QStringList& texts) {
  QHash<QString, QString> taken;
  QStringList out;
  for (const QString& text : texts) {
    const QString key = mnemonicOf(text);
    if (key.isEmpty()) continue;
    if (taken.contains(key)) out << QStringLiteral("%1: %2 and %3").arg(key, taken.value(key), text);
    taken.insert(key, text);
  }
  return out;
}

class AccessibilityTest : public test::WindowFixture {
  Q_OBJECT

  void openAll() {
    open();
    type(QString::fromLatin1(rulesText));
  }

  static bool takesTheKeyboard(const QWidget* w) {
    if (!w->isVisible() || !w->isEnabled() || !(w->focusPolicy() & Qt::TabFocus)) return false;
    if (qobject_cast<const QAbstractSpinBox*>(w->parentWidget())) return false;  // a part of that
    return qobject_cast<const QAbstractButton*>(w) || qobject_cast<const QLineEdit*>(w) ||
           qobject_cast<const QComboBox*>(w) || qobject_cast<const QAbstractItemView*>(w) ||
           qobject_cast<const QAbstractSpinBox*>(w) || qobject_cast<const QTabBar*>(w) ||
           qobject_cast<const QTextEdit*>(w) || qobject_cast<const Canvas*>(w) || qobject_cast<const Plot*>(w);
  }

  QList<QWidget*> keyboardWidgets() const {
    QList<QWidget*> out;
    for (QWidget* w : window_->findChildren<QWidget*>())
      if (takesTheKeyboard(w)) out << w;
    return out;
  }

  static QString described(const QWidget* w) {
    QStringList path;
    for (; w && !w->isWindow(); w = w->parentWidget())
      path.prepend(QString::fromLatin1(w->metaObject()->className()) +
                   (w->objectName().isEmpty() ? QString() : QLatin1Char('#') + w->objectName()));
    return path.join(QLatin1Char('/'));
  }

  static void menusOf(QMenu* menu, QList<QMenu*>& out) {
    out << menu;
    for (QAction* a : menu->actions())
      if (a->menu()) menusOf(a->menu(), out);
  }

 private Q_SLOTS:
  void initTestCase() { prepare(); }
  void init() { forget(); }
  void cleanup() { window_.reset(); }

  void everyActionIsInAMenuAndInThePalette() {
    openAll();
    QList<QAction*> inMenus;
    leaves(window_->menuBar()->actions(), inMenus);
    // A tool bar repeats; it offers nothing by itself.
    for (QAction* a : window_->findChild<QToolBar*>(QStringLiteral("mainBar"))->actions())
      if (!a->isSeparator() && !a->text().isEmpty()) QVERIFY2(inMenus.contains(a), qPrintable(a->text()));
    window_->openPalette();
    for (QAction* a : inMenus) {
      QVERIFY2(!a->text().isEmpty(), qPrintable(a->objectName()));
      QVERIFY2(window_->actions().contains(a) || a->data().isValid(), qPrintable(a->text()));
    }
    window_->palette()->hide();
    // No two actions want the same keys: neither would then run.
    QHash<QString, QString> taken;
    for (QAction* a : window_->actions())
      for (const QKeySequence& keys : a->shortcuts()) {
        QVERIFY2(!taken.contains(keys.toString()), qPrintable(keys.toString() + taken.value(keys.toString())));
        taken.insert(keys.toString(), a->text());
      }
  }

  void noTwoEntriesOfAMenuHaveOneLetter() {
    openAll();
    QStringList bar;
    QList<QMenu*> menus;
    for (QAction* a : window_->menuBar()->actions()) {
      bar << a->text();
      menusOf(a->menu(), menus);
    }
    QVERIFY2(shared(bar).isEmpty(), qPrintable(shared(bar).join(QLatin1Char('\n'))));
    for (QMenu* menu : menus) {
      QStringList texts;
      for (QAction* a : menu->actions()) texts << a->text();
      QVERIFY2(shared(texts).isEmpty(), qPrintable(shared(texts).join(QLatin1Char('\n'))));
    }
    // What stands in panels shares the window with the menu bar.
    QStringList window = bar;
    for (const QWidget* w : window_->findChildren<QWidget*>()) {
      if (w->window() != window_.get()) continue;
      if (const auto* button = qobject_cast<const QAbstractButton*>(w); button && !qobject_cast<const QToolButton*>(w))
        window << button->text();
      if (const auto* label = qobject_cast<const QLabel*>(w); label && label->buddy()) window << label->text();
    }
    QVERIFY2(shared(window).isEmpty(), qPrintable(shared(window).join(QLatin1Char('\n'))));
    // A dialog.
    window_->canvas()->setDepth(-1);
    document().setSelection({QStringLiteral("matmul"), QStringLiteral("div")});
    window_->action(QStringLiteral("fromSelection"))->trigger();
    auto* dialog = window_->findChild<QDialog*>(QStringLiteral("ruleFromSelection"));
    QVERIFY(dialog);
    QStringList texts;
    for (const QAbstractButton* b : dialog->findChildren<QAbstractButton*>()) texts << b->text();
    QVERIFY2(shared(texts).isEmpty(), qPrintable(shared(texts).join(QLatin1Char('\n'))));
    for (QWidget* w : dialog->findChildren<QWidget*>())
      if (takesTheKeyboard(w))
        QVERIFY2(!QAccessible::queryAccessibleInterface(w)->text(QAccessible::Name).isEmpty(),
                 qPrintable(described(w)));
    dialog->close();
  }

  void everyWidgetThatTakesTheKeyboardHasAName() {
    openAll();
    for (const Arrangement arrangement : allArrangements) {
      window_->arrange(arrangement);
      if (arrangement == Arrangement::Rewrite) window_->action(QStringLiteral("library"))->trigger();
      document().setSelection({QStringLiteral("linear")});
      QTest::qWait(100);
      const QList<QWidget*> widgets = keyboardWidgets();
      QVERIFY(widgets.size() >= 3);
      QStringList nameless;
      for (QWidget* w : widgets) {
        QAccessibleInterface* told = QAccessible::queryAccessibleInterface(w);
        QVERIFY(told);
        if (auto* tabs = qobject_cast<QTabBar*>(w)) {  // it is its tabs that are read
          for (int i = 0; i < tabs->count(); ++i)
            if (tabs->tabText(i).isEmpty()) nameless << described(w);
          continue;
        }
        if (told->text(QAccessible::Name).trimmed().isEmpty()) nameless << described(w);
      }
      QVERIFY2(nameless.isEmpty(), qPrintable(nameless.join(QLatin1Char('\n'))));
    }
  }

  void theDrawingSaysWhatIsSelected() {
    openAll();
    window_->canvas()->setDepth(-1);
    const auto told = [&] {
      return QAccessible::queryAccessibleInterface(window_->canvas())->text(QAccessible::Description);
    };
    for (const char* node : {"softmax", "linear"}) {
      document().setSelection({QString::fromLatin1(node)});
      QVERIFY2(told().contains(QLatin1String(node)), qPrintable(told()));
    }
  }

  void theBoxesAndEdgesOfTheDrawingAreRead() {
    openAll();
    Canvas* canvas = window_->canvas();
    canvas->setDepth(0);
    QAccessibleInterface* drawing = QAccessible::queryAccessibleInterface(canvas);
    QCOMPARE(drawing->role(), QAccessible::Canvas);
    const auto find = [](QAccessibleInterface* in, const QString& start) -> QAccessibleInterface* {
      for (int i = 0; i < in->childCount(); ++i)
        if (in->child(i)->text(QAccessible::Name).startsWith(start)) return in->child(i);
      return nullptr;
    };
    const auto act = [](QAccessibleInterface* part, const char* name) {
      part->actionInterface()->doAction(QString::fromLatin1(name));
    };
    QAccessibleInterface* input = find(drawing, QStringLiteral("input x, 1×16×64"));
    QVERIFY(input && input->isValid() && input->parent() == drawing);
    QStringList names;
    for (int i = 0; i < drawing->childCount(); ++i) names << drawing->child(i)->text(QAccessible::Name);
    QVERIFY2(find(drawing, QStringLiteral("edge from x to encoder, 1×16×64")),
             qPrintable(names.join(QLatin1Char('|'))));
    QAccessibleInterface* encoder = find(drawing, QStringLiteral("encoder"));
    QVERIFY(encoder && encoder->text(QAccessible::Name).contains(QStringLiteral("module encoder")));
    QVERIFY(encoder->state().expandable && encoder->state().collapsed && encoder->childCount() == 0);
    QCOMPARE(drawing->child(drawing->indexOfChild(encoder)), encoder);
    QCOMPARE(drawing->childAt(encoder->rect().center().x(), encoder->rect().center().y()), encoder);
    // It opens, and holds what it holds.
    QVERIFY(encoder->actionInterface()->actionNames().contains(QStringLiteral("Open")));
    act(encoder, "Open");
    QVERIFY(encoder->isValid() && encoder->state().expanded && encoder->childCount() > 0);
    QCOMPARE(encoder->child(0)->parent(), encoder);
    QCOMPARE(encoder->indexOfChild(encoder->child(0)), 0);
    canvas->setDepth(-1);
    QAccessibleInterface* at = encoder;
    while (at && !find(at, QStringLiteral("softmax, "))) {
      QAccessibleInterface* inner = nullptr;
      for (int i = 0; i < at->childCount() && !inner; ++i)
        if (at->child(i)->childCount() > 0) inner = at->child(i);
      at = inner;
    }
    QVERIFY(at);
    QAccessibleInterface* softmax = find(at, QStringLiteral("softmax, "));
    const QString name = softmax->text(QAccessible::Name);
    QVERIFY2(name.contains(QStringLiteral("module encoder.layer.0.attention, output 1×4×16×16")), qPrintable(name));
    QVERIFY(softmax->text(QAccessible::Description).contains(QStringLiteral("aten.softmax.int")));
    QVERIFY(!softmax->state().expandable && softmax->state().selectable);
    // A reader selects it as a click does, and is told of what a click selects.
    act(softmax, "Select");
    QCOMPARE(document().selection(), QStringList{QStringLiteral("softmax")});
    QVERIFY(softmax->state().selected);
    window_->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    canvas->setFocus();
    QCOMPARE(drawing->focusChild(), softmax);
    document().setSelection({QStringLiteral("gelu")});
    QVERIFY(drawing->focusChild()->text(QAccessible::Name).startsWith(QStringLiteral("gelu, ")));
    // What is no longer drawn is gone.
    canvas->setDepth(0);
    QVERIFY(!softmax->isValid() || softmax->state().invalid);
    QVERIFY(find(drawing, QStringLiteral("encoder"))->state().collapsed);
  }

  void theKeyboardComesEverywhereAndIsSeenThere() {
    openAll();
    for (const Arrangement arrangement : allArrangements) {
      window_->arrange(arrangement);
      document().setSelection({QStringLiteral("linear")});
      window_->activateWindow();
      QVERIFY(QTest::qWaitForWindowActive(window_.get()));
      QTest::qWait(150);
      QStringList unseen;
      for (QWidget* w : keyboardWidgets()) {
        if (qobject_cast<QTabBar*>(w) || !w->isVisible()) continue;  // Fusion underlines the chosen tab's words
        QWidget* elsewhere = w == window_->canvas() ? static_cast<QWidget*>(window_.get()) : window_->canvas();
        elsewhere->setFocus();
        if (elsewhere == window_.get()) w->clearFocus();
        QApplication::processEvents();
        const QImage before = w->grab().toImage();
        w->setFocus(Qt::TabFocusReason);
        QApplication::processEvents();
        QVERIFY2(w->hasFocus() || w->isAncestorOf(QApplication::focusWidget()), qPrintable(described(w)));
        if (w->grab().toImage() == before) unseen << described(w);
      }
      QVERIFY2(unseen.isEmpty(), qPrintable(unseen.join(QLatin1Char('\n'))));
    }
  }

  /// An editor takes Tab as a letter: without F6, the keyboard could not leave it.
  void theKeyboardGoesFromPanelToPanel() {
    openAll();
    window_->arrange(Arrangement::Rewrite);
    window_->activateWindow();
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    QTest::qWait(150);
    QWidget* text = window_->panel<RuleEditor>()->findChild<QsciScintilla*>();
    QVERIFY(text);
    text->setFocus();
    QTest::keyClick(text, Qt::Key_Tab);
    QCOMPARE(QApplication::focusWidget(), text);
    QList<QWidget*> visited;
    const auto press = [](Qt::KeyboardModifiers with) {
      QTest::keyClick(QApplication::focusWidget(), Qt::Key_F6, with);
      return QApplication::focusWidget();
    };
    for (QWidget* w = press(Qt::NoModifier); w != text; w = press(Qt::NoModifier)) {
      QVERIFY2(!visited.contains(w) && visited.size() < 12, qPrintable(described(w)));
      QVERIFY2(w->isVisible() && !w->visibleRegion().isEmpty(), qPrintable(described(w)));
      visited << w;
    }
    const auto comesTo = [&](const QWidget* part) {
      return std::any_of(visited.begin(), visited.end(),
                         [&](const QWidget* w) { return w == part || part->isAncestorOf(w); });
    };
    auto* rules = window_->panel<RuleList>();
    QVERIFY(visited.contains(rules));
    QVERIFY(comesTo(window_->canvas()));
    QVERIFY(comesTo(window_->docks().dock(QStringLiteral("history"))));
    for (auto back = visited.rbegin(); back != visited.rend(); ++back) QCOMPARE(press(Qt::ShiftModifier), *back);
    QCOMPARE(press(Qt::ShiftModifier), text);
    rules->setFocus();
    QTest::keyClick(rules, Qt::Key_Tab);  // the lists, then the buttons below them
    auto* list = qobject_cast<QTreeWidget*>(QApplication::focusWidget());
    QVERIFY(list && list != rules && window_->panel<MatchesPanel>()->isAncestorOf(list));
  }

  void anEmptyWindowIsUsedByKeysAlone() {
    start();
    QVERIFY(QTest::qWaitForWindowActive(window_.get()));
    auto* open = qobject_cast<QPushButton*>(QApplication::focusWidget());
    QVERIFY(open && open->text() == QStringLiteral("Open a model…"));
    const QWidget* const first = open;
    QList<QWidget*> visited;
    for (QWidget* w = open; visited.size() < 8 && !(w == first && !visited.isEmpty());
         w = QApplication::focusWidget()) {
      QVERIFY2(w->isVisible() && !w->visibleRegion().isEmpty(), qPrintable(described(w)));
      visited << w;
      QTest::keyClick(w, Qt::Key_Tab);
    }
    QVERIFY(visited.size() >= 3);
    open->setFocus();
    QTimer poll;
    connect(&poll, &QTimer::timeout, this, [&] {
      auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
      if (!dialog) return;
      poll.stop();
      auto* name = dialog->findChild<QLineEdit*>(QStringLiteral("fileNameEdit"));
      name->setText(model_);  // typed, it would be completed
      QTest::keyClick(name, Qt::Key_Return);
    });
    poll.start(20);
    QTest::keyClick(open, Qt::Key_Return);
    QTRY_VERIFY(document().isOpen());
    QTRY_COMPARE(window_->focusWidget(), static_cast<QWidget*>(window_->canvas()));
  }

  void lettersAreNinePixelsAtLeast() {
    openAll();
    QVERIFY(SmallText::smallest >= 9);
    for (const Arrangement arrangement : allArrangements) {
      window_->arrange(arrangement);
      QTest::qWait(50);
      for (const QWidget* w : window_->findChildren<QWidget*>())
        if (w->isVisible()) QVERIFY2(QFontInfo(w->font()).pixelSize() >= 9, qPrintable(described(w)));
    }
  }

  void everyColourOfLettersIsLegible() {
    for (const Theme theme : {Theme::Light, Theme::Dark}) {
      const Palette p = graft::palette(theme);
      const auto check = [&](const char* what, Color ink, Color behind) {
        QVERIFY2(contrast(ink, behind) >= legible, qPrintable(QStringLiteral("%1, theme %2: %3")
                                                                  .arg(QLatin1String(what))
                                                                  .arg(static_cast<int>(theme))
                                                                  .arg(contrast(ink, behind))));
      };
      const Color chosen = mix(p.background, p.accent, 0.22);  // a row
      for (const Color behind : {p.background, p.surface, p.window}) {
        check("text", p.text, behind);
        check("dim", p.dim, behind);
        check("link", p.accent, behind);
        check("wrong", p.wrong(), behind);
      }
      check("faint", p.faint(), p.background);
      check("text of a chosen row", p.text, chosen);
      check("dim of a chosen row", p.dim, chosen);
      check("main button", p.dark ? Color{15, 18, 22} : Color{255, 255, 255}, p.accent);
      for (int i = 0; i <= 100; ++i) check("heat", inkOn(p.heat(i / 100.0)), p.heat(i / 100.0));
      for (const Change c : {Change::Removed, Change::Added, Change::Changed})
        check("sign of a change", inkOn(p.change(c)), p.change(c));
      for (size_t i = 0; i < 7; ++i) check("number of matches", inkOn(p.pattern(i)), p.pattern(i));
      // What grew legible has not become another colour than it must.
      QVERIFY(contrast(p.faint(), p.background) < legible + 1);
      QVERIFY(contrast(p.wrong(), p.window) < legible + 1.5 ||
              contrast(p.change(Change::Removed), p.window) >= legible);
    }
  }

  void wordsInBoxesAreLegibleUnderEveryColour() {
    const SceneRef scene = makeScene(std::make_shared<Graph>(test::encoder(2)), {.depth = -1});
    const auto& boxes = scene->view.boxes;
    const std::vector<char> none(boxes.size(), 0);
    QStringList names;
    for (const NodeId n : scene->graph->order()) names << QString::fromStdString(scene->graph->node(n).name);
    for (const Theme theme : {Theme::Light, Theme::Dark})
      for (const int kind : {0, 1, 2, 3}) {
        Decorations d;
        for (qsizetype i = 0; i < names.size(); ++i) {
          if (kind == 1) d.heat.insert(names[i], static_cast<double>(i));
          if (kind == 2 && i % 4 > 0) d.changes.insert(names[i], static_cast<Change>(i % 4));
          if (kind == 3) d.pattern.insert(names[i], static_cast<int>(i % 7));
        }
        const Palette p = graft::palette(theme);
        const BoxDecorations resolved = resolve(*scene, d);
        for (const double scale : {1.0, 0.7}) {
          const LabelPlaces places(*scene, scale);
          // As on a fine screen: thin strokes have pixels that are all ink there, wherever a letter begins.
          constexpr int dots = 3;
          QImage image((scene->bounds().size() * scale * dots).toSize(), QImage::Format_RGB32);
          image.setDevicePixelRatio(dots);
          image.fill(toQt(p.background));
          QPainter painter(&image);
          painter.scale(scale, scale);
          paintScene(painter, *scene, {p, d, resolved, none, none, places, scale}, scene->bounds());
          painter.end();
          for (size_t i = 0; i < boxes.size(); ++i) {
            if (boxes[i].open) continue;
            const QRectF r = scene->rect(static_cast<int>(i));
            const QRectF first(r.left() + 9, r.top() + 6, r.width() - 24, r.height() / 2 - 4);
            const double is = measuredContrast(
                image.copy(QRectF(first.topLeft() * scale * dots, first.size() * scale * dots).toRect()));
            QVERIFY2(is >= legible, qPrintable(QStringLiteral("%1: %2 (theme %3, colours %4, at %5)")
                                                   .arg(QString::fromStdString(boxes[i].title))
                                                   .arg(is)
                                                   .arg(static_cast<int>(theme))
                                                   .arg(kind)
                                                   .arg(scale)));
          }
        }
      }
  }

  void whatWidgetsSayIsLegible() {
    for (const Theme theme : {Theme::Light, Theme::Dark}) {
      openAll();
      window_->setTheme(theme);
      for (const Arrangement arrangement : allArrangements) {
        window_->arrange(arrangement);
        document().setSelection({QStringLiteral("linear")});
        QTest::qWait(150);
        QStringList pale;
        for (QWidget* w : window_->findChildren<QWidget*>()) {
          if (!w->isVisible() || !w->isEnabled() || w->width() < 4 || w->height() < 4) continue;
          const auto* label = qobject_cast<QLabel*>(w);
          const auto* button = qobject_cast<QAbstractButton*>(w);
          const auto* field = qobject_cast<QLineEdit*>(w);
          const bool hasText = (label && !label->text().trimmed().isEmpty()) || (button && !button->text().isEmpty()) ||
                               field || qobject_cast<QTabBar*>(w) || qobject_cast<QHeaderView*>(w);
          if (!hasText) continue;
          const double is = measuredContrast(w->grab().toImage());
          if (const auto* tabs = qobject_cast<QTabBar*>(w); tabs && tabs->count() == 0) continue;
          if (is < legible)
            pale << QStringLiteral("%1: %2 %3x%4").arg(described(w)).arg(is).arg(w->width()).arg(w->height());
        }
        QVERIFY2(pale.isEmpty(), qPrintable(pale.join(QLatin1Char('\n'))));
      }
      window_.reset();
    }
    applyTheme(Theme::Light);
  }

  void whatListsAndThePaletteSayQuietlyIsLegible() {
    openAll();
    for (const Theme theme : {Theme::Light, Theme::Dark}) {
      window_->setTheme(theme);
      window_->openPalette();
      int seen = 0;
      for (QLabel* label : window_->palette()->findChildren<QLabel*>()) {
        if (!label->isVisible() || !label->isEnabled() || label->text().isEmpty()) continue;
        const double is = measuredContrast(label->grab().toImage());
        QVERIFY2(is >= legible, qPrintable(QStringLiteral("%1: %2").arg(label->text()).arg(is)));
        ++seen;
      }
      QVERIFY(seen > 10);
      window_->palette()->hide();
    }
    window_->setTheme(Theme::Light);
    // What a search says that found nothing.
    window_->arrange(Arrangement::Explore);
    for (const Theme theme : {Theme::Dark, Theme::Light}) {
      auto* explorer = window_->panel<Explorer>();
      explorer->search()->setText(QStringLiteral("nothing has this"));
      QTRY_COMPARE(explorer->results()->count(), 2);
      window_->setTheme(theme);
      const QListWidget* results = explorer->results();
      const QImage drawn = results->viewport()->grab(results->visualItemRect(results->item(0))).toImage();
      const double is = measuredContrast(drawn);
      QVERIFY2(is >= legible, qPrintable(QStringLiteral("nothing was found: %1").arg(is)));
    }
    // A rule without matches, and a step that was left, can be chosen: their words are read.
    type(QString::fromLatin1(rulesText).replace(QStringLiteral("matmul, div, add, softmax, matmul"),
                                                QStringLiteral("cosh")));
    auto* rules = window_->findChild<QTreeWidget*>(QStringLiteral("ruleList"));
    const QColor ink = rules->topLevelItem(0)->foreground(0).color();
    const auto colour = [](const QColor& c) {
      return Color{static_cast<uint8_t>(c.red()), static_cast<uint8_t>(c.green()), static_cast<uint8_t>(c.blue())};
    };
    QVERIFY(contrast(colour(ink), themePalette().background) >= legible);
  }

  void coloursStayApartForOtherEyes() {
    QVERIFY(apart({255, 0, 0}, {255, 0, 0}) < 0.01);
    QVERIFY(apart({120, 120, 0}, {160, 100, 0}) < 20);  // red and green alike: else this shows nothing
    for (const Theme theme : {Theme::Light, Theme::Dark}) {
      const Palette p = graft::palette(theme);
      const auto tell = [&](const char* what, double least) {
        return QStringLiteral("%1, %2: %3").arg(QLatin1String(what)).arg(static_cast<int>(theme)).arg(least);
      };
      const double changes =
          leastApart({p.change(Change::Removed), p.change(Change::Added), p.change(Change::Changed)});
      QVERIFY2(changes >= 30, qPrintable(tell("changes", changes)));
      const double lit = apart(p.inputLit, p.outputLit);
      QVERIFY2(lit >= 60, qPrintable(tell("inputs and outputs", lit)));
      QList<Color> patterns;
      for (size_t i = 0; i < 7; ++i) patterns << p.pattern(i);
      QVERIFY2(leastApart(patterns) >= 25, qPrintable(tell("pattern", leastApart(patterns))));
      for (const Color& c : patterns)
        QVERIFY2(contrast(c, p.background) >= 3, qPrintable(tell("on the background", contrast(c, p.background))));
      // Shape and arithmetic are both meant to be quiet; words tell them apart.
      QList<Color> kinds;
      for (const BoxKind kind : {BoxKind::Product, BoxKind::Normalization, BoxKind::Activation, BoxKind::Lookup,
                                 BoxKind::Kernel, BoxKind::Control, BoxKind::Arithmetic})
        kinds << p.hue(kind);
      QVERIFY2(leastApart(kinds) >= 8, qPrintable(tell("kinds", leastApart(kinds))));
      double darker = 0, before = seen(p.heat(0), Eyes::Usual)[0];
      for (const double t : {0.25, 0.5, 0.75, 1.0}) {  // a scale in lightness reads without any colour
        const double now = seen(p.heat(t), Eyes::Usual)[0];
        if (t == 0.25) darker = now - before;
        QVERIFY((now - before) * darker > 0);
        before = now;
      }
    }
  }
};

}  // namespace

QTEST_MAIN(AccessibilityTest)
#include "accessibility_test.moc"
