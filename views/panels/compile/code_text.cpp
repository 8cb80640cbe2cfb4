#include "views/panels/compile/code_text.h"

#include <QJsonObject>
#include <QRegularExpression>
#include <QVBoxLayout>
#include <algorithm>

#include "views/document/json_fields.h"
#include "views/widgets/python_style.h"
#include "views/widgets/qscintilla.h"
#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// Scintilla leaves the indicators from 8 on to programs.
constexpr int firstIndicator = 8, colours = 7, chosenIndicator = firstIndicator + colours;
constexpr int messageStyle = 60;  // of annotations; lexers use less

}  // namespace

CodeText::CodeText(Language language, const QString& name, QWidget* parent) : QWidget(parent) {
  view_ = new QsciScintilla(this);
  view_->setUtf8(true);
  view_->setReadOnly(true);
  view_->setFrameShape(QFrame::NoFrame);
  view_->setAccessibleName(name);
  view_->setMarginType(0, QsciScintilla::NumberMargin);
  view_->setMarginWidth(1, 0);
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
  }
  view_->SendScintilla(QsciScintillaBase::SCI_INDICSETSTYLE, chosenIndicator, QsciScintillaBase::INDIC_STRAIGHTBOX);
  view_->setIndicatorForegroundColor(toQt(p.accent), chosenIndicator);
  view_->SendScintilla(QsciScintillaBase::SCI_INDICSETALPHA, chosenIndicator, 0L);
  view_->SendScintilla(QsciScintillaBase::SCI_INDICSETOUTLINEALPHA, chosenIndicator, 255L);
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
  view_->setMarginWidth(0, QString::number(view_->lines()) + QLatin1Char('0'));
  colour();
  // What all kernels begin with is scrolled away.
  const qsizetype own = std::max<qsizetype>(0, text.indexOf(QStringLiteral("\nint run(")));
  view_->setFirstVisibleLine(static_cast<int>(text.left(own).count(QLatin1Char('\n'))) + (own > 0 ? 1 : 0));
  filling_ = false;
}

void CodeText::setNone(const QString& why) { setCode(why, {}, {}); }

QString CodeText::text() const { return view_->text(); }

void CodeText::setText(const QString& text) { view_->setText(text); }

void CodeText::colour() {
  const long length = view_->length();
  for (int i = 0; i <= colours; ++i) {
    view_->SendScintilla(QsciScintillaBase::SCI_SETINDICATORCURRENT, firstIndicator + i);
    view_->SendScintilla(QsciScintillaBase::SCI_INDICATORCLEARRANGE, 0UL, length);
  }
  for (const Span& s : spans_) {
    const qsizetype place = nodes_.indexOf(s.node);
    if (place < 0) continue;
    const auto begin = static_cast<unsigned long>(s.begin);
    view_->SendScintilla(QsciScintillaBase::SCI_SETINDICATORCURRENT,
                         firstIndicator + static_cast<int>(place % colours));
    view_->SendScintilla(QsciScintillaBase::SCI_INDICATORFILLRANGE, begin, static_cast<long>(s.end - s.begin));
    if (s.node != node_) continue;
    view_->SendScintilla(QsciScintillaBase::SCI_SETINDICATORCURRENT, chosenIndicator);
    view_->SendScintilla(QsciScintillaBase::SCI_INDICATORFILLRANGE, begin, static_cast<long>(s.end - s.begin));
  }
}

void CodeText::setNode(const QString& node) {
  if (node == node_) return;
  node_ = node;
  if (editing_) return;
  colour();
  const QList<int> lines = linesOf(node);
  if (lines.isEmpty()) return;
  const int first = view_->firstVisibleLine();
  const int shown = static_cast<int>(view_->SendScintilla(QsciScintillaBase::SCI_LINESONSCREEN));
  const bool isSeen =
      std::any_of(lines.begin(), lines.end(), [&](int line) { return line >= first && line < first + shown; });
  if (!isSeen) view_->setFirstVisibleLine(std::max(0, lines.first() - 2));
}

QString CodeText::nodeAt(int byte) const {
  const auto it =
      std::find_if(spans_.begin(), spans_.end(), [&](const Span& s) { return byte >= s.begin && byte < s.end; });
  return it == spans_.end() ? QString() : it->node;
}

QString CodeText::firstNodeOf(int line) const {
  for (const Span& s : spans_)
    if (view_->SendScintilla(QsciScintillaBase::SCI_LINEFROMPOSITION, static_cast<long>(s.begin)) == line)
      return s.node;
  return {};
}

QList<int> CodeText::linesOf(const QString& node) const {
  QList<int> lines;
  for (const Span& s : spans_) {
    if (s.node != node) continue;
    const auto line =
        static_cast<int>(view_->SendScintilla(QsciScintillaBase::SCI_LINEFROMPOSITION, static_cast<long>(s.begin)));
    if (!lines.contains(line)) lines << line;
  }
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
}

void CodeText::annotate(int line, const QString& text) {
  const Palette& p = themePalette();
  const Color red = p.change(Change::Removed);
  const QsciStyle style(messageStyle, QString(), toQt(p.text), toQt(mix(p.background, red, 0.2)), monospace());
  view_->annotate(line, text, style);
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
