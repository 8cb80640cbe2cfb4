// The importers of each format behind importModel, and what they share.
#pragma once

#include <memory>

#include "core/torch/model.h"
#include "core/torch/zip_directory.h"

namespace graft {

struct Source {
  std::shared_ptr<MappedFile> file;
  ZipDirectory zip;
  std::string path;
};

Result<Model> importTorchScript(const Source&, const Semantics&, const ImportOptions&);
Result<Model> importTorchExport(const Source&, const Semantics&);
Result<Model> importFx(const Source&, const Semantics&, const ImportOptions&);

/// Fills in constructor values of torch.nn modules from their weights' shapes and their nodes' arguments.
void inferConstructors(Graph&);

/// Fills in what the types of the inputs and weights say about values whose types the file does not give.
void inferMissingTypes(Graph&);
/// The same where all that is known of the inputs is one recorded run. Its dtypes and ranks are facts, its sizes are
/// not: each dimension of an input becomes a symbol, which stands for any size from 2 up, as in torch.export. Where an
/// operator refuses that, symbols whose sizes were equal become one; where it still does, they become the size itself:
/// the code runs with nothing else. What then is not known beforehand has its dtype and rank from the recorded run.
void inferFromExamples(Graph&, const std::vector<Type>& examples);

/// Brings a freshly imported graph into the normal form of core/ir/normal_form.h. Linear in the graph's size.
Status normalizeImported(Graph&, const OperatorSet&);

}  // namespace graft
