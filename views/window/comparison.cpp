#include "views/window/comparison.h"

#include <QFileInfo>
#include <QTimer>
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "core/text/text.h"
#include "views/canvas/label_places.h"
#include "views/document/compile/compilation.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/widgets/theme.h"

namespace graft {
namespace {

/// A text takes a moment: of larger graphs nothing is said.
bool haveSameText(const Graph& a, const Graph& b) {
  constexpr size_t most = 20'000;
  if (a.nodeCount() > most || a.nodeCount() != b.nodeCount()) return false;
  const TextOptions options{.sources = false};
  return toText(a, options) == toText(b, options);
}

bool haveMostNodesInCommon(const Graph& a, const Graph& b) {
  const auto& [few, many] = a.nodeCount() <= b.nodeCount() ? std::tie(a, b) : std::tie(b, a);
  size_t common = 0;
  for (const NodeId id : few.order()) common += many.findNode(few.node(id).name) ? 1 : 0;
  return 2 * common >= few.nodeCount();
}

/// Of two drawings, less than half of their usual size.
constexpr double legibleBeside = 0.4;

/// Whether nearly all boxes of the canvas's drawing have words at that scale.
bool canBeRead(const Canvas& canvas, double scale) {
  constexpr size_t many = 3000;  // have none in any window
  constexpr double nearlyAll = 0.9;
  const Scene& scene = *canvas.scene();
  if (scale >= legibleBeside) return true;
  if (scene.view.boxes.size() > many) return false;
  size_t closed = 0, have = 0;
  for (size_t i = 0; i < scene.view.boxes.size(); ++i) {
    if (scene.view.boxes[i].open) continue;
    ++closed;
    have += hasWords(scene, static_cast<int>(i), scale) ? 1 : 0;
  }
  return static_cast<double>(have) >= nearlyAll * static_cast<double>(closed);
}

QString equalTitle(const QString& name) { return Comparison::tr("%1: identical; weights are not compared").arg(name); }

}  // namespace

Comparison::Comparison(Document& document, QWidget* parent) : QSplitter(parent), document_(document) {
  canvas_ = new Canvas;
  canvas_->setOverviewVisible(true);
  before_ = new Canvas;
  before_->setAccessibleName(tr("Drawing of what the model is compared with"));
  before_->hide();
  addWidget(before_);
  addWidget(canvas_);
  setChildrenCollapsible(false);
  setHandleWidth(1);
  for (Canvas* c : {canvas_, before_}) {
    Canvas* other = c == canvas_ ? before_ : canvas_;
    connect(c, &Canvas::viewChanged, this, [this, c, other] { followView(c, other); });
    connect(c, &Canvas::sceneChanged, this, [this, c, other] { followOptions(c, other); });
  }
  canvas_->setKernelOf([this](const QString& node) { return kernelOf(node, false); });
  before_->setKernelOf([this](const QString& node) { return kernelOf(node, true); });
  connect(canvas_, &Canvas::selectionEdited, &document_, &Document::setSelection);
  connect(before_, &Canvas::selectionEdited, this, [this](const QStringList& keys) {
    QStringList others;
    for (const QString& key : keys) others << counterpart(key, true);
    document_.setSelection(others);
  });
  connect(&document_, &Document::graphChanged, this, [this] {
    pair_ = {};  // another graph of the document is to be seen
    refresh();
  });
  connect(&document_, &Document::otherChanged, this, [this] {
    if (document_.otherPath().isEmpty())
      refresh();
    else
      setComparing(true);
  });
  connect(&document_, &Document::previewChanged, this, &Comparison::refresh);
  connect(&document_, &Document::previewChanged, this, &Comparison::showPreview);
  for (auto signal : {&Document::matchesChanged, &Document::currentRuleChanged, &Document::rulesChanged})
    connect(&document_, signal, this, &Comparison::refreshDecorations);
  connect(&document_, &Document::selectionChanged, this, &Comparison::refreshSelection);
  connect(&document_.compilation(), &Compilation::currentChanged, this, [this] {
    if (showsKernels_) refreshDecorations();
  });
}

/// As far as there is a plan of kernels for the graph that is shown.
QString Comparison::kernelOf(const QString& node, bool isBefore) const {
  const Compilation& compilation = document_.compilation();
  const PlanDifference* difference = compilation.difference();
  if (isBefore && !difference) return {};
  const CompilePlan& plan = isBefore ? *compilation.otherPlan() : compilation.plan();
  const KernelInfo* kernel = compilation.isKnown() ? plan.kernelOf(node) : nullptr;
  if (!kernel) return {};
  QString text = kernel->label + QStringLiteral(" · ") + originText(kernel->origin);
  const bool isMeasured = !std::isnan(kernel->measured);
  if (const double us = isMeasured ? kernel->measured : kernel->predicted; !std::isnan(us))
    text += QStringLiteral(" · ") + (isMeasured ? QStringLiteral("%1") : tr("%1 predicted")).arg(micros(us));
  if (const MovedNode* moved = difference ? difference->ofNode(node) : nullptr) {
    const QString& other = isBefore ? moved->to : moved->from;
    text += QLatin1Char('\n') + (isBefore ? tr("→ in this plan: %1") : tr("→ in the other plan: %1"))
                                    .arg(other.isEmpty() ? tr("by itself") : other);
  }
  return text;
}

void Comparison::setShowingKernels(bool on) {
  showsKernels_ = on;
  refreshDecorations();
}

void Comparison::setShowingMatches(bool on) {
  showsMatches_ = on;
  refreshDecorations();
}

void Comparison::setGrouping(Grouping grouping) {
  const bool was = grouping_.drawn != nullptr, is = grouping.drawn != nullptr;
  if (!was && !is) return;
  const bool wasByKernels = grouping_.isByKernels;
  if (!wasByKernels) moduleOptions_ = canvas_->viewOptions();
  grouping_ = std::move(grouping);
  following_ = true;
  // A plan that has changed a little leaves open what is open.
  ViewOptions options = grouping_.isByKernels ? grouping_.options : moduleOptions_;
  keepStyle(options);
  if (wasByKernels && grouping_.isByKernels) {
    const ViewOptions& now = canvas_->viewOptions();
    options.depth = now.depth;
    options.opened = now.opened;
    options.closed = now.closed;
    canvas_->adoptViewOptions(options);
  } else {
    canvas_->setGraph(nullptr);
    canvas_->setViewOptions(options);
    begins_ = comparing_;
  }
  before_->setGraph(nullptr);
  following_ = false;
  refresh();
}

void Comparison::compareFrom(int step) {
  fromStep_ = step;
  setComparing(true);
}

/// What is compared with, where nothing else is said.
GraphRef Comparison::reference() const {
  if (isGrouped() && grouping_.before) return grouping_.before;
  if (!document_.otherPath().isEmpty() || fromStep_ <= 0 || fromStep_ > document_.history().lastStep())
    return document_.original();
  return document_.steps()[static_cast<size_t>(fromStep_)].graph;
}

/// The rewrites between what is compared.
std::vector<RecordInfo> Comparison::records() const {
  if (isGrouped() && grouping_.before) return grouping_.records;
  if (!document_.otherPath().isEmpty() || fromStep_ <= 0 || document_.subStep() >= 0) return document_.recordsToHere();
  std::vector<RecordInfo> out;
  for (int step = fromStep_ + 1; step <= document_.position(); ++step) {
    const std::vector<RecordInfo>& more = document_.steps()[static_cast<size_t>(step)].records;
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

void Comparison::showPair(Pair pair) {
  pair_ = std::move(pair);
  if (pair_.before == pair_.after)
    pair_.afterTitle = tr("%1: identical").arg(pair_.afterTitle);
  else if (haveSameText(*pair_.before, *pair_.after))
    pair_.afterTitle = equalTitle(pair_.afterTitle);
  pairRecords_ = recordsBetween(*pair_.before, *pair_.after);
  comparing_ = begins_ = true;
  Q_EMIT comparingChanged(true);
  refresh();
}

void Comparison::setComparing(bool on) {
  pair_ = {};
  comparing_ = on;
  if (!on) fromStep_ = 0;
  Q_EMIT comparingChanged(on);
  refresh();
}

void Comparison::setColumns(bool on) {
  columns_ = on;
  applyStyle();
}

void Comparison::setFlow(Flow flow) {
  flow_ = flow;
  setOrientation(flow == Flow::Down ? Qt::Horizontal : Qt::Vertical);
  applyStyle();
}

void Comparison::setFoldsDeadEnds(bool on) {
  foldsDeadEnds_ = on;
  applyStyle();
}

/// Two drawings of the same nodes are narrow and are read in step, as text is: neither has columns. Nor folds, in which
/// a change would hide.
void Comparison::applyStyle() {
  following_ = true;
  const bool isAlone = !comparing_ && !document_.isPreviewing();
  for (Canvas* c : {canvas_, before_})
    c->setStyle(flow_, columns_ && (isAlone || !sameNodes_), foldsDeadEnds_ && isAlone);
  following_ = false;
}

void Comparison::keepStyle(ViewOptions& options) const {
  const ViewOptions& now = canvas_->viewOptions();
  options.columns = now.columns;
  options.flow = now.flow;
  options.foldDeadEnds = now.foldDeadEnds;
}

void Comparison::forgetOpened() {
  ViewOptions options;
  keepStyle(options);
  for (Canvas* c : {canvas_, before_}) c->setViewOptions(options);
  numbers_ = {};
  Q_EMIT numbersChanged(numbers_);
  if (overlay_ == Overlay::Numbers) setOverlay(Overlay::Kind);
}

void Comparison::showNumbers(NodeNumbers numbers) {
  numbers_ = std::move(numbers);
  Q_EMIT numbersChanged(numbers_);
  setOverlay(Overlay::Numbers);
}

void Comparison::clear() {
  canvas_->setGraph(nullptr);
  before_->setGraph(nullptr);
}

void Comparison::fit() {
  const bool both = before_->isVisible() && before_->scene() && canvas_->scene();
  const double whole = both ? std::min(canvas_->wholeScale(), before_->wholeScale()) : 0;
  const bool isSmall = both && sameNodes_ && !(canBeRead(*canvas_, whole) && canBeRead(*before_, whole));
  const bool isAgain = part_ && *part_ == std::pair(canvas_->origin(), canvas_->scale());
  part_.reset();
  if (!isSmall || isAgain || !fitPart()) fitWhole();
}

/// What one has selected; else the change that one has gone to, or the first one. False where there is neither.
bool Comparison::fitPart() {
  QStringList keys;
  for (const QString& key : document_.selection())
    if (canvas_->scene()->boxOf(key) >= 0) keys << key;
  const bool isSelected = !keys.isEmpty();
  const auto wanted = static_cast<size_t>(std::max(0, changeAt_));
  if (!isSelected && showsDifference()) {
    if (wanted < grouping_.places.size()) keys << grouping_.places[wanted].node;
  } else if (!isSelected) {
    std::vector<RecordInfo> changes = showsPair() ? pairRecords_ : records();
    std::erase_if(changes, [](const RecordInfo& r) { return r.added.isEmpty(); });
    if (wanted < changes.size()) keys = changes[wanted].added;
    // Between two files one record has all that differs: as much of it as can be read.
    if (changes.size() == 1) keys = keys.mid(0, 1);
  }
  if (keys.isEmpty()) return false;
  canvas_->zoomToKeys(keys, 1, legibleBeside);
  part_ = {canvas_->origin(), canvas_->scale()};
  Q_EMIT message(isSelected
                     ? tr("All of both would be too small to read: this is what is selected. Fit again shows all")
                     : tr("All of both would be too small to read: this is a change. Fit again shows all"));
  return true;
}

void Comparison::fitWhole() {
  if (!before_->isVisible() || !before_->scene() || !canvas_->scene()) return canvas_->fit();
  following_ = true;  // both are whole: neither leads
  const double scale = std::min(canvas_->wholeScale(), before_->wholeScale());
  for (Canvas* c : {canvas_, before_}) c->centre(sameNodes_ ? scale : c->wholeScale());
  following_ = false;
}

/// Both come into view for the first time: whole, or where nothing could be read then, from their beginning.
void Comparison::begin() {
  if (!before_->isVisible() || !before_->scene() || !canvas_->scene()) return;
  begins_ = false;
  fitWhole();
  following_ = true;
  for (Canvas* c : {canvas_, before_})
    if (!canBeRead(*c, c->scale())) c->begin();
  following_ = false;
  if (sameNodes_ && canvas_->scale() > canvas_->wholeScale()) followView(canvas_, before_);
}

/// Else one says little of where the other has something: kernels beside modules, two models.
bool Comparison::showSameNodes() const {
  if (!comparing_ || document_.isPreviewing()) return true;
  if (showsPair()) return haveMostNodesInCommon(*pair_.before, *pair_.after);
  if (showsDifference()) return true;
  if (isGrouped() && grouping_.isByKernels) return false;
  const GraphRef before = reference(), now = isGrouped() ? grouping_.drawn : document_.graph();
  const bool isHistory = document_.otherPath().isEmpty() && !isGrouped();
  return isHistory || !before || !now || haveMostNodesInCommon(*before, *now);
}

/// Two models that say the same, weights aside.
bool Comparison::areEqual() const {
  const GraphRef a = document_.original(), b = document_.graph();
  if (!a || !b) return false;
  if (a == b) return true;
  if (!document_.recordsToHere().empty() && document_.otherPath().isEmpty()) return false;
  return haveSameText(*a, *b);
}

void Comparison::refreshTheme() {
  for (Canvas* c : {canvas_, before_}) c->setTheme(currentTheme());
}

void Comparison::refresh() {
  const bool preview = document_.isPreviewing(), both = comparing_ || preview;
  const bool isPair = showsPair() && !preview;
  const bool appears = both && !before_->isVisibleTo(this);
  // A node that is selected stays in view.
  if (appears && !preview && (isPair || isGrouped() || document_.selection().isEmpty())) begins_ = true;
  if (!both || preview) begins_ = false;
  sameNodes_ = showSameNodes();
  applyStyle();
  following_ = true;  // both change: the one that is set first must not lead the other
  if (!before_->scene()) before_->setViewOptions(canvas_->viewOptions());
  before_->setGraph(!both ? nullptr : preview ? document_.graph() : isPair ? pair_.before : reference());
  const GraphRef shown = preview       ? document_.previewGraph()
                         : isPair      ? pair_.after
                         : isGrouped() ? grouping_.drawn
                                       : document_.graph();
  canvas_->setGraph(shown, [&](const QString& key) { return successor(key, shown); });
  following_ = false;
  const QString other = document_.otherPath();
  const auto named = [](const QString& path, const QString& method) {
    return method.isEmpty() ? QFileInfo(path).fileName() : QFileInfo(path).fileName() + QLatin1Char(' ') + method;
  };
  const bool isCapture = !document_.capturedGraphs().isEmpty();
  const QString name = named(document_.path(), isCapture ? document_.method() : QString());
  const bool isBeside = isGrouped() && !preview && !grouping_.beforeTitle.isEmpty();
  canvas_->setTitle(preview           ? tr("preview: not applied yet")
                    : !comparing_     ? QString()
                    : isGrouped()     ? grouping_.title
                    : areEqual()      ? (other.isEmpty() ? tr("now: identical") : equalTitle(name))
                    : other.isEmpty() ? tr("now")
                                      : name);
  before_->setTitle(isBeside                     ? grouping_.beforeTitle
                    : preview || other.isEmpty() ? tr("before")
                                                 : named(other, document_.otherMethod()));
  if (isPair) {
    canvas_->setTitle(pair_.afterTitle);
    before_->setTitle(pair_.beforeTitle);
  }
  before_->setVisible(both);
  if (appears) setSizes({width() / 2, width() / 2});
  if (both) QTimer::singleShot(0, this, [this] { begins_ ? begin() : followView(canvas_, before_); });
  changeAt_ = -1;
  refreshSelection();
  refreshDecorations();
}

/// Goes to the first place that the preview rewrites.
void Comparison::showPreview() {
  if (!document_.isPreviewing() || document_.previewRecords().empty()) return;
  QTimer::singleShot(0, this, [this] {  // once both canvases have their place
    if (!document_.isPreviewing()) return;
    const QStringList& added = document_.previewRecords().front().added;
    canvas_->openTo(added.value(0));
    canvas_->zoomToKeys(added, 0.75, 0.7);  // two drawings beside each other, legible
  });
}

void Comparison::showMatch(const QStringList& nodes) {
  canvas_->reveal(nodes.value(0));
  canvas_->setLit(nodes);
  canvas_->zoomToKeys(nodes);
}

void Comparison::refreshSelection() {
  const QStringList keys = document_.selection();
  canvas_->setSelection(keys);
  QStringList others;
  for (const QString& key : keys) others << counterpart(key, false);
  before_->setSelection(others);
}

void Comparison::setOverlay(Overlay overlay) {
  overlay_ = overlay;
  Q_EMIT overlayChanged(overlay);
  const QJsonObject& run = document_.lastRun();
  if ((overlay == Overlay::Time || overlay == Overlay::Error) && run.isEmpty() && document_.isOpen())
    Q_EMIT failed(tr("Nothing has been measured yet"), tr("run the model once (F5), and its nodes get these colours"));
  else if (overlay == Overlay::Error && !run.isEmpty() && run.value(QLatin1String("layers")).toArray().isEmpty())
    Q_EMIT failed(tr("The last run did not look inside"), tr("tick “Inside” beside Run, and run again (F5)"));
  refreshDecorations();
}

void Comparison::refreshDecorations() {
  DecorationPair d;
  const bool preview = document_.isPreviewing(), both = comparing_ || preview;
  if (both && showsDifference())
    d = grouping_.changes;
  else if (both)
    addChanges(d, preview ? document_.previewRecords() : showsPair() ? pairRecords_ : records());
  d.after.changesBeside = QSet<Change>(d.before.changes.cbegin(), d.before.changes.cend());
  d.before.changesBeside = QSet<Change>(d.after.changes.cbegin(), d.after.changes.cend());
  if (overlay_ != Overlay::Kind) d.before.fades = d.after.fades = false;
  const RuleInfo* rule = document_.rule(document_.currentRule());
  if (overlay_ == Overlay::Time) {
    addTimes(d, document_.lastRun());
  } else if (overlay_ == Overlay::Error) {
    addErrors(d, document_.lastRun());
  } else if (overlay_ == Overlay::Weights && document_.graph()) {
    if (canvas_->scene()) addWeights(d.after, *canvas_->scene()->graph);
    if (before_->scene()) addWeights(d.before, *before_->scene()->graph);
  } else if (overlay_ == Overlay::Numbers) {
    addNumbers(d.after, numbers_);
    addNumbers(d.before, numbers_);
  } else if (const KernelInfo* kernel = showsKernels_ && !document_.compilation().isCurrentByDefault()
                                            ? document_.compilation().current()
                                            : nullptr;
             kernel && !both) {
    addKernel(d.after, *kernel);
  } else if (showsKernels_) {
    // what rules match is another arrangement's
  } else if (rule && showsMatches_ && !both) {
    addMatches(d.after, *rule);
    d.after.stale = document_.ruleError().any();
  }
  canvas_->setDecorations(d.after);
  before_->setDecorations(d.before);
  if (d.after.heat.isEmpty() || d.before.heat.isEmpty() || !before_->scene()) return;
  // Both have one scale: the same colour is the same time.
  const BoxDecorations &now = canvas_->boxDecorations(), &was = before_->boxDecorations();
  d.after.heatLeast = d.before.heatLeast = std::min(now.least, was.least);
  d.after.heatMost = d.before.heatMost = std::max(now.most, was.most);
  canvas_->setDecorations(d.after);
  before_->setDecorations(d.before);
}

/// Both drawings are of plans, or of anything else of which it is known what differs.
bool Comparison::showsDifference() const {
  return comparing_ && isGrouped() && grouping_.before && !grouping_.changes.after.changeWords.isEmpty() &&
         !showsPair() && !document_.isPreviewing();
}

/// Opened in both drawings, where that is needed.
void Comparison::goToPlace(int step) {
  const auto count = static_cast<int>(grouping_.places.size());
  if (count == 0) return Q_EMIT message(tr("Both plans have the same groups"));
  changeAt_ = changeAt_ < 0 ? (step > 0 ? 0 : count - 1) : (changeAt_ + step + count) % count;
  const Grouping::Place place = grouping_.places[static_cast<size_t>(changeAt_)];
  const int at = changeAt_;
  before_->openTo(place.node);
  canvas_->reveal(place.node);
  changeAt_ = at;
  Q_EMIT message(tr("%1 of %2: %3").arg(at + 1).arg(count).arg(place.text));
}

void Comparison::nextChange(int step) {
  if (showsDifference()) return goToPlace(step);
  QStringList names;
  for (const RecordInfo& r : showsPair() ? pairRecords_ : records())
    names << (r.added.isEmpty() ? QString() : r.added.first());
  names.removeAll(QString());
  if (names.isEmpty())
    return Q_EMIT message(document_.otherPath().isEmpty() ? tr("Nothing has been changed")
                                                          : tr("Both models have the same nodes"));
  changeAt_ = changeAt_ < 0 ? (step > 0 ? 0 : static_cast<int>(names.size()) - 1)
                            : static_cast<int>((changeAt_ + step + names.size()) % names.size());
  canvas_->reveal(names[changeAt_]);
}

/// The name that stands for `key` in the other graph, by the rewrites' records.
QString Comparison::counterpart(const QString& key, bool toAfter) const {
  if (showsPair() || (isGrouped() && !grouping_.records.empty())) return key;  // nodes of one name
  const GraphRef there = toAfter ? document_.graph() : reference();
  if (!there || key.startsWith(QLatin1Char('@')) || key.startsWith(QLatin1Char('<')) ||
      key.startsWith(QLatin1Char('>'))) {
    for (const auto& [inBefore, inNow] : grouping_.together)
      if (key.mid(1).toStdString() == (toAfter ? inBefore : inNow))
        return QLatin1Char('@') + QString::fromStdString(toAfter ? inNow : inBefore);
    return key;
  }
  // The records come first: a rewrite may have given an added node the name of a removed one.
  if (document_.otherPath().isEmpty())
    for (const RecordInfo& r : records()) {
      const QStringList& own = toAfter ? r.removed : r.added;
      const QStringList& others = toAfter ? r.added : r.removed;
      if (own.contains(key) && !others.isEmpty()) return others.last();
    }
  return key;
}

/// What stands in `now` where `key` stood before a step was applied, taken back or previewed.
QString Comparison::successor(const QString& key, const GraphRef& now) const {
  const auto isThere = [&](const QString& name) { return static_cast<bool>(now->findNode(name.toStdString())); };
  if (!now || isThere(key) || key.startsWith(QLatin1Char('@')) || key.startsWith(QLatin1Char('<')) ||
      key.startsWith(QLatin1Char('>')))
    return key;
  QStringList seen{key};
  const auto follow = [&](const std::vector<RecordInfo>& records) {
    for (const RecordInfo& r : records)
      for (const auto& [from, to] : {std::pair{&r.removed, &r.added}, std::pair{&r.added, &r.removed}})
        if (!to->isEmpty() && !seen.contains(to->last()) &&
            std::any_of(from->begin(), from->end(), [&](const QString& name) { return seen.contains(name); }))
          seen << to->last();
  };
  follow(document_.previewRecords());
  for (const StepInfo& step : document_.steps()) follow(step.records);  // later steps, which were taken back, too
  for (const QString& name : seen)
    if (isThere(name)) return name;
  return key;
}

/// Both canvases keep the same node at the same height.
void Comparison::followView(Canvas* from, Canvas* to) {
  // The other one leads only while somebody works in it; else it has merely fitted itself.
  if (from == before_ && !before_->underMouse() && !before_->hasFocus()) std::swap(from, to);
  if (following_ || !to->isVisible() || !from->scene() || !to->scene()) return;
  // Of other nodes, what is in view as a whole stays, and so does the scale.
  if (!sameNodes_ && to->visibleSceneRect().contains(to->scene()->bounds())) return;
  const double scale = sameNodes_ ? from->scale() : to->scale();
  following_ = true;
  const QPointF middle = from->rect().center();
  const SceneRef a = from->scene(), b = to->scene();
  const QPointF at = from->toScene(middle);
  int nearest = -1;
  double best = 1e18;
  for (size_t i = 0; i < a->view.boxes.size(); ++i) {
    if (a->view.boxes[i].open) continue;
    const QPointF c = a->rect(static_cast<int>(i)).center();
    const double d = std::abs(c.y() - at.y()) * 3 + std::abs(c.x() - at.x());
    if (d >= best) continue;
    const QString key = counterpart(selectionKey(*a->graph, a->view.boxes[i]), from == before_);
    if (b->boxOf(key) >= 0) best = d, nearest = static_cast<int>(i);
  }
  if (nearest >= 0) {
    const QString key =
        counterpart(selectionKey(*a->graph, a->view.boxes[static_cast<size_t>(nearest)]), from == before_);
    const QPointF offset = from->toWidget(a->rect(nearest).center()) - middle;
    to->setView(b->rect(b->boxOf(key)).center() - (offset + QPointF(to->rect().center())) / scale, scale);
  } else if (sameNodes_) {
    to->setView(from->origin(), scale);
  }
  following_ = false;
}

void Comparison::followOptions(Canvas* from, Canvas* to) {
  if (following_ || !to->scene() || !from->scene()) return;
  following_ = true;
  ViewOptions options = from->viewOptions();
  if (showsDifference())
    for (const auto& [inBefore, inNow] : grouping_.together) {
      const auto& [own, other] = from == before_ ? std::tie(inBefore, inNow) : std::tie(inNow, inBefore);
      options.opened.contains(own) ? void(options.opened.insert(other)) : void(options.opened.erase(other));
    }
  to->adoptViewOptions(options);
  following_ = false;
  begins_ ? begin() : followView(from, to);
}

}  // namespace graft
