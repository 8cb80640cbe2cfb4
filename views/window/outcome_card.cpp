#include "views/window/outcome_card.h"

#include <QApplication>
#include <QEvent>
#include <QHBoxLayout>
#include <QTimer>
#include <algorithm>
#include <utility>

#include "views/widgets/theme.h"

namespace graft {

OutcomeCard::OutcomeCard(Document& document, Canvas& over) : QFrame(&over), document_(document), over_(over) {
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
  connect(&over_, &Canvas::sceneChanged, this, [this] {
    if (!isHidden()) place();
  });
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

/// What it would hide there: the area of boxes, and all the more of what stands still over them.
double OutcomeCard::hides(const QRect& area) const {
  const SceneRef scene = over_.scene();
  if (!scene) return 0;
  const auto common = [&](const QRectF& r) {
    const QRectF both = r.intersected(area);
    return both.width() * both.height();
  };
  constexpr double most = 4;
  const CanvasFrame frame = over_.frame();
  double sum = most * (common(frame.legendPlace()) + common(frame.topPlace()));
  for (const EdgeMark& mark : frame.marks()) sum += most * common(mark.place);
  for (const QWidget* beside : over_.findChildren<QWidget*>(Qt::FindDirectChildrenOnly))
    if (beside != this && beside->isVisible()) sum += most * common(beside->geometry());
  for (size_t i = 0; i < scene->view.boxes.size(); ++i) {
    if (scene->view.boxes[i].open) continue;
    const QRectF r = scene->rect(static_cast<int>(i));
    sum += common({over_.toWidget(r.topLeft()), r.size() * over_.scale()});
  }
  return sum;
}

/// In one line below a drawing's title where that hides nothing; else wherever, and as narrow as, it hides the least.
void OutcomeCard::place() {
  constexpr int margin = 12, below = 40, widest = 760, narrow = 300;
  const int room = std::max(120, over_.width() - 2 * margin);
  // What stands beside the words.
  const int beside = sizeHint().width() - text_->sizeHint().width();
  const int line = text_->fontMetrics().horizontalAdvance(outcome_.text) + 4;
  const int wide = std::min({room, widest, beside + line});
  const int top = std::min(below, over_.height() / 8);
  QRect best;
  double least = 0;
  for (const int width : {wide, std::min({room, 2 * narrow, wide}), std::min({room, narrow + beside, wide})}) {
    const int height = layout()->hasHeightForWidth() ? layout()->heightForWidth(width) : sizeHint().height();
    const int middle = (over_.width() - width) / 2, right = over_.width() - margin - width,
              bottom = std::max(top, over_.height() - margin - height);
    for (const QPoint at :
         {QPoint(middle, top), QPoint(right, top), QPoint(margin, top), QPoint(middle, bottom), QPoint(right, bottom),
          QPoint(margin, bottom), QPoint(right, (top + bottom) / 2), QPoint(margin, (top + bottom) / 2)}) {
      const QRect place(at, QSize(width, height));
      const double hidden = hides(place);
      if (!best.isNull() && hidden >= least) continue;
      best = place;
      least = hidden;
    }
  }
  setGeometry(best);
}

bool OutcomeCard::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && !isHidden())
    QTimer::singleShot(0, this, [this] {  // once the drawing has its place, too
      if (!isHidden()) place();
    });
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
  const Color tone = p.change(!outcome_.isGood        ? Change::Removed
                              : outcome_.isUnverified ? Change::Changed
                                                      : Change::Added);
  setGround(*this, mix(p.background, tone, 0.14), mix(p.background, tone, 0.5));
}

void OutcomeCard::paintEvent(QPaintEvent*) { paintCard(*this, 7); }

}  // namespace graft
