#include "views/panels/rules/rule_words.h"

#include <QRegularExpression>
#include <QScreen>
#include <algorithm>

#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// As rules spell it, whatever it was imported as.
QString spelled(const QString& name) {
  static const QString functional = QStringLiteral("torch.nn.functional.");
  return name.startsWith(functional) ? QStringLiteral("F.") + name.mid(functional.size()) : name;
}

/// "input, p=(1, 2)" at commas that no bracket holds.
QStringList split(const QString& parameters) {
  QStringList out;
  int depth = 0;
  QString one;
  for (const QChar c : parameters) {
    depth += c == QLatin1Char('(') || c == QLatin1Char('[');
    depth -= c == QLatin1Char(')') || c == QLatin1Char(']');
    if (c == QLatin1Char(',') && depth == 0)
      out << one.trimmed(), one.clear();
    else
      one += c;
  }
  if (!one.trimmed().isEmpty()) out << one.trimmed();
  return out;
}

}  // namespace

RuleWords::RuleWords(QsciLexer* lexer, const QStringList& words) : QsciAbstractAPIs(lexer) {
  const auto add = [this](const QString& word) {
    const QString name = word.section(QLatin1Char('('), 0, 0);
    parameters_.insert(name, split(word.mid(name.size() + 1).chopped(word.size() > name.size() ? 1 : 0)));
    if (!name.contains(QLatin1Char('.'))) plain_ << name;
  };
  for (const QString& word : words) add(word);
  for (const char* word : {"any_of(first, second, …)",
                           "optional(function, x, …)",
                           "call_module(name, x)",
                           "call_function(name, x)",
                           "decompose(module)",
                           "Rule",
                           "Recipe",
                           "Weight",
                           "Tensor",
                           "pattern",
                           "replacement",
                           "where",
                           "scope",
                           "exact",
                           "changes_numbers",
                           "tolerance",
                           "runtime(x)",
                           "steps",
                           "expect",
                           "normalize",
                           "remove_dropout",
                           "find_attention",
                           "find_linear",
                           "find_products",
                           "functionalize",
                           "fold_constants",
                           "eliminate_common",
                           "eliminate_dead",
                           "channels_last",
                           "complex_as_real",
                           "conv1d_as_conv2d",
                           "share_masks",
                           "simplify_masks",
                           "split_bias",
                           "fuse",
                           "partition",
                           "unfuse",
                           "torch",
                           "kernels"})
    add(QString::fromUtf8(word));
}

void RuleWords::updateAutoCompletionList(const QStringList& context, QStringList& list) {
  const QString typed = context.value(context.size() - 1);
  if (context.size() < 2) {
    for (const QString& name : plain_)
      if (name.startsWith(typed)) list << name;
    return;
  }
  const QString space = spelled(context.mid(0, context.size() - 1).join(QLatin1Char('.')) + QLatin1Char('.'));
  const auto offer = [&](const QString& before) {
    for (auto it = parameters_.begin(); it != parameters_.end(); ++it)
      if (it.key().startsWith(before) && it.key().mid(before.size()).startsWith(typed))
        list << it.key().mid(before.size());
  };
  offer(space);
  // Behind a value stand its methods: torch's functions of it.
  const QString& first = context.front();
  if (!list.isEmpty() || first == QLatin1String("torch") || first == QLatin1String("F") ||
      first == QLatin1String("kernels") || typed.isEmpty())
    return;
  for (auto it = parameters_.begin(); it != parameters_.end(); ++it)
    if (it.key().startsWith(QLatin1String("torch.") + typed) && it->value(0) == QLatin1String("input"))
      list << it.key().mid(6);
}

QStringList RuleWords::parametersOf(const QString& callee) const {
  const QString name = spelled(callee);
  if (const auto it = parameters_.find(name); it != parameters_.end()) return *it;
  if (!name.contains(QLatin1Char('.')) || name.startsWith(QLatin1String("torch.")) ||
      name.startsWith(QLatin1String("F.")) || name.startsWith(QLatin1String("kernels.")))
    return {};
  const QStringList own = parameters_.value(QStringLiteral("torch.") + name.section(QLatin1Char('.'), -1));
  return own.value(0) == QLatin1String("input") ? own.mid(1) : QStringList();
}

