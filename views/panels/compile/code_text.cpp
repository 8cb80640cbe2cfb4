#include "views/panels/compile/code_text.h"

#include <QHelpEvent>
#include <QJsonObject>
#include <QRegularExpression>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>
#include <map>

#include "views/document/json_fields.h"
#include "views/panels/compile/node_legend.h"
#include "views/widgets/python_style.h"
#include "views/widgets/qscintilla.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// Scintilla leaves the indicators from 8 to 31 to programs: fills, then lines below, then dots below.
constexpr int firstIndicator = 8, colours = NodeMark::colours, chosenIndicator = firstIndicator + 3 * colours;
constexpr int messageStyle = 60, numberStyle = 61;  // of annotations and margins; lexers use less
constexpr int numberMargin = 1;

/// "3", "3 5", "2–4 7 …": places from 0, in order, as the legend numbers them.
QString numbersText(const QList<qsizetype>& places) {
  constexpr qsizetype most = 3;
  QStringList out;
  for (qsizetype i = 0; i < places.size();) {
    qsizetype end = i;
    while (end + 1 < places.size() && places[end + 1] == places[end] + 1) ++end;
    if (out.size() == most) return out.join(QLatin1Char(' ')) + QStringLiteral(" …");
    if (end == i + 1) end = i;  // two stand beside each other
    out << (end == i ? nodeNumber(places[i])
                     : QStringLiteral("%1–%2").arg(nodeNumber(places[i]), nodeNumber(places[end])));
    i = end + 1;
  }
  return out.join(QLatin1Char(' '));
}

}  // namespace

CodeText::CodeText(Language language, const QString& name, QWidget* parent) : QWidget(parent) {
  view_ = new QsciScintilla(this);
  view_->setUtf8(true);
  view_->setReadOnly(true);
  view_->setFrameShape(QFrame::NoFrame);
  view_->setAccessibleName(name);
  view_->setMarginType(0, QsciScintilla::NumberMargin);
  view_->setMarginType(numberMargin, QsciScintilla::TextMarginRightJustified);
  view_->setMarginWidth(numberMargin, 0);
  // Loops of many operators are long lines: what goes on stands below, indented.
  view_->setWrapMode(QsciScintilla::WrapWord);
  view_->setWrapIndentMode(QsciScintilla::WrapIndentDeeplyIndented);
  view_->viewport()->installEventFilter(this);
  view_->setScrollWidth(1);
  view_->setScrollWidthTracking(true);
  view_->setIndentationsUseTabs(false);
  view_->setTabWidth(2);
  view_->setAnnotationDisplay(QsciScintilla::AnnotationBoxed);
  if (language == Cpp) {
    lexer_ = new QsciLexerCPP(view_);
    view_->setLexer(lexer_);
  }
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(view_);
  connect(view_, &QsciScintilla::cursorPositionChanged, this, [this](int line, int index) {
    if (filling_ || editing_ || !view_->hasFocus()) return;
    QString node = nodeAt(view_->positionFromLineIndex(line, index));
    if (node.isEmpty()) node = firstNodeOf(line);  // beside the parts, a line stands for what it computes
    if (!node.isEmpty() && node != node_) Q_EMIT nodeClicked(node);
  });
  refreshTheme();
}

void CodeText::refreshTheme() {
  const Palette& p = themePalette();
  const QColor paper = toQt(p.background), text = toQt(p.text);
  if (lexer_) {
    styleCpp(*view_, *lexer_);
  } else {
    view_->setFont(monospace());
    view_->setPaper(paper);
    view_->setColor(text);
    styleEditor(*view_);
  }
  for (int i = 0; i < colours; ++i) {
    const int indicator = firstIndicator + i;
    view_->SendScintilla(QsciScintillaBase::SCI_INDICSETSTYLE, indicator, QsciScintillaBase::INDIC_STRAIGHTBOX);
    view_->setIndicatorForegroundColor(toQt(p.pattern(static_cast<size_t>(i))), indicator);
    view_->SendScintilla(QsciScintillaBase::SCI_INDICSETALPHA, indicator, p.dark ? 70L : 55L);
    view_->SendScintilla(QsciScintillaBase::SCI_INDICSETOUTLINEALPHA, indicator, 0L);
    view_->SendScintilla(QsciScintillaBase::SCI_INDICSETUNDER, indicator, 1L);
    for (const NodeMark::Line line : {NodeMark::Solid, NodeMark::Dotted}) {
      const int below = indicator + line * colours;
      view_->SendScintilla(
          QsciScintillaBase::SCI_INDICSETSTYLE, below,
          line == NodeMark::Solid ? QsciScintillaBase::INDIC_COMPOSITIONTHICK : QsciScintillaBase::INDIC_DOTS);
      view_->setIndicatorForegroundColor(toQt(p.pattern(static_cast<size_t>(i))), below);
    }
  }
  view_->SendScintilla(QsciScintillaBase::SCI_INDICSETSTYLE, chosenIndicator, QsciScintillaBase::INDIC_STRAIGHTBOX);
  view_->setIndicatorForegroundColor(toQt(p.accent), chosenIndicator);
  view_->SendScintilla(QsciScintillaBase::SCI_INDICSETALPHA, chosenIndicator, 0L);
  view_->SendScintilla(QsciScintillaBase::SCI_INDICSETOUTLINEALPHA, chosenIndicator, 255L);
  numberLines();  // they have colours of their own
}

