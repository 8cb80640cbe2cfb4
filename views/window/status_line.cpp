#include "views/window/status_line.h"

#include <QEvent>
#include <QHash>
#include <QJsonArray>
#include <algorithm>
#include <utility>

namespace graft {

StatusLine::StatusLine(QStatusBar& bar, Document& document, EngineClient& engine, const Canvas& canvas)
    : QObject(&bar), bar_(bar), document_(document), engine_(engine), canvas_(canvas) {
  engineLabel_ = new QLabel(tr("engine: starting"));
  engineLabel_->setContentsMargins(10, 0, 8, 0);
  engineRetry_ = new QToolButton;
  engineRetry_->setText(tr("Start again"));
  engineRetry_->hide();
  countLabel_ = new QLabel;
  jobLabel_ = new QLabel;
  jobBar_ = new QProgressBar;
  jobBar_->setMaximumSize(120, 6);
  jobBar_->setTextVisible(false);
  jobStop_ = new QToolButton;
  jobStop_->setAccessibleName(tr("Cancel"));
  jobStop_->setObjectName(QStringLiteral("jobStop"));
  jobStop_->setText(tr("Cancel"));
  for (QWidget* w : std::initializer_list<QWidget*>{engineLabel_, engineRetry_, countLabel_}) bar.addWidget(w);
  for (QWidget* w : std::initializer_list<QWidget*>{jobLabel_, jobBar_, jobStop_}) {
    bar.addPermanentWidget(w);
    w->hide();
  }
  bar.installEventFilter(this);
  told_.setSingleShot(true);
  connect(&told_, &QTimer::timeout, &bar, &QStatusBar::clearMessage);
  connect(&bar, &QStatusBar::messageChanged, this, [this](const QString& text) {
    if (!text.isEmpty()) return;
    told_.stop();
    message_.clear();
    bar_.setToolTip({});
  });
  connect(engineRetry_, &QToolButton::clicked, this, [this] {
    engineRetry_->hide();
    engine_.start();
    refresh();
  });
  connect(jobStop_, &QToolButton::clicked, this, [this] {
    if (const int id = engine_.oldestPending()) engine_.cancel(id);
    jobStop_->setEnabled(false);
    jobLabel_->setText(tr("stopping"));
  });
  constexpr int often = 200;
  timer_.setInterval(often);
  connect(&timer_, &QTimer::timeout, this, &StatusLine::refreshJob);
  timer_.start();
  connectEngine();
  for (auto signal :
       {&Document::openingChanged, &Document::graphChanged, &Document::otherChanged, &Document::previewChanged,
        &Document::matchesChanged, &Document::currentRuleChanged, &Document::rulesChanged, &Document::runChanged})
    connect(&document_, signal, this, &StatusLine::refresh);
  connect(&canvas_, &Canvas::sceneChanged, this, &StatusLine::refresh);
}

void StatusLine::connectEngine() {
  connect(&engine_, &EngineClient::progress, this, [this](int id, const QString& what, qint64 done, qint64 total) {
    if (id != engine_.oldestPending()) return;
    progress_ = what;
    jobBar_->setRange(0, static_cast<int>(total));
    jobBar_->setValue(static_cast<int>(done));
  });
  connect(&engine_, &EngineClient::finished, this, [this] {
    progress_.clear();
    jobBar_->setRange(0, 0);
    jobStop_->setEnabled(true);
    refreshJob();
  });
  connect(&engine_, &EngineClient::up, this, [this] {
    engineRetry_->hide();
    if (std::exchange(warned_, false)) Q_EMIT overcome();
    refresh();
  });
  connect(&engine_, &EngineClient::down, this, &StatusLine::refresh);
  connect(&engine_, &EngineClient::gaveUp, this, [this] {
    engineRetry_->show();
    warned_ = false;
    refresh();
  });
}

void StatusLine::tell(const QString& text, int milliseconds) {
  message_ = text;
  cutMessage();
  told_.start(milliseconds);
}

void StatusLine::cutMessage() {
  constexpr int margins = 24;
  int room = bar_.width() - margins;
  for (const QWidget* w : std::initializer_list<const QWidget*>{jobLabel_, jobBar_, jobStop_})
    if (w->isVisibleTo(&bar_)) room = std::min(room, w->x() - margins);
  const QString whole = message_;
  const QString shown = bar_.fontMetrics().elidedText(whole, Qt::ElideMiddle, std::max(room, 0));
  bar_.showMessage(shown);
  message_ = whole;
  bar_.setToolTip(shown == whole ? QString() : QStringLiteral("<qt>%1</qt>").arg(whole.toHtmlEscaped()));
}

bool StatusLine::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && !message_.isEmpty()) cutMessage();
  return QObject::eventFilter(watched, event);
}

QString StatusLine::text() const { return engineLabel_->text() + QStringLiteral(" · ") + countLabel_->text(); }

