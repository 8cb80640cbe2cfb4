// ArchiveMetadata: what Graft writes beside a program, in the archive's extra record graft.json, because the program's
// own format has no place for it. A file without metadata is complete. With it, reading gives the graph that was
// written, down to its names. A file may lie about all of it: readers ignore what does not fit the program.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/archive/zip_directory.h"
#include "core/ir/graph.h"
#include "core/torch/operator_library.h"

namespace graft {

struct ArchiveMetadata {
  std::string operatorLibrary;               ///< of the graft:: operators; empty where the graph has none
  std::vector<UserLibrary> libraries;        ///< of the user's own operators
  std::string model;                         ///< the graph's name, where the class has another
  std::vector<std::string> inputs;           ///< their types, as the canonical text has them
  std::vector<std::string> blockParameters;  ///< names, in the order of the text
  std::vector<std::string>
      blockResults;  ///< names of the values that blocks return; empty for a result that is no value
  std::map<std::string, std::string> names;                    ///< identifier in the code -> value, where they differ
  std::string result;                                          ///< the returned value, where there is only one
  std::map<std::string, std::string> weights;                  ///< path -> name, where the path does not say it
  std::vector<std::pair<std::string, std::string>> constants;  ///< path and name, in the order of first use
  /// Attribute -> path and name of the constant that is kept there, so that it moves with the module.
  std::map<std::string, std::pair<std::string, std::string>> placedConstants;
  std::string device;                          ///< the graph's name for the device that the code reads from the module
  std::map<std::string, std::string> types;    ///< value -> type, where it does not follow from the inputs'
  std::map<std::string, std::string> aliases;  ///< attribute that refers to a module of another path -> that path
  std::vector<std::string> calls;              ///< for torch.export: each call's nn_module_stack, in order
  std::vector<Symbol> symbols;  ///< the ranges of the graph's symbols, where the program does not say them
  std::string calling;          ///< the graph's callingText, where the program does not say it
  std::map<std::string, std::string> modules;  ///< path -> "type(name=value, ...)" where code cannot say it
};

std::string metadataJson(const ArchiveMetadata&);
/// The metadata of an archive; nothing where it has none.
std::optional<ArchiveMetadata> readMetadata(const ZipDirectory&);

/// Collects what the graph's operators alone do not say: types that do not follow from the inputs', modules' types and
/// constructors (`typeInCode` is the type that the code gives a module), names of weights.
void collectFacts(const Graph&, const std::map<std::string, std::string>& typeInCode, ArchiveMetadata&);
/// Writes these facts into a graph that was just read from the file of that metadata.
void applyFacts(const ArchiveMetadata&, Graph&);
/// Renames the values. Where several get one name, or another value has it, the later ones are numbered.
void applyNames(Graph&, const std::vector<std::pair<ValueId, std::string>>& names);

}  // namespace graft
