#include "views/window/files/window_session.h"

#include <QFileInfo>
#include <QJsonArray>
#include <cmath>
#include <utility>

#include "views/document/captured/training_cut.h"
#include "views/document/graph_decode.h"
#include "views/panels/rules/rule_editor.h"
#include "views/panels/run/run_panel.h"
#include "views/panels/run/side_by_side_panel.h"
#include "views/window/comparison.h"
#include "views/window/files/window_files.h"
#include "views/window/panel_docks.h"

namespace graft {
namespace {

/// The box that is nearest to `at` and holds no others; -1 where there is none. A place in a drawing is said by it:
/// another layout has it elsewhere.
int boxNearest(const Scene& scene, QPointF at) {
  int nearest = -1;
  double best = 0;
  for (size_t i = 0; i < scene.view.boxes.size(); ++i) {
    const double far = (scene.rect(static_cast<int>(i)).center() - at).manhattanLength();
    if (scene.view.boxes[i].open || (nearest >= 0 && far >= best)) continue;
    nearest = static_cast<int>(i), best = far;
  }
  return nearest;
}

QJsonArray toJson(QPointF p) { return {std::round(p.x()), std::round(p.y())}; }

QPointF pointOf(const QJsonValue& v) { return {v.toArray().at(0).toDouble(), v.toArray().at(1).toDouble()}; }

}  // namespace

WindowSession::WindowSession(Document& document, TrainingCut& cut, Comparison& comparison, PanelDocks& docks,
                             WindowFiles& files, QObject* parent)
    : QObject(parent), document_(document), cut_(cut), comparison_(comparison), docks_(docks), files_(files) {
  constexpr int often = 2000;
  timer_.setInterval(often);
  connect(&timer_, &QTimer::timeout, this, &WindowSession::autosave);
  timer_.start();
  connect(comparison_.canvas(), &Canvas::sceneChanged, this, &WindowSession::resumeView);
  connect(&document_, &Document::restored, this, &WindowSession::resumeMeasured);
  connect(&document_, &Document::restored, this, &WindowSession::resumeView);
}

QJsonObject WindowSession::state() const {
  const auto* editor = docks_.panel<RuleEditor>();
  QJsonObject state = document_.state();
  state.insert(QStringLiteral("rules"), editor->text());
  state.insert(QStringLiteral("rulesFile"), editor->file());
  state.insert(QStringLiteral("rulesModified"), editor->isModified());
  state.insert(QStringLiteral("arrangement"), static_cast<int>(docks_.arrangement()));
  state.insert(QStringLiteral("runInputs"), docks_.panel<RunPanel>()->inputsText());
  state.insert(QStringLiteral("measured"), measured_.isEmpty() ? measuredState() : measured_);
  // A view that is still to be restored counts as restored.
  state.insert(QStringLiteral("view"), resumed_.isEmpty() ? viewState() : resumed_);
  return state;
}

/// What panels measured, beside what the document knows.
QJsonObject WindowSession::measuredState() const {
  return {{QStringLiteral("model"), document_.path()},
          {QStringLiteral("run"), docks_.panel<RunPanel>()->state()},
          {QStringLiteral("sideBySide"), docks_.panel<SideBySidePanel>()->list().state()}};
}

/// The steps are there: what was measured of them is shown again.
void WindowSession::resumeMeasured() {
  const QJsonObject measured = std::exchange(measured_, {});
  if (measured.isEmpty() || measured.value(QLatin1String("model")).toString() != document_.path()) return;
  docks_.panel<RunPanel>()->restore(measured.value(QLatin1String("run")).toObject());
  docks_.panel<SideBySidePanel>()->list().restore(measured.value(QLatin1String("sideBySide")).toObject());
}

QJsonObject WindowSession::viewState() const {
  // A preview is not taken up again: the model as it is stands beside it.
  const Canvas* canvas = document_.isPreviewing() ? comparison_.before() : comparison_.canvas();
  if (!canvas->scene() || canvas->isPartial()) return {};
  const ViewOptions& options = comparison_.moduleOptions();
  const auto list = [](const std::set<std::string, std::less<>>& paths) {
    QJsonArray out;
    for (const std::string& path : paths) out << toQt(path);
    return out;
  };
  const QPointF middle = canvas->visibleSceneRect().center();
  const int nearest = boxNearest(*canvas->scene(), middle);
  if (nearest < 0) return {};
  QJsonObject cut;
  if (document_.isJoint()) {
    cut = cut_.wishes();
    cut.insert(QStringLiteral("isShown"), cut_.isActive());
  }
  return {{QStringLiteral("model"), document_.path()},
          {QStringLiteral("method"), document_.method()},
          {QStringLiteral("other"), document_.otherPath()},
          {QStringLiteral("otherMethod"), document_.otherMethod()},
          {QStringLiteral("cut"), cut},
          {QStringLiteral("depth"), options.depth},
          {QStringLiteral("opened"), list(options.opened)},
          {QStringLiteral("closed"), list(options.closed)},
          {QStringLiteral("unfolded"), list(options.unfolded)},
          {QStringLiteral("scale"), canvas->scale()},
          {QStringLiteral("at"),
           selectionKey(*canvas->scene()->graph, canvas->scene()->view.boxes[static_cast<size_t>(nearest)])},
          {QStringLiteral("beside"), toJson(middle - canvas->scene()->rect(nearest).center())},
          {QStringLiteral("selection"), QJsonArray::fromStringList(document_.selection())}};
}

void WindowSession::resumeOptions() {
  if (resumed_.isEmpty()) return;
  const auto list = [this](const char* key) {
    std::set<std::string, std::less<>> out;
    for (const QJsonValue v : resumed_.value(QLatin1String(key)).toArray()) out.insert(v.toString().toStdString());
    return out;
  };
  const QString method = resumed_.value(QLatin1String("method")).toString();
  if (resumed_.value(QLatin1String("model")).toString() != document_.path() ||
      (!method.isEmpty() && method != document_.method())) {
    resumed_ = {};
    return;
  }
  ViewOptions options = comparison_.canvas()->viewOptions();
  options.depth = resumed_.value(QLatin1String("depth")).toInt(options.depth);
  options.opened = list("opened");
  options.closed = list("closed");
  options.unfolded = list("unfolded");
  comparison_.canvas()->setViewOptions(options);
  const QString other = resumed_.value(QLatin1String("other")).toString();
  if (!other.isEmpty()) document_.compareWith(other, resumed_.value(QLatin1String("otherMethod")).toString());
  const QJsonObject cut = resumed_.value(QLatin1String("cut")).toObject();
  if (cut.isEmpty() || !document_.isJoint()) return;
  cut_.setWishes(cut);
  if (cut.value(QLatin1String("isShown")).toBool()) Q_EMIT trainingAsked();
}

/// It is drawn: the view is where it was.
void WindowSession::resumeView() {
  Canvas* canvas = comparison_.canvas();
  if (resumed_.isEmpty() || !canvas->scene() || canvas->isPartial() || document_.isRestoring()) return;
  const QJsonObject view = std::exchange(resumed_, {});
  const int at = canvas->scene()->boxOfKey.value(view.value(QLatin1String("at")).toString(), -1);
  const double scale = view.value(QLatin1String("scale")).toDouble();
  if (at >= 0 && scale > 0) {
    canvas->setView(canvas->origin(), scale);
    canvas->panTo(canvas->scene()->rect(at).center() + pointOf(view.value(QLatin1String("beside"))));
  }
  QStringList selection;
  for (const QJsonValue v : view.value(QLatin1String("selection")).toArray()) selection << v.toString();
  if (!selection.isEmpty()) document_.setSelection(selection);
}

void WindowSession::autosave() {
  // While a model is being opened, the file from before still has everything.
  if (document_.isOpening() || (!document_.isOpen() && docks_.panel<RuleEditor>()->text().isEmpty())) return;
  QString why;
  const bool ok = file_.save(state(), why);
  if (!ok && !saidNotSaved_) Q_EMIT failed(tr("Your work cannot be saved: a crash would lose it"), why);
  saidNotSaved_ = !ok;
}

QJsonObject WindowSession::restore(bool files) {
  const SessionFile::Found found = file_.takeUp();
  const QJsonObject& state = found.state;
  if (!found.wasKilled && !files) return state;
  const auto text = [&](const char* key) { return state.value(QLatin1String(key)).toString(); };
  const bool isModified = state.value(QLatin1String("rulesModified")).toBool();
  auto* editor = docks_.panel<RuleEditor>();
  const QString rules = text("rulesFile");
  editor->setFile(rules);
  // Saved rules are read again: another program may have edited them.
  if (!isModified && QFileInfo::exists(rules))
    files_.openRules(rules);
  else
    editor->setText(text("rules"), isModified);
  resumed_ = state.value(QLatin1String("view")).toObject();
  measured_ = state.value(QLatin1String("measured")).toObject();
  document_.restore(state);
  docks_.panel<RunPanel>()->setInputs(text("runInputs"));
  const qsizetype steps = stepsOf(state);
  if (!found.wasKilled || (!isModified && steps == 0)) return state;
  // Later, once the status bar is shown: it would write over its labels before. Who starts the window may have named
  // another model meanwhile.
  QTimer::singleShot(0, this, [this, steps, model = text("model")] {
    const bool isOpening = document_.unrestored().value(QLatin1String("model")).toString() == model;
    const QString counts = counted(steps, tr("step"), tr("steps"));
    if (steps == 0)
      Q_EMIT message(tr("The last window was not closed: its rules are here again"));
    else if (isOpening)
      Q_EMIT message(tr("The last window was not closed: its rules are here again, its model is being opened and %1 "
                        "done again")
                         .arg(counts));
    else
      Q_EMIT message(tr("The last window was not closed: its rules are here again, and %1 of %2 are kept until it is "
                        "opened again")
                         .arg(counts, QFileInfo(model).fileName()));
  });
  return state;
}

void WindowSession::close() {
  timer_.stop();
  file_.close(state());
}

}  // namespace graft
