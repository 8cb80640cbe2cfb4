#include "views/window/compile/compile_view.h"

#include <QMenu>
#include <QToolBar>
#include <utility>

#include "views/document/compile/kernel_graph.h"
#include "views/document/graph_decode.h"
#include "views/document/run_figures.h"
#include "views/panels/compile/kernels_panel.h"
#include "views/window/main_window.h"

namespace graft {
namespace {

/// What the container of each kernel says: its operators, bytes, time and how near that is to the roofline.
/// What differs from another plan has a line of its own.
ViewOptions kernelOptions(const CompilePlan& plan, const PlanDifference* difference = nullptr,
                          const ContainerNames* before = nullptr) {
  ViewOptions options;
  options.depth = 0;
  options.foldRepeats = false;
  options.widthByBytes = true;
  for (const KernelInfo& k : plan.kernels) {
    if (!k.isGenerated() || k.isInPlace) continue;
    // Where there is no room for all, the end is left out.
    QStringList facts;
    const GroupDifference* other = !difference ? nullptr
                                   : before    ? difference->ofBefore(k.name)
                                               : difference->ofNow(k.name);
    const QString told = other ? other->sign() + QLatin1Char(' ') + other->word() : QString();
    const double us = std::isnan(k.measured) ? k.predicted : k.measured;
    if (!std::isnan(us)) facts << micros(us);
    if (const double share = plan.share(k); !std::isnan(share))
      facts << CompileView::tr("%1 of roofline").arg(shareText(share));
    facts << counted(k.inside.size(), CompileView::tr("node"), CompileView::tr("nodes")) << bytes(k.bytes());
    options.words.emplace(
        before ? before->value(k.name) : containerOf(k),
        ModuleWords{k.label.toStdString(), facts.join(QStringLiteral(" · ")).toStdString(), told.toStdString()});
  }
  return options;
}

}  // namespace

CompileView::CompileView(MainWindow& window)
    : QObject(&window), window_(window), document_(window.document()), compilation_(window.document().compilation()) {
  window_.addToolBarBreak();
  bar_ = window_.addToolBar(tr("Stages"));
  bar_->setObjectName(QStringLiteral("stages"));
  bar_->setMovable(false);
  bar_->toggleViewAction()->setVisible(false);  // it comes with its arrangement
  bar_->setContentsMargins(0, 0, 0, 0);
  ribbon_ = new StageRibbon(document_);
  bar_->addWidget(ribbon_);
  bar_->hide();
  connect(ribbon_, &StageRibbon::chosen, this, &CompileView::showStage);
  connect(ribbon_, &StageRibbon::compareAsked, this, &CompileView::compareStages);
  connect(&compilation_, &Compilation::changed, this, &CompileView::regroup);
  connect(&document_, &Document::graphChanged, this, [this] {
    drawsCaptured_ = false;  // another step is to be seen
    regroup();
  });
  connect(&document_, &Document::opened, this, [this] {
    compilation_.setComparing(false);
    comparesCaptured_ = false;
    setByKernels(false);
  });
  connect(&window_.comparison(), &Comparison::comparingChanged, this, [this](bool on) {
    if (on) return;
    compilation_.setComparing(false);
    if (!std::exchange(comparesCaptured_, false)) return;
    regroup();
  });
  connect(&compilation_.captured(), &CapturedModel::changed, this, &CompileView::regroup);
  connect(&compilation_, &Compilation::saved, this,
          [this](const QString& path) { Q_EMIT document_.message(tr("Written: %1").arg(path)); });
  Canvas* canvas = window_.canvas();
  connect(canvas, &Canvas::edgeClicked, this, [this](int edge) {
    if (const FusionPair* p = pairOf(edge)) window_.panel<KernelsPanel>()->showPair(FusionPair(*p));
  });
  connect(canvas, &Canvas::edgeMenuAsked, this, &CompileView::showEdgeMenu);
}

void CompileView::setShown(bool on) {
  bar_->setVisible(on && document_.isOpen());
  if (on == compilation_.isActive()) return;
  compilation_.setActive(on);
  Comparison& comparison = window_.comparison();
  comparison.setShowingKernels(on);
  if (on)
    window_.canvas()->setEdgeTips([this](int edge) { return edgeTip(edge); },
                                  [this](int edge) { return pairOf(edge) != nullptr; });
  else
    window_.canvas()->setEdgeTips({}, {});
  regroup();
}

void CompileView::setByKernels(bool on) {
  comparesCaptured_ = comparesCaptured_ && on;
  group(on);
}

void CompileView::group(bool byKernels) {
  drawsCaptured_ = false;
  byKernels_ = byKernels;
  if (QAction* a = window_.action(QStringLiteral("byKernels"))) a->setChecked(byKernels);
  regroup();
}

/// Draws by kernels where that is wanted and known; by modules otherwise.
void CompileView::regroup() {
  Comparison& comparison = window_.comparison();
  const bool isOfPlan = (byKernels_ || compilation_.isComparing()) && compilation_.isActive();
  // While another plan is on its way, the drawing of the one before stays.
  if (isOfPlan && !compilation_.isKnown() && compilation_.isBusy()) return;
  const bool isWanted = byKernels_ && isOfPlan && compilation_.isKnown();
  Comparison::Grouping grouping;
  if (isWanted) {
    const CompilePlan& plan = compilation_.plan();
    grouping.of = document_.graph();
    grouping.isByKernels = true;
    grouping.drawn = graphByKernels(*document_.graph(), plan);
    grouping.options = kernelOptions(plan, compilation_.difference());
    grouping.title = tr("kernels");
    if (compilation_.difference()) groupBefore(grouping);
    if (comparesCaptured_) groupBesideCaptured(grouping);
  } else if (isOfPlan && compilation_.difference()) {
    groupByModules(grouping);
  } else if (comparesCaptured_ && compilation_.isActive()) {
    grouping.options = comparison.moduleOptions();
    groupBesideCaptured(grouping);
    if (grouping.before) {
      grouping.of = grouping.drawn = document_.graph();
      grouping.title = tr("now");
      grouping.records = recordsBetween(*grouping.before, *grouping.drawn);
    }
  }
  const GraphRef captured = compilation_.isActive() && drawsCaptured_ ? compilation_.captured().graph() : nullptr;
  if (captured) {
    grouping = Comparison::Grouping();
    grouping.of = document_.graph();
    grouping.drawn = captured;
    grouping.options = comparison.moduleOptions();
    grouping.title = tr("captured");
  }
  if (!grouping.drawn && !comparison.isGrouped()) return ribbon_->setDrawn({});
  comparison.setGrouping(std::move(grouping));
  if (captured) return ribbon_->setDrawn(Stage::Captured);
  ribbon_->setDrawn(isWanted ? std::optional(Stage::Groups) : std::nullopt);
}

/// The plan before, and what differs.
void CompileView::groupBefore(Comparison::Grouping& grouping) {
  const PlanDifference& difference = *compilation_.difference();
  const CompilePlan& before = *compilation_.otherPlan();
  const ContainerNames names = containersBeside(difference, before);
  grouping.before = graphByKernels(*document_.graph(), before, names);
  const ViewOptions words = kernelOptions(before, &difference, &names);
  grouping.options.words.insert(words.words.begin(), words.words.end());
  tellDifference(grouping);
  for (const GroupDifference& g : difference.groups)
    if (!g.before.isEmpty() && !g.now.isEmpty())
      grouping.together.emplace_back(names.value(g.before), containerOf(g.now));
}

/// The model as its file has it, once that is known.
void CompileView::groupBesideCaptured(Comparison::Grouping& grouping) {
  grouping.before = compilation_.captured().graph();
  if (grouping.before) grouping.beforeTitle = tr("captured");
}

/// Two plans of one graph have the same modules: only what differs is not the same.
void CompileView::groupByModules(Comparison::Grouping& grouping) {
  grouping.of = grouping.drawn = grouping.before = document_.graph();
  grouping.options = window_.comparison().moduleOptions();
  tellDifference(grouping);
  // A group of other nodes, or of other code, is no box here: its nodes tell.
  for (const GroupDifference& g : compilation_.difference()->groups)
    for (const QString& node : g.nodes)
      for (Decorations* one : {&grouping.changes.before, &grouping.changes.after})
        if (!one->changes.contains(node)) one->changes.insert(node, Change::Changed);
}

/// In titles, colours, and the places that one goes through.
void CompileView::tellDifference(Comparison::Grouping& grouping) {
  const PlanDifference& difference = *compilation_.difference();
  const CompilePlan& before = *compilation_.otherPlan();
  grouping.title = tr("the plan now: %1").arg(difference.text());
  grouping.beforeTitle = compilation_.otherPlanTitle();
  addPlanDifference(grouping.changes, difference, containersBeside(difference, before));
  for (const GroupDifference& g : difference.groups) {
    const KernelInfo* k = g.now.isEmpty() ? before.find(g.before) : compilation_.plan().find(g.now);
    grouping.places.push_back({g.place(), tr("%1: %2").arg(k->label, g.word())});
  }
}

void CompileView::showStage(const Stage& stage) {
  if (window_.comparison().isComparing()) window_.setCompare(false);
  compilation_.setComparing(false);
  comparesCaptured_ = false;
  switch (stage.kind) {
    case Stage::Captured:
      if (!compilation_.captured().graph()) return tellNotCaptured();
      setByKernels(false);
      drawsCaptured_ = true;
      return regroup();
    case Stage::Normalised:
    case Stage::Rules:
      setByKernels(false);
      return document_.showStep(stage.step);
    case Stage::Groups:
      return setByKernels(!byKernels_);
    case Stage::Kernels:
      window_.panel<KernelsPanel>()->showTab(KernelsPanel::Kernels);
      return setByKernels(true);
    case Stage::Time:
      return compilation_.measure();
  }
}

/// Stages of the plan are drawn by kernels, those of the history as they are.
void CompileView::compareStages(const Stage& from, const Stage& to) {
  const bool isPlanned = to.kind >= Stage::Groups;
  compilation_.setComparing(false);
  if (to.kind <= Stage::Rules) document_.showStep(to.step);
  comparesCaptured_ = isPlanned && from.kind == Stage::Captured;
  setByKernels(isPlanned);
  if (from.kind == Stage::Captured) {
    const GraphRef captured = compilation_.captured().graph();
    if (!captured) return tellNotCaptured();
    if (!isPlanned)
      return window_.comparison().showPair(
          {captured, document_.steps()[static_cast<size_t>(to.step)].graph, tr("captured"), to.title.toLower()});
    return window_.comparison().compareFrom(0);
  }
  window_.comparison().compareFrom(std::max(0, from.kind <= Stage::Rules ? from.step : document_.position()));
}

void CompileView::tellNotCaptured() {
  const QString why = compilation_.captured().whyNone();
  Q_EMIT document_.failed(tr("The model as captured is not known"),
                          why.isEmpty() ? tr("the engine is still reading the file") : why);
}

void CompileView::comparePlans(int step) {
  const std::vector<Compilation::OtherPlan> others = compilation_.otherPlans();
  if (others.empty())
    return Q_EMIT document_.failed(tr("There is no other plan to compare with"),
                                   tr("fuse, keep apart or move something first"));
  compilation_.setComparing(true, step >= 0 || compilation_.canUndo() ? step : others.front().step);
  setByKernels(true);
  window_.comparison().compareFrom(0);
}

/// The pair of nodes that the edge's value passes between.
const FusionPair* CompileView::pairOf(int edge) const {
  const SceneRef scene = window_.canvas()->scene();
  if (!scene || !compilation_.isKnown() || edge < 0 || edge >= static_cast<int>(scene->view.edges.size()))
    return nullptr;
  const VisibleEdge& e = scene->view.edges[static_cast<size_t>(edge)];
  const QString value = toQt(scene->graph->value(e.value).name);
  const FusionPair* found = nullptr;
  for (const FusionPair& p : compilation_.plan().pairs) {
    // Of a value that a view hands on, the pair names what the view looks at.
    const NodeId consumer = scene->graph->findNode(p.consumer.toStdString());
    if (!consumer || scene->view.boxOfNode[consumer.index] != e.to) continue;
    const NodeId producer = scene->graph->findNode(p.producer.toStdString());
    const bool isFrom = producer && scene->view.boxOfNode[producer.index] == e.from;
    if (p.value == value || isFrom) found = &p;
    if (p.value == value) break;
  }
  return found;
}

std::optional<CompileView::Ends> CompileView::endsOf(int edge) const {
  const SceneRef scene = window_.canvas()->scene();
  if (!scene || !compilation_.isKnown() || edge < 0 || edge >= static_cast<int>(scene->view.edges.size())) return {};
  const VisibleEdge& e = scene->view.edges[static_cast<size_t>(edge)];
  const Value& value = scene->graph->value(e.value);
  if (value.kind != Value::Kind::Output) return {};
  const auto name = [&](NodeId node) { return toQt(scene->graph->node(node).name); };
  for (const NodeId user : value.users)
    if (scene->view.boxOfNode[user.index] == e.to) return Ends{name(value.producer), name(user)};
  return {};
}

/// Why fusion never looked at the two.
QString CompileView::whyNoPair(const Ends& ends) const {
  const CompilePlan& plan = compilation_.plan();
  for (const QString& node : {ends.producer, ends.consumer})
    if (const auto why = plan.whyAlone.find(node); why != plan.whyAlone.end())
      return tr("%1 runs by itself: %2").arg(node, *why);
  for (const QString& node : {ends.producer, ends.consumer}) {
    const KernelInfo* kernel = plan.kernelOf(node);
    if (!kernel) return tr("%1 launches no kernel").arg(node);
    if (!kernel->isGenerated()) return tr("%1 runs as it is: %2").arg(node, originText(kernel->origin));
  }
  return plan.kernelOf(ends.producer) == plan.kernelOf(ends.consumer) ? tr("one kernel computes both")
                                                                      : tr("they were not candidates for one kernel");
}

QString CompileView::edgeTip(int edge) const {
  const FusionPair* p = pairOf(edge);
  if (!p) {
    const auto ends = endsOf(edge);
    if (!ends) return {};
    return tr("<b>Fusion did not look at %1 and %2</b><br>%3")
        .arg(ends->producer.toHtmlEscaped(), ends->consumer.toHtmlEscaped(), whyNoPair(*ends).toHtmlEscaped());
  }
  const auto us = [](double v) { return threeDigits(v); };
  QString tip = p->isMerged ? tr("<b>%1 and %2 are one kernel</b>") : tr("<b>%1 and %2 are two kernels</b>");
  tip = tip.arg(p->producer.toHtmlEscaped(), p->consumer.toHtmlEscaped());
  if (!p->why.isEmpty()) tip += QStringLiteral("<br>") + p->why.toHtmlEscaped();
  tip += tr("<br>predicted: %1 µs apart, %2 µs together").arg(us(p->apart), us(p->together));
  if (!std::isnan(p->measured))
    tip += tr("<br>measured as they are: %1 µs").arg(us(p->measured));
  else if (compilation_.plan().isChangedSince)
    tip += tr("<br>not measured since the plan changed");
  return p->isLegal || p->isMerged ? tip + tr("<br><i>a right click offers to change it</i>") : tip;
}

void CompileView::showEdgeMenu(const QPoint& at, int edge) {
  const FusionPair* p = pairOf(edge);
  const auto ends = p ? Ends{p->producer, p->consumer} : endsOf(edge);
  if (!ends) return;
  const QString a = ends->producer, b = ends->consumer;
  QMenu menu;
  menu.setObjectName(QStringLiteral("edgeMenu"));
  QAction* fuse = menu.addAction(tr("&Fuse %1 and %2").arg(a, b), this, [=, this] { compilation_.fuse({a, b}); });
  fuse->setEnabled(p && !p->isMerged);
  QAction* apart = menu.addAction(tr("&Keep %1 and %2 apart").arg(a, b), this, [=, this] {
    compilation_.keepApart({a, b});
  });
  apart->setEnabled(p && (p->isMerged || p->isLegal));
  const KernelInfo* to = compilation_.plan().kernelOf(a);
  const KernelInfo* from = compilation_.plan().kernelOf(b);
  QAction* move =
      menu.addAction(tr("&Move %1 to the kernel of %2").arg(b, a), this, [=, this] { compilation_.move(b, a); });
  move->setEnabled(p && to && from && to != from && to->isGenerated());
  menu.addSeparator();
  if (p)
    menu.addAction(tr("&Why?"), this, [=, this] {
      if (const FusionPair* now = compilation_.plan().pairOf(a, b))
        window_.panel<KernelsPanel>()->showPair(FusionPair(*now));
    });
  else
    menu.addAction(whyNoPair(*ends))->setEnabled(false);
  menu.exec(at);
}

/// Of the selection, the nodes that compute; of a container all that is in it.
QStringList CompileView::selectedNodes() const {
  QStringList nodes;
  const GraphRef graph = document_.graph();
  for (const QString& key : document_.selection()) {
    if (!key.startsWith(QLatin1Char('@'))) {
      if (graph && graph->findNode(key.toStdString())) nodes << key;
      continue;
    }
    for (const KernelInfo& k : compilation_.plan().kernels)
      if (key.mid(1).toStdString() == containerOf(k)) nodes << k.nodes;
  }
  return nodes;
}

void CompileView::fuseSelection() {
  const QStringList nodes = selectedNodes();
  if (nodes.size() < 2)
    return Q_EMIT document_.failed(tr("Nothing was fused"),
                                   tr("first select two nodes or more (Ctrl adds to the selection)"));
  compilation_.fuse(nodes);
}

void CompileView::separateSelection() {
  const QStringList nodes = selectedNodes();
  if (nodes.isEmpty()) return Q_EMIT document_.failed(tr("Nothing is kept apart"), tr("first select a node or more"));
  compilation_.keepApart(nodes);
}

}  // namespace graft
