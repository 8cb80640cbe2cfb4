#include "views/document/outcome.h"

#include <QCoreApplication>
#include <QRegularExpression>
#include <algorithm>

namespace graft {
namespace {

QString words(const char* text) { return QCoreApplication::translate("Outcome", text); }

/// Why one rewrite did not stay.
struct Reason {
  QString kind;  ///< equal for reasons that differ in place and figures alone
  QString text;
  qsizetype count = 1;
};

QString kindOf(QString why) {
  static const QRegularExpression place(QStringLiteral("`[^`]*`( \\([^)]*\\))?")),
      figures(QStringLiteral("[-+]?[0-9][0-9.e+-]*"));
  return why.remove(place).remove(figures).simplified();
}

QString withoutTicks(QString text) { return text.remove(QLatin1Char('`')); }

/// "at matmul_1 the result differs by 0.162 (at most 1e-05 is allowed)": the verdict in full stands in the details.
Reason reasonOf(const RolledBackInfo& r) {
  if (r.node.isEmpty() || r.maxAbs <= 0)
    return {kindOf(r.why), (r.node.isEmpty() ? QString() : words("at %1: ").arg(r.node)) + withoutTicks(r.why)};
  static const QRegularExpression allowed(QStringLiteral("(at most [^;,]+ is allowed)"));
  const QString limit = allowed.match(r.why).captured(1);
  return {kindOf(r.why), words("at %1 the result differs by %2").arg(r.node).arg(r.maxAbs, 0, 'g', 3) +
                             (limit.isEmpty() ? QString() : QStringLiteral(" (%1)").arg(limit))};
}

Reason reasonOf(const QString& refused) { return {kindOf(refused), withoutTicks(refused)}; }

template <class T>
QString joined(const QList<T>& list) {
  std::vector<Reason> reasons;
  for (const T& one : list) {
    Reason reason = reasonOf(one);
    const auto known =
        std::find_if(reasons.begin(), reasons.end(), [&](const Reason& r) { return r.kind == reason.kind; });
    if (known == reasons.end())
      reasons.push_back(std::move(reason));
    else
      ++known->count;
  }
  constexpr size_t told = 2;
  QStringList parts;
  for (size_t i = 0; i < std::min(told, reasons.size()); ++i)
    parts << reasons[i].text +
                 (reasons[i].count > 1 ? words(", and %1 more like it").arg(reasons[i].count - 1) : QString());
  if (reasons.size() > told)
    parts << counted(static_cast<qint64>(reasons.size() - told), words("other reason"), words("other reasons"));
  return parts.join(QStringLiteral("; "));
}

/// Of a long reason, as of a model that fails: how it begins, and the advice at its end. The details have all of it.
QString shortened(const QString& reason) {
  constexpr qsizetype most = 160, begin = 110;
  if (reason.size() <= most) return reason;
  const qsizetype advice = reason.lastIndexOf(QLatin1String("; "));
  const QString head = reason.left(reason.lastIndexOf(QLatin1Char(' '), begin)) + QStringLiteral(" …");
  return advice > begin && reason.size() - advice < most - begin ? head + reason.mid(advice) : head;
}

/// The node that a refusal names.
QString nodeIn(const QString& refused) {
  static const QRegularExpression node(QStringLiteral("`([^`]+)`"));
  return node.match(refused).captured(1);
}

}  // namespace

Outcome outcomeOf(const StepInfo& step) {
  const auto kept = static_cast<qsizetype>(step.records.size());
  Outcome out;
  out.isGood = kept > 0 && step.rolledBack.isEmpty() && step.refused.isEmpty();
  out.isUnverified = kept > 0 && step.isUnverified();
  QStringList parts, details;
  if (kept > 0)
    parts << words("%1 applied").arg(kept) +
                 (step.verification.isEmpty() ? QString() : QStringLiteral(", ") + shortened(step.verification));
  if (!step.gain.isEmpty()) parts << step.gain;
  if (!step.rolledBack.isEmpty())
    parts << (kept > 0 ? words("%1 taken back: %2").arg(step.rolledBack.size()) : words("0 kept: %1"))
                 .arg(joined(step.rolledBack));
  if (!step.refused.isEmpty()) parts << words("%1 refused: %2").arg(step.refused.size()).arg(joined(step.refused));
  if (parts.isEmpty()) parts << words("nothing was rewritten");
  out.text = step.label + QStringLiteral(": ") + parts.join(QStringLiteral(". "));
  for (const RolledBackInfo& r : step.rolledBack) details << words("Taken back: %1").arg(r.text);
  for (const QString& r : step.refused) details << words("Refused: %1").arg(r);
  if (shortened(step.verification) != step.verification)
    details.prepend(step.verification.left(1).toUpper() + step.verification.mid(1));
  out.details = details.join(QLatin1Char('\n'));
  for (const RolledBackInfo& r : step.rolledBack) out.places << r.node;
  for (const QString& r : step.refused) out.places << nodeIn(r);
  if (out.isGood || (step.rolledBack.isEmpty() && step.refused.isEmpty()))
    for (const RecordInfo& r : step.records)
      if (!r.added.isEmpty()) out.places << r.added.last();
  out.places.removeAll(QString());
  out.places.removeDuplicates();
  return out;
}

}  // namespace graft
