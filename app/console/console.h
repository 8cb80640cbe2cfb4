// Console: where a command's output goes. Results go to stdout, progress and diagnostics to stderr. With --json stdout
// is one JSON document.
//
//   const Console console({.json = options.json, .quiet = options.quiet});
//   console.print(table({{"rule", "matches"}, {"Attention", "6"}}));
//   console.warn("one rewrite was taken back");
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft::cli {

class Console {
 public:
  struct Options {
    bool json = false;
    bool quiet = false;
  };
  explicit Console(Options);
  /// To stdout, unless --json was given.
  void print(const std::string& text) const;
  /// To stderr, unless --quiet was given.
  void note(const std::string& text) const;
  /// To stderr, always.
  void warn(const std::string& text) const;
  /// The one document of --json, which is not printed without it.
  void document(const std::string& text) const;
  /// Reports progress on a terminal's stderr, in one line that the next text replaces; is cancelled by Ctrl-C.
  Job job() const;
  bool json() const { return options_.json; }
  /// In bold letters, where stdout is a terminal.
  std::string bold(const std::string& s) const { return colour_ ? "\033[1m" + s + "\033[0m" : s; }

 private:
  class ProgressLine;
  Options options_;
  bool colour_;
  std::shared_ptr<ProgressLine> progress_;
  CancelToken cancel_;
};

/// "12 B", "3.4 kB", "5.6 MB".
std::string bytesText(size_t n);
/// The columns of the terminal that stdout is; without limit where it is none.
size_t terminalWidth();
/// Columns padded to the widest cell, two spaces apart; the first row is underlined as a heading. Where the table is
/// wider than `most` columns, the cells of its last column end in "…"; where that is not enough, columns go into
/// further tables below it, each with the first column.
std::string table(const std::vector<std::vector<std::string>>& rows, size_t most = terminalWidth());
/// "matching 40 %", as wide as `most` columns allow. Never more than 100 %; a total of 0 is not known.
std::string progressText(std::string_view what, size_t done, size_t total, size_t most);

}  // namespace graft::cli
