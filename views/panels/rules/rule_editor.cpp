#include "views/panels/rules/rule_editor.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QRegularExpression>
#include <QScrollBar>
#include <QSet>
#include <QVBoxLayout>

#include "views/canvas/canvas_scene.h"
#include "views/panels/rules/rule_words.h"
#include "views/widgets/python_style.h"
#include "views/widgets/qscintilla.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

const char* const firstRule = R"(import torch
import torch.nn.functional as F
from graft import Recipe, Rule, Tensor, Weight, any_of, kernels, optional


class LinearGelu(Rule):
    """A linear layer and the GELU behind it become one kernel."""

    def pattern(x, w: Weight, b: Weight):
        return F.gelu(F.linear(x, w, b))

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b, activation="gelu")
)";

constexpr int errorIndicator = 20, litIndicator = 21, firstColor = 8, colors = 7;

}  // namespace

RuleEditor::RuleEditor(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  constexpr int lines = 2;
  sentence_ = new FixedHeightLabel(lines, this);  // the text below it never jumps
  sentence_->setContentsMargins(12, 8, 12, 8);
  editor_ = new QsciScintilla(this);
  editor_->setAccessibleName(tr("Rules"));
  editor_->setUtf8(true);
  editor_->setFrameShape(QFrame::NoFrame);
  editor_->setIndentationsUseTabs(false);
  editor_->setTabWidth(4);
  editor_->setAutoIndent(true);
  editor_->setBackspaceUnindents(true);
  editor_->setBraceMatching(QsciScintilla::SloppyBraceMatch);
  editor_->setMarginType(0, QsciScintilla::NumberMargin);
  editor_->setMarginWidth(0, QStringLiteral("0000"));
  editor_->setMarginWidth(1, 0);
  editor_->setScrollWidth(1);
  editor_->setScrollWidthTracking(true);
  editor_->setCaretLineVisible(true);
  constexpr long edge = 12;  // lines that fit are not scrolled while one types at their end
  editor_->SendScintilla(QsciScintillaBase::SCI_SETXCARETPOLICY,
                         static_cast<unsigned long>(QsciScintillaBase::CARET_SLOP | QsciScintillaBase::CARET_EVEN),
                         edge);
  editor_->setAutoCompletionSource(QsciScintilla::AcsAll);
  editor_->setAutoCompletionThreshold(3);
  editor_->setAutoCompletionCaseSensitivity(true);
  lexer_ = new QsciLexerPython(editor_);
  setWords({});
  editor_->setCallTipsStyle(QsciScintilla::CallTipsNone);
  tip_ = new CallTip(this);
  editor_->setLexer(lexer_);
  editor_->indicatorDefine(QsciScintilla::SquiggleIndicator, errorIndicator);
  editor_->indicatorDefine(QsciScintilla::StraightBoxIndicator, litIndicator);
  for (int i = 0; i < colors; ++i) editor_->indicatorDefine(QsciScintilla::StraightBoxIndicator, firstColor + i);
  editor_->viewport()->installEventFilter(this);
  editor_->installEventFilter(this);
  editor_->viewport()->setMouseTracking(true);

  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(sentence_);
  column->addWidget(editor_, 1);
  refreshTheme();

  connect(sentence_, &QLabel::linkActivated, this, [this](const QString& link) {
    if (link == QLatin1String("start"))
      startRule();
    else
      Q_EMIT libraryAsked();
  });
  connect(editor_, &QsciScintilla::textChanged, this, [this] {
    if (editor_->length() == 0) editor_->setScrollWidth(1);  // the longest line is gone
    if (!quiet_) document_.setRules(text(), file_);
  });
  connect(editor_, &QsciScintilla::cursorPositionChanged, this, &RuleEditor::followCursor);
  connect(editor_, &QsciScintilla::cursorPositionChanged, this, &RuleEditor::tellCall);
  connect(editor_->verticalScrollBar(), &QScrollBar::valueChanged, tip_, &QWidget::hide);
  connect(&document_, &Document::rulesChanged, this, [this] { followCursor(), mark(), tell(); });
  connect(&document_, &Document::currentRuleChanged, this, [this] { mark(), tell(); });
  for (auto signal : {&Document::matchesChanged, &Document::nearMissesChanged, &Document::opened})
    connect(&document_, signal, this, &RuleEditor::tell);
  tell();
}

bool RuleEditor::isCompleting() const { return editor_->isListActive(); }

void RuleEditor::leaveKeys(const QList<QKeySequence>& keys) {
  const auto wanted = [&](int key) {
    const QKeySequence sequence(key);
    return key != 0 && keys.contains(sequence) && sequence != QKeySequence(Qt::CTRL | Qt::Key_Z) &&
           sequence != QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z);
  };
  for (QsciCommand* command : editor_->standardCommands()->commands()) {
    if (wanted(command->key())) command->setKey(0);
    if (wanted(command->alternateKey())) command->setAlternateKey(0);
  }
}

