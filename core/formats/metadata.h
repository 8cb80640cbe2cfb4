// ArchiveMetadata: what Graft writes beside a program, in the archive's extra record graft.json, because the program's
// own format has no place for it. A file without the note is complete; with it, reading gives the graph that was
// written, down to its names. Everything in it is a claim of the file: what does not fit the program is passed over.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/archive/zip_directory.h"
#include "core/ir/graph.h"

namespace graft {

struct ArchiveMetadata {
  std::string operatorLibrary;                 ///< that the graft:: operators come from; empty where there are none
  std::string model;                           ///< the graph's name, where the class has another
  std::vector<std::string> inputs;             ///< their types, as the canonical text has them
  std::vector<std::string> blockParameters;    ///< names, in the order of the text
  std::vector<std::string> blockResults;       ///< names of what blocks return, likewise; empty for what is no value
  std::map<std::string, std::string> names;    ///< identifier in the code -> value, where they differ
  std::string result;                          ///< the value that is returned, where it is one alone
  std::map<std::string, std::string> weights;  ///< path -> name, where the path does not say it
  std::vector<std::pair<std::string, std::string>> constants;  ///< path and name, in the order of first use
  /// Attribute -> path and name of the constant that is kept there, so that it moves with the module.
  std::map<std::string, std::pair<std::string, std::string>> placedConstants;
  std::string device;                          ///< what the graph calls the place that the code asks of the module
  std::map<std::string, std::string> types;    ///< value -> type, where it does not follow from the inputs'
  std::map<std::string, std::string> aliases;  ///< attribute that refers to a module of another path -> that path
  std::vector<std::string> calls;              ///< of torch.export: each call's nn_module_stack, in order
  std::vector<Symbol> symbols;  ///< the ranges of the graph's symbols, where the program does not say them
  std::map<std::string, std::string> modules;  ///< path -> "type(name=value, ...)" where code cannot say it
};

std::string metadataJson(const ArchiveMetadata&);
/// The note of an archive; nothing where it has none.
std::optional<ArchiveMetadata> readNote(const ZipDirectory&);

/// What of the graph its operators alone do not say: types that do not follow from the inputs', modules' types and
/// constructors (`typeInCode` is the type that the code gives a module), names of weights.
void noteFacts(const Graph&, const std::map<std::string, std::string>& typeInCode, ArchiveMetadata&);
/// The other way, for a graph that was just read from the file of that note.
void applyFacts(const ArchiveMetadata&, Graph&);
/// Gives values their names; each name once, whatever names are taken.
void applyNames(Graph&, const std::vector<std::pair<ValueId, std::string>>& names);

}  // namespace graft