OpenCall openCall(const QString& text) {
  int depth = 0, commas = 0;
  qsizetype argument = text.size();
  for (qsizetype i = text.size() - 1; i >= 0; --i) {
    const QChar c = text[i];
    if (c == QLatin1Char('"') || c == QLatin1Char('\'')) {  // over the string
      const qsizetype open = i > 0 ? text.lastIndexOf(c, i - 1) : -1;
      if (open < 0) return {};
      i = open;
    } else if (c == QLatin1Char(')') || c == QLatin1Char(']')) {
      ++depth;
    } else if (depth > 0 && (c == QLatin1Char('(') || c == QLatin1Char('['))) {
      --depth;
    } else if (depth == 0 && c == QLatin1Char(',')) {
      if (commas++ == 0) argument = i + 1;
    } else if (c == QLatin1Char('[')) {
      commas = 0;  // within a list, which is one argument
      argument = text.size();
    } else if (c == QLatin1Char('(')) {
      static const QRegularExpression name(QStringLiteral("([A-Za-z_][\\w.]*)$")),
          before(QStringLiteral("\\bdef\\s+\\w*$")), keyword(QStringLiteral("^\\s*(\\w+)\\s*=(?!=)"));
      const QString head = text.left(i);
      const QRegularExpressionMatch match = name.match(head);
      if (!match.hasMatch()) {  // a bracket in an expression: the call around it
        commas = 0;
        argument = text.size();
        continue;
      }
      if (before.match(head).hasMatch()) return {};
      if (commas == 0) argument = i + 1;
      return {match.captured(1), keyword.match(text.mid(argument)).captured(1), commas};
    } else if (c == QLatin1Char(':') && text.mid(i + 1).startsWith(QLatin1Char('\n'))) {
      return {};  // the line that begins this block
    }
  }
  return {};
}

CallTip::CallTip(QWidget* parent) : QLabel(parent, Qt::ToolTip) {
  setAttribute(Qt::WA_ShowWithoutActivating);
  setTextFormat(Qt::RichText);
  setContentsMargins(8, 4, 8, 4);
  refreshTheme();
}

void CallTip::refreshTheme() {
  setFont(monospace());
  setCardColors(*this, themePalette());
}

void CallTip::paintEvent(QPaintEvent* e) {
  paintCard(*this, 4);
  QLabel::paintEvent(e);
}

void CallTip::dismiss() {
  dismissed_ = property("callee").toString();
  QWidget::hide();
}

void CallTip::showFor(const OpenCall& call, const QStringList& parameters, QPoint caret, int lineHeight) {
  setProperty("callee", call.callee);
  if (dismissed_ != call.callee) dismissed_.clear();
  if (call.callee.isEmpty() || parameters.isEmpty() || !dismissed_.isEmpty()) return QWidget::hide();
  int current = std::min<int>(call.argument, static_cast<int>(parameters.size()) - 1);
  if (!call.keyword.isEmpty())
    for (int i = 0; i < parameters.size(); ++i)
      if (parameters[i].section(QLatin1Char('='), 0, 0) == call.keyword) current = i;
  QStringList shown;
  for (int i = 0; i < parameters.size(); ++i) {
    const QString text = parameters[i].toHtmlEscaped();
    shown << (i == current ? QStringLiteral("<b style=\"color:%1\">%2</b>").arg(css(themePalette().accent), text)
                           : text);
  }
  setText(QStringLiteral("<span style=\"color:%1\">%2(</span>%3<span style=\"color:%1\">)</span>")
              .arg(css(themePalette().dim), call.callee.section(QLatin1Char('.'), -1).toHtmlEscaped(),
                   shown.join(QStringLiteral(", "))));
  // Long ones are broken rather than cut.
  constexpr int widest = 560;
  setWordWrap(false);
  setMinimumWidth(0);
  if (sizeHint().width() > widest) {
    setWordWrap(true);
    setMinimumWidth(widest);
  }
  resize(sizeHint().expandedTo(QSize(minimumWidth(), hasHeightForWidth() ? heightForWidth(minimumWidth()) : 0)));
  constexpr int gap = 3;
  QPoint at = caret - QPoint(0, height() + gap);
  const QRect room = screen() ? screen()->availableGeometry() : QRect();
  if (at.y() < room.top()) at.setY(caret.y() + lineHeight + gap);
  at.setX(std::clamp(at.x(), room.left(), std::max(room.left(), room.right() - width())));
  move(at);
  show();
}

}  // namespace graft
