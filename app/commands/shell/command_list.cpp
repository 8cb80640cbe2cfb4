#include "app/commands/shell/command_list.h"

#include <algorithm>

namespace graft::cli {
namespace {

/// "TEXT:{light,dark}" is how CLI11 writes a choice.
std::vector<std::string> choicesOf(const std::string& type) {
  std::vector<std::string> out;
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return out;
  for (size_t at = open + 1; at <= close;) {
    const size_t end = std::min(type.find(',', at), close);
    out.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

OptionHelp::Takes takesOf(const std::string& placeholder, bool isArgument) {
  const auto has = [&](const char* word) { return placeholder.find(word) != std::string::npos; };
  if (has("FOLDER")) return OptionHelp::Takes::Folder;
  // Names in capitals with an ending, OUT.pt, are files.
  if (has("FILE") || has("MODEL") || has("OTHER") || has(".") || isArgument) return OptionHelp::Takes::File;
  return OptionHelp::Takes::Text;
}

OptionHelp optionHelp(const CLI::Option& option) {
  OptionHelp out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  const bool isArgument = out.names.empty();
  if (isArgument) out.names.push_back(option.get_single_name());
  out.description = option.get_description();
  out.isRequired = option.get_required();
  out.standard = option.get_default_str();
  if (option.get_type_size_max() == 0) return out;
  const std::string type = option.get_type_name();
  out.placeholder = type.substr(0, type.find(':'));
  if (const size_t range = out.placeholder.find(' '); range != std::string::npos) out.placeholder.resize(range);
  out.choices = choicesOf(type);
  out.takes = out.choices.empty() ? takesOf(out.placeholder, isArgument) : OptionHelp::Takes::OneOf;
  out.isRepeated = option.get_items_expected_max() > 1;
  return out;
}

void describe(const CLI::App& app, std::vector<OptionHelp>& options, std::vector<OptionHelp>& arguments) {
  for (const CLI::Option* option : app.get_options({})) {
    if (option->get_group().empty()) continue;  // hidden
    OptionHelp help = optionHelp(*option);
    (option->get_positional() ? arguments : options).push_back(std::move(help));
  }
}

}  // namespace

ProgramHelp programHelp(const CLI::App& app, const std::string& version) {
  ProgramHelp out{"graft", app.get_description(), app.get_footer(), version, {}, {}};
  std::vector<OptionHelp> none;
  describe(app, out.options, none);
  for (const CLI::App* command : app.get_subcommands({})) {
    CommandHelp help{command->get_name(), command->get_description(), command->get_footer(), {}, {}};
    describe(*command, help.options, help.arguments);
    out.commands.push_back(std::move(help));
  }
  return out;
}

}  // namespace graft::cli
