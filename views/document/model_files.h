// Model files as the window's dialogs name them: the list of formats (core/formats/format_list.h) as Qt wants it.
//
//   const QString path = QFileDialog::getOpenFileName(this, tr("Open model"), folder, openFilter());
#pragma once

#include <QString>
#include <QStringList>

#include "core/formats/file_format.h"

namespace graft {

/// "Models (*.pt *.pth …);;All files (*)"
QString openFilter();
/// "TorchScript", of the name that the engine gives ("torchscript"); the name itself where no format has it.
QString formatTitle(const QString& name);
/// "TorchScript (.pt), torch.fx (.fx) or torch.export (.pt2)"
QString modelKindsText();

/// The formats in which a model can be written.
QList<const FileFormat*> writtenFormats();
/// That of the opened model, where it can be written; otherwise the first one that can.
const FileFormat& formatToWrite(const QString& ofModel);
/// ".pt2"
QString endingOf(const FileFormat&);
/// "torch.export (*.pt2)"
QString filterOf(const FileFormat&);
/// A source file: an installed one from its package on, another from the user's home on.
QString shortSourceName(const QString& file);

}  // namespace graft
