// What a format's reader gets, and the end of import that all readers share.
//
//   Result<Model> FxFormat::read(const Source& source, const Semantics& semantics, const ImportOptions& options) {
//     Model m = …;                                              // its graph as the file has it
//     if (Status s = finishImport(m, source, semantics, {.inferTypes = false}); !s) return s.error();
//     return m;
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/archive/zip_directory.h"
#include "core/formats/metadata.h"
#include "core/formats/model.h"
#include "core/torch/normal/imported_graph.h"

namespace graft {

/// The file that is read. `zip` is empty for formats that are no archive.
struct Source {
  std::shared_ptr<MappedFile> file;
  ZipDirectory zip;
  std::string path;
  /// Where it is wanted: the graph as the file has it, before the normal form.
  std::shared_ptr<const Graph>* captured = nullptr;
};

/// What differs at the end of import from file to file. The defaults suit a file that says nothing about types.
struct FinishOptions {
  /// The graph is already in the normal form, with all types, and verified: nothing is done to it.
  bool isFinished = false;
  /// The file is in torch.export's decomposed dialect: first put linear layers, norms and attention together again.
  bool isDecomposed = false;
  /// For normalizeImported: takes the results that keep their names, and returns what became of writes in place.
  Functionalised* functionalised = nullptr;
  std::function<void()> afterNormalForm = {};               ///< what the reader adds to the normalised graph
  std::vector<std::pair<ValueId, std::string>> names = {};  ///< for values, where the file gives names
  bool inferTypes = true;                                   ///< false: the file gives all types that it can
  std::vector<Type> examples = {};            ///< types of the inputs in a recorded run, where nothing else is known
  const ArchiveMetadata* metadata = nullptr;  ///< where Graft wrote the file
};

/// Brings the graph into the normal form, infers what the file does not say (modules' constructors, types), applies the
/// file's own facts, orders declarations, and verifies the graph. Fills in all of the model but its format.
Status finishImport(Model&, const Source&, const Semantics&, const FinishOptions& = {});

}  // namespace graft
