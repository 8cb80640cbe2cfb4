#include "views/widgets/fixed_height_label.h"

#include <QEvent>
#include <QTextLayout>

namespace graft {
namespace {

/// `text` in lines of that width, and whether the last of them had to be elided.
std::pair<QString, bool> inLines(QString text, const QFont& font, int width, int lines) {
  text.replace(QLatin1Char('\n'), QChar::LineSeparator);
  QTextLayout layout(text, font);
  QTextOption wrap;
  wrap.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  layout.setTextOption(wrap);
  layout.beginLayout();
  QStringList out;
  bool elided = false;
  for (QTextLine line = layout.createLine(); line.isValid(); line = layout.createLine()) {
    line.setLineWidth(width);
    const QString rest = text.mid(line.textStart()).replace(QChar::LineSeparator, QLatin1Char(' '));
    if (out.size() + 1 < lines) {
      out << rest.left(line.textLength()).trimmed();
      continue;
    }
    out << QFontMetrics(font).elidedText(rest, Qt::ElideRight, width);
    elided = out.back() != rest;
    break;
  }
  layout.endLayout();
  return {out.join(QLatin1Char('\n')), elided};
}

}  // namespace

FixedHeightLabel::FixedHeightLabel(int lines, QWidget* parent) : QLabel(parent), lines_(lines) {
  setSizePolicy(QSizePolicy::Ignored, lines_ > 0 ? QSizePolicy::Fixed : QSizePolicy::Expanding);
  setAlignment((lines_ > 0 ? Qt::AlignVCenter : Qt::AlignTop) | Qt::AlignLeft);
}

void FixedHeightLabel::setLines(int lines) {
  if (lines == lines_) return;
  lines_ = lines;
  updateGeometry();
  lay();
}

void FixedHeightLabel::showText(const QString& text, Qt::TextFormat format) {
  if (text == fullText_ && format == textFormat()) return;
  fullText_ = text;
  setTextFormat(format);
  setWordWrap(format == Qt::RichText);
  lay();
}

QSize FixedHeightLabel::minimumSizeHint() const {
  const QMargins m = contentsMargins();
  return {m.left() + m.right() + 40, std::max(1, lines_) * fontMetrics().lineSpacing() + m.top() + m.bottom()};
}

void FixedHeightLabel::lay() {
  if (textFormat() == Qt::RichText) {
    elided_ = false;
    setText(fullText_);
  } else {
    const int lines = lines_ > 0 ? lines_ : std::max(1, contentsRect().height() / fontMetrics().lineSpacing());
    const auto [shown, elided] = inLines(fullText_.trimmed(), font(), contentsRect().width(), lines);
    elided_ = elided;
    setText(shown);
  }
  // As rich text the tip is wrapped, as plain text it would be one line across the screen.
  setToolTip(elided_ ? QStringLiteral("<qt>%1</qt>")
                           .arg(fullText_.toHtmlEscaped().replace(QLatin1Char('\n'), QLatin1String("<br>")))
                     : QString());
  setAccessibleName(textFormat() == Qt::RichText ? QString() : fullText_);
}

void FixedHeightLabel::resizeEvent(QResizeEvent* e) {
  QLabel::resizeEvent(e);
  lay();
}

void FixedHeightLabel::changeEvent(QEvent* e) {
  QLabel::changeEvent(e);
  if (e->type() == QEvent::FontChange || e->type() == QEvent::StyleChange) {
    updateGeometry();
    lay();
  }
}

}  // namespace graft
