#include "views/document/compile/compile_plan.h"

#include <QCoreApplication>
#include <QJsonArray>
#include <QJsonDocument>
#include <algorithm>

#include "core/base/numbers/percent.h"
#include "views/document/document_info.h"
#include "views/document/document_replies.h"
#include "views/document/run_figures.h"

namespace graft {
namespace {

QString planText(const char* text) { return QCoreApplication::translate("CompilePlan", text); }

/// "softmax" of "aten.softmax.int".
QString plainOperator(const QString& op) {
  const QString rest = op.section(QLatin1Char('.'), 1, 1);
  return rest.isEmpty() ? op : rest;
}

/// "add · layer_norm"; of many the first ones and how many more.
QString labelOf(const QStringList& nodes, const Graph& graph) {
  constexpr qsizetype most = 5;
  QStringList words;
  for (const QString& name : nodes)
    if (const NodeId id = graph.findNode(name.toStdString()))
      words << QString::fromUtf8(graph.node(id).op->baseName().data(),
                                 static_cast<qsizetype>(graph.node(id).op->baseName().size()));
  if (words.size() > most + 1) words = words.mid(0, most) + QStringList{planText("%1 more").arg(words.size() - most)};
  return words.join(QStringLiteral(" · "));
}

/// In any order.
QString keyOfNodes(QStringList nodes) {
  nodes.sort();
  return nodes.join(QLatin1Char(' '));
}

void readRoofline(KernelInfo& k, const QJsonObject& o) {
  k.operationCount = number(at(o, "operations"));
  k.least = number(at(o, "leastUs"));
}

KernelInfo readKernel(const QJsonObject& o, const Graph& graph) {
  KernelInfo k;
  k.name = at(o, "name").toString();
  k.isInPlace = at(o, "isInFile").toBool();
  k.inside = strings(at(o, "nodes"));
  k.nodes = k.isInPlace ? QStringList{at(o, "call").toString()} : k.inside;
  k.modules = strings(at(o, "modules"));
  k.coloured = strings(at(o, "computing"));
  k.label = k.isInPlace ? QString() : labelOf(k.coloured, graph);
  if (k.coloured.isEmpty()) k.coloured = k.inside;
  if (k.label.isEmpty()) k.label = k.name;
  k.product = at(o, "product").toString();
  k.schedule = at(o, "schedule").toString().trimmed();
  k.edited = at(o, "edited").toString();
  k.origin = k.edited.isEmpty() ? KernelOrigin::Generated : KernelOrigin::Edited;
  k.bytesWritten = at(o, "bytesWritten").toDouble();
  k.bytesRead = at(o, "bytes").toDouble() - k.bytesWritten;
  k.bytesApart = number(at(o, "bytesApart"));
  k.predicted = number(at(o, "microseconds"));
  k.saved = number(at(o, "savedMicroseconds"));
  k.measured = number(at(o, "kernelUs"));
  k.operators = number(at(o, "operatorsUs"));
  k.generated = number(at(o, "generatedUs"));
  readRoofline(k, o);
  for (const QJsonValue v : at(o, "tried").toArray()) {
    const QString schedule = at(v.toObject(), "schedule").toString().trimmed();
    k.tried.push_back(
        {QString(schedule).replace(QLatin1Char('\n'), QStringLiteral(", ")), number(at(v.toObject(), "us"))});
  }
  return k;
}

KernelInfo readCall(const QJsonObject& o) {
  static const QHash<QString, KernelOrigin> origins{{QStringLiteral("hand-written"), KernelOrigin::HandWritten},
                                                    {QStringLiteral("library"), KernelOrigin::Library},
                                                    {QStringLiteral("user"), KernelOrigin::User}};
  KernelInfo k;
  k.name = at(o, "node").toString();
  k.nodes = k.inside = {k.name};
  k.op = at(o, "operator").toString();
  k.label = plainOperator(k.op);
  k.modules = {at(o, "module").toString()};
  k.origin = origins.value(at(o, "origin").toString(), KernelOrigin::Aten);
  k.bytesRead = at(o, "bytesRead").toDouble();
  k.bytesWritten = at(o, "bytesWritten").toDouble();
  k.measured = number(at(o, "operatorsUs"));
  readRoofline(k, o);
  return k;
}

/// The entries of kernels in a plan's file, each by its nodes.
QHash<QString, QString> readChoices(const QString& steering) {
  QHash<QString, QString> out;
  const QJsonObject file = QJsonDocument::fromJson(steering.toUtf8()).object();
  for (const QJsonValue v : at(file, "kernels").toArray())
    out.insert(keyOfNodes(strings(at(v.toObject(), "nodes"))),
               QString::fromUtf8(QJsonDocument(v.toObject()).toJson(QJsonDocument::Compact)));
  return out;
}

}  // namespace

QString originText(KernelOrigin origin) {
  switch (origin) {
    case KernelOrigin::Generated:
      return planText("generated");
    case KernelOrigin::Edited:
      return planText("edited by hand");
    case KernelOrigin::HandWritten:
      return planText("hand-written");
    case KernelOrigin::Library:
      return planText("library");
    case KernelOrigin::Aten:
      return planText("PyTorch");
    case KernelOrigin::User:
      return planText("your own");
  }
  Q_UNREACHABLE();
}

int CompilePlan::generatedCount() const {
  return static_cast<int>(std::count_if(kernels.begin(), kernels.end(), [](const auto& k) { return k.isGenerated(); }));
}

int CompilePlan::unmeasuredCount() const {
  if (!isChangedSince) return 0;
  return static_cast<int>(
      std::count_if(kernels.begin(), kernels.end(), [](const auto& k) { return std::isnan(k.measured); }));
}

QString CompilePlan::measuredText(double us) const {
  return std::isnan(us) && isChangedSince ? planText("not yet") : micros(us);
}

const KernelInfo* CompilePlan::find(const QString& name) const {
  const auto it = std::find_if(kernels.begin(), kernels.end(), [&](const auto& k) { return k.name == name; });
  return it == kernels.end() ? nullptr : &*it;
}

const KernelInfo* CompilePlan::kernelOf(const QString& node) const {
  const auto it = byNode.find(node);
  return it == byNode.end() ? nullptr : &kernels[it.value()];
}

const KernelInfo* CompilePlan::largest() const {
  const KernelInfo* most = nullptr;
  for (const KernelInfo& k : kernels)
    if (k.isGenerated() && (!most || k.inside.size() > most->inside.size())) most = &k;
  return most;
}

QString shareText(double share) { return share > 1 ? QStringLiteral("> 100 %") : toQt(percentText(share)); }

double CompilePlan::share(const KernelInfo& k) const { return k.least / k.measured; }

bool CompilePlan::isBoundByArithmetic(const KernelInfo& k) const {
  return k.least > 1.0001 * k.bytes() / bytesPerMicrosecond;
}

const FusionPair* CompilePlan::pairOf(const QString& a, const QString& b) const {
  const auto it = std::find_if(pairs.begin(), pairs.end(), [&](const FusionPair& p) {
    return (p.producer == a && p.consumer == b) || (p.producer == b && p.consumer == a);
  });
  return it == pairs.end() ? nullptr : &*it;
}

std::vector<const FusionPair*> CompilePlan::pairsOf(const KernelInfo& kernel) const {
  std::vector<const FusionPair*> out;
  for (const FusionPair& p : pairs)
    if (kernel.nodes.contains(p.producer) || kernel.nodes.contains(p.consumer)) out.push_back(&p);
  return out;
}

QString launchText(const LaunchInfo& l) {
  QStringList facts{planText("%1 of %2 threads")
                        .arg(counted(static_cast<qint64>(l.blocks), planText("block"), planText("blocks")))
                        .arg(l.threads)};
  if (l.registers >= 0) facts << counted(l.registers, planText("register"), planText("registers"));
  if (l.sharedBytes > 0) facts << planText("%1 shared").arg(bytes(l.sharedBytes));
  if (l.spillBytes > 0) facts << planText("%1 spilled").arg(bytes(l.spillBytes));
  if (!std::isnan(l.occupancy)) facts << planText("occupancy %1 (%2)").arg(toQt(percentText(l.occupancy)), l.limit);
  return facts.join(QStringLiteral(" · "));
}

std::vector<LaunchInfo> readLaunches(const QJsonArray& launches) {
  std::vector<LaunchInfo> out;
  for (const QJsonValue v : launches) {
    const QJsonObject o = v.toObject(), occupancy = objectAt(o, "occupancy");
    LaunchInfo l;
    l.function = at(o, "function").toString();
    l.schedule = at(o, "schedule").toString();
    l.blocks = at(o, "blocks").toDouble();
    l.threads = at(o, "threads").toInt();
    l.sharedBytes = at(o, "sharedBytes").toDouble();
    l.registers = at(o, "registers").toInt(-1);
    l.spillBytes = at(o, "spillBytes").toDouble();
    l.occupancy = number(at(occupancy, "share"));
    l.resident = at(occupancy, "blocks").toInt();
    l.limit = at(occupancy, "limit").toString();
    out.push_back(std::move(l));
  }
  return out;
}

void addUsage(CompilePlan& plan, const QJsonObject& usage) {
  QHash<QString, QJsonObject> byName;
  for (const QJsonValue v : at(usage, "kernels").toArray())
    byName.insert(at(v.toObject(), "name").toString(), v.toObject());
  for (KernelInfo& k : plan.kernels) {
    const auto found = byName.find(k.name);
    if (found == byName.end() || !k.isGenerated()) continue;
    k.launches = readLaunches(at(found.value(), "launches").toArray());
    k.whyNotCompiled = at(found.value(), "problem").toString();
  }
  plan.capability = at(usage, "capability").toInt();
}

CompilePlan readPlan(const QJsonObject& o, const Graph& graph) {
  CompilePlan plan;
  for (const QJsonValue v : at(o, "kernels").toArray()) plan.kernels.push_back(readKernel(v.toObject(), graph));
  for (const QJsonValue v : at(o, "calls").toArray()) plan.kernels.push_back(readCall(v.toObject()));
  QHash<QString, int> places;
  for (const NodeId id : graph.order()) places.insert(toQt(graph.node(id).name), static_cast<int>(places.size()));
  // Where a kernel's last node stands, all that it reads is there.
  std::stable_sort(plan.kernels.begin(), plan.kernels.end(), [&](const KernelInfo& a, const KernelInfo& b) {
    return places.value(a.nodes.value(a.nodes.size() - 1)) < places.value(b.nodes.value(b.nodes.size() - 1));
  });
  // A view may be part of several kernels: it belongs to the first.
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    for (const QString& node : plan.kernels[i].nodes)
      if (!plan.byNode.contains(node)) plan.byNode.insert(node, i);
  for (const QJsonValue v : at(o, "decisions").toArray()) {
    const QJsonObject d = v.toObject();
    FusionPair p;
    p.producer = at(d, "producer").toString();
    p.consumer = at(d, "consumer").toString();
    p.value = at(d, "value").toString();
    p.why = at(d, "why").toString();
    p.isLegal = at(d, "isLegal").toBool();
    p.isMerged = at(d, "isMerged").toBool();
    p.isAsked = at(d, "isAsked").toBool();
    p.areSiblings = at(d, "areSiblings").toBool();
    p.apart = at(d, "apartMicroseconds").toDouble();
    p.together = at(d, "togetherMicroseconds").toDouble();
    p.measured = number(at(d, "measuredUs"));
    plan.pairs.push_back(std::move(p));
  }
  for (const QJsonValue v : at(o, "notFused").toArray())
    plan.whyAlone.insert(at(v.toObject(), "node").toString(), at(v.toObject(), "why").toString());
  for (const QJsonValue v : at(o, "unapplied").toArray())
    plan.unapplied.push_back({at(v.toObject(), "entry").toString(), at(v.toObject(), "why").toString()});
  plan.steering = at(o, "plan").toString();
  const QHash<QString, QString> choices = readChoices(plan.steering);
  for (KernelInfo& k : plan.kernels)
    if (k.isGenerated() && !k.isInPlace) k.choice = choices.value(keyOfNodes(k.coloured));
  plan.isForGpu = at(o, "isForGpu").toBool();
  plan.capability = at(o, "capability").toInt();
  const QJsonObject times = objectAt(o, "modelUs");
  plan.operatorsUs = number(at(times, "operators"));
  plan.kernelsUs = number(at(times, "kernels"));
  plan.bytesPerMicrosecond = number(at(times, "bytesPerMicrosecond"));
  const QJsonObject speeds = objectAt(times, "operationsPerMicrosecond");
  for (auto it = speeds.begin(); it != speeds.end(); ++it)
    plan.operationsPerMicrosecond.insert(it.key(), number(it.value()));
  return plan;
}

}  // namespace graft
