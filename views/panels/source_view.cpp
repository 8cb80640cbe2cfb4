#include "views/panels/source_view.h"

#include <QHBoxLayout>
#include <QJsonArray>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "views/canvas/canvas_scene.h"
#include "views/document/model_files.h"
#include "views/widgets/python_style.h"
#include "views/widgets/qscintilla.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

constexpr int lineMarker = 3;

}  // namespace

SourceView::SourceView(QWidget* parent) : QWidget(parent) {
  head_ = new QLabel(this);
  head_->setContentsMargins(12, 4, 4, 4);
  head_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  head_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);  // a long name makes no panel wider
  auto* close = new QToolButton(this);
  close->setAccessibleName(tr("Close the source"));
  close->setText(QStringLiteral("×"));
  close->setAutoRaise(true);
  close->setToolTip(tr("Hide the source"));
  connect(close, &QToolButton::clicked, this, &SourceView::closed);
  view_ = new QsciScintilla(this);
  view_->setAccessibleName(tr("Python source"));
  view_->setUtf8(true);
  view_->setReadOnly(true);
  view_->setFrameShape(QFrame::NoFrame);
  view_->setMarginType(0, QsciScintilla::TextMarginRightJustified);
  view_->setMarginWidth(1, 0);
  view_->setScrollWidth(1);
  view_->setScrollWidthTracking(true);
  view_->markerDefine(QsciScintilla::Background, lineMarker);
  lexer_ = new QsciLexerPython(view_);
  view_->setLexer(lexer_);
  auto* across = new QHBoxLayout;
  across->setContentsMargins(0, 0, 4, 0);
  across->addWidget(head_, 1);
  across->addWidget(close);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addLayout(across);
  column->addWidget(view_, 1);
  setMinimumHeight(120);
  refreshTheme();
}

void SourceView::refreshTheme() {
  stylePython(*view_, *lexer_);
  const Palette& p = themePalette();
  view_->setMarkerBackgroundColor(toQt(mix(p.background, p.accent, p.dark ? 0.35 : 0.18)), lineMarker);
  numberLines();
}

/// As in the file. The numbers have colours of their own.
void SourceView::numberLines() {
  if (line_ == 0) return;
  const QsciStyle style(0, QString(), toQt(themePalette().faint()), toQt(themePalette().background), monospace());
  for (int i = 0; i < view_->lines(); ++i) view_->setMarginText(i, QString::number(first_ + i), style);
}

void SourceView::setSource(const QJsonObject& source) {
  const QString file = source.value(QLatin1String("file")).toString();
  first_ = source.value(QLatin1String("first")).toInt(1);
  line_ = source.value(QLatin1String("line")).toInt();
  QStringList lines;
  for (const QJsonValue l : source.value(QLatin1String("lines")).toArray()) lines << l.toString();
  setHeading(QStringLiteral("%1:%2").arg(shortSourceName(file)).arg(line_));
  head_->setToolTip((source.value(QLatin1String("from")).toString() == QLatin1String("file")
                         ? tr("%1:%2, from the file on the engine's machine")
                         : tr("%1:%2. The file is not there; the model holds this line alone"))
                        .arg(file)
                        .arg(line_));
  view_->setText(lines.join(QLatin1Char('\n')));
  numberLines();
  view_->setMarginWidth(0, QString::number(first_ + lines.size()) + QStringLiteral("0"));
  view_->markerDeleteAll();
  view_->markerAdd(line_ - first_, lineMarker);
  view_->setFirstVisibleLine(std::max(0, line_ - first_ - 4));
}

void SourceView::setHeading(const QString& text) {
  heading_ = text;
  const int room = head_->width() > 0 ? head_->contentsRect().width() : 0;
  head_->setText(room > 0 ? head_->fontMetrics().elidedText(text, Qt::ElideLeft, room) : text);
}

void SourceView::resizeEvent(QResizeEvent* e) {
  QWidget::resizeEvent(e);
  layout()->activate();  // the heading has its new width
  setHeading(heading_);
}

void SourceView::setNone(const QString& why) {
  line_ = 0;
  setHeading(tr("No source"));
  head_->setToolTip(QString());
  view_->setText(QStringLiteral("# ") + why);
  view_->clearMarginText();
  view_->markerDeleteAll();
}

QString SourceView::text() const { return view_->text(); }

}  // namespace graft