void StatusLine::refresh() {
  QStringList devices;
  for (const QJsonValue d : engine_.hello().value(QLatin1String("devices")).toArray())
    devices << d.toObject().value(QLatin1String("name")).toString();
  engineLabel_->setText(engine_.isUp()             ? tr("engine: %1").arg(devices.join(QStringLiteral(", ")))
                        : engineRetry_->isHidden() ? tr("engine: starting")
                                                   : tr("engine: not running"));
  QStringList parts;
  if (const GraphRef g = document_.graph()) {
    const SceneRef scene = canvas_.scene();
    const auto boxes = static_cast<qint64>(scene ? scene->view.boxes.size() : 0);
    parts << counted(static_cast<qint64>(g->nodeCount()), tr("node"), tr("nodes"));
    if (canvas_.isPartial())
      parts << tr("the first %1 boxes; the others are being laid out").arg(boxes);
    else if (scene)
      parts << counted(boxes, tr("box"), tr("boxes"));
    if (const RuleInfo* r = document_.rule(document_.currentRule()); r && r->matched)
      parts << counted(static_cast<qint64>(r->matches.size()), tr("match"), tr("matches"));
  }
  countLabel_->setText(parts.join(QStringLiteral(" · ")));
  refreshJob();
}

void StatusLine::refreshJob() {
  constexpr qint64 aMoment = 400, toStart = 3000;
  const int id = engine_.oldestPending();
  const qint64 waited = id != 0 ? engine_.waitedFor(id) : 0;
  const bool isSilent = !engine_.isUp() && waited > engine_.startPatience();
  const bool isBusy = isSilent || waited > (engine_.isUp() ? aMoment : toStart);
  if (isSilent) warnOfSilence(waited);
  for (QWidget* w : std::initializer_list<QWidget*>{jobLabel_, jobBar_, jobStop_}) w->setVisible(isBusy);
  if (!isBusy || !jobStop_->isEnabled()) return;
  static const QHash<QString, QString> words = {{QStringLiteral("initialize"), tr("starting the engine")},
                                                {QStringLiteral("model/open"), tr("reading the model")},
                                                {QStringLiteral("model/close"), tr("closing a model")},
                                                {QStringLiteral("model/undoTo"), tr("going to a step")},
                                                {QStringLiteral("rules/check"), tr("reading the rules")},
                                                {QStringLiteral("rules/words"), tr("listing what rules can call")},
                                                {QStringLiteral("node/describe"), tr("describing a node")},
                                                {QStringLiteral("node/source"), tr("reading the source")},
                                                {QStringLiteral("model/run"), tr("running")},
                                                {QStringLiteral("model/optimize"), tr("trying recipes")},
                                                {QStringLiteral("model/export"), tr("writing the model")},
                                                {QStringLiteral("model/diff"), tr("comparing texts")},
                                                {QStringLiteral("rules/match"), tr("matching")},
                                                {QStringLiteral("rules/apply"), tr("rewriting")},
                                                {QStringLiteral("rules/explain"), tr("explaining")},
                                                {QStringLiteral("node/weight"), tr("reading a weight")},
                                                {QStringLiteral("compile/plan"), tr("planning kernels")},
                                                {QStringLiteral("compile/code"), tr("generating code")},
                                                {QStringLiteral("compile/steer"), tr("planning kernels")},
                                                {QStringLiteral("compile/edit"), tr("verifying a kernel")},
                                                {QStringLiteral("compile/apply"), tr("putting kernels in place")},
                                                {QStringLiteral("compile/usage"), tr("compiling kernels for a GPU")},
                                                {QStringLiteral("captured/graphs"), tr("reading the capture")},
                                                {QStringLiteral("library/load"), tr("loading operators")},
                                                {QStringLiteral("model/captured"), tr("reading the model")},
                                                {QStringLiteral("model/sideBySide"), tr("running side by side")},
                                                {QStringLiteral("model/timeline"), tr("recording one run")},
                                                {QStringLiteral("training/cut"), tr("cutting the training step")}};
  const QString method = engine_.methodOf(id);
  const bool isOpening = method == QLatin1String("model/open") && document_.isOpening();
  jobLabel_->setText(isOpening ? tr("reading %1").arg(document_.openingName())
                     : progress_.isEmpty() || method == QLatin1String("model/timeline") ? words.value(method, method)
                                                                                        : progress_);
}

/// Once for each engine that does not come up.
void StatusLine::warnOfSilence(qint64 milliseconds) {
  if (std::exchange(warned_, true)) return;
  Q_EMIT failed(tr("The engine has not answered for %1 seconds. Graft goes on waiting; Cancel, below, gives it up")
                    .arg(milliseconds / 1000),
                engine_.command().join(QLatin1Char(' ')));
}

}  // namespace graft
