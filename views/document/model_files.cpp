#include "views/document/model_files.h"

#include <QCoreApplication>
#include <QDir>

#include "core/formats/format_list.h"

namespace graft {
namespace {

QString text(std::string_view s) { return QString::fromUtf8(s.data(), static_cast<qsizetype>(s.size())); }

}  // namespace

QString openFilter() {
  return QCoreApplication::translate("ModelFiles", "Models (%1);;All files (*)").arg(text(modelPatterns()));
}

QString formatTitle(const QString& name) {
  const FileFormat* format = findFileFormat(name.toStdString());
  return format ? text(format->title) : name;
}

QString modelKindsText() { return text(modelKinds()); }

QList<const FileFormat*> writtenFormats() {
  QList<const FileFormat*> out;
  for (const FileFormat& f : fileFormats)
    if (f.canWrite) out << &f;
  return out;
}

const FileFormat& formatToWrite(const QString& ofModel) {
  const FileFormat* own = findFileFormat(ofModel.toStdString());
  return own && own->canWrite ? *own : *writtenFormats().first();
}

QString endingOf(const FileFormat& format) { return text(format.ending); }

QString filterOf(const FileFormat& format) {
  return text(format.title) + QStringLiteral(" (*") + text(format.ending) + QLatin1Char(')');
}

QString shortSourceName(const QString& file) {
  const QString packages = QStringLiteral("-packages/"), home = QDir::homePath() + QLatin1Char('/');
  if (const qsizetype at = file.lastIndexOf(packages); at >= 0) return file.mid(at + packages.size());
  return file.startsWith(home) ? QStringLiteral("~/") + file.mid(home.size()) : file;
}

}  // namespace graft