void CodeText::setCode(const QString& text, const QStringList& nodes, const QJsonArray& spans) {
  filling_ = true;
  nodes_ = nodes;
  spans_.clear();
  for (const QJsonValue v : spans) {
    const QJsonObject o = v.toObject();
    spans_ << Span{at(o, "node").toString(), at(o, "begin").toInt(), at(o, "end").toInt()};
  }
  setEditing(false);
  clearAnnotations();
  view_->setText(text);
  setMargin(0, QFontMetrics(monospace()).horizontalAdvance(QString::number(view_->lines()) + QLatin1Char('0')));
  colour();
  numberLines();
  // What all kernels begin with is scrolled away.
  const qsizetype own = std::max<qsizetype>(0, text.indexOf(QStringLiteral("\nint run(")));
  // Lines are wrapped later, which keeps the first one in view, but for a text that ends above the lower edge.
  view_->SendScintilla(QsciScintillaBase::SCI_SETENDATLASTLINE, own > 0 ? 0L : 1L);
  scrollTo(static_cast<int>(text.left(own).count(QLatin1Char('\n'))) + (own > 0 ? 1 : 0));
  filling_ = false;
}

void CodeText::setNone(const QString& why) {
  setCode(why, {}, {});
  if (lexer_) view_->SendScintilla(QsciScintillaBase::SCI_STARTSTYLING, 0L);
  if (lexer_) view_->SendScintilla(QsciScintillaBase::SCI_SETSTYLING, view_->length(), 0L);
  setMargin(0, 0);  // a sentence has no lines to count
}

QString CodeText::text() const { return view_->text(); }

void CodeText::setText(const QString& text) { view_->setText(text); }

void CodeText::colour() {
  const long length = view_->length();
  for (int indicator = firstIndicator; indicator <= chosenIndicator; ++indicator) {
    view_->SendScintilla(QsciScintillaBase::SCI_SETINDICATORCURRENT, indicator);
    view_->SendScintilla(QsciScintillaBase::SCI_INDICATORCLEARRANGE, 0UL, length);
  }
  for (const Span& s : spans_) {
    const qsizetype place = nodes_.indexOf(s.node);
    if (place < 0) continue;
    const auto fill = [&](int indicator) {
      view_->SendScintilla(QsciScintillaBase::SCI_SETINDICATORCURRENT, indicator);
      view_->SendScintilla(QsciScintillaBase::SCI_INDICATORFILLRANGE, static_cast<unsigned long>(s.begin),
                           static_cast<long>(s.end - s.begin));
    };
    const NodeMark mark = nodeMark(place);
    const int hue = firstIndicator + static_cast<int>(mark.colour);
    fill(hue);
    if (mark.line != NodeMark::None) fill(hue + mark.line * colours);
    if (s.node == node_) fill(chosenIndicator);
  }
}

/// In the margin, each line has the numbers of the nodes that it computes, as the legend has them.
void CodeText::numberLines() {
  view_->clearMarginText();
  numbers_.clear();
  std::map<int, QList<qsizetype>> lines;
  for (const Span& s : spans_)
    if (const qsizetype place = nodes_.indexOf(s.node); place >= 0)
      if (auto& known = lines[lineOf(s.begin)]; !known.contains(place)) known << place;
  int widest = 0;
  const Palette& p = themePalette();
  const QsciStyle style(numberStyle, QString(), toQt(mix(p.background, p.text, 0.75)), toQt(p.background), monospace());
  for (auto& [line, places] : lines) {
    std::sort(places.begin(), places.end());
    const QString words = numbersText(places);
    widest = std::max(widest, QFontMetrics(monospace()).horizontalAdvance(words + QLatin1Char('0')));
    view_->setMarginText(line, words, style);
    numbers_.insert(line, words);
  }
  setMargin(numberMargin, widest);
}

/// Lines that were wrapped for the width before are wrapped anew. Scintilla does so with the margins that it had when
/// it last looked at its styles; asking how high lines are makes it look.
void CodeText::setMargin(int margin, int width) {
  if (width == view_->marginWidth(margin)) return;
  view_->setMarginWidth(margin, width);
  view_->SendScintilla(QsciScintillaBase::SCI_TEXTHEIGHT, 0L);
  view_->setWrapMode(QsciScintilla::WrapNone);
  view_->setWrapMode(QsciScintilla::WrapWord);
}

