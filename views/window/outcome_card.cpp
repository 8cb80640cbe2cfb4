#include "views/window/outcome_card.h"

#include <QApplication>
#include <QEvent>
#include <QHBoxLayout>
#include <algorithm>
#include <utility>

#include "views/widgets/theme.h"

namespace graft {

OutcomeCard::OutcomeCard(Document& document, QWidget& over) : QFrame(&over), document_(document), over_(over) {
  setObjectName(QStringLiteral("outcome"));
  setCursor(Qt::ArrowCursor);
  text_ = new QLabel(this);
  text_->setObjectName(QStringLiteral("outcomeText"));
  text_->setWordWrap(true);
  text_->setTextFormat(Qt::PlainText);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  go_ = new QPushButton(tr("Go there"), this);
  go_->setObjectName(QStringLiteral("outcomeGo"));
  dismiss_ = new QPushButton(tr("Dismiss"), this);
  dismiss_->setObjectName(QStringLiteral("outcomeDismiss"));
  auto* across = new QHBoxLayout(this);
  across->setContentsMargins(12, 6, 6, 6);
  across->setSpacing(6);
  across->addWidget(text_, 1);
  across->addWidget(go_, 0, Qt::AlignTop);
  across->addWidget(dismiss_, 0, Qt::AlignTop);
  hide();
  over_.installEventFilter(this);
  connect(go_, &QPushButton::clicked, this, &OutcomeCard::goOn);
  connect(dismiss_, &QPushButton::clicked, this, &QWidget::hide);
  connect(&document_, &Document::stepApplied, this, [this] { showOutcome(outcomeOf(document_.steps().back())); });
  connect(&document_, &Document::keptAsItWas, this, [this](const QString& why, const QStringList& advice) {
    showOutcome(
        {tr("Optimize: the model stays as it is, since %1").arg(why), advice.join(QLatin1Char('\n')), {}, false});
  });
  connect(&document_, &Document::opened, this, &QWidget::hide);
  connect(&document_, &Document::failed, this, &QWidget::hide);
  connect(&document_, &Document::stepsChanged, this, [this] {
    if (document_.position() != step_) hide();  // it tells of another state
  });
  connect(&document_, &Document::runChanged, this, [this] {
    if (document_.isRunning()) hide();  // one has gone on
  });
  connect(&document_, &Document::previewChanged, this, [this] {
    if (document_.isPreviewing()) hide();
  });
}

void OutcomeCard::showOutcome(Outcome outcome) {
  outcome_ = std::move(outcome);
  step_ = document_.position();
  next_ = 0;
  go_->setVisible(!outcome_.places.isEmpty());
  go_->setToolTip(outcome_.places.size() > 1
                      ? tr("Shows the first of %1 places; again, the next one").arg(outcome_.places.size())
                      : tr("Shows where it happened"));
  text_->setText(outcome_.text);
  text_->setToolTip(outcome_.details);
  setAccessibleName(outcome_.text);
  refreshTheme();
  show();
  raise();
  place();
}

void OutcomeCard::goOn() {
  if (outcome_.places.isEmpty()) return;
  Q_EMIT nodeAsked(outcome_.places[next_++ % outcome_.places.size()]);
}

/// As wide as its line, as far as the drawing has room; below a drawing's title.
void OutcomeCard::place() {
  constexpr int margin = 12, below = 40, widest = 760;
  const int room = std::max(120, over_.width() - 2 * margin);
  // What stands beside the words.
  const int beside = sizeHint().width() - text_->sizeHint().width();
  const int line = text_->fontMetrics().horizontalAdvance(outcome_.text) + 4;
  const int width = std::min({room, widest, beside + line});
  const int height = layout()->hasHeightForWidth() ? layout()->heightForWidth(width) : sizeHint().height();
  setGeometry((over_.width() - width) / 2, std::min(below, over_.height() / 8), width, height);
}

bool OutcomeCard::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && !isHidden()) place();
  // It stands on the drawing. Bad news waits until it was read.
  if (outcome_.isGood && (event->type() == QEvent::MouseButtonPress || event->type() == QEvent::Wheel)) hide();
  return QFrame::eventFilter(watched, event);
}

/// The keyboard goes to the drawing below: Qt would hand it to any widget, as to the text of the rules, where Ctrl+Z
/// means something else.
void OutcomeCard::hideEvent(QHideEvent* e) {
  if (isAncestorOf(QApplication::focusWidget())) over_.setFocus();
  QFrame::hideEvent(e);
}

void OutcomeCard::refreshTheme() {
  const Palette& p = themePalette();
  const Color tone = p.change(outcome_.isGood ? Change::Added : Change::Removed);
  setGround(*this, mix(p.background, tone, 0.14), mix(p.background, tone, 0.5));
}

void OutcomeCard::paintEvent(QPaintEvent*) { paintCard(*this, 7); }

}  // namespace graft
