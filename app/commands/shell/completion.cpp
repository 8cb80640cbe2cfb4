// graft completion: what bash, zsh and fish need to complete graft's commands, options and files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands/options.h"
#include "app/commands/shell/command_list.h"
#include "app/version.h"

namespace graft::cli {
namespace {

using Takes = OptionHelp::Takes;

std::string withoutQuotes(std::string text) {
  // Between single quotes of a shell, where nothing but the quote itself has a meaning.
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

// Bash ----------------------------------------------------------------------------------------------------------------

std::string bashValue(const OptionHelp& o) {
  switch (o.takes) {
    case Takes::OneOf:
      return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", fmt::join(o.choices, " "));
    case Takes::File:
      return "_graft_files";
    case Takes::Folder:
      return "_graft_files -d";
    default:
      return "COMPREPLY=()";
  }
}

std::string bash(const ProgramHelp& program) {
  std::string out =
      "# bash completion for graft, made by `graft completion bash`\n"
      "_graft_files() {\n"
      "  compopt -o filenames 2>/dev/null\n"
      "  local IFS=$'\\n'\n"
      "  COMPREPLY=($(compgen \"${1:--f}\" -- \"$word\"))\n"
      "}\n"
      "_graft() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n"
      "  done\n"
      "  case $command in\n";
  std::vector<std::string> names;
  for (const CommandHelp& c : program.commands) {
    names.push_back(c.name);
    out += fmt::format("    {})\n      case $previous in\n", c.name);
    std::vector<std::string> words;
    for (const OptionHelp& o : c.options) {
      words.insert(words.end(), o.names.begin(), o.names.end());
      if (o.takes != Takes::Nothing)
        out += fmt::format("        {}) {}; return ;;\n", fmt::join(o.names, "|"), bashValue(o));
    }
    out += fmt::format(
        "      esac\n      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n      else {}\n"
        "      fi ;;\n",
        fmt::join(words, " "), c.arguments.empty() ? "COMPREPLY=()" : bashValue(c.arguments.front()));
  }
  std::vector<std::string> words;
  for (const OptionHelp& o : program.options) words.insert(words.end(), o.names.begin(), o.names.end());
  return out +
         fmt::format("    *) COMPREPLY=($(compgen -W '{} {}' -- \"$word\")) ;;\n  esac\n}}\ncomplete -F _graft graft\n",
                     fmt::join(names, " "), fmt::join(words, " "));
}

// Zsh -----------------------------------------------------------------------------------------------------------------

std::string zshText(const std::string& text) {
  std::string out;
  for (const char c : withoutQuotes(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zshValue(const OptionHelp& o) {
  const std::string name = zshText(o.placeholder.empty() ? o.names.front() : o.placeholder);
  switch (o.takes) {
    case Takes::Nothing:
      return "";
    case Takes::OneOf:
      return fmt::format(":{}:({})", name, fmt::join(o.choices, " "));
    case Takes::File:
      return fmt::format(":{}:_files", name);
    case Takes::Folder:
      return fmt::format(":{}:_files -/", name);
    case Takes::Text:
      return fmt::format(":{}: ", name);
  }
  return "";
}

std::string zsh(const ProgramHelp& program) {
  std::string out =
      "#compdef graft\n# zsh completion for graft, made by `graft completion zsh`\n_graft() {\n"
      "  local -a commands\n  commands=(\n";
  for (const CommandHelp& c : program.commands)
    out += fmt::format("    '{}:{}'\n", c.name, withoutQuotes(c.description));
  out +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n  case $command in\n";
  for (const CommandHelp& c : program.commands) {
    out += fmt::format("    {})\n      _arguments -s", c.name);
    for (const OptionHelp& o : c.options)
      for (const std::string& name : o.names)
        out += fmt::format(" \\\n        '{}{}[{}]{}'", o.isRepeated ? "*" : "", name, zshText(o.description),
                           zshValue(o));
    if (!c.arguments.empty()) out += fmt::format(" \\\n        '*{}'", zshValue(c.arguments.front()));
    out += " ;;\n";
  }
  return out + "  esac\n}\nif [ \"$funcstack[1]\" = _graft ]; then _graft \"$@\"; else compdef _graft graft; fi\n";
}

// Fish ----------------------------------------------------------------------------------------------------------------

std::string fishText(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string fish(const ProgramHelp& program) {
  std::string out = "# fish completion for graft, made by `graft completion fish`\ncomplete -c graft -f\n";
  for (const CommandHelp& c : program.commands)
    out += fmt::format("complete -c graft -n __fish_use_subcommand -a {} -d '{}'\n", c.name, fishText(c.description));
  for (const CommandHelp& c : program.commands) {
    const std::string when = fmt::format("complete -c graft -n '__fish_seen_subcommand_from {}'", c.name);
    for (const OptionHelp& o : c.options) {
      out += when;
      for (const std::string& name : o.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (o.takes == Takes::File) out += " -r -F";
      if (o.takes == Takes::Folder) out += " -x -a '(__fish_complete_directories)'";
      if (o.takes == Takes::Text) out += " -x";
      if (o.takes == Takes::OneOf) out += fmt::format(" -x -a '{}'", fmt::join(o.choices, " "));
      out += fmt::format(" -d '{}'\n", fishText(o.description));
    }
    if (c.arguments.empty()) continue;
    const OptionHelp& argument = c.arguments.front();
    out +=
        when + (argument.takes == Takes::OneOf ? fmt::format(" -a '{}'\n", fmt::join(argument.choices, " ")) : " -F\n");
  }
  return out;
}

}  // namespace

void addCompletion(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("completion", "Print what a shell needs to complete commands, options and files");
  auto shell = std::make_shared<std::string>();
  c->add_option("shell", *shell, "The shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  c->footer(
      "A package or a wheel that is installed has these files already. Else:\n"
      "  bash: graft completion bash > ~/.local/share/bash-completion/completions/graft\n"
      "  zsh:  graft completion zsh > a folder of $fpath, as _graft\n"
      "  fish: graft completion fish > ~/.config/fish/completions/graft.fish");
  c->callback([&app, &run, shell] {
    run = [&app, shell]() -> Status {
      const ProgramHelp help = programHelp(app, versionText());
      fmt::print("{}", *shell == "bash" ? bash(help) : *shell == "zsh" ? zsh(help) : fish(help));
      return done();
    };
  });
}

}  // namespace graft::cli