QString CodeText::numbersOf(int line) const { return numbers_.value(line); }

int CodeText::lineOf(int byte) const {
  return static_cast<int>(view_->SendScintilla(QsciScintillaBase::SCI_LINEFROMPOSITION, static_cast<long>(byte)));
}

/// Lines that are wrapped count as often as they are seen.
void CodeText::scrollTo(int line) {
  view_->setFirstVisibleLine(
      static_cast<int>(view_->SendScintilla(QsciScintillaBase::SCI_VISIBLEFROMDOCLINE, static_cast<long>(line))));
}

bool CodeText::eventFilter(QObject* watched, QEvent* e) {
  if (watched != view_->viewport() || e->type() != QEvent::ToolTip) return QWidget::eventFilter(watched, e);
  const auto* help = static_cast<QHelpEvent*>(e);
  const QString node = nodeAt(static_cast<int>(view_->SendScintilla(QsciScintillaBase::SCI_POSITIONFROMPOINTCLOSE,
                                                                    static_cast<unsigned long>(help->pos().x()),
                                                                    static_cast<long>(help->pos().y()))));
  const qsizetype place = nodes_.indexOf(node);
  if (node.isEmpty()) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(),
                       place < 0 ? tr("computes %1").arg(node) : tr("%1: computes %2").arg(nodeNumber(place), node));
  }
  return true;
}

void CodeText::setNode(const QString& node) {
  if (node == node_) return;
  node_ = node;
  if (editing_) return;
  colour();
  const QList<int> lines = linesOf(node);
  if (lines.isEmpty()) return;
  const long first = view_->firstVisibleLine();
  const long shown = view_->SendScintilla(QsciScintillaBase::SCI_LINESONSCREEN);
  const bool isSeen = std::any_of(lines.begin(), lines.end(), [&](int line) {
    const long at = view_->SendScintilla(QsciScintillaBase::SCI_VISIBLEFROMDOCLINE, static_cast<long>(line));
    return at >= first && at < first + shown;
  });
  if (!isSeen) scrollTo(std::max(0, lines.first() - 2));
}

QString CodeText::nodeAt(int byte) const {
  const auto it =
      std::find_if(spans_.begin(), spans_.end(), [&](const Span& s) { return byte >= s.begin && byte < s.end; });
  return it == spans_.end() ? QString() : it->node;
}

QString CodeText::firstNodeOf(int line) const {
  const auto it = std::find_if(spans_.begin(), spans_.end(), [&](const Span& s) { return lineOf(s.begin) == line; });
  return it == spans_.end() ? QString() : it->node;
}

QList<int> CodeText::linesOf(const QString& node) const {
  QList<int> lines;
  for (const Span& s : spans_)
    if (const int line = lineOf(s.begin); s.node == node && !lines.contains(line)) lines << line;
  return lines;
}

void CodeText::setEditing(bool on) {
  editing_ = on;
  view_->setReadOnly(!on);
  view_->setCaretLineVisible(on);
  if (!on) return;
  // What is written anew computes no node that is known.
  spans_.clear();
  colour();
  numberLines();
}

void CodeText::annotate(int line, const QString& text) {
  const Palette& p = themePalette();
  const Color red = p.change(Change::Removed);
  const QsciStyle style(messageStyle, QString(), toQt(p.text), toQt(mix(p.background, red, 0.2)), monospace());
  // Scintilla wraps no annotations.
  const qsizetype columns =
      std::max(60, view_->viewport()->width() / QFontMetrics(monospace()).horizontalAdvance(QLatin1Char('0')) - 14);
  QString lines;
  qsizetype used = 0;
  for (const QString& word : text.split(QLatin1Char(' '))) {
    if (used > 0) lines += used + word.size() > columns ? QLatin1Char('\n') : QLatin1Char(' ');
    used = used > 0 && used + word.size() <= columns ? used + 1 + word.size() : word.size();
    lines += word;
  }
  view_->annotate(line, lines, style);
  view_->ensureLineVisible(line);
}

void CodeText::clearAnnotations() { view_->clearAnnotations(); }

QString CodeText::annotation(int line) const { return view_->annotation(line); }

int CodeText::lineStoring(const QString& buffer) const {
  const QRegularExpression store(QStringLiteral("\\b%1\\[[^=]*\\] = ").arg(QRegularExpression::escape(buffer)));
  for (int line = view_->lines() - 1; line >= 0; --line)
    if (view_->text(line).contains(store)) return line;
  return -1;
}

}  // namespace graft