void RuleEditor::setWords(const QStringList& words) {
  delete words_;
  words_ = new RuleWords(lexer_, words);
}

/// Whose parameters are being typed.
void RuleEditor::tellCall() {
  if (!editor_->hasFocus() || quiet_) return tip_->hide();
  const auto position = static_cast<int>(editor_->SendScintilla(QsciScintilla::SCI_GETCURRENTPOS));
  constexpr int far = 2000;
  const int from = std::max(0, position - far);
  const OpenCall call = openCall(editor_->text(from, position));
  const auto x =
      static_cast<int>(editor_->SendScintilla(QsciScintilla::SCI_POINTXFROMPOSITION, 0L, static_cast<long>(position)));
  const auto y =
      static_cast<int>(editor_->SendScintilla(QsciScintilla::SCI_POINTYFROMPOSITION, 0L, static_cast<long>(position)));
  tip_->showFor(call, words_->parametersOf(call.callee), editor_->viewport()->mapToGlobal(QPoint(x, y)),
                editor_->textHeight(0));
}

/// What the list would put here stands here already.
bool RuleEditor::completesNothing() const {
  char chosen[512] = {};
  editor_->SendScintilla(QsciScintilla::SCI_AUTOCGETCURRENTTEXT, 0UL, static_cast<void*>(chosen));
  int line = 0, column = 0;
  editor_->getCursorPosition(&line, &column);
  static const QRegularExpression word(QStringLiteral("\\w*$"));
  return QString::fromUtf8(chosen) == word.match(editor_->text(line).left(column)).captured();
}

void RuleEditor::refreshTheme() {
  stylePython(*editor_, *lexer_);
  const Palette& p = themePalette();
  const QColor text = toQt(p.text);
  tip_->refreshTheme();
  editor_->setMatchedBraceBackgroundColor(toQt(mix(p.background, p.accent, 0.25)));
  editor_->setMatchedBraceForegroundColor(text);
  editor_->setIndicatorForegroundColor(toQt(p.change(Change::Removed)), errorIndicator);
  auto box = [&](int indicator, Color c, int alpha, int outline) {
    QColor q = toQt(c);
    q.setAlpha(alpha);
    editor_->setIndicatorForegroundColor(q, indicator);
    q.setAlpha(outline);
    editor_->setIndicatorOutlineColor(q, indicator);
    editor_->setIndicatorDrawUnder(true, indicator);
  };
  for (int i = 0; i < colors; ++i) box(firstColor + i, p.pattern(static_cast<size_t>(i)), p.dark ? 70 : 48, 120);
  box(litIndicator, p.accent, 60, 255);
}

QString RuleEditor::text() const { return editor_->text(); }

void RuleEditor::setText(const QString& text, bool modified) {
  quiet_ = true;
  editor_->setScrollWidth(1);
  editor_->setText(text);
  editor_->setModified(false);
  modified_ = modified;
  quiet_ = false;
  document_.setRules(text, file_, true);
  tell();
}

bool RuleEditor::isModified() const { return modified_ || editor_->isModified(); }

void RuleEditor::setSaved() {
  editor_->setModified(false);
  modified_ = false;
}

void RuleEditor::showLine(int line) {
  editor_->setCursorPosition(line - 1, 0);
  const int top = editor_->firstVisibleLine();
  const auto count = static_cast<int>(editor_->SendScintilla(QsciScintilla::SCI_LINESONSCREEN));
  // What follows the line is what one came for.
  constexpr int above = 2;
  if (line - 1 < top + above || line - 1 > top + count / 2) editor_->setFirstVisibleLine(std::max(0, line - 1 - above));
}

void RuleEditor::startRule() {
  editor_->selectAll();
  editor_->replaceSelectedText(QString::fromLatin1(firstRule));  // can be undone
  showLine(9);
  editor_->setFocus();
}

bool RuleEditor::change(const QList<RuleEdit>& edits) {
  const QByteArray all = text().toUtf8();
  for (const RuleEdit& e : edits)
    if (all.mid(e.begin, e.end - e.begin) != e.before.toUtf8()) return false;
  QString inserted;
  for (const RuleEdit& e : edits) inserted += e.after + QLatin1Char('\n');
  editor_->beginUndoAction();                              // one step back takes all of them
  for (auto e = edits.rbegin(); e != edits.rend(); ++e) {  // what is behind keeps its place
    const QByteArray after = e->after.toUtf8();
    editor_->SendScintilla(QsciScintilla::SCI_SETTARGETRANGE, static_cast<unsigned long>(e->begin),
                           static_cast<long>(e->end));
    editor_->SendScintilla(QsciScintilla::SCI_REPLACETARGET, static_cast<uintptr_t>(after.size()), after.constData());
  }
  const int moved = importWhatIsUsed(inserted);
  editor_->endUndoAction();
  if (!edits.isEmpty()) showLine(edits.front().line + moved);
  return true;
}

