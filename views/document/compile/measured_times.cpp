#include "views/document/compile/measured_times.h"

#include <QCryptographicHash>
#include <QJsonArray>
#include <algorithm>

#include "views/document/json_fields.h"

namespace graft {
namespace {

/// A kernel of these nodes with these choices is the same one, whatever its name in the plan.
QString keyOf(const KernelInfo& k, const CompilePlan& plan) {
  QStringList nodes = k.isGenerated() && !k.isInPlace ? k.coloured : QStringList{k.name};
  nodes.sort();
  return (plan.isForGpu ? QStringLiteral("gpu ") : QString()) + nodes.join(QLatin1Char(' ')) +
         (k.choice.isEmpty() ? QString() : QLatin1Char('\n') + k.choice);
}

QString keyOf(const CompilePlan& plan) {
  QStringList keys;
  for (const KernelInfo& k : plan.kernels) keys << keyOf(k, plan);
  keys.sort();
  const QByteArray all = keys.join(QLatin1Char('\f')).toUtf8();
  return QString::fromLatin1(QCryptographicHash::hash(all, QCryptographicHash::Sha1).toHex());
}

struct Field {
  const char* name;
  double KernelInfo::*value;
};
constexpr Field fields[] = {{"us", &KernelInfo::measured},
                            {"operatorsUs", &KernelInfo::operators},
                            {"generatedUs", &KernelInfo::generated},
                            {"operations", &KernelInfo::operationCount},
                            {"leastUs", &KernelInfo::least},
                            {"bytesRead", &KernelInfo::bytesRead},
                            {"bytesWritten", &KernelInfo::bytesWritten},
                            {"bytesApart", &KernelInfo::bytesApart}};

/// What is known of the kernel; what `before` knows and this measurement did not look at stays.
QJsonObject timesOf(const KernelInfo& k, QJsonObject before) {
  for (const Field& f : fields)
    if (!std::isnan(k.*f.value)) before.insert(QLatin1String(f.name), k.*f.value);
  if (k.tried.empty()) return before;
  QJsonArray tried;
  for (const TriedInfo& t : k.tried) tried.append(QJsonArray{t.schedule, t.microseconds});
  before.insert(QStringLiteral("tried"), tried);
  return before;
}

void readTimes(KernelInfo& k, const QJsonObject& times) {
  // The sizes of the run are not those of the plan: all figures are of one or the other.
  if (std::isnan(k.measured))
    for (const Field& f : fields)
      if (const QJsonValue v = at(times, f.name); v.isDouble()) k.*f.value = v.toDouble();
  if (!k.tried.empty()) return;
  for (const QJsonValue v : at(times, "tried").toArray())
    k.tried.push_back({v.toArray().at(0).toString(), v.toArray().at(1).toDouble()});
}

}  // namespace

MeasuredTimes::MeasuredTimes(const QJsonObject& state)
    : kernels_(objectAt(state, "kernels")),
      plans_(objectAt(state, "plans")),
      model_(objectAt(state, "model")),
      at_(QDateTime::fromString(at(state, "at").toString(), Qt::ISODate)),
      isFromBefore_(true) {}

QJsonObject MeasuredTimes::state() const {
  return {{QStringLiteral("kernels"), kernels_},
          {QStringLiteral("plans"), plans_},
          {QStringLiteral("model"), model_},
          {QStringLiteral("at"), at_.toString(Qt::ISODate)}};
}

void MeasuredTimes::note(const CompilePlan& plan) {
  for (const KernelInfo& k : plan.kernels) {
    if (std::isnan(k.measured)) continue;
    const QString key = keyOf(k, plan);
    kernels_.insert(key, timesOf(k, kernels_.value(key).toObject()));
  }
  plans_.insert(keyOf(plan), plan.kernelsUs);
  QJsonObject speeds;
  for (auto it = plan.operationsPerMicrosecond.begin(); it != plan.operationsPerMicrosecond.end(); ++it)
    speeds.insert(it.key(), it.value());
  model_ = {{QStringLiteral("operatorsUs"), plan.operatorsUs},
            {QStringLiteral("bytesPerMicrosecond"), plan.bytesPerMicrosecond},
            {QStringLiteral("operationsPerMicrosecond"), speeds}};
  at_ = QDateTime::currentDateTime();
  isFromBefore_ = false;
}

void MeasuredTimes::addTo(CompilePlan& plan) const {
  if (isEmpty()) return;
  for (KernelInfo& k : plan.kernels) readTimes(k, kernels_.value(keyOf(k, plan)).toObject());
  plan.measuredAt = at_;
  plan.isMeasuredBefore = isFromBefore_;
  if (plan.isMeasured()) return;
  plan.kernelsUs = number(plans_.value(keyOf(plan)));
  plan.operatorsUs = number(at(model_, "operatorsUs"));
  plan.bytesPerMicrosecond = number(at(model_, "bytesPerMicrosecond"));
  const QJsonObject speeds = objectAt(model_, "operationsPerMicrosecond");
  for (auto it = speeds.begin(); it != speeds.end(); ++it)
    plan.operationsPerMicrosecond.insert(it.key(), number(it.value()));
  plan.isChangedSince = !plan.isMeasured();
  for (FusionPair& p : plan.pairs) {
    const KernelInfo *a = plan.kernelOf(p.producer), *b = plan.kernelOf(p.consumer);
    if (a && b && std::isnan(p.measured)) p.measured = a == b ? a->measured : a->measured + b->measured;
  }
}

}  // namespace graft
