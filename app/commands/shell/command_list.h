// The commands and their options as plain data, read from what prints --help, so that completions and manual pages say
// the same.
//
//   const ProgramHelp help = programHelp(app);
//   help.commands[0].options[0].names   // {"-o", "--output"}
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace graft::cli {

struct OptionHelp {
  enum class Takes { Nothing, Text, File, Folder, OneOf };
  std::vector<std::string> names;  ///< with their dashes, the short one first; of an argument without dashes its name
  std::string placeholder;         ///< "FILE.json"; empty for a flag
  std::string description;
  std::vector<std::string> choices;  ///< of Takes::OneOf
  Takes takes = Takes::Nothing;
  bool isRequired = false;
  bool isRepeated = false;
  std::string standard;  ///< the value where it is not given; may be empty
};

struct CommandHelp {
  std::string name, description, footer;
  std::vector<OptionHelp> options, arguments;
};

struct ProgramHelp {
  std::string name, description, footer, version;
  std::vector<OptionHelp> options;
  std::vector<CommandHelp> commands;
};

ProgramHelp programHelp(const CLI::App&, const std::string& version);

}  // namespace graft::cli
