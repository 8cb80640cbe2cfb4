// Console: where a command's output goes. Results go to stdout, progress and diagnostics to stderr. With --json stdout
// is one JSON document.
//
//   const Console console({.json = options.json, .quiet = options.quiet});
//   console.print(table({{"rule", "matches"}, {"Attention", "6"}}));
//   console.warn("one rewrite was taken back");
#pragma once

#include <string>
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
  /// Reports progress on a terminal's stderr, in place; is cancelled by Ctrl-C.
  Job job() const;
  bool json() const { return options_.json; }
  /// In bold letters, where stdout is a terminal.
  std::string bold(const std::string& s) const { return colour_ ? "\033[1m" + s + "\033[0m" : s; }

 private:
  Options options_;
  bool colour_, progress_;
  CancelToken cancel_;
};

/// Columns padded to the widest cell, two spaces apart; the first row is underlined as a heading.
std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace graft::cli
