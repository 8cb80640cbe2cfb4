#include "views/window/failure_bar.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QPushButton>

#include "views/widgets/theme.h"

namespace graft {

FailureBar::FailureBar(Document& document, EngineClient& engine, QWidget* parent)
    : QWidget(parent), document_(document) {
  setObjectName(QStringLiteral("failure"));
  text_ = new QLabel(this);
  text_->setObjectName(QStringLiteral("failureText"));
  text_->setWordWrap(true);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  auto* copy = new QPushButton(tr("Copy details"), this);
  auto* dismiss = new QPushButton(tr("Dismiss"), this);
  auto* across = new QHBoxLayout(this);
  across->setContentsMargins(12, 6, 12, 6);
  across->addWidget(text_, 1);
  across->addWidget(copy);
  across->addWidget(dismiss);
  connect(copy, &QPushButton::clicked, this, [this] { QApplication::clipboard()->setText(details_); });
  connect(dismiss, &QPushButton::clicked, this, &QWidget::hide);
  hide();
  connect(&document_, &Document::failed, this, &FailureBar::showFailure);
  // These overcome what went wrong before.
  connect(&document_, &Document::opened, this, &QWidget::hide);
  connect(&document_, &Document::stepsChanged, this, &QWidget::hide);
  connect(&document_, &Document::exported, this, &QWidget::hide);
  connect(&document_, &Document::previewChanged, this, [this] {
    if (document_.isPreviewing()) hide();
  });
  followEngine(engine);
}

void FailureBar::followEngine(EngineClient& engine) {
  connect(&engine, &EngineClient::down, this, [this](const QString& why) {
    showFailure(tr("%1. A new engine is being started; your model, rules and steps are untouched").arg(why), why);
    engineLoss_ = details_;
  });
  connect(&document_, &Document::engineReplaced, this, [this] {
    // The end of that story, unless something else has gone wrong since.
    if (!engineLoss_.isEmpty() && engineLoss_ == details_ && !isHidden()) {
      const QString why = engineLoss_.section(QLatin1Char('\n'), 1);
      showFailure(tr("%1. A new engine is at work; your model, rules and steps are as before").arg(why), why);
    }
    engineLoss_.clear();
  });
  connect(&engine, &EngineClient::gaveUp, this, [this, &engine](const QString& why) {
    showFailure(tr("The engine does not start (%1). Models cannot be read or run until it does")
                    .arg(engine.command().join(QLatin1Char(' '))),
                why);
  });
}

void FailureBar::showFailure(const QString& what, const QString& why) {
  details_ = what + QLatin1Char('\n') + why;
  refreshTheme();
  const QString detail =
      why == what || what.contains(why) ? QString() : QStringLiteral(": ") + why.section(QLatin1Char('\n'), 0, 2);
  text_->setText(what + detail + (detail.endsWith(QLatin1Char('.')) ? QString() : QStringLiteral(".")));
  show();
}

void FailureBar::refreshTheme() {
  const Palette& p = themePalette();
  setAutoFillBackground(true);
  const Color tone = p.change(Change::Removed);
  setGround(*this, mix(p.background, tone, 0.16), mix(p.background, tone, 0.5));
}

}  // namespace graft
