#include "views/panels/diff_view.h"

#include <QFileInfo>
#include <QRegularExpression>
#include <QSyntaxHighlighter>
#include <QVBoxLayout>

#include "views/canvas/canvas_scene.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// Lines wear the colours that canvases give to what was removed and added; the glyph stands first in each.
class DiffHighlighter : public QSyntaxHighlighter {
 public:
  using QSyntaxHighlighter::QSyntaxHighlighter;

 protected:
  void highlightBlock(const QString& line) override {
    const Palette& p = themePalette();
    QTextCharFormat format;
    if (line.startsWith(QLatin1Char('+')) || line.startsWith(QStringLiteral("−"))) {
      const Color color = p.change(line.startsWith(QLatin1Char('+')) ? Change::Added : Change::Removed);
      format.setBackground(toQt(mix(p.background, color, p.dark ? 0.24 : 0.14)));
      format.setForeground(toQt(p.text));
    } else if (line.startsWith(QStringLiteral("@@"))) {
      format.setForeground(toQt(p.accent));
    } else {
      format.setForeground(toQt(p.dim));
    }
    setFormat(0, static_cast<int>(line.size()), format);
  }
};

}  // namespace

DiffView::DiffView(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  head_ = new QLabel(this);
  head_->setContentsMargins(12, 8, 12, 8);
  head_->setWordWrap(true);
  text_ = new QPlainTextEdit(this);
  text_->setAccessibleName(tr("Differences as text"));
  text_->setReadOnly(true);
  text_->setLineWrapMode(QPlainTextEdit::NoWrap);
  text_->setFrameShape(QFrame::NoFrame);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  new DiffHighlighter(text_->document());
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(head_);
  column->addWidget(text_, 1);
  const auto changed = [this] {
    isOld_ = true;
    if (isVisible()) ask();
  };
  connect(&document_, &Document::graphChanged, this, changed);
  connect(&document_, &Document::otherChanged, this, changed);
  connect(text_, &QPlainTextEdit::cursorPositionChanged, this, &DiffView::choose);
  refreshTheme();
}

void DiffView::refreshTheme() {
  text_->setFont(monospace());
  show(lines_);
}

void DiffView::showEvent(QShowEvent*) {
  if (isOld_) ask();
}

void DiffView::ask() {
  isOld_ = false;
  if (!document_.isOpen()) return show({});
  const GraphRef asked = document_.graph();
  document_.askDiff([this, asked](const EngineReply& reply) {
    if (asked != document_.graph()) return;  // another answer is on its way
    if (reply.ok()) return show(reply.result.value(QLatin1String("lines")).toArray());
    isOld_ = true;
    head_->setText(tr("The texts were not compared: %1").arg(reply.error));
  });
}

void DiffView::show(const QJsonArray& lines) {
  lines_ = lines;
  int removed = 0, added = 0;
  QString all;
  for (const QJsonValue v : lines) {
    const QJsonObject l = v.toObject();
    const QString kind = l.value(QLatin1String("kind")).toString(), text = l.value(QLatin1String("text")).toString();
    removed += kind == QLatin1String("-");
    added += kind == QLatin1String("+");
    if (kind == QLatin1String("@"))
      all += (all.isEmpty() ? QString() : QStringLiteral("\n")) + text + QLatin1Char('\n');
    else
      all += (kind == QLatin1String("-") ? QStringLiteral("−") : kind) + text + QLatin1Char('\n');
  }
  filling_ = true;
  text_->setPlainText(all);
  filling_ = false;
  const QString before =
      document_.otherPath().isEmpty() ? tr("the model as opened") : QFileInfo(document_.otherPath()).fileName();
  head_->setText(lines.isEmpty() ? tr("No line differs from %1.").arg(before)
                                 : tr("Against %1: − %2, + %3")
                                       .arg(before, counted(removed, tr("line"), tr("lines")),
                                            counted(added, tr("line"), tr("lines"))));
}

void DiffView::choose() {
  if (filling_) return;
  // "  %softmax_1, %x = aten.softmax.int(…": the first value's name is its node's, or stands for it.
  static const QRegularExpression value(QStringLiteral("^[ +−]\\s*(?:\"[^\"]*\"\\S*\\s+)?%([^ ,:=]+)"));
  const QRegularExpressionMatch match = value.match(text_->textCursor().block().text());
  const GraphRef graph = document_.graph(), original = document_.original();
  if (!match.hasMatch() || !graph) return;
  const std::string name = match.captured(1).toStdString();
  for (const GraphRef& g : {graph, original}) {
    const ValueId v = g->findValue(name);
    if (!v || !g->value(v).producer) continue;
    return Q_EMIT chosen(QString::fromStdString(g->node(g->value(v).producer).name));
  }
}

}  // namespace graft
