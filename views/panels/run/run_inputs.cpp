#include "views/panels/run/run_inputs.h"

#include <QDir>
#include <QHash>
#include <QRegularExpression>

#include "views/document/graph_decode.h"

namespace graft {
namespace {

constexpr size_t mostSets = 64;

/// "f32[B,128]:randn" with B's size in its place; `unknown` gets a name that has none.
QString withSizes(const QString& spec, const QHash<QString, QString>& sizes, QString& unknown) {
  const qsizetype open = spec.indexOf(QLatin1Char('[')), close = spec.indexOf(QLatin1Char(']'), open);
  if (open < 0 || close < 0) return spec;
  QStringList dims = spec.mid(open + 1, close - open - 1).split(QLatin1Char(','), Qt::SkipEmptyParts);
  for (QString& d : dims) {
    d = d.trimmed();
    bool isNumber = false;
    d.toLongLong(&isNumber);
    if (isNumber) continue;
    if (!sizes.contains(d)) unknown = d;
    d = sizes.value(d);
  }
  return spec.left(open + 1) + dims.join(QLatin1Char(',')) + spec.mid(close);
}

}  // namespace

QString homeAsTilde(const QString& path) {
  const QString home = QDir::homePath() + QLatin1Char('/');
  return path.startsWith(home) ? QStringLiteral("~/") + path.mid(home.size()) : path;
}

RunInputs parseRunInputs(const QString& line) {
  RunInputs out;
  const QString text = line.trimmed();
  if (text.isEmpty()) {
    out.sets.push_back({});
    return out;
  }
  if (!text.contains(QLatin1Char('[')) && (text.endsWith(QLatin1String(".pt")) || text.contains(QLatin1Char('/')) ||
                                           text.endsWith(QLatin1String(".pth")))) {
    out.file = text.startsWith(QLatin1String("~/")) ? QDir::homePath() + text.mid(1) : text;
    return out;
  }
  static const QRegularExpression size(QStringLiteral("^([A-Za-z_]\\w*)=(\\d+(?:,\\d+)*)$"));
  QStringList specs, names;
  QHash<QString, QStringList> values;
  for (const QString& word : text.split(QRegularExpression(QStringLiteral("\\s+")), Qt::SkipEmptyParts)) {
    const QRegularExpressionMatch match = size.match(word);
    if (!match.hasMatch()) {
      if (word.contains(QLatin1Char('=')) && !word.contains(QLatin1Char('['))) {
        out.error = QStringLiteral("%1 is no size: write it as B=8, or B=1,8,32 to sweep").arg(word);
        return out;
      }
      specs << word;
      continue;
    }
    if (!names.contains(match.captured(1))) names << match.captured(1);
    values[match.captured(1)] = match.captured(2).split(QLatin1Char(','));
  }
  std::vector<QHash<QString, QString>> combinations{{}};
  for (const QString& name : names) {
    std::vector<QHash<QString, QString>> more;
    for (const auto& c : combinations)
      for (const QString& v : values[name]) {
        more.push_back(c);
        more.back().insert(name, v);
      }
    combinations = std::move(more);
    if (combinations.size() > mostSets) {
      out.error = QStringLiteral("these sizes make more than %1 runs").arg(mostSets);
      return out;
    }
  }
  for (const auto& c : combinations) {
    RunInputs::Set set;
    QStringList label;
    for (const QString& name : names)
      if (values[name].size() > 1) label << name + QLatin1Char('=') + c[name];
    set.label = label.join(QLatin1Char(' '));
    QString unknown;
    for (const QString& spec : specs) set.specs << withSizes(spec, c, unknown);
    if (!unknown.isEmpty()) {
      out.sets.clear();
      out.error = QStringLiteral("how large is %1? Add %1=8, or %1=1,8,32 to sweep").arg(unknown);
      return out;
    }
    out.sets.push_back(std::move(set));
  }
  return out;
}

QString specificationOf(const Graph& g) {
  QStringList specs, sizes;
  QHash<QString, QString> known;
  for (const ValueId v : g.inputs()) {
    const TensorInfo& t = g.value(v).type.tensorInfo;
    if (!g.value(v).type.isTensor() || !t.shape) return {};
    QStringList dims;
    for (const Dim& d : *t.shape) {
      if (d.isStatic()) {
        dims << QString::number(d.size);
        continue;
      }
      static const QRegularExpression plain(QStringLiteral("^[A-Za-z_]\\w*$"));
      QString name = toQt(d.symbol);
      if (!plain.match(name).hasMatch()) name = QStringLiteral("N%1").arg(sizes.size());
      if (!known.contains(name)) {
        known.insert(name, name);
        sizes << name + QStringLiteral("=8");
      }
      dims << name;
    }
    specs << toQt(dtypeShort(t.dtype.value_or(DType::Float32))) + QLatin1Char('[') + dims.join(QLatin1Char(',')) +
                 QLatin1Char(']');
  }
  return (specs + sizes).join(QLatin1Char(' '));
}

}  // namespace graft