/// Puts words of the rule language that `inserted` uses into the import from graft. How many lines that adds above.
int RuleEditor::importWhatIsUsed(const QString& inserted) {
  static const QRegularExpression import(QStringLiteral("^from graft import +([^(\\n]*)$"),
                                         QRegularExpression::MultilineOption);
  const QString all = text();
  const QRegularExpressionMatch line = import.match(all);
  QStringList known, missing;
  for (const QString& name : line.captured(1).split(QLatin1Char(',')))
    known << name.section(QLatin1Char('#'), 0, 0).trimmed();
  for (const QString& word : {QStringLiteral("any_of"), QStringLiteral("kernels"), QStringLiteral("optional"),
                              QStringLiteral("Tensor"), QStringLiteral("Weight")}) {
    const QRegularExpression use(QStringLiteral("\\b%1\\b").arg(word));
    const bool isDefined =
        QRegularExpression(QStringLiteral("^(from|import)\\b.*\\b%1\\b|^(def|class) +%1\\b|^%1 *=").arg(word),
                           QRegularExpression::MultilineOption)
            .match(all)
            .hasMatch();
    if (inserted.contains(use) && !known.contains(word) && !isDefined) missing << word;
  }
  if (missing.isEmpty()) return 0;
  const auto insertAt = [&](qsizetype at, const QString& what) {
    const auto byte = static_cast<unsigned long>(all.left(at).toUtf8().size());
    const QByteArray bytes = what.toUtf8();
    editor_->SendScintilla(QsciScintilla::SCI_INSERTTEXT, byte, bytes.constData());
  };
  if (line.hasMatch()) {
    insertAt(line.capturedEnd(1), QStringLiteral(", ") + missing.join(QStringLiteral(", ")));
    return 0;
  }
  insertAt(0, QStringLiteral("from graft import %1\n").arg(missing.join(QStringLiteral(", "))));
  return 1;
}

/// The rule whose text the caret is in.
void RuleEditor::followCursor() {
  if (!document_.rulesAreRead()) return;  // their lines are of another text; once they are read, it comes here again
  int line = 0, column = 0;
  editor_->getCursorPosition(&line, &column);
  QString name;
  for (const RuleInfo& r : document_.rules())
    if (r.line > 0 && r.line <= line + 1) name = r.name;  // imported ones have no line here
  if (!name.isEmpty()) document_.setCurrentRule(name);
}

void RuleEditor::mark() {
  const int last = editor_->lines() - 1;
  const int end = editor_->lineLength(last);
  for (int i = 0; i < colors; ++i) editor_->clearIndicatorRange(0, 0, last, end, firstColor + i);
  editor_->clearIndicatorRange(0, 0, last, end, errorIndicator);
  editor_->clearAnnotations();
  const RuleError& error = document_.ruleError();
  if (error.any() && error.line > 0 && error.line <= editor_->lines()) {
    const int line = error.line - 1, from = std::max(0, error.column - 1);
    const int length = static_cast<int>(editor_->text(line).trimmed().isEmpty() ? 1 : editor_->text(line).size());
    // Without an end: the name that begins there, with its dots.
    static const QRegularExpression name(QStringLiteral("[\\w.]*"));
    const int end = error.endColumn > error.column + 1
                        ? error.endColumn - 1
                        : from + static_cast<int>(name.match(editor_->text(line).mid(from)).capturedLength());
    const int to = std::clamp(end, from + 1, std::max(from + 1, length));
    editor_->fillIndicatorRange(line, from, line, std::max(to, from + 3), errorIndicator);
  }
  const RuleInfo* rule = document_.rule(document_.currentRule());
  if (!rule || error.any()) return;
  // A helper's text may stand for many nodes: it wears the first one's colour, not all of them mixed.
  QSet<QPair<int, int>> marked;
  for (int i = 0; i < rule->patternOrder.size(); ++i) {
    const TextRange range = rule->lines.value(rule->patternOrder[i]);
    if (range.line < 1 || range.endColumn <= range.column || marked.contains({range.line, range.column})) continue;
    marked.insert({range.line, range.column});
    editor_->fillIndicatorRange(range.line - 1, range.column - 1, range.line - 1, range.endColumn - 1,
                                firstColor + i % colors);
  }
}

