// graft man: the manual pages, graft(1) and one for each command, from what --help prints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "app/commands/options.h"
#include "app/commands/shell/command_list.h"
#include "app/version.h"
#include "core/base/atomic_file.h"

namespace graft::cli {
namespace {

/// Text for troff: no dash becomes a hyphen, no line begins with a request.
std::string plain(const std::string& text) {
  std::string out;
  bool atBegin = true;
  for (const char c : text) {
    if (atBegin && (c == '.' || c == '\'')) out += "\\&";
    atBegin = c == '\n';
    if (c == '-')
      out += "\\-";
    else if (c == '\\')
      out += "\\e";
    else
      out += c;
  }
  return out;
}

std::string heading(const std::string& page, const std::string& version) {
  std::string name = page;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(toupper(c)); });
  return fmt::format(".TH \"{}\" 1 \"\" \"{}\" \"Graft\"\n", plain(name), plain(version));
}

std::string optionText(const OptionHelp& o) {
  std::string out = fmt::format(".TP\n\\fB{}\\fR", plain(fmt::format("{}", fmt::join(o.names, ", "))));
  if (!o.placeholder.empty())
    out += fmt::format(" \\fI{}\\fR",
                       plain(o.choices.empty() ? o.placeholder : fmt::format("{}", fmt::join(o.choices, "|"))));
  out += "\n" + plain(o.description) + ".";
  if (o.isRequired) out += " Needed.";
  if (!o.standard.empty()) out += fmt::format(" Without it: {}.", plain(o.standard));
  return out + "\n";
}

std::string optionsText(const std::vector<OptionHelp>& options) {
  std::string out;
  for (const OptionHelp& o : options) out += optionText(o);
  return out;
}

std::string footerText(const std::string& footer, const std::string& title) {
  return footer.empty() ? "" : fmt::format(".SH {}\n.nf\n{}\n.fi\n", title, plain(footer));
}

std::string programPage(const ProgramHelp& p) {
  std::string out = heading(p.name, p.version);
  out +=
      fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n\\fB{}\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIMODEL\\fR]\n",
                  p.name, plain(p.description), p.name);
  out += ".SH COMMANDS\n";
  for (const CommandHelp& c : p.commands)
    out += fmt::format(".TP\n\\fB{0}\\fR\n{1}. See \\fBgraft\\-{0}\\fR(1).\n", plain(c.name), plain(c.description));
  return out + ".SH OPTIONS\n" + optionsText(p.options) + footerText(p.footer, "EXIT STATUS");
}

std::string commandPage(const CommandHelp& c, const ProgramHelp& p) {
  const std::string page = p.name + "-" + c.name;
  std::string out = heading(page, p.version);
  out += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n\\fBgraft {}\\fR [\\fIOPTIONS\\fR]", plain(page),
                     plain(c.description), plain(c.name));
  for (const OptionHelp& a : c.arguments) {
    const std::string shown =
        plain(a.placeholder.empty() || a.takes == OptionHelp::Takes::OneOf ? a.names.front() : a.placeholder);
    const std::string named = fmt::format("\\fI{}\\fR{}", shown, a.isRepeated ? " ..." : "");
    out += a.isRequired ? " " + named : " [" + named + "]";
  }
  out += "\n.SH OPTIONS\n" + optionsText(c.arguments) + optionsText(c.options);
  return out + footerText(c.footer, "NOTES") + ".SH SEE ALSO\n\\fBgraft\\fR(1)\n";
}

Status writePages(const ProgramHelp& p, const std::string& folder) {
  std::error_code e;
  std::filesystem::create_directories(folder, e);
  if (e) return badInput(fmt::format("the folder {} cannot be made: {}", folder, e.message()));
  if (Status s = writeFileAtomically(folder + "/graft.1", programPage(p)); !s) return s;
  for (const CommandHelp& c : p.commands)
    if (Status s = writeFileAtomically(fmt::format("{}/graft-{}.1", folder, c.name), commandPage(c, p)); !s) return s;
  return done();
}

}  // namespace

void addMan(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("man", "Print the manual page of a command, or write all pages to a folder");
  struct Flags {
    std::string command, folder;
  };
  auto o = std::make_shared<Flags>();
  c->add_option("command", o->command, "The command; without it, the page of graft itself")->type_name("COMMAND");
  c->add_option("-o,--output", o->folder, "Write the pages of all commands to this folder")->type_name("FOLDER");
  c->footer("To read one: graft man apply | man -l -");
  c->callback([&app, &run, o] {
    run = [&app, o]() -> Status {
      const ProgramHelp help = programHelp(app, versionText());
      if (!o->folder.empty()) return writePages(help, o->folder);
      if (o->command.empty()) {
        fmt::print("{}", programPage(help));
        return done();
      }
      for (const CommandHelp& command : help.commands)
        if (command.name == o->command) {
          fmt::print("{}", commandPage(command, help));
          return done();
        }
      return Error{ErrorKind::Usage, fmt::format("there is no command {}; `graft --help` lists them", o->command), {}};
    };
  });
}

}  // namespace graft::cli
