#include "views/window/files/opening_note.h"

#include <QHBoxLayout>
#include <QVBoxLayout>

#include "views/widgets/theme.h"

namespace graft {

OpeningNote::OpeningNote(Form form, Document& document, EngineClient& engine, QWidget* parent)
    : QWidget(parent), document_(document), engine_(engine), form_(form) {
  setObjectName(form == Page ? QStringLiteral("openingPage") : QStringLiteral("openingBar"));
  name_ = new FixedHeightLabel(1, this);
  doing_ = new FixedHeightLabel(1, this);
  progress_ = new QProgressBar(this);
  progress_->setTextVisible(false);
  progress_->setMaximumHeight(6);
  progress_->setAccessibleName(tr("How far the model is opened"));
  cancel_ = new QPushButton(tr("Cancel"), this);
  cancel_->setToolTip(tr("Stops opening the model"));
  cancel_->setAutoDefault(true);  // Return presses it where it has the keyboard
  setFocusProxy(cancel_);
  QFont heavy = font();
  heavy.setWeight(QFont::DemiBold);
  if (form == Page) {
    constexpr int wide = 420;
    heavy.setPointSizeF(heavy.pointSizeF() * 1.25);
    setBackgroundRole(QPalette::Base);
    setAutoFillBackground(true);
    auto* inner = new QWidget(this);
    inner->setFixedWidth(wide);
    auto* column = new QVBoxLayout(inner);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(8);
    for (QWidget* w : std::initializer_list<QWidget*>{name_, progress_, doing_}) column->addWidget(w);
    column->addWidget(cancel_, 0, Qt::AlignLeft);
    auto* outer = new QVBoxLayout(this);
    outer->addStretch(2);
    outer->addWidget(inner, 0, Qt::AlignHCenter);
    outer->addStretch(3);
  } else {
    constexpr int wide = 180;
    progress_->setFixedWidth(wide);
    auto* across = new QHBoxLayout(this);
    across->setContentsMargins(12, 6, 12, 6);
    across->setSpacing(12);
    across->addWidget(name_, 2);
    across->addWidget(doing_, 2);
    across->addWidget(progress_);
    across->addWidget(cancel_);
    refreshTheme();
  }
  name_->setFont(heavy);
  connect(cancel_, &QPushButton::clicked, &document_, &Document::cancelOpening);
  connect(&document_, &Document::openingChanged, this, [this] {
    what_.clear();
    refresh();
  });
  connect(&document_, &Document::runProgress, this, [this](const QString& what, qint64 done, qint64 total) {
    if (!document_.isOpening()) return;
    what_ = what;
    refresh();
    progress_->setRange(0, static_cast<int>(total));
    progress_->setValue(static_cast<int>(done));
  });
  connect(&engine_, &EngineClient::up, this, &OpeningNote::refresh);
  connect(&engine_, &EngineClient::down, this, &OpeningNote::refresh);
}

void OpeningNote::refresh() {
  if (!document_.isOpening()) return progress_->setRange(0, 1);  // nothing moves out of sight
  name_->showText(tr("Opening %1 …").arg(document_.openingName()));
  doing_->showText(!engine_.isUp()   ? tr("Starting the engine")
                   : what_.isEmpty() ? tr("Reading the file")
                                     : what_.left(1).toUpper() + what_.mid(1));
  setAccessibleName(text());
  progress_->setRange(0, 0);
}

void OpeningNote::refreshTheme() {
  if (form_ == Page) return;
  const Palette& p = themePalette();
  setAutoFillBackground(true);
  setGround(*this, mix(p.background, p.accent, 0.12), mix(p.background, p.accent, 0.4));
}

}  // namespace graft