void RuleEditor::setLit(const QString& node) {
  if (node == lit_) return;
  lit_ = node;
  const int last = editor_->lines() - 1;
  editor_->clearIndicatorRange(0, 0, last, editor_->lineLength(last), litIndicator);
  const RuleInfo* rule = document_.rule(document_.currentRule());
  if (!rule || node.isEmpty()) return;
  const TextRange range = rule->lines.value(node);
  if (range.line > 0)
    editor_->fillIndicatorRange(range.line - 1, range.column - 1, range.line - 1, range.endColumn - 1, litIndicator);
}

QString RuleEditor::patternAt(int line, int column) const {
  const RuleInfo* rule = document_.rule(document_.currentRule());
  QString found;
  int narrowest = INT_MAX;
  if (rule)
    for (auto it = rule->lines.begin(); it != rule->lines.end(); ++it) {
      const int width = it->endColumn - it->column;
      if (it->line == line && column >= it->column && column < it->endColumn && width < narrowest)
        found = it.key(), narrowest = width;
    }
  return found;
}

bool RuleEditor::eventFilter(QObject* object, QEvent* e) {
  if (object == editor_ && e->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(e)->key();
    // A new line is a new line: the list takes Return only where that changes the text.
    if ((key == Qt::Key_Return || key == Qt::Key_Enter) && editor_->isListActive() && completesNothing())
      editor_->cancelList();
    if (key == Qt::Key_Escape && !editor_->isListActive() && tip_->isVisible()) {
      tip_->dismiss();
      return true;
    }
  }
  if (object == editor_ && (e->type() == QEvent::FocusOut || e->type() == QEvent::Hide)) tip_->hide();
  if (e->type() == QEvent::MouseMove || e->type() == QEvent::Leave) {
    QString node;
    if (e->type() == QEvent::MouseMove) {
      const QPoint p = static_cast<QMouseEvent*>(e)->pos();
      const long position = editor_->SendScintilla(QsciScintilla::SCI_POSITIONFROMPOINTCLOSE,
                                                   static_cast<unsigned long>(p.x()), static_cast<long>(p.y()));
      if (position >= 0) {
        int line = 0, column = 0;
        editor_->lineIndexFromPosition(static_cast<int>(position), &line, &column);
        node = patternAt(line + 1, column + 1);
      }
    }
    if (node != hovered_) {
      hovered_ = node;
      Q_EMIT patternHovered(node);
    }
  }
  return QWidget::eventFilter(object, e);
}

QString RuleEditor::sentence() const { return sentence_->fullText(); }

void RuleEditor::tell() {
  const Palette& p = themePalette();
  const RuleInfo* rule = document_.rule(document_.currentRule());
  QString text;
  Color color = p.dim;
  Qt::TextFormat format = Qt::PlainText;
  if (this->text().trimmed().isEmpty()) {
    text = tr("Write a rule, <a style=\"color:%1\" href=\"start\">begin with an example</a>, or take one from the "
              "<a style=\"color:%1\" href=\"library\">library</a>: what it matches shows as you type.")
               .arg(css(p.accent));
    format = Qt::RichText;
  } else if (document_.ruleError().any()) {
    const RuleError& e = document_.ruleError();
    text = e.line > 0 ? tr("Line %1: %2").arg(e.line).arg(e.message) : e.message;
    color = p.wrong();
  } else if (document_.rules().empty()) {
    text = document_.rulesAreRead() ? tr("There is no rule in this text yet.") : tr("Reading the rules…");
  } else if (!document_.isOpen()) {
    text = tr("%1 read. Open a model to see where they match.")
               .arg(counted(static_cast<qint64>(document_.rules().size()), tr("rule"), tr("rules")));
  } else if (rule && rule->matched) {
    const auto count = static_cast<int>(rule->matches.size());
    const QString nodes = counted(static_cast<qint64>(document_.graph()->nodeCount()), tr("node"), tr("nodes"));
    if (count > 0) {
      text = tr("%1: %2 in %3 (%4 ms)")
                 .arg(rule->name, count == 1 ? tr("1 match") : tr("%1 matches").arg(count))
                 .arg(nodes)
                 .arg(document_.matchMilliseconds(), 0, 'f', 1);
      color = p.text;
    } else if (!document_.nearMisses().empty() && document_.nearMissesOf() == rule->name) {
      const NearMissInfo& n = document_.nearMisses().front();
      text = tr("%1: no match — %2 (nearest%3)")
                 .arg(rule->name, n.message, n.scope.isEmpty() ? QString() : tr(", in %1").arg(n.scope));
    } else {
      text = tr("%1: no match in %2").arg(rule->name, nodes);
    }
  } else if (rule) {
    // The answer takes a moment: what was said of this rule stays until it is here.
    if (told_ == rule->name) return;
    text = tr("%1: matching…").arg(rule->name);
  }
  told_ = rule && rule->matched && !document_.ruleError().any() ? rule->name : QString();
  sentence_->showText(text, format);
  tint(*sentence_, color);
}

}  // namespace graft
